//! A load that is somebody's to do.

use std::sync::{
    Arc,
    atomic::Ordering::{Relaxed, Release},
};

use crate::{
    cache::{
        cache::{Cache, Kept},
        locked::Locked,
        table::state,
    },
    commons::PAGE,
    copy_past_caches,
};

/// Parts of an entry begin at multiples of this.
pub(crate) const PART: usize = 64;

/// The length of what stands before the parts: how many there are, and how long each is.
pub(crate) fn header(parts: usize) -> usize {
    (8 * (parts + 1)).next_multiple_of(PART)
}

/// The length of an entry with these parts; `None` if there is no such number.
fn length(parts: &[&[u8]]) -> Option<usize> {
    let sum = |sum: usize, part: &&[u8]| sum.checked_next_multiple_of(PART)?.checked_add(part.len());
    parts.iter().try_fold(header(parts.len()), sum)
}

/// The right and the duty to load an entry. Others wait until it is kept or dropped.
pub struct Turn {
    cache: Arc<Cache>,
    /// The slot and the number of the load; `None` if what is loaded cannot be kept.
    mine: Option<(u32, u32)>,
    /// The slot of the load inside which this one happens.
    outer: Option<u32>,
}

impl Turn {
    pub(crate) fn new(cache: Arc<Cache>, slot: u32, turn: u32, outer: Option<u32>) -> Self {
        Self { cache, mine: Some((slot, turn)), outer }
    }

    /// The load of something that cannot be kept.
    pub(crate) fn alone(cache: Arc<Cache>) -> Self {
        Self { cache, mine: None, outer: None }
    }

    /// Whether nobody waits for it, because what is loaded cannot be kept.
    pub fn is_alone(&self) -> bool {
        self.mine.is_none()
    }

    /// Its slot, unless the slot is another's by now, or this process a child of the one whose load it is.
    pub(crate) fn slot_if_mine(&self, locked: &Locked<'_>) -> Option<u32> {
        let (number, turn) = self.mine?;
        let slot = self.cache.table.slot(number);
        let loading = matches!(slot.state(), state::LOADING | state::ORPHAN);
        let mine = slot.turn.load(Relaxed) == turn && Some(slot.owner.load(Relaxed)) == self.cache.seat();
        (loading && mine && locked.is_of(&self.cache)).then_some(number)
    }

    /// Keeps what was loaded. `None` if there is no room for it, or it was forgotten meanwhile.
    pub fn keep(self, parts: &[&[u8]]) -> Option<Kept> {
        let slot = self.reserve(parts)?;
        self.write(slot, parts);
        let (locked, table) = (self.cache.lock(), &self.cache.table);
        // It was ours when the memory was taken for it, and nobody but its owner ends a load.
        let (entry, seat) = (table.slot(slot), self.cache.seat()?);
        let forgotten = entry.state() == state::ORPHAN;
        entry.stamp.store(if forgotten { 0 } else { locked.tick() }, Relaxed);
        table.holds(slot)[seat as usize].store(1, Relaxed);
        entry.state.store(if forgotten { state::FORGOTTEN } else { state::READY }, Release);
        table.head().entries.fetch_add(u32::from(!forgotten), Relaxed);
        locked.announce(slot);
        drop(locked);
        // What remains of the turn finds nothing to end.
        Some(Kept { cache: Arc::clone(&self.cache), slot })
    }

    /// Takes memory for the parts, or ends the load without it.
    fn reserve(&self, parts: &[&[u8]]) -> Option<u32> {
        let (locked, head) = (self.cache.lock(), self.cache.table.head());
        head.loads.fetch_add(1, Relaxed);
        let (len, budget) = (length(parts), head.budget.load(Relaxed));
        let pages =
            len.and_then(|len| u32::try_from(len.div_ceil(PAGE)).ok()).filter(|pages| *pages <= budget);
        let Some(pages) = pages else {
            head.too_large.fetch_add(1, Relaxed);
            return self.unkept(&locked, state::TOO_LARGE);
        };
        let place = self.slot_if_mine(&locked).and_then(|slot| Some((slot, locked.make_room(pages)?)));
        let Some((slot, place)) = place else {
            head.private.fetch_add(1, Relaxed);
            return self.unkept(&locked, state::CROWDED);
        };
        let entry = self.cache.table.slot(slot);
        entry.len.store(len.unwrap_or(0) as u64, Relaxed);
        entry.place.store(place.pack(), Release);
        Some(slot)
    }

    /// Ends a load whose result is not kept, and says why.
    fn unkept<T>(&self, locked: &Locked<'_>, why: u32) -> Option<T> {
        if let Some(slot) = self.slot_if_mine(locked) {
            let entry = self.cache.table.slot(slot);
            let why = if entry.state() == state::ORPHAN { state::FREE } else { why };
            entry.stamp.store(locked.tick(), Relaxed);
            entry.state.store(why, Release);
            locked.announce(slot);
        }
        None
    }

    fn write(&self, slot: u32, parts: &[&[u8]]) {
        let table = &self.cache.table;
        let place = table.slot(slot).extent().expect("it was taken just above");
        let start = table.commons.at(place.offset(), place.len()).expect("an extent lies in the commons");
        let words: Vec<u8> = std::iter::once(parts.len())
            .chain(parts.iter().map(|part| part.len()))
            .flat_map(|word| (word as u64).to_le_bytes())
            .collect();
        let mut offset = 0;
        for part in std::iter::once(&words.as_slice()).chain(parts) {
            // SAFETY: the memory is ours until the entry is ready, and `length` has counted like this.
            let to = unsafe { start.add(offset) };
            // SAFETY: as above.
            unsafe { copy_past_caches(part.as_ptr(), to, part.len()) };
            offset = (offset + part.len()).next_multiple_of(PART);
        }
    }
}

impl Drop for Turn {
    /// Ends the load; if it has not been kept, others may try.
    fn drop(&mut self) {
        if self.mine.is_none() {
            return;
        }
        let locked = self.cache.lock();
        if let Some(slot) = self.slot_if_mine(&locked) {
            locked.free(slot);
            locked.announce(slot);
        }
        if let Some(outer) = self.outer.filter(|outer| locked.is_loaded_here(*outer)) {
            self.cache.table.slot(outer).waits_for.store(0, Relaxed);
        }
    }
}
