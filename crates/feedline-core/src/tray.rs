//! A batch under construction.
//!
//! A [`Tray`] is filled by several workers at once, each writing its own rows straight into the slab. A worker
//! takes a range of rows ([`Tray::rows`]), which sets a bit for each; a row can be taken once in the life of a
//! batch. The scheduler never gives a row to two workers, so taking always succeeds, and if the scheduler were
//! wrong the result would be an error and not a data race. When the last row is done the tray is closed and
//! becomes a [`Batch`]; when the consumer drops the batch, the tray goes back to its [`Pool`].

use std::{cell::UnsafeCell, io, ops::Range};

use crate::{Batch, Layout, Pool, RowsMut, Slab, batch::Span, pool::Depot, sync::Arc, taken::Taken};

/// A batch under construction. Workers write its rows; see the module for how they keep apart.
#[derive(Debug)]
pub struct Tray {
    pub(crate) layout: Arc<Layout>,
    depot: Arc<Depot>,
    pub(crate) slab: Slab,
    /// Where each field begins in the slab, for this capacity.
    offsets: Vec<usize>,
    capacity: usize,
    /// A bit for every row that has been taken. Whoever set it may write the row: its part of the slab, and
    /// its cell. There are cells only for layouts with ragged fields: rows of others touch no memory but the slab.
    taken: Taken,
    pub(crate) cells: Vec<UnsafeCell<Cell>>,
    /// The gathered ragged fields of a closed tray, and where they lie.
    tail: Option<Slab>,
    spans: Vec<Span>,
    /// The samples of a closed tray.
    indices: Vec<usize>,
}

/// The values of a row's ragged fields, one list for each field of the layout.
pub(crate) type Cell = Vec<Vec<u8>>;

impl Tray {
    pub(crate) fn new(pool: &Pool, bytes: usize) -> io::Result<Self> {
        Ok(Self {
            layout: Arc::clone(&pool.layout),
            depot: Arc::clone(&pool.depot),
            slab: pool.arena.slab(bytes)?,
            offsets: Vec::new(),
            capacity: 0,
            taken: Taken::default(),
            cells: Vec::new(),
            tail: None,
            spans: Vec::new(),
            indices: Vec::new(),
        })
    }

    /// Puts a tray back where it came from, unless somebody still writes to it.
    pub(crate) fn give_back(mut self: Arc<Self>) {
        if let Some(tray) = Arc::get_mut(&mut self) {
            let depot = Arc::clone(&tray.depot);
            depot.put(self);
        }
    }

    /// Makes it ready for `rows` new rows.
    pub(crate) fn prepare(&mut self, rows: usize) {
        let fits =
            self.layout.offsets_into(rows, &mut self.offsets).is_ok_and(|bytes| bytes <= self.slab.len());
        assert!(fits, "the pool chose a slab that is large enough");
        self.capacity = rows;
        self.taken.reset(rows);
        if self.layout.is_ragged() {
            self.cells.resize_with(rows.max(self.cells.len()), UnsafeCell::default);
        }
    }

    /// Its memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.slab.len() + self.tail.as_ref().map_or(0, Slab::len)
    }

    /// Takes some rows, to be written by one worker.
    ///
    /// # Panics
    /// If they do not exist or one of them has been taken before, both of which the scheduler rules out.
    pub fn rows(&self, rows: Range<usize>) -> RowsMut<'_> {
        assert!(rows.end <= self.capacity, "rows {rows:?} of a batch of {}", self.capacity);
        assert!(self.taken.take(rows.clone()), "some of the rows {rows:?} were given to two workers");
        RowsMut::new(self, rows)
    }

    #[inline]
    pub(crate) fn range(&self, field: usize, row: usize) -> Range<usize> {
        let bytes = self.layout.fields()[field].bytes();
        let start = self.offsets[field] + row * bytes;
        start..start + bytes
    }

    /// Closes the tray: leaves out the rows in `failed` (ascending), gathers the ragged fields.
    pub fn close(mut self: Arc<Self>, pool: &Pool, indices: &[usize], failed: &[usize]) -> io::Result<Batch> {
        let tray = Arc::get_mut(&mut self).expect("a tray is closed when no worker holds it any more");
        tray.leave_out(failed);
        tray.indices.clear();
        tray.indices.extend(
            indices.iter().enumerate().filter(|(row, _)| !failed.contains(row)).map(|(_, index)| index),
        );
        if tray.layout.is_ragged() {
            tray.gather(pool, failed)?;
        }
        Ok(Batch::new(self))
    }

    /// Moves the rows behind a failed one up, so that the batch has no gap.
    fn leave_out(&mut self, failed: &[usize]) {
        let Some(first) = failed.first() else { return };
        for field in 0..self.layout.fields().len() {
            if self.layout.fields()[field].raggedness().is_some() {
                continue;
            }
            let kept = (*first..self.capacity).filter(|row| !failed.contains(row));
            for (to, from) in (*first..).zip(kept) {
                let whole = self.range(field, 0).start..self.range(field, self.capacity - 1).end;
                let (from, to) = (self.range(field, from), self.range(field, to));
                // SAFETY: `&mut self` means that no row and no batch can reach the slab.
                let bytes = unsafe { self.slab.bytes_mut(whole.clone()) };
                bytes.copy_within(from.start - whole.start..from.end - whole.start, to.start - whole.start);
            }
        }
        self.capacity -= failed.len();
    }

    /// Copies the ragged rows into one slab: per field the offsets (or lengths), then the values.
    fn gather(&mut self, pool: &Pool, failed: &[usize]) -> io::Result<()> {
        let layout = Arc::clone(&self.layout);
        let (kept, planned) = (self.capacity, self.capacity + failed.len());
        self.spans.clear();
        let mut end = 0;
        for (at, field) in layout.fields().iter().enumerate() {
            let lengths = ragged_rows(&mut self.cells[..planned], failed, at).map(<[u8]>::len);
            let span = Span::plan(field, end, kept, lengths).ok_or(io::ErrorKind::OutOfMemory)?;
            end = span.end();
            self.spans.push(span);
        }
        let tail = pool.tail(self.tail.take(), end, kept)?;
        // SAFETY: `&mut self` means that nobody else can reach the tray's memory.
        let bytes = unsafe { tail.bytes_mut(0..end) };
        for ((at, field), span) in layout.fields().iter().enumerate().zip(&self.spans) {
            span.fill(field, bytes, ragged_rows(&mut self.cells[..planned], failed, at));
        }
        self.tail = Some(tail);
        Ok(())
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn len(&self) -> usize {
        self.capacity
    }

    pub(crate) fn indices(&self) -> &[usize] {
        &self.indices
    }

    pub(crate) fn span(&self, field: usize) -> Option<&Span> {
        self.layout.fields()[field].raggedness().and(self.spans.get(field))
    }

    /// The bytes of a fixed field of a closed tray.
    pub(crate) fn fixed(&self, field: usize) -> &[u8] {
        let start = self.offsets[field];
        let end = start + self.layout.fields()[field].bytes() * self.capacity;
        // SAFETY: only a `Batch` calls this, and it holds the tray alone: no worker can write.
        unsafe { self.slab.bytes(start..end) }
    }

    /// Bytes of the ragged part of a closed tray.
    pub(crate) fn gathered(&self, range: Range<usize>) -> &[u8] {
        match &self.tail {
            // SAFETY: as in `fixed`.
            Some(tail) => unsafe { tail.bytes(range) },
            None => &[],
        }
    }
}

/// The values of one ragged field (nothing, for a fixed one) in the rows that have not failed.
fn ragged_rows<'a>(
    cells: &'a mut [UnsafeCell<Cell>],
    failed: &'a [usize],
    field: usize,
) -> impl Iterator<Item = &'a [u8]> {
    cells
        .iter_mut()
        .enumerate()
        .filter(|(row, _)| !failed.contains(row))
        .map(move |(_, cell)| cell.get_mut().get(field).map_or(&[][..], Vec::as_slice))
}

// SAFETY: a cell, and the part of the slab that belongs to it, is reached through `&Tray` only by the one
// `RowsMut` that set the row's bit, so no two threads reach the same one.
unsafe impl Sync for Tray {}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::{Arena, Field, RowError};

    fn pool(fields: impl Into<Vec<Field>>) -> Pool {
        Pool::new(Layout::new(fields).unwrap(), Arena::private(), 1 << 20)
    }

    /// A batch of `u32` rows, the given ones left out.
    fn numbers(pool: &Pool, rows: usize, failed: &[usize]) -> Batch {
        let tray = pool.take(rows).unwrap();
        let mut range = tray.rows(0..rows);
        for row in 0..rows {
            range.row(row).write(0, &[row as u32 * 10]).unwrap();
        }
        let indices: Vec<usize> = (0..rows).collect();
        tray.close(pool, &indices, failed).unwrap()
    }

    #[test]
    fn failed_rows_leave_no_gap() {
        let pool = pool([Field::fixed::<u32>("n", [])]);
        for (failed, expected) in
            [(vec![], vec![0, 10, 20, 30]), (vec![0], vec![10, 20, 30]), (vec![1, 3], vec![0, 20])]
        {
            let batch = numbers(&pool, 4, &failed);
            assert_eq!(batch.slice::<u32>(0).unwrap(), expected);
            assert_eq!(batch.len(), expected.len());
            assert_eq!(batch.indices(), expected.iter().map(|n| *n as usize / 10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn ragged_rows_are_padded_or_joined() {
        let fields = [
            Field::ragged::<i64>("joined", []),
            Field::fixed::<u8>("fixed", []),
            Field::ragged::<i16>("longest", [2]).pad_to_longest(-1i16),
            Field::ragged::<f32>("exact", []).pad_to(4, 0.5f32),
        ];
        let pool = pool(fields);
        for failed in [&[][..], &[1][..]] {
            let tray = pool.take(3).unwrap();
            let mut rows = tray.rows(0..3);
            for row in 0..3usize {
                let mut row_mut = rows.row(row);
                row_mut.write("joined", &vec![row as i64; row]).unwrap();
                row_mut.write("fixed", &[row as u8]).unwrap();
                row_mut.write("longest", &vec![row as i16; 2 * row]).unwrap();
                row_mut.write("exact", &vec![row as f32; row + 1]).unwrap();
                row_mut.check().unwrap();
            }
            let batch = tray.close(&pool, &[7, 8, 9], failed).unwrap();
            if failed.is_empty() {
                assert_eq!(batch.slice::<i64>("joined").unwrap(), [1, 2, 2]);
                assert_eq!(batch.extents("joined").unwrap().unwrap(), [0, 0, 1, 3]);
                assert_eq!(batch.shape("joined").unwrap(), [3]);
                assert_eq!(
                    batch.slice::<i16>("longest").unwrap(),
                    [-1, -1, -1, -1, 1, 1, -1, -1, 2, 2, 2, 2]
                );
                assert_eq!(batch.shape("longest").unwrap(), [3, 2, 2]);
                assert_eq!(batch.extents("longest").unwrap().unwrap(), [0, 1, 2]);
                assert_eq!(batch.extents("fixed").unwrap(), None);
            } else {
                assert_eq!(batch.slice::<i64>("joined").unwrap(), [2, 2]);
                assert_eq!(batch.slice::<f32>("exact").unwrap(), [0.0, 0.5, 0.5, 0.5, 2.0, 2.0, 2.0, 0.5]);
                assert_eq!(batch.slice::<u8>("fixed").unwrap(), [0, 2]);
                assert_eq!(batch.shape("exact").unwrap(), [2, 4]);
            }
        }
    }

    #[test]
    fn what_does_not_fit_the_layout_is_an_error() {
        let pool = pool([Field::fixed::<u32>("n", [2]), Field::ragged::<u8>("r", [3]).pad_to(2, 0u8)]);
        let tray = pool.take(1).unwrap();
        let mut rows = tray.rows(0..1);
        let mut row = rows.row(0);
        let text = |error: Result<(), RowError>| error.unwrap_err().to_string();
        assert_eq!(text(row.write("m", &[1u32, 2])), "there is no field \"m\"; the layout has n, r");
        assert_eq!(text(row.write(5, &[1u32, 2])), "there is no field 5; the layout has n, r");
        assert_eq!(text(row.write("n", &[1i32, 2])), "field \"n\" holds u32, not i32");
        assert!(text(row.write("n", &[1u32])).contains("has 2 elements in every sample, but this one has 1"));
        assert!(text(row.write("r", &[1u8, 2])).contains("multiple of 3 elements"));
        assert!(text(row.write("r", &[0u8; 9])).contains("3 entries, more than the 2"));
        assert!(matches!(row.bytes_mut("r"), Err(RowError::InPlace(_))));
        row.slice_mut::<u32>("n").unwrap().fill(1);
        assert_eq!(row.check(), Err(RowError::NotWritten("r".into())));
    }

    #[test]
    #[should_panic(expected = "given to two workers")]
    fn a_row_cannot_be_taken_twice() {
        let pool = pool([Field::fixed::<u32>("n", [])]);
        let tray = pool.take(200).unwrap();
        let _first = tray.rows(10..130);
        let _second = tray.rows(129..140);
    }

    #[test]
    fn bool_rows_can_be_read_back() {
        let pool = pool([Field::fixed::<bool>("b", [3])]);
        let tray = pool.take(1).unwrap();
        tray.rows(0..1).row(0).write("b", &[true, false, true]).unwrap();
        assert_eq!(tray.close(&pool, &[0], &[]).unwrap().slice::<bool>("b").unwrap(), [true, false, true]);
    }
}
