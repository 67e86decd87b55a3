//! Bytes to arrays: codecs and transforms. Nothing here opens a file.
//!
//! ```text
//! bytes ─► canvas: crop, resize, flip, … (noted) ─► decode, resample (only what is wanted) ─► normalise ─► row of a batch
//! ```
//!
//! The primitives write into memory of the caller; what they need besides is a [`Scratch`] that a worker keeps, so that
//! a sample allocates nothing.
//!
//! | file | what it is |
//! |---|---|
//! | [`pipeline`] | checked steps to rows of one shape |
//! | [`transform`] | the steps, one file for each kind |
//! | [`canvas`] | an image on its way, of which as little is made as possible |
//! | [`codec`] | files of each format to pixels |
//! | [`resample`] | another size, to the bit as Pillow or as torchvision |
//! | [`normalise`] | to floats, planes instead of interleaved channels, in one pass |
//! | [`pixels`] | a view of an image |
//! | [`tensor`] | arrays in files, found and read |
//! | [`tiff`] | TIFF: any number of channels, of numbers of many types, to planes |
//! | [`stack`] | planes of such numbers to rows: another size, floats, means and deviations |
//! | [`volume`] | volumes of medicine: NRRD, NIfTI |
//! | [`voxels`] | what is done to volumes, as scipy does it |

pub mod canvas;
pub mod codec;
pub mod normalise;
pub mod pipeline;
pub mod pixels;
pub mod resample;
pub mod stack;
pub mod tensor;
pub mod tiff;
pub mod transform;
pub mod volume;
pub mod voxels;

pub use canvas::Scratch;
pub use codec::Decode;
pub use pipeline::{Arrangement, MeanStd, Numbers, Pipeline};
pub use pixels::{Pixels, Rect};
pub use resample::{Filter, Like};
pub use transform::{Refused, Transform};

/// An image that cannot be made into a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// It is not of a format that can be decoded.
    #[error("it cannot be decoded; its content is {0}")]
    Unknown(&'static str),
    /// It is damaged.
    #[error("the {0} image is damaged: {1}")]
    Damaged(&'static str, String),
    /// It ends too early.
    #[error("the {0} image is truncated")]
    Truncated(&'static str),
    /// It is of a kind that is not read.
    #[error("the {0} image is not read here: {1}")]
    Unread(&'static str, String),
    /// It is larger than is allowed.
    #[error("the image has {width} × {height} pixels, more than {most}")]
    TooLarge {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
        /// What is allowed.
        most: usize,
    },
    /// A step does not fit.
    #[error("{0}")]
    Shape(String),
    /// A decoder could not be made.
    #[error("there is no memory for a decoder")]
    NoMemory,
}
