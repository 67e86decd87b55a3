//! How many workers a loader has, where that is left to it.
//!
//! A few times a second, between two batches, the gauges are read and the [`Tuner`] is asked. It is the loader's own
//! thread that does so: there is nobody else.

use std::time::{Duration, Instant};

use feedline_core::{Gauges, Limits, Seen, Tuner, Window};

use crate::loader::Feed;

/// How long to look before deciding: while numbers are tried, and when one has been found.
const SOON: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_millis(500);

/// So many workers there may be at least; more, on a machine with more processors.
const MOST: usize = 64;

/// What decides, and what it last saw.
pub(crate) struct Auto {
    tuner: Tuner,
    before: Option<(Instant, Sums)>,
    next: Instant,
    most: usize,
    window: Window,
    /// Whether the window is the user's, and stays.
    asked: bool,
}

/// What workers and consumer have done so far.
#[derive(Clone, Copy)]
struct Sums {
    rows: u64,
    busy: Duration,
    processor: Duration,
    waited: Duration,
}

impl Sums {
    fn of(gauges: &Gauges) -> Self {
        let workers = || gauges.workers.iter();
        Self {
            rows: workers().map(|worker| worker.rows).sum(),
            busy: workers().map(|worker| worker.filling + worker.closing).sum(),
            processor: workers().map(|worker| worker.processor).sum(),
            waited: gauges.consumer.waiting,
        }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Auto {
    /// Begins with a worker for each processor.
    pub(crate) fn new(window: Window, asked: bool) -> Self {
        let most = MOST.max(2 * processors());
        Self {
            tuner: Tuner::new(processors().min(most)),
            before: None,
            next: Instant::now(),
            most,
            window,
            asked,
        }
    }

    /// How many there should be.
    pub(crate) fn workers(&self) -> usize {
        self.tuner.workers()
    }

    /// Changes the number of workers, if it is time to.
    pub(crate) fn tune<B>(&mut self, feed: &mut dyn Feed<B>) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + if self.tuner.is_settled() { LATER } else { SOON };
        let gauges = feed.gauges();
        let sums = Sums::of(&gauges);
        let Some((then, before)) = self.before.replace((now, sums)) else { return };
        let workers = self.tuner.workers();
        let decided = self.tuner.decide(&seen(now - then, &before, &sums, &gauges), &self.limits());
        if decided == workers {
            return;
        }
        if !self.asked {
            self.window.batches = (2 * decided).max(4);
            feed.set_window(self.window);
        }
        if feed.set_workers(decided).is_err() {
            // The system has no more threads for us: what there is, is the most.
            self.most = feed.workers().max(1);
            self.tuner = Tuner::new(self.most);
        }
        // What comes next was not made by as many as what was before.
        self.before = None;
    }

    fn limits(&self) -> Limits {
        Limits { processors: processors() as f64, bytes: self.window.bytes, workers: self.most }
    }
}

fn seen(elapsed: Duration, before: &Sums, now: &Sums, gauges: &Gauges) -> Seen {
    let rows = now.rows.saturating_sub(before.rows);
    let each = |now: Duration, then: Duration| now.saturating_sub(then).div_f64(rows.max(1) as f64);
    let row = each(now.busy, before.busy);
    let queue = &gauges.queue;
    Seen {
        elapsed,
        rows: rows as f64,
        waited: now.waited.saturating_sub(before.waited).min(elapsed),
        row,
        processor: each(now.processor, before.processor).min(row),
        // At least a part of a batch, and at most one of its own.
        bytes_per_worker: queue.bytes / queue.in_flight.max(1) as u64,
    }
}
