//! A finished batch: tensors over the memory they were written to.
//!
//! While a batch lives, its memory is never reused; when it is dropped, the memory goes back to the pool.

use std::ops::Range;

use crate::{
    Element, Field, FieldKey, Layout, RowError, Tray,
    layout::{ALIGN, Ragged},
    sync::Arc,
};

/// A batch of samples, one tensor for each field of the layout.
///
/// ```
/// use feedline_core::{Arena, Field, Layout, Pool};
/// let layout = Layout::new([Field::fixed::<f32>("x", [2]), Field::ragged::<i64>("t", []).pad_to_longest(0i64)])?;
/// let pool = Pool::new(layout, Arena::private(), 1 << 20);
/// let tray = pool.take(2)?;
/// let mut rows = tray.rows(0..2);
/// for number in 0..2 {
///     let mut row = rows.row(number);
///     row.write("x", &[number as f32, 0.5])?;
///     row.write("t", &[7i64, 8][number..])?;
/// }
/// let batch = tray.close(&pool, &[10, 11], &[])?;
/// assert_eq!(batch.slice::<f32>("x")?, [0.0, 0.5, 1.0, 0.5]);
/// assert_eq!((batch.slice::<i64>("t")?, batch.shape("t")?), (&[7i64, 8, 8, 0][..], vec![2, 2]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Batch {
    /// `None` only while it is being dropped.
    tray: Option<Arc<Tray>>,
    /// The epoch it belongs to.
    pub epoch: u64,
    /// Its number in the epoch, from 0.
    pub number: u64,
}

impl Batch {
    pub(crate) fn new(tray: Arc<Tray>) -> Self {
        Self { tray: Some(tray), epoch: 0, number: 0 }
    }

    fn tray(&self) -> &Tray {
        self.tray.as_ref().expect("a batch has its tray until it is dropped")
    }

    /// How many samples it has.
    #[allow(clippy::len_without_is_empty)] // An empty batch is never delivered.
    pub fn len(&self) -> usize {
        self.tray().len()
    }

    /// The samples, in the order of the rows. Where one stood in for another, the one that was asked for.
    pub fn indices(&self) -> &[usize] {
        self.tray().indices()
    }

    /// Its fields.
    pub fn layout(&self) -> &Layout {
        self.tray().layout()
    }

    /// Its memory in bytes.
    pub fn bytes(&self) -> usize {
        self.tray().bytes()
    }

    /// The bytes of a field, all rows after each other.
    pub fn field_bytes(&self, field: impl FieldKey) -> Result<&[u8], RowError> {
        let at = field.find(self.layout())?;
        Ok(match self.tray().span(at) {
            None => self.tray().fixed(at),
            Some(span) => self.tray().gathered(span.values.clone()),
        })
    }

    /// The elements of a field, all rows after each other.
    pub fn slice<T: Element>(&self, field: impl FieldKey) -> Result<&[T], RowError> {
        let at = field.find(self.layout())?;
        let spec = &self.layout().fields()[at];
        if spec.dtype() != T::DTYPE {
            return Err(RowError::DType { field: spec.name().into(), expected: spec.dtype(), got: T::DTYPE });
        }
        Ok(bytemuck::checked::cast_slice(self.field_bytes(at)?))
    }

    /// The shape of a field: `[rows, …]`; of a padded one `[rows, longest, …]`; of one with offsets `[entries, …]`.
    pub fn shape(&self, field: impl FieldKey) -> Result<Vec<usize>, RowError> {
        let at = field.find(self.layout())?;
        let spec = &self.layout().fields()[at];
        let mut shape = match (self.tray().span(at), spec.raggedness()) {
            (None, _) | (_, None) => vec![self.len()],
            (Some(span), Some(Ragged::Offsets)) => vec![span.longest],
            (Some(span), Some(_)) => vec![self.len(), span.longest],
        };
        shape.extend_from_slice(spec.shape());
        Ok(shape)
    }

    /// The length of each row of a padded field; of a field with offsets, where each row begins, and the end.
    /// `None` for a fixed field.
    pub fn extents(&self, field: impl FieldKey) -> Result<Option<&[i64]>, RowError> {
        let at = field.find(self.layout())?;
        Ok(self.tray().span(at).map(|span| bytemuck::cast_slice(self.tray().gathered(span.extents.clone()))))
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(tray) = self.tray.take() {
            tray.give_back();
        }
    }
}

/// Where a ragged field lies in the gathered part of a batch.
#[derive(Debug)]
pub(crate) struct Span {
    /// Lengths or offsets, as `i64`.
    extents: Range<usize>,
    values: Range<usize>,
    /// Entries of every row after padding; with offsets, entries in all.
    longest: usize,
}

impl Span {
    /// Plans for `rows` rows of these lengths in bytes, from `start` on; `None` if that is too much to address.
    pub(crate) fn plan(
        field: &Field,
        start: usize,
        rows: usize,
        lengths: impl Iterator<Item = usize>,
    ) -> Option<Self> {
        let entry = field.bytes().max(1);
        let (extents, longest, entries) = match field.raggedness() {
            None => (0, 0, 0),
            Some(Ragged::Offsets) => {
                let total = lengths.sum::<usize>() / entry;
                (rows + 1, total, total)
            }
            Some(Ragged::PadToLongest(_)) => {
                let longest = lengths.max().unwrap_or(0) / entry;
                (rows, longest, rows.checked_mul(longest)?)
            }
            Some(Ragged::PadTo(length, _)) => (rows, length, rows.checked_mul(length)?),
        };
        let extents = start..start.checked_add(extents * size_of::<i64>())?;
        let values = extents.end.checked_next_multiple_of(ALIGN)?;
        let end = values.checked_add(entries.checked_mul(entry)?)?;
        isize::try_from(end.checked_next_multiple_of(ALIGN)?).ok()?;
        Some(Self { extents, values: values..end, longest })
    }

    /// Where the next field may begin.
    pub(crate) fn end(&self) -> usize {
        self.values.end.next_multiple_of(ALIGN)
    }

    /// Copies the rows to their places.
    pub(crate) fn fill<'a>(&self, field: &Field, bytes: &mut [u8], rows: impl Iterator<Item = &'a [u8]>) {
        let entry = field.bytes().max(1);
        let (head, values) = bytes.split_at_mut(self.values.start);
        let extents: &mut [i64] = bytemuck::cast_slice_mut(&mut head[self.extents.clone()]);
        let values = &mut values[..self.values.len()];
        match field.raggedness() {
            None => {}
            Some(Ragged::Offsets) => {
                let mut end = 0;
                extents[0] = 0;
                for (row, extent) in rows.zip(&mut extents[1..]) {
                    values[end..end + row.len()].copy_from_slice(row);
                    end += row.len();
                    *extent = (end / entry) as i64;
                }
            }
            Some(Ragged::PadToLongest(pad) | Ragged::PadTo(_, pad)) => {
                let width = self.longest * entry;
                let pad = &pad[..field.dtype().size()];
                for (at, (row, extent)) in rows.zip(extents).enumerate() {
                    let (filled, rest) = values[at * width..(at + 1) * width].split_at_mut(row.len());
                    filled.copy_from_slice(row);
                    rest.chunks_exact_mut(pad.len()).for_each(|element| element.copy_from_slice(pad));
                    *extent = (row.len() / entry) as i64;
                }
            }
        }
    }
}
