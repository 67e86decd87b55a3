//! A part of the image: from the middle, from anywhere, or from anywhere and of any size.

use feedline_core::SampleRng;

use super::{Pad, Refused, Shape, Transform, between, check_size};
use crate::{
    MediaError,
    canvas::Canvas,
    pixels::Rect,
    resample::{Filter, Like},
};

/// The middle. An image that is smaller gets a black border first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CentreCrop {
    /// Width and height.
    pub size: (usize, usize),
}

impl Transform for CentreCrop {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        check_size("centre crop", self.size)?;
        Ok(Shape { size: Some(self.size), ..before })
    }

    fn apply(&self, canvas: &mut Canvas<'_>, rng: &mut SampleRng) -> Result<(), MediaError> {
        let missing = missing(self.size, canvas.size());
        if missing != (0, 0) {
            let (left, top) = (missing.0 / 2, missing.1 / 2);
            Pad::black(left, top, missing.0.div_ceil(2), missing.1.div_ceil(2)).apply(canvas, rng)?;
        }
        let (width, height) = canvas.size();
        let middle = |all: usize, part: usize| ((all - part) as f64 / 2.0).round_ties_even() as usize;
        let (x, y) = (middle(width, self.size.0), middle(height, self.size.1));
        canvas.crop(Rect { x, y, width: self.size.0, height: self.size.1 });
        Ok(())
    }
}

fn missing(wanted: (usize, usize), there: (usize, usize)) -> (usize, usize) {
    (wanted.0.saturating_sub(there.0), wanted.1.saturating_sub(there.1))
}

/// A part from anywhere.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomCrop {
    /// Width and height.
    pub size: (usize, usize),
    /// A border that is put around the image before.
    pub pad: Option<Pad>,
    /// Whether an image that is too small gets a border as well, of what is missing, on both sides.
    pub if_needed: Option<[u8; 3]>,
}

impl Transform for RandomCrop {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        check_size("random crop", self.size)?;
        let padded = self.pad.as_ref().map_or(Ok(before), |pad| pad.shape(before))?;
        if let (Some(size), None) = (padded.size, self.if_needed)
            && missing(self.size, size) != (0, 0)
        {
            let ((width, height), (there, high)) = (self.size, size);
            return Err(Refused(format!(
                "a random crop of {width} × {height} does not fit into {there} × {high}: resize before it, or pad"
            )));
        }
        Ok(Shape { size: Some(self.size), ..before })
    }

    fn apply(&self, canvas: &mut Canvas<'_>, rng: &mut SampleRng) -> Result<(), MediaError> {
        if let Some(pad) = &self.pad {
            pad.apply(canvas, rng)?;
        }
        let missing = missing(self.size, canvas.size());
        if let Some(fill) = self.if_needed {
            if missing.0 > 0 {
                Pad { sides: [missing.0, 0, missing.0, 0], fill }.apply(canvas, rng)?;
            }
            if missing.1 > 0 {
                Pad { sides: [0, missing.1, 0, missing.1], fill }.apply(canvas, rng)?;
            }
        } else if missing != (0, 0) {
            let ((width, height), (there, high)) = (self.size, canvas.size());
            return Err(MediaError::Shape(format!(
                "a crop of {width} × {height} does not fit into {there} × {high} pixels: resize before it, or pad"
            )));
        }
        let (width, height) = canvas.size();
        let y = rng.below((height - self.size.1 + 1) as u64) as usize;
        let x = rng.below((width - self.size.0 + 1) as u64) as usize;
        canvas.crop(Rect { x, y, width: self.size.0, height: self.size.1 });
        Ok(())
    }

    fn is_random(&self) -> bool {
        true
    }
}

/// A part from anywhere, of any size and about any shape, brought to one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomResizedCrop {
    /// Width and height.
    pub size: (usize, usize),
    /// Which share of the area is kept, between these.
    pub scale: (f64, f64),
    /// Width by height, between these.
    pub ratio: (f64, f64),
    /// How.
    pub filter: Filter,
    /// Like whom.
    pub like: Like,
}

impl RandomResizedCrop {
    fn rect(&self, (width, height): (usize, usize), rng: &mut SampleRng) -> Rect {
        let area = (width * height) as f64;
        for _ in 0..10 {
            let target = area * between(rng, self.scale);
            let ratio = between(rng, (self.ratio.0.ln(), self.ratio.1.ln())).exp();
            let w = (target * ratio).sqrt().round_ties_even() as usize;
            let h = (target / ratio).sqrt().round_ties_even() as usize;
            if (1..=width).contains(&w) && (1..=height).contains(&h) {
                let y = rng.below((height - h + 1) as u64) as usize;
                let x = rng.below((width - w + 1) as u64) as usize;
                return Rect { x, y, width: w, height: h };
            }
        }
        // None fits: as much as possible of the middle.
        let whole = width as f64 / height as f64;
        let (mut w, mut h) = (width, height);
        if whole < self.ratio.0 {
            h = (width as f64 / self.ratio.0).round_ties_even() as usize;
        } else if whole > self.ratio.1 {
            w = (height as f64 * self.ratio.1).round_ties_even() as usize;
        }
        let (w, h) = (w.clamp(1, width), h.clamp(1, height));
        Rect { x: (width - w) / 2, y: (height - h) / 2, width: w, height: h }
    }
}

impl Transform for RandomResizedCrop {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        check_size("random resized crop", self.size)?;
        let is_range = |(low, high): (f64, f64)| low > 0.0 && low <= high && high.is_finite();
        if !is_range(self.scale) || !is_range(self.ratio) {
            return Err(Refused(
                "random resized crop: scale and ratio should be (low, high), above 0".into(),
            ));
        }
        Ok(Shape { size: Some(self.size), ..before })
    }

    fn apply(&self, canvas: &mut Canvas<'_>, rng: &mut SampleRng) -> Result<(), MediaError> {
        canvas.crop(self.rect(canvas.size(), rng));
        canvas.resize(self.filter, self.like, self.size)
    }

    fn is_random(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use feedline_core::{Key, Purpose};

    use super::*;

    #[test]
    fn random_parts_keep_their_promises() {
        let crop = RandomResizedCrop {
            size: (224, 224),
            scale: (0.08, 1.0),
            ratio: (0.75, 4.0 / 3.0),
            filter: Filter::Bilinear,
            like: Like::Pillow,
        };
        let key = Key::new(1, 0, Purpose::Sample);
        for n in 0..2000 {
            let (width, height) = (500, 375);
            let rect = crop.rect((width, height), &mut key.rng(n));
            assert!(rect.x + rect.width <= width && rect.y + rect.height <= height);
            let share = (rect.width * rect.height) as f64 / (width * height) as f64;
            let ratio = rect.width as f64 / rect.height as f64;
            assert!((0.078..=1.0).contains(&share) && (0.73..1.36).contains(&ratio), "{rect:?}");
        }
        // A stripe holds nothing of that shape: then its middle.
        assert_eq!(crop.rect((1000, 3), &mut key.rng(0)), Rect { x: 498, y: 0, width: 4, height: 3 });
    }
}
