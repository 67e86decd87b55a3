//! How far a repetition of a run may be from it.
//!
//! Two or three repeats say little about their own scatter: now and then they agree by chance, and a spread of 0.3 % would
//! be shown around a figure that is 5 % off an hour later. But all points of a run are measured on the same machine in turns.
//! So a point's noise is estimated from its own repeats and from those of all points, as if the latter were some repeats
//! more; and a spread is so wide that the figure of another such run lies within it about nine times in ten.

use crate::median;

/// The noise of all points counts as much as so many repeats of one's own.
const OTHERS: f64 = 4.0;

/// So many deviations from a difference's mean of zero, nine times in ten, with the few repeats behind them.
const DEVIATIONS: f64 = 2.0;

/// The noise that is common to all points of a run: the variance of a repeat as a share of its point's mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Noise(Option<f64>);

impl Noise {
    /// Of the repeats of every point. The middle one of all, because a single restless point is no reason to distrust the
    /// others.
    pub(crate) fn of<'a>(points: impl Iterator<Item = &'a [f64]>) -> Self {
        let variances: Vec<f64> = points
            .filter(|repeats| repeats.len() > 1)
            .map(|repeats| {
                let free = repeats.len() as f64 - 1.0;
                // Half of such variances lie below this share of the true one (Wilson and Hilferty).
                let middle = (1.0 - 2.0 / (9.0 * free)).powi(3);
                squares(repeats) / free / middle
            })
            .collect();
        Self((!variances.is_empty()).then(|| median(&variances)))
    }

    /// The spread of a point's median as a share of it; none if nothing was measured twice.
    pub(crate) fn spread(self, repeats: &[f64]) -> Option<f64> {
        let count = repeats.len() as f64;
        let variance = (squares(repeats) + OTHERS * self.0?) / (count - 1.0 + OTHERS);
        // Both runs are off.
        Some(DEVIATIONS * (2.0 * variance / count).sqrt())
    }
}

/// The sum of squared distances from the mean, as shares of it.
fn squares(repeats: &[f64]) -> f64 {
    let mean = repeats.iter().sum::<f64>() / repeats.len() as f64;
    if mean > 0.0 { repeats.iter().map(|one| (one / mean - 1.0).powi(2)).sum() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between 0 and 1.
    fn numbers() -> impl FnMut() -> f64 {
        let mut state = 88_172_645_463_325_252_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    #[test]
    fn nine_of_ten_repetitions_of_a_run_lie_within_its_spread() {
        let mut number = numbers();
        let mut repeat = move || 1000.0 * (1.0 + 0.05 * ((0..12).map(|_| number()).sum::<f64>() - 6.0));
        for (points, repeats) in [(4, 2), (4, 3), (12, 2), (12, 3), (12, 5)] {
            let (mut within, mut all) = (0, 0);
            for _ in 0..500 {
                let mut run = || -> Vec<Vec<f64>> {
                    (0..points).map(|_| (0..repeats).map(|_| repeat()).collect()).collect()
                };
                let (first, second) = (run(), run());
                let noise = Noise::of(first.iter().map(Vec::as_slice));
                for (one, other) in first.iter().zip(&second) {
                    let spread = noise.spread(one).unwrap() * median(one);
                    within += usize::from((median(other) - median(one)).abs() <= spread);
                    all += 1;
                }
            }
            let share = f64::from(within as u32) / f64::from(all);
            assert!((0.85..0.98).contains(&share), "{points} points, {repeats} repeats: {share}");
        }
    }

    #[test]
    fn repeats_that_agree_by_chance_do_not_promise_more_than_the_run_can_keep() {
        let (lucky, usual) = ([700.0, 700.0], [950.0, 1050.0]);
        let noise = Noise::of([&lucky[..], &usual, &usual].into_iter());
        let (narrow, wide) = (noise.spread(&lucky).unwrap(), noise.spread(&usual).unwrap());
        assert!(0.05 < narrow && narrow < wide, "{narrow} {wide}");
    }

    #[test]
    fn what_was_measured_once_has_no_spread() {
        assert_eq!(Noise::of([&[1.0][..], &[2.0]].into_iter()).spread(&[1.0]), None);
        assert_eq!(Noise::of([&[1.0, 1.0][..]].into_iter()).spread(&[1.0, 1.0]), Some(0.0));
        assert_eq!(Noise::of([&[0.0, 0.0][..]].into_iter()).spread(&[0.0, 0.0]), Some(0.0));
    }
}
