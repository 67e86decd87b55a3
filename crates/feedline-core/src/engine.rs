//! The engine: an ordered, bounded, cancellable parallel map from sample numbers to rows of batches.
//!
//! One lock holds the [`Schedule`] and the plan; two conditions are waited for: workers wait for *something to
//! do*, the consumer for *its batch*. Foreign code (dataset, sampler, collate function) never runs under the
//! lock. The same steps are taken by worker threads and, with no workers, by the consumer itself.
//!
//! # Life-cycle contract
//!
//! Each clause has a test of the same name in `tests/lifecycle.rs`. A deviation is a bug.
//!
//! 1. **Epoch finished.** After the last batch, `next` gives the end of the epoch once; the call after that
//!    gives the first batch of the next epoch. Workers stay; with prefetch across epochs they are already
//!    loading it, otherwise they wait without using the processor.
//! 2. **Sample failed.** The failure takes the place of its batch (or is skipped, or replaced); all other
//!    batches arrive as if nothing had happened.
//! 3. **Consumer left early.** Workers fill what the window allows, then wait. `restart` throws that away
//!    without waiting for samples under way: they finish into batches that nobody gets.
//! 4. **Consumer dropped the loader.** Nothing new is begun; `drop` returns when the samples under way are
//!    done and all threads have ended. Batches that the consumer still holds stay valid.
//! 5. **Worker panicked.** A panic of the dataset is the failure of its sample, one of the collate function
//!    the failure of its batch. The thread lives on.
//! 6. **Worker could not start.** The error is given by every `next` from then on; nothing hangs.
//! 7. **Interrupted.** `next_within` returns after the given time with nothing lost, so a caller can look for
//!    signals; the next call goes on.
//! 8. **Process killed.** Threads end with their process, and shared memory has no name that could be left
//!    behind.
//! 9. **Fork in the middle.** A forked child has no workers: `next` gives [`Error::Forked`], `drop` returns.
//!    The parent is not affected.
//! 10. **Half-built pool.** If a thread cannot be started, those already running are ended before `start`
//!     returns the error.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::{
    Cause, Cursor, Draw, Error, Failure, Gauges, Manifest, OnFailure, Plan, QueueGauge, Run, What, Window,
    Work,
    draft::Draft,
    gauges::{ConsumerGauge, Counters, add},
    schedule::{Claim, Done, Outcome, Schedule, Taken, Ticket},
    sync::{Arc, Condvar, JoinHandle, Mutex, MutexGuard, lock, now, spawn, wait, wait_for},
};

/// How an engine runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Worker threads; with 0 the consumer does the work itself.
    pub workers: usize,
    /// How far loading may be ahead.
    pub window: Window,
    /// Whether batches are delivered in the order of the plan.
    pub in_order: bool,
    /// What to do with samples that cannot be loaded.
    pub on_failure: OnFailure,
    /// Whether to begin with the next epoch while the consumer is in this one.
    pub across_epochs: bool,
    /// The number of epochs there will be, if that is known: nothing is loaded for later ones.
    pub epochs: Option<u64>,
    /// The seed, for the random numbers that samples see.
    pub seed: u64,
}

/// What the consumer is given.
#[derive(Debug)]
pub enum Next<B> {
    /// A batch, or why there is none in its place.
    Batch(Result<B, Error>),
    /// The epoch is over.
    EndOfEpoch,
    /// Nothing within the time limit.
    NotYet,
}

/// How far the consumer has got: what a saved state is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Everything before this place has been delivered.
    pub at: Cursor,
    /// Batches of the same epoch behind that place that have been delivered too, if order is not kept.
    pub delivered: Vec<Range<u64>>,
}

/// About the time that waking a thread takes, all in all.
const WAKE_UP: Duration = Duration::from_micros(10);

/// A running loader. It belongs to one consumer; dropping it ends all its threads.
pub struct Engine<W: Work> {
    shared: Arc<Shared<W>>,
    threads: Vec<Option<JoinHandle<()>>>,
    /// What the consumer needs to do the work itself.
    own: Own<W>,
    consumer: ConsumerGauge,
    manifest: Manifest,
    /// Processors that may be used.
    processors: usize,
    /// When the last batch was handed over.
    handed_over: Option<Instant>,
    process: u32,
}

/// A worker's own things.
struct Own<W: Work> {
    hand: Option<W::Hand>,
    counters: Arc<Counters>,
}

struct Shared<W: Work> {
    work: W,
    state: Mutex<State<W>>,
    /// Workers wait here for something to do.
    to_do: Condvar,
    /// The consumer waits here for its batch.
    delivery: Condvar,
    /// Changes whenever the consumer might find something. It is a hint for a consumer that looks again before
    /// it goes to sleep, and orders nothing: what it hints at is read under the lock.
    news: AtomicUsize,
    on_failure: OnFailure,
    seed: u64,
}

struct State<W: Work> {
    schedule: Schedule<W::Tray, W::Batch, Error>,
    /// Away while somebody draws.
    draft: Option<Box<Draft>>,
    /// Where the plan must go when it comes back, because the consumer has gone there meanwhile.
    seek: Option<Cursor>,
    /// The last epoch that may be loaded.
    last_epoch: Option<u64>,
    across_epochs: bool,
    epochs: Option<u64>,
    /// Batches that were delivered before the state was saved from which this run began.
    skip: (u64, Vec<Range<u64>>),
    /// How many workers there should be, and for each number ever used whether it runs.
    target: usize,
    running: Vec<bool>,
    counters: Vec<Arc<Counters>>,
    /// Workers that wait for something to do.
    idle: usize,
    /// How many batches were ready when a worker last found no room.
    enough: usize,
    /// Whether the consumer has nothing, and whether it must be woken when there is something.
    consumer_waits: bool,
    consumer_sleeps: bool,
    stop: bool,
    fatal: Option<Error>,
    peak_bytes: u64,
}

/// What can be done next.
enum Step<W: Work> {
    Fill(Claim<W::Tray>),
    /// Draw batches up to this epoch.
    Draw(Box<Draft>, u64),
    Wait(Why),
}

/// Why there is nothing to do.
#[derive(Clone, Copy)]
enum Why {
    Input,
    Room,
}

impl<W: Work> State<W> {
    fn step(&mut self, shared: &Shared<W>) -> Step<W> {
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
    fn has_step(&mut self, work: &W) -> bool {
        self.schedule.has_rows()
            || match self.drawn() {
                Some(rows) => self.schedule.room(work.estimate(rows)),
                None => self.may_draw().is_some() && self.schedule.room(0),
            }
    }

    /// The rows of the batch that has been drawn and waits to be begun; 0 if it needs no memory.
    fn drawn(&self) -> Option<usize> {
        let (ticket, drawn) = self.draft.as_ref()?.front()?;
        Some(if matches!(drawn, Ok(Draw::Batch)) { ticket.indices.len() } else { 0 })
    }

    /// The last epoch to draw batches of, if any may be drawn now.
    fn may_draw(&self) -> Option<u64> {
        let (draft, last) = (self.draft.as_ref()?, self.last_epoch?);
        (self.fatal.is_none() && draft.epoch() <= last).then_some(last)
    }

    /// Puts the drawn batch into the queue. There is room for it.
    fn begin_drawn(&mut self, shared: &Shared<W>) {
        let Some((mut ticket, drawn)) = self.draft.as_mut().and_then(|draft| draft.pop()) else { return };
        ticket.discard = self.was_delivered(&ticket);
        let rows = ticket.indices.len();
        match drawn {
            Ok(Draw::EndOfEpoch) => self.schedule.end_epoch(ticket),
            Ok(Draw::Batch) if ticket.discard && !shared.work.is_sequential() => {
                self.schedule.begin_gone(ticket)
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

    /// How long one worker takes for a batch like the oldest one.
    fn batch_time(&self) -> Duration {
        self.schedule.pace.row() * self.schedule.front_rows() as u32
    }

    fn was_delivered(&self, ticket: &Ticket) -> bool {
        let Cursor { epoch, batch, .. } = ticket.before;
        self.skip.0 == epoch && self.skip.1.iter().any(|range| range.contains(&batch))
    }

    /// Lets the workers load the epoch that the consumer is in, and the next one if there is one and so set.
    fn allow(&mut self) {
        let epoch = self.schedule.at().epoch;
        let next = self.across_epochs && self.epochs.is_none_or(|epochs| epoch + 1 < epochs);
        self.last_epoch = Some(epoch + u64::from(next));
    }
}

impl<W: Work> Shared<W> {
    /// Wakes a worker if there is something to do. The woken one does the same, so that as many wake as are
    /// needed and no more.
    fn nudge(&self, state: &mut State<W>) {
        if state.idle > 0 && state.has_step(&self.work) {
            self.to_do.notify_one();
        }
    }

    fn wake_consumer(&self, state: &State<W>) {
        self.news.fetch_add(1, Relaxed);
        if state.consumer_sleeps && (state.schedule.can_take() || state.fatal.is_some() || state.target == 0)
        {
            self.delivery.notify_one();
        }
    }

    /// Draws batches and brings the draft back.
    fn draw(&self, mut draft: Box<Draft>, last: u64) -> MutexGuard<'_, State<W>> {
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
        self.wake_consumer(&state);
        state
    }

    /// Stops for good, with an error for the consumer.
    fn fail(&self, state: &mut State<W>, error: Error) {
        state.fatal.get_or_insert(error);
        self.wake_consumer(state);
        self.to_do.notify_all();
    }

    /// Loads the rows of a claim and, if its batch is then done, puts it together.
    fn fill(&self, own: &mut Own<W>, claim: Claim<W::Tray>) -> MutexGuard<'_, State<W>> {
        let Claim { id, epoch, batch, first, indices, tray, spare, whole } = claim;
        let hand = own.hand.as_mut().expect("a worker has its hand before its first claim");
        let run = self.run(epoch, batch, first, &indices, spare.as_ref());
        let start = now();
        let failures = Cause::catch(|| Ok(self.work.fill(hand, &tray, &run)))
            .unwrap_or_else(|cause| vec![run.failure(What::Batch(indices.clone()), first, cause, None)]);
        let (rows, end) = (indices.len(), now());
        own.counters.note_run(rows, end - start);
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
        self.wake_consumer(&state);
        state
    }

    fn close(&self, counters: &Counters, done: Done<W::Tray>, start: Instant) -> MutexGuard<'_, State<W>> {
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
    fn finish(&self, tray: W::Tray, whole: &Run<'_>, failures: &[Failure]) -> Outcome<W::Batch, Error> {
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

    fn run<'a>(
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
    fn work(&self, id: usize, counters: Arc<Counters>) {
        let mut own = Own { hand: None, counters };
        let hand = Cause::catch(|| self.work.hand(id));
        let mut state = lock(&self.state);
        match hand {
            Ok(hand) => own.hand = Some(hand),
            Err(cause) => self.fail(&mut state, Error::Worker { worker: id, cause }),
        }
        while !state.stop && id < state.target && own.hand.is_some() {
            let step = state.step(self);
            // The step may have brought the end of the epoch into the queue, or a batch that needs no work.
            self.wake_consumer(&state);
            state = match step {
                Step::Fill(claim) => {
                    self.nudge(&mut state);
                    drop(state);
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
        // What this worker might have been woken for is left to another.
        self.nudge(&mut state);
        self.wake_consumer(&state);
    }

    fn rest<'a>(
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

impl<W: Work> Engine<W> {
    /// Starts the workers. Nothing is loaded before the first [`Engine::next`] or [`Engine::begin`].
    pub fn start(work: W, plan: Box<dyn Plan>, settings: &Settings) -> std::io::Result<Self> {
        let own = Arc::new(Counters::default());
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
            counters: vec![Arc::clone(&own)],
            idle: 0,
            enough: 0,
            consumer_waits: false,
            consumer_sleeps: false,
            stop: false,
            fatal: None,
            peak_bytes: 0,
        };
        let shared = Shared {
            work,
            state: Mutex::new(state),
            to_do: Condvar::new(),
            delivery: Condvar::new(),
            news: AtomicUsize::new(0),
            on_failure: settings.on_failure,
            seed: settings.seed,
        };
        let mut engine = Self {
            shared: Arc::new(shared),
            threads: Vec::new(),
            own: Own { hand: None, counters: own },
            consumer: ConsumerGauge::default(),
            manifest: Manifest::default(),
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            handed_over: None,
            process: std::process::id(),
        };
        // On an error `engine` is dropped, which ends the threads that were started.
        engine.set_workers(settings.workers)?;
        Ok(engine)
    }

    /// What it runs.
    pub fn work(&self) -> &W {
        &self.shared.work
    }

    /// Changes the number of workers, at any time. Surplus workers end after the rows they are at. If a thread
    /// cannot be started, the number is what it has become.
    pub fn set_workers(&mut self, workers: usize) -> std::io::Result<()> {
        let mut guard = lock(&self.shared.state);
        let state = &mut *guard;
        state.target = workers;
        let start: Vec<usize> =
            (0..workers).filter(|id| !state.running.get(*id).is_some_and(|runs| *runs)).collect();
        state.running.resize(state.running.len().max(workers), false);
        state.counters.resize_with(state.counters.len().max(workers), Arc::default);
        for id in &start {
            state.running[*id] = true;
        }
        let counters: Vec<Arc<Counters>> = start.iter().map(|id| Arc::clone(&state.counters[*id])).collect();
        self.shared.to_do.notify_all();
        drop(guard);
        self.threads.resize_with(self.threads.len().max(workers), || None);
        for (id, counters) in start.iter().zip(counters) {
            if let Err(error) = self.hire(*id, counters) {
                let mut state = lock(&self.shared.state);
                start.iter().filter(|other| *other >= id).for_each(|id| state.running[*id] = false);
                state.target = *id;
                return Err(error);
            }
        }
        Ok(())
    }

    fn hire(&mut self, id: usize, counters: Arc<Counters>) -> std::io::Result<()> {
        // The one of this number that ran before has left the loop, or it would have been kept.
        if let Some(former) = self.threads[id].take() {
            let _ = former.join();
        }
        let shared = Arc::clone(&self.shared);
        let body = move || {
            let life = Cause::catch(|| {
                shared.work(id, counters);
                Ok(())
            });
            // Foreign code cannot get here: this would be a mistake of the engine, and must not be a hang.
            if let Err(cause) = life {
                let mut state = lock(&shared.state);
                state.running[id] = false;
                shared.fail(&mut state, Error::Worker { worker: id, cause });
            }
        };
        self.threads[id] = Some(spawn(format!("feedline-{id}"), body)?);
        Ok(())
    }

    /// The number of workers asked for.
    pub fn workers(&self) -> usize {
        lock(&self.shared.state).target
    }

    /// Changes how far loading may be ahead.
    pub fn set_window(&mut self, window: Window) {
        let mut state = lock(&self.shared.state);
        state.schedule.set_window(window);
        self.shared.nudge(&mut state);
    }

    /// Lets the workers begin with the epoch that the consumer will ask for next.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.check_process()?;
        let mut state = lock(&self.shared.state);
        state.allow();
        self.shared.nudge(&mut state);
        Ok(())
    }

    /// The next batch of the epoch, or its end. Waits for it; with no workers, makes it.
    #[allow(clippy::should_implement_trait)] // It goes on after the end of an epoch, which an iterator does not.
    pub fn next(&mut self) -> Next<W::Batch> {
        self.next_before(None)
    }

    /// As [`Engine::next`], but waits no longer than `limit`.
    pub fn next_within(&mut self, limit: Duration) -> Next<W::Batch> {
        self.next_before(Some(now() + limit))
    }

    fn next_before(&mut self, deadline: Option<Instant>) -> Next<W::Batch> {
        if let Err(error) = self.check_process() {
            return Next::Batch(Err(error));
        }
        let asked = now();
        let busy = self.handed_over.take().map(|before| asked - before);
        let shared = Arc::clone(&self.shared);
        let mut state = lock(&shared.state);
        state.allow();
        if let Some(busy) = busy {
            state.schedule.pace.note_step(busy);
            self.consumer.busy += busy;
        }
        let at_once = state.schedule.can_take();
        let next = loop {
            match state.schedule.take() {
                // All rows of the batch were left out.
                Taken::Batch { outcome: Ok(None), failures } => self.manifest.extend(failures),
                Taken::Batch { outcome, failures } => {
                    self.manifest.extend(failures);
                    self.consumer.batches += 1;
                    self.consumer.batches_ready += u64::from(at_once);
                    break Next::Batch(outcome.map(|batch| batch.expect("`None` was matched above")));
                }
                Taken::EndOfEpoch => break Next::EndOfEpoch,
                Taken::NotYet => match &state.fatal {
                    Some(error) => break Next::Batch(Err(error.clone())),
                    None if deadline.is_some_and(|deadline| deadline <= now()) => break Next::NotYet,
                    None => state = self.advance(&shared, state, deadline),
                },
            }
        };
        // Where a batch takes little longer than waking a worker, one that found enough ready sleeps until half
        // of that is gone, and then has several to do.
        if state.batch_time() > 10 * WAKE_UP || state.schedule.ready() <= state.enough / 2 {
            shared.nudge(&mut state);
        }
        drop(state);
        let end = now();
        self.consumer.waiting += end - asked;
        self.handed_over = (!matches!(next, Next::NotYet)).then_some(end);
        next
    }

    /// Waits for the workers or, if there are none, does what they would do.
    fn advance<'a>(
        &mut self,
        shared: &'a Shared<W>,
        mut state: MutexGuard<'a, State<W>>,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, State<W>> {
        if state.target == 0 {
            if self.own.hand.is_none() {
                drop(state);
                let hand = Cause::catch(|| shared.work.hand(0));
                state = lock(&shared.state);
                match hand {
                    Ok(hand) => self.own.hand = Some(hand),
                    Err(cause) => shared.fail(&mut state, Error::Worker { worker: 0, cause }),
                }
                return state;
            }
            match state.step(shared) {
                Step::Fill(claim) => {
                    drop(state);
                    return shared.fill(&mut self.own, claim);
                }
                Step::Draw(draft, last) => {
                    drop(state);
                    return shared.draw(draft, last);
                }
                // The end of an epoch may have come into the queue; otherwise a worker that is to end has rows.
                Step::Wait(_) if state.schedule.can_take() => return state,
                Step::Wait(_) => {}
            }
        }
        shared.nudge(&mut state);
        state.consumer_waits = true;
        if let Some(patience) = self.patience(&state) {
            let news = shared.news.load(Relaxed);
            drop(state);
            let start = now();
            while shared.news.load(Relaxed) == news && start.elapsed() < patience {
                std::hint::spin_loop();
            }
            state = lock(&shared.state);
        }
        if !state.schedule.can_take() && state.fatal.is_none() {
            state.consumer_sleeps = true;
            state = match deadline {
                None => wait(&shared.delivery, state),
                Some(deadline) => {
                    wait_for(&shared.delivery, state, deadline.saturating_duration_since(now()))
                }
            };
            state.consumer_sleeps = false;
        }
        state.consumer_waits = false;
        state
    }

    /// How long to look for the next batch before going to sleep: not at all, unless it will be there sooner
    /// than a sleeping thread can be woken. With tiny samples, waking costs more than loading.
    fn patience(&self, state: &State<W>) -> Option<Duration> {
        let soon = state.batch_time() < WAKE_UP && self.processors > state.target;
        (soon && !cfg!(shuttle)).then_some(WAKE_UP)
    }

    /// How far the consumer has got.
    pub fn position(&self) -> Position {
        let state = lock(&self.shared.state);
        let (at, mut delivered) = (state.schedule.at(), state.schedule.delivered());
        if state.skip.0 == at.epoch {
            // Those that have not come into the queue yet; the others are in both lists.
            delivered.extend(state.skip.1.iter().filter(|range| range.end > at.batch).cloned());
            delivered = joined(delivered);
        }
        Position { at, delivered }
    }

    /// Throws away what is loaded ahead and goes on at another place.
    pub fn restart(&mut self, position: Position) -> Result<(), Error> {
        self.check_process()?;
        let mut state = lock(&self.shared.state);
        match &mut state.draft {
            Some(draft) => draft.seek(position.at),
            None => state.seek = Some(position.at),
        }
        state.last_epoch = None;
        state.skip = (position.at.epoch, position.delivered);
        state.schedule.abandon(position.at);
        drop(state);
        self.handed_over = None;
        Ok(())
    }

    /// The failures of the batches delivered so far.
    pub fn failures(&self) -> &Manifest {
        &self.manifest
    }

    /// What is going on.
    pub fn gauges(&self) -> Gauges {
        let state = lock(&self.shared.state);
        let (in_flight, bytes) = state.schedule.in_flight();
        let queue = QueueGauge {
            ready: state.schedule.ready(),
            in_flight,
            bytes,
            peak_bytes: state.peak_bytes,
            row: state.schedule.pace.row(),
            step: state.schedule.pace.step(),
        };
        let workers = state.counters.iter().map(|counters| counters.read()).collect();
        Gauges { workers, consumer: self.consumer, queue }
    }

    fn check_process(&self) -> Result<(), Error> {
        if std::process::id() == self.process { Ok(()) } else { Err(Error::Forked { parent: self.process }) }
    }
}

/// The same numbers in ranges that neither touch nor overlap, in ascending order.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

impl<W: Work> Drop for Engine<W> {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // The threads are the parent's, and one of them may have held the lock at the moment of the fork.
            std::mem::forget(std::mem::take(&mut self.threads));
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        lock(&self.shared.state).stop = true;
        self.shared.to_do.notify_all();
        for thread in self.threads.drain(..).flatten() {
            let _ = thread.join();
        }
    }
}
