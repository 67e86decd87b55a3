//! Mirror images.

use feedline_core::SampleRng;

use super::{Refused, Shape, Transform, check_probability};
use crate::{MediaError, canvas::Canvas};

/// Turned over, with a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flip {
    /// Left to right, or upside down.
    pub way: Way,
    /// How often.
    pub probability: f64,
}

/// How an image is turned over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Left to right.
    Mirror,
    /// Upside down.
    UpsideDown,
}

impl Transform for Flip {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        check_probability(self.probability)?;
        Ok(before)
    }

    fn apply(&self, canvas: &mut Canvas<'_>, rng: &mut SampleRng) -> Result<(), MediaError> {
        if rng.chance(self.probability) {
            match self.way {
                Way::Mirror => canvas.mirror(),
                Way::UpsideDown => canvas.flip(),
            }
        }
        Ok(())
    }

    fn is_random(&self) -> bool {
        self.probability > 0.0 && self.probability < 1.0
    }
}
