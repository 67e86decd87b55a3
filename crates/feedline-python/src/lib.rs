//! The native half of the `feedline` package: it translates between Python and Rust, and nothing else.
//!
//! | file | what it is |
//! |---|---|
//! | `memory.rs` | shared memory, and batches that give it back when the last tensor of theirs is gone |
//! | `board.rs` | the consumer's side: post, wait, collect |
//! | `seat.rs` | a worker's side: claim, fill, done |
//! | `columns.rs` | samples of a known structure, written as rows of columns |
//! | `files.rs` | images and tensors in files, made into rows without Python |
//! | `text.rs` | texts, made into batches without Python |
//! | `parcel.rs` | any other batch: a pickle with its arrays beside it |
//! | `places.rs` | memory that others write to: whether they have |
//! | `shared_cache.rs` | what a dataset keeps for all workers |
//! | `tuner.rs` | how many workers there should be |
//! | `volumes.rs` | volumes of medicine in files |
//! | `voxels.rs` | operations on volumes, from array to array |
//! | `watch.rs` | a worker does not outlive the process that started it |

mod board;
mod columns;
mod files;
mod memory;
mod parcel;
mod places;
mod seat;
mod shared_cache;
mod text;
mod tuner;
mod volumes;
mod voxels;
mod watch;

use std::ffi::OsString;

use feedline_core::{Key, Purpose, Sampler as _, Shuffle};
use pyo3::prelude::*;

/// The seed of a sample's random numbers.
#[pyfunction]
fn sample_seed(seed: u64, epoch: u64, index: u64) -> u64 {
    Key::new(seed, epoch, Purpose::Sample).draw(index)
}

/// The order of an epoch: the numbers below `len`, shuffled by (seed, epoch).
#[pyfunction]
fn shuffled(py: Python<'_>, len: usize, seed: u64, epoch: u64) -> Vec<usize> {
    py.detach(|| {
        let order = Shuffle(len).arrange(seed, epoch);
        (0..len).map(|position| order(position)).collect()
    })
}

/// Runs the `feedline` command and returns its exit code. `itself` is how to start it again.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<OsString>, itself: Vec<OsString>, python: OsString) -> u8 {
    py.detach(|| feedline_cli::run(arguments, &itself, Some(python)))
}

#[pymodule]
mod _engine {
    #[pymodule_export]
    use super::{
        board::{Board, Collected},
        columns::Columns,
        command,
        files::{FileRows, list_folder, list_table},
        memory::{Commons, Hold, Lent},
        places::Places,
        sample_seed,
        seat::{Claim, Seat},
        shared_cache::{Kept, SharedCache, Turn},
        shuffled,
        text::{TextCrew, TextRows, Texts, list_texts},
        tuner::Tuner,
        volumes::{Volume, read_volume},
        voxels::{
            voxels_crop_pad, voxels_distance, voxels_extents, voxels_falloff, voxels_flip, voxels_gaussian,
            voxels_label, voxels_linear, voxels_morphology, voxels_nearest, voxels_patch, voxels_slice,
            voxels_window,
        },
        watch::exit_with,
    };
}
