//! Where the time goes: per worker, for the consumer, and in the queue between them.
//!
//! Workers add to counters of their own, on a cache line of their own, without ordering: they measure and
//! synchronise nothing. A snapshot reads them and looks at the queue for less than a microsecond.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// The counters of one worker, in nanoseconds where they are times.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) input: AtomicU64,
    pub(crate) room: AtomicU64,
    pub(crate) fill: AtomicU64,
    pub(crate) processor: AtomicU64,
    pub(crate) close: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) runs: AtomicU64,
}

/// Adds a time to a counter.
pub(crate) fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(time.as_nanos() as u64, Relaxed);
}

impl Counters {
    pub(crate) fn note_run(&self, rows: usize, spent: Duration) {
        add(&self.fill, spent);
        self.rows.fetch_add(rows as u64, Relaxed);
        self.runs.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> WorkerGauge {
        let time = |counter: &AtomicU64| Duration::from_nanos(counter.load(Relaxed));
        WorkerGauge {
            waiting_for_input: time(&self.input),
            waiting_for_room: time(&self.room),
            filling: time(&self.fill),
            processor: time(&self.processor),
            closing: time(&self.close),
            rows: self.rows.load(Relaxed),
            runs: self.runs.load(Relaxed),
        }
    }
}

/// What a loader is doing, since it was built.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Every worker there has been, by its number; for inline loading, the consumer's own thread as number 0.
    pub workers: Vec<WorkerGauge>,
    /// The consumer.
    pub consumer: ConsumerGauge,
    /// What is between them now.
    pub queue: QueueGauge,
}

/// Where a worker's time went. A run that is under way is counted when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerGauge {
    /// There was nothing to load: the epoch was over, or the sampler slow.
    pub waiting_for_input: Duration,
    /// The consumer had as much as it is allowed to have.
    pub waiting_for_room: Duration,
    /// Loading samples.
    pub filling: Duration,
    /// Having a processor, all in all, brought up to date about every millisecond. What of filling and closing this is
    /// not, the worker waited.
    pub processor: Duration,
    /// Putting batches together.
    pub closing: Duration,
    /// Samples loaded.
    pub rows: u64,
    /// Runs of neighbouring samples in which they were loaded.
    pub runs: u64,
}

/// Where the consumer's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerGauge {
    /// Waiting for a batch (or, inline, making it).
    pub waiting: Duration,
    /// Between two batches.
    pub busy: Duration,
    /// Batches it was given.
    pub batches: u64,
    /// How many of them were ready when asked for.
    pub batches_ready: u64,
}

/// What is between workers and consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueGauge {
    /// Batches that could be delivered now.
    pub ready: usize,
    /// Batches begun and not delivered, the ready ones included.
    pub in_flight: usize,
    /// Bytes of those.
    pub bytes: u64,
    /// The most there ever were.
    pub peak_bytes: u64,
    /// The recent average time of a sample.
    pub row: Duration,
    /// The recent average time the consumer spends between two batches.
    pub step: Duration,
}
