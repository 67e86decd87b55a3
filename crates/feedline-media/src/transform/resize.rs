//! Another size.

use feedline_core::SampleRng;

use super::{Refused, Shape, Transform, check_size};
use crate::{
    MediaError,
    canvas::Canvas,
    resample::{Filter, Like},
};

/// To a width and a height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResizeTo {
    /// Width and height.
    pub size: (usize, usize),
    /// How.
    pub filter: Filter,
    /// Like whom.
    pub like: Like,
}

impl Transform for ResizeTo {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        check_size("resize", self.size)?;
        Ok(Shape { size: Some(self.size), ..before })
    }

    fn apply(&self, canvas: &mut Canvas<'_>, _: &mut SampleRng) -> Result<(), MediaError> {
        canvas.resize(self.filter, self.like, self.size)
    }
}

/// The shorter side to a length, the longer one in proportion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResizeShort {
    /// The length.
    pub side: usize,
    /// What the longer side must not exceed; the shorter one gives way.
    pub longest: Option<usize>,
    /// How.
    pub filter: Filter,
    /// Like whom.
    pub like: Like,
}

impl ResizeShort {
    fn size(&self, (width, height): (usize, usize)) -> (usize, usize) {
        let (short, long) = (width.min(height), width.max(height));
        let (mut new_short, mut new_long) = (self.side, in_proportion(self.side, long, short));
        if let Some(longest) = self.longest
            && new_long > longest
        {
            (new_short, new_long) = (in_proportion(longest, new_short, new_long), longest);
        }
        if width <= height { (new_short, new_long) } else { (new_long, new_short) }
    }
}

/// `length * this / that`, in floats and cut off, as Python has it.
fn in_proportion(length: usize, this: usize, that: usize) -> usize {
    ((length * this) as f64 / that as f64) as usize
}

impl Transform for ResizeShort {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        check_size("resize", (self.side, self.side))?;
        if self.longest.is_some_and(|longest| longest <= self.side) {
            return Err(Refused(
                "resize: the longer side's limit should be above the shorter side's length".into(),
            ));
        }
        Ok(Shape { size: before.size.map(|size| self.size(size)), ..before })
    }

    fn apply(&self, canvas: &mut Canvas<'_>, _: &mut SampleRng) -> Result<(), MediaError> {
        let size = self.size(canvas.size());
        if size.0 == 0 || size.1 == 0 || size.0.max(size.1) > 1 << 20 {
            return Err(MediaError::Shape(format!("it cannot be brought to {} × {} pixels", size.0, size.1)));
        }
        canvas.resize(self.filter, self.like, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_side_follows() {
        let mut resize =
            ResizeShort { side: 256, longest: None, filter: Filter::Bilinear, like: Like::Pillow };
        assert_eq!(resize.size((500, 375)), (341, 256));
        assert_eq!(resize.size((375, 500)), (256, 341));
        assert_eq!(resize.size((300, 300)), (256, 256));
        resize.longest = Some(300);
        assert_eq!(resize.size((500, 375)), (300, 225));
        assert!(resize.shape(Shape { size: None, channels: 3 }).is_ok());
        resize.longest = Some(256);
        assert!(resize.shape(Shape { size: None, channels: 3 }).is_err());
    }
}
