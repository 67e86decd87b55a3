//! The values that matter: cut off on both sides, and spread over 0 to 1, or over their deviation.

use super::number::Number;
use crate::Refused;

/// What becomes of the values between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From 0 to 1.
    Unit,
    /// Less their mean, by their standard deviation; 0 if all are the same.
    Deviation,
}

/// A range of values, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    low: f32,
    high: f32,
    scale: Scale,
}

impl Window {
    /// From `low` to `high`, which are numbers and not the same.
    pub fn new(low: f32, high: f32, scale: Scale) -> Result<Self, Refused> {
        let spread = high - low;
        if spread > 0.0 && spread.is_finite() {
            return Ok(Self { low, high, scale });
        }
        Err(Refused(format!("window from {low} to {high}: the second should be above the first")))
    }

    /// Writes what becomes of each value.
    ///
    /// # Panics
    /// If there are not as many numbers for the result as values.
    pub fn write<T: Number>(&self, values: &[T], out: &mut [f32]) {
        assert_eq!(out.len(), values.len(), "a result has as many voxels");
        let (low, high, spread) = (self.low, self.high, self.high - self.low);
        let cut = out.iter_mut().zip(values).map(|(out, value)| (out, value.narrow().clamp(low, high)));
        match self.scale {
            Scale::Unit => cut.for_each(|(out, value)| *out = (value - low) / spread),
            Scale::Deviation => {
                cut.for_each(|(out, value)| *out = value);
                standardise(out);
            }
        }
    }
}

fn standardise(values: &mut [f32]) {
    let count = values.len() as f64;
    let mean = sum(values, f64::from) / count;
    let deviation = (sum(values, |value| (f64::from(value) - mean).powi(2)) / count).sqrt();
    // Where all are the same they are all the mean, and anything may divide 0.
    let divisor = if deviation > 0.0 { deviation } else { 1.0 };
    for value in values {
        *value = ((f64::from(*value) - mean) / divisor) as f32;
    }
}

/// Some sums side by side, so that one need not wait for the other.
fn sum(values: &[f32], of: impl Fn(f32) -> f64) -> f64 {
    let (chunks, rest) = values.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += of(*value));
    }
    sums.into_iter().chain(rest.iter().map(|value| of(*value))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_and_spread() {
        let mut out = [0.0; 5];
        Window::new(-100.0, 300.0, Scale::Unit).unwrap().write(&[-2000i16, -100, 0, 100, 3000], &mut out);
        assert_eq!(out, [0.0, 0.0, 0.25, 0.5, 1.0]);
    }

    #[test]
    fn deviations_have_a_mean_of_nothing() {
        let values: Vec<f32> = (0..19).map(|value| value as f32).collect();
        let mut out = [0.0; 19];
        Window::new(2.0, 16.0, Scale::Deviation).unwrap().write(&values, &mut out);
        assert!(out.iter().sum::<f32>().abs() < 1e-5 && out[0] == out[2] && out[0] < out[3]);
        assert!((out.iter().map(|value| value * value).sum::<f32>() - 19.0).abs() < 1e-4);
        Window::new(100.0, 200.0, Scale::Deviation).unwrap().write(&values, &mut out);
        assert_eq!(out, [0.0; 19]);
    }

    #[test]
    fn a_window_is_open() {
        for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f32::NAN, 1.0), (f32::NEG_INFINITY, 1.0)] {
            assert!(Window::new(low, high, Scale::Unit).is_err());
        }
    }
}
