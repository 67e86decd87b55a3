//! Datasets whose samples are asked for by number, as the engine's [`Work`].

use std::sync::Arc;

use feedline_core::{Batch, BoxError, Cause, Failure, Run, Tray, Unit, What, Work};

use crate::{
    BatchDataset, Dataset, Rows,
    gather::{Gather, Stack},
};

/// Samples as Rust values.
pub(crate) struct Map<D, G> {
    pub(crate) data: D,
    pub(crate) gather: G,
}

impl<D: Dataset, G: Gather<D::Sample>> Work for Map<D, G> {
    type Hand = ();
    type Tray = G::Tray;
    type Batch = G::Batch;

    fn unit(&self) -> Unit {
        Unit::Row
    }

    fn hand(&self, _worker: usize) -> Result<(), BoxError> {
        Ok(())
    }

    fn estimate(&self, rows: usize) -> u64 {
        self.gather.estimate(rows)
    }

    fn size(&self, batch: &Self::Batch) -> Option<u64> {
        self.gather.size(batch)
    }

    fn open(&self, whole: &Run<'_>) -> Result<Self::Tray, BoxError> {
        self.gather.open(whole.indices.len())
    }

    fn fill(&self, _hand: &mut (), tray: &Self::Tray, run: &Run<'_>) -> Vec<Failure> {
        self.gather.fill(tray, run, &|index, rng| self.data.get(index, rng))
    }

    fn close(
        &self,
        tray: Self::Tray,
        whole: &Run<'_>,
        failed: &[usize],
    ) -> Result<Option<Self::Batch>, BoxError> {
        self.gather.close(tray, whole, failed)
    }
}

/// Samples written in place.
pub(crate) struct InPlace<D> {
    pub(crate) data: D,
    pub(crate) stack: Stack,
}

impl<D: Rows> Work for InPlace<D> {
    type Hand = ();
    type Tray = Arc<Tray>;
    type Batch = Batch;

    fn unit(&self) -> Unit {
        Unit::Row
    }

    fn hand(&self, _worker: usize) -> Result<(), BoxError> {
        Ok(())
    }

    fn estimate(&self, rows: usize) -> u64 {
        self.stack.bytes(rows)
    }

    fn size(&self, batch: &Batch) -> Option<u64> {
        Some(batch.bytes() as u64)
    }

    fn open(&self, whole: &Run<'_>) -> Result<Arc<Tray>, BoxError> {
        self.stack.tray(whole.indices.len())
    }

    fn fill(&self, _hand: &mut (), tray: &Arc<Tray>, run: &Run<'_>) -> Vec<Failure> {
        let mut rows = tray.rows(run.rows());
        run.each(|row, index, rng| {
            let mut row = rows.row(row);
            self.data.write(index, rng, &mut row)?;
            Ok(row.check()?)
        })
    }

    fn close(&self, tray: Arc<Tray>, whole: &Run<'_>, failed: &[usize]) -> Result<Option<Batch>, BoxError> {
        self.stack.batch(tray, whole, failed)
    }
}

/// Whole batches.
pub(crate) struct Together<D> {
    pub(crate) data: D,
    /// Bytes of one sample, if the user has said; 0 otherwise.
    pub(crate) sample_bytes: u64,
}

impl<D: BatchDataset> Work for Together<D> {
    type Hand = ();
    type Tray = Arc<std::sync::Mutex<Option<D::Batch>>>;
    type Batch = D::Batch;

    fn unit(&self) -> Unit {
        Unit::Batch
    }

    fn hand(&self, _worker: usize) -> Result<(), BoxError> {
        Ok(())
    }

    fn estimate(&self, rows: usize) -> u64 {
        self.sample_bytes * rows as u64
    }

    fn size(&self, _batch: &D::Batch) -> Option<u64> {
        None
    }

    fn open(&self, _whole: &Run<'_>) -> Result<Self::Tray, BoxError> {
        Ok(Arc::default())
    }

    fn fill(&self, _hand: &mut (), tray: &Self::Tray, run: &Run<'_>) -> Vec<Failure> {
        let mut rng = run.rng(run.indices[0]);
        match Cause::catch(|| self.data.get(run.indices, &mut rng)) {
            Ok(batch) => {
                *tray.lock().expect("nothing panics while it is held") = Some(batch);
                Vec::new()
            }
            Err(cause) => vec![run.failure(What::Batch(run.indices.to_vec()), 0, cause, None)],
        }
    }

    /// Nothing was put into the tray if the batch failed and is to be left out.
    fn close(&self, tray: Self::Tray, _: &Run<'_>, _: &[usize]) -> Result<Option<D::Batch>, BoxError> {
        Ok(tray.lock().expect("nothing panics while it is held").take())
    }
}
