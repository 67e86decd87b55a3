//! A saved place in a run: small, versioned, and free of anything that depends on the number of workers.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{Cursor, Position};

/// Where a loader was: after which batches, of which epoch, of which order. At most a kilobyte as JSON.
///
/// It says nothing about workers, prefetching or memory: a run can go on with other settings, and, because
/// the place is counted in samples over all ranks, with another batch size or number of ranks.
///
/// ```
/// # use feedline_core::{State, Position, Cursor};
/// let position = Position { at: Cursor { epoch: 2, batch: 10, used: 640 }, delivered: vec![] };
/// let state = State::new(7, 50_000, "shuffle", 64, position);
/// let saved = state.to_json();
/// assert_eq!(State::from_json(&saved)?, state);
/// # Ok::<(), feedline_core::StateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    version: u32,
    /// The seed of the order and of the samples' random numbers.
    pub seed: u64,
    /// The length of the dataset.
    pub len: u64,
    /// The name of the order.
    pub order: String,
    /// Samples in a batch over all ranks.
    stride: u64,
    #[serde(flatten)]
    at: Cursor,
    /// Batches delivered out of order: how many to pass over, how many were delivered, and so on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    delivered: Vec<u64>,
}

/// A state that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It is not a state at all.
    #[error("this is not a saved loader state: {0}")]
    Unreadable(String),
    /// It was written by a version that counts differently.
    #[error("the state has version {found}; this version of feedline reads version {}", State::VERSION)]
    Version {
        /// The version found.
        found: u32,
    },
    /// The seed has changed.
    #[error(
        "the state was saved with seed {saved}, this loader has seed {now}; build it with the seed of the state"
    )]
    Seed {
        /// The seed when it was saved.
        saved: u64,
        /// The seed now.
        now: u64,
    },
    /// The dataset has changed.
    #[error(
        "the state was saved for a dataset of {saved} samples, this one has {now}; the same place does not exist in it"
    )]
    Length {
        /// The length when it was saved.
        saved: u64,
        /// The length now.
        now: u64,
    },
    /// The order has changed.
    #[error(
        "the state was saved in the order {saved:?}, this loader has {now:?}; use the same sampler to go on"
    )]
    Order {
        /// The order when it was saved.
        saved: String,
        /// The order now.
        now: String,
    },
    /// A state saved out of order names batches, which must be the same ones.
    #[error(
        "the state was saved out of order with other batches; go on with the batch size and ranks it was saved with"
    )]
    Batches,
}

impl State {
    /// The version this code writes and reads.
    pub const VERSION: u32 = 1;

    /// A state to be saved.
    ///
    /// `stride` is the number of samples in a batch over all ranks.
    pub fn new(seed: u64, len: u64, order: impl Into<String>, stride: u64, position: Position) -> Self {
        let mut end = position.at.batch;
        let mut delivered = Vec::with_capacity(2 * position.delivered.len());
        for range in position.delivered {
            delivered.extend([range.start - end, range.end - range.start]);
            end = range.end;
        }
        Self { version: Self::VERSION, seed, len, order: order.into(), stride, at: position.at, delivered }
    }

    /// The epoch it is in, from 0. A state taken when an epoch has been iterated to its end is in the next one;
    /// one taken right after the last batch is still in the old one, of which nothing is left.
    pub fn epoch(&self) -> u64 {
        self.at.epoch
    }

    /// The place, if this state is of that seed, dataset and order, and, where it names batches delivered out
    /// of order, of batches of that stride.
    pub fn position(&self, seed: u64, len: u64, order: &str, stride: u64) -> Result<Position, StateError> {
        if self.seed != seed {
            return Err(StateError::Seed { saved: self.seed, now: seed });
        }
        if self.len != len {
            return Err(StateError::Length { saved: self.len, now: len });
        }
        if self.order != order {
            return Err(StateError::Order { saved: self.order.clone(), now: order.into() });
        }
        if self.stride != stride && !self.delivered.is_empty() {
            return Err(StateError::Batches);
        }
        let mut end = self.at.batch;
        let mut delivered: Vec<Range<u64>> = Vec::with_capacity(self.delivered.len() / 2);
        for pair in self.delivered.chunks_exact(2) {
            let start = end.checked_add(pair[0]).ok_or(StateError::Batches)?;
            end = start.checked_add(pair[1]).ok_or(StateError::Batches)?;
            delivered.push(start..end);
        }
        Ok(Position { at: self.at, delivered })
    }

    /// As a line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("integers and a string can always be written")
    }

    /// From what [`State::to_json`] wrote.
    pub fn from_json(json: &str) -> Result<Self, StateError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let unreadable = |error: serde_json::Error| StateError::Unreadable(error.to_string());
        // The version first: another one may have other fields.
        match serde_json::from_str(json).map_err(unreadable)? {
            Version { version: Self::VERSION } => serde_json::from_str(json).map_err(unreadable),
            Version { version: found } => Err(StateError::Version { found }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(delivered: Vec<Range<u64>>) -> Position {
        Position { at: Cursor { epoch: 3, batch: 5, used: 320 }, delivered }
    }

    #[test]
    fn the_written_form_never_changes() {
        let state = State::new(1, 1000, "shuffle", 64, position(vec![7..8, 10..14]));
        let json = r#"{"version":1,"seed":1,"len":1000,"order":"shuffle","stride":64,"epoch":3,"batch":5,"used":320,"delivered":[2,1,2,4]}"#;
        assert_eq!(state.to_json(), json);
        let read = State::from_json(json).unwrap();
        assert_eq!(read.position(1, 1000, "shuffle", 64), Ok(position(vec![7..8, 10..14])));
    }

    #[test]
    fn a_state_of_sixty_four_held_up_batches_fits_a_kilobyte() {
        let gaps = (0..64).map(|n| 5 + n * 1000..5 + n * 1000 + 900).collect();
        let order = "a rather long name that a user gave to an order of their own making";
        let huge = Position { at: Cursor { epoch: u64::MAX, batch: 0, used: u64::MAX }, ..position(gaps) };
        assert!(State::new(u64::MAX, u64::MAX, order, u64::MAX, huge).to_json().len() <= 1024);
    }

    #[test]
    fn a_state_of_something_else_is_refused() {
        let state = State::new(1, 1000, "shuffle", 64, position(vec![]));
        assert_eq!(state.position(1, 999, "shuffle", 64), Err(StateError::Length { saved: 1000, now: 999 }));
        assert!(matches!(state.position(1, 1000, "sequential", 64), Err(StateError::Order { .. })));
        assert_eq!(state.position(2, 1000, "shuffle", 64), Err(StateError::Seed { saved: 1, now: 2 }));
        let out_of_order = State::new(1, 1000, "shuffle", 64, position(vec![7..8, 9..11]));
        assert_eq!(out_of_order.position(1, 1000, "shuffle", 32), Err(StateError::Batches));
        assert_eq!(State::from_json(r#"{"version":2}"#), Err(StateError::Version { found: 2 }));
        assert!(matches!(State::from_json("{}"), Err(StateError::Unreadable(_))));
        assert!(matches!(State::from_json(r#"{"version":1}"#), Err(StateError::Unreadable(_))));
        assert!(matches!(State::from_json("\u{0}"), Err(StateError::Unreadable(_))));
    }
}
