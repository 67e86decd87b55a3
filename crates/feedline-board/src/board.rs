//! The consumer's side.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
        },
    },
    time::{Duration, Instant},
};

use crate::{
    ANY, Commons, Extent, futex,
    journal::Stretch,
    layout::{Body, DONE, FREE, GONE, Head, MOST_WORKERS, SLOTS, Table, word},
};

/// A ticket to be posted.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// How many units it has: rows, or one for the whole batch. Not 0.
    pub units: usize,
    /// How many neighbouring units a worker takes at once.
    pub run: usize,
    /// The only worker that may take it.
    pub only: Option<usize>,
    /// What kind of ticket it is, and of which generation: for the workers' code.
    pub kind: u32,
    /// See `kind`.
    pub generation: u64,
    /// What the workers must know, the samples' numbers for example.
    pub payload: &'a [u8],
    /// Memory for the rows; without it, a worker takes some.
    pub region: Option<Extent>,
    /// What is known of the rows; 0 if nothing.
    pub schema: u64,
}

/// Why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The ticket is done.
    Done,
    /// The workers have nothing to do.
    Hungry,
    /// Neither: the time is over, or a signal has arrived.
    Neither,
}

/// A ticket that has left the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Memory with the rows. It belongs to whoever retired the ticket.
    pub region: Option<Extent>,
    /// What a worker published about them.
    pub schema: u64,
    /// What a worker found odd; 0 if nothing.
    pub odd: u32,
    /// What workers noted, by unit: offset and length.
    pub notes: Vec<(usize, u64, usize)>,
}

/// Units that a dead worker held, and that are free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The ticket.
    pub ticket: u64,
    /// The first unit.
    pub first: usize,
    /// How many there are.
    pub count: usize,
    /// The one it was at.
    pub unit: usize,
}

/// What a worker is at and where its time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeatGauge {
    /// The ticket and the unit it is at, and for how long.
    pub at: Option<(u64, usize, Duration)>,
    /// Time spent on units.
    pub busy: Duration,
    /// Time spent waiting for something to do.
    pub waiting: Duration,
    /// How much of that its thread had a processor; the rest it waited.
    pub processor: Duration,
    /// Units done.
    pub units: u64,
    /// Visits to the board.
    pub runs: u64,
    /// Time spent on the first unit of each visit, and how many those were.
    pub first: (Duration, u64),
    /// A number that the worker's code has left.
    pub mark: u32,
}

/// The consumer's side of a board. Dropping it tells the workers to stop; their memory stays until the commons
/// are gone.
pub struct Board {
    table: Table,
    workers: usize,
    /// How many of them there are now.
    present: usize,
    posted: u64,
    /// For each ticket from the oldest one on the board: whether it has left.
    left: VecDeque<bool>,
    released: bool,
    /// The process whose board it is.
    process: u32,
}

impl Board {
    /// A board with seats for so many workers, each with a journal of so many entries.
    pub fn new(commons: Arc<Commons>, workers: usize, journal: u16) -> io::Result<Self> {
        if workers > MOST_WORKERS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{workers} workers are more than {MOST_WORKERS}"),
            ));
        }
        let place = commons.take(Table::bytes(workers, journal.into()))?;
        let start = commons.at(place.offset(), place.len()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the place is ours alone: memory comes back to the commons when nobody uses it any more.
        unsafe { start.write_bytes(0, place.len()) };
        let table = Table::new(commons, place).ok_or(io::ErrorKind::OutOfMemory)?;
        let head = table.head();
        head.workers.store(workers as u32, Relaxed);
        head.journal.store(journal.into(), Relaxed);
        (0..SLOTS).for_each(|slot| table.slot(slot).ticket.store(ANY, Relaxed));
        for worker in 0..workers {
            table.desk(worker).ticket.store(ANY, Relaxed);
        }
        Ok(Self {
            table,
            workers,
            present: workers,
            posted: 0,
            left: VecDeque::new(),
            released: false,
            process: std::process::id(),
        })
    }

    /// Where it is, for [`crate::Seat::attach`].
    pub fn place(&self) -> Extent {
        self.table.place
    }

    /// The memory it lies in.
    pub fn commons(&self) -> &Arc<Commons> {
        &self.table.commons
    }

    /// Says how many workers there are, if there are fewer than seats.
    pub fn set_present(&mut self, workers: usize) {
        self.present = workers.min(self.workers);
    }

    /// Tells a worker to leave after the units it is at, or that its seat may be taken again: by another, when it has left.
    pub fn dismiss(&self, worker: usize, leave: bool) {
        self.table.desk(worker).leave.store(u32::from(leave), SeqCst);
        if leave {
            // It may sleep, and nobody knows which of the sleepers is woken.
            self.ring(usize::MAX);
        }
    }

    /// Whether another ticket can be posted.
    pub fn has_room(&self) -> bool {
        (self.left.len() as u64) < SLOTS
    }

    /// Posts a ticket, and returns its number.
    pub fn post(&mut self, post: &Post<'_>) -> io::Result<u64> {
        let bytes = Body::bytes(post.units, post.payload.len()).filter(|_| post.units > 0 && self.has_room());
        let body = self.table.commons.take(bytes.ok_or(io::ErrorKind::InvalidInput)?)?;
        let ticket = self.posted;
        let slot = self.table.slot(ticket);
        // A worker that still looks at the former ticket of this slot may see any mixture of the two. It learns
        // from the owner word that the unit is not the one it wanted.
        slot.ticket.store(ANY, Release);
        slot.body.store(body.pack(), Relaxed);
        slot.units.store(post.units as u32, Relaxed);
        slot.run.store(post.run.clamp(1, post.units) as u32, Relaxed);
        slot.only.store(post.only.map_or(0, |worker| worker as u32 + 1), Relaxed);
        slot.kind.store(post.kind, Relaxed);
        slot.generation.store(post.generation, Relaxed);
        slot.payload.store(post.payload.len() as u64, Relaxed);
        slot.region.store(post.region.map_or(0, Extent::pack), Relaxed);
        slot.schema.store(post.schema, Relaxed);
        slot.odd.store(0, Relaxed);
        let parts = self.table.body(slot).expect("it was written just above");
        let (offset, len) = parts.payload();
        let target = self.table.commons.at(offset, len).expect("the extent is that large");
        // SAFETY: the body is ours until the ticket is posted, and workers only read the payload.
        unsafe { target.copy_from_nonoverlapping(post.payload.as_ptr(), len) };
        parts.notes().iter().for_each(|note| note.store(0, Relaxed));
        parts.owners().iter().for_each(|owner| owner.store(word(ticket, FREE), Release));
        slot.ticket.store(ticket, Release);
        self.posted += 1;
        self.left.push_back(false);
        let head = self.table.head();
        head.posted.store(self.posted, Release);
        head.hungry.store(0, Relaxed);
        Ok(ticket)
    }

    /// Tells up to `count` sleeping workers that there is something to do.
    pub fn ring(&self, count: usize) {
        let head = self.table.head();
        head.bell.fetch_add(1, SeqCst);
        if head.sleepers.load(SeqCst) > 0 {
            futex::wake(&head.bell, count.min(i32::MAX as usize) as u32);
        }
    }

    /// Tells one worker that there is something to do, if all of them sleep; one that is awake finds it by itself.
    pub fn ring_if_all_sleep(&self) {
        let head = self.table.head();
        // A worker that is about to sleep sees that this has changed, and does not.
        head.bell.fetch_add(1, SeqCst);
        if head.sleepers.load(SeqCst) as usize >= self.present {
            futex::wake(&head.bell, 1);
        }
    }

    fn owners(&self, ticket: u64) -> Option<&[AtomicU64]> {
        let slot = self.table.slot(ticket);
        (slot.ticket.load(Acquire) == ticket).then(|| self.table.body(slot).map(Body::owners)).flatten()
    }

    /// Whether all units of a ticket are done (or revoked).
    pub fn is_done(&self, ticket: u64) -> bool {
        self.owners(ticket).is_none_or(|owners| all_done(owners, ticket))
    }

    /// Waits until a ticket (or [`ANY`] of `tickets`) is done, but no longer than `limit`; if `or_hungry`, also
    /// until workers have nothing to do.
    pub fn wait(&self, tickets: &[u64], or_hungry: bool, limit: Duration) -> Wake {
        let (head, start) = (self.table.head(), Instant::now());
        let front = if let [one] = tickets { *one } else { ANY };
        head.front.store(front, Relaxed);
        head.wants_hungry.store(u32::from(or_hungry), Relaxed);
        loop {
            let seen = head.news.load(SeqCst);
            // Before looking: a worker that finishes after the look sees it and wakes us.
            head.consumer_sleeps.store(1, SeqCst);
            let wake = self.look(head, tickets, or_hungry);
            let left = limit.saturating_sub(start.elapsed());
            if wake != Wake::Neither || left.is_zero() {
                head.consumer_sleeps.store(0, Relaxed);
                return wake;
            }
            futex::wait(&head.news, seen, left);
            head.consumer_sleeps.store(0, Relaxed);
            if head.news.load(SeqCst) == seen {
                // A signal or the end of the time: the caller knows which.
                return self.look(head, tickets, or_hungry);
            }
        }
    }

    fn look(&self, head: &Head, tickets: &[u64], or_hungry: bool) -> Wake {
        if tickets.iter().any(|ticket| self.is_done(*ticket)) {
            Wake::Done
        } else if or_hungry && head.hungry.load(SeqCst) != 0 {
            Wake::Hungry
        } else {
            Wake::Neither
        }
    }

    /// Takes a ticket that is done off the board.
    pub fn retire(&mut self, ticket: u64) -> Option<Retired> {
        let slot = self.table.slot(ticket);
        if slot.ticket.load(Acquire) != ticket || !self.is_done(ticket) {
            return None;
        }
        let notes = self.table.body(slot)?.notes();
        let notes = notes.chunks_exact(2).enumerate().filter_map(|(unit, note)| {
            let len = note[1].load(Relaxed) as usize;
            (len > 0).then(|| (unit, note[0].load(Relaxed), len))
        });
        let retired = Retired {
            notes: notes.collect(),
            region: Extent::unpack(slot.region.load(Relaxed)),
            schema: slot.schema.load(Relaxed),
            odd: slot.odd.load(Relaxed),
        };
        slot.ticket.store(ANY, Release);
        // Owner words of this ticket all say done: whoever finds this memory as another's body leaves it alone.
        if let Some(body) = Extent::unpack(slot.body.swap(0, Relaxed)) {
            self.table.commons.give(body);
        }
        self.leave(ticket);
        Some(retired)
    }

    fn leave(&mut self, ticket: u64) {
        let oldest = self.posted - self.left.len() as u64;
        if let Some(left) = ticket.checked_sub(oldest).and_then(|at| self.left.get_mut(at as usize)) {
            *left = true;
        }
        while self.left.front() == Some(&true) {
            self.left.pop_front();
        }
        self.table.head().lowest.store(self.posted - self.left.len() as u64, Release);
    }

    /// Takes back the units of a ticket that no worker has taken.
    pub fn revoke(&self, ticket: u64) {
        let owners = self.owners(ticket).unwrap_or(&[]);
        for owner in owners {
            change(owner, ticket, FREE, GONE);
        }
    }

    /// Declares a unit that a dead worker held to be done, because it cannot be.
    pub fn give_up(&self, ticket: u64, unit: usize, worker: usize) {
        if let Some(owner) = self.owners(ticket).and_then(|owners| owners.get(unit)) {
            change(owner, ticket, worker as u64, DONE);
        }
    }

    /// The units that a dead worker held.
    pub fn lost(&self, worker: usize) -> Vec<Lost> {
        let (desk, mut lost) = (self.table.desk(worker), Vec::<Lost>::new());
        let (at, unit) = (desk.ticket.load(Relaxed), desk.unit.load(Relaxed) as usize);
        for ticket in self.posted - self.left.len() as u64..self.posted {
            for (unit_here, owner) in self.owners(ticket).unwrap_or(&[]).iter().enumerate() {
                if owner.load(Acquire) != word(ticket, worker as u64) {
                    continue;
                }
                match lost.last_mut() {
                    Some(lost) if lost.ticket == ticket => lost.count += 1,
                    _ => lost.push(Lost { ticket, first: unit_here, count: 1, unit: unit_here }),
                }
            }
        }
        for lost in &mut lost {
            if lost.ticket == at && (lost.first..lost.first + lost.count).contains(&unit) {
                lost.unit = unit;
            }
        }
        lost
    }

    /// Frees the units that a dead worker held and that have not been given up.
    pub fn reclaim(&mut self, worker: usize) {
        for ticket in self.posted - self.left.len() as u64..self.posted {
            for owner in self.owners(ticket).unwrap_or(&[]) {
                change(owner, ticket, worker as u64, FREE);
            }
        }
        let desk = self.table.desk(worker);
        desk.ticket.store(ANY, Relaxed);
        desk.since.store(0, Relaxed);
        self.table.head().recall.fetch_add(1, SeqCst);
        self.ring(self.workers);
    }

    /// What a worker is at and where its time went.
    pub fn gauge(&self, worker: usize) -> SeatGauge {
        let desk = self.table.desk(worker);
        let (ticket, since) = (desk.ticket.load(Relaxed), desk.since.load(Relaxed));
        let spent = Duration::from_nanos(monotonic().saturating_sub(since));
        SeatGauge {
            at: (ticket != ANY && since != 0).then(|| (ticket, desk.unit.load(Relaxed) as usize, spent)),
            busy: Duration::from_nanos(desk.busy.load(Relaxed)),
            waiting: Duration::from_nanos(desk.waiting.load(Relaxed)),
            processor: Duration::from_nanos(desk.processor.load(Relaxed)),
            units: desk.units.load(Relaxed),
            runs: desk.runs.load(Relaxed),
            first: (Duration::from_nanos(desk.first_busy.load(Relaxed)), desk.first_units.load(Relaxed)),
            mark: desk.mark.load(Relaxed),
        }
    }

    /// What a worker has been at since the last time this was asked, oldest first, and how many stretches are missing
    /// because its journal was full.
    pub fn journal(&mut self, worker: usize) -> (Vec<Stretch>, u64) {
        self.table.noted(worker)
    }

    /// Gives all memory of the board back to the commons. All workers must be gone.
    pub fn release(mut self) {
        for ticket in self.posted - self.left.len() as u64..self.posted {
            let slot = self.table.slot(ticket);
            if slot.ticket.swap(ANY, Relaxed) == ticket {
                for word in [&slot.body, &slot.region] {
                    if let Some(extent) = Extent::unpack(word.load(Relaxed)) {
                        self.commons().give(extent);
                    }
                }
            }
        }
        self.left.clear();
        self.table.commons.give(self.table.place);
        // The place is no longer ours to write to, so there is nothing to stop.
        self.released = true;
    }

    /// Tells the workers to leave, each after the units it is at.
    pub fn stop(&self) {
        let head = self.table.head();
        head.stop.store(1, SeqCst);
        head.bell.fetch_add(1, SeqCst);
        futex::wake(&head.bell, i32::MAX as u32);
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // A forked process has the same memory, but they are not its workers.
        if !self.released && self.process == std::process::id() {
            self.stop();
        }
    }
}

/// Whether no unit of a ticket is free or in work.
pub(crate) fn all_done(owners: &[AtomicU64], ticket: u64) -> bool {
    owners.iter().all(|owner| {
        let owner = owner.load(Acquire);
        owner == word(ticket, DONE) || owner == word(ticket, GONE)
    })
}

fn change(owner: &AtomicU64, ticket: u64, from: u64, to: u64) {
    let _ = owner.compare_exchange(word(ticket, from), word(ticket, to), SeqCst, Relaxed);
}

/// Nanoseconds for which the calling thread has had a processor.
pub(crate) fn processor_time() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds of a clock that all processes of the machine share.
pub(crate) fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
