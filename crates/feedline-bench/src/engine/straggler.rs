//! *straggler*: one sample in a few hundred takes hundreds of times as long.
//!
//! The ideal is all work divided by the workers. Beside the loader stands the usual way: a whole batch to one
//! worker, at most two batches per worker under way.

use std::{
    thread,
    time::{Duration, Instant},
};

use feedline::{BatchDataset, BoxError, Field, Layout, LayoutError, RowMut, Rows, SampleRng, Spec};

use crate::{
    Report, Row,
    engine::{Measured, Progress, delay::StudyError, measure},
    row::{median, spread},
};

/// The settings of the study.
#[derive(Clone, Debug)]
pub struct Straggler {
    /// How long an ordinary sample takes.
    pub item: Duration,
    /// One in so many samples is slow.
    pub every: usize,
    /// How many times as long a slow one takes.
    pub factor: u32,
    /// Samples in a batch.
    pub batch: usize,
    /// Samples in an epoch.
    pub samples: usize,
    /// Workers.
    pub workers: usize,
    /// How often everything is measured.
    pub repeats: usize,
}

impl Default for Straggler {
    fn default() -> Self {
        let item = Duration::from_millis(1);
        Self { item, every: 400, factor: 500, batch: 32, samples: 16_000, workers: 4, repeats: 1 }
    }
}

impl Straggler {
    /// Measures both ways, `repeats` times in turn.
    pub fn run(&self, progress: &mut Progress<'_>) -> Result<Report, StudyError> {
        let (mut rows, mut whole) = (Vec::new(), Vec::new());
        for repeat in 0..self.repeats {
            let mut at = |name: &str, half: f64, share: f64| {
                progress(
                    &format!("straggler, {name}"),
                    (repeat as f64 + f64::midpoint(half, share)) / self.repeats as f64,
                );
            };
            rows.push(self.rows(|share| at("rows", 0.0, share))?);
            whole.push(self.whole(|share| at("whole batches", 1.0, share))?);
        }
        let ideal = self.ideal();
        let settings = format!(
            "{} ms, every {}th {} × as long, batch {}, {} samples, {} workers, order kept, {} repeats",
            self.item.as_secs_f64() * 1e3,
            self.every,
            self.factor,
            self.batch,
            self.samples,
            self.workers,
            self.repeats
        );
        let rows = vec![
            self.row("feedline", &rows, ideal),
            self.row("whole batches, two per worker", &whole, ideal),
        ];
        Ok(Report::new("straggler", settings, rows))
    }

    /// Samples a second if all work were divided evenly, with the waits as long as they are in truth.
    fn ideal(&self) -> f64 {
        let start = Instant::now();
        (0..100).for_each(|_| thread::sleep(self.item));
        let item = start.elapsed().as_secs_f64() / 100.0;
        let slow = self.samples.div_ceil(self.every);
        let work = (self.samples - slow) as f64 * item
            + slow as f64 * self.item.as_secs_f64() * f64::from(self.factor);
        self.samples as f64 * self.workers as f64 / work
    }

    fn data(&self) -> Uneven {
        Uneven { item: self.item, every: self.every, factor: self.factor, len: self.samples }
    }

    fn rows(&self, every: impl FnMut(f64)) -> Result<Measured, StudyError> {
        let spec = Spec::rows(self.data()).batch_size(self.batch).workers(self.workers).epochs(1);
        Ok(measure(&mut spec.build()?, self.samples.div_ceil(self.batch), every)?)
    }

    fn whole(&self, every: impl FnMut(f64)) -> Result<Measured, StudyError> {
        let spec = Spec::batches(self.data())
            .batch_size(self.batch)
            .workers(self.workers)
            .prefetch(2 * self.workers)
            .epochs(1);
        Ok(measure(&mut spec.build()?, self.samples.div_ceil(self.batch), every)?)
    }

    fn row(&self, loader: &str, measured: &[Measured], ideal: f64) -> Row {
        let repeats: Vec<f64> =
            measured.iter().map(|measured| self.samples as f64 / measured.total.as_secs_f64()).collect();
        let first: Vec<f64> = measured.iter().map(|measured| measured.first_batch.as_secs_f64()).collect();
        Row {
            loader: loader.to_owned(),
            workers: self.workers,
            items_per_second: median(&repeats),
            spread: spread(&repeats),
            first_batch: median(&first),
            ideal: Some(ideal),
            repeats,
            extra: Vec::new(),
        }
    }
}

/// The dataset, both sample by sample and as whole batches.
struct Uneven {
    item: Duration,
    every: usize,
    factor: u32,
    len: usize,
}

impl Uneven {
    fn load(&self, index: usize) {
        thread::sleep(if index % self.every == self.every - 1 { self.item * self.factor } else { self.item });
    }
}

impl Rows for Uneven {
    fn layout(&self) -> Result<Layout, LayoutError> {
        Layout::new([Field::fixed::<u64>("index", [])])
    }

    fn len(&self) -> usize {
        self.len
    }

    fn write(&self, index: usize, _rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        self.load(index);
        Ok(row.write(0, &[index as u64])?)
    }
}

impl BatchDataset for Uneven {
    type Batch = Vec<u64>;

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, indices: &[usize], _rng: &mut SampleRng) -> Result<Vec<u64>, BoxError> {
        for index in indices {
            self.load(*index);
        }
        Ok(indices.iter().map(|index| *index as u64).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_study_measures_both_ways() {
        let study = Straggler {
            item: Duration::from_micros(1),
            every: 8,
            factor: 2,
            batch: 4,
            samples: 32,
            workers: 2,
            repeats: 1,
        };
        let report = study.run(&mut |_, _| {}).unwrap();
        assert_eq!(report.rows.len(), 2);
        assert!(report.rows.iter().all(|row| row.items_per_second > 0.0));
    }
}
