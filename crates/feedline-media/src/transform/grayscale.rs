//! Shades of one colour.

use feedline_core::SampleRng;

use super::{Refused, Shape, Transform};
use crate::{MediaError, canvas::Canvas, resample::Like};

/// Brightness alone, in one channel or three.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grayscale {
    /// Channels of the result.
    pub channels: usize,
    /// How likely it is.
    pub probability: f64,
    /// Like whom: of tensors, torchvision counts in floats.
    pub like: Like,
}

/// How bright a pixel is.
pub(super) fn brightness([red, green, blue]: [u8; 3], like: Like) -> u8 {
    match like {
        Like::Pillow | Like::OlderPillow => {
            let [red, green, blue] = [red, green, blue].map(u32::from);
            ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16) as u8
        }
        Like::Torchvision => {
            let [red, green, blue] = [red, green, blue].map(f32::from);
            (0.2989f32 * red + 0.587f32 * green + 0.114f32 * blue) as u8
        }
    }
}

impl Transform for Grayscale {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        if before.channels != 3 {
            return Err(Refused("grayscale: the image is gray already".into()));
        }
        let always = self.probability == 1.0;
        if !(self.channels == 3 || (self.channels == 1 && always)) {
            return Err(Refused("grayscale: 1 or 3 channels, and 3 where it is left to chance".into()));
        }
        Ok(Shape { channels: self.channels, ..before })
    }

    fn apply(&self, canvas: &mut Canvas<'_>, rng: &mut SampleRng) -> Result<(), MediaError> {
        if self.probability < 1.0 && !rng.chance(self.probability) {
            return Ok(());
        }
        let (size, channels) = (canvas.size(), self.channels);
        canvas.replace(size, channels, |image, out| {
            for (y, out) in out.chunks_exact_mut(size.0 * channels).enumerate() {
                let (pixels, _) = image.row(y).as_chunks::<3>();
                for (pixel, out) in pixels.iter().zip(out.chunks_exact_mut(channels)) {
                    out.fill(brightness(*pixel, self.like));
                }
            }
        })
    }

    fn is_random(&self) -> bool {
        self.probability < 1.0
    }
}
