//! A row of a batch, as the dataset that writes it sees it.

use std::ops::Range;

use bytemuck::{AnyBitPattern, NoUninit};

use crate::{DType, Element, Field, Layout, Ragged, Tray, tray::Cell};

/// What went wrong between a dataset and its row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The layout has no such field.
    #[error("there is no field {0}; the layout has {1}")]
    NoSuchField(String, String),
    /// The elements are of another type.
    #[error("field {field:?} holds {expected}, not {got}")]
    DType {
        /// The field.
        field: String,
        /// The type in the layout.
        expected: DType,
        /// The type given.
        got: DType,
    },
    /// The number of elements is not that of the field.
    #[error(
        "field {field:?} has {expected} elements in every sample, but this one has {got}; make it ragged if its length varies"
    )]
    Length {
        /// The field.
        field: String,
        /// Elements of a row, or of one entry of a ragged row.
        expected: usize,
        /// Elements given.
        got: usize,
    },
    /// A ragged row cannot be divided into entries.
    #[error("a row of field {field:?} must be a multiple of {entry} elements, but this one has {got}")]
    Entries {
        /// The field.
        field: String,
        /// Elements of one entry.
        entry: usize,
        /// Elements given.
        got: usize,
    },
    /// A row is longer than the length all rows are padded to.
    #[error("a row of field {field:?} has {got} entries, more than the {limit} it is padded to; truncate it")]
    TooLong {
        /// The field.
        field: String,
        /// The length rows are padded to.
        limit: usize,
        /// The length of this one.
        got: usize,
    },
    /// Only rows of a fixed field can be written in place.
    #[error("field {0:?} is ragged and cannot be written in place; use `write`")]
    InPlace(String),
    /// A field was left out.
    #[error("the dataset did not write field {0:?} of this sample")]
    NotWritten(String),
}

/// A field by number or by name.
pub trait FieldKey {
    /// The field's number in the layout.
    fn find(&self, layout: &Layout) -> Result<usize, RowError>;
}

impl FieldKey for usize {
    #[inline]
    fn find(&self, layout: &Layout) -> Result<usize, RowError> {
        if *self < layout.fields().len() { Ok(*self) } else { Err(no_such_field(self.to_string(), layout)) }
    }
}

impl FieldKey for &str {
    fn find(&self, layout: &Layout) -> Result<usize, RowError> {
        layout.find(self).ok_or_else(|| no_such_field(format!("{self:?}"), layout))
    }
}

impl FieldKey for &String {
    fn find(&self, layout: &Layout) -> Result<usize, RowError> {
        FieldKey::find(&self.as_str(), layout)
    }
}

fn no_such_field(key: String, layout: &Layout) -> RowError {
    let names: Vec<&str> = layout.fields().iter().map(Field::name).collect();
    RowError::NoSuchField(key, names.join(", "))
}

/// Rows of a batch that one worker has taken.
#[derive(Debug)]
pub struct RowsMut<'a> {
    tray: &'a Tray,
    rows: Range<usize>,
}

impl<'a> RowsMut<'a> {
    /// Rows of which the tray knows that nobody else has them.
    pub(crate) fn new(tray: &'a Tray, rows: Range<usize>) -> Self {
        Self { tray, rows }
    }

    /// One of the rows, by its number in the batch, to be written from the beginning.
    ///
    /// # Panics
    /// If it is not one of the rows taken.
    #[inline]
    pub fn row(&mut self, row: usize) -> RowMut<'_> {
        assert!(self.rows.contains(&row), "row {row} is not among {:?}", self.rows);
        let ragged = self.tray.layout.is_ragged().then(|| {
            // SAFETY: these rows were taken by `self` alone, and `&mut self` lends out one of them at a time.
            let cell = unsafe { &mut *self.tray.cells[row].get() };
            cell.resize_with(self.tray.layout.fields().len(), Vec::new);
            cell.iter_mut().for_each(Vec::clear);
            cell
        });
        RowMut { tray: self.tray, row, written: 0, ragged }
    }
}

/// A row of a batch, to be written. Every field must be.
#[derive(Debug)]
pub struct RowMut<'a> {
    tray: &'a Tray,
    row: usize,
    /// A bit for every field that has been written.
    written: u64,
    /// Where ragged fields go, if the layout has any.
    ragged: Option<&'a mut Cell>,
}

impl RowMut<'_> {
    /// The fields of the row.
    pub fn layout(&self) -> &Layout {
        &self.tray.layout
    }

    /// Writes a field: all elements of a fixed one, any number of entries of a ragged one.
    #[inline]
    pub fn write<T: Element>(&mut self, field: impl FieldKey, values: &[T]) -> Result<(), RowError> {
        let at = self.find::<T>(&field)?;
        let spec = &self.tray.layout.fields()[at];
        match spec.raggedness() {
            None => {
                let expected = spec.bytes() / size_of::<T>();
                if values.len() != expected {
                    return Err(RowError::Length { field: spec.name().into(), expected, got: values.len() });
                }
                self.fixed(at).copy_from_slice(bytemuck::cast_slice(values));
            }
            Some(ragged) => {
                check_ragged(spec, ragged, values.len())?;
                let cell = self.ragged.as_mut().expect("a layout with a ragged field has cells");
                let row = &mut cell[at];
                row.clear();
                row.extend_from_slice(bytemuck::cast_slice(values));
            }
        }
        self.written |= 1 << at;
        Ok(())
    }

    /// The elements of a fixed field, to be written in place. They hold what an earlier batch left there.
    pub fn slice_mut<T: Element + AnyBitPattern + NoUninit>(
        &mut self,
        field: impl FieldKey,
    ) -> Result<&mut [T], RowError> {
        let at = self.find::<T>(&field)?;
        self.in_place(at).map(bytemuck::cast_slice_mut)
    }

    /// The bytes of a fixed field of any type, to be written in place, as [`RowMut::slice_mut`].
    pub fn bytes_mut(&mut self, field: impl FieldKey) -> Result<&mut [u8], RowError> {
        let at = field.find(&self.tray.layout)?;
        self.in_place(at)
    }

    /// Whether every field has been written.
    #[inline]
    pub fn check(&self) -> Result<(), RowError> {
        let fields = self.tray.layout.fields();
        match self.written.trailing_ones() as usize {
            at if at < fields.len() => Err(RowError::NotWritten(fields[at].name().into())),
            _ => Ok(()),
        }
    }

    #[inline]
    fn find<T: Element>(&self, field: &impl FieldKey) -> Result<usize, RowError> {
        let at = field.find(&self.tray.layout)?;
        let spec = &self.tray.layout.fields()[at];
        if spec.dtype() == T::DTYPE {
            return Ok(at);
        }
        Err(RowError::DType { field: spec.name().into(), expected: spec.dtype(), got: T::DTYPE })
    }

    fn in_place(&mut self, at: usize) -> Result<&mut [u8], RowError> {
        let spec = &self.tray.layout.fields()[at];
        if spec.raggedness().is_some() {
            return Err(RowError::InPlace(spec.name().into()));
        }
        self.written |= 1 << at;
        Ok(self.fixed(at))
    }

    #[inline]
    fn fixed(&mut self, at: usize) -> &mut [u8] {
        // SAFETY: the row was taken by the `RowsMut` that `self` borrows from, ranges of different rows and
        // fields do not overlap, and nobody reads the slab before the tray is closed, which needs it to be
        // held by one.
        unsafe { self.tray.slab.bytes_mut(self.tray.range(at, self.row)) }
    }
}

fn check_ragged(field: &Field, ragged: Ragged, got: usize) -> Result<(), RowError> {
    let entry = (field.bytes() / field.dtype().size()).max(1);
    if !got.is_multiple_of(entry) {
        return Err(RowError::Entries { field: field.name().into(), entry, got });
    }
    match ragged {
        Ragged::PadTo(limit, _) if got / entry > limit => {
            Err(RowError::TooLong { field: field.name().into(), limit, got: got / entry })
        }
        _ => Ok(()),
    }
}
