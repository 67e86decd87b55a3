//! Operations on volumes: what medical pipelines do between reading a file and filling a row.
//!
//! All volumes are in C order: the last axis is the fastest. A mask is of bytes, and whatever is not 0 is in it. What an
//! operation needs besides its input and output is memory that it keeps, so that a worker allocates next to nothing per
//! sample.
//!
//! | file | what it is | the same as |
//! |---|---|---|
//! | [`view`] | a volume that somebody else owns | |
//! | [`number`] | what a voxel can be | |
//! | [`morphology`] | masks that shrink and grow by a voxel in all directions | `scipy.ndimage.binary_erosion`, torch's `max_pool3d` |
//! | [`distance`] | how far it is to the nearest voxel outside the mask | `scipy.ndimage.distance_transform_edt` |
//! | [`falloff`] | a map that is 1 where the distance is 0, and falls like a bell | numpy's `exp` |
//! | [`gaussian`] | a blur | `scipy.ndimage.gaussian_filter` |
//! | [`spacing`] | other distances between voxels | `scipy.ndimage.zoom` |
//! | [`window`] | the values that matter, spread over 0 to 1 or over their deviation | numpy's `clip` |
//! | [`crop_pad`] | another shape, around the same middle | |
//! | [`flip`] | mirror images | numpy's `flip` |
//! | [`slice`](mod@slice) | one slice across an axis | numpy's indexing |
//! | [`label`] | the mask of some labels | numpy's `isin` |
//! | [`patch`] | random places, as often as wanted around a label | |
//!
//! The two that take long, distances and blurs, can use several threads: for when there are fewer samples than
//! processors.

pub mod crop_pad;
pub mod distance;
pub mod falloff;
pub mod flip;
pub mod gaussian;
pub mod label;
pub mod morphology;
pub mod number;
pub mod patch;
pub mod slice;
pub mod spacing;
pub mod view;
pub mod window;

mod bands;

pub use distance::Distance;
pub use gaussian::{Edge, Gaussian};
pub use morphology::Morphology;
pub use number::{Float, Number};
pub use patch::Patch;
pub use spacing::{Between, Resample, Spacing};
pub use view::Voxels;
pub use window::{Scale, Window};
