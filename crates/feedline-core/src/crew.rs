//! What workers do, and what they share.
//!
//! One lock holds the [`Schedule`] and the [`Draft`]. A worker takes it, looks for a [`Step`], lets go of it,
//! does the step, and takes it again to bring back the result and look for the next. The consumer of an engine
//! without workers takes the same steps.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::{
    Cause, Cursor, Draw, Error, Failure, OnFailure, Plan, Run, Settings, What, Work,
    draft::Draft,
    gauges::{Counters, add},
    schedule::{Claim, Done, Outcome, Schedule, Ticket},
    sync::{Arc, Condvar, Mutex, MutexGuard, lock, now, wait},
};

/// About the time that waking a thread takes, all in all.
pub(crate) const WAKE_UP: Duration = Duration::from_micros(10);

/// How often a worker reads the clock of its thread.
const LOOK: Duration = Duration::from_millis(1);

/// A worker's own things.
pub(crate) struct Own<W: Work> {
    pub(crate) hand: Option<W::Hand>,
    pub(crate) counters: Arc<Counters>,
    /// When the thread's own clock was last read, and what it said.
    used: Option<(Instant, Duration)>,
}

impl<W: Work> Own<W> {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self { hand: None, counters, used: None }
    }

    /// Counts the time for which this thread has had a processor. Its clock is a call to the system, which takes as long
    /// as a tiny batch, so it is not read for each.
    fn note_processor(&mut self, now: Instant) {
        if self.used.is_some_and(|(then, _)| now - then < LOOK) {
            return;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let used = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
        if let Some((_, before)) = self.used.replace((now, used)) {
            add(&self.counters.processor, used.saturating_sub(before));
        }
    }
}

/// What all share: the work itself, and everything else behind one lock.
pub(crate) struct Shared<W: Work> {
    pub(crate) work: W,
    pub(crate) state: Mutex<State<W>>,
    /// Workers wait here for something to do.
    pub(crate) to_do: Condvar,
    /// The consumer waits here for its batch.
    pub(crate) delivery: Condvar,
    /// Changes whenever the consumer might find something. It is a hint for a consumer that looks again before
    /// it goes to sleep, and orders nothing: what it hints at is read under the lock.
    pub(crate) news: AtomicUsize,
    pub(crate) on_failure: OnFailure,
    pub(crate) seed: u64,
}

pub(crate) struct State<W: Work> {
    pub(crate) schedule: Schedule<W::Tray, W::Batch, Error>,
    /// Away while somebody draws.
    pub(crate) draft: Option<Box<Draft>>,
    /// Where the plan must go when it comes back, because the consumer has gone there meanwhile.
    pub(crate) seek: Option<Cursor>,
    /// The last epoch that may be loaded.
    pub(crate) last_epoch: Option<u64>,
    pub(crate) across_epochs: bool,
    pub(crate) epochs: Option<u64>,
    /// Batches that were delivered before the state was saved from which this run began.
    pub(crate) skip: (u64, Vec<Range<u64>>),
    /// How many workers there should be, and for each number ever used whether it runs.
    pub(crate) target: usize,
    pub(crate) running: Vec<bool>,
    pub(crate) counters: Vec<Arc<Counters>>,
    /// Workers that wait for something to do.
    pub(crate) idle: usize,
    /// How many batches were ready when a worker last found no room.
    pub(crate) enough: usize,
    /// Whether the consumer has nothing, and whether it must be woken when there is something.
    pub(crate) consumer_waits: bool,
    pub(crate) consumer_sleeps: bool,
    pub(crate) stop: bool,
    pub(crate) fatal: Option<Error>,
    pub(crate) peak_bytes: u64,
}

/// What can be done next.
pub(crate) enum Step<W: Work> {
    Fill(Claim<W::Tray>),
    /// Draw batches up to this epoch.
    Draw(Box<Draft>, u64),
    Wait(Why),
}

/// Why there is nothing to do.
#[derive(Clone, Copy)]
pub(crate) enum Why {
    Input,
    Room,
}

impl<W: Work> State<W> {
    pub(crate) fn step(&mut self, shared: &Shared<W>) -> Step<W> {
        loop {
            if let Some(claim) = self.schedule.claim(self.consumer_waits, self.target) {
                return Step::Fill(claim);
            }
            match self.drawn() {
                Some(rows) if self.schedule.room(shared.work.estimate(rows)) => self.begin_drawn(shared),
                Some(_) => return Step::Wait(Why::Room),
                None => match self.may_draw() {
                    Some(_) if !self.schedule.room(0) => return Step::Wait(Why::Room),
                    Some(last) => {
                        let mut draft = self.draft.take().expect("`may_draw` saw it");
                        let (lists, count) = draft.lists();
                        self.schedule.lend(lists, count);
                        return Step::Draw(draft, last);
                    }
                    None => return Step::Wait(Why::Input),
                },
            }
        }
    }

    /// Whether a step would find something to do.
    pub(crate) fn has_step(&mut self, work: &W) -> bool {
        self.schedule.has_rows()
            || match self.drawn() {
                Some(rows) => self.schedule.room(work.estimate(rows)),
                None => self.may_draw().is_some() && self.schedule.room(0),
            }
    }

    /// The rows of the batch that has been drawn and waits to be begun; 0 if it needs no memory.
    pub(crate) fn drawn(&self) -> Option<usize> {
        let (ticket, drawn) = self.draft.as_ref()?.front()?;
        Some(if matches!(drawn, Ok(Draw::Batch)) { ticket.indices.len() } else { 0 })
    }

    /// The last epoch to draw batches of, if any may be drawn now.
    pub(crate) fn may_draw(&self) -> Option<u64> {
        let (draft, last) = (self.draft.as_ref()?, self.last_epoch?);
        (self.fatal.is_none() && draft.epoch() <= last).then_some(last)
    }

    /// Puts the drawn batch into the queue. There is room for it.
    pub(crate) fn begin_drawn(&mut self, shared: &Shared<W>) {
        let Some((mut ticket, drawn)) = self.draft.as_mut().and_then(|draft| draft.pop()) else { return };
        ticket.discard = self.was_delivered(&ticket);
        let rows = ticket.indices.len();
        match drawn {
            Ok(Draw::EndOfEpoch) => self.schedule.end_epoch(ticket),
            Ok(Draw::Batch) if ticket.discard && !shared.work.is_sequential() => {
                self.schedule.begin_gone(ticket);
            }
            Ok(Draw::Batch) if rows == 0 => self.schedule.begin_ready(ticket, Ok(None)),
            Ok(Draw::Batch) => {
                let Cursor { epoch, batch, .. } = ticket.before;
                let whole = shared.run(epoch, batch, 0, &ticket.indices, None);
                let bytes = shared.work.estimate(rows);
                match Cause::catch(|| shared.work.open(&whole)) {
                    Ok(tray) => self.schedule.begin(ticket, tray, bytes),
                    Err(cause) => self.schedule.begin_ready(ticket, Err(Error::Memory { rows, cause })),
                }
                self.peak_bytes = self.peak_bytes.max(self.schedule.in_flight().1);
            }
            Err(error) => self.schedule.begin_ready(ticket, Err(error.into())),
        }
    }

    /// How long one worker takes for a batch like the oldest one; very long, as long as nothing is known.
    pub(crate) fn batch_time(&self) -> Duration {
        match self.schedule.pace.row() {
            Duration::ZERO => Duration::MAX,
            row => row.saturating_mul(self.schedule.front_rows() as u32),
        }
    }

    pub(crate) fn was_delivered(&self, ticket: &Ticket) -> bool {
        let Cursor { epoch, batch, .. } = ticket.before;
        self.skip.0 == epoch && self.skip.1.iter().any(|range| range.contains(&batch))
    }

    /// Lets the workers load the epoch that the consumer is in, and the next one if there is one and so set.
    pub(crate) fn allow(&mut self) {
        let epoch = self.schedule.at().epoch;
        let next = self.across_epochs && self.epochs.is_none_or(|epochs| epoch + 1 < epochs);
        self.last_epoch = Some(epoch + u64::from(next));
    }
}

impl<W: Work> Shared<W> {
    /// Nobody works yet, and nothing may be loaded.
    pub(crate) fn new(work: W, plan: Box<dyn Plan>, settings: &Settings) -> Self {
        let replaces = matches!(settings.on_failure, OnFailure::Replace { .. });
        let mut schedule = Schedule::new(settings.window, work.unit(), settings.in_order);
        schedule.abandon(plan.cursor());
        let state = State {
            schedule,
            draft: Some(Box::new(Draft::new(plan, replaces))),
            seek: None,
            last_epoch: None,
            across_epochs: settings.across_epochs,
            epochs: settings.epochs,
            skip: (0, Vec::new()),
            target: 0,
            running: Vec::new(),
            counters: vec![Arc::default()],
            idle: 0,
            enough: 0,
            consumer_waits: false,
            consumer_sleeps: false,
            stop: false,
            fatal: None,
            peak_bytes: 0,
        };
        Self {
            work,
            state: Mutex::new(state),
            to_do: Condvar::new(),
            delivery: Condvar::new(),
            news: AtomicUsize::new(0),
            on_failure: settings.on_failure,
            seed: settings.seed,
        }
    }

    /// Wakes a worker if there is something to do, two if it takes a while. Those do the same, so that a crowd
    /// is soon awake when it is needed, and no more than needed otherwise. The lock is given back first: who is
    /// woken while it is held only queues for it, and a crowd would come one by one.
    pub(crate) fn nudge(&self, mut state: MutexGuard<'_, State<W>>) {
        let slow = state.batch_time() > 10 * WAKE_UP;
        let count = if state.idle > 0 && state.has_step(&self.work) { 1 + usize::from(slow) } else { 0 };
        drop(state);
        for _ in 0..count {
            self.to_do.notify_one();
        }
    }

    pub(crate) fn wake_consumer(&self, state: &State<W>) {
        self.news.fetch_add(1, Relaxed);
        if state.consumer_sleeps && (state.schedule.can_take() || state.fatal.is_some() || state.target == 0)
        {
            self.delivery.notify_one();
        }
    }

    /// Draws batches and brings the draft back.
    pub(crate) fn draw(&self, mut draft: Box<Draft>, last: u64) -> MutexGuard<'_, State<W>> {
        let drawn = Cause::catch(|| {
            draft.draw(last);
            Ok(())
        });
        let mut state = lock(&self.state);
        match (state.seek.take(), drawn) {
            // What was drawn is of a place that the consumer has left.
            (Some(place), _) => draft.seek(place),
            (None, Ok(())) => {}
            (None, Err(cause)) => self.fail(&mut state, Error::Sampler(cause)),
        }
        state.draft = Some(draft);
        state
    }

    /// Stops for good, with an error for the consumer.
    pub(crate) fn fail(&self, state: &mut State<W>, error: Error) {
        state.fatal.get_or_insert(error);
        self.wake_consumer(state);
        self.to_do.notify_all();
    }

    /// Loads the rows of a claim and, if its batch is then done, puts it together.
    pub(crate) fn fill(&self, own: &mut Own<W>, claim: Claim<W::Tray>) -> MutexGuard<'_, State<W>> {
        let Claim { id, epoch, batch, first, indices, tray, spare, whole } = claim;
        let run = self.run(epoch, batch, first, &indices, spare.as_ref());
        let start = now();
        if own.used.is_none() {
            own.note_processor(start);
        }
        let hand = own.hand.as_mut().expect("a worker has its hand before its first claim");
        let failures = Cause::catch(|| Ok(self.work.fill(hand, &tray, &run)))
            .unwrap_or_else(|cause| vec![run.failure(What::Batch(indices.clone()), first, cause, None)]);
        let (rows, end) = (indices.len(), now());
        own.counters.note_run(rows, end - start);
        own.note_processor(end);
        let mut state = if whole {
            self.close(&own.counters, Done { id, epoch, batch, tray, indices, failures }, end)
        } else {
            // Before the rows are given back: whoever closes the batch must hold its tray alone.
            drop(tray);
            let mut state = lock(&self.state);
            state.schedule.recycle(indices);
            match state.schedule.finish(id, rows, failures) {
                None => state,
                Some(done) => {
                    drop(state);
                    self.close(&own.counters, done, end)
                }
            }
        };
        state.schedule.pace.note_rows(rows, end - start);
        state
    }

    pub(crate) fn close(
        &self,
        counters: &Counters,
        done: Done<W::Tray>,
        start: Instant,
    ) -> MutexGuard<'_, State<W>> {
        let Done { id, epoch, batch, tray, indices, failures } = done;
        let outcome = self.finish(tray, &self.run(epoch, batch, 0, &indices, None), &failures);
        let bytes = match &outcome {
            Ok(Some(batch)) => self.work.size(batch),
            _ => Some(0),
        };
        add(&counters.close, now() - start);
        let mut state = lock(&self.state);
        state.schedule.recycle(indices);
        state.schedule.closed(id, outcome, failures, bytes);
        state.peak_bytes = state.peak_bytes.max(state.schedule.in_flight().1);
        state
    }

    /// Applies the failure policy, once, and puts the batch together.
    pub(crate) fn finish(
        &self,
        tray: W::Tray,
        whole: &Run<'_>,
        failures: &[Failure],
    ) -> Outcome<W::Batch, Error> {
        let mut open = failures.iter().filter(|failure| failure.replaced_by.is_none());
        let failed: Vec<usize> = match (self.on_failure, open.next()) {
            (_, None) => Vec::new(),
            (OnFailure::Skip, Some(first)) => {
                std::iter::once(first).chain(open).map(|failure| failure.row).collect()
            }
            (_, Some(first)) => return Err(Error::Sample(Box::new(first.clone()))),
        };
        Cause::catch(|| self.work.close(tray, whole, &failed))
            .map_err(|cause| Error::Sample(Box::new(whole.failure(What::Collate, 0, cause, None))))
    }

    pub(crate) fn run<'a>(
        &self,
        epoch: u64,
        batch: u64,
        first: usize,
        indices: &'a [usize],
        spare: Option<&'a crate::Spare>,
    ) -> Run<'a> {
        Run { seed: self.seed, epoch, batch, first, indices, spare, on_failure: self.on_failure }
    }

    /// The life of a worker thread.
    pub(crate) fn work(&self, id: usize, counters: Arc<Counters>) {
        let mut own = Own::new(counters);
        let hand = Cause::catch(|| self.work.hand(id));
        let mut state = lock(&self.state);
        match hand {
            Ok(hand) => own.hand = Some(hand),
            Err(cause) => self.fail(&mut state, Error::Worker { worker: id, cause }),
        }
        while !state.stop && id < state.target && own.hand.is_some() {
            let step = state.step(self);
            // The step before may have finished a batch, this one may have found the end of the epoch.
            self.wake_consumer(&state);
            state = match step {
                Step::Fill(claim) => {
                    self.nudge(state);
                    self.fill(&mut own, claim)
                }
                Step::Draw(draft, last) => {
                    drop(state);
                    self.draw(draft, last)
                }
                Step::Wait(why) => self.rest(state, why, &own.counters),
            };
        }
        state.running[id] = false;
        self.wake_consumer(&state);
        // What this worker might have been woken for is left to another.
        self.nudge(state);
    }

    pub(crate) fn rest<'a>(
        &self,
        mut state: MutexGuard<'a, State<W>>,
        why: Why,
        counters: &Counters,
    ) -> MutexGuard<'a, State<W>> {
        state.idle += 1;
        state.enough = state.schedule.ready();
        let start = now();
        let mut state = wait(&self.to_do, state);
        state.idle -= 1;
        let counter = match why {
            Why::Input => &counters.input,
            Why::Room => &counters.room,
        };
        add(counter, now() - start);
        state
    }
}
