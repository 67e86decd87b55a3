//! Mirror images.

use feedline_core::SampleRng;

use super::{Refused, Shape, Transform};
use crate::{MediaError, canvas::Canvas};

/// Left to right, with a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirror(pub f64);

/// Upside down, with a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flip(pub f64);

fn check(probability: f64, before: Shape) -> Result<Shape, Refused> {
    if (0.0..=1.0).contains(&probability) {
        return Ok(before);
    }
    Err(Refused(format!("flip: a probability lies between 0 and 1, {probability} does not")))
}

impl Transform for Mirror {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        check(self.0, before)
    }

    fn apply(&self, canvas: &mut Canvas<'_>, rng: &mut SampleRng) -> Result<(), MediaError> {
        if rng.chance(self.0) {
            canvas.mirror();
        }
        Ok(())
    }

    fn is_random(&self) -> bool {
        self.0 > 0.0 && self.0 < 1.0
    }
}

impl Transform for Flip {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        check(self.0, before)
    }

    fn apply(&self, canvas: &mut Canvas<'_>, rng: &mut SampleRng) -> Result<(), MediaError> {
        if rng.chance(self.0) {
            canvas.flip();
        }
        Ok(())
    }

    fn is_random(&self) -> bool {
        self.0 > 0.0 && self.0 < 1.0
    }
}
