//! A border of one colour.

use feedline_core::SampleRng;

use super::{Refused, Shape, Transform, check_size};
use crate::{MediaError, canvas::Canvas};

/// A border: left, above, right, below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pad {
    /// Its widths.
    pub sides: [usize; 4],
    /// Its colour.
    pub fill: [u8; 3],
}

impl Pad {
    /// A black one.
    pub fn black(left: usize, top: usize, right: usize, bottom: usize) -> Self {
        Self { sides: [left, top, right, bottom], fill: [0; 3] }
    }

    fn size(&self, (width, height): (usize, usize)) -> (usize, usize) {
        let [left, top, right, bottom] = self.sides;
        (width + left + right, height + top + bottom)
    }
}

impl Transform for Pad {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        for side in self.sides {
            check_size("pad", (side + 1, side + 1))?;
        }
        Ok(Shape { size: before.size.map(|size| self.size(size)), ..before })
    }

    fn apply(&self, canvas: &mut Canvas<'_>, _: &mut SampleRng) -> Result<(), MediaError> {
        let (size, channels) = (self.size(canvas.size()), canvas.channels());
        let [left, top, ..] = self.sides;
        canvas.replace(size, channels, |image, out| {
            for pixel in out.chunks_exact_mut(channels) {
                pixel.copy_from_slice(&self.fill[..channels]);
            }
            for y in 0..image.height() {
                let begin = ((top + y) * size.0 + left) * channels;
                out[begin..][..image.row(y).len()].copy_from_slice(image.row(y));
            }
        })
    }
}
