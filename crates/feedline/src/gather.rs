//! How samples become a batch: collected into a `Vec` and collated, or written into the rows of tensors.

use std::sync::{Arc, Mutex, PoisonError};

use feedline_core::{Arena, Batch, BoxError, Failure, Layout, LayoutError, Pool, Run, SampleRng, Tray};

use crate::Sample;

/// Loads the sample of an index.
pub(crate) type Get<'a, S> = dyn Fn(usize, &mut SampleRng) -> Result<S, BoxError> + 'a;

/// Puts samples together. The trays are shared by the workers that fill a batch.
pub(crate) trait Gather<S>: Send + Sync + 'static {
    type Tray: Clone + Send + 'static;
    type Batch: Send + 'static;

    fn open(&self, rows: usize) -> Result<Self::Tray, BoxError>;
    /// Puts the samples that `get` loads into the rows of a run. Returns the ones that failed.
    fn fill(&self, tray: &Self::Tray, run: &Run<'_>, get: &Get<'_, S>) -> Vec<Failure>;
    /// Puts one sample into a row.
    fn put(&self, tray: &Self::Tray, row: usize, sample: S) -> Result<(), BoxError>;
    fn close(
        &self,
        tray: Self::Tray,
        whole: &Run<'_>,
        failed: &[usize],
    ) -> Result<Option<Self::Batch>, BoxError>;
    fn estimate(&self, rows: usize) -> u64;
    fn size(&self, batch: &Self::Batch) -> Option<u64>;
}

/// Collects samples and hands them to a function.
pub(crate) struct Collate<C> {
    pub(crate) collate: C,
    /// Bytes of one sample, if the user has said; 0 otherwise.
    pub(crate) sample_bytes: u64,
}

impl<S, B, C> Gather<S> for Collate<C>
where
    S: Send + 'static,
    B: Send + 'static,
    C: Fn(Vec<S>) -> Result<B, BoxError> + Send + Sync + 'static,
{
    type Tray = Arc<Mutex<Vec<Option<S>>>>;
    type Batch = B;

    fn open(&self, rows: usize) -> Result<Self::Tray, BoxError> {
        Ok(Arc::new(Mutex::new((0..rows).map(|_| None).collect())))
    }

    fn fill(&self, tray: &Self::Tray, run: &Run<'_>, get: &Get<'_, S>) -> Vec<Failure> {
        let mut loaded: Vec<Option<S>> = run.indices.iter().map(|_| None).collect();
        let failures = run.each(|row, index, rng| {
            loaded[row - run.first] = Some(get(index, rng)?);
            Ok(())
        });
        // Once for all of them, and not while something is loaded.
        let mut rows = tray.lock().unwrap_or_else(PoisonError::into_inner);
        rows[run.first..].iter_mut().zip(loaded).for_each(|(row, sample)| *row = sample);
        failures
    }

    fn put(&self, tray: &Self::Tray, row: usize, sample: S) -> Result<(), BoxError> {
        tray.lock().unwrap_or_else(PoisonError::into_inner)[row] = Some(sample);
        Ok(())
    }

    fn close(&self, tray: Self::Tray, _: &Run<'_>, _failed: &[usize]) -> Result<Option<B>, BoxError> {
        let samples = std::mem::take(&mut *tray.lock().unwrap_or_else(PoisonError::into_inner));
        // A failed row is `None`, and so are the rows behind the end of a stream.
        let samples: Vec<S> = samples.into_iter().flatten().collect();
        if samples.is_empty() { Ok(None) } else { (self.collate)(samples).map(Some) }
    }

    fn estimate(&self, rows: usize) -> u64 {
        self.sample_bytes * rows as u64
    }

    fn size(&self, _batch: &B) -> Option<u64> {
        None
    }
}

/// Writes samples into rows of tensors.
pub(crate) struct Stack {
    pool: Pool,
}

impl Stack {
    /// For samples of this layout; keeps at most `keep` bytes of unused batches.
    pub(crate) fn new(layout: Layout, keep: usize) -> Self {
        Self { pool: Pool::new(layout, Arena::private(), keep) }
    }

    /// For samples of type `S`.
    pub(crate) fn of<S: Sample>(keep: usize) -> Result<Self, LayoutError> {
        Ok(Self::new(Layout::new(S::fields())?, keep))
    }

    pub(crate) fn tray(&self, rows: usize) -> Result<Arc<Tray>, BoxError> {
        Ok(self.pool.take(rows)?)
    }

    pub(crate) fn batch(
        &self,
        tray: Arc<Tray>,
        whole: &Run<'_>,
        failed: &[usize],
    ) -> Result<Option<Batch>, BoxError> {
        if failed.len() == whole.indices.len() {
            return Ok(None);
        }
        let mut batch = tray.close(&self.pool, whole.indices, failed)?;
        (batch.epoch, batch.number) = (whole.epoch, whole.batch);
        Ok(Some(batch))
    }

    pub(crate) fn bytes(&self, rows: usize) -> u64 {
        self.pool.estimate(rows)
    }
}

impl<S: Sample> Gather<S> for Stack {
    type Tray = Arc<Tray>;
    type Batch = Batch;

    fn open(&self, rows: usize) -> Result<Self::Tray, BoxError> {
        self.tray(rows)
    }

    fn fill(&self, tray: &Self::Tray, run: &Run<'_>, get: &Get<'_, S>) -> Vec<Failure> {
        let mut rows = tray.rows(run.rows());
        run.each(|row, index, rng| Ok(get(index, rng)?.write(&mut rows.row(row))?))
    }

    fn put(&self, tray: &Self::Tray, row: usize, sample: S) -> Result<(), BoxError> {
        Ok(sample.write(&mut tray.rows(row..row + 1).row(row))?)
    }

    fn close(&self, tray: Self::Tray, whole: &Run<'_>, failed: &[usize]) -> Result<Option<Batch>, BoxError> {
        self.batch(tray, whole, failed)
    }

    fn estimate(&self, rows: usize) -> u64 {
        self.bytes(rows)
    }

    fn size(&self, batch: &Batch) -> Option<u64> {
        Some(batch.bytes() as u64)
    }
}
