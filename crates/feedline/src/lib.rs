//! Feedline keeps accelerators fed: a parallel data loader for deep-learning training.
//!
//! ```
//! use feedline::{BoxError, Dataset, SampleRng, Spec};
//!
//! struct Squares;
//!
//! impl Dataset for Squares {
//!     type Sample = u64;
//!     fn len(&self) -> usize {
//!         1000
//!     }
//!     fn get(&self, index: usize, _rng: &mut SampleRng) -> Result<u64, BoxError> {
//!         Ok((index * index) as u64)
//!     }
//! }
//!
//! let mut loader = Spec::values(Squares).batch_size(64).shuffle(true).workers(4).build()?;
//! for epoch in 0..2 {
//!     for batch in loader.epoch() {
//!         let batch: Vec<u64> = batch?;
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Any dataset**: values, tensors written in place, whole batches, streams ([`Dataset`], [`Rows`],
//!   [`BatchDataset`], [`Stream`]).
//! - **All workers fill the oldest batch**, so the first batch comes early and one slow sample delays one row.
//! - **The result does not depend on the workers**: order and random numbers are functions of (seed, epoch,
//!   sample), for any number of threads, none included.
//! - **Resume anywhere**: a [`State`] is a line of JSON, taken after any batch.
//! - **The number of workers** is given, or [left to the loader](Spec::auto_workers), which finds it while it runs.
//! - **Failures are values**: raise, skip or replace, with a [`Manifest`].
//! - **Bounded**: in batches and bytes; memory is reused, never while a batch is held.
//! - **Images, cells, tensors and volumes** from files, without a line of decoding: `images`, `cells`, `tensors`,
//!   `volumes` and `cases` of them, with the feature `images` (it builds libjpeg-turbo, for which cmake and nasm are
//!   needed).
//! - **Texts** from JSON lines, CSV, files or memory, tokenised and padded: `text`, with the feature `text`; `tokenizers`
//!   adds the tokenizers of Hugging Face.
//! - **Groups** that many samples share are loaded once: [`Groups`].
//!
//! [`Spec`] (asked) becomes [`Loader`] (checked) becomes [`Epoch`] (running).

mod auto;
#[cfg(feature = "images")]
pub mod cache;
#[cfg(feature = "images")]
pub mod cases;
#[cfg(feature = "images")]
pub mod cells;
mod dataset;
#[cfg(feature = "images")]
pub mod files;
mod gather;
mod groups;
#[cfg(feature = "images")]
pub mod images;
mod loader;
mod map;
mod sample;
mod spec;
mod stream;
#[cfg(feature = "images")]
pub mod tensors;
#[cfg(feature = "text")]
pub mod text;
#[cfg(feature = "images")]
pub mod volumes;

pub use dataset::{BatchDataset, Dataset, Rows, Stream};
pub use feedline_core::{
    Arrangement, Batch, BoxError, Cause, ConsumerGauge, DType, Element, Error, Failure, Field, FieldKey,
    Gauges, Grouped, Layout, LayoutError, Manifest, Next, OnFailure, PlanError, QueueGauge, RowError, RowMut,
    SampleRng, Sampler, Sequential, Shard, ShardError, Shuffle, State, StateError, Subset, Uneven,
    WeightError, Weighted, What, WithReplacement, WorkerGauge, bf16, f16,
};
#[cfg(feature = "images")]
pub use feedline_media::voxels;
pub use groups::{GroupCounts, Groups};
pub use loader::{Epoch, Loader};
pub use sample::{Part, Sample};
pub use spec::{Spec, SpecError};
