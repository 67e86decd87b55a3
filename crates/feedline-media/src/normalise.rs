//! To floats: scaled and shifted, by planes or by pixels, in one pass into the row of a batch.

use crate::pixels::Pixels;

/// How a byte becomes a number between 0 and 1. They differ in the last bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `value / 255`, as torchvision's `ToTensor`.
    Divided,
    /// `value * (1 / 255)`, as its `ToDtype` and `ConvertImageDtype`.
    Multiplied,
    /// As it is: a float between 0 and 255.
    Not,
}

impl Unit {
    fn of(self, value: usize) -> f32 {
        match self {
            Self::Divided => value as f32 / 255.0,
            Self::Multiplied => value as f32 * (1.0f64 / 255.0) as f32,
            Self::Not => value as f32,
        }
    }
}

/// What becomes of each value of each channel: a table, because there are only 256.
///
/// torch computes `(value / 255 - mean) / std` in f32, each step rounded; so does the table, once, and the result is the
/// same to the bit.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalise<T = f32> {
    tables: Vec<[T; 256]>,
}

impl Normalise {
    /// Numbers between 0 and 1, and nothing more.
    pub fn unit(unit: Unit, channels: usize) -> Self {
        Self { tables: vec![std::array::from_fn(|value| unit.of(value)); channels] }
    }

    /// Then less the mean, divided by the standard deviation of each channel.
    ///
    /// # Panics
    /// If there is not one of both for each channel.
    #[must_use]
    pub fn then(mut self, mean: &[f32], std: &[f32]) -> Self {
        assert_eq!((mean.len(), std.len()), (self.tables.len(), self.tables.len()), "one for each channel");
        for ((table, mean), std) in self.tables.iter_mut().zip(mean).zip(std) {
            for value in table {
                *value = (*value - mean) / std;
            }
        }
        self
    }

    /// The same numbers of another type, each rounded once.
    pub fn cast<T>(&self, to: impl Fn(f32) -> T) -> Normalise<T> {
        Normalise { tables: self.tables.iter().map(|table| table.map(&to)).collect() }
    }
}

impl<T: Copy> Normalise<T> {
    /// The channels that it is for.
    pub fn channels(&self) -> usize {
        self.tables.len()
    }

    /// Writes the planes of an image one after the other; from right to left, or from below, if asked.
    ///
    /// # Panics
    /// If the image has another number of channels, or the memory is too small.
    pub fn planes(&self, image: Pixels<'_>, (mirror, upside_down): (bool, bool), out: &mut [T]) {
        match self.tables.as_slice() {
            [r, g, b] => planes([r, g, b], image, mirror, upside_down, out),
            [one] => planes([one], image, mirror, upside_down, out),
            tables => {
                let plane = image.width() * image.height();
                for (channel, table) in tables.iter().enumerate() {
                    let (out, channels) = (&mut out[channel * plane..], tables.len());
                    each_row(image, upside_down, |y, row| {
                        let target = &mut out[y * image.width()..][..image.width()];
                        let values = row[channel..].iter().step_by(channels);
                        put(values.map(|value| table[usize::from(*value)]), target, mirror);
                    });
                }
            }
        }
    }

    /// Writes pixel after pixel, channels together.
    ///
    /// # Panics
    /// As `planes`.
    pub fn pixels(&self, image: Pixels<'_>, (mirror, upside_down): (bool, bool), out: &mut [T]) {
        assert_eq!(image.channels(), self.channels(), "it is for other images");
        let channels = self.channels();
        each_row(image, upside_down, |y, row| {
            let target = &mut out[y * row.len()..][..row.len()];
            for (at, pixel) in row.chunks_exact(channels).enumerate() {
                let at = if mirror { image.width() - 1 - at } else { at };
                for ((out, value), table) in target[at * channels..].iter_mut().zip(pixel).zip(&self.tables) {
                    *out = table[usize::from(*value)];
                }
            }
        });
    }
}

fn planes<T: Copy, const CHANNELS: usize>(
    tables: [&[T; 256]; CHANNELS],
    image: Pixels<'_>,
    mirror: bool,
    upside_down: bool,
    out: &mut [T],
) {
    assert_eq!(image.channels(), CHANNELS, "it is for other images");
    let (width, plane) = (image.width(), image.width() * image.height());
    let mut rest = &mut out[..plane * CHANNELS];
    let mut planes: [&mut [T]; CHANNELS] = std::array::from_fn(|_| {
        let (first, others) = std::mem::take(&mut rest).split_at_mut(plane);
        rest = others;
        first
    });
    each_row(image, upside_down, |y, row| {
        let (pixels, _) = row.as_chunks::<CHANNELS>();
        for (channel, (table, plane)) in tables.into_iter().zip(&mut planes).enumerate() {
            look_up(pixels, channel, table, &mut plane[y * width..][..width], mirror);
        }
    });
}

/// One channel of a row, by its table; eight at a time, because a loop takes as long as what it does.
#[inline]
fn look_up<T: Copy, const CHANNELS: usize>(
    pixels: &[[u8; CHANNELS]],
    channel: usize,
    table: &[T; 256],
    out: &mut [T],
    mirror: bool,
) {
    let value = |pixel: &[u8; CHANNELS]| table[usize::from(pixel[channel])];
    let (eights, rest) = pixels.as_chunks::<8>();
    if mirror {
        let (others, targets) = out.as_rchunks_mut::<8>();
        for (target, eight) in targets.iter_mut().rev().zip(eights) {
            *target = std::array::from_fn(|at| value(&eight[7 - at]));
        }
        put(rest.iter().map(value), others, true);
    } else {
        let (targets, others) = out.as_chunks_mut::<8>();
        for (target, eight) in targets.iter_mut().zip(eights) {
            *target = std::array::from_fn(|at| value(&eight[at]));
        }
        put(rest.iter().map(value), others, false);
    }
}

/// Every row with the number it gets.
fn each_row<'a>(image: Pixels<'a>, upside_down: bool, mut write: impl FnMut(usize, &'a [u8])) {
    for y in 0..image.height() {
        write(if upside_down { image.height() - 1 - y } else { y }, image.row(y));
    }
}

fn put<T>(values: impl Iterator<Item = T>, target: &mut [T], mirror: bool) {
    if mirror {
        target.iter_mut().rev().zip(values).for_each(|(out, value)| *out = value);
    } else {
        target.iter_mut().zip(values).for_each(|(out, value)| *out = value);
    }
}

/// Writes the bytes of an image as they are: by planes, or by pixels.
///
/// # Panics
/// If the memory is too small.
pub fn bytes(image: Pixels<'_>, (mirror, upside_down): (bool, bool), by_planes: bool, out: &mut [u8]) {
    let (width, channels, plane) = (image.width(), image.channels(), image.width() * image.height());
    each_row(image, upside_down, |y, row| {
        if by_planes {
            for channel in 0..channels {
                let target = &mut out[channel * plane + y * width..][..width];
                put(row[channel..].iter().step_by(channels).copied(), target, mirror);
            }
        } else if mirror {
            let target = out[y * row.len()..][..row.len()].chunks_exact_mut(channels).rev();
            row.chunks_exact(channels).zip(target).for_each(|(pixel, out)| out.copy_from_slice(pixel));
        } else {
            out[y * row.len()..][..row.len()].copy_from_slice(row);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: (bool, bool) = (false, false);

    #[test]
    fn channels_become_planes() {
        let image = Pixels::new(&[0, 255, 51, 102, 204, 153], 2, 1, 3).unwrap();
        let normalise = Normalise::unit(Unit::Divided, 3);
        let mut out = [0.0; 6];
        normalise.planes(image, PLAIN, &mut out);
        assert_eq!(out, [0.0, 0.4, 1.0, 0.8, 0.2, 0.6]);
        normalise.planes(image, (true, false), &mut out);
        assert_eq!(out, [0.4, 0.0, 0.8, 1.0, 0.6, 0.2]);
        normalise.pixels(image, (true, false), &mut out);
        assert_eq!(out, [0.4, 0.8, 0.6, 0.0, 1.0, 0.2]);
        let mut plain = [0; 6];
        bytes(image, (true, false), true, &mut plain);
        assert_eq!(plain, [102, 0, 204, 255, 153, 51]);
        bytes(image, (true, false), false, &mut plain);
        assert_eq!(plain, [102, 204, 153, 0, 255, 51]);
    }

    #[test]
    fn rows_of_any_length_are_mirrored() {
        let normalise = Normalise::unit(Unit::Not, 3);
        for width in 1..35 {
            let bytes: Vec<u8> = (0..3 * width as u8).collect();
            let image = Pixels::new(&bytes, width, 1, 3).unwrap();
            let (mut plain, mut mirrored) = (vec![0.0; 3 * width], vec![0.0; 3 * width]);
            normalise.planes(image, PLAIN, &mut plain);
            normalise.planes(image, (true, false), &mut mirrored);
            let expected: Vec<f32> =
                (0..3).flat_map(|channel| (0..width).map(move |at| (3 * at + channel) as f32)).collect();
            assert_eq!(plain, expected);
            mirrored.chunks_exact_mut(width).for_each(<[f32]>::reverse);
            assert_eq!(mirrored, expected);
        }
    }

    #[test]
    fn rows_can_be_written_from_below() {
        let image = Pixels::new(&[1, 2, 3, 4, 5, 6, 7, 8], 2, 2, 2).unwrap();
        let mut out = [0.0; 8];
        Normalise::unit(Unit::Not, 2).planes(image, (true, true), &mut out);
        assert_eq!(out, [7.0, 5.0, 3.0, 1.0, 8.0, 6.0, 4.0, 2.0]);
    }

    #[test]
    fn every_value_is_what_torch_makes_of_it() {
        let normalise = Normalise::unit(Unit::Divided, 1).then(&[0.485], &[0.229]);
        let bytes: Vec<u8> = (0..=255).collect();
        let mut out = [0.0; 256];
        normalise.planes(Pixels::new(&bytes, 256, 1, 1).unwrap(), PLAIN, &mut out);
        for (value, found) in out.into_iter().enumerate() {
            let unit = value as f32 / 255.0;
            assert_eq!(found, (unit - 0.485) / 0.229);
        }
    }
}
