//! Another size for an image, to the bit as Pillow makes it, or as torchvision does of tensors.
//!
//! Each output pixel is a weighted mean of the input pixels around the place it comes from: first along the rows, then
//! along the columns (or the other way round, see [`Like`]), rounded to u8 after each. Weights are integers, so that every machine agrees. Where an image
//! shrinks, the filter grows with it (antialias).
//!
//! Only what is asked for is made: a [`Resize`] knows which part of its result is wanted, says which part of the image
//! it needs for that, and is then given no more.

pub mod floats;
mod passes;

use std::ops::Range;

use crate::pixels::{Pixels, Rect, room};

/// How pixels between pixels are guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The nearest pixel.
    Nearest,
    /// Straight lines.
    Bilinear,
    /// Curves through four pixels.
    Bicubic,
}

/// Whose results are to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Like {
    /// `PIL.Image.resize`: weights of 22 bits; columns first if the height shrinks by more than twice as many pixels
    /// as the width.
    #[default]
    Pillow,
    /// The same before Pillow 13: rows first.
    OlderPillow,
    /// `torchvision`'s resize of u8 tensors with antialias: weights of 16 bits.
    Torchvision,
}

impl Filter {
    /// How far it reaches, in pixels of the smaller image.
    fn support(self) -> f64 {
        match self {
            Self::Nearest => 0.5,
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
        }
    }

    fn at(self, x: f64) -> f64 {
        let x = x.abs();
        match self {
            Self::Nearest => f64::from(u8::from(x <= 0.5)),
            Self::Bilinear => (1.0 - x).max(0.0),
            // The cubic of Keys with a = -0.5.
            Self::Bicubic if x < 1.0 => ((-0.5 + 2.0) * x - (-0.5 + 3.0)) * x * x + 1.0,
            Self::Bicubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5,
            Self::Bicubic => 0.0,
        }
    }
}

/// Where the inputs of an output are, and its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// The first input.
    first: usize,
    /// Where its weights are.
    begin: usize,
    end: usize,
}

/// The weights of one direction, for some of its outputs.
#[derive(Clone, Debug, Default)]
struct Weights {
    spans: Vec<Span>,
    values: Vec<i32>,
    /// Bits of a weight behind the point.
    bits: u32,
    /// The inputs that are needed. Spans count from the first of them.
    needs: Range<usize>,
    exact: Vec<f64>,
    fours: passes::Fours,
}

impl Weights {
    /// From `inputs` pixels to `outputs`, of which `wanted` are made.
    fn set(&mut self, filter: Filter, like: Like, inputs: usize, outputs: usize, wanted: Range<usize>) {
        self.spans.clear();
        self.values.clear();
        self.exact.clear();
        match filter {
            // Of the same size, every pixel is its own.
            _ if inputs == outputs => self.nearest(Like::Pillow, inputs, outputs, wanted),
            Filter::Nearest => self.nearest(like, inputs, outputs, wanted),
            _ => self.smooth(filter, like, inputs, outputs, wanted),
        }
        let first = self.spans.iter().map(|span| span.first).min().unwrap_or(0);
        let end = self.spans.iter().map(|span| span.first + span.end - span.begin).max().unwrap_or(0);
        self.needs = first..end;
        for span in &mut self.spans {
            span.first -= first;
        }
        self.fours.set(&self.spans, &self.values);
    }

    fn nearest(&mut self, like: Like, inputs: usize, outputs: usize, wanted: Range<usize>) {
        self.bits = 14;
        let scale = inputs as f64 / outputs as f64;
        // Pillow goes from place to place, and what is lost by rounding adds up.
        let mut place = 0.5 * scale;
        for at in 0..wanted.end {
            let nearest = match like {
                Like::Pillow | Like::OlderPillow => place as usize,
                Like::Torchvision => (at as f32 * (inputs as f32 / outputs as f32)) as usize,
            };
            place += scale;
            if at >= wanted.start {
                let begin = self.values.len();
                self.spans.push(Span { first: nearest.min(inputs - 1), begin, end: begin + 1 });
                self.values.push(1 << self.bits);
            }
        }
    }

    fn smooth(&mut self, filter: Filter, like: Like, inputs: usize, outputs: usize, wanted: Range<usize>) {
        let scale = inputs as f64 / outputs as f64;
        // An image that grows is looked at pixel by pixel; one that shrinks, through a wider filter.
        let wider = scale.max(1.0);
        let reach = filter.support() * wider;
        // Torch's precision depends on its largest weight, wanted or not.
        let looked_at = if like == Like::Torchvision { 0..outputs } else { wanted.clone() };
        let mut largest = 0f64;
        for at in looked_at {
            let centre = (at as f64 + 0.5) * scale;
            let first = ((centre - reach + 0.5) as i64).max(0) as usize;
            let end = ((centre + reach + 0.5) as i64).min(inputs as i64) as usize;
            let begin = self.exact.len();
            self.exact.extend((first..end).map(|x| filter.at((x as f64 - centre + 0.5) * (1.0 / wider))));
            let sum: f64 = self.exact[begin..].iter().sum();
            if sum != 0.0 {
                // Each is divided, as they do: to multiply by the inverse would round otherwise.
                self.exact[begin..].iter_mut().for_each(|weight| *weight /= sum);
            }
            largest = self.exact[begin..].iter().copied().fold(largest, f64::max);
            if wanted.contains(&at) {
                self.spans.push(Span { first, begin, end: self.exact.len() });
            } else {
                self.exact.truncate(begin);
            }
        }
        self.bits = match like {
            // 8 bits of a pixel and 22 of a weight leave two: sums of some filters overshoot.
            Like::Pillow | Like::OlderPillow => 32 - 8 - 2,
            Like::Torchvision => {
                let fits = |bits: &u32| (0.5 + largest * f64::from(1 << (bits + 1))) as i64 >= 1 << 15;
                (0..22).find(fits).unwrap_or(22)
            }
        };
        let one = f64::from(1 << self.bits);
        self.values.extend(self.exact.iter().map(|weight| (weight * one + 0.5f64.copysign(*weight)) as i32));
    }
}

/// A change of size, worked out for images of one size and used until it is set anew. It keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Resize {
    set: Option<Setting>,
    across: Weights,
    down: Weights,
    between: Vec<u8>,
}

/// What a [`Resize`] is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// How.
    pub filter: Filter,
    /// Like whom.
    pub like: Like,
    /// Width and height before.
    pub from: (usize, usize),
    /// Width and height after.
    pub to: (usize, usize),
    /// The part of the result that is wanted.
    pub wanted: Rect,
}

impl Resize {
    /// Works out the weights. `None` if there is nothing to make, or the part is not one.
    pub fn set(&mut self, setting: Setting) -> Option<&mut Self> {
        if self.set == Some(setting) {
            return Some(self);
        }
        let Setting { filter, like, from, to, wanted } = setting;
        let inside =
            wanted.x.checked_add(wanted.width)? <= to.0 && wanted.y.checked_add(wanted.height)? <= to.1;
        if !inside || [from.0, from.1, wanted.width, wanted.height].contains(&0) {
            return None;
        }
        self.across.set(filter, like, from.0, to.0, wanted.x..wanted.x + wanted.width);
        self.down.set(filter, like, from.1, to.1, wanted.y..wanted.y + wanted.height);
        self.set = Some(setting);
        Some(self)
    }

    /// The part of the image that matters.
    pub fn needs(&self) -> Rect {
        let (columns, rows) = (&self.across.needs, &self.down.needs);
        Rect { x: columns.start, y: rows.start, width: columns.len(), height: rows.len() }
    }

    /// Writes the wanted part, rows without gaps, from the part that is needed.
    ///
    /// # Panics
    /// If the part has another size than was said, or the memory is too small.
    pub fn write(&mut self, part: Pixels<'_>, out: &mut [u8]) {
        let setting = self.set.expect("it was set");
        let (needs, wanted, channels) = (self.needs(), setting.wanted, part.channels());
        assert_eq!((part.width(), part.height()), (needs.width, needs.height), "another part was asked for");
        let out = &mut out[..wanted.width * channels * wanted.height];
        // A direction that keeps its size needs no pass.
        let (same_width, same_height) = (setting.from.0 == setting.to.0, setting.from.1 == setting.to.1);
        if same_height {
            return self.across(same_width, part, out);
        }
        if same_width {
            return self.down(part, out);
        }
        let mut between = std::mem::take(&mut self.between);
        if setting.columns_first() {
            let memory = room(&mut between, needs.width * wanted.height * channels);
            self.down(part, memory);
            let shrunk = Pixels::new(memory, needs.width, wanted.height, channels);
            self.across(false, shrunk.expect("it was made to fit"), out);
        } else {
            let memory = room(&mut between, wanted.width * needs.height * channels);
            self.across(false, part, memory);
            let shrunk = Pixels::new(memory, wanted.width, needs.height, channels);
            self.down(shrunk.expect("it was made to fit"), out);
        }
        self.between = between;
    }

    fn across(&self, same: bool, image: Pixels<'_>, out: &mut [u8]) {
        if !same {
            return passes::across(&self.across, image.channels(), |y| image.row(y), out);
        }
        let row = self.across.spans.len() * image.channels();
        for (y, target) in out.chunks_exact_mut(row).enumerate() {
            target.copy_from_slice(&image.row(y)[..row]);
        }
    }

    fn down(&self, image: Pixels<'_>, out: &mut [u8]) {
        let row = out.len() / self.down.spans.len();
        for (span, target) in self.down.spans.iter().zip(out.chunks_exact_mut(row)) {
            let weights = &self.down.values[span.begin..span.end];
            let (rows, stride) = image.rows_from(span.first);
            passes::down(weights, self.down.bits, rows, stride, target);
        }
    }
}

impl Setting {
    fn columns_first(&self) -> bool {
        let lost = |from: usize, to: usize| from as i64 - to as i64;
        let (columns, rows) = (lost(self.from.0, self.to.0), lost(self.from.1, self.to.1));
        self.like == Like::Pillow && rows > 0 && rows > 2 * columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(size: (usize, usize)) -> Rect {
        Rect { x: 0, y: 0, width: size.0, height: size.1 }
    }

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 1u32;
        (0..bytes)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect()
    }

    fn resized(image: Pixels<'_>, filter: Filter, like: Like, to: (usize, usize), wanted: Rect) -> Vec<u8> {
        let from = (image.width(), image.height());
        let mut resize = Resize::default();
        resize.set(Setting { filter, like, from, to, wanted }).unwrap();
        let mut out = vec![0; wanted.width * wanted.height * image.channels()];
        resize.write(image.part(resize.needs()).unwrap(), &mut out);
        out
    }

    const FILTERS: [Filter; 3] = [Filter::Nearest, Filter::Bilinear, Filter::Bicubic];
    const BOTH: [Like; 2] = [Like::Pillow, Like::Torchvision];

    #[test]
    fn the_same_size_is_the_same_image() {
        let bytes = noise(7 * 5 * 3);
        let image = Pixels::new(&bytes, 7, 5, 3).unwrap();
        for filter in FILTERS {
            assert_eq!(resized(image, filter, Like::Pillow, (7, 5), whole((7, 5))), bytes);
        }
    }

    #[test]
    fn a_part_is_cut_from_what_the_whole_would_be() {
        for channels in [1, 2, 3, 4] {
            let bytes = noise(31 * 23 * channels);
            let image = Pixels::new(&bytes, 31, 23, channels).unwrap();
            for (filter, like) in FILTERS.into_iter().flat_map(|filter| BOTH.map(|like| (filter, like))) {
                for to in [(13, 11), (31, 9), (47, 23), (64, 50), (40, 7)] {
                    let all = resized(image, filter, like, to, whole(to));
                    let rect = Rect { x: 3, y: 2, width: 8, height: 5 };
                    let part = resized(image, filter, like, to, rect);
                    let all = Pixels::new(&all, to.0, to.1, channels).unwrap().part(rect).unwrap();
                    let expected: Vec<u8> = (0..rect.height).flat_map(|y| all.row(y).to_vec()).collect();
                    assert_eq!(part, expected, "{filter:?} {like:?} to {to:?}, {channels} channels");
                }
            }
        }
    }

    #[test]
    fn means_are_means() {
        // Two to one with straight lines: weights 3, 3, 1 of 7 at the border, (3 × 0 + 3 × 70 + 1 × 140) / 7 = 50.
        let image = Pixels::new(&[0, 70, 140, 210], 4, 1, 1).unwrap();
        for like in BOTH {
            assert_eq!(resized(image, Filter::Bilinear, like, (2, 1), whole((2, 1))), [50, 160]);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |from, to, wanted| {
            let setting = Setting { filter: Filter::Bilinear, like: Like::Pillow, from, to, wanted };
            Resize::default().set(setting).is_none()
        };
        assert!(refused((0, 5), (7, 5), whole((7, 5))));
        assert!(refused((7, 5), (7, 5), whole((8, 5))));
        assert!(refused((7, 5), (7, 5), whole((0, 5))));
        assert!(refused((7, 5), (7, 5), Rect { x: usize::MAX, y: 0, width: 2, height: 1 }));
    }
}
