//! How many workers there should be.

use std::time::Duration;

use feedline_core::{Limits, Seen};
use pyo3::prelude::*;

/// Decides how many workers there should be, from what was seen since it last did.
#[pyclass(module = "feedline._engine")]
pub(crate) struct Tuner(feedline_core::Tuner);

#[pymethods]
impl Tuner {
    /// Begins with so many workers.
    #[new]
    fn new(workers: usize) -> Self {
        Self(feedline_core::Tuner::new(workers))
    }

    /// How many there should be.
    #[getter]
    fn workers(&self) -> usize {
        self.0.workers()
    }

    /// Whether it is done with trying others, for now.
    #[getter]
    fn is_settled(&self) -> bool {
        self.0.is_settled()
    }

    /// How many there should be after this was seen: seconds that it took, samples that the consumer was given, seconds
    /// for which it had none, seconds and seconds of a processor for a sample, bytes that a worker more may hold; with so
    /// many processors, bytes and workers at most.
    #[pyo3(signature = (*, elapsed, rows, waited, row, processor, bytes_per_worker, processors, bytes, workers))]
    #[allow(clippy::too_many_arguments)] // They are what was seen, and the limits.
    fn decide(
        &mut self,
        elapsed: f64,
        rows: f64,
        waited: f64,
        row: f64,
        processor: f64,
        bytes_per_worker: u64,
        processors: f64,
        bytes: u64,
        workers: usize,
    ) -> usize {
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let seen = Seen {
            elapsed: time(elapsed),
            rows,
            waited: time(waited),
            row: time(row),
            processor: time(processor),
            bytes_per_worker,
        };
        self.0.decide(&seen, &Limits { processors, bytes, workers })
    }
}
