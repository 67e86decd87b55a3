//! What happens when a sample cannot be loaded.
//!
//! A failed sample is a value in its place: it fills its row of the batch with a [`Failure`] and disturbs
//! nothing else. What becomes of it is one decision, [`OnFailure`], and whatever is decided, the failure is
//! written into the [`Manifest`] when its batch is delivered.

use std::{error::Error, fmt, panic};

use crate::sync::Arc;

/// Any error of foreign code.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What to do with a sample that cannot be loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Deliver the error in place of the batch; the next batch comes as usual.
    #[default]
    Raise,
    /// Deliver the batch without the sample.
    Skip,
    /// Put another sample in its place, drawn by (seed, epoch, sample); after this many that fail as well,
    /// deliver the error.
    Replace {
        /// How many other samples to try.
        tries: u32,
    },
}

/// A sample that could not be loaded.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What could not be loaded.
    pub what: What,
    /// The epoch.
    pub epoch: u64,
    /// The batch in the epoch.
    pub batch: u64,
    /// The row of the batch.
    pub row: usize,
    /// Why.
    pub cause: Cause,
    /// The sample that was delivered in its place.
    pub replaced_by: Option<usize>,
}

/// What could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The sample of this index.
    Sample(usize),
    /// All samples of a batch, because they are loaded together.
    Batch(Vec<usize>),
    /// A sample of a stream, by its number in the shard.
    Streamed {
        /// The shard.
        shard: usize,
        /// The sample's number in the shard, from 0.
        number: u64,
    },
    /// The batch as a whole: its samples were loaded, putting them together failed.
    Collate,
}

/// Why a sample could not be loaded.
#[derive(Clone, Debug)]
pub enum Cause {
    /// The dataset returned this error.
    Error(Arc<dyn Error + Send + Sync>),
    /// The dataset panicked with this message.
    Panic(String),
}

impl Cause {
    /// From the payload of a caught panic.
    pub fn panic(payload: &(dyn std::any::Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::Panic(text.unwrap_or("(a payload that is not text)").to_owned())
    }

    /// Runs foreign code; its error or panic becomes a cause.
    pub fn catch<T>(code: impl FnOnce() -> Result<T, BoxError>) -> Result<T, Self> {
        // What the code leaves half-done is its own row or batch, and that is thrown away.
        match panic::catch_unwind(panic::AssertUnwindSafe(code)) {
            Ok(result) => result.map_err(|error| Self::Error(error.into())),
            Err(payload) => Err(Self::panic(&*payload)),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => {
                // The whole chain, because the file's name is often in one link and the reason in the next;
                // but not a link that the one before it has already quoted.
                let mut text = error.to_string();
                let mut source = error.source();
                while let Some(error) = source {
                    let link = error.to_string();
                    if !text.contains(&link) {
                        text = format!("{text}: {link}");
                    }
                    source = error.source();
                }
                f.write_str(&text)
            }
            Self::Panic(text) => write!(f, "it panicked: {text}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, epoch, batch, row, cause, replaced_by } = self;
        match what {
            What::Sample(index) => write!(f, "sample {index} (row {row} of batch {batch}, epoch {epoch})")?,
            What::Batch(indices) => {
                let first: Vec<String> = indices.iter().take(8).map(usize::to_string).collect();
                let more = if indices.len() > 8 { ", …" } else { "" };
                write!(f, "batch {batch} of epoch {epoch} (samples {}{more})", first.join(", "))?;
            }
            What::Streamed { shard, number } => {
                write!(f, "sample {number} of shard {shard} (batch {batch}, epoch {epoch})")?;
            }
            What::Collate => write!(f, "putting batch {batch} of epoch {epoch} together")?,
        }
        write!(f, " failed: {cause}")?;
        match replaced_by {
            Some(index) => write!(f, " (replaced by sample {index})"),
            None => Ok(()),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Cause::Error(error) => Some(&**error),
            Cause::Panic(_) => None,
        }
    }
}

/// The failures of the batches delivered so far.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// The failures, in the order of delivery; the first [`Manifest::KEPT`] of them.
    pub failures: Vec<Failure>,
    /// How many there were in all.
    pub count: u64,
}

impl Manifest {
    /// How many failures are kept; a dataset of which every sample fails must not fill the memory.
    pub const KEPT: usize = 10_000;

    pub(crate) fn extend(&mut self, failures: impl IntoIterator<Item = Failure>) {
        for failure in failures {
            self.count += 1;
            if self.failures.len() < Self::KEPT {
                self.failures.push(failure);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_sample_and_its_cause() {
        let cause = Cause::catch(|| Err::<(), _>("cells/17.tif: file is cut short".into())).unwrap_err();
        let mut failure =
            Failure { what: What::Sample(17), epoch: 2, batch: 3, row: 4, cause, replaced_by: Some(9) };
        assert_eq!(
            failure.to_string(),
            "sample 17 (row 4 of batch 3, epoch 2) failed: cells/17.tif: file is cut short (replaced by sample 9)"
        );
        let nested = std::io::Error::other(std::io::Error::other("disk on fire"));
        failure.cause = Cause::catch(|| Err::<(), BoxError>(nested.into())).unwrap_err();
        assert!(failure.to_string().ends_with("failed: disk on fire (replaced by sample 9)"), "{failure}");
        failure.cause = Cause::catch(|| -> Result<(), BoxError> { panic!("index {}", 5) }).unwrap_err();
        failure.what = What::Batch((0..20).collect());
        failure.replaced_by = None;
        assert_eq!(
            failure.to_string(),
            "batch 3 of epoch 2 (samples 0, 1, 2, 3, 4, 5, 6, 7, …) failed: it panicked: index 5"
        );
    }
}
