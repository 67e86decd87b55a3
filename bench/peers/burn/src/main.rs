//! How many rows per second burn's data loader moves when the rows cost nothing: the rival's side of
//! `feedline bench overhead`.
//!
//! The dataset is a `Vec<u32>` in memory and the batcher returns the items it was given, so all the time
//! measured is the loader's own. One loader lives through all repeats: its threads are started once, as in a
//! training run of several epochs. Prints one JSON line for each number of workers.

use std::hint::black_box;
use std::time::Instant;

use burn_core::data::dataloader::batcher::Batcher;
use burn_core::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn_core::data::dataset::InMemDataset;
use burn_core::tensor::Device;

const ROWS: u32 = 4_000_000;
const BATCH: usize = 64;
const WORKERS: [usize; 2] = [1, 2];
const REPEATS: usize = 5;

/// The cheapest batcher there can be: burn has already collected the items, so the batch is that vector.
struct Collect;

impl Batcher<u32, Vec<u32>> for Collect {
    fn batch(&self, items: Vec<u32>, _device: &Device) -> Vec<u32> {
        items
    }
}

fn main() {
    for workers in WORKERS {
        let loader = DataLoaderBuilder::new(Collect)
            .batch_size(BATCH)
            .num_workers(workers)
            .build(InMemDataset::new((0..ROWS).collect()));
        let seconds = [(); REPEATS].map(|()| epoch(loader.as_ref()));
        report(workers, &seconds);
    }
}

/// Reads one epoch and returns its seconds. A loader that drops rows is refused, not measured.
fn epoch(loader: &dyn DataLoader<Vec<u32>>) -> f64 {
    let start = Instant::now();
    let mut rows = 0;
    for batch in loader.iter() {
        rows += black_box(batch.expect("rows in memory cannot fail to load")).len();
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(rows, ROWS as usize, "rows delivered in one epoch");
    seconds
}

fn report(workers: usize, seconds: &[f64]) {
    let best = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let rows_per_s = f64::from(ROWS) / best;
    println!(
        r#"{{"loader":"burn","version":"{}","workers":{workers},"rows":{ROWS},"batch":{BATCH},"rows_per_s":{rows_per_s:.0},"seconds":{best:.4},"repeats":{seconds:.4?}}}"#,
        burn_version()
    );
}

/// The version that was built, read from the lock file, which cannot be out of date.
fn burn_version() -> &'static str {
    include_str!("../Cargo.lock")
        .split_once("name = \"burn-core\"\nversion = \"")
        .and_then(|(_, rest)| rest.split('"').next())
        .expect("the lock file lists burn-core")
}
