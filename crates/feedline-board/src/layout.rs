//! How a board lies in memory. Everything that several processes touch is an atomic.
//!
//! ```text
//!  Head │ Slot × slots │ Desk × workers │ Entry × journal × workers   one extent for the life of the board
//!  owner words × units │ notes × units │ payload                      one extent for each ticket
//! ```

use std::{
    mem::size_of,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use crate::{Commons, Extent};

/// Tickets that can be on a board at once.
pub(crate) const SLOTS: u64 = 1024;

/// A ticket number that stands for any ticket.
pub const ANY: u64 = u64::MAX;

/// States of a unit besides the number of the worker that has taken it.
pub(crate) const FREE: u64 = 0xffff;
pub(crate) const DONE: u64 = 0xfffe;
pub(crate) const GONE: u64 = 0xfffd;

/// The largest number of workers, so that their numbers are no states.
pub(crate) const MOST_WORKERS: usize = 0xff00;

/// The owner word of a unit of a ticket. Its first byte keeps it apart from anything a payload would hold.
pub(crate) fn word(ticket: u64, state: u64) -> u64 {
    (0xa5 << 56) | (ticket << 16) | state
}

#[repr(C, align(64))]
pub(crate) struct Head {
    pub(crate) workers: AtomicU32,
    /// How many entries each worker's journal has room for.
    pub(crate) journal: AtomicU32,
    pub(crate) stop: AtomicU32,
    /// Changes when there is something new for workers; they sleep on it.
    pub(crate) bell: AtomicU32,
    /// About how many workers sleep. A killed sleeper is counted for ever, which costs a needless call.
    pub(crate) sleepers: AtomicU32,
    /// Changes when there is something new for the consumer; it sleeps on it.
    pub(crate) news: AtomicU32,
    pub(crate) consumer_sleeps: AtomicU32,
    /// Whether the consumer, while it sleeps, would post more if workers had nothing to do; and that they have
    /// nothing to do.
    pub(crate) wants_hungry: AtomicU32,
    pub(crate) hungry: AtomicU32,
    /// Changes when units have become free again: workers begin their search at the oldest ticket.
    pub(crate) recall: AtomicU32,
    pub(crate) lowest: AtomicU64,
    pub(crate) posted: AtomicU64,
    /// The ticket the consumer sleeps for.
    pub(crate) front: AtomicU64,
}

/// What a worker says of itself.
#[repr(C, align(64))]
pub(crate) struct Desk {
    /// The ticket and units it is at, and the unit among them; `ANY` if at none.
    pub(crate) ticket: AtomicU64,
    pub(crate) first: AtomicU32,
    pub(crate) count: AtomicU32,
    pub(crate) unit: AtomicU32,
    /// A number that the worker's code can leave for the consumer.
    pub(crate) mark: AtomicU32,
    /// When it began with the unit it is at, in nanoseconds of the monotonic clock; 0 if at none.
    pub(crate) since: AtomicU64,
    pub(crate) busy: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) units: AtomicU64,
    pub(crate) runs: AtomicU64,
    /// Time of the first units of runs, and their number: to see whether the neighbours after them are cheaper.
    pub(crate) first_busy: AtomicU64,
    pub(crate) first_units: AtomicU64,
    /// Time of a processor that the worker's thread has used for what it did.
    pub(crate) processor: AtomicU64,
    /// Whether whoever sits here is to leave after the units it is at.
    pub(crate) leave: AtomicU32,
    /// Entries of its journal: written by the worker, read by the consumer, left out because there was no room.
    pub(crate) written: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) missed: AtomicU64,
}

/// When a worker was at which units; see `journal.rs`.
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) ticket: AtomicU64,
    /// The first unit in the upper half, how many there are in the lower.
    pub(crate) units: AtomicU64,
    /// In nanoseconds of the monotonic clock.
    pub(crate) began: AtomicU64,
    pub(crate) ended: AtomicU64,
}

/// A place for a ticket. Which one it is, `ticket` says; the other fields belong to that one.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) ticket: AtomicU64,
    /// The extent with owner words, notes and payload.
    pub(crate) body: AtomicU64,
    pub(crate) units: AtomicU32,
    /// How many units a worker takes at once.
    pub(crate) run: AtomicU32,
    /// One more than the number of the only worker that may take it; 0 if all may.
    pub(crate) only: AtomicU32,
    pub(crate) kind: AtomicU32,
    pub(crate) generation: AtomicU64,
    pub(crate) payload: AtomicU64,
    /// The extent for the rows; 0 until somebody has taken one.
    pub(crate) region: AtomicU64,
    /// Whatever the workers' code publishes about the ticket, once.
    pub(crate) schema: AtomicU64,
    /// Set by a worker that found the ticket to be other than expected.
    pub(crate) odd: AtomicU32,
}

/// A board in memory.
pub(crate) struct Table {
    pub(crate) commons: Arc<Commons>,
    pub(crate) place: Extent,
}

impl Table {
    pub(crate) fn bytes(workers: usize, journal: usize) -> usize {
        Self::desks() + workers * (size_of::<Desk>() + journal * size_of::<Entry>())
    }

    /// Where the desks begin.
    fn desks() -> usize {
        size_of::<Head>() + SLOTS as usize * size_of::<Slot>()
    }

    /// `None` if the place does not lie in the commons.
    pub(crate) fn new(commons: Arc<Commons>, place: Extent) -> Option<Self> {
        commons.at(place.offset(), place.len())?;
        (place.len() >= Self::bytes(0, 0)).then_some(Self { commons, place })
    }

    fn part<T>(&self, offset: usize) -> &T {
        assert!(offset + size_of::<T>() <= self.place.len(), "the board is as large as it says");
        let start = self.commons.at(self.place.offset(), self.place.len()).expect("checked when it was made");
        // SAFETY: the part lies in the place, which is page-aligned, is zero or was written by this code, and
        // consists of atomics.
        let part = unsafe { start.add(offset) };
        // SAFETY: as above; parts begin at multiples of 64, and entries, which need 8, at multiples of 32.
        unsafe { &*part.cast() }
    }

    pub(crate) fn head(&self) -> &Head {
        self.part(0)
    }

    pub(crate) fn desk(&self, worker: usize) -> &Desk {
        self.part(Self::desks() + worker * size_of::<Desk>())
    }

    /// The place of a worker's entry of that number; there must be a journal.
    pub(crate) fn entry(&self, worker: usize, number: u64) -> &Entry {
        let head = self.head();
        let (workers, room) = (head.workers.load(Relaxed) as usize, u64::from(head.journal.load(Relaxed)));
        let at = worker * room as usize + (number % room) as usize;
        self.part(Self::bytes(workers, 0) + at * size_of::<Entry>())
    }

    pub(crate) fn slot(&self, ticket: u64) -> &Slot {
        self.part(size_of::<Head>() + (ticket % SLOTS) as usize * size_of::<Slot>())
    }

    /// The body of the ticket in a slot. `None` if there is none that lies in the commons.
    pub(crate) fn body(&self, slot: &Slot) -> Option<Body<'_>> {
        let extent = Extent::unpack(slot.body.load(Relaxed))?;
        let units = slot.units.load(Relaxed) as usize;
        let payload = slot.payload.load(Relaxed) as usize;
        if Body::bytes(units, payload)? > extent.len() {
            return None;
        }
        self.commons.at(extent.offset(), extent.len())?;
        Some(Body { commons: &self.commons, offset: extent.offset(), units, payload })
    }
}

/// Owner words, notes and payload of a ticket.
#[derive(Clone, Copy)]
pub(crate) struct Body<'a> {
    commons: &'a Commons,
    offset: u64,
    units: usize,
    payload: usize,
}

impl<'a> Body<'a> {
    pub(crate) fn bytes(units: usize, payload: usize) -> Option<usize> {
        units.checked_mul(24)?.checked_add(payload)
    }

    fn words(self, first: usize, count: usize) -> &'a [AtomicU64] {
        let start = self.commons.at(self.offset, 8 * (first + count)).expect("`Table::body` has checked it");
        // SAFETY: the words lie in the body, which is page-aligned, initialised memory of the commons, whose
        // lifetime the slice has.
        let words: &[AtomicU64] = unsafe { std::slice::from_raw_parts(start.cast(), first + count) };
        &words[first..]
    }

    pub(crate) fn owners(self) -> &'a [AtomicU64] {
        self.words(0, self.units)
    }

    /// Offset and length of what is noted at each unit.
    pub(crate) fn notes(self) -> &'a [AtomicU64] {
        self.words(self.units, 2 * self.units)
    }

    /// Where the payload is, and its length.
    pub(crate) fn payload(self) -> (u64, usize) {
        (self.offset + 24 * self.units as u64, self.payload)
    }
}
