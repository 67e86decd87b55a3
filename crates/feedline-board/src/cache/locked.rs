//! What is done while the lock is held.
//!
//! Whoever dies in here leaves the lock to the next, who mends: so every change of a slot is one write of its state or its
//! place, after which everything else can be found out again.

use std::{
    marker::PhantomData,
    sync::atomic::{
        AtomicU16,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use rustix::thread::gettid;

use crate::{
    Extent,
    cache::{
        cache::{Cache, Key},
        lock::Last,
        process::Process,
        table::{SEATS, Slot, Table, state},
    },
    futex,
};

/// A cache whose lock this thread holds.
pub(crate) struct Locked<'a> {
    cache: &'a Cache,
    table: &'a Table,
    /// The lock is this thread's, so the value must not go to another.
    here: PhantomData<*const ()>,
}

impl<'a> Locked<'a> {
    pub(crate) fn new(cache: &'a Cache) -> Self {
        let lock = &cache.table.head().lock;
        let last = lock.acquire();
        let locked = Self { cache, table: &cache.table, here: PhantomData };
        if last == Last::Torn {
            locked.mend();
            lock.mended();
        }
        locked
    }

    /// Whether it is that cache that is locked.
    pub(crate) fn is_of(&self, cache: &Cache) -> bool {
        std::ptr::eq(self.cache, cache)
    }

    // --- seats ----------------------------------------------------------------------------------------

    /// The seat of this process; it takes one if it has none. `None` if all are taken.
    pub(crate) fn sit(&self) -> Option<u32> {
        self.cache.seat().or_else(|| {
            let seat = self.take_seat(Process::this(), false)?;
            self.cache.take_seat(seat);
            Some(seat)
        })
    }

    /// Takes a seat for a process, or for a child of it.
    pub(crate) fn take_seat(&self, process: Process, unborn: bool) -> Option<u32> {
        let seats = self.table.seats();
        let empty = || seats.iter().position(|seat| seat.pid.load(Relaxed) == 0);
        let number = empty().or_else(|| {
            self.bury_the_dead();
            empty()
        })?;
        seats[number].unborn.store(u32::from(unborn), Relaxed);
        seats[number].start.store(process.start, Relaxed);
        seats[number].pid.store(process.pid, Release);
        Some(number as u32)
    }

    pub(crate) fn process(&self, seat: u32) -> Process {
        let seat = &self.table.seats()[seat as usize];
        Process { pid: seat.pid.load(Relaxed), start: seat.start.load(Relaxed) }
    }

    /// Ends what a process loads and holds, and frees its seat.
    pub(crate) fn bury(&self, seat: u32) {
        for (number, slot) in self.numbered() {
            self.table.holds(number)[seat as usize].store(0, Relaxed);
            let loads = matches!(slot.state(), state::LOADING | state::ORPHAN);
            if loads && slot.owner.load(Relaxed) == seat {
                self.free(number);
                self.announce(number);
            }
        }
        self.table.seats()[seat as usize].pid.store(0, Release);
    }

    /// Buries all that have died; whether there were any.
    fn bury_the_dead(&self) -> bool {
        let taken = |seat: &u32| self.table.seats()[*seat as usize].pid.load(Relaxed) != 0;
        let dead: Vec<u32> =
            (0..SEATS as u32).filter(taken).filter(|seat| !self.process(*seat).is_alive()).collect();
        for seat in &dead {
            self.bury(*seat);
        }
        !dead.is_empty()
    }

    /// Buries the process that loads an entry, if it has died.
    pub(crate) fn bury_loader(&self, key: Key) {
        let loading = |slot: &u32| self.table.slot(*slot).state() == state::LOADING;
        if let Some(slot) = self.slot_of(key).filter(loading) {
            let owner = self.table.slot(slot).owner.load(Relaxed);
            if Some(owner) != self.cache.seat() && !self.process(owner).is_alive() {
                self.bury(owner);
            }
        }
    }

    // --- slots ----------------------------------------------------------------------------------------

    fn numbered(&self) -> impl Iterator<Item = (u32, &'a Slot)> {
        (0..).zip(self.table.slots())
    }

    /// The slot of a key, whatever is known of it.
    pub(crate) fn slot_of(&self, key: Key) -> Option<u32> {
        let known = |slot: &Slot| {
            slot.is(key) && !matches!(slot.state(), state::FREE | state::FORGOTTEN | state::ORPHAN)
        };
        self.table.window(key).find(|number| known(self.table.slot(*number)))
    }

    /// A free slot for a key; if there is none, one is made free.
    pub(crate) fn vacate(&self, key: Key) -> Option<u32> {
        let free = |number: &u32| self.table.slot(*number).state() == state::FREE;
        self.table.window(key).find(free).or_else(|| {
            let unused = |number: &u32| self.is_unused(*number);
            let stamp = |number: &u32| self.table.slot(*number).stamp.load(Relaxed);
            let oldest = self.table.window(key).filter(unused).min_by_key(stamp)?;
            self.evict(oldest);
            Some(oldest)
        })
    }

    /// Begins a load in a free slot, and returns its number.
    pub(crate) fn begin(&self, slot: u32, key: Key, seat: u32) -> u32 {
        let turn = self.table.head().turns.fetch_add(1, Relaxed);
        let slot = self.table.slot(slot);
        slot.place.store(0, Relaxed);
        slot.key[0].store(key[0], Relaxed);
        slot.key[1].store(key[1], Relaxed);
        slot.owner.store(seat, Relaxed);
        slot.thread.store(this_thread(), Relaxed);
        slot.turn.store(turn, Relaxed);
        slot.waits_for.store(0, Relaxed);
        slot.state.store(state::LOADING, Release);
        turn
    }

    /// Whether a load that is to be waited for waits for this thread.
    pub(crate) fn is_circular(&self, slot: u32, seat: u32) -> bool {
        let (mut at, thread) = (slot, this_thread());
        // No chain is longer than there are loads.
        for _ in 0..self.table.slots().len() {
            let slot = self.table.slot(at);
            if slot.state() != state::LOADING {
                return false;
            }
            if slot.owner.load(Relaxed) == seat && slot.thread.load(Relaxed) == thread {
                return true;
            }
            match slot.waits_for.load(Relaxed).checked_sub(1) {
                Some(next) if (next as usize) < self.table.slots().len() => at = next,
                _ => return false,
            }
        }
        false
    }

    /// Whether this thread loads the entry of a slot.
    pub(crate) fn is_loaded_here(&self, slot: u32) -> bool {
        let slot = self.table.slot(slot);
        matches!(slot.state(), state::LOADING | state::ORPHAN)
            && Some(slot.owner.load(Relaxed)) == self.cache.seat()
            && slot.thread.load(Relaxed) == this_thread()
    }

    /// Holds an entry for this process; whether it could be.
    pub(crate) fn hold(&self, slot: u32, seat: u32) -> bool {
        let holds = &self.table.holds(slot)[seat as usize];
        let held = holds.fetch_update(Relaxed, Relaxed, |holds| holds.checked_add(1)).is_ok();
        if held {
            self.table.slot(slot).stamp.store(self.tick(), Relaxed);
        }
        held
    }

    pub(crate) fn tick(&self) -> u64 {
        self.table.head().clock.fetch_add(1, Relaxed) + 1
    }

    /// Wakes those who wait for a load.
    pub(crate) fn announce(&self, slot: u32) {
        let news = &self.table.slot(slot).news;
        news.fetch_add(1, Release);
        futex::wake(news, i32::MAX as u32);
    }

    // --- room -----------------------------------------------------------------------------------------

    /// Memory for an entry, if need be that of others. `None` if too much is in use.
    pub(crate) fn make_room(&self, pages: u32) -> Option<Extent> {
        let head = self.table.head();
        loop {
            let (used, budget) = (head.used.load(Relaxed), head.budget.load(Relaxed));
            let missing = (used + pages).saturating_sub(budget);
            if missing == 0
                && let Some(first) = self.table.room().take(pages)
            {
                head.used.store(used + pages, Relaxed);
                return Some(self.table.ground.part(first, pages));
            }
            // Nothing is dropped in vain.
            let oldest = if self.could_free(missing) { self.oldest() } else { None };
            match oldest {
                Some(slot) => self.evict(slot),
                None if self.bury_the_dead() => {}
                None => return None,
            }
        }
    }

    /// Whether nobody uses what is in a slot, and nobody loads it.
    fn is_unused(&self, slot: u32) -> bool {
        match self.table.slot(slot).state() {
            state::READY | state::FORGOTTEN => {
                // Acquired: whoever let go had read before.
                let free = |holds: &AtomicU16| holds.load(Acquire) == 0;
                self.table.holds(slot).iter().all(free)
            }
            state::CROWDED | state::TOO_LARGE => true,
            _ => false,
        }
    }

    fn pages(&self, slot: &Slot) -> u32 {
        let within = slot.extent().and_then(|extent| extent.within(self.table.ground));
        within.map_or(0, |(_, pages)| pages)
    }

    /// Whether so many pages are in slots that nobody uses.
    fn could_free(&self, pages: u32) -> bool {
        let mut found = 0;
        self.numbered().any(|(number, slot)| {
            let has = self.pages(slot);
            if has > 0 && self.is_unused(number) {
                found += has;
            }
            found >= pages
        })
    }

    /// The slot with memory that nobody uses and that was used the longest time ago.
    fn oldest(&self) -> Option<u32> {
        let mut oldest = None;
        for (number, slot) in self.numbered() {
            let stamp = slot.stamp.load(Relaxed);
            let older = oldest.is_none_or(|(_, best)| stamp < best);
            if older && slot.extent().is_some() && self.is_unused(number) {
                oldest = Some((number, stamp));
            }
        }
        oldest.map(|(number, _)| number)
    }

    fn evict(&self, slot: u32) {
        if self.table.slot(slot).state() == state::READY {
            self.table.head().evictions.fetch_add(1, Relaxed);
        }
        self.free(slot);
    }

    /// Frees a slot and its memory, which nobody uses.
    pub(crate) fn free(&self, number: u32) {
        let (slot, head) = (self.table.slot(number), self.table.head());
        let (extent, was_entry) = (slot.extent(), slot.state() == state::READY);
        slot.state.store(state::FREE, Release);
        head.entries.fetch_sub(u32::from(was_entry), Relaxed);
        if let Some((extent, (first, pages))) = extent.and_then(|e| Some((e, e.within(self.table.ground)?))) {
            self.table.commons.discard(extent);
            self.table.room().give(first, pages);
            head.used.fetch_sub(pages, Relaxed);
        }
    }

    /// Drops what nobody uses, and forgets the rest.
    pub(crate) fn clear(&self) {
        self.bury_the_dead();
        for (number, slot) in self.numbered() {
            match slot.state() {
                state::READY if !self.is_unused(number) => {
                    slot.stamp.store(0, Relaxed);
                    slot.state.store(state::FORGOTTEN, Release);
                    self.table.head().entries.fetch_sub(1, Relaxed);
                }
                state::LOADING => {
                    slot.state.store(state::ORPHAN, Release);
                    self.announce(number);
                }
                _ if self.is_unused(number) => self.free(number),
                _ => {}
            }
        }
    }

    /// Counts anew what follows from the slots, and gives back the memory that is none of theirs.
    fn mend(&self) {
        let (head, room) = (self.table.head(), self.table.room());
        let (mut used, mut entries) = (0, 0);
        room.clear();
        for slot in self.table.slots() {
            entries += u32::from(slot.state() == state::READY);
            if let Some((first, pages)) = slot.extent().and_then(|extent| extent.within(self.table.ground)) {
                room.mark(first, pages, true);
                used += pages;
            }
        }
        for (first, pages) in room.gaps() {
            self.table.commons.discard(self.table.ground.part(first, pages));
        }
        head.used.store(used, Relaxed);
        head.entries.store(entries, Relaxed);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: the thread that made this value has acquired the lock, and the value cannot leave it.
        unsafe { self.table.head().lock.release() };
    }
}

fn this_thread() -> u32 {
    gettid().as_raw_nonzero().get() as u32
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cache::Found;

    fn load(cache: &Arc<Cache>, key: Key) {
        match cache.find(key, None, false) {
            Ok(Found::Turn(turn)) => drop(turn.keep(&[&vec![7; 100_000]])),
            _ => panic!("nobody has loaded it"),
        }
    }

    #[test]
    fn whoever_is_given_the_lock_of_a_dead_owner_counts_anew() {
        let cache = Cache::create(1 << 20).unwrap();
        for number in 0..4 {
            load(&cache, [number, 0]);
        }
        let before = cache.stats();
        // SAFETY: the child touches the table alone, and ends.
        if unsafe { libc::fork() } == 0 {
            let locked = cache.lock();
            // In the middle of dropping one entry and taking memory for another.
            cache.table.slots()[0].state.store(state::FREE, Release);
            locked.table.room().take(5);
            locked.table.head().used.fetch_add(17, Relaxed);
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
        }
        // SAFETY: any child will do.
        unsafe { libc::wait(std::ptr::null_mut()) };
        assert!(!cache.contains([0, 0]));
        assert!(cache.contains([3, 0]));
        let after = cache.stats();
        assert_eq!((after.entries, after.bytes), (3, before.bytes / 4 * 3));
        let file = rustix::fs::fstat(cache.file()).unwrap();
        assert!(file.st_blocks as u64 * 512 < after.bytes + (1 << 17), "its pages are given back");
        load(&cache, [0, 0]);
        assert_eq!(cache.stats().bytes, before.bytes);
    }
}
