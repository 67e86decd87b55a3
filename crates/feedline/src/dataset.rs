//! What a user implements: a dataset, in one of four forms.
//!
//! | form | one call gives | batches are |
//! |---|---|---|
//! | [`Dataset`] | a sample as a Rust value | a `Vec` of them, what a collate function makes of it, or tensors if the value is a [`crate::Sample`] |
//! | [`Rows`] | a sample written straight into its row | tensors |
//! | [`BatchDataset`] | a whole batch | whatever it returns |
//! | [`Stream`] | an iterator over samples | as for [`Dataset`] |
//!
//! All are shared by the workers and called from several threads at once, so they take `&self`. Random numbers
//! come from the generator they are handed, which belongs to the sample and the epoch and not to the worker:
//! that is why results do not depend on the number of workers.

use std::sync::Arc;

use feedline_core::{BoxError, Layout, LayoutError, RowMut, SampleRng};

/// A dataset whose samples can be asked for by number.
///
/// ```
/// use feedline::{BoxError, Dataset, SampleRng, Spec};
///
/// struct Squares;
///
/// impl Dataset for Squares {
///     type Sample = u64;
///     fn len(&self) -> usize {
///         100
///     }
///     fn get(&self, index: usize, _rng: &mut SampleRng) -> Result<u64, BoxError> {
///         Ok((index * index) as u64)
///     }
/// }
///
/// let mut loader = Spec::values(Squares).batch_size(8).workers(2).build()?;
/// let first: Vec<u64> = loader.epoch().next().unwrap()?;
/// assert_eq!(first, [0, 1, 4, 9, 16, 25, 36, 49]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(clippy::len_without_is_empty)] // An empty dataset is refused by `Spec::build`.
pub trait Dataset: Send + Sync + 'static {
    /// A sample.
    type Sample: Send + 'static;

    /// How many samples there are.
    fn len(&self) -> usize;

    /// The sample of this number. An error or a panic is the failure of this sample alone.
    fn get(&self, index: usize, rng: &mut SampleRng) -> Result<Self::Sample, BoxError>;
}

/// A dataset that writes its samples straight into the memory of the batch: nothing is copied or allocated.
///
/// ```
/// use feedline::{BoxError, Field, Layout, LayoutError, RowMut, Rows, SampleRng, Spec};
///
/// struct Noise;
///
/// impl Rows for Noise {
///     fn layout(&self) -> Result<Layout, LayoutError> {
///         Layout::new([Field::fixed::<f32>("image", [3, 8, 8]), Field::fixed::<i64>("label", [])])
///     }
///     fn len(&self) -> usize {
///         1000
///     }
///     fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
///         row.slice_mut::<f32>("image")?.fill_with(|| rng.uniform() as f32);
///         row.write("label", &[(index % 10) as i64])?;
///         Ok(())
///     }
/// }
///
/// let mut loader = Spec::rows(Noise).batch_size(16).shuffle(true).workers(2).build()?;
/// for batch in loader.epoch() {
///     let batch = batch?;
///     assert_eq!(batch.shape("image")?[1..], [3, 8, 8]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(clippy::len_without_is_empty)]
pub trait Rows: Send + Sync + 'static {
    /// The fields of every sample. Asked for once.
    fn layout(&self) -> Result<Layout, LayoutError>;

    /// How many samples there are.
    fn len(&self) -> usize;

    /// Writes the sample of this number into its row, every field of it. An error or a panic is the failure of
    /// this sample alone.
    fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError>;
}

/// A dataset that can only, or better, be asked for a whole batch: a database, a remote store, a chunked file.
///
/// ```
/// use feedline::{BatchDataset, BoxError, SampleRng, Spec};
///
/// struct Table(Vec<f32>);
///
/// impl BatchDataset for Table {
///     type Batch = Vec<f32>;
///     fn len(&self) -> usize {
///         self.0.len()
///     }
///     fn get(&self, indices: &[usize], _rng: &mut SampleRng) -> Result<Vec<f32>, BoxError> {
///         Ok(indices.iter().map(|index| self.0[*index]).collect())
///     }
/// }
///
/// let mut loader = Spec::batches(Table(vec![0.5; 10])).batch_size(4).build()?;
/// assert_eq!(loader.epoch().count(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(clippy::len_without_is_empty)]
pub trait BatchDataset: Send + Sync + 'static {
    /// A batch.
    type Batch: Send + 'static;

    /// How many samples there are.
    fn len(&self) -> usize;

    /// The batch of these samples. The random numbers are those of the first of them.
    fn get(&self, indices: &[usize], rng: &mut SampleRng) -> Result<Self::Batch, BoxError>;
}

/// A dataset that can only be read from the beginning: log files, sockets, archives.
///
/// It has one or more shards, each read in its own order by one worker at a time. Batches come from the shards
/// in turn, so the result depends on the number of shards but not on the number of workers.
///
/// ```
/// use feedline::{BoxError, Spec, Stream};
///
/// struct Counter;
///
/// impl Stream for Counter {
///     type Sample = u64;
///     type Reader = std::vec::IntoIter<Result<u64, BoxError>>;
///     fn shards(&self) -> usize {
///         2
///     }
///     fn open(&self, shard: usize, _epoch: u64) -> Result<Self::Reader, BoxError> {
///         let samples: Vec<_> = (0..3).map(|n| Ok(10 * shard as u64 + n)).collect();
///         Ok(samples.into_iter())
///     }
/// }
///
/// let mut loader = Spec::stream(Counter).batch_size(2).workers(2).build()?;
/// let batches: Vec<Vec<u64>> = loader.epoch().collect::<Result<_, _>>()?;
/// assert_eq!(batches, [vec![0, 1], vec![10, 11], vec![2], vec![12]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Stream: Send + Sync + 'static {
    /// A sample.
    type Sample: Send + 'static;
    /// What reads a shard. An `Err` is the failure of one sample; reading goes on after it.
    type Reader: Iterator<Item = Result<Self::Sample, BoxError>> + Send + 'static;

    /// How many shards there are.
    fn shards(&self) -> usize {
        1
    }

    /// Opens a shard at its beginning.
    fn open(&self, shard: usize, epoch: u64) -> Result<Self::Reader, BoxError>;

    /// Opens a shard behind its first `skip` samples, to go on from a saved state. Reads and forgets them
    /// unless there is a shorter way.
    fn open_at(&self, shard: usize, epoch: u64, skip: u64) -> Result<Self::Reader, BoxError> {
        let mut reader = self.open(shard, epoch)?;
        for _ in 0..skip {
            if reader.next().is_none() {
                break;
            }
        }
        Ok(reader)
    }
}

// A dataset that the user keeps a handle to.

impl<D: Dataset> Dataset for Arc<D> {
    type Sample = D::Sample;
    fn len(&self) -> usize {
        D::len(self)
    }
    fn get(&self, index: usize, rng: &mut SampleRng) -> Result<D::Sample, BoxError> {
        D::get(self, index, rng)
    }
}

impl<D: Rows> Rows for Arc<D> {
    fn layout(&self) -> Result<Layout, LayoutError> {
        D::layout(self)
    }
    fn len(&self) -> usize {
        D::len(self)
    }
    fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        D::write(self, index, rng, row)
    }
}

impl<D: BatchDataset> BatchDataset for Arc<D> {
    type Batch = D::Batch;
    fn len(&self) -> usize {
        D::len(self)
    }
    fn get(&self, indices: &[usize], rng: &mut SampleRng) -> Result<D::Batch, BoxError> {
        D::get(self, indices, rng)
    }
}

impl<S: Stream> Stream for Arc<S> {
    type Sample = S::Sample;
    type Reader = S::Reader;
    fn shards(&self) -> usize {
        S::shards(self)
    }
    fn open(&self, shard: usize, epoch: u64) -> Result<S::Reader, BoxError> {
        S::open(self, shard, epoch)
    }
    fn open_at(&self, shard: usize, epoch: u64, skip: u64) -> Result<S::Reader, BoxError> {
        S::open_at(self, shard, epoch, skip)
    }
}
