//! An image on its way through transforms, of which as little is made as possible.
//!
//! Crops, a change of size and flips are only noted; they are done when pixels are asked for. By then it is known which
//! part of the image matters, and no other is decoded or resampled.

use crate::{
    MediaError,
    codec::{Codecs, Decode, Opened},
    normalise,
    pixels::{Pixels, Rect, room},
    resample::{Filter, Like, Resize, Setting},
};

/// What a worker keeps from image to image.
#[derive(Default)]
pub struct Scratch {
    codecs: Codecs,
    resize: Resize,
    decoded: Vec<u8>,
    resized: Vec<u8>,
    image: Vec<u8>,
    spare: Vec<u8>,
}

impl Scratch {
    /// One whose JPEG files are all decoded by libjpeg-turbo: to compare with.
    pub fn of_library() -> Self {
        Self { codecs: Codecs::of_library(), ..Self::default() }
    }
}

/// Flips that are still to be done: left and right, above and below.
pub type Flips = (bool, bool);

/// What is seen of the pixels that are there, or could be.
#[derive(Clone, Copy, Debug)]
struct View {
    /// The part that is looked at.
    source: Rect,
    /// The size it is brought to, if it is.
    resize: Option<(Filter, Like, (usize, usize))>,
    /// What is wanted of that.
    wanted: Rect,
    flips: Flips,
}

impl View {
    fn whole(width: usize, height: usize) -> Self {
        let rect = Rect { x: 0, y: 0, width, height };
        Self { source: rect, resize: None, wanted: rect, flips: (false, false) }
    }
}

enum Held<'a> {
    /// Bytes of a file, not decoded yet.
    Encoded(&'a [u8], Opened),
    /// Pixels of this width and height, in the scratch's image.
    Image(usize, usize),
    /// Pixels of somebody else.
    Lent(Pixels<'a>),
}

/// An image on its way.
pub struct Canvas<'a> {
    scratch: &'a mut Scratch,
    held: Held<'a>,
    channels: usize,
    view: View,
    decode: Decode,
}

impl<'a> Canvas<'a> {
    /// The image in a file's bytes, in three colours. Of the bytes, only the beginning is looked at.
    pub fn open(bytes: &'a [u8], scratch: &'a mut Scratch) -> Result<Self, MediaError> {
        let opened = scratch.codecs.open(bytes)?;
        let (width, height) = opened.size();
        Ok(Self {
            scratch,
            held: Held::Encoded(bytes, opened),
            channels: 3,
            view: View::whole(width, height),
            decode: Decode::Exact,
        })
    }

    /// How exactly it is to be decoded.
    #[must_use]
    pub fn decoding(mut self, decode: Decode) -> Self {
        self.decode = decode;
        self
    }

    /// An image that is decoded already.
    pub fn of(pixels: Pixels<'a>, scratch: &'a mut Scratch) -> Self {
        let view = View::whole(pixels.width(), pixels.height());
        Self { scratch, held: Held::Lent(pixels), channels: pixels.channels(), view, decode: Decode::Exact }
    }

    /// Width and height.
    pub fn size(&self) -> (usize, usize) {
        (self.view.wanted.width, self.view.wanted.height)
    }

    /// Channels of a pixel.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// How the camera was held, as the file says: 1 is upright.
    pub fn orientation(&self) -> u8 {
        match &self.held {
            Held::Encoded(_, opened) => opened.orientation(),
            Held::Image(..) | Held::Lent(_) => 1,
        }
    }

    /// Keeps a part.
    ///
    /// # Panics
    /// If it reaches outside.
    pub fn crop(&mut self, rect: Rect) {
        let (width, height) = self.size();
        assert!(
            rect.x + rect.width <= width && rect.y + rect.height <= height,
            "{rect:?} of {width} × {height}"
        );
        let view = &mut self.view;
        // In what is not flipped yet, it lies on the other side.
        let x = if view.flips.0 { width - rect.x - rect.width } else { rect.x };
        let y = if view.flips.1 { height - rect.y - rect.height } else { rect.y };
        view.wanted = Rect { x: view.wanted.x + x, y: view.wanted.y + y, ..rect };
        if view.resize.is_none() {
            view.source = view.wanted;
        }
    }

    /// Brings it to a size.
    pub fn resize(&mut self, filter: Filter, like: Like, to: (usize, usize)) -> Result<(), MediaError> {
        if to == self.size() {
            return Ok(());
        }
        if self.view.resize.is_some() || self.view.flips != (false, false) {
            self.settle()?;
        }
        self.view.resize = Some((filter, like, to));
        self.view.wanted = Rect { x: 0, y: 0, width: to.0, height: to.1 };
        Ok(())
    }

    /// Turns left to right.
    pub fn mirror(&mut self) {
        self.view.flips.0 ^= true;
    }

    /// Turns it upside down.
    pub fn flip(&mut self) {
        self.view.flips.1 ^= true;
    }

    /// Shows what is there to be seen, with flips that are still to be done.
    pub fn look<R>(&mut self, see: impl FnOnce(Pixels<'_>, Flips) -> R) -> Result<R, MediaError> {
        let View { mut source, resize, wanted, flips } = self.view;
        let mut shrink = 1;
        if let (Decode::Fast, Held::Encoded(_, opened), Some((.., to))) = (self.decode, &self.held, resize) {
            shrink = opened.shrink(source, to);
            source = smaller(source, shrink, opened.size());
        }
        let Scratch { codecs, resize: resampler, decoded, resized, image, .. } = &mut *self.scratch;
        let mut needed = source;
        if let Some((filter, like, to)) = resize {
            let setting = Setting { filter, like, from: (source.width, source.height), to, wanted };
            let needs = resampler.set(setting).expect("what is wanted lies inside").needs();
            needed = Rect { x: source.x + needs.x, y: source.y + needs.y, ..needs };
        }
        let pixels = match &self.held {
            Held::Encoded(bytes, opened) => codecs.decode_smaller(bytes, opened, needed, shrink, decoded)?,
            Held::Image(width, height) => {
                let whole = Pixels::new(image, *width, *height, self.channels);
                whole.and_then(|pixels| pixels.part(needed)).expect("the view lies in the image")
            }
            Held::Lent(pixels) => pixels.part(needed).expect("the view lies in the image"),
        };
        if resize.is_none() {
            return Ok(see(pixels, flips));
        }
        let resized = room(resized, wanted.width * wanted.height * self.channels);
        resampler.write(pixels, resized);
        let pixels = Pixels::new(resized, wanted.width, wanted.height, self.channels);
        Ok(see(pixels.expect("it was made to fit"), flips))
    }

    /// Makes all that is noted so far, so that pixels can be changed: rows of interleaved channels.
    pub fn settle(&mut self) -> Result<&mut [u8], MediaError> {
        let ((width, height), channels) = (self.size(), self.channels);
        let bytes = width * height * channels;
        let mut target = std::mem::take(&mut self.scratch.spare);
        let seen = self.look(|pixels, flips| {
            normalise::bytes(pixels, flips, false, room(&mut target, bytes));
        });
        self.scratch.spare = target;
        seen?;
        std::mem::swap(&mut self.scratch.spare, &mut self.scratch.image);
        self.held = Held::Image(width, height);
        self.view = View::whole(width, height);
        Ok(&mut self.scratch.image[..bytes])
    }

    /// Makes another image of it. `make` is given the pixels and memory to fill with rows of that many pixels and channels.
    pub fn replace(
        &mut self,
        (width, height): (usize, usize),
        channels: usize,
        make: impl FnOnce(Pixels<'_>, &mut [u8]),
    ) -> Result<(), MediaError> {
        let size = self.size();
        self.settle()?;
        let mut target = std::mem::take(&mut self.scratch.spare);
        let image = Pixels::new(&self.scratch.image, size.0, size.1, self.channels);
        make(image.expect("it is settled"), room(&mut target, width * height * channels));
        self.scratch.spare = std::mem::replace(&mut self.scratch.image, target);
        self.held = Held::Image(width, height);
        self.view = View::whole(width, height);
        self.channels = channels;
        Ok(())
    }
}

/// A part of an image as a part of the same image that is so much smaller, as near as whole pixels come to it.
fn smaller(part: Rect, shrink: usize, size: (usize, usize)) -> Rect {
    let span = |first: usize, count: usize, all: usize| {
        let nearest = |place: usize| (place + shrink / 2) / shrink;
        let end = nearest(first + count).min(all.div_ceil(shrink));
        let first = nearest(first).min(end - 1);
        (first, end - first)
    };
    let ((x, width), (y, height)) = (span(part.x, part.width, size.0), span(part.y, part.height, size.1));
    Rect { x, y, width, height }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A canvas of pixels that count up, one channel.
    fn canvas(scratch: &mut Scratch, width: usize, height: usize) -> Canvas<'_> {
        scratch.image = (0..(width * height) as u8).collect();
        Canvas {
            scratch,
            held: Held::Image(width, height),
            channels: 1,
            view: View::whole(width, height),
            decode: Decode::Exact,
        }
    }

    fn seen(canvas: &mut Canvas<'_>) -> Vec<u8> {
        canvas.settle().unwrap().to_vec()
    }

    #[test]
    fn crops_and_flips_are_done_in_their_order() {
        let mut scratch = Scratch::default();
        let mut one = canvas(&mut scratch, 4, 2);
        one.mirror();
        one.crop(Rect { x: 0, y: 0, width: 3, height: 2 });
        one.crop(Rect { x: 1, y: 0, width: 2, height: 2 });
        assert_eq!(seen(&mut one), [2, 1, 6, 5]);
        let mut two = canvas(&mut scratch, 4, 2);
        two.flip();
        two.crop(Rect { x: 0, y: 0, width: 4, height: 1 });
        two.mirror();
        assert_eq!(seen(&mut two), [7, 6, 5, 4]);
    }

    #[test]
    fn a_crop_before_a_resize_is_the_edge_of_what_is_resized() {
        let mut scratch = Scratch::default();
        let mut folded = canvas(&mut scratch, 9, 9);
        folded.crop(Rect { x: 2, y: 1, width: 5, height: 6 });
        folded.resize(Filter::Bilinear, Like::Pillow, (3, 3)).unwrap();
        folded.crop(Rect { x: 1, y: 1, width: 2, height: 2 });
        let folded = seen(&mut folded);
        let mut stepwise = canvas(&mut scratch, 9, 9);
        stepwise.crop(Rect { x: 2, y: 1, width: 5, height: 6 });
        stepwise.settle().unwrap();
        stepwise.resize(Filter::Bilinear, Like::Pillow, (3, 3)).unwrap();
        stepwise.settle().unwrap();
        stepwise.crop(Rect { x: 1, y: 1, width: 2, height: 2 });
        assert_eq!(folded, seen(&mut stepwise));
    }

    #[test]
    fn two_resizes_are_two() {
        let mut scratch = Scratch::default();
        let mut twice = canvas(&mut scratch, 8, 8);
        twice.resize(Filter::Bilinear, Like::Pillow, (5, 5)).unwrap();
        twice.resize(Filter::Bilinear, Like::Pillow, (3, 3)).unwrap();
        let twice = seen(&mut twice);
        let mut once = canvas(&mut scratch, 8, 8);
        once.resize(Filter::Bilinear, Like::Pillow, (3, 3)).unwrap();
        assert_ne!(twice, seen(&mut once));
    }
}
