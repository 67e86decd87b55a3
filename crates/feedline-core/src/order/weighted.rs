//! Samples drawn in proportion to a weight, with or without putting them back.

use super::{Arrangement, Sampler};
use crate::{Key, Purpose, sync::Arc};

/// Why weights cannot be drawn from.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum WeightError {
    /// A weight is negative, infinite or not a number.
    #[error("the weight of sample {index} is {weight}; weights must be finite and not negative")]
    Invalid {
        /// The sample.
        index: usize,
        /// Its weight.
        weight: f64,
    },
    /// No sample can be drawn.
    #[error("all weights are zero, so no sample can be drawn; give at least one a positive weight")]
    AllZero,
    /// Without replacement a sample can be drawn only once.
    #[error(
        "cannot draw {draws} samples without replacement from {positive} of positive weight; draw fewer, or with replacement"
    )]
    TooMany {
        /// The draws asked for.
        draws: usize,
        /// The samples of positive weight.
        positive: usize,
    },
}

/// Samples drawn at random in proportion to their weights.
///
/// ```
/// use feedline_core::{Sampler, Weighted};
/// let rare_class_first = Weighted::with_replacement(&[0.1, 0.1, 8.0], 100)?;
/// assert_eq!(rare_class_first.len(), 100);
/// # Ok::<(), feedline_core::WeightError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Weighted {
    draws: usize,
    method: Method,
}

#[derive(Clone, Debug)]
enum Method {
    /// One draw is one look into the table, so any position can be asked for.
    Replace(Arc<[Column]>),
    /// An epoch is the samples with the smallest keys (each exponential with the weight as its rate).
    Keep(Arc<[f64]>),
}

/// A column of the alias table: all columns are equally likely, each holds at most two samples.
#[derive(Clone, Copy, Debug)]
struct Column {
    /// The share of the column that belongs to its own sample.
    own: f64,
    /// The sample that has the rest.
    other: usize,
}

impl Weighted {
    /// `draws` samples an epoch, each drawn from all of them.
    pub fn with_replacement(weights: &[f64], draws: usize) -> Result<Self, WeightError> {
        check(weights)?;
        Ok(Self { draws, method: Method::Replace(alias_table(weights)) })
    }

    /// `draws` different samples an epoch; the heavier ones are more likely among them and come earlier.
    pub fn without_replacement(weights: &[f64], draws: usize) -> Result<Self, WeightError> {
        let positive = check(weights)?;
        if draws > positive {
            return Err(WeightError::TooMany { draws, positive });
        }
        Ok(Self { draws, method: Method::Keep(weights.into()) })
    }
}

impl Sampler for Weighted {
    fn len(&self) -> usize {
        self.draws
    }

    fn arrange(&self, seed: u64, epoch: u64) -> Arrangement {
        let key = Key::new(seed, epoch, Purpose::Order);
        match &self.method {
            Method::Replace(table) => {
                let table = Arc::clone(table);
                Arc::new(move |position| look_up(&table, key, position))
            }
            Method::Keep(weights) => {
                let order = smallest_keys(weights, key, self.draws);
                Arc::new(move |position| order[position])
            }
        }
    }

    fn name(&self) -> &'static str {
        match self.method {
            Method::Replace(_) => "weighted, with replacement",
            Method::Keep(_) => "weighted, without replacement",
        }
    }
}

/// The number of positive weights, if all weights can be used.
fn check(weights: &[f64]) -> Result<usize, WeightError> {
    if let Some(index) = weights.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
        return Err(WeightError::Invalid { index, weight: weights[index] });
    }
    match weights.iter().filter(|weight| **weight > 0.0).count() {
        0 => Err(WeightError::AllZero),
        positive => Ok(positive),
    }
}

/// Walker's alias method in Vose's form: fill each light column up from a heavy one.
fn alias_table(weights: &[f64]) -> Arc<[Column]> {
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let total: f64 = weights.iter().map(|weight| weight / largest).sum();
    let mut share: Vec<f64> =
        weights.iter().map(|weight| weight / largest / total * weights.len() as f64).collect();
    let mut table: Vec<Column> = (0..weights.len()).map(|other| Column { own: 1.0, other }).collect();
    let (mut light, mut heavy): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|index| share[*index] < 1.0);
    while let (Some(small), Some(big)) = (light.pop(), heavy.last().copied()) {
        table[small] = Column { own: share[small], other: big };
        share[big] -= 1.0 - share[small];
        if share[big] < 1.0 {
            heavy.pop();
            light.push(big);
        }
    }
    // What is left on either side holds its whole column, but for rounding; a weight of zero holds nothing.
    let heaviest =
        (0..weights.len()).fold(0, |best, index| if weights[index] > weights[best] { index } else { best });
    for index in light.into_iter().filter(|index| weights[*index] == 0.0) {
        table[index] = Column { own: 0.0, other: heaviest };
    }
    table.into()
}

fn look_up(table: &[Column], key: Key, position: usize) -> usize {
    let mut rng = key.rng(position as u64);
    let index = rng.below(table.len() as u64) as usize;
    if rng.uniform() < table[index].own { index } else { table[index].other }
}

/// The `draws` samples whose exponential keys come first, in the order of their keys.
fn smallest_keys(weights: &[f64], key: Key, draws: usize) -> Vec<usize> {
    let mut keyed: Vec<(f64, usize)> = weights
        .iter()
        .enumerate()
        .filter(|(_, weight)| **weight > 0.0)
        .map(|(index, weight)| (-(1.0 - key.rng(index as u64).uniform()).ln() / weight, index))
        .collect();
    keyed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    keyed.into_iter().take(draws).map(|(_, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(sampler: &Weighted, classes: usize, epochs: u64) -> Vec<usize> {
        let mut counts = vec![0; classes];
        for epoch in 0..epochs {
            let order = sampler.arrange(1, epoch);
            (0..sampler.len()).for_each(|position| counts[order(position)] += 1);
        }
        counts
    }

    #[test]
    fn draws_follow_the_weights() {
        let sampler = Weighted::with_replacement(&[1.0, 0.0, 3.0, 6.0], 100_000).unwrap();
        let counts = counts(&sampler, 4, 1);
        assert_eq!(counts[1], 0);
        for (count, expected) in counts.iter().zip([10_000, 0, 30_000, 60_000]) {
            assert!(count.abs_diff(expected) < 1000, "{counts:?}");
        }
    }

    #[test]
    fn without_replacement_every_sample_comes_at_most_once_and_heavy_ones_first() {
        let sampler = Weighted::without_replacement(&[1.0, 1.0, 1.0, 0.0, 17.0], 4).unwrap();
        let mut first = [0; 5];
        for epoch in 0..10_000 {
            let order = sampler.arrange(0, epoch);
            let mut drawn: Vec<usize> = (0..4).map(|position| order(position)).collect();
            first[drawn[0]] += 1;
            drawn.sort_unstable();
            assert_eq!(drawn, [0, 1, 2, 4]);
        }
        assert!(8300 < first[4] && first[4] < 8700, "{first:?}");
    }

    proptest! {
        #[test]
        fn a_weight_of_zero_is_never_drawn(mut weights in prop::collection::vec(0.0f64..1e300, 1..40), seed: u64) {
            weights.push(1.0);
            weights[0] = 0.0;
            let sampler = Weighted::with_replacement(&weights, 200).unwrap();
            let order = sampler.arrange(seed, 0);
            prop_assert!((0..200).all(|position| weights[order(position)] > 0.0));
        }
    }

    #[test]
    fn impossible_weights_are_refused() {
        assert!(matches!(
            Weighted::with_replacement(&[1.0, f64::NAN], 1),
            Err(WeightError::Invalid { index: 1, .. })
        ));
        assert_eq!(Weighted::with_replacement(&[0.0], 1).unwrap_err(), WeightError::AllZero);
        assert_eq!(Weighted::with_replacement(&[], 1).unwrap_err(), WeightError::AllZero);
        assert_eq!(
            Weighted::without_replacement(&[1.0, 0.0], 2).unwrap_err(),
            WeightError::TooMany { draws: 2, positive: 1 }
        );
    }
}
