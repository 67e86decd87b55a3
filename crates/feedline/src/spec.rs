//! What is asked for: a dataset and how to load it. [`Spec::build`] checks it and makes a [`Loader`].

use std::sync::Arc;

use feedline_core::{
    Batch, BatchList, BoxError, Engine, LayoutError, MakeBatches, OnFailure, Plan, Sampled, Sampler,
    Sequential, Settings, Shard, ShardError, Shuffle, State, StateError, Window, Work,
};

use crate::{
    BatchDataset, Dataset, Loader, Rows, Sample, Stream,
    auto::Auto,
    gather::{Collate, Gather, Stack},
    loader::{Feed, Identity},
    map::{InPlace, Map, Together},
    stream::Flow,
};

/// Why a loader cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The batch size is 0.
    #[error("the batch size is 0; it must be at least 1")]
    BatchSize,
    /// There is nothing to load.
    #[error("the dataset has no samples; check where it looks for them")]
    EmptyDataset,
    /// The order has no samples.
    #[error("the sampler {0:?} has no samples; an epoch would be empty")]
    EmptyOrder(String),
    /// Every epoch would be empty.
    #[error(
        "{samples} samples on this rank give no batch of {batch_size} when short batches are dropped; use a smaller batch size or keep the last batch"
    )]
    NoBatches {
        /// Samples of this rank.
        samples: usize,
        /// The batch size.
        batch_size: usize,
    },
    /// The prefetch bound is 0.
    #[error("the prefetch bound is 0; at least 1 batch must be allowed, and 1 byte")]
    Prefetch,
    /// The rank does not exist.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A stream has too few shards.
    #[error("the stream has {shards} shards for {world} ranks; every rank needs one")]
    Shards {
        /// The shards.
        shards: usize,
        /// The ranks.
        world: usize,
    },
    /// Two wishes that exclude each other.
    #[error("{0}")]
    Conflict(&'static str),
    /// The layout of the samples is impossible.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A worker thread could not be started.
    #[error("a worker thread could not be started: {0}; use fewer workers or raise the limit on processes")]
    Threads(#[source] std::io::Error),
    /// The state to resume from does not fit.
    #[error(transparent)]
    State(#[from] StateError),
}

/// What a loader is to load, and how. Build it with [`Spec::build`].
///
/// ```
/// # use feedline::{BoxError, Dataset, OnFailure, SampleRng, Spec};
/// # struct Squares;
/// # impl Dataset for Squares {
/// #     type Sample = u64;
/// #     fn len(&self) -> usize { 100 }
/// #     fn get(&self, index: usize, _: &mut SampleRng) -> Result<u64, BoxError> { Ok(index as u64) }
/// # }
/// let loader = Spec::values(Squares)
///     .batch_size(16)
///     .drop_last(true)
///     .shuffle(true)
///     .seed(42)
///     .shard(0, 2) // this process is rank 0 of 2
///     .workers(4)
///     .on_failure(OnFailure::Skip)
///     .build()?;
/// assert_eq!(loader.batches(), Some(3));
/// # Ok::<(), feedline::SpecError>(())
/// ```
#[must_use = "a spec does nothing until it is built"]
pub struct Spec<B> {
    options: Options,
    start: Box<Start<B>>,
}

/// Makes the engine once the options are known and checked.
type Start<B> = dyn FnOnce(Options) -> Result<Loader<B>, SpecError>;

enum Order {
    Sequential,
    Shuffle,
    Sampler(Arc<dyn Sampler>),
    Batches(Arc<MakeBatches>),
}

struct Options {
    batch_size: usize,
    drop_last: bool,
    order: Order,
    seed: u64,
    shard: Result<Shard, ShardError>,
    workers: Option<usize>,
    auto: bool,
    prefetch: Option<usize>,
    prefetch_bytes: u64,
    sample_bytes: u64,
    in_order: bool,
    on_failure: OnFailure,
    across_epochs: bool,
    epochs: Option<u64>,
    resume: Option<State>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            batch_size: 1,
            drop_last: false,
            order: Order::Sequential,
            seed: 0,
            shard: Ok(Shard::whole()),
            workers: None,
            auto: false,
            prefetch: None,
            prefetch_bytes: 1 << 30,
            sample_bytes: 0,
            in_order: true,
            on_failure: OnFailure::default(),
            across_epochs: true,
            epochs: None,
            resume: None,
        }
    }
}

impl<B: Send + 'static> Spec<B> {
    fn new(start: impl FnOnce(Options) -> Result<Loader<B>, SpecError> + 'static) -> Self {
        Self { options: Options::default(), start: Box::new(start) }
    }

    /// Batches made by `collate` from the samples of a dataset.
    pub fn collated<D: Dataset>(
        data: D,
        collate: impl Fn(Vec<D::Sample>) -> Result<B, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |options| {
            let gather = Collate { collate, sample_bytes: options.sample_bytes };
            options.start(data.len(), Map { data, gather })
        })
    }

    /// Batches made by the dataset itself.
    pub fn batches(data: impl BatchDataset<Batch = B>) -> Self {
        Self::new(move |options| {
            options.no_replacement(
                "a dataset of whole batches cannot replace a sample; use `Raise` or `Skip`",
            )?;
            let sample_bytes = options.sample_bytes;
            options.start(data.len(), Together { data, sample_bytes })
        })
    }

    /// Batches made by `collate` from the samples of a stream.
    pub fn stream_collated<S: Stream>(
        stream: S,
        collate: impl Fn(Vec<S::Sample>) -> Result<B, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |options| {
            let gather = Collate { collate, sample_bytes: options.sample_bytes };
            options.start_stream(stream, gather)
        })
    }
}

impl<S: Send + 'static> Spec<Vec<S>> {
    /// Batches that are a `Vec` of the samples of a dataset.
    pub fn values(data: impl Dataset<Sample = S>) -> Self {
        Self::collated(data, Ok)
    }

    /// Batches that are a `Vec` of the samples of a stream.
    pub fn stream(stream: impl Stream<Sample = S>) -> Self {
        Self::stream_collated(stream, Ok)
    }
}

impl Spec<Batch> {
    /// Batches of tensors that the dataset writes in place.
    pub fn rows(data: impl Rows) -> Self {
        Self::new(move |options| {
            let stack = Stack::new(data.layout()?, options.prefetch_bytes as usize);
            options.start(data.len(), InPlace { data, stack })
        })
    }

    /// Batches of tensors made of the samples of a dataset.
    pub fn stacked<D: Dataset<Sample: Sample>>(data: D) -> Self {
        Self::new(move |options| {
            let gather = Stack::of::<D::Sample>(options.prefetch_bytes as usize)?;
            options.start(data.len(), Map { data, gather })
        })
    }

    /// Batches of tensors made of the samples of a stream.
    pub fn stream_stacked<S: Stream<Sample: Sample>>(stream: S) -> Self {
        Self::new(move |options| {
            let gather = Stack::of::<S::Sample>(options.prefetch_bytes as usize)?;
            options.start_stream(stream, gather)
        })
    }
}

impl<B> Spec<B> {
    fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Samples in a batch. Default: 1.
    pub fn batch_size(self, samples: usize) -> Self {
        self.with(|options| options.batch_size = samples)
    }

    /// Whether a last batch that is too short is left out. Default: no.
    pub fn drop_last(self, drop: bool) -> Self {
        self.with(|options| options.drop_last = drop)
    }

    /// Whether every epoch is in a new random order. Default: no, the order of the dataset.
    pub fn shuffle(self, shuffle: bool) -> Self {
        self.with(|options| options.order = if shuffle { Order::Shuffle } else { Order::Sequential })
    }

    /// An order of another kind: weighted, with replacement, a subset, grouped, or the user's own.
    pub fn sampler(self, sampler: impl Sampler) -> Self {
        self.with(|options| options.order = Order::Sampler(Arc::new(sampler)))
    }

    /// Batches of the user's own making, for each (seed, epoch). The batch size is then of no account.
    pub fn batch_sampler(self, make: impl Fn(u64, u64) -> Vec<Vec<usize>> + Send + Sync + 'static) -> Self {
        self.with(|options| options.order = Order::Batches(Arc::new(make)))
    }

    /// The seed of everything random. Default: 0.
    pub fn seed(self, seed: u64) -> Self {
        self.with(|options| options.seed = seed)
    }

    /// The part of one rank among several processes that share each epoch. What does not divide evenly is
    /// repeated. Default: rank 0 of 1.
    pub fn shard(self, rank: usize, world: usize) -> Self {
        self.with(|options| options.shard = Shard::new(rank, world))
    }

    /// As [`Spec::shard`], with a choice of what happens to samples that do not divide evenly.
    pub fn sharded(self, shard: Shard) -> Self {
        self.with(|options| options.shard = Ok(shard))
    }

    /// Worker threads; with 0 the consumer's own thread does the work. Default: one for each processor the
    /// process may use. Can be changed while running.
    pub fn workers(self, workers: usize) -> Self {
        self.with(|options| (options.workers, options.auto) = (Some(workers), false))
    }

    /// As many worker threads as it takes for the consumer not to wait, and no more than help: the number begins with one
    /// for each processor and is changed while epochs run. What is loaded, and in which order, does not depend on it.
    ///
    /// ```
    /// # use feedline::{BoxError, Dataset, SampleRng, Spec};
    /// # struct Squares;
    /// # impl Dataset for Squares {
    /// #     type Sample = u64;
    /// #     fn len(&self) -> usize { 100 }
    /// #     fn get(&self, index: usize, _: &mut SampleRng) -> Result<u64, BoxError> { Ok(index as u64) }
    /// # }
    /// let mut loader = Spec::values(Squares).batch_size(8).auto_workers().build()?;
    /// assert_eq!(loader.epoch().count(), 13);
    /// assert!(loader.workers() >= 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn auto_workers(self) -> Self {
        self.with(|options| options.auto = true)
    }

    /// The number of batches that may be begun and not yet delivered.
    ///
    /// Without it, twice as many as there are workers are kept ready, of large ones 192 MiB or one; and while one
    /// slow sample holds up the oldest batch, workers run ahead of it as far as the bytes allow.
    pub fn prefetch(self, batches: usize) -> Self {
        self.with(|options| options.prefetch = Some(batches))
    }

    /// The bytes of batches that may be begun and not yet delivered; one batch is always allowed.
    /// Default: 1 GiB.
    pub fn prefetch_bytes(self, bytes: u64) -> Self {
        self.with(|options| options.prefetch_bytes = bytes)
    }

    /// The bytes of one sample, for datasets of plain Rust values, whose bytes cannot be seen. Only with it do
    /// they count towards [`Spec::prefetch_bytes`], and only then do workers run ahead of a batch that is held up.
    pub fn sample_bytes(self, bytes: u64) -> Self {
        self.with(|options| options.sample_bytes = bytes)
    }

    /// Whether batches come in the order of the sampler; otherwise they come as they get ready. Default: yes.
    pub fn in_order(self, keep: bool) -> Self {
        self.with(|options| options.in_order = keep)
    }

    /// What happens to samples that cannot be loaded. Default: their error is delivered.
    pub fn on_failure(self, policy: OnFailure) -> Self {
        self.with(|options| options.on_failure = policy)
    }

    /// Whether workers begin with the next epoch while the consumer is in this one. Default: yes.
    pub fn across_epochs(self, across: bool) -> Self {
        self.with(|options| options.across_epochs = across)
    }

    /// The number of epochs there will be, those before a resume included. After them [`Loader::next_epoch`]
    /// gives `None`, and nothing is loaded ahead for one after the last.
    pub fn epochs(self, epochs: u64) -> Self {
        self.with(|options| options.epochs = Some(epochs))
    }

    /// Goes on from a saved state, if there is one, with its seed (whatever was said of the seed before).
    pub fn resume(self, state: impl Into<Option<State>>) -> Self {
        self.with(|options| {
            if let Some(state) = state.into() {
                options.seed = state.seed;
                options.resume = Some(state);
            }
        })
    }

    /// Checks everything and makes the loader. Its workers are started; they load nothing before the first
    /// epoch is asked for.
    pub fn build(self) -> Result<Loader<B>, SpecError> {
        self.options.check()?;
        (self.start)(self.options)
    }
}

impl Options {
    fn check(&self) -> Result<(), SpecError> {
        self.shard?;
        if self.batch_size == 0 {
            return Err(SpecError::BatchSize);
        }
        if self.prefetch == Some(0) || self.prefetch_bytes == 0 {
            return Err(SpecError::Prefetch);
        }
        Ok(())
    }

    fn no_replacement(&self, why: &'static str) -> Result<(), SpecError> {
        match self.on_failure {
            OnFailure::Replace { .. } => Err(SpecError::Conflict(why)),
            _ => Ok(()),
        }
    }

    fn start<W: Work>(self, len: usize, work: W) -> Result<Loader<W::Batch>, SpecError> {
        if len == 0 {
            return Err(SpecError::EmptyDataset);
        }
        let (shard, size) = (self.shard?, self.batch_size);
        let sampler: Arc<dyn Sampler> = match &self.order {
            Order::Sequential => Arc::new(Sequential(len)),
            Order::Shuffle => Arc::new(Shuffle(len)),
            Order::Sampler(sampler) => Arc::clone(sampler),
            Order::Batches(make) => {
                let plan = BatchList::new(Arc::clone(make), len, shard, self.seed);
                let identity = self.identity(len, "batches of the user", shard.world() as u64);
                return self.run(work, plan, identity);
            }
        };
        if sampler.len() == 0 {
            return Err(SpecError::EmptyOrder(sampler.name().to_owned()));
        }
        let identity = self.identity(len, sampler.name(), (size * shard.world()) as u64);
        let samples = sampler.len() / shard.world();
        let plan = Sampled::new(sampler, len, size, self.drop_last, shard, self.seed);
        if plan.batches() == Some(0) {
            return Err(SpecError::NoBatches { samples, batch_size: size });
        }
        self.run(work, plan, identity)
    }

    fn start_stream<S: Stream, G: Gather<S::Sample>>(
        self,
        stream: S,
        gather: G,
    ) -> Result<Loader<G::Batch>, SpecError> {
        self.no_replacement("a stream cannot replace a sample; use `Raise` or `Skip`")?;
        if !matches!(self.order, Order::Sequential) {
            return Err(SpecError::Conflict(
                "a stream is read in its own order; it can have no sampler and no shuffle",
            ));
        }
        let (shard, shards, size) = (self.shard?, stream.shards(), self.batch_size);
        if shards < shard.world() {
            return Err(SpecError::Shards { shards, world: shard.world() });
        }
        // Where a stream goes on depends on all of these, so a state of others must be refused.
        let name =
            format!("{shards} shards in batches of {size}, rank {} of {}", shard.rank(), shard.world());
        let identity = self.identity(0, &name, size as u64);
        let (plan, work) = Flow::new(stream, gather, shard, size, self.drop_last);
        self.run(work, plan, identity)
    }

    fn identity(&self, len: usize, order: &str, stride: u64) -> Identity {
        Identity { seed: self.seed, len: len as u64, order: order.to_owned(), stride }
    }

    fn run<W: Work>(
        self,
        work: W,
        plan: impl Plan,
        identity: Identity,
    ) -> Result<Loader<W::Batch>, SpecError> {
        let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = self.workers.unwrap_or_else(processors);
        let window = Window {
            batches: self.prefetch.unwrap_or((2 * workers).max(4)),
            run_ahead: self.prefetch.is_none() && work.estimate(1) > 0,
            bytes: self.prefetch_bytes,
        };
        let auto = self.auto.then(|| Auto::new(window, self.prefetch.is_some()));
        let workers = auto.as_ref().map_or(workers, Auto::workers);
        let settings = Settings {
            workers,
            window,
            in_order: self.in_order,
            on_failure: self.on_failure,
            across_epochs: self.across_epochs,
            epochs: self.epochs,
            seed: self.seed,
        };
        let (batches, epochs) = (plan.batches(), self.epochs);
        let engine = Engine::start(work, Box::new(plan), &settings).map_err(SpecError::Threads)?;
        let feed: Box<dyn Feed<W::Batch>> = Box::new(engine);
        let mut loader = Loader::new(feed, identity, batches, epochs, auto);
        if let Some(state) = self.resume {
            loader.restore(&state)?;
        }
        Ok(loader)
    }
}
