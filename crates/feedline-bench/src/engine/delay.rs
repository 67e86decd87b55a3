//! *delay*: every sample waits as for a disk or a network, then makes a random image and a label.
//!
//! The ideal is the number of workers times the rate of loading inline. What a loader loses against it, it
//! loses by starting late, by giving whole batches to one worker, or by its own work. What it loses on the first
//! batch can also be the machine's: so beside it stands what plain threads need, started and waiting, that share
//! the samples of one batch and nothing else.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use feedline::{BoxError, Error, Field, Layout, LayoutError, RowMut, Rows, SampleRng, Spec};

use crate::{
    Report, Row,
    engine::{Measured, Progress, measure},
    row::{median, spread},
};

/// The settings of the study.
#[derive(Clone, Debug)]
pub struct Delay {
    /// How long every sample waits.
    pub wait: Duration,
    /// The shape of the image.
    pub shape: Vec<usize>,
    /// Samples in a batch.
    pub batch: usize,
    /// Batches in an epoch.
    pub batches: usize,
    /// The numbers of workers; inline loading is always measured too.
    pub workers: Vec<usize>,
    /// How often everything is measured.
    pub repeats: usize,
}

impl Default for Delay {
    fn default() -> Self {
        Self {
            wait: Duration::from_millis(10),
            shape: vec![3, 224, 224],
            batch: 64,
            batches: 50,
            workers: vec![1, 2, 4, 8, 32, 64],
            repeats: 1,
        }
    }
}

/// Why the study stopped.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A loader could not be built.
    #[error(transparent)]
    Spec(#[from] feedline::SpecError),
    /// A batch could not be loaded.
    #[error(transparent)]
    Load(#[from] Error),
    /// A file could not be read.
    #[error(transparent)]
    File(#[from] std::io::Error),
}

impl Delay {
    /// Measures inline loading and every number of workers, `repeats` times in turn.
    pub fn run(&self, progress: &mut Progress<'_>) -> Result<Report, StudyError> {
        let settings: Vec<usize> = std::iter::once(0).chain(self.workers.iter().copied()).collect();
        let mut measured: Vec<Vec<Measured>> = vec![Vec::new(); settings.len()];
        // The time each takes is known beforehand: what has been done of it is the progress.
        let cost = |workers: usize| 1.0 / workers.max(1) as f64;
        let total = settings.iter().map(|workers| cost(*workers)).sum::<f64>() * self.repeats as f64;
        let mut done = 0.0;
        for _ in 0..self.repeats {
            for (workers, measured) in settings.iter().zip(&mut measured) {
                let name = format!("delay, {workers} workers");
                measured.push(
                    self.one(*workers, |share| progress(&name, (done + share * cost(*workers)) / total))?,
                );
                done += cost(*workers);
            }
        }
        let serial = self.rates(&measured[0]);
        let rows = settings
            .iter()
            .zip(&measured)
            .map(|(workers, measured)| self.row(*workers, measured, median(&serial)));
        let settings = format!(
            "{} ms wait, {:?} f32, batch {} × {}, {} repeats",
            self.wait.as_secs_f64() * 1e3,
            self.shape,
            self.batch,
            self.batches,
            self.repeats
        );
        Ok(Report::new("delay", settings, rows.collect()))
    }

    /// Measures one number of workers once.
    pub fn one(&self, workers: usize, every: impl FnMut(f64)) -> Result<Measured, StudyError> {
        let data = Waiting { wait: self.wait, shape: self.shape.clone(), len: self.batch * self.batches };
        let mut loader = Spec::rows(data).batch_size(self.batch).workers(workers).epochs(1).build()?;
        Ok(measure(&mut loader, self.batches, every)?)
    }

    /// Seconds that plain threads take for the samples of one batch, in memory as new as that of a first batch:
    /// zeroed memory is not touched before it is written.
    fn bare(&self, workers: usize) -> f64 {
        let (start, pixels) = (Barrier::new(workers + 1), self.shape.iter().product());
        let mut memory: Vec<Vec<Vec<f32>>> = (0..workers)
            .map(|worker| (worker..self.batch).step_by(workers).map(|_| vec![0.0; pixels]).collect())
            .collect();
        thread::scope(|scope| {
            for samples in &mut memory {
                scope.spawn(|| {
                    start.wait();
                    for sample in samples {
                        thread::sleep(self.wait);
                        noise(sample, 1);
                    }
                });
            }
            start.wait();
            Instant::now()
        })
        .elapsed()
        .as_secs_f64()
    }

    fn rates(&self, measured: &[Measured]) -> Vec<f64> {
        let items = (self.batch * self.batches) as f64;
        measured.iter().map(|measured| items / measured.total.as_secs_f64()).collect()
    }

    fn row(&self, workers: usize, measured: &[Measured], serial: f64) -> Row {
        let repeats = self.rates(measured);
        let first: Vec<f64> = measured.iter().map(|measured| measured.first_batch.as_secs_f64()).collect();
        let ideal_first = self.batch.div_ceil(workers.max(1)) as f64 / serial;
        let bare: Vec<f64> = measured.iter().map(|_| self.bare(workers.max(1))).collect();
        Row {
            loader: "feedline".to_owned(),
            workers,
            items_per_second: median(&repeats),
            spread: spread(&repeats),
            first_batch: median(&first),
            ideal: Some(serial * workers.max(1) as f64),
            repeats,
            extra: vec![
                ("first_batch_of_ideal".to_owned(), median(&first) / ideal_first),
                ("bare_threads_of_ideal".to_owned(), median(&bare) / ideal_first),
            ],
        }
    }
}

/// The dataset: waits, then makes noise.
struct Waiting {
    wait: Duration,
    shape: Vec<usize>,
    len: usize,
}

impl Rows for Waiting {
    fn layout(&self) -> Result<Layout, LayoutError> {
        let fields = [Field::fixed::<f32>("image", self.shape.clone()), Field::fixed::<i64>("label", [])];
        Layout::new(fields)
    }

    fn len(&self) -> usize {
        self.len
    }

    fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        thread::sleep(self.wait);
        noise(row.slice_mut::<f32>("image")?, rng.below(u64::MAX));
        row.write("label", &[(index % 10) as i64])?;
        Ok(())
    }
}

/// Fills with numbers in `[0, 1)`, as fast as memory takes them: sixteen generators side by side.
fn noise(pixels: &mut [f32], seed: u64) {
    let mut lanes: [u32; 16] =
        std::array::from_fn(|lane| ((seed >> lane) as u32 ^ (lane as u32 + 1).wrapping_mul(0x9e37_79b9)) | 1);
    for chunk in pixels.chunks_mut(16) {
        for lane in &mut lanes {
            *lane ^= *lane << 13;
            *lane ^= *lane >> 17;
            *lane ^= *lane << 5;
        }
        for (pixel, lane) in chunk.iter_mut().zip(&lanes) {
            *pixel = f32::from_bits(0x3f80_0000 | (lane >> 9)) - 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_study_measures_every_setting() {
        let study = Delay {
            wait: Duration::from_micros(10),
            shape: vec![2],
            batch: 4,
            batches: 3,
            workers: vec![1, 2],
            repeats: 2,
        };
        let mut last = 0.0;
        let report = study.run(&mut |_, share| last = share).unwrap();
        assert_eq!(
            report.rows.iter().map(|row| (row.workers, row.repeats.len())).collect::<Vec<_>>(),
            [(0, 2), (1, 2), (2, 2)]
        );
        assert!((last - 1.0).abs() < 1e-9, "progress ended at {last}");
    }

    #[test]
    fn noise_is_between_zero_and_one_and_not_constant() {
        let mut pixels = [9.0; 1000];
        noise(&mut pixels, 12345);
        assert!(pixels.iter().all(|pixel| (0.0..1.0).contains(pixel)));
        let mean = pixels.iter().sum::<f32>() / 1000.0;
        assert!((0.4..0.6).contains(&mean), "mean {mean}");
    }
}
