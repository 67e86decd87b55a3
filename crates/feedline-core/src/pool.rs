//! Where trays come from and go back to, with their memory already faulted in.

use std::io;

use crate::{
    Arena, Layout, Slab, Tray,
    sync::{Arc, Mutex, lock},
};

/// Recycles trays of one layout, memory and all. When it is dropped, unused trays go back to the system at once
/// and the others when their batches are dropped.
#[derive(Debug)]
pub struct Pool {
    pub(crate) layout: Arc<Layout>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) depot: Arc<Depot>,
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
    pub(crate) fn tail(&self, old: Option<Slab>, bytes: usize, rows: usize) -> io::Result<Slab> {
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
    pub(crate) fn put(&self, tray: Arc<Tray>) {
        let mut stock = lock(&self.stock);
        if !stock.closed && (stock.free.is_empty() || stock.free_bytes + tray.bytes() <= self.keep) {
            stock.free_bytes += tray.bytes();
            stock.free.push(tray);
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::{Batch, Field};

    fn pool(keep: usize) -> Pool {
        Pool::new(Layout::new([Field::fixed::<u32>("n", [])]).unwrap(), Arena::private(), keep)
    }

    /// A batch of the numbers 0, 10, 20, …
    fn numbers(pool: &Pool, rows: usize) -> Batch {
        let tray = pool.take(rows).unwrap();
        let mut range = tray.rows(0..rows);
        for row in 0..rows {
            range.row(row).write(0, &[row as u32 * 10]).unwrap();
        }
        tray.close(pool, &vec![0; rows], &[]).unwrap()
    }

    #[test]
    fn memory_is_reused_but_never_while_a_batch_is_held() {
        let pool = pool(1 << 20);
        let held = numbers(&pool, 100);
        let address = |batch: &Batch| batch.field_bytes(0).unwrap().as_ptr();
        let first = address(&numbers(&pool, 100));
        for _ in 0..10 {
            let next = numbers(&pool, 100);
            assert_eq!(address(&next), first);
            assert_ne!(address(&next), address(&held));
        }
        assert_eq!(held.slice::<u32>(0).unwrap()[99], 990);
        assert_eq!(pool.gauge().made, 2);
    }

    #[test]
    fn unused_memory_beyond_the_limit_goes_back_to_the_system() {
        let pool = pool(8192);
        let many: Vec<Batch> = (0..10).map(|_| numbers(&pool, 100)).collect();
        drop(many);
        assert_eq!(pool.gauge(), PoolGauge { made: 10, free: 2, free_bytes: 8192 });
    }

    #[test]
    fn a_batch_outlives_its_pool() {
        let pool = pool(1 << 20);
        let batch = numbers(&pool, 3);
        drop(pool);
        assert_eq!(batch.slice::<u32>(0).unwrap(), [0, 10, 20]);
    }
}
