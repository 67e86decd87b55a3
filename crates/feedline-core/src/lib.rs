//! Order, memory and workers: the engine that every Feedline loader runs on.
//!
//! A loader is an ordered, bounded, cancellable parallel map from sample numbers to rows of preallocated
//! batches. Data moves one way:
//!
//! ```text
//! Sampler ─► Plan ─► Schedule ─► Work, by a worker: rows of a Tray ─► Batch ─► consumer
//!            which    which rows,                                       │
//!            samples  by whom, when                                     │
//!               ▲                                                       ▼
//!               └───────── room: a batch is begun when one has been delivered or dropped
//! ```
//!
//! | noun | what it is |
//! |---|---|
//! | [`Sampler`] | which sample stands at which position of an epoch, a pure function of (seed, epoch) |
//! | [`Plan`], [`Cursor`] | which samples make up which batch; a place in that |
//! | [`Layout`], [`Field`], [`DType`] | what a sample looks like in memory |
//! | [`Arena`], [`Slab`] | page-aligned memory, private or shared with other processes |
//! | [`Pool`], [`Tray`], [`RowsMut`] | a batch under construction, filled by several workers |
//! | [`Batch`] | a finished batch of tensors |
//! | `Schedule`, `Pace` | which rows are given out next, how many at once, which batch is delivered next |
//! | [`Work`], [`Run`] | the way samples are loaded: the seam between this crate and everything else |
//! | [`Engine`] | threads around all of it, and the life-cycle contract |
//! | [`Failure`], [`OnFailure`], [`Manifest`] | what happens to samples that cannot be loaded |
//! | [`Gauges`] | where the time goes |
//! | [`Tuner`], [`Seen`], [`Limits`] | how many workers there should be, a pure function of what was seen |
//! | [`State`] | a saved place |
//!
//! This crate knows nothing of files, codecs, Python or async. Most users want the `feedline` crate, which
//! builds checked loaders from it.

mod batch;
mod crew;
mod draft;
mod dtype;
mod engine;
mod error;
mod failure;
mod gauges;
mod layout;
mod order;
mod pace;
mod plan;
mod pool;
mod rng;
mod row;
mod schedule;
mod slab;
mod state;
mod sync;
mod taken;
mod tray;
mod tuner;
mod work;

pub use batch::Batch;
pub use dtype::{DType, Element};
pub use engine::{Engine, Next, Position, Settings};
pub use error::Error;
pub use failure::{BoxError, Cause, Failure, Manifest, OnFailure, What};
pub use gauges::{ConsumerGauge, Gauges, QueueGauge, WorkerGauge};
pub use half::{bf16, f16};
pub use layout::{ALIGN, Field, Layout, LayoutError, Ragged};
pub use order::{
    Arrangement, Grouped, Sampler, Sequential, Shuffle, Subset, WeightError, Weighted, WithReplacement,
};
pub use plan::{
    BatchList, Cursor, Draw, MakeBatches, Plan, PlanError, Sampled, Shard, ShardError, Spare, Uneven,
};
pub use pool::{Pool, PoolGauge};
pub use rng::{Key, Purpose, SampleRng};
pub use row::{FieldKey, RowError, RowMut, RowsMut};
pub use schedule::Window;
pub use slab::{Arena, Slab};
pub use state::{State, StateError};
pub use tray::Tray;
pub use tuner::{Limits, Seen, Tuner};
pub use work::{Run, Unit, Work};
