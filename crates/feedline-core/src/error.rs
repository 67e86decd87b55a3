//! Everything that can come out of a running loader instead of a batch.

use crate::{Cause, Failure, PlanError};

/// Why there is no batch.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A sample could not be loaded. The next batch comes as usual.
    #[error(transparent)]
    Sample(Box<Failure>),
    /// The sampler asked for something that does not exist. The next batch comes as usual.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There was no memory for a batch. The next batch is tried as usual.
    #[error(
        "no memory for a batch of {rows} samples: {cause}; use smaller batches or a smaller prefetch budget"
    )]
    Memory {
        /// The rows of the batch.
        rows: usize,
        /// What the system said.
        cause: Cause,
    },
    /// The sampler panicked. The loader stops.
    #[error("the sampler failed: {0}")]
    Sampler(Cause),
    /// A worker could not be made ready, or broke down. The loader stops.
    #[error("worker {worker} failed: {cause}")]
    Worker {
        /// The worker.
        worker: usize,
        /// Why.
        cause: Cause,
    },
    /// The process was forked: the child has the loader but none of its threads.
    #[error(
        "this loader belongs to process {parent}, of which this one is a fork; build a loader in each process"
    )]
    Forked {
        /// The process that built the loader.
        parent: u32,
    },
}

impl Error {
    /// Whether the loader has stopped: no further batch will come.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Sampler(_) | Self::Worker { .. } | Self::Forked { .. })
    }
}
