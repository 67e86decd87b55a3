//! Planes of numbers of any type to rows: some channels, another size, the middle, mirror images, floats.
//!
//! Numbers keep their type unless floats are asked for. Where something must be computed, that happens in f32 (never in
//! f64), and what keeps its type is rounded to it in the end, as torchvision does.

use feedline_core::{DType, SampleRng, bf16, f16};

use crate::{
    MediaError,
    pipeline::MeanStd,
    pixels::{Rect, room},
    resample::{Filter, floats::FloatResize},
    tiff::{self, Extent, Pages},
    transform::{Refused, check_probability, check_size},
};

/// What is asked for, in the order in which it happens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// The channels that are kept; all of them if there is no list.
    pub channels: Option<Vec<usize>>,
    /// Width and height to resize to.
    pub resize: Option<((usize, usize), Filter)>,
    /// Width and height of the middle that is kept.
    pub crop: Option<(usize, usize)>,
    /// With which probability an image is turned left to right, and upside down.
    pub flips: (f64, f64),
    /// Whether numbers become floats.
    pub floats: bool,
    /// What is taken off, and by what it is divided then.
    pub normalise: Option<MeanStd>,
}

/// Steps that fit files of one kind.
#[derive(Clone, Debug)]
pub struct Stack {
    like: Extent,
    channels: Vec<usize>,
    steps: Steps,
    dtype: DType,
    shape: [usize; 3],
}

/// What a worker keeps from file to file.
#[derive(Default)]
pub struct Scratch {
    pages: Pages,
    tiff: tiff::Scratch,
    planes: Vec<u8>,
    floats: Floats,
}

/// Where numbers are computed with.
#[derive(Default)]
struct Floats {
    before: Vec<f32>,
    after: Vec<f32>,
    resize: FloatResize,
}

impl Scratch {
    /// What a file has.
    pub fn open(&mut self, bytes: &[u8]) -> Result<Extent, MediaError> {
        self.pages.open(bytes)
    }
}

impl Stack {
    /// Steps for files like one of them; otherwise, what to change.
    pub fn new(like: Extent, mut steps: Steps) -> Result<Self, Refused> {
        let channels = steps.channels.clone().unwrap_or_else(|| (0..like.channels).collect());
        if channels.is_empty() {
            return Err(Refused("channels: at least one should be kept".into()));
        }
        if let Some(none) = channels.iter().find(|channel| **channel >= like.channels) {
            return Err(Refused(format!(
                "channels: there is no channel {none}: files have {}",
                like.channels
            )));
        }
        let mut size = (like.width, like.height);
        if let Some((to, _)) = steps.resize {
            check_size("resize", to)?;
            size = to;
        }
        if let Some(crop) = steps.crop {
            check_size("centre crop", crop)?;
            if crop.0 > size.0 || crop.1 > size.1 {
                return Err(Refused(format!(
                    "centre crop to {} × {}: images have {} × {} pixels then; resize to more before",
                    crop.0, crop.1, size.0, size.1
                )));
            }
            size = crop;
        }
        check_probability(steps.flips.0)?;
        check_probability(steps.flips.1)?;
        steps.normalise = steps.normalise.map(|values| values.of_each(channels.len())).transpose()?;
        let dtype = if steps.floats || steps.normalise.is_some() { DType::F32 } else { like.dtype };
        Ok(Self { shape: [channels.len(), size.1, size.0], like, channels, steps, dtype })
    }

    /// The type of a row's numbers.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents of a row.
    pub fn shape(&self) -> &[usize; 3] {
        &self.shape
    }

    /// Whether random numbers are drawn.
    pub fn is_random(&self) -> bool {
        let random = |probability: f64| probability > 0.0 && probability < 1.0;
        random(self.steps.flips.0) || random(self.steps.flips.1)
    }

    /// Writes the row of a file.
    ///
    /// # Panics
    /// If the row has another length, or does not begin where its numbers may.
    pub fn write(
        &self,
        bytes: &[u8],
        rng: &mut SampleRng,
        scratch: &mut Scratch,
        row: &mut [u8],
    ) -> Result<(), MediaError> {
        let extent = scratch.pages.open(bytes)?;
        self.check(&extent)?;
        let plane = extent.plane_bytes();
        let moved = self.steps.resize.is_some() || self.steps.crop.is_some();
        if !moved && self.dtype == extent.dtype && self.steps.normalise.is_none() {
            scratch.pages.write_planes(bytes, &self.channels, &mut scratch.tiff, row)?;
        } else {
            let planes = room(&mut scratch.planes, self.channels.len() * plane);
            scratch.pages.write_planes(bytes, &self.channels, &mut scratch.tiff, planes)?;
            let length = self.shape[1] * self.shape[2] * self.dtype.size();
            for (number, out) in row.chunks_exact_mut(length).enumerate() {
                let plane = &scratch.planes[number * plane..][..plane];
                self.plane(number, plane, &extent, &mut scratch.floats, out);
            }
        }
        let (mirror, flip) = self.steps.flips;
        if mirror > 0.0 && rng.chance(mirror) {
            self.mirror(row);
        }
        if flip > 0.0 && rng.chance(flip) {
            self.flip(row);
        }
        Ok(())
    }

    /// A file may be of another size only where all are brought to one.
    fn check(&self, extent: &Extent) -> Result<(), MediaError> {
        let sized = self.steps.resize.is_some()
            || (extent.width, extent.height) == (self.like.width, self.like.height);
        if sized && (extent.dtype, extent.channels) == (self.like.dtype, self.like.channels) {
            return Ok(());
        }
        let (found, expected) = (extent.name(), self.like.name());
        Err(MediaError::Shape(format!(
            "it is {found}, but the first file is {expected}: all should be alike"
        )))
    }

    /// One channel.
    fn plane(
        &self,
        number: usize,
        plane: &[u8],
        extent: &Extent,
        Floats { before, after, resize }: &mut Floats,
        out: &mut [u8],
    ) {
        let from = (extent.width, extent.height);
        let (to, filter) = self.steps.resize.unwrap_or((from, Filter::Nearest));
        let (width, height) = (self.shape[2], self.shape[1]);
        let middle = |all: usize, part: usize| ((all - part) as f64 / 2.0).round_ties_even() as usize;
        let wanted = Rect { x: middle(to.0, width), y: middle(to.1, height), width, height };
        if to == from && self.dtype == extent.dtype && self.steps.normalise.is_none() {
            return cut(plane, extent, wanted, out);
        }
        before.resize(from.0 * from.1, 0.0);
        let Conversions { read, write } = Conversions::of(extent.dtype);
        read(plane, before);
        let floats = self.dtype == DType::F32;
        after.resize(if floats { 0 } else { width * height }, 0.0);
        let target: &mut [f32] = if floats { bytemuck::cast_slice_mut(out) } else { after };
        resize.set(filter, from, to, wanted).expect("sizes were checked").write(before, target);
        if let Some(MeanStd { mean, std }) = &self.steps.normalise {
            let (mean, std) = (mean[number], std[number]);
            for value in target {
                *value = (*value - mean) / std;
            }
        }
        if !floats {
            write(after, out);
        }
    }

    fn mirror(&self, row: &mut [u8]) {
        let size = self.dtype.size();
        for line in row.chunks_exact_mut(self.shape[2] * size) {
            // All bytes in reverse, then those of each number again.
            line.reverse();
            line.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
    }

    fn flip(&self, row: &mut [u8]) {
        let line = self.shape[2] * self.dtype.size();
        for plane in row.chunks_exact_mut(self.shape[1] * line) {
            let (above, below) = plane.split_at_mut(self.shape[1] / 2 * line);
            let below = below.chunks_exact_mut(line).rev();
            above.chunks_exact_mut(line).zip(below).for_each(|(one, other)| one.swap_with_slice(other));
        }
    }
}

/// A part of a plane, as it is.
fn cut(plane: &[u8], extent: &Extent, part: Rect, out: &mut [u8]) {
    let (size, line) = (extent.dtype.size(), extent.width * extent.dtype.size());
    for (y, out) in out.chunks_exact_mut(part.width * size).enumerate() {
        out.copy_from_slice(&plane[(part.y + y) * line + part.x * size..][..out.len()]);
    }
}

/// A number that can be computed with as f32.
trait Number<const SIZE: usize> {
    fn read(bytes: [u8; SIZE]) -> f32;
    fn write(value: f32) -> [u8; SIZE];
}

macro_rules! whole_number {
    ($($type:ty: $size:literal),*) => {$(
        impl Number<$size> for $type {
            fn read(bytes: [u8; $size]) -> f32 {
                Self::from_ne_bytes(bytes) as f32
            }

            fn write(value: f32) -> [u8; $size] {
                (value.round_ties_even() as Self).to_ne_bytes()
            }
        }
    )*};
}

whole_number!(u8: 1, i8: 1, u16: 2, i16: 2, u32: 4, i32: 4, u64: 8, i64: 8);

impl Number<4> for f32 {
    fn read(bytes: [u8; 4]) -> f32 {
        Self::from_ne_bytes(bytes)
    }

    fn write(value: f32) -> [u8; 4] {
        value.to_ne_bytes()
    }
}

impl Number<8> for f64 {
    fn read(bytes: [u8; 8]) -> f32 {
        Self::from_ne_bytes(bytes) as f32
    }

    fn write(value: f32) -> [u8; 8] {
        Self::from(value).to_ne_bytes()
    }
}

macro_rules! half_number {
    ($($type:ty),*) => {$(
        impl Number<2> for $type {
            fn read(bytes: [u8; 2]) -> f32 {
                Self::from_ne_bytes(bytes).to_f32()
            }

            fn write(value: f32) -> [u8; 2] {
                Self::from_f32(value).to_ne_bytes()
            }
        }
    )*};
}

half_number!(f16, bf16);

fn to_floats<T: Number<SIZE>, const SIZE: usize>(bytes: &[u8], out: &mut [f32]) {
    let (numbers, _) = bytes.as_chunks::<SIZE>();
    numbers.iter().zip(out).for_each(|(bytes, out)| *out = T::read(*bytes));
}

fn from_floats<T: Number<SIZE>, const SIZE: usize>(values: &[f32], out: &mut [u8]) {
    let (numbers, _) = out.as_chunks_mut::<SIZE>();
    values.iter().zip(numbers).for_each(|(value, out)| *out = T::write(*value));
}

/// To floats and back.
struct Conversions {
    read: fn(&[u8], &mut [f32]),
    write: fn(&[f32], &mut [u8]),
}

impl Conversions {
    const fn with<T: Number<SIZE>, const SIZE: usize>() -> Self {
        Self { read: to_floats::<T, SIZE>, write: from_floats::<T, SIZE> }
    }

    const fn of(dtype: DType) -> Self {
        match dtype {
            DType::Bool | DType::U8 => Self::with::<u8, 1>(),
            DType::I8 => Self::with::<i8, 1>(),
            DType::U16 => Self::with::<u16, 2>(),
            DType::I16 => Self::with::<i16, 2>(),
            DType::U32 => Self::with::<u32, 4>(),
            DType::I32 => Self::with::<i32, 4>(),
            DType::U64 => Self::with::<u64, 8>(),
            DType::I64 => Self::with::<i64, 8>(),
            DType::F16 => Self::with::<f16, 2>(),
            DType::Bf16 => Self::with::<bf16, 2>(),
            DType::F32 => Self::with::<f32, 4>(),
            DType::F64 => Self::with::<f64, 8>(),
        }
    }
}
