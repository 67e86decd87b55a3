//! The same hundred-odd numbers as every kind of dataset there is, so that one test can run over all of them.
#![allow(dead_code)] // Each test binary uses a part of it.

use std::{sync::mpsc, time::Duration};

use feedline::{
    Batch, BatchDataset, BoxError, Dataset, Epoch, Error, Field, Layout, LayoutError, Loader, RowMut, Rows,
    SampleRng, Spec, State, StateError, Stream,
};

/// The sample and a random number that only the sample and the epoch decide.
pub(crate) type Seen = (u64, u64);

/// Every sample is its index; a few can be made to fail.
#[derive(Clone)]
pub(crate) struct Numbers {
    pub(crate) len: usize,
    pub(crate) fail: Vec<usize>,
}

impl Numbers {
    pub(crate) fn new(len: usize) -> Self {
        Self { len, fail: Vec::new() }
    }

    fn load(&self, index: usize, rng: &mut SampleRng) -> Result<Seen, BoxError> {
        // Uneven, so that workers overtake each other.
        if index % 7 == 3 {
            std::thread::yield_now();
        }
        if self.fail.contains(&index) {
            return Err(format!("number {index} is unlucky").into());
        }
        Ok((index as u64, rng.below(1 << 40)))
    }
}

impl Dataset for Numbers {
    type Sample = Seen;
    fn len(&self) -> usize {
        self.len
    }
    fn get(&self, index: usize, rng: &mut SampleRng) -> Result<Seen, BoxError> {
        self.load(index, rng)
    }
}

impl Rows for Numbers {
    fn layout(&self) -> Result<Layout, LayoutError> {
        Layout::new([Field::fixed::<u64>("0", []), Field::fixed::<u64>("1", [])])
    }
    fn len(&self) -> usize {
        self.len
    }
    fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        let (index, random) = self.load(index, rng)?;
        row.write(0, &[index])?;
        Ok(row.write("1", &[random])?)
    }
}

impl BatchDataset for Numbers {
    type Batch = Vec<Seen>;
    fn len(&self) -> usize {
        self.len
    }
    fn get(&self, indices: &[usize], rng: &mut SampleRng) -> Result<Vec<Seen>, BoxError> {
        indices.iter().map(|index| self.load(*index, rng)).collect()
    }
}

/// The numbers dealt out to three shards of different lengths.
impl Stream for Numbers {
    type Sample = Seen;
    type Reader = Box<dyn Iterator<Item = Result<Seen, BoxError>> + Send>;
    fn shards(&self) -> usize {
        3
    }
    fn open(&self, shard: usize, epoch: u64) -> Result<Self::Reader, BoxError> {
        let (numbers, cut) = (self.clone(), [0, self.len / 2, self.len / 2 + self.len / 3, self.len]);
        let samples = (cut[shard]..cut[shard + 1]).map(move |index| {
            if numbers.fail.contains(&index) {
                return Err(format!("number {index} is unlucky").into());
            }
            Ok((index as u64, epoch))
        });
        Ok(Box::new(samples))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Values,
    Collated,
    Stacked,
    InPlace,
    Batches,
    Stream,
    StreamStacked,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Values,
        Self::Collated,
        Self::Stacked,
        Self::InPlace,
        Self::Batches,
        Self::Stream,
        Self::StreamStacked,
    ];

    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Self::Stream | Self::StreamStacked)
    }

    /// A loader of this kind, with further wishes.
    pub(crate) fn build(self, numbers: Numbers, wishes: &impl Wishes) -> AnyLoader {
        match self {
            Self::Values => AnyLoader::Values(wishes.apply(Spec::values(numbers)).build().unwrap()),
            Self::Collated => AnyLoader::Values(wishes.apply(Spec::collated(numbers, Ok)).build().unwrap()),
            Self::Batches => AnyLoader::Values(wishes.apply(Spec::batches(numbers)).build().unwrap()),
            Self::Stream => AnyLoader::Values(wishes.apply(Spec::stream(numbers)).build().unwrap()),
            Self::Stacked => AnyLoader::Tensors(wishes.apply(Spec::stacked(numbers)).build().unwrap()),
            Self::InPlace => AnyLoader::Tensors(wishes.apply(Spec::rows(numbers)).build().unwrap()),
            Self::StreamStacked => {
                AnyLoader::Tensors(wishes.apply(Spec::stream_stacked(numbers)).build().unwrap())
            }
        }
    }
}

/// Settings that fit a spec of any kind of batch.
pub(crate) trait Wishes {
    fn apply<B>(&self, spec: Spec<B>) -> Spec<B>;
}

/// A loader whose batches can be looked at whatever they are.
pub(crate) enum AnyLoader {
    Values(Loader<Vec<Seen>>),
    Tensors(Loader<Batch>),
}

fn tensors(batch: Batch) -> Vec<Seen> {
    let (indices, random) = (batch.slice::<u64>("0").unwrap(), batch.slice::<u64>("1").unwrap());
    indices.iter().copied().zip(random.iter().copied()).collect()
}

impl AnyLoader {
    /// Up to `most` batches of the next epoch.
    pub(crate) fn batches(&mut self, most: usize) -> Vec<Result<Vec<Seen>, Error>> {
        fn some<B>(
            epoch: Epoch<'_, B>,
            most: usize,
            look: fn(B) -> Vec<Seen>,
        ) -> Vec<Result<Vec<Seen>, Error>> {
            epoch.take(most).map(|batch| batch.map(look)).collect()
        }
        match self {
            Self::Values(loader) => some(loader.epoch(), most, |batch| batch),
            Self::Tensors(loader) => some(loader.epoch(), most, tensors),
        }
    }

    pub(crate) fn epoch(&mut self) -> Vec<Vec<Seen>> {
        self.batches(usize::MAX).into_iter().map(Result::unwrap).collect()
    }

    pub(crate) fn state(&self) -> State {
        match self {
            Self::Values(loader) => loader.state(),
            Self::Tensors(loader) => loader.state(),
        }
    }

    pub(crate) fn restore(&mut self, state: &State) -> Result<(), StateError> {
        match self {
            Self::Values(loader) => loader.restore(state),
            Self::Tensors(loader) => loader.restore(state),
        }
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        let manifest = match self {
            Self::Values(loader) => loader.failures(),
            Self::Tensors(loader) => loader.failures(),
        };
        manifest.failures.iter().map(ToString::to_string).collect()
    }
}

/// Runs a test with a time limit: a hang is a failure.
pub(crate) fn within<T: Send + 'static>(limit: Duration, test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = test();
        let _ = done.send(());
        result
    });
    match wait.recv_timeout(limit) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs: nothing within {limit:?}"),
        _ => thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)),
    }
}
