//! Which rows are given out next, and which batch is delivered next. No threads, no clock: a plain data
//! structure that the engine keeps behind its lock.
//!
//! Batches stand in a queue in the order of the plan. Rows are given out from the front: the oldest batch with
//! rows left comes first, so all workers finish it together. Batches leave at the front as well, or, if order
//! is not kept, from wherever one is ready.
//!
//! ```text
//!  delivered ◄─ [ready] [ready] [filling 64/64] [filling 12/64] ◄─ opened when there is room
//!               └── ready: 2 ─┘  claimed: all     next_claim
//! ```
//!
//! *Room* is the only back-pressure. A new batch is opened if nothing is open (the oldest batch may always
//! proceed, however large), or if it fits the byte budget and
//! - running ahead: fewer than `batches` batches are ready to be delivered, and no more than a few if they are
//!   large; or all of them are tiny. While one slow row holds up the oldest batch nothing is ready, so the others
//!   run ahead as far as the bytes allow;
//! - otherwise: fewer than `batches` batches are open at all.

use std::{collections::VecDeque, ops::Range};

use crate::{Cursor, Failure, Unit, pace::Pace, plan::Spare};

/// Batches that fit into this many bytes together may be ready in any number: with tiny samples, waking a
/// worker costs more than filling a batch, and it should find many to fill.
const TINY: u64 = 1 << 20;

/// Batches that are ready take no more than this where no window was asked for, unless it is one. More would help
/// against a consumer whose steps differ in length; but memory that is touched for the first time, or has left the
/// caches, costs as much as filling it.
const DEPTH: u64 = 192 << 20;

/// How far loading may be ahead of the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Batches ready for the consumer; if not running ahead, batches begun and not yet delivered.
    pub batches: usize,
    /// Whether workers run ahead of a batch that is held up.
    pub run_ahead: bool,
    /// Bytes of batches begun and not yet delivered. One batch may always be begun.
    pub bytes: u64,
}

/// What a finished batch turned out to be: nothing, if all its rows were left out.
pub(crate) type Outcome<B, E> = Result<Option<B>, E>;

/// A batch as the plan gave it.
#[derive(Default)]
pub(crate) struct Ticket {
    /// The places before and after it.
    pub(crate) before: Cursor,
    pub(crate) after: Cursor,
    pub(crate) indices: Vec<usize>,
    pub(crate) spare: Option<Spare>,
    /// Whether it was delivered in an earlier life and is loaded again only because others come after it.
    pub(crate) discard: bool,
}

struct Slot<T, B, E> {
    ticket: Ticket,
    stage: Stage<T, B, E>,
    rows: usize,
    bytes: u64,
}

enum Stage<T, B, E> {
    Filling {
        tray: T,
        claimed: usize,
        done: usize,
        failures: Vec<Failure>,
    },
    /// All rows are done; a worker is putting the batch together.
    Closing,
    Ready {
        outcome: Outcome<B, E>,
        failures: Vec<Failure>,
    },
    /// Delivered out of order, and waiting for the ones before it to leave the queue.
    Gone,
    EndOfEpoch,
}

/// Work given to a worker: some rows of a batch, or the whole of it.
pub(crate) struct Claim<T> {
    pub(crate) id: u64,
    pub(crate) epoch: u64,
    pub(crate) batch: u64,
    /// The row of the first index.
    pub(crate) first: usize,
    pub(crate) indices: Vec<usize>,
    pub(crate) tray: T,
    pub(crate) spare: Option<Spare>,
    /// Whether these are all rows of the batch: then nobody else has the tray, and the worker also puts the
    /// batch together, without coming back in between.
    pub(crate) whole: bool,
}

/// A batch all of whose rows are done.
pub(crate) struct Done<T> {
    pub(crate) id: u64,
    pub(crate) epoch: u64,
    pub(crate) batch: u64,
    pub(crate) tray: T,
    pub(crate) indices: Vec<usize>,
    pub(crate) failures: Vec<Failure>,
}

/// What the consumer gets.
pub(crate) enum Taken<B, E> {
    Batch { outcome: Outcome<B, E>, failures: Vec<Failure> },
    EndOfEpoch,
    NotYet,
}

/// A batch that was abandoned while workers were filling it: its bytes count until they are done.
struct Leaving {
    id: u64,
    rows: usize,
    bytes: u64,
}

pub(crate) struct Schedule<T, B, E> {
    queue: VecDeque<Slot<T, B, E>>,
    /// The id of the first batch in the queue; ids are given once.
    first: u64,
    /// The id of the first batch that may have rows left to give out.
    next_claim: u64,
    /// How many batches could be delivered now.
    ready: usize,
    /// Ids of the ready ones in the order in which they became so, if order is not kept.
    arrived: VecDeque<u64>,
    /// Batches begun and not delivered.
    open: usize,
    bytes: u64,
    leaving: Vec<Leaving>,
    /// Everything before this place has been delivered.
    at: Cursor,
    window: Window,
    unit: Unit,
    in_order: bool,
    pub(crate) pace: Pace,
    /// Index lists to be used again.
    lists: Vec<Vec<usize>>,
}

impl<T: Clone, B, E> Schedule<T, B, E> {
    pub(crate) fn new(window: Window, unit: Unit, in_order: bool) -> Self {
        Self {
            queue: VecDeque::new(),
            first: 0,
            next_claim: 0,
            ready: 0,
            arrived: VecDeque::new(),
            open: 0,
            bytes: 0,
            leaving: Vec::new(),
            at: Cursor::default(),
            window,
            unit,
            in_order,
            pace: Pace::default(),
            lists: Vec::new(),
        }
    }

    /// Whether a batch of so many bytes may be begun.
    pub(crate) fn room(&self, bytes: u64) -> bool {
        // Bytes of abandoned batches are still in use, but they must not hold up the oldest batch for ever.
        if self.open == 0 {
            return true;
        }
        let total = self.bytes.saturating_add(bytes);
        let few = if self.window.run_ahead {
            let deep = (self.ready as u64 + 1).saturating_mul(bytes) > DEPTH && self.ready > 0;
            self.ready < self.window.batches && !deep || total <= TINY
        } else {
            self.open < self.window.batches
        };
        few && total <= self.window.bytes
    }

    /// Index lists for new batches, as far as there are any.
    pub(crate) fn lend(&mut self, lists: &mut Vec<Vec<usize>>, count: usize) {
        let kept = self.lists.len().saturating_sub(count.saturating_sub(lists.len()));
        lists.extend(self.lists.drain(kept..));
    }

    /// Puts a batch at the end of the queue.
    pub(crate) fn begin(&mut self, ticket: Ticket, tray: T, bytes: u64) {
        self.open += 1;
        self.bytes += bytes;
        let stage = Stage::Filling { tray, claimed: 0, done: 0, failures: Vec::new() };
        self.queue.push_back(Slot { rows: ticket.indices.len(), ticket, stage, bytes });
    }

    /// Puts a batch that needs no work at the end of the queue: one that failed before it began, or is empty.
    pub(crate) fn begin_ready(&mut self, ticket: Ticket, outcome: Outcome<B, E>) {
        self.open += 1;
        self.queue.push_back(Slot { rows: ticket.indices.len(), ticket, stage: Stage::Closing, bytes: 0 });
        self.closed(self.first + self.queue.len() as u64 - 1, outcome, Vec::new(), None);
    }

    /// Puts a batch that was delivered in an earlier life at the end of the queue.
    pub(crate) fn begin_gone(&mut self, ticket: Ticket) {
        self.queue.push_back(Slot { rows: ticket.indices.len(), ticket, stage: Stage::Gone, bytes: 0 });
        self.drop_gone();
    }

    /// Puts the end of an epoch at the end of the queue.
    pub(crate) fn end_epoch(&mut self, ticket: Ticket) {
        self.queue.push_back(Slot { rows: ticket.indices.len(), ticket, stage: Stage::EndOfEpoch, bytes: 0 });
        self.count_ready();
    }

    /// Whether there are rows to give out.
    pub(crate) fn has_rows(&mut self) -> bool {
        self.skip_claimed();
        self.next_claim < self.first + self.queue.len() as u64
    }

    /// Gives out rows of the oldest batch that has any left.
    pub(crate) fn claim(&mut self, consumer_waits: bool, workers: usize) -> Option<Claim<T>> {
        if !self.has_rows() {
            return None;
        }
        let (id, at) = (self.next_claim, (self.next_claim - self.first) as usize);
        let slot = &mut self.queue[at];
        let Stage::Filling { tray, claimed, .. } = &mut slot.stage else {
            unreachable!("a batch with rows left is being filled");
        };
        let (first, left) = (*claimed, slot.rows - *claimed);
        let count = match self.unit {
            Unit::Batch => left,
            Unit::Row => self.pace.rows(left, at, consumer_waits, workers),
        };
        let Cursor { epoch, batch, .. } = slot.ticket.before;
        let spare = slot.ticket.spare.clone();
        if count < slot.rows {
            *claimed += count;
            let mut indices = self.lists.pop().unwrap_or_default();
            indices.extend_from_slice(&slot.ticket.indices[first..first + count]);
            return Some(Claim { id, epoch, batch, first, indices, tray: tray.clone(), spare, whole: false });
        }
        let Stage::Filling { tray, .. } = std::mem::replace(&mut slot.stage, Stage::Closing) else {
            unreachable!("just matched");
        };
        let indices = std::mem::take(&mut slot.ticket.indices);
        Some(Claim { id, epoch, batch, first, indices, tray, spare, whole: true })
    }

    fn skip_claimed(&mut self) {
        self.next_claim = self.next_claim.max(self.first);
        while let Some(slot) = self.queue.get((self.next_claim - self.first) as usize) {
            match &slot.stage {
                Stage::Filling { claimed, .. } if *claimed < slot.rows => return,
                _ => self.next_claim += 1,
            }
        }
    }

    /// Takes back rows of a claim that was not whole. If they were the last of their batch, it must now be put together by the
    /// caller, and then [`Schedule::closed`].
    pub(crate) fn finish(&mut self, id: u64, rows: usize, failed: Vec<Failure>) -> Option<Done<T>> {
        let Some(at) = id.checked_sub(self.first) else {
            self.leave(id, rows);
            return None;
        };
        let slot = &mut self.queue[at as usize];
        let Stage::Filling { done, failures, .. } = &mut slot.stage else {
            unreachable!("rows come back only to a batch that is being filled");
        };
        failures.extend(failed);
        *done += rows;
        if *done < slot.rows {
            return None;
        }
        let Stage::Filling { tray, mut failures, .. } = std::mem::replace(&mut slot.stage, Stage::Closing)
        else {
            unreachable!("just matched");
        };
        failures.sort_by_key(|failure| failure.row);
        let Cursor { epoch, batch, .. } = slot.ticket.before;
        Some(Done { id, epoch, batch, tray, indices: std::mem::take(&mut slot.ticket.indices), failures })
    }

    /// Takes back a batch that has been put together (or could not be).
    pub(crate) fn closed(
        &mut self,
        id: u64,
        outcome: Outcome<B, E>,
        failures: Vec<Failure>,
        bytes: Option<u64>,
    ) {
        let Some(at) = id.checked_sub(self.first) else {
            self.leave(id, 1);
            return;
        };
        let slot = &mut self.queue[at as usize];
        let bytes = bytes.unwrap_or(slot.bytes);
        self.bytes = self.bytes - slot.bytes + bytes;
        slot.bytes = bytes;
        slot.stage = if slot.ticket.discard {
            Stage::Ready { outcome: Ok(None), failures: Vec::new() }
        } else {
            Stage::Ready { outcome, failures }
        };
        if !self.in_order {
            self.arrived.push_back(id);
        }
        self.count_ready();
    }

    /// Gives an index list back for reuse.
    pub(crate) fn recycle(&mut self, mut list: Vec<usize>) {
        if list.capacity() > 0 {
            list.clear();
            self.lists.push(list);
        }
    }

    fn count_ready(&mut self) {
        if !self.in_order {
            self.ready = self.arrived.len();
            return;
        }
        while let Some(slot) = self.queue.get(self.ready) {
            match slot.stage {
                Stage::Ready { .. } | Stage::EndOfEpoch => self.ready += 1,
                _ => return,
            }
        }
    }

    /// How many batches could be delivered now.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// The rows of the oldest batch.
    pub(crate) fn front_rows(&self) -> usize {
        self.queue.front().map_or(0, |slot| slot.rows)
    }

    /// Whether [`Schedule::take`] would give something.
    pub(crate) fn can_take(&self) -> bool {
        match self.queue.front() {
            None => false,
            Some(slot) if matches!(slot.stage, Stage::Ready { .. } | Stage::EndOfEpoch) => true,
            Some(_) => !self.in_order && self.first_arrived().is_some(),
        }
    }

    /// The first batch to become ready among those of the epoch that is being delivered.
    fn first_arrived(&self) -> Option<usize> {
        let epoch = self.queue.front()?.ticket.before.epoch;
        self.arrived.iter().position(|id| self.queue[(id - self.first) as usize].ticket.before.epoch == epoch)
    }

    /// Delivers the next batch.
    pub(crate) fn take(&mut self) -> Taken<B, E> {
        let at = match self.queue.front().map(|slot| &slot.stage) {
            Some(Stage::EndOfEpoch) => {
                self.ready = self.ready.saturating_sub(usize::from(self.in_order));
                self.pop();
                return Taken::EndOfEpoch;
            }
            Some(Stage::Ready { .. }) if self.in_order => 0,
            Some(_) if !self.in_order => match self.first_arrived().and_then(|at| self.arrived.remove(at)) {
                Some(id) => (id - self.first) as usize,
                None => return Taken::NotYet,
            },
            _ => return Taken::NotYet,
        };
        let slot = &mut self.queue[at];
        let Stage::Ready { outcome, failures } = std::mem::replace(&mut slot.stage, Stage::Gone) else {
            unreachable!("only a ready batch is taken");
        };
        self.open -= 1;
        self.bytes -= std::mem::take(&mut slot.bytes);
        self.ready -= 1;
        self.drop_gone();
        self.count_ready();
        Taken::Batch { outcome, failures }
    }

    fn drop_gone(&mut self) {
        while matches!(self.queue.front(), Some(Slot { stage: Stage::Gone, .. })) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(slot) = self.queue.pop_front() {
            self.first += 1;
            self.at = slot.ticket.after;
            self.recycle(slot.ticket.indices);
        }
    }

    /// Forgets everything that has not been delivered, and goes on at another place. Workers that are filling
    /// a batch finish their rows, and what they bring back is dropped.
    pub(crate) fn abandon(&mut self, at: Cursor) {
        let mut id = self.first;
        for slot in self.queue.drain(..) {
            let rows = match slot.stage {
                Stage::Filling { claimed, done, .. } => claimed - done,
                Stage::Closing => 1,
                _ => 0,
            };
            if rows > 0 {
                self.leaving.push(Leaving { id, rows, bytes: slot.bytes });
            } else {
                self.bytes -= slot.bytes;
            }
            id += 1;
        }
        self.first = id;
        self.arrived.clear();
        (self.ready, self.open, self.at) = (0, 0, at);
    }

    /// Notes that so many rows of an abandoned batch are no longer worked on.
    fn leave(&mut self, id: u64, rows: usize) {
        let Some(at) = self.leaving.iter().position(|leaving| leaving.id == id) else { return };
        self.leaving[at].rows -= rows;
        if self.leaving[at].rows == 0 {
            self.bytes -= self.leaving.swap_remove(at).bytes;
        }
    }

    /// Everything before this place has been delivered.
    pub(crate) fn at(&self) -> Cursor {
        self.at
    }

    /// The batches behind [`Schedule::at`] that have been delivered too, out of order, as ranges of their numbers.
    pub(crate) fn delivered(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let epoch = |slot: &Slot<T, B, E>| slot.ticket.before.epoch == self.at.epoch;
        for slot in self.queue.iter().filter(|slot| epoch(slot) && matches!(slot.stage, Stage::Gone)) {
            let number = slot.ticket.before.batch;
            match ranges.last_mut() {
                Some(range) if range.end == number => range.end += 1,
                _ => ranges.push(number..number + 1),
            }
        }
        ranges
    }

    /// Batches begun and not delivered, and their bytes (those of abandoned ones in work included).
    pub(crate) fn in_flight(&self) -> (usize, u64) {
        (self.open, self.bytes)
    }

    /// Changes the bounds.
    pub(crate) fn set_window(&mut self, window: Window) {
        self.window = window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Plain = Schedule<(), Vec<usize>, String>;

    fn schedule(window: Window, in_order: bool) -> Plain {
        Schedule::new(window, Unit::Row, in_order)
    }

    fn window(batches: usize, run_ahead: bool, bytes: u64) -> Window {
        Window { batches, run_ahead, bytes }
    }

    fn ticket(batch: u64, rows: usize) -> Ticket {
        let cursor = |batch| Cursor { epoch: 0, batch, used: 0 };
        Ticket {
            before: cursor(batch),
            after: cursor(batch + 1),
            indices: (0..rows).map(|row| batch as usize * 100 + row).collect(),
            spare: None,
            discard: false,
        }
    }

    /// Finishes a claim, and closes its batch if it was the last.
    fn finish(schedule: &mut Plain, claim: Claim<()>, bytes: u64) {
        if claim.whole {
            schedule.closed(claim.id, Ok(Some(claim.indices)), Vec::new(), Some(bytes));
        } else if let Some(done) = schedule.finish(claim.id, claim.indices.len(), Vec::new()) {
            schedule.closed(done.id, Ok(Some(done.indices)), Vec::new(), Some(bytes));
        }
    }

    #[test]
    fn rows_of_the_oldest_batch_come_first() {
        let mut schedule = schedule(window(2, false, 100), true);
        schedule.begin(ticket(0, 2), (), 0);
        schedule.begin(ticket(1, 1), (), 0);
        let claims: Vec<u64> =
            std::iter::from_fn(|| schedule.claim(true, 2)).map(|claim| claim.batch).collect();
        assert_eq!(claims, [0, 0, 1]);
    }

    #[test]
    fn a_held_up_batch_is_run_ahead_of_as_far_as_the_bytes_allow() {
        let mut schedule = schedule(window(2, true, 10 << 20), true);
        let large = 1 << 20;
        schedule.begin(ticket(0, 1), (), large);
        let slow = schedule.claim(true, 2).unwrap();
        for batch in 1..10 {
            assert!(schedule.room(large), "batch {batch}");
            schedule.begin(ticket(batch, 1), (), large);
            let claim = schedule.claim(true, 2).unwrap();
            finish(&mut schedule, claim, large);
        }
        assert!(!schedule.room(large), "the bytes are used up");
        finish(&mut schedule, slow, large);
        assert_eq!(schedule.ready(), 10);
        assert!(matches!(schedule.take(), Taken::Batch { .. }));
        assert!(!schedule.room(large), "enough are ready");
    }

    #[test]
    fn of_large_batches_fewer_are_ready() {
        let mut schedule = schedule(window(4, true, 1 << 30), true);
        for (batch, large) in [(0, 80 << 20), (1, 80 << 20)] {
            assert!(schedule.room(large), "batch {batch}");
            schedule.begin(ticket(batch, 1), (), large);
            let claim = schedule.claim(true, 2).unwrap();
            finish(&mut schedule, claim, large);
        }
        assert!(schedule.room(40 << 20), "smaller ones have room");
        assert!(!schedule.room(80 << 20), "two are ready, and a third would be too much");
        assert!(matches!(schedule.take(), Taken::Batch { .. }));
        assert!(schedule.room(80 << 20));
        assert!(!schedule.room(160 << 20), "one is ready already");
        assert!(matches!(schedule.take(), Taken::Batch { .. }));
        assert!(schedule.room(160 << 20), "one may always be");
    }

    #[test]
    fn one_batch_may_always_be_begun_however_large() {
        let mut schedule = schedule(window(4, true, 10), true);
        assert!(schedule.room(u64::MAX));
        schedule.begin(ticket(0, 1), (), 1000);
        assert!(!schedule.room(1));
    }

    #[test]
    fn what_comes_back_after_it_was_abandoned_is_dropped_and_its_bytes_freed() {
        let mut schedule = schedule(window(4, false, 100), true);
        schedule.begin(ticket(0, 3), (), 40);
        schedule.begin(ticket(1, 1), (), 40);
        let (rows, whole) = (schedule.claim(true, 2).unwrap(), schedule.claim(false, 2).unwrap());
        schedule.abandon(Cursor::epoch(1));
        // Batch 1 was not touched; batch 0 is still being worked on.
        assert_eq!(schedule.in_flight(), (0, 40));
        finish(&mut schedule, rows, 40);
        assert_eq!(schedule.in_flight(), (0, 40));
        finish(&mut schedule, whole, 40);
        assert_eq!(schedule.in_flight(), (0, 0));
        assert!(matches!(schedule.take(), Taken::NotYet));
        assert_eq!(schedule.at(), Cursor::epoch(1));
    }

    #[derive(Clone, Debug)]
    enum Act {
        Begin(usize),
        Claim(bool),
        Finish(prop::sample::Index),
        Take,
        Abandon,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            (0usize..6).prop_map(Act::Begin),
            any::<bool>().prop_map(Act::Claim),
            any::<prop::sample::Index>().prop_map(Act::Finish),
            Just(Act::Take),
            Just(Act::Take),
        ];
        let act = prop_oneof![20 => act, 1 => Just(Act::Abandon)];
        prop::collection::vec(act, 0..300)
    }

    proptest! {
        /// Whatever the workers and the consumer do, in whatever order: every row is given out once, batches
        /// are whole, in order if so asked, and the bounds hold.
        #[test]
        fn every_row_once_in_order_and_within_bounds(acts in acts(), in_order: bool, run_ahead: bool, bytes in 0u64..5000) {
            let mut schedule = schedule(window(3, run_ahead, bytes), in_order);
            let (mut begun, mut running, mut taken) = (0, Vec::new(), Vec::new());
            for act in acts {
                match act {
                    Act::Begin(rows) => {
                        let size = rows as u64 * 400;
                        if schedule.room(size) {
                            if rows == 0 {
                                schedule.begin_ready(ticket(begun, 0), Ok(Some(Vec::new())));
                            } else {
                                schedule.begin(ticket(begun, rows), (), size);
                            }
                            begun += 1;
                        }
                        let (open, used) = schedule.in_flight();
                        prop_assert!(used <= bytes || open == 1, "{used} bytes in {open} batches");
                        prop_assert!(run_ahead || open <= 3);
                    }
                    Act::Claim(waits) => {
                        let had_rows = schedule.has_rows();
                        let claim = schedule.claim(waits, 2);
                        prop_assert_eq!(claim.is_some(), had_rows);
                        running.extend(claim);
                    }
                    Act::Finish(which) if !running.is_empty() => {
                        let claim = running.swap_remove(which.index(running.len()));
                        schedule.pace.note_rows(1, std::time::Duration::from_micros(9));
                        let size = claim.indices.len() as u64; // Not the estimate: the true size may differ.
                        finish(&mut schedule, claim, size);
                    }
                    Act::Finish(_) => {}
                    Act::Abandon => {
                        schedule.abandon(Cursor { epoch: 0, batch: begun, used: 0 });
                        prop_assert_eq!(schedule.in_flight().0, 0);
                    }
                    Act::Take => {
                        let expected = schedule.can_take();
                        let got = schedule.take();
                        prop_assert_eq!(expected, matches!(got, Taken::Batch { .. }));
                        if let Taken::Batch { outcome: Ok(Some(samples)), .. } = got {
                            taken.push(samples);
                        }
                    }
                }
            }
            // Now let everything come to its end.
            while let Some(claim) = running.pop().or_else(|| schedule.claim(true, 2)) {
                finish(&mut schedule, claim, 0);
            }
            while let Taken::Batch { outcome, .. } = schedule.take() {
                taken.push(outcome.unwrap().unwrap());
            }
            prop_assert_eq!(schedule.at().batch, begun);
            prop_assert_eq!(schedule.in_flight(), (0, 0));
            let batch_of = |samples: &Vec<usize>| samples.first().map(|sample| sample / 100);
            let mut order: Vec<usize> = taken.iter().filter_map(batch_of).collect();
            if in_order {
                prop_assert!(order.is_sorted());
            }
            order.sort_unstable();
            order.dedup();
            prop_assert_eq!(order.len(), taken.iter().filter(|samples| !samples.is_empty()).count());
            for samples in taken {
                prop_assert!(samples.windows(2).all(|pair| pair[1] == pair[0] + 1), "{samples:?}");
            }
        }
    }
}
