//! The native half of the `feedline` package: it translates between Python and Rust, and nothing else.
//!
//! | file | what it is |
//! |---|---|
//! | `memory.rs` | shared memory, and batches that give it back when the last tensor of theirs is gone |
//! | `board.rs` | the consumer's side: post, wait, collect |
//! | `seat.rs` | a worker's side: claim, fill, done |
//! | `columns.rs` | samples of a known structure, written as rows of columns |
//! | `files.rs` | images and tensors in files, made into rows without Python |
//! | `parcel.rs` | any other batch: a pickle with its arrays beside it |
//! | `voxels.rs` | operations on volumes, from array to array |
//! | `watch.rs` | a worker does not outlive the process that started it |

mod board;
mod columns;
mod files;
mod memory;
mod parcel;
mod seat;
mod voxels;
mod watch;

use std::ffi::OsString;

use feedline_core::{Key, Purpose};
use pyo3::prelude::*;

/// The seed of a sample's random numbers.
#[pyfunction]
fn sample_seed(seed: u64, epoch: u64, index: u64) -> u64 {
    Key::new(seed, epoch, Purpose::Sample).draw(index)
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
        files::{FileRows, list_folder},
        memory::{Commons, Hold},
        sample_seed,
        seat::{Claim, Seat},
        voxels::{
            voxels_crop_pad, voxels_distance, voxels_extents, voxels_falloff, voxels_flip, voxels_gaussian,
            voxels_label, voxels_linear, voxels_morphology, voxels_nearest, voxels_patch, voxels_slice,
            voxels_window,
        },
        watch::exit_with,
    };
}
