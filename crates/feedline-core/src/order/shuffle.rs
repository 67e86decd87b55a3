//! Every sample once, in a new random order each epoch.
//!
//! Up to a million samples the order is a shuffled list, uniform over all orders. Above that it is a
//! bijection computed position by position, so that a set of a hundred billion samples needs no memory and no
//! time at the start of an epoch.

use super::{Arrangement, Sampler};
use crate::{Key, Purpose, sync::Arc};

/// The longest order that is kept as a list.
const LIST: usize = 1 << 20;

/// Every sample once, in a random order that is new each epoch.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle(
    /// The number of samples.
    pub usize,
);

impl Sampler for Shuffle {
    fn len(&self) -> usize {
        self.0
    }

    fn arrange(&self, seed: u64, epoch: u64) -> Arrangement {
        let key = Key::new(seed, epoch, Purpose::Order);
        if self.0 > LIST {
            let bijection = Bijection::new(key, self.0 as u64);
            return Arc::new(move |position| bijection.at(position as u64) as usize);
        }
        let mut list: Vec<u32> = (0..self.0 as u32).collect();
        key.rng(0).shuffle(&mut list);
        Arc::new(move |position| list[position] as usize)
    }

    fn name(&self) -> &'static str {
        "shuffle"
    }
}

/// A pseudo-random permutation of `0..len` without a list: a Feistel network on the smallest power of two
/// that holds `len`, walked again while it lands outside (fewer than two steps on average).
#[derive(Clone, Copy, Debug)]
struct Bijection {
    key: Key,
    len: u64,
    /// Bits of the left and of the right half.
    left: u32,
    right: u32,
}

impl Bijection {
    fn new(key: Key, len: u64) -> Self {
        let bits = len.next_power_of_two().trailing_zeros().max(2);
        Self { key, len, left: bits / 2, right: bits - bits / 2 }
    }

    fn at(&self, position: u64) -> u64 {
        let mut number = position;
        loop {
            number = self.scramble(number);
            if number < self.len {
                return number;
            }
        }
    }

    /// Each round adds a hash of one half to the other, which can always be undone: hence a bijection.
    fn scramble(&self, number: u64) -> u64 {
        let (mut high, mut low) = (number >> self.right, number & mask(self.right));
        for round in 0..4u64 {
            high ^= self.hash(2 * round, low) & mask(self.left);
            low ^= self.hash(2 * round + 1, high) & mask(self.right);
        }
        (high << self.right) | low
    }

    fn hash(&self, round: u64, half: u64) -> u64 {
        self.key.draw((round << 56) | half)
    }
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bijection(seed: u64, len: u64) -> Vec<u64> {
        let bijection = Bijection::new(Key::new(seed, 0, Purpose::Order), len);
        (0..len).map(|position| bijection.at(position)).collect()
    }

    proptest! {
        #[test]
        fn bijection_hits_every_number_once(seed: u64, len in 1u64..5000) {
            let mut hit = bijection(seed, len);
            hit.sort_unstable();
            prop_assert_eq!(hit, (0..len).collect::<Vec<_>>());
        }

        #[test]
        fn shuffle_visits_every_sample_once(seed: u64, epoch: u64, len in 1usize..2000) {
            let order = Shuffle(len).arrange(seed, epoch);
            let mut visited: Vec<usize> = (0..len).map(|position| order(position)).collect();
            visited.sort_unstable();
            prop_assert_eq!(visited, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_set_too_large_for_memory_is_shuffled_at_once() {
        let len = 1 << 50;
        let order = Shuffle(len).arrange(1, 1);
        let drawn: std::collections::HashSet<usize> = (0..10_000).map(|position| order(position)).collect();
        assert_eq!(drawn.len(), 10_000);
        assert!(drawn.iter().all(|index| *index < len));
    }

    #[test]
    fn bijection_looks_random() {
        // The distance between neighbours of a random order averages a third of the length.
        let (len, order) = (100_000u64, bijection(3, 100_000));
        let mean = order.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum::<u64>() / (len - 1);
        assert!(mean.abs_diff(len / 3) < len / 100, "mean distance {mean}");
        // And about one number in `len` stays where it was.
        let fixed = order.iter().enumerate().filter(|(at, number)| *at as u64 == **number).count();
        assert!(fixed < 10, "{fixed} fixed points");
    }

    #[test]
    fn every_order_of_three_is_equally_likely() {
        let mut counts = std::collections::HashMap::new();
        for epoch in 0..6000 {
            let order = Shuffle(3).arrange(0, epoch);
            *counts.entry([order(0), order(1), order(2)]).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| count.abs_diff(1000) < 180), "{counts:?}");
    }

    #[test]
    fn golden_order_never_changes() {
        let order = Shuffle(8).arrange(1, 1);
        assert_eq!((0..8).map(|position| order(position)).collect::<Vec<_>>(), [5, 6, 7, 4, 1, 3, 2, 0]);
        assert_eq!(bijection(1, 8), [3, 7, 4, 1, 2, 6, 5, 0]);
    }
}
