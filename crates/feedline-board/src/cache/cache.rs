//! The cache as its users see it.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{
            AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use crate::{
    Commons,
    cache::{
        locked::Locked,
        process::number,
        table::{Table, state},
        turn::{PART, Turn, header},
        view::View,
    },
    commons::PAGE,
    futex,
};

/// What an entry is found by: a digest, so that two keys do not share one by accident.
pub type Key = [u64; 2];

/// What has become of a question for an entry.
pub enum Found {
    /// It is here.
    Kept(Kept),
    /// It is the caller's to load.
    Turn(Turn),
    /// Somebody loads it: wait, and ask again.
    Busy(Busy),
}

/// An entry that somebody loads.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    slot: u32,
    seen: u32,
}

/// A load would wait for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circular;

/// What a cache has done so far, in all processes, and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Loads that have ended well.
    pub loads: u64,
    /// Questions that were answered from the cache.
    pub hits: u64,
    /// Questions that had to wait for another's load.
    pub waits: u64,
    /// Entries that were dropped to make room.
    pub evictions: u64,
    /// Loads of something larger than the cache.
    pub too_large: u64,
    /// Loads that were not kept because there was no room.
    pub private: u64,
    /// Memory of all entries.
    pub bytes: u64,
    /// Entries that can be found.
    pub entries: u64,
}

/// A bounded cache in memory that processes share.
pub struct Cache {
    pub(crate) table: Table,
    pub(crate) view: View,
    /// The process that has taken a seat with this value, and one more than its number, in one word: a forked child
    /// has a copy of the value, but another number. 0 if none has.
    pub(crate) seated: AtomicU64,
    /// One more than the seat that is kept for a child, while a fork is under way.
    pub(crate) unborn: AtomicU32,
}

impl Cache {
    /// A new cache, whose entries and bookkeeping use at most so many bytes.
    pub fn create(max_bytes: u64) -> io::Result<Arc<Self>> {
        Self::over(Table::create(max_bytes)?)
    }

    /// The cache behind a file that another process made.
    pub fn attach(file: OwnedFd) -> io::Result<Arc<Self>> {
        Self::over(Table::attach(Commons::attach(file)?)?)
    }

    fn over(table: Table) -> io::Result<Arc<Self>> {
        let file = table.commons.file().ok_or(io::ErrorKind::InvalidInput)?;
        let view = View::of(file, table.ground.offset(), table.ground.len())?;
        Ok(Arc::new(Self { table, view, seated: AtomicU64::new(0), unborn: AtomicU32::new(0) }))
    }

    /// The file, for other processes to attach.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.table.commons.file().expect("it was made with one")
    }

    /// The most memory it may use.
    pub fn max_bytes(&self) -> u64 {
        self.table.head().max_bytes.load(Relaxed)
    }

    /// Takes the lock, and mends the table if its last owner has died with it.
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked::new(self)
    }

    /// The seat of this process, if it has taken one.
    pub(crate) fn seat(&self) -> Option<u32> {
        let seated = self.seated.load(Acquire);
        (seated >> 32 == u64::from(number())).then(|| seated as u32 - 1)
    }

    pub(crate) fn take_seat(&self, seat: u32) {
        self.seated.store((u64::from(number()) << 32) | u64::from(seat + 1), Release);
    }

    /// Asks for an entry. `inside` is the load that asks, if one does, and `waited` whether this question has waited.
    pub fn find(self: &Arc<Self>, key: Key, inside: Option<&Turn>, waited: bool) -> Result<Found, Circular> {
        let (locked, head) = (self.lock(), self.table.head());
        let Some(seat) = locked.sit() else { return Ok(Found::Turn(Turn::alone(Arc::clone(self)))) };
        let inside = inside.and_then(|turn| turn.slot_if_mine(&locked));
        let wait_for = |slot| {
            if let Some(inside) = inside {
                self.table.slot(inside).waits_for.store(slot, Relaxed);
            }
        };
        wait_for(0);
        locked.bury_loader(key);
        if let Some(number) = locked.slot_of(key) {
            let slot = self.table.slot(number);
            match slot.state() {
                state::READY if locked.hold(number, seat) => {
                    head.hits.fetch_add(1, Relaxed);
                    return Ok(Found::Kept(Kept { cache: Arc::clone(self), slot: number }));
                }
                state::LOADING if locked.is_circular(number, seat) => return Err(Circular),
                state::LOADING => {
                    head.waits.fetch_add(u64::from(!waited), Relaxed);
                    wait_for(number + 1);
                    return Ok(Found::Busy(Busy { slot: number, seen: slot.news.load(Relaxed) }));
                }
                state::CROWDED if !waited => slot.state.store(state::FREE, Release),
                _ => return Ok(Found::Turn(Turn::alone(Arc::clone(self)))),
            }
        }
        let Some(slot) = locked.vacate(key) else { return Ok(Found::Turn(Turn::alone(Arc::clone(self)))) };
        wait_for(slot + 1);
        let turn = locked.begin(slot, key, seat);
        Ok(Found::Turn(Turn::new(Arc::clone(self), slot, turn, inside)))
    }

    /// Waits until a load has ended, but no longer than `limit`; a signal ends it, too.
    pub fn wait(&self, busy: Busy, limit: Duration) {
        futex::wait(&self.table.slot(busy.slot).news, busy.seen, limit);
    }

    /// The load that asked does not wait any more.
    pub fn wait_no_more(&self, inside: &Turn) {
        let locked = self.lock();
        if let Some(slot) = inside.slot_if_mine(&locked) {
            self.table.slot(slot).waits_for.store(0, Relaxed);
        }
    }

    /// Whether there is an entry.
    pub fn contains(&self, key: Key) -> bool {
        let locked = self.lock();
        locked.slot_of(key).is_some_and(|slot| self.table.slot(slot).state() == state::READY)
    }

    /// Drops all entries. Those in use are not found any more, and dropped when they are not; what is being loaded is not
    /// kept.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// What it has done and holds.
    pub fn stats(&self) -> Stats {
        let head = self.table.head();
        Stats {
            loads: head.loads.load(Relaxed),
            hits: head.hits.load(Relaxed),
            waits: head.waits.load(Relaxed),
            evictions: head.evictions.load(Relaxed),
            too_large: head.too_large.load(Relaxed),
            private: head.private.load(Relaxed),
            bytes: u64::from(head.used.load(Relaxed)) * PAGE as u64,
            entries: u64::from(head.entries.load(Relaxed)),
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // Its entries hold the cache, so that nothing is in use; a child that was forked has no seat of its own.
        if let Some(seat) = self.seat() {
            self.lock().bury(seat);
        }
    }
}

/// An entry in use.
pub struct Kept {
    pub(crate) cache: Arc<Cache>,
    pub(crate) slot: u32,
}

impl Kept {
    /// Where it lies, and its length.
    pub fn memory(&self) -> (*const u8, usize) {
        let slot = self.cache.table.slot(self.slot);
        let (place, len) = (slot.extent(), slot.len.load(Relaxed) as usize);
        let offset = place.map(|place| place.offset() - self.cache.table.ground.offset());
        let start = offset.and_then(|offset| self.cache.view.at(offset as usize, len));
        (start.expect("an entry in use lies in the memory"), len)
    }

    /// Where its parts begin, and their lengths.
    pub fn parts(&self) -> Vec<(usize, usize)> {
        let (start, len) = self.memory();
        // SAFETY: the entry is in use, so that nobody writes to it, and the mapping lives as long as the cache.
        let bytes = unsafe { std::slice::from_raw_parts(start, len) };
        let word = |at: usize| -> usize {
            let bytes = bytes.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes) as usize
        };
        let (count, mut offset) = (word(0).min(len / 8), 0);
        let mut parts = Vec::with_capacity(count);
        for part in 0..count {
            offset = if part == 0 { header(count) } else { offset };
            let part_len = word(1 + part);
            if offset.checked_add(part_len).is_none_or(|end| end > len) {
                return Vec::new();
            }
            parts.push((offset, part_len));
            offset = (offset + part_len).next_multiple_of(PART);
        }
        parts
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A child that was forked without our knowing has no seat, and so no hold to let go of.
        if let Some(seat) = self.cache.seat() {
            let holds = &self.cache.table.holds(self.slot)[seat as usize];
            // Released: what was read was read before somebody else uses the memory.
            let _ = holds.fetch_update(Release, Relaxed, |holds| holds.checked_sub(1));
        }
    }
}
