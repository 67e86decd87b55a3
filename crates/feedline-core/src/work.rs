//! What the engine runs: the seam between scheduling and loading.
//!
//! The engine decides *which rows, by whom, when*; a [`Work`] does them. Rows of tensors, plain values,
//! streams and, later, worker processes are each one implementation, and none of them knows about order,
//! threads or prefetching.

use std::ops::Range;

use crate::{Cause, Failure, Key, OnFailure, Purpose, SampleRng, What, failure::BoxError, plan::Spare};

/// The smallest piece of a batch that can be given to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Rows: all workers fill the oldest batch together.
    Row,
    /// A batch that must be made in one place.
    Batch,
}

/// Some neighbouring rows of one batch, given to one worker, once.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The seed of the loader.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// The batch in the epoch.
    pub batch: u64,
    /// The row of the first index.
    pub first: usize,
    /// The samples, one per row.
    pub indices: &'a [usize],
    /// What may stand in for a failed sample.
    pub spare: Option<&'a Spare>,
    /// What to do with a failed sample.
    pub on_failure: OnFailure,
}

impl Run<'_> {
    /// Its rows.
    pub fn rows(&self) -> Range<usize> {
        self.first..self.first + self.indices.len()
    }

    /// The random numbers of a sample in this epoch.
    pub fn rng(&self, index: usize) -> SampleRng {
        self.key().rng(index as u64)
    }

    fn key(&self) -> Key {
        Key::new(self.seed, self.epoch, Purpose::Sample)
    }

    /// Loads every row with `load` (given the row, the sample and its random numbers). A panic is the error of
    /// its sample. Returns the samples that failed.
    pub fn each(
        &self,
        mut load: impl FnMut(usize, usize, &mut SampleRng) -> Result<(), BoxError>,
    ) -> Vec<Failure> {
        let (mut failures, mut done, key) = (Vec::new(), 0, self.key());
        while done < self.indices.len() {
            // One net under as many rows as go well, not under each.
            let stretch = Cause::catch(|| {
                for index in &self.indices[done..] {
                    load(self.first + done, *index, &mut key.rng(*index as u64))?;
                    done += 1;
                }
                Ok(())
            });
            if let Err(cause) = stretch {
                let (row, index) = (self.first + done, self.indices[done]);
                let mut attempt = |other| Cause::catch(|| load(row, other, &mut self.rng(other))).is_ok();
                let replaced_by = self.stand_ins(index).find(|other| attempt(*other));
                failures.push(self.failure(What::Sample(index), row, cause, replaced_by));
                done += 1;
            }
        }
        failures
    }

    /// A failure of this run.
    pub fn failure(&self, what: What, row: usize, cause: Cause, replaced_by: Option<usize>) -> Failure {
        Failure { what, epoch: self.epoch, batch: self.batch, row, cause, replaced_by }
    }

    /// The samples to try in place of a failed one: drawn from the same epoch's order, so that a subset stays
    /// within itself, and by the failed sample's number, so that they do not depend on who draws.
    fn stand_ins(&self, index: usize) -> impl Iterator<Item = usize> {
        let tries = match self.on_failure {
            OnFailure::Replace { tries } => tries,
            OnFailure::Raise | OnFailure::Skip => 0,
        };
        let mut rng = Key::new(self.seed, self.epoch, Purpose::Replacement).rng(index as u64);
        let spare = self.spare;
        (0..tries).filter_map(move |_| spare.map(|(order, len)| order(rng.below(*len as u64) as usize)))
    }
}

/// A way of loading.
pub trait Work: Send + Sync + 'static {
    /// What a worker keeps from one run to the next: buffers, open files, the line to a worker process.
    type Hand: Send + 'static;
    /// A handle to a batch under construction. Clones refer to the same batch.
    type Tray: Clone + Send + 'static;
    /// A finished batch.
    type Batch: Send + 'static;

    /// The smallest piece a worker can be given.
    fn unit(&self) -> Unit;

    /// Whether every batch must be loaded because the ones after it depend on that, even if it is not wanted.
    fn is_sequential(&self) -> bool {
        false
    }

    /// Makes ready a worker, in its own thread.
    fn hand(&self, worker: usize) -> Result<Self::Hand, BoxError>;

    /// Bytes that a batch of so many rows is expected to take. 0 if they are not known.
    fn estimate(&self, rows: usize) -> u64;

    /// Bytes that a finished batch takes, where that is known better than the estimate.
    fn size(&self, batch: &Self::Batch) -> Option<u64>;

    /// Begins a batch; `whole` is a run of all its rows.
    fn open(&self, whole: &Run<'_>) -> Result<Self::Tray, BoxError>;

    /// Loads the rows of a run. Returns the samples that failed.
    fn fill(&self, hand: &mut Self::Hand, tray: &Self::Tray, run: &Run<'_>) -> Vec<Failure>;

    /// Finishes a batch all of whose rows are done; `whole` is a run of all of them, and the rows in `failed`
    /// (ascending) are left out. `None` if nothing is left. No worker holds another clone of the tray.
    fn close(
        &self,
        tray: Self::Tray,
        whole: &Run<'_>,
        failed: &[usize],
    ) -> Result<Option<Self::Batch>, BoxError>;
}
