//! *overhead*: rows of four bytes from memory. The samples cost nothing, so what is measured is the loader: once
//! writing tensors in place, once collecting plain values into a `Vec`.

use std::time::Duration;

use feedline::{BoxError, Dataset, Field, Layout, LayoutError, RowMut, Rows, SampleRng, Spec};

use crate::{
    Report, Row,
    engine::{Measured, Progress, delay::StudyError, measure},
    row::{median, spread},
};

/// The settings of the study.
#[derive(Clone, Debug)]
pub struct Overhead {
    /// Rows in an epoch.
    pub rows: usize,
    /// Rows in a batch.
    pub batch: usize,
    /// The numbers of workers; inline loading is always measured too.
    pub workers: Vec<usize>,
    /// How often everything is measured.
    pub repeats: usize,
}

impl Default for Overhead {
    fn default() -> Self {
        Self { rows: 4_000_000, batch: 64, workers: vec![1, 2], repeats: 5 }
    }
}

impl Overhead {
    /// Measures both forms, inline and with every number of workers, `repeats` times in turn.
    pub fn run(&self, progress: &mut Progress<'_>) -> Result<Report, StudyError> {
        let workers = || std::iter::once(0).chain(self.workers.iter().copied());
        let settings: Vec<(Form, usize)> = [Form::Tensors, Form::Values]
            .iter()
            .flat_map(|form| workers().map(move |n| (*form, n)))
            .collect();
        let mut measured: Vec<Vec<Measured>> = vec![Vec::new(); settings.len()];
        let total = (settings.len() * self.repeats) as f64;
        let mut done = 0.0;
        for _ in 0..self.repeats {
            for ((form, workers), measured) in settings.iter().zip(&mut measured) {
                progress(&format!("overhead, {workers} workers"), done / total);
                measured.push(self.one(*form, *workers)?);
                done += 1.0;
            }
        }
        progress("overhead", 1.0);
        let rows = settings.iter().zip(&measured).map(|(setting, measured)| self.row(*setting, measured));
        let settings =
            format!("{} rows of 4 bytes, batch {}, {} repeats", self.rows, self.batch, self.repeats);
        Ok(Report::new("overhead", settings, rows.collect()))
    }

    fn one(&self, form: Form, workers: usize) -> Result<Measured, StudyError> {
        fn epoch<B: Send + 'static>(
            spec: Spec<B>,
            of: &Overhead,
            workers: usize,
        ) -> Result<Measured, StudyError> {
            let mut loader = spec.batch_size(of.batch).workers(workers).epochs(1).build()?;
            Ok(measure(&mut loader, of.rows.div_ceil(of.batch), |_| {})?)
        }
        let data = Numbers((0..self.rows as u32).collect());
        match form {
            Form::Tensors => epoch(Spec::rows(data), self, workers),
            Form::Values => epoch(Spec::values(data).sample_bytes(4), self, workers),
        }
    }

    fn row(&self, (form, workers): (Form, usize), measured: &[Measured]) -> Row {
        let repeats: Vec<f64> =
            measured.iter().map(|measured| self.rows as f64 / measured.total.as_secs_f64()).collect();
        let first: Vec<f64> = measured.iter().map(|measured| measured.first_batch.as_secs_f64()).collect();
        let waits: Vec<f64> =
            measured.iter().flat_map(|measured| &measured.waits).map(Duration::as_secs_f64).collect();
        Row {
            loader: match form {
                Form::Tensors => "feedline, tensors".to_owned(),
                Form::Values => "feedline, values".to_owned(),
            },
            workers,
            items_per_second: median(&repeats),
            spread: spread(&repeats),
            first_batch: median(&first),
            ideal: None,
            repeats,
            extra: vec![("wait_p50_us".to_owned(), median(&waits) * 1e6)],
        }
    }
}

/// What a batch is.
#[derive(Clone, Copy)]
enum Form {
    Tensors,
    Values,
}

/// The dataset: numbers in memory.
struct Numbers(Vec<u32>);

impl Rows for Numbers {
    fn layout(&self) -> Result<Layout, LayoutError> {
        Layout::new([Field::fixed::<u32>("number", [])])
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn write(&self, index: usize, _rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        Ok(row.write(0, &[self.0[index]])?)
    }
}

impl Dataset for Numbers {
    type Sample = u32;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize, _rng: &mut SampleRng) -> Result<u32, BoxError> {
        Ok(self.0[index])
    }
}
