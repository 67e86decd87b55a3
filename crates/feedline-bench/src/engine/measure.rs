//! One epoch on the clock.

use std::time::{Duration, Instant};

use feedline::{Error, Loader};

/// What one epoch took.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// From asking for the epoch to its end.
    pub total: Duration,
    /// From asking for the epoch to the first batch.
    pub first_batch: Duration,
    /// How long each batch was waited for.
    pub waits: Vec<Duration>,
}

/// Runs one epoch and does nothing with the batches; `every` is called after each with the share done.
pub fn measure<B>(
    loader: &mut Loader<B>,
    batches: usize,
    mut every: impl FnMut(f64),
) -> Result<Measured, Error> {
    let mut waits = Vec::with_capacity(batches);
    let start = Instant::now();
    let mut asked = start;
    for batch in loader.epoch() {
        let batch = batch?;
        waits.push(asked.elapsed());
        drop(batch);
        every(waits.len() as f64 / batches as f64);
        asked = Instant::now();
    }
    let total = start.elapsed();
    Ok(Measured { total, first_batch: waits.first().copied().unwrap_or_default(), waits })
}
