//! Other light: brightness, contrast, saturation and hue, each by chance and in any order, to the bit as Pillow has them.

use feedline_core::SampleRng;

use super::{Refused, Shape, Transform, between, grayscale};
use crate::{MediaError, canvas::Canvas, resample::Like};

/// Between which factors each is drawn; what is not there is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ColourJitter {
    /// 0 is black, 1 as it is.
    pub brightness: Option<(f64, f64)>,
    /// 0 is gray all over, 1 as it is.
    pub contrast: Option<(f64, f64)>,
    /// 0 is gray, 1 as it is.
    pub saturation: Option<(f64, f64)>,
    /// Around the circle of colours, from -0.5 to 0.5.
    pub hue: Option<(f64, f64)>,
}

impl Transform for ColourJitter {
    fn shape(&self, before: Shape) -> Result<Shape, Refused> {
        let factors = [self.brightness, self.contrast, self.saturation].into_iter().flatten();
        let is_range = |(low, high): (f64, f64)| low <= high && high.is_finite();
        if !factors.clone().all(|range| range.0 >= 0.0 && is_range(range)) {
            return Err(Refused("colour jitter: factors should be (low, high), from 0".into()));
        }
        if self.hue.is_some_and(|(low, high)| !is_range((low, high)) || low < -0.5 || high > 0.5) {
            return Err(Refused("colour jitter: hue should be (low, high) between -0.5 and 0.5".into()));
        }
        if before.channels != 3 {
            return Err(Refused("colour jitter: the image is gray; it should come before grayscale".into()));
        }
        Ok(before)
    }

    fn apply(&self, canvas: &mut Canvas<'_>, rng: &mut SampleRng) -> Result<(), MediaError> {
        let mut order = [0, 1, 2, 3];
        rng.shuffle(&mut order);
        let ranges = [self.brightness, self.contrast, self.saturation, self.hue];
        let factors = ranges.map(|range| range.map(|range| between(rng, range)));
        if factors == [None; 4] {
            return Ok(());
        }
        let (pixels, _) = canvas.settle()?.as_chunks_mut::<3>();
        for which in order {
            let Some(factor) = factors[which] else { continue };
            match which {
                0 => blend(pixels, factor, |_| [0; 3]),
                1 => {
                    let mean = [mean_brightness(pixels); 3];
                    blend(pixels, factor, |_| mean);
                }
                2 => blend(pixels, factor, |pixel| [grayscale::brightness(pixel, Like::Pillow); 3]),
                _ => turn_hue(pixels, factor),
            }
        }
        Ok(())
    }

    fn is_random(&self) -> bool {
        true
    }
}

fn mean_brightness(pixels: &[[u8; 3]]) -> u8 {
    let sum: u64 = pixels.iter().map(|pixel| u64::from(grayscale::brightness(*pixel, Like::Pillow))).sum();
    (sum as f64 / pixels.len() as f64 + 0.5) as u8
}

/// Moves pixels away from what they would be without it, or towards that.
fn blend(pixels: &mut [[u8; 3]], factor: f64, without: impl Fn([u8; 3]) -> [u8; 3]) {
    let factor = factor as f32;
    if factor == 1.0 {
        return;
    }
    for pixel in pixels {
        let from = without(*pixel);
        for (value, from) in pixel.iter_mut().zip(from) {
            let (from, to) = (f32::from(from), f32::from(*value));
            // What is too large or too small becomes the end of the range.
            *value = (from + factor * (to - from)) as u8;
        }
    }
}

fn turn_hue(pixels: &mut [[u8; 3]], factor: f64) {
    let turn = (factor * 255.0) as i32 as u8;
    for pixel in pixels {
        let [hue, saturation, value] = to_hsv(*pixel);
        *pixel = to_rgb([hue.wrapping_add(turn), saturation, value]);
    }
}

fn to_hsv([red, green, blue]: [u8; 3]) -> [u8; 3] {
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    if most == least {
        return [0, 0, most];
    }
    let range = f32::from(most - least);
    let saturation = range / f32::from(most);
    let [r, g, b] = [red, green, blue].map(|value| f32::from(most - value) / range);
    let hue = if red == most {
        b - g
    } else if green == most {
        (2.0 + f64::from(r) - f64::from(b)) as f32
    } else {
        (4.0 + f64::from(g) - f64::from(r)) as f32
    };
    let hue = ((f64::from(hue) / 6.0 + 1.0) % 1.0) as f32;
    [(f64::from(hue) * 255.0) as u8, (f64::from(saturation) * 255.0) as u8, most]
}

fn to_rgb([hue, saturation, value]: [u8; 3]) -> [u8; 3] {
    if saturation == 0 {
        return [value; 3];
    }
    let place = f64::from(f32::from(hue)) * 6.0 / 255.0;
    let sector = place.floor();
    // Between floats of 32 and 64 bits as Pillow goes.
    let within = f64::from((place - sector) as f32);
    let saturation = f64::from((f64::from(saturation) / 255.0) as f32);
    let less = |share: f64| (f64::from(value) * (1.0 - share)).round() as u8;
    let (least, falling, rising) =
        (less(saturation), less(saturation * within), less(saturation * (1.0 - within)));
    match sector as u32 % 6 {
        0 => [value, rising, least],
        1 => [falling, value, least],
        2 => [least, value, rising],
        3 => [least, falling, value],
        4 => [rising, least, value],
        _ => [value, least, falling],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gray_has_no_hue_and_colours_come_back() {
        assert_eq!(to_hsv([9, 9, 9]), [0, 0, 9]);
        assert_eq!(to_hsv([255, 0, 0]), [0, 255, 255]);
        for pixel in [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [0, 0, 0]] {
            let back = to_rgb(to_hsv(pixel));
            assert!(
                pixel.iter().zip(back).all(|(one, other)| one.abs_diff(other) <= 6),
                "{pixel:?} {back:?}"
            );
        }
    }

    #[test]
    fn a_factor_of_nothing_is_what_is_without_it() {
        let mut pixels = [[10, 20, 200], [255, 0, 3]];
        blend(&mut pixels, 0.0, |_| [7; 3]);
        assert_eq!(pixels, [[7; 3]; 2]);
        let mut pixels = [[10, 20, 200]];
        blend(&mut pixels, 2.0, |_| [0; 3]);
        assert_eq!(pixels, [[20, 40, 255]]);
    }
}
