//! What happens to an image on its way into a batch.

mod colour;
mod crop;
mod flip;
mod grayscale;
mod pad;
mod resize;
mod upright;

use std::fmt::Debug;

use feedline_core::SampleRng;

pub use colour::ColourJitter;
pub use crop::{CentreCrop, RandomCrop, RandomResizedCrop};
pub use flip::{Flip, Way};
pub use grayscale::Grayscale;
pub use pad::Pad;
pub use resize::{ResizeShort, ResizeTo};
pub use upright::Upright;

use crate::{MediaError, canvas::Canvas};

/// What is known of images before there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Width and height, if all images have the same.
    pub size: Option<(usize, usize)>,
    /// Channels of a pixel.
    pub channels: usize,
}

/// A transform that cannot be where it is. It says why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// One step.
pub trait Transform: Debug + Send + Sync {
    /// What becomes of a shape.
    fn shape(&self, before: Shape) -> Result<Shape, Refused>;

    /// What becomes of an image. Random numbers are those of the sample.
    fn apply(&self, canvas: &mut Canvas<'_>, rng: &mut SampleRng) -> Result<(), MediaError>;

    /// Whether it draws random numbers.
    fn is_random(&self) -> bool {
        false
    }
}

/// Refuses what is no probability.
pub(crate) fn check_probability(probability: f64) -> Result<(), Refused> {
    if (0.0..=1.0).contains(&probability) {
        return Ok(());
    }
    Err(Refused(format!("flip: a probability lies between 0 and 1, {probability} does not")))
}

/// Refuses sizes of nothing, and those that no memory holds.
pub(crate) fn check_size(what: &str, size: (usize, usize)) -> Result<(), Refused> {
    const LONGEST: usize = 1 << 15;
    if (1..=LONGEST).contains(&size.0) && (1..=LONGEST).contains(&size.1) {
        return Ok(());
    }
    Err(Refused(format!("{what} to {} × {}: each side should be from 1 to {LONGEST}", size.0, size.1)))
}

/// A number between two others.
fn between(rng: &mut SampleRng, (low, high): (f64, f64)) -> f64 {
    low + (high - low) * rng.uniform()
}
