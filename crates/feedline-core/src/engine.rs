//! The engine: an ordered, bounded, cancellable parallel map from sample numbers to rows of batches.
//!
//! This is the consumer's side and the life of the threads; what the threads do is in [`crate::crew`]. There is
//! one lock, and two conditions are waited for: workers wait for *something to do*, the consumer for *its
//! batch*. Foreign code (dataset, sampler, collate function) never runs under the lock.
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
//! 8. **Process killed**, or interrupted with Ctrl-C where nobody handles it. Threads end with their process, and
//!    shared memory has no name that could be left behind.
//! 9. **Fork in the middle.** A forked child has no workers: `next` gives [`Error::Forked`], nothing hangs, `drop`
//!    returns. The parent is not affected.
//! 10. **Half-built pool.** If a thread cannot be started, those already running are ended before `start`
//!     returns the error.

use std::{
    ops::Range,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use crate::{
    Cause, Cursor, Error, Gauges, Manifest, OnFailure, Plan, QueueGauge, Window, Work,
    crew::{Own, Shared, State, Step, WAKE_UP},
    gauges::{ConsumerGauge, Counters},
    schedule::Taken,
    sync::{Arc, JoinHandle, MutexGuard, lock, now, spawn, wait, wait_for},
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

impl<W: Work> Engine<W> {
    /// Starts the workers. Nothing is loaded before the first [`Engine::next`] or [`Engine::begin`].
    pub fn start(work: W, plan: Box<dyn Plan>, settings: &Settings) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(work, plan, settings));
        let own = Own::new(Arc::clone(&lock(&shared.state).counters[0]));
        let mut engine = Self {
            shared,
            threads: Vec::new(),
            own,
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
        self.check_process().map_err(std::io::Error::other)?;
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

    /// The number of workers asked for. In a forked child there are none.
    pub fn workers(&self) -> usize {
        self.state().map_or(0, |state| state.target)
    }

    /// Changes how far loading may be ahead.
    pub fn set_window(&mut self, window: Window) {
        let mut state = lock(&self.shared.state);
        state.schedule.set_window(window);
        self.shared.nudge(state);
    }

    /// Lets the workers begin with the epoch that the consumer will ask for next.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.check_process()?;
        let mut state = lock(&self.shared.state);
        state.allow();
        self.shared.nudge(state);
        Ok(())
    }

    /// The next batch of the epoch, or its end. Waits for it; with no workers, makes it.
    #[allow(clippy::should_implement_trait)] // It goes on after the end of an epoch, which an iterator does not.
    pub fn next(&mut self) -> Next<W::Batch> {
        self.next_before(None)
    }

    /// As [`Engine::next`], but waits no longer than `limit`.
    pub fn next_within(&mut self, limit: Duration) -> Next<W::Batch> {
        // A time too long to be counted is no limit.
        self.next_before(now().checked_add(limit))
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
            shared.nudge(state);
        } else {
            drop(state);
        }
        let end = now();
        self.consumer.waiting += end - asked;
        // Time between epochs is not time spent on a batch.
        self.handed_over = matches!(next, Next::Batch(_)).then_some(end);
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
        state.consumer_waits = true;
        let (patience, news) = (self.patience(&state), shared.news.load(Relaxed));
        shared.nudge(state);
        if let Some(patience) = patience {
            let start = now();
            // Not at the first news: a batch or two later there is more to take for the same visit.
            let ready = || start.elapsed() > patience / 2 && shared.news.load(Relaxed) != news;
            while start.elapsed() < patience && !ready() {
                std::hint::spin_loop();
            }
        }
        state = lock(&shared.state);
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

    /// How far the consumer has got. A forked child has got nowhere.
    pub fn position(&self) -> Position {
        let Some(state) = self.state() else { return Position::default() };
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
        let Some(state) = self.state() else { return Gauges::default() };
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

    /// The state; in a forked child, where a thread that does not exist may hold its lock, nothing.
    fn state(&self) -> Option<MutexGuard<'_, State<W>>> {
        self.check_process().is_ok().then(|| lock(&self.shared.state))
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
