//! How a cache lies in memory. Everything that several processes touch is an atomic, or the lock.
//!
//! ```text
//!  Head │ Seat × SEATS │ Slot × slots │ holds × SEATS × slots │ a bit for each page     one extent
//!  entries, each in whole pages                                                         one extent, mostly empty
//! ```

use std::{
    io,
    mem::size_of,
    sync::{
        Arc,
        atomic::{
            AtomicU16, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed},
        },
    },
};

use crate::{
    Commons, Extent,
    cache::{
        lock::Lock,
        room::{Room, WORD},
    },
    commons::PAGE,
};

/// Processes that can use a cache at once.
pub(crate) const SEATS: usize = 128;

/// A key lies in one of so many slots, from the one its first bits name.
pub(crate) const WINDOW: usize = 32;

/// For so many bytes of the cache there is one slot.
const BYTES_PER_SLOT: u64 = 32 << 10;

/// The fewest and the most slots.
const FEWEST: usize = 64;
const MOST: usize = 1 << 17;

/// Entries lie in so many times the address space that they may use memory.
const SPREAD: u64 = 8;

const MAGIC: u64 = u64::from_le_bytes(*b"flcache1");

/// States of a slot.
pub(crate) mod state {
    /// It has no entry.
    pub(crate) const FREE: u32 = 0;
    /// The thread in `owner` and `thread` loads it.
    pub(crate) const LOADING: u32 = 1;
    /// It has an entry.
    pub(crate) const READY: u32 = 2;
    /// It was loaded, but there was no room; whoever waited for it loads for itself.
    pub(crate) const CROWDED: u32 = 3;
    /// It was loaded, but is larger than the cache.
    pub(crate) const TOO_LARGE: u32 = 4;
    /// Its entry is not found any more, but may be in use.
    pub(crate) const FORGOTTEN: u32 = 5;
    /// It will be forgotten when it is loaded.
    pub(crate) const ORPHAN: u32 = 6;
}

#[repr(C, align(64))]
pub(crate) struct Head {
    magic: AtomicU64,
    pub(crate) lock: Lock,
    slots: AtomicU32,
    /// Pages that entries may use.
    pub(crate) budget: AtomicU32,
    /// Pages among which they lie.
    spread: AtomicU32,
    /// Pages they use.
    pub(crate) used: AtomicU32,
    pub(crate) entries: AtomicU32,
    /// The number of the next load.
    pub(crate) turns: AtomicU32,
    /// Ticks when an entry is used.
    pub(crate) clock: AtomicU64,
    pub(crate) max_bytes: AtomicU64,
    pub(crate) loads: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) too_large: AtomicU64,
    pub(crate) private: AtomicU64,
}

/// A process that uses the cache.
#[repr(C)]
pub(crate) struct Seat {
    /// 0 if nobody sits here.
    pub(crate) pid: AtomicU32,
    /// Whether it is kept for a child that is about to be forked by that process.
    pub(crate) unborn: AtomicU32,
    pub(crate) start: AtomicU64,
}

/// A place for an entry. What is in it, `state` says; it is written after the other fields.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) key: [AtomicU64; 2],
    /// Where the entry lies, as an [`Extent`]; 0 if it has no memory. It counts while `state` is LOADING, ORPHAN, READY
    /// or FORGOTTEN.
    pub(crate) place: AtomicU64,
    /// Its length in bytes.
    pub(crate) len: AtomicU64,
    /// When it was used last.
    pub(crate) stamp: AtomicU64,
    pub(crate) state: AtomicU32,
    /// Who loads it: seat, thread, and the number of the load.
    pub(crate) owner: AtomicU32,
    pub(crate) thread: AtomicU32,
    pub(crate) turn: AtomicU32,
    /// One more than the slot that its load waits for; 0 if none.
    pub(crate) waits_for: AtomicU32,
    /// Changes when a load has ended, in whatever way; those who wait for it sleep on it.
    pub(crate) news: AtomicU32,
}

impl Slot {
    pub(crate) fn is(&self, key: [u64; 2]) -> bool {
        self.key[0].load(Relaxed) == key[0] && self.key[1].load(Relaxed) == key[1]
    }

    pub(crate) fn state(&self) -> u32 {
        self.state.load(Acquire)
    }

    /// Where it lies, if it has memory.
    pub(crate) fn extent(&self) -> Option<Extent> {
        let has = matches!(self.state(), state::LOADING | state::ORPHAN | state::READY | state::FORGOTTEN);
        Extent::unpack(self.place.load(Relaxed)).filter(|_| has)
    }
}

/// Where the parts of a table begin.
#[derive(Clone, Copy)]
struct Shape {
    slots: usize,
    /// Pages among which entries lie.
    spread: u32,
}

impl Shape {
    fn seats() -> usize {
        size_of::<Head>()
    }

    fn slots() -> usize {
        Self::seats() + SEATS * size_of::<Seat>()
    }

    fn holds(self) -> usize {
        Self::slots() + self.slots * size_of::<Slot>()
    }

    fn room(self) -> usize {
        self.holds() + self.slots * SEATS * size_of::<AtomicU16>()
    }

    fn words(self) -> usize {
        (self.spread / WORD) as usize
    }

    fn bytes(self) -> usize {
        self.room() + self.words() * size_of::<AtomicU64>()
    }
}

/// The table of a cache, and the memory of its entries.
pub(crate) struct Table {
    pub(crate) commons: Arc<Commons>,
    shape: Shape,
    place: Extent,
    /// Where entries lie.
    pub(crate) ground: Extent,
}

impl Table {
    /// A new table, empty, in new memory.
    pub(crate) fn create(max_bytes: u64) -> io::Result<Self> {
        let commons = Commons::create()?;
        let slots = (max_bytes / BYTES_PER_SLOT).clamp(FEWEST as u64, MOST as u64) as usize;
        let slots = slots.next_power_of_two().min(MOST);
        let room = commons.len() as u64 / PAGE as u64;
        let spread = (max_bytes / PAGE as u64).saturating_mul(SPREAD).min(room / 2).max(1);
        let shape = Shape { slots, spread: (spread as u32).next_multiple_of(WORD) };
        // What the table itself needs is part of what was allowed, and so is the first page.
        let budget = (max_bytes / PAGE as u64).saturating_sub(1 + shape.bytes().div_ceil(PAGE) as u64);
        if budget > u64::from(shape.spread) {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!("a cache of {max_bytes} bytes needs more address space than there is"),
            ));
        }
        let table = Self::lay(commons, shape)?;
        let head = table.head();
        head.lock.make()?;
        head.slots.store(shape.slots as u32, Relaxed);
        head.spread.store(shape.spread, Relaxed);
        head.budget.store(budget as u32, Relaxed);
        head.max_bytes.store(max_bytes, Relaxed);
        head.magic.store(MAGIC, Relaxed);
        Ok(table)
    }

    fn lay(commons: Arc<Commons>, shape: Shape) -> io::Result<Self> {
        let place = commons.fresh(shape.bytes())?;
        let ground = commons.fresh(shape.spread as usize * PAGE)?;
        Ok(Self { commons, shape, place, ground })
    }

    /// The table that another process made, in the same order as [`Table::create`].
    pub(crate) fn attach(commons: Arc<Commons>) -> io::Result<Self> {
        let place = Extent::first(size_of::<Head>()).ok_or(io::ErrorKind::InvalidData)?;
        let probe = Self { commons, shape: Shape { slots: 0, spread: 0 }, place, ground: place };
        let head = probe.head();
        if head.magic.load(Relaxed) != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (slots, spread) = (head.slots.load(Relaxed) as usize, head.spread.load(Relaxed));
        let shape = Shape { slots, spread };
        let place = Extent::first(shape.bytes()).filter(|_| slots.is_power_of_two() && slots <= MOST);
        let ground = place.and_then(|place| place.next(spread as usize * PAGE));
        match (place, ground) {
            (Some(place), Some(ground)) if probe.commons.at(ground.offset(), ground.len()).is_some() => {
                Ok(Self { commons: probe.commons, shape, place, ground })
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Atomics at an offset.
    fn part<T>(&self, offset: usize, count: usize) -> &[T] {
        assert!(offset + count * size_of::<T>() <= self.place.len(), "the table is as large as it says");
        let start = self.commons.at(self.place.offset(), self.place.len()).expect("checked when it was made");
        // SAFETY: the part lies in the place, which is page-aligned.
        let part = unsafe { start.add(offset) };
        // SAFETY: it is zero or was written by this code, consists of atomics and the lock, and begins at a multiple of
        // what its type needs: each part is a whole number of the types after it.
        unsafe { std::slice::from_raw_parts(part.cast(), count) }
    }

    pub(crate) fn head(&self) -> &Head {
        &self.part(0, 1)[0]
    }

    pub(crate) fn seats(&self) -> &[Seat] {
        self.part(Shape::seats(), SEATS)
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        self.part(Shape::slots(), self.shape.slots)
    }

    pub(crate) fn slot(&self, number: u32) -> &Slot {
        &self.slots()[number as usize]
    }

    /// For each seat, how many holds its process has on the entry of a slot: the only truth about that.
    pub(crate) fn holds(&self, slot: u32) -> &[AtomicU16] {
        let offset = self.shape.holds() + slot as usize * SEATS * size_of::<AtomicU16>();
        assert!((slot as usize) < self.shape.slots, "there are no more slots");
        self.part(offset, SEATS)
    }

    pub(crate) fn room(&self) -> Room<'_> {
        Room(self.part(self.shape.room(), self.shape.words()))
    }

    /// The slots in which a key can be.
    pub(crate) fn window(&self, key: [u64; 2]) -> impl Iterator<Item = u32> + use<> {
        let slots = self.shape.slots as u64;
        (0..WINDOW as u64).map(move |step| (key[0].wrapping_add(step) % slots) as u32)
    }
}
