//! Random numbers addressed by what they are for, never by who draws them.
//!
//! Order, replacement and augmentation are pure functions of (seed, epoch, number), so the result does not
//! depend on how many workers there are or which of them runs a sample. A [`Key`] names one such stream; it
//! is stateless, so any position can be drawn first. [`SampleRng`] is the generator a dataset is handed.
//!
//! The algorithms are fixed here, bounded integers and the shuffle included, and held by golden values in
//! the tests: a checkpoint must mean the same order after an upgrade.

use rand_core::{Rng as _, TryRng};
use rand_pcg::Pcg64Mcg;

/// What a [`Key`] is used for; two purposes never share a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The order of an epoch.
    Order = 1,
    /// The random numbers a sample sees.
    Sample = 2,
    /// Which sample stands in for one that failed.
    Replacement = 3,
}

/// One stateless stream of random numbers: the numbers of (seed, epoch, purpose).
#[derive(Clone, Copy, Debug)]
pub struct Key {
    low: u64,
    high: u64,
}

impl Key {
    /// The stream of this seed, epoch and purpose.
    pub fn new(seed: u64, epoch: u64, purpose: Purpose) -> Self {
        let low = mix(seed ^ mix(epoch.wrapping_add(GOLDEN.wrapping_mul(purpose as u64))));
        Self { low, high: mix(low.wrapping_add(GOLDEN) ^ seed.rotate_left(32)) }
    }

    /// The `n`-th number of the stream.
    pub fn draw(self, n: u64) -> u64 {
        mix(mix(n.wrapping_mul(GOLDEN) ^ self.low).wrapping_add(self.high))
    }

    /// The `n`-th number of the stream, uniform below `bound` (which must not be 0).
    pub fn below(self, n: u64, bound: u64) -> u64 {
        self.rng(n).below(bound)
    }

    /// A generator that starts at the `n`-th number of the stream and shares nothing with its neighbours'.
    #[inline]
    pub fn rng(self, n: u64) -> SampleRng {
        SampleRng { key: self, n, started: None }
    }
}

/// The generator handed to a dataset for one sample of one epoch.
///
/// It is a [`rand_core::Rng`], so everything built on that trait takes it; the few methods here are the ones
/// loaders need, and their values never change between versions.
///
/// ```
/// use feedline_core::{Key, Purpose};
/// let mut rng = Key::new(7, 0, Purpose::Sample).rng(42);
/// assert!(rng.below(10) < 10);
/// assert!((0.0..1.0).contains(&rng.uniform()));
/// ```
#[derive(Clone, Debug)]
pub struct SampleRng {
    key: Key,
    n: u64,
    /// Made when the first number is drawn: most samples draw none, and tiny ones would pay for it.
    started: Option<Pcg64Mcg>,
}

impl SampleRng {
    fn generator(&mut self) -> &mut Pcg64Mcg {
        let Self { key, n, started } = self;
        started.get_or_insert_with(|| {
            let low = mix(n.wrapping_mul(GOLDEN) ^ key.low);
            let high = mix(low.wrapping_add(key.high));
            Pcg64Mcg::new((u128::from(high) << 64) | u128::from(low))
        })
    }

    /// A number uniform below `bound` (which must not be 0), without bias.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        // Multiply and take the high word; the low word says when a value would be over-represented, which
        // is so rare that the division is hardly ever needed.
        let mut wide = u128::from(self.next_u64()) * u128::from(bound);
        if (wide as u64) < bound {
            let surplus = bound.wrapping_neg() % bound;
            while (wide as u64) < surplus {
                wide = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (wide >> 64) as u64
    }

    /// A number uniform in `[0, 1)` with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// `true` with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// Puts `items` into a uniformly random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

impl TryRng for SampleRng {
    type Error = rand_core::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.generator().try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.generator().try_next_u64()
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Self::Error> {
        self.generator().try_fill_bytes(dst)
    }
}

/// 2^64 divided by the golden ratio: an odd constant whose multiples are spread evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64-bit numbers in which every input bit reaches every output bit (the splitmix64 finaliser).
const fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_values_never_change() {
        let key = Key::new(1, 2, Purpose::Order);
        assert_eq!([key.draw(0), key.draw(1)], GOLDEN_DRAWS);
        let mut rng = key.rng(3);
        assert_eq!([rng.below(1000), rng.below(1000), rng.below(1000)], GOLDEN_BELOW);
        let mut items = [0, 1, 2, 3, 4, 5, 6, 7];
        rng.shuffle(&mut items);
        assert_eq!(items, GOLDEN_SHUFFLE);
    }
    const GOLDEN_DRAWS: [u64; 2] = [0xc430_1721_2ab7_ac95, 0x1c98_65bf_011f_241a];
    const GOLDEN_BELOW: [u64; 3] = [200, 910, 729];
    const GOLDEN_SHUFFLE: [u8; 8] = [1, 5, 3, 2, 4, 0, 7, 6];

    #[test]
    fn streams_of_different_purpose_epoch_seed_and_number_differ() {
        let base = Key::new(1, 1, Purpose::Order).draw(0);
        assert_ne!(base, Key::new(1, 1, Purpose::Sample).draw(0));
        assert_ne!(base, Key::new(1, 2, Purpose::Order).draw(0));
        assert_ne!(base, Key::new(2, 1, Purpose::Order).draw(0));
        assert_ne!(base, Key::new(1, 1, Purpose::Order).draw(1));
    }

    #[test]
    fn numbers_below_a_bound_are_uniform() {
        let key = Key::new(5, 0, Purpose::Order);
        let mut counts = [0u32; 7];
        for n in 0..70_000 {
            counts[key.below(n, 7) as usize] += 1;
        }
        // Standard deviation of each count is about 93: six of them is one chance in a billion.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 560), "{counts:?}");
    }
}
