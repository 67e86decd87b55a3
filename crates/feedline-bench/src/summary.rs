//! The figures of a run that tables, plots and advice speak of: medians over the repeats, with their spread.

use crate::{
    median,
    noise::Noise,
    record::{Measured, Record},
    request::{Measurement, Point},
    run::REFERENCE,
};

/// A share of the processors that others may use without a word about it.
pub const FOREIGN: f64 = 0.10;

/// One point in figures.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The settings.
    pub point: Point,
    /// How often it was measured.
    pub repeats: usize,
    /// Samples per second, start-up included.
    pub items_per_second: f64,
    /// How far the figure of another such run may be, nine times in ten, as a share; none if nothing was repeated.
    pub spread: Option<f64>,
    /// Megabytes per second of finished batches.
    pub mb_per_second: f64,
    /// Seconds from end to end.
    pub total: f64,
    /// Seconds to the first batch.
    pub first: f64,
    /// Milliseconds that later batches were waited for: the median and the longest but one in a hundred.
    pub wait: f64,
    /// The latter.
    pub wait_p99: f64,
    /// The share of the time that the consumer waited.
    pub idle: f64,
    /// Processors in use on average.
    pub processors: f64,
    /// The most memory, in MB.
    pub memory: f64,
    /// The largest share of the processors that others used in a measurement.
    pub foreign: f64,
    /// Against the reference at the same settings, repeat by repeat.
    pub against: Option<f64>,
}

impl Figures {
    fn of(measured: &Measured, reference: Option<&Measured>, noise: Noise) -> Option<Self> {
        let repeats = &measured.repeats;
        let first = repeats.first()?;
        let all =
            |figure: &dyn Fn(&Measurement) -> f64| median(&repeats.iter().map(figure).collect::<Vec<_>>());
        let rates = rates(measured);
        let seconds = |one: &Measurement| one.epochs.iter().map(|epoch| epoch.total_s).sum::<f64>();
        let waits: Vec<f64> = repeats.iter().flat_map(Measurement::later_waits).collect();
        let against = reference.filter(|_| measured.point.contestant != REFERENCE).and_then(|reference| {
            let pairs = reference.repeats.iter().zip(repeats);
            let ratios: Vec<f64> =
                pairs.map(|(torch, own)| own.items_per_second() / torch.items_per_second()).collect();
            (!ratios.is_empty()).then(|| median(&ratios))
        });
        Some(Self {
            point: measured.point.clone(),
            repeats: repeats.len(),
            items_per_second: median(&rates),
            spread: noise.spread(&rates),
            mb_per_second: first.epochs.iter().map(|epoch| epoch.bytes as f64).sum::<f64>()
                / 1e6
                / all(&seconds),
            total: all(&seconds),
            first: all(&Measurement::first_batch),
            wait: median(&waits),
            wait_p99: quantile(&waits, 0.99),
            idle: all(&Measurement::idle),
            processors: all(&|one| one.used.cpu_s / one.seconds.max(1e-9)),
            memory: all(&|one| one.memory.peak_mb),
            foreign: repeats.iter().map(|one| one.foreign).fold(0.0, f64::max),
            against,
        })
    }
}

/// The value that so large a share of the values does not exceed. 0 for none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or(0.0)
}

/// All points that have figures, in the order of the grid.
pub fn figures(record: &Record) -> Vec<Figures> {
    let reference = |point: &Point| {
        record.points.iter().find(|other| other.point == point.of(REFERENCE) && !other.repeats.is_empty())
    };
    let all: Vec<Vec<f64>> = record.points.iter().map(rates).collect();
    let noise = Noise::of(all.iter().map(Vec::as_slice));
    let of = |measured: &Measured| Figures::of(measured, reference(&measured.point), noise);
    record.points.iter().filter_map(of).collect()
}

fn rates(measured: &Measured) -> Vec<f64> {
    measured.repeats.iter().map(Measurement::items_per_second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_values() {
        assert_eq!(quantile(&[], 0.99), 0.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.99), 3.0);
        assert_eq!(quantile(&(1..=200).map(f64::from).collect::<Vec<_>>(), 0.99), 198.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
    }
}
