//! What a sample looks like in memory: its fields, and where each lies in the slab of a batch.
//!
//! A field is stored for all rows of the batch together (`[rows, …shape]`, contiguous), at an offset aligned
//! to 64 bytes, so that a finished field is a tensor without a copy. A *fixed* field has one shape for every
//! sample. A *ragged* field varies along its first axis; its rows are gathered when the batch is closed,
//! padded or as values with offsets.

use crate::{DType, Element};

/// Fields start at multiples of this many bytes.
pub const ALIGN: usize = 64;

/// One tensor of a sample.
///
/// ```
/// use feedline_core::Field;
/// let image = Field::fixed::<f32>("image", [3, 224, 224]);
/// let tokens = Field::ragged::<i64>("tokens", []).pad_to_longest(0i64);
/// let boxes = Field::ragged::<f32>("boxes", [4]); // any number of boxes, as values + offsets
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    ragged: Option<Ragged>,
    /// Bytes of one row, or of one entry of a ragged row; `None` if they are more than can be counted.
    bytes: Option<usize>,
}

/// How the rows of a ragged field come together in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ragged {
    /// All values one after the other, and the offset at which each row begins.
    Offsets,
    /// Every row as long as the longest of the batch, filled up with an element of these bytes.
    PadToLongest([u8; 8]),
    /// Every row of this length, filled up with an element of these bytes; a longer row is an error.
    PadTo(usize, [u8; 8]),
}

impl Field {
    /// A field of the same shape in every sample; a scalar has the shape `[]`.
    pub fn fixed<T: Element>(name: impl Into<String>, shape: impl Into<Vec<usize>>) -> Self {
        Self::dynamic(name, T::DTYPE, shape)
    }

    /// A field of any length along its first axis; `shape` is that of one entry (`[]` for plain numbers).
    /// Batches hold values and offsets, unless padding is asked for.
    pub fn ragged<T: Element>(name: impl Into<String>, shape: impl Into<Vec<usize>>) -> Self {
        Self { ragged: Some(Ragged::Offsets), ..Self::fixed::<T>(name, shape) }
    }

    /// A fixed field whose type is known only at run time.
    pub fn dynamic(name: impl Into<String>, dtype: DType, shape: impl Into<Vec<usize>>) -> Self {
        let shape = shape.into();
        let bytes = shape.iter().try_fold(dtype.size(), |bytes, axis| bytes.checked_mul(*axis));
        Self { name: name.into(), dtype, shape, ragged: None, bytes }
    }

    /// Makes the field ragged, padded to the longest row of each batch.
    #[must_use]
    pub fn pad_to_longest<T: Element>(self, value: T) -> Self {
        Self { ragged: Some(Ragged::PadToLongest(pad_bytes(value))), ..self }
    }

    /// Makes the field ragged, padded to this length; a longer row is an error of its sample.
    #[must_use]
    pub fn pad_to<T: Element>(self, length: usize, value: T) -> Self {
        Self { ragged: Some(Ragged::PadTo(length, pad_bytes(value))), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of its elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape in one sample; of a ragged field, the shape of one entry.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How its rows come together, if it is ragged.
    #[inline]
    pub fn raggedness(&self) -> Option<Ragged> {
        self.ragged
    }

    /// Bytes of one row, or of one entry of a ragged row.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.unwrap_or(usize::MAX)
    }
}

fn pad_bytes<T: Element>(value: T) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
    bytes
}

/// A layout that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// There is nothing to load.
    #[error("a layout needs at least one field")]
    NoFields,
    /// A bit mask keeps track of what a row has been given.
    #[error("{0} fields are more than the 64 a sample can have; put what has the same type into one field")]
    TooManyFields(usize),
    /// Two fields cannot be told apart.
    #[error("two fields are called {0:?}; give each a name of its own")]
    DuplicateName(String),
    /// The number of bytes overflows.
    #[error("{rows} rows of this layout are more bytes than an address can reach; check the shapes")]
    TooLarge {
        /// The number of rows.
        rows: usize,
    },
}

/// The fields of a sample.
///
/// ```
/// use feedline_core::{Field, Layout};
/// let layout = Layout::new([Field::fixed::<u8>("image", [28, 28]), Field::fixed::<i64>("label", [])])?;
/// assert_eq!(layout.bytes(64)?, 28 * 28 * 64 + 8 * 64);
/// # Ok::<(), feedline_core::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    fields: Vec<Field>,
    ragged: bool,
}

impl Layout {
    /// Checks the fields.
    pub fn new(fields: impl Into<Vec<Field>>) -> Result<Self, LayoutError> {
        let fields = fields.into();
        match fields.len() {
            0 => return Err(LayoutError::NoFields),
            1..=64 => {}
            count => return Err(LayoutError::TooManyFields(count)),
        }
        for (at, field) in fields.iter().enumerate() {
            if fields[..at].iter().any(|other| other.name == field.name) {
                return Err(LayoutError::DuplicateName(field.name.clone()));
            }
        }
        let layout = Self { ragged: fields.iter().any(|field| field.ragged.is_some()), fields };
        layout.bytes(1).map(|_| layout)
    }

    /// The fields.
    #[inline]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// Whether any field is ragged.
    #[inline]
    pub fn is_ragged(&self) -> bool {
        self.ragged
    }

    /// Bytes of the fixed fields of a batch of `rows` rows.
    pub fn bytes(&self, rows: usize) -> Result<usize, LayoutError> {
        self.ends(rows).last().expect("a layout has at least one field")
    }

    /// Puts the offsets of the fields in a batch of `rows` rows into `offsets`; a ragged one has no bytes.
    pub(crate) fn offsets_into(&self, rows: usize, offsets: &mut Vec<usize>) -> Result<usize, LayoutError> {
        offsets.clear();
        let mut start = 0;
        for end in self.ends(rows) {
            offsets.push(start);
            start = end?;
        }
        Ok(start)
    }

    /// Where each field ends, rounded up to where the next may begin.
    fn ends(&self, rows: usize) -> impl Iterator<Item = Result<usize, LayoutError>> {
        self.fields.iter().scan(Some(0usize), move |end, field| {
            let bytes = match field.ragged {
                None => field.bytes.and_then(|bytes| bytes.checked_mul(rows)),
                Some(_) => field.bytes.map(|_| 0),
            };
            *end = (|| bytes?.checked_add((*end)?)?.checked_next_multiple_of(ALIGN))()
                .filter(|end| isize::try_from(*end).is_ok());
            Some(end.ok_or(LayoutError::TooLarge { rows }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_start_at_aligned_offsets() {
        let fields =
            [Field::fixed::<u8>("a", [3]), Field::ragged::<f32>("b", []), Field::fixed::<f64>("c", [])];
        let layout = Layout::new(fields).unwrap();
        let mut offsets = Vec::new();
        assert_eq!(layout.offsets_into(30, &mut offsets), Ok(128 + 256));
        assert_eq!(offsets, [0, 128, 128]);
    }

    #[test]
    fn impossible_layouts_are_refused() {
        assert_eq!(Layout::new([]), Err(LayoutError::NoFields));
        let twice = [Field::fixed::<u8>("a", []), Field::fixed::<u8>("a", [])];
        assert_eq!(Layout::new(twice), Err(LayoutError::DuplicateName("a".into())));
        let huge = Field::fixed::<u8>("a", [usize::MAX / 2, 3]);
        assert_eq!(Layout::new([huge]), Err(LayoutError::TooLarge { rows: 1 }));
        let large = Layout::new([Field::fixed::<u8>("a", [1 << 40])]).unwrap();
        assert_eq!(large.bytes(1 << 40), Err(LayoutError::TooLarge { rows: 1 << 40 }));
        let many: Vec<Field> = (0..65).map(|n| Field::fixed::<u8>(n.to_string(), [])).collect();
        assert_eq!(Layout::new(many), Err(LayoutError::TooManyFields(65)));
    }
}
