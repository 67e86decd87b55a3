//! From the bytes of a file to the row of a batch: checked steps, then numbers of one shape.

use std::sync::Arc;

use feedline_core::{DType, SampleRng};
use half::{bf16, f16};

use crate::{
    MediaError,
    canvas::{Canvas, Flips, Scratch},
    codec::Decode,
    normalise::{self, Normalise, Unit},
    pixels::Pixels,
    transform::{Refused, Shape, Transform},
};

/// How numbers are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Arrangement {
    /// Channel, row, column.
    #[default]
    Planes,
    /// Row, column, channel.
    Pixels,
}

/// What becomes of the pixels.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Bytes as they are.
    Bytes,
    /// Floats, and how bytes become them.
    Floats(Unit, Vec<MeanStd>),
}

/// The mean and the standard deviation of each channel.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanStd {
    /// What is taken off.
    pub mean: Vec<f32>,
    /// By what it is divided.
    pub std: Vec<f32>,
}

impl MeanStd {
    /// One of both for each channel, where one was given for all; otherwise, what is wrong.
    pub(crate) fn of_each(mut self, channels: usize) -> Result<Self, Refused> {
        for values in [&mut self.mean, &mut self.std] {
            if values.len() == 1 {
                *values = vec![values[0]; channels];
            }
            if values.len() != channels {
                let given = values.len();
                return Err(Refused(format!("normalise: {given} values were given for {channels} channels")));
            }
        }
        if self.std.contains(&0.0) {
            return Err(Refused(
                "normalise: a standard deviation is 0, and nothing can be divided by it".into(),
            ));
        }
        Ok(self)
    }
}

/// What is written into rows.
#[derive(Clone, Debug)]
enum Written {
    Bytes,
    F16(Normalise<f16>),
    Bf16(Normalise<bf16>),
    F32(Normalise),
    F64(Normalise<f64>),
}

/// Checked steps to rows of one shape.
#[derive(Clone, Debug)]
pub struct Pipeline {
    steps: Arc<[Arc<dyn Transform>]>,
    /// Behind how many of them images may be kept, and of which size they are then.
    kept: Option<(usize, (usize, usize), usize)>,
    written: Written,
    arrangement: Arrangement,
    shape: [usize; 3],
    decode: Decode,
}

impl Pipeline {
    /// Steps that fit together and give images of one size; otherwise, what to change.
    pub fn new(
        steps: Vec<Arc<dyn Transform>>,
        numbers: Numbers,
        arrangement: Arrangement,
    ) -> Result<Self, Refused> {
        let mut shape = Shape { size: None, channels: 3 };
        for step in &steps {
            shape = step.shape(shape)?;
        }
        let Shape { size: Some(size), channels } = shape else {
            return Err(Refused(
                "images may have any size, rows of a batch have one: end with a crop, or resize to a width and a height"
                    .into(),
            ));
        };
        let written = match numbers {
            Numbers::Bytes => Written::Bytes,
            Numbers::Floats(unit, shifts) => Written::F32(normalised(unit, shifts, channels)?),
        };
        let shape = match arrangement {
            Arrangement::Planes => [channels, size.1, size.0],
            Arrangement::Pixels => [size.1, size.0, channels],
        };
        let decode = Decode::Exact;
        Ok(Self { steps: steps.into(), kept: None, written, arrangement, shape, decode })
    }

    /// How exactly images are decoded.
    #[must_use]
    pub fn decoding(mut self, decode: Decode) -> Self {
        self.decode = decode;
        self
    }

    /// Floats of another type, rounded as the last thing that happens to them.
    pub fn cast(mut self, dtype: DType) -> Result<Self, Refused> {
        let Written::F32(normalise) = &self.written else {
            return Err(Refused("bytes cannot be cast: make floats of them before".into()));
        };
        self.written = match dtype {
            DType::F16 => Written::F16(normalise.cast(f16::from_f32)),
            DType::Bf16 => Written::Bf16(normalise.cast(bf16::from_f32)),
            DType::F32 => return Ok(self),
            DType::F64 => Written::F64(normalise.cast(f64::from)),
            _ => return Err(Refused(format!("floats are cast to f16, bf16, f32 or f64, not to {dtype}"))),
        };
        Ok(self)
    }

    /// Lets images be kept behind the first steps, which must give one size and not be random.
    pub fn keeping(mut self, behind: usize) -> Result<Self, Refused> {
        let mut shape = Shape { size: None, channels: 3 };
        for step in &self.steps[..behind] {
            if step.is_random() {
                return Err(Refused(
                    "images are kept before anything random happens to them: put the cache before random steps".into(),
                ));
            }
            shape = step.shape(shape)?;
        }
        let Some(size) = shape.size else {
            return Err(Refused(
                "images that are kept have one size: resize or crop before the cache".into(),
            ));
        };
        self.kept = Some((behind, size, shape.channels));
        Ok(self)
    }

    /// Bytes of an image that is kept.
    pub fn kept_bytes(&self) -> Option<usize> {
        self.kept.map(|(_, (width, height), channels)| width * height * channels)
    }

    /// The extents of a row.
    pub fn shape(&self) -> &[usize; 3] {
        &self.shape
    }

    /// The type of its numbers.
    pub fn dtype(&self) -> DType {
        match self.written {
            Written::Bytes => DType::U8,
            Written::F16(_) => DType::F16,
            Written::Bf16(_) => DType::Bf16,
            Written::F32(_) => DType::F32,
            Written::F64(_) => DType::F64,
        }
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype().size()
    }

    /// Whether random numbers are drawn.
    pub fn is_random(&self) -> bool {
        self.steps.iter().any(|step| step.is_random())
    }

    /// Writes the row of an image, which has the bytes of a file. `keep` is shown the image that may be kept.
    ///
    /// # Panics
    /// If `row` has not as many bytes as a row, or floats do not begin where floats may.
    pub fn write(
        &self,
        bytes: &[u8],
        rng: &mut SampleRng,
        scratch: &mut Scratch,
        row: &mut [u8],
        keep: impl FnOnce(&[u8]),
    ) -> Result<(), MediaError> {
        let mut canvas = Canvas::open(bytes, scratch)?.decoding(self.decode);
        let behind = self.kept.map_or(0, |(behind, ..)| behind);
        for step in &self.steps[..behind] {
            step.apply(&mut canvas, rng)?;
        }
        if self.kept.is_some() {
            keep(canvas.settle()?);
        }
        self.finish(canvas, behind, rng, row)
    }

    /// Writes the row of an image that was kept.
    ///
    /// # Panics
    /// As `write`; and if it was not, or is not one of those.
    pub fn write_kept(
        &self,
        kept: &[u8],
        rng: &mut SampleRng,
        scratch: &mut Scratch,
        row: &mut [u8],
    ) -> Result<(), MediaError> {
        let (behind, (width, height), channels) = self.kept.expect("images are kept");
        let pixels = Pixels::new(kept, width, height, channels).expect("it is as long as one");
        self.finish(Canvas::of(pixels, scratch), behind, rng, row)
    }

    fn finish(
        &self,
        mut canvas: Canvas<'_>,
        behind: usize,
        rng: &mut SampleRng,
        row: &mut [u8],
    ) -> Result<(), MediaError> {
        assert_eq!(row.len(), self.row_bytes(), "a row of another length");
        for step in &self.steps[behind..] {
            step.apply(&mut canvas, rng)?;
        }
        let arrangement = self.arrangement;
        canvas.look(|pixels, flips| match &self.written {
            Written::Bytes => normalise::bytes(pixels, flips, arrangement == Arrangement::Planes, row),
            Written::F16(normalise) => arranged(normalise, arrangement, pixels, flips, row),
            Written::Bf16(normalise) => arranged(normalise, arrangement, pixels, flips, row),
            Written::F32(normalise) => arranged(normalise, arrangement, pixels, flips, row),
            Written::F64(normalise) => arranged(normalise, arrangement, pixels, flips, row),
        })
    }
}

fn arranged<T: bytemuck::Pod>(
    normalise: &Normalise<T>,
    arrangement: Arrangement,
    pixels: Pixels<'_>,
    flips: Flips,
    row: &mut [u8],
) {
    let row = bytemuck::cast_slice_mut(row);
    match arrangement {
        Arrangement::Planes => normalise.planes(pixels, flips, row),
        Arrangement::Pixels => normalise.pixels(pixels, flips, row),
    }
}

fn normalised(unit: Unit, shifts: Vec<MeanStd>, channels: usize) -> Result<Normalise, Refused> {
    let mut normalise = Normalise::unit(unit, channels);
    for values in shifts {
        let MeanStd { mean, std } = values.of_each(channels)?;
        normalise = normalise.then(&mean, &std);
    }
    Ok(normalise)
}
