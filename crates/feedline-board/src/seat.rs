//! A worker's side.

use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
            fence,
        },
    },
    time::Duration,
};

use crate::{
    ANY, Commons, Extent,
    board::{all_done, monotonic, processor_time},
    futex,
    journal::Stretch,
    layout::{DONE, Desk, FREE, Slot, Table, word},
};

/// Units of a ticket that this worker owns until it marks them as done.
#[derive(Debug)]
pub struct Claim {
    /// The ticket.
    pub ticket: u64,
    /// Its units, among how many.
    pub units: Range<usize>,
    /// How many units the ticket has.
    pub of: usize,
    /// See [`crate::Post`].
    pub kind: u32,
    /// See [`crate::Post`].
    pub generation: u64,
    payload: (u64, usize),
    began: u64,
}

/// Claims that took fewer nanoseconds are not worth a look at the clock of the processor.
const SOON_DONE: u64 = 100_000;

/// A worker's place at a board.
pub struct Seat {
    table: Table,
    worker: usize,
    /// No older ticket has anything for us, unless there was a recall.
    from: u64,
    recall: u32,
    /// What the thread had used of a processor when its last claim ended; 0 before the first one.
    used: AtomicU64,
}

impl Seat {
    /// Takes the place of a worker at the board that lies in `place`.
    pub fn attach(commons: Arc<Commons>, place: Extent, worker: usize) -> io::Result<Self> {
        let table = Table::new(commons, place).ok_or(io::ErrorKind::InvalidData)?;
        if worker >= table.head().workers.load(Relaxed) as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self { table, worker, from: 0, recall: 0, used: AtomicU64::new(0) })
    }

    /// The memory it lies in.
    pub fn commons(&self) -> &Arc<Commons> {
        &self.table.commons
    }

    fn desk(&self) -> &Desk {
        self.table.desk(self.worker)
    }

    fn slot(&self, claim: &Claim) -> &Slot {
        self.table.slot(claim.ticket)
    }

    /// Whether this worker is to leave, or all are.
    pub fn is_over(&self) -> bool {
        self.table.head().stop.load(SeqCst) != 0 || self.desk().leave.load(SeqCst) != 0
    }

    /// Takes units of the oldest ticket that has any. If there are none, waits for them, but no longer than
    /// `limit`.
    pub fn claim(&mut self, limit: Duration) -> Option<Claim> {
        let bell = self.table.head().bell.load(SeqCst);
        if let Some(claim) = self.try_claim() {
            return Some(claim);
        }
        let (head, began) = (self.table.head(), monotonic());
        if !limit.is_zero() && !self.is_over() {
            self.say_hungry();
            head.sleepers.fetch_add(1, SeqCst);
            futex::wait(&head.bell, bell, limit);
            head.sleepers.fetch_sub(1, SeqCst);
            self.desk().waiting.fetch_add(monotonic() - began, Relaxed);
        }
        self.try_claim()
    }

    fn say_hungry(&self) {
        let head = self.table.head();
        if head.wants_hungry.load(Relaxed) != 0 && head.hungry.swap(1, SeqCst) == 0 {
            self.tell_consumer();
        }
    }

    fn tell_consumer(&self) {
        let head = self.table.head();
        head.news.fetch_add(1, SeqCst);
        if head.consumer_sleeps.load(SeqCst) != 0 {
            futex::wake(&head.news, 1);
        }
    }

    fn try_claim(&mut self) -> Option<Claim> {
        let head = self.table.head();
        if self.is_over() {
            return None;
        }
        let (recall, posted) = (head.recall.load(SeqCst), head.posted.load(Acquire));
        let mut from = self.from.max(head.lowest.load(Acquire));
        if recall != self.recall {
            from = head.lowest.load(Acquire);
        }
        let mut claim = None;
        while from < posted && claim.is_none() {
            claim = self.take_units(from);
            from += u64::from(claim.is_none());
        }
        (self.recall, self.from) = (recall, from);
        claim
    }

    /// Takes the first free units of a ticket, if they are for us.
    fn take_units(&self, ticket: u64) -> Option<Claim> {
        let slot = self.table.slot(ticket);
        let only = slot.only.load(Relaxed);
        if slot.ticket.load(Acquire) != ticket || (only != 0 && only != self.worker as u32 + 1) {
            return None;
        }
        let body = self.table.body(slot)?;
        let run = slot.run.load(Relaxed).max(1) as usize;
        let mut units = 0..0;
        for (unit, owner) in body.owners().iter().enumerate() {
            if units.len() < run && self.take(owner, ticket) {
                if units.is_empty() {
                    units = unit..unit;
                }
                units.end = unit + 1;
            } else if !units.is_empty() {
                break;
            }
        }
        if units.is_empty() {
            return None;
        }
        // A unit is ours, so the slot is this ticket's and stays so.
        let body = self.table.body(slot)?;
        let (desk, began) = (self.desk(), monotonic());
        if self.used.load(Relaxed) == 0 {
            // What it took to begin is not what samples take.
            self.used.store(processor_time(), Relaxed);
        }
        desk.ticket.store(ticket, Relaxed);
        desk.first.store(units.start as u32, Relaxed);
        desk.count.store(units.len() as u32, Relaxed);
        desk.unit.store(units.start as u32, Relaxed);
        desk.since.store(began, Relaxed);
        Some(Claim {
            ticket,
            of: body.owners().len(),
            units,
            kind: slot.kind.load(Relaxed),
            generation: slot.generation.load(Relaxed),
            payload: body.payload(),
            began,
        })
    }

    fn take(&self, owner: &AtomicU64, ticket: u64) -> bool {
        let (free, mine) = (word(ticket, FREE), word(ticket, self.worker as u64));
        owner.load(Relaxed) == free && owner.compare_exchange(free, mine, SeqCst, Relaxed).is_ok()
    }

    /// What the ticket says.
    pub fn payload(&self, claim: &Claim) -> &[u8] {
        let (offset, len) = claim.payload;
        // SAFETY: while a unit is ours the ticket stays, and nobody writes to its payload.
        unsafe { self.table.commons.bytes(offset, len) }.unwrap_or(&[])
    }

    /// Says which unit of a claim this worker is at.
    pub fn at(&self, claim: &Claim, unit: usize) {
        let desk = self.desk();
        desk.unit.store(unit as u32, Relaxed);
        // Looking at the clock takes as long as a tiny unit, so the time is that of one of the last few.
        let second = unit == claim.units.start + 1;
        if second || unit.is_multiple_of(8) {
            let now = monotonic();
            desk.since.store(now, Relaxed);
            if second {
                self.first_took(now - claim.began);
            }
        }
    }

    /// What the thread has used of a processor since its last claim ended, for one that took so long. One look for each
    /// claim: this clock is a call to the system. While it waited for the claim it used next to nothing; and what is
    /// soon done has hardly waited, so there is no look at all.
    fn used_since(&self, spent: u64) -> u64 {
        if spent < SOON_DONE {
            self.used.fetch_add(spent, Relaxed);
            return spent;
        }
        let used = processor_time();
        used.saturating_sub(self.used.swap(used, Relaxed))
    }

    fn first_took(&self, spent: u64) {
        let desk = self.desk();
        desk.first_busy.fetch_add(spent, Relaxed);
        desk.first_units.fetch_add(1, Relaxed);
    }

    /// Leaves a number for the consumer.
    pub fn mark(&self, mark: u32) {
        self.desk().mark.store(mark, Relaxed);
    }

    /// Whether the ticket was found to be other than expected.
    pub fn odd(&self, claim: &Claim) -> u32 {
        self.slot(claim).odd.load(Relaxed)
    }

    /// Says that the ticket is other than expected.
    pub fn set_odd(&self, claim: &Claim, odd: u32) {
        self.slot(claim).odd.fetch_max(odd, Relaxed);
    }

    /// What is published about the ticket, 0 if nothing; or publishes it, unless another was first.
    pub fn schema(&self, claim: &Claim, publish: u64) -> u64 {
        publish_once(&self.slot(claim).schema, publish)
    }

    /// The memory for the ticket's rows, at least so many bytes: taken now if there is none yet. `None` if there
    /// is some, and it is too small.
    pub fn region(&self, claim: &Claim, bytes: usize) -> io::Result<Option<Extent>> {
        let region = &self.slot(claim).region;
        if Extent::unpack(region.load(Acquire)).is_none() {
            // If another is faster, this one stays unused: it is only an address.
            publish_once(region, self.table.commons.fresh(bytes)?.pack());
        }
        Ok(Extent::unpack(region.load(Acquire)).filter(|extent| extent.len() >= bytes))
    }

    /// As [`Seat::region`] for a ticket of a single unit: memory that is too small is put aside for larger.
    pub fn own_region(&self, claim: &Claim, bytes: usize) -> io::Result<Extent> {
        if let Some(extent) = self.region(claim, bytes)? {
            return Ok(extent);
        }
        let fresh = self.table.commons.fresh(bytes)?;
        self.slot(claim).region.store(fresh.pack(), Release);
        Ok(fresh)
    }

    /// Marks the units of a claim as done, with a note (offset and length) at the first of them.
    pub fn done(&self, claim: &Claim, note: Option<(u64, usize)>) {
        let Some(body) = self.table.body(self.slot(claim)) else { return };
        let notes = body.notes();
        for unit in claim.units.clone() {
            // One that died may have left a note, and gone no further.
            notes[2 * unit + 1].store(0, Relaxed);
        }
        if let Some((offset, len)) = note {
            notes[2 * claim.units.start].store(offset, Relaxed);
            notes[2 * claim.units.start + 1].store(len as u64, Relaxed);
        }
        // The books first: once the units are done, the consumer may look at them.
        let desk = self.desk();
        let ended = monotonic();
        let (spent, units) = (ended - claim.began, claim.units.len() as u64);
        desk.ticket.store(ANY, Relaxed);
        desk.since.store(0, Relaxed);
        desk.busy.fetch_add(spent, Relaxed);
        desk.processor.fetch_add(self.used_since(spent), Relaxed);
        desk.units.fetch_add(units, Relaxed);
        desk.runs.fetch_add(1, Relaxed);
        if units == 1 {
            self.first_took(spent);
        }
        let (ticket, began) = (claim.ticket, claim.began);
        self.table.note(self.worker, &Stretch { ticket, units: claim.units.clone(), began, ended });
        let owners = body.owners();
        for owner in &owners[claim.units.clone()] {
            owner.store(word(claim.ticket, DONE), Release);
        }
        // Of two workers that finish the last units at once, at least one sees both.
        fence(SeqCst);
        if all_done(owners, claim.ticket) {
            let front = self.table.head().front.load(Relaxed);
            if front == claim.ticket || front == ANY {
                self.tell_consumer();
            }
        }
    }
}

/// Sets a word that is 0, and returns what it is then. A value of 0 sets nothing.
fn publish_once(word: &AtomicU64, value: u64) -> u64 {
    match word.load(Acquire) {
        0 if value != 0 => match word.compare_exchange(0, value, SeqCst, Acquire) {
            Ok(_) => value,
            Err(other) => other,
        },
        other => other,
    }
}
