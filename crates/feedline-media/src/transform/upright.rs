//! As the camera was held.

use feedline_core::SampleRng;

use super::{Refused, Shape, Transform};
use crate::{MediaError, canvas::Canvas};

/// Turns an image upright, if its file says how it was taken. It comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upright;

impl Transform for Upright {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        if before.size.is_some() {
            return Err(Refused("upright: an image is turned before it is cut".into()));
        }
        Ok(before)
    }

    fn apply(&self, canvas: &mut Canvas<'_>, _: &mut SampleRng) -> Result<(), MediaError> {
        let orientation = canvas.orientation();
        // From five on, rows and columns are exchanged first.
        if orientation >= 5 {
            transpose(canvas)?;
        }
        if matches!(orientation, 2 | 3 | 6 | 7) {
            canvas.mirror();
        }
        if matches!(orientation, 3 | 4 | 7 | 8) {
            canvas.flip();
        }
        Ok(())
    }
}

fn transpose(canvas: &mut Canvas<'_>) -> Result<(), MediaError> {
    let ((width, height), channels) = (canvas.size(), canvas.channels());
    canvas.replace((height, width), channels, |image, out| {
        for y in 0..height {
            for (x, pixel) in image.row(y).chunks_exact(channels).enumerate() {
                out[(x * height + y) * channels..][..channels].copy_from_slice(pixel);
            }
        }
    })
}
