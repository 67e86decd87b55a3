//! A batch under construction, and the pool it comes from.
//!
//! A [`Tray`] is filled by several workers at once, each writing its own rows straight into the slab. A worker
//! takes a range of rows ([`Tray::rows`]), which sets a bit for each; a row can be taken once in the life of a
//! batch. The scheduler never gives a row to two workers, so taking always succeeds, and if the scheduler were
//! wrong the result would be an error and not a data race. When the last row is done the tray is closed and becomes a [`Batch`]; when the consumer
//! drops the batch, the tray goes back to its [`Pool`] with its memory already faulted in.

use std::{cell::UnsafeCell, io, ops::Range};

use bytemuck::{AnyBitPattern, NoUninit};

use crate::{
    Arena, Batch, DType, Element, Field, Layout, Slab,
    batch::Span,
    layout::Ragged,
    sync::{Arc, Mutex, lock},
    taken::Taken,
};

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

fn no_such_field(key: String, layout: &Layout) -> RowError {
    let names: Vec<&str> = layout.fields().iter().map(Field::name).collect();
    RowError::NoSuchField(key, names.join(", "))
}

/// Recycles trays of one layout, memory and all. When it is dropped, unused trays go back to the system at once
/// and the others when their batches are dropped.
#[derive(Debug)]
pub struct Pool {
    layout: Arc<Layout>,
    arena: Arc<Arena>,
    depot: Arc<Depot>,
}

/// Where trays go when their batches are dropped. Trays know it, so that handing out and taking back a batch
/// counts no references; it forgets the trays when the pool is dropped.
#[derive(Debug)]
pub(crate) struct Depot {
    /// Bytes of unused trays to keep for reuse; what is beyond goes back to the system.
    keep: usize,
    stock: Mutex<Stock>,
}

#[derive(Debug, Default)]
struct Stock {
    free: Vec<Arc<Tray>>,
    free_bytes: usize,
    made: u64,
    /// Bytes of the ragged part of the batches closed so far, and their rows.
    ragged: (u64, u64),
    /// Whether the pool is gone.
    closed: bool,
}

/// A count of what a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolGauge {
    /// Trays made since the beginning; a steady state makes none.
    pub made: u64,
    /// Trays waiting for reuse.
    pub free: usize,
    /// Bytes of those.
    pub free_bytes: usize,
}

impl Pool {
    /// A pool of trays of this layout that keeps at most `keep` unused bytes.
    pub fn new(layout: Layout, arena: Arc<Arena>, keep: usize) -> Self {
        Self { layout: Arc::new(layout), arena, depot: Arc::new(Depot { keep, stock: Mutex::default() }) }
    }

    /// The layout of its trays.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What it has now.
    pub fn gauge(&self) -> PoolGauge {
        let stock = lock(&self.depot.stock);
        PoolGauge { made: stock.made, free: stock.free.len(), free_bytes: stock.free_bytes }
    }

    /// Bytes that a batch of `rows` rows will take. Ragged rows are counted with the mean of those seen.
    pub fn estimate(&self, rows: usize) -> u64 {
        let page = rustix::param::page_size();
        let fixed =
            self.layout.bytes(rows).ok().and_then(|bytes| bytes.max(1).checked_next_multiple_of(page));
        let fixed = fixed.map_or(u64::MAX, |bytes| bytes as u64);
        if !self.layout.is_ragged() {
            return fixed;
        }
        match lock(&self.depot.stock).ragged {
            (_, 0) => fixed,
            (bytes, seen) => fixed.saturating_add(bytes / seen * rows as u64),
        }
    }

    /// A tray for `rows` rows.
    pub fn take(&self, rows: usize) -> io::Result<Arc<Tray>> {
        let too_large = |error| io::Error::new(io::ErrorKind::OutOfMemory, error);
        let bytes = self.layout.bytes(rows).map_err(too_large)?;
        let mut tray = match self.depot.reuse(bytes) {
            Some(tray) => tray,
            None => Arc::new(Tray::new(self, bytes)?),
        };
        let fresh = Arc::get_mut(&mut tray).expect("a tray in the depot is held by nobody else");
        if fresh.slab.len() < bytes {
            fresh.slab = self.arena.slab(bytes)?;
        }
        fresh.prepare(rows);
        Ok(tray)
    }

    /// Memory for the ragged part of a batch, reusing `old` if it is large enough.
    fn tail(&self, old: Option<Slab>, bytes: usize, rows: usize) -> io::Result<Slab> {
        let mut stock = lock(&self.depot.stock);
        stock.ragged = (stock.ragged.0 + bytes as u64, stock.ragged.1 + rows as u64);
        drop(stock);
        match old {
            Some(slab) if slab.len() >= bytes => Ok(slab),
            // Some room to spare: the next batch is probably a little longer or shorter.
            _ => self.arena.slab(bytes + bytes / 4),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut stock = lock(&self.depot.stock);
        stock.closed = true;
        let free = std::mem::take(&mut stock.free);
        // Not under the lock: giving memory back takes a while.
        drop(stock);
        drop(free);
    }
}

impl Depot {
    /// The tray used last that is large enough; failing that, the one used last.
    fn reuse(&self, bytes: usize) -> Option<Arc<Tray>> {
        let mut stock = lock(&self.stock);
        let fits = stock.free.iter().rposition(|tray| tray.slab.len() >= bytes);
        let Some(at) = fits.or(stock.free.len().checked_sub(1)) else {
            stock.made += 1;
            return None;
        };
        let tray = stock.free.remove(at);
        stock.free_bytes -= tray.bytes();
        Some(tray)
    }

    /// Takes a tray back that nobody else holds.
    fn put(&self, tray: Arc<Tray>) {
        let mut stock = lock(&self.stock);
        if !stock.closed && (stock.free.is_empty() || stock.free_bytes + tray.bytes() <= self.keep) {
            stock.free_bytes += tray.bytes();
            stock.free.push(tray);
        }
    }
}

/// A batch under construction. Workers write its rows; see the module for how they keep apart.
#[derive(Debug)]
pub struct Tray {
    layout: Arc<Layout>,
    depot: Arc<Depot>,
    slab: Slab,
    /// Where each field begins in the slab, for this capacity.
    offsets: Vec<usize>,
    capacity: usize,
    /// A bit for every row that has been taken. Whoever set it may write the row: its part of the slab, and
    /// its cell.
    taken: Taken,
    cells: Vec<UnsafeCell<Cell>>,
    /// The gathered ragged fields of a closed tray, and where they lie.
    tail: Option<Slab>,
    spans: Vec<Span>,
    /// The samples of a closed tray.
    indices: Vec<usize>,
}

/// What a row has besides its part of the slab.
#[derive(Debug, Default)]
struct Cell {
    /// A bit for every field that has been written.
    written: u64,
    /// The values of the ragged fields (empty for the fixed ones).
    ragged: Vec<Vec<u8>>,
}

impl Tray {
    fn new(pool: &Pool, bytes: usize) -> io::Result<Self> {
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
    fn prepare(&mut self, rows: usize) {
        let fits =
            self.layout.offsets_into(rows, &mut self.offsets).is_ok_and(|bytes| bytes <= self.slab.len());
        assert!(fits, "the pool chose a slab that is large enough");
        self.capacity = rows;
        self.taken.reset(rows);
        self.cells.resize_with(rows.max(self.cells.len()), UnsafeCell::default);
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
        RowsMut { tray: self, rows }
    }

    #[inline]
    fn range(&self, field: usize, row: usize) -> Range<usize> {
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
        .map(move |(_, cell)| cell.get_mut().ragged.get(field).map_or(&[][..], Vec::as_slice))
}

// SAFETY: a cell, and the part of the slab that belongs to it, is reached through `&Tray` only by the one
// `RowsMut` that set the row's bit, so no two threads reach the same one.
unsafe impl Sync for Tray {}

/// Rows of a batch that one worker has taken.
#[derive(Debug)]
pub struct RowsMut<'a> {
    tray: &'a Tray,
    rows: Range<usize>,
}

impl RowsMut<'_> {
    /// One of the rows, by its number in the batch, to be written from the beginning.
    ///
    /// # Panics
    /// If it is not one of the rows taken.
    #[inline]
    pub fn row(&mut self, row: usize) -> RowMut<'_> {
        assert!(self.rows.contains(&row), "row {row} is not among {:?}", self.rows);
        // SAFETY: these rows were taken by `self` alone, and `&mut self` lends out one of them at a time.
        let cell = unsafe { &mut *self.tray.cells[row].get() };
        cell.written = 0;
        if self.tray.layout.is_ragged() {
            cell.ragged.resize_with(self.tray.layout.fields().len(), Vec::new);
            cell.ragged.iter_mut().for_each(Vec::clear);
        }
        RowMut { tray: self.tray, row, cell }
    }
}

/// A row of a batch, to be written. Every field must be.
#[derive(Debug)]
pub struct RowMut<'a> {
    tray: &'a Tray,
    row: usize,
    cell: &'a mut Cell,
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
                let row = &mut self.cell.ragged[at];
                row.clear();
                row.extend_from_slice(bytemuck::cast_slice(values));
            }
        }
        self.cell.written |= 1 << at;
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
        match self.cell.written.trailing_ones() as usize {
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
        self.cell.written |= 1 << at;
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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

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
    fn memory_is_reused_but_never_while_a_batch_is_held() {
        let pool = pool([Field::fixed::<u32>("n", [])]);
        let held = numbers(&pool, 100, &[]);
        let address = |batch: &Batch| batch.field_bytes(0).unwrap().as_ptr();
        let first = address(&numbers(&pool, 100, &[]));
        for _ in 0..10 {
            let next = numbers(&pool, 100, &[]);
            assert_eq!(address(&next), first);
            assert_ne!(address(&next), address(&held));
        }
        assert_eq!(held.slice::<u32>(0).unwrap()[99], 990);
        assert_eq!(pool.gauge().made, 2);
    }

    #[test]
    fn unused_memory_beyond_the_limit_goes_back_to_the_system() {
        let pool = Pool::new(Layout::new([Field::fixed::<u32>("n", [])]).unwrap(), Arena::private(), 8192);
        let many: Vec<Batch> = (0..10).map(|_| numbers(&pool, 100, &[])).collect();
        drop(many);
        assert_eq!(pool.gauge(), PoolGauge { made: 10, free: 2, free_bytes: 8192 });
    }

    #[test]
    fn a_batch_outlives_its_pool() {
        let pool = pool([Field::fixed::<u32>("n", [])]);
        let batch = numbers(&pool, 3, &[]);
        drop(pool);
        assert_eq!(batch.slice::<u32>(0).unwrap(), [0, 10, 20]);
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
