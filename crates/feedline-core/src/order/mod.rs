//! Which sample stands at which position of an epoch.
//!
//! A [`Sampler`] is a pure function of (seed, epoch): it arranges an epoch, and the arrangement can be asked
//! for any position. That is why resuming costs nothing, why shards need no coordination, and why the number
//! of workers never shows. Sharding and batching are not done here but in [`crate::plan`].

mod grouped;
mod shuffle;
mod weighted;

pub use grouped::Grouped;
pub use shuffle::Shuffle;
pub use weighted::{WeightError, Weighted};

use crate::{Key, Purpose, sync::Arc};

/// One epoch's order: the sample at a position. Asking for the same position always gives the same sample.
pub type Arrangement = Arc<dyn Fn(usize) -> usize + Send + Sync>;

/// The order in which an epoch visits the samples of a dataset.
///
/// ```
/// use feedline_core::{Arrangement, Sampler};
///
/// /// Every second sample, backwards.
/// struct EverySecond(usize);
///
/// impl Sampler for EverySecond {
///     fn len(&self) -> usize {
///         self.0 / 2
///     }
///     fn arrange(&self, _seed: u64, _epoch: u64) -> Arrangement {
///         let last = self.0 - 1;
///         std::sync::Arc::new(move |position| last - 2 * position)
///     }
///     fn name(&self) -> &str {
///         "every second, backwards"
///     }
/// }
/// assert_eq!(EverySecond(10).arrange(0, 0)(1), 7);
/// ```
#[allow(clippy::len_without_is_empty)] // An empty epoch is refused before any loader exists.
pub trait Sampler: Send + Sync + 'static {
    /// How many samples an epoch has.
    fn len(&self) -> usize;

    /// The order of one epoch. Must depend on nothing but the arguments and `self`.
    fn arrange(&self, seed: u64, epoch: u64) -> Arrangement;

    /// A name for this order. It is part of a saved state: a state of another order is refused.
    fn name(&self) -> &str;
}

/// Every sample once, in the order of the dataset.
#[derive(Clone, Copy, Debug)]
pub struct Sequential(pub usize);

impl Sampler for Sequential {
    fn len(&self) -> usize {
        self.0
    }

    fn arrange(&self, _seed: u64, _epoch: u64) -> Arrangement {
        Arc::new(|position| position)
    }

    fn name(&self) -> &'static str {
        "sequential"
    }
}

/// Samples drawn at random, each draw from all of them.
#[derive(Clone, Copy, Debug)]
pub struct WithReplacement {
    /// The number of samples to draw from.
    pub from: usize,
    /// The number of draws in an epoch.
    pub draws: usize,
}

impl Sampler for WithReplacement {
    fn len(&self) -> usize {
        if self.from == 0 { 0 } else { self.draws }
    }

    fn arrange(&self, seed: u64, epoch: u64) -> Arrangement {
        let (key, from) = (Key::new(seed, epoch, Purpose::Order), self.from as u64);
        Arc::new(move |position| key.below(position as u64, from) as usize)
    }

    fn name(&self) -> &'static str {
        "with replacement"
    }
}

/// Some of the samples, in the given order or shuffled anew each epoch.
///
/// ```
/// use feedline_core::{Sampler, Subset};
/// let validation = Subset::new(vec![3, 1, 4]);
/// assert_eq!(validation.arrange(0, 0)(2), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Subset {
    indices: Arc<[usize]>,
    shuffle: Option<Shuffle>,
}

impl Subset {
    /// These samples, in this order.
    pub fn new(indices: impl Into<Arc<[usize]>>) -> Self {
        Self { indices: indices.into(), shuffle: None }
    }

    /// These samples, in a new random order each epoch.
    #[must_use]
    pub fn shuffled(self) -> Self {
        Self { shuffle: Some(Shuffle(self.indices.len())), ..self }
    }
}

impl Sampler for Subset {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn arrange(&self, seed: u64, epoch: u64) -> Arrangement {
        let indices = Arc::clone(&self.indices);
        match self.shuffle {
            None => Arc::new(move |position| indices[position]),
            Some(shuffle) => {
                let order = shuffle.arrange(seed, epoch);
                Arc::new(move |position| indices[order(position)])
            }
        }
    }

    fn name(&self) -> &'static str {
        if self.shuffle.is_some() { "shuffled subset" } else { "subset" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(sampler: &dyn Sampler, seed: u64, epoch: u64) -> Vec<usize> {
        let order = sampler.arrange(seed, epoch);
        (0..sampler.len()).map(|position| order(position)).collect()
    }

    #[test]
    fn sequential_visits_samples_in_the_order_of_the_dataset() {
        assert_eq!(epoch(&Sequential(4), 1, 2), [0, 1, 2, 3]);
    }

    #[test]
    fn with_replacement_repeats_some_samples_and_redraws_each_epoch() {
        let sampler = WithReplacement { from: 10, draws: 1000 };
        let (first, second) = (epoch(&sampler, 1, 0), epoch(&sampler, 1, 1));
        assert!(first.iter().all(|index| *index < 10));
        assert!((0..10).all(|index| first.contains(&index)));
        assert_ne!(first, second);
        assert_eq!(first, epoch(&sampler, 1, 0));
    }

    #[test]
    fn shuffled_subset_holds_exactly_its_samples() {
        let sampler = Subset::new((0..100).map(|n| n * 3).collect::<Vec<_>>()).shuffled();
        let mut drawn = epoch(&sampler, 9, 0);
        assert_ne!(drawn, (0..100).map(|n| n * 3).collect::<Vec<_>>());
        drawn.sort_unstable();
        assert_eq!(drawn, (0..100).map(|n| n * 3).collect::<Vec<_>>());
    }
}
