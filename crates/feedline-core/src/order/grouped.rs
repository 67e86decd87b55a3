//! Samples of a group near each other, for data where a group is expensive to load: slices of one volume,
//! crops of one large image, rows of one file.

use super::{Arrangement, Sampler};
use crate::{Key, Purpose, sync::Arc};

/// Groups in a random order, the samples of each group next to each other.
///
/// With [`Grouped::mixing`] `k` groups are visited together and their samples shuffled among each other: more
/// randomness for a cache of `k` groups.
///
/// ```
/// use feedline_core::{Grouped, Sampler};
/// // Five slices from each of three volumes.
/// let slices = Grouped::new((0..15).map(|slice| slice / 5));
/// let order = slices.arrange(1, 0);
/// let volumes: Vec<usize> = (0..15).map(|position| order(position) / 5).collect();
/// assert!(volumes.chunks(5).all(|chunk| chunk.iter().all(|volume| *volume == chunk[0])));
/// ```
#[derive(Clone, Debug)]
pub struct Grouped {
    /// The samples of each group, in the order of the dataset.
    groups: Arc<[Vec<usize>]>,
    len: usize,
    mixed: usize,
    shuffled: bool,
}

impl Grouped {
    /// `group_of` names the group of every sample of the dataset, in the order of the dataset. The samples of
    /// one group need not be neighbours in it.
    pub fn new<G: Ord>(group_of: impl IntoIterator<Item = G>) -> Self {
        let mut groups = std::collections::BTreeMap::<G, Vec<usize>>::new();
        for (index, group) in group_of.into_iter().enumerate() {
            groups.entry(group).or_default().push(index);
        }
        let groups: Arc<[Vec<usize>]> = groups.into_values().collect::<Vec<_>>().into();
        Self { len: groups.iter().map(Vec::len).sum(), groups, mixed: 1, shuffled: true }
    }

    /// Visits `groups` groups at a time and shuffles their samples among each other.
    #[must_use]
    pub fn mixing(self, groups: usize) -> Self {
        Self { mixed: groups.max(1), ..self }
    }

    /// Keeps groups, and samples within their group, in the order of the dataset.
    #[must_use]
    pub fn unshuffled(self) -> Self {
        Self { shuffled: false, ..self }
    }
}

impl Sampler for Grouped {
    fn len(&self) -> usize {
        self.len
    }

    fn arrange(&self, seed: u64, epoch: u64) -> Arrangement {
        let mut rng = Key::new(seed, epoch, Purpose::Order).rng(0);
        let mut groups: Vec<&Vec<usize>> = self.groups.iter().collect();
        if self.shuffled {
            rng.shuffle(&mut groups);
        }
        let mut order = Vec::with_capacity(self.len);
        for together in groups.chunks(self.mixed) {
            let start = order.len();
            for group in together {
                order.extend_from_slice(group);
            }
            if self.shuffled {
                rng.shuffle(&mut order[start..]);
            }
        }
        Arc::new(move |position| order[position])
    }

    fn name(&self) -> &'static str {
        if self.shuffled { "grouped" } else { "grouped, unshuffled" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How often the group changes from one position to the next.
    fn changes(sampler: &Grouped, group_of: impl Fn(usize) -> usize) -> usize {
        let order = sampler.arrange(4, 2);
        (1..sampler.len()).filter(|at| group_of(order(*at)) != group_of(order(at - 1))).count()
    }

    #[test]
    fn each_group_is_visited_once() {
        // Samples of a group are far apart in the dataset: 0, 10, 20, …
        let sampler = Grouped::new((0..100).map(|index| index % 10));
        assert_eq!(changes(&sampler, |index| index % 10), 9);
        assert!(changes(&sampler.clone().mixing(2), |index| index % 10) > 20);
        let order = sampler.unshuffled().arrange(0, 0);
        assert_eq!((0..3).map(|position| order(position)).collect::<Vec<_>>(), [0, 10, 20]);
    }

    #[test]
    fn mixing_needs_no_more_groups_at_once_than_asked() {
        let sampler = Grouped::new((0..60).map(|index| index / 5)).mixing(3);
        let order = sampler.arrange(7, 7);
        for block in 0..4 {
            let groups: std::collections::HashSet<usize> =
                (block * 15..block * 15 + 15).map(|position| order(position) / 5).collect();
            assert_eq!(groups.len(), 3);
        }
    }

    proptest! {
        #[test]
        fn every_sample_is_visited_once(groups in prop::collection::vec(0u8..9, 1..200), mixed in 0usize..5, seed: u64) {
            let sampler = Grouped::new(groups.iter()).mixing(mixed);
            let order = sampler.arrange(seed, 0);
            let mut visited: Vec<usize> = (0..sampler.len()).map(|position| order(position)).collect();
            visited.sort_unstable();
            prop_assert_eq!(visited, (0..groups.len()).collect::<Vec<_>>());
        }
    }
}
