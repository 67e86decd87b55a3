//! From the bytes of a file to the row of a batch: checked steps, then numbers of one shape.

use std::sync::Arc;

use feedline_core::{DType, SampleRng};

use crate::{
    MediaError,
    canvas::{Canvas, Scratch},
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

/// Checked steps to rows of one shape.
#[derive(Clone, Debug)]
pub struct Pipeline {
    steps: Arc<[Arc<dyn Transform>]>,
    /// Behind how many of them images may be kept, and of which size they are then.
    kept: Option<(usize, (usize, usize), usize)>,
    /// Absent for bytes.
    normalise: Option<Normalise>,
    arrangement: Arrangement,
    shape: [usize; 3],
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
        let normalise = match numbers {
            Numbers::Bytes => None,
            Numbers::Floats(unit, shifts) => Some(normalised(unit, shifts, channels)?),
        };
        let shape = match arrangement {
            Arrangement::Planes => [channels, size.1, size.0],
            Arrangement::Pixels => [size.1, size.0, channels],
        };
        Ok(Self { steps: steps.into(), kept: None, normalise, arrangement, shape })
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
        if self.normalise.is_some() { DType::F32 } else { DType::U8 }
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
        let mut canvas = Canvas::open(bytes, scratch)?;
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
        canvas.look(|pixels, flips| match (&self.normalise, self.arrangement) {
            (None, arrangement) => normalise::bytes(pixels, flips, arrangement == Arrangement::Planes, row),
            (Some(normalise), Arrangement::Planes) => {
                normalise.planes(pixels, flips, bytemuck::cast_slice_mut(row));
            }
            (Some(normalise), Arrangement::Pixels) => {
                normalise.pixels(pixels, flips, bytemuck::cast_slice_mut(row));
            }
        })
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
