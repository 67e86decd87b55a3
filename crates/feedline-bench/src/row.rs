//! A measured line of a study, and the report that holds them.

use serde::Serialize;

use crate::Environment;

/// One setting of one loader, measured.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which loader, or which way of loading.
    pub loader: String,
    /// Its workers; 0 is inline.
    pub workers: usize,
    /// Median over the repeats.
    pub items_per_second: f64,
    /// Half the distance between the slowest and the fastest repeat, as a share of the median.
    pub spread: f64,
    /// Median seconds to the first batch.
    pub first_batch: f64,
    /// What an ideal loader would reach, as the study defines it.
    pub ideal: Option<f64>,
    /// All repeats, items per second.
    pub repeats: Vec<f64>,
    /// Further numbers of the study.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<(String, f64)>,
}

impl Row {
    /// The share of the ideal that was reached.
    pub fn of_ideal(&self) -> Option<f64> {
        self.ideal.map(|ideal| self.items_per_second / ideal)
    }
}

/// A finished study.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of this form.
    pub version: u32,
    /// The study.
    pub study: String,
    /// Its settings, in words.
    pub settings: String,
    /// Where it ran.
    pub environment: Environment,
    /// What was measured.
    pub rows: Vec<Row>,
}

impl Report {
    /// A report of this study.
    pub fn new(study: &str, settings: String, rows: Vec<Row>) -> Self {
        Self { version: 1, study: study.to_owned(), settings, environment: Environment::read(), rows }
    }
}

/// The middle value; the mean of the two middle ones if their number is even. 0 for none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// Half the range of the values as a share of their median.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let (low, high) =
        values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    if values.len() < 2 { 0.0 } else { (high - low) / 2.0 / median(values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_spread_of_few_values() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 3.0, 10.0]), 2.5);
        assert_eq!(spread(&[8.0, 10.0, 12.0]), 0.2);
        assert_eq!(spread(&[8.0]), 0.0);
    }
}
