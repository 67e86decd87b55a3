//! Images from files, decoded and transformed straight into the rows of batches.
//!
//! ```no_run
//! use feedline::{Spec, images::Images};
//!
//! let images = Images::folder("imagenette/train")?
//!     .resize(256)
//!     .centre_crop(224, 224)
//!     .normalise([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
//!     .build()?;
//! let mut loader = Spec::rows(images).batch_size(64).shuffle(true).workers(8).build()?;
//! for batch in loader.epoch() {
//!     let batch = batch?;
//!     let (images, labels) = (batch.slice::<f32>("image")?, batch.slice::<i64>("label")?);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{io, path::Path, sync::Arc};

use feedline_core::{DType, SampleRng};
pub use feedline_media::{
    Arrangement, Decode, Filter, Like, MeanStd, MediaError, Numbers, Pipeline, Rect, Refused, Scratch,
    Transform, codec, normalise::Unit, transform,
};

use crate::{
    cache::Cache,
    files::{Desks, FileError, FileRows, FolderError, Listed, Reader},
};

/// Files and what is to become of them; checked by [`ImageSpec::build`].
#[derive(Clone, Debug)]
pub struct ImageSpec {
    files: Listed,
    steps: Vec<Arc<dyn Transform>>,
    shifts: Vec<MeanStd>,
    as_bytes: bool,
    dtype: DType,
    arrangement: Arrangement,
    decode: Decode,
}

/// Images in files, and the rows they become.
pub struct Images {
    files: Listed,
    pipeline: Pipeline,
    cache: Option<Cache>,
    desks: Desks<Desk>,
}

#[derive(Default)]
struct Desk {
    scratch: Scratch,
    file: Reader,
    kept: Vec<u8>,
}

impl Images {
    /// A folder with one folder for each class.
    pub fn folder(root: impl AsRef<Path>) -> Result<ImageSpec, FolderError> {
        Listed::folder(root).map(Self::files)
    }

    /// A list of files.
    pub fn files(files: Listed) -> ImageSpec {
        let (steps, shifts) = (Vec::new(), Vec::new());
        let (dtype, arrangement) = (DType::F32, Arrangement::Planes);
        ImageSpec { files, steps, shifts, as_bytes: false, dtype, arrangement, decode: Decode::Exact }
    }

    /// Files for a pipeline that is checked already.
    pub fn new(files: Listed, pipeline: Pipeline) -> Self {
        Self { files, pipeline, cache: None, desks: Desks::default() }
    }

    /// Keeps images between epochs, as many as fit into so many bytes: in memory, or in a new file. The pipeline says
    /// behind which step ([`Pipeline::keeping`]).
    ///
    /// # Panics
    /// If it does not.
    pub fn cached(mut self, most_bytes: u64, path: Option<&Path>) -> io::Result<Self> {
        let row = self.pipeline.kept_bytes().expect("the pipeline says what is kept");
        self.cache = Some(Cache::new(self.files.len(), row, most_bytes, path)?);
        Ok(self)
    }

    fn make(
        &self,
        index: usize,
        rng: &mut SampleRng,
        desk: &mut Desk,
        row: &mut [u8],
    ) -> Result<(), FileError> {
        let place = self.files.place(index)?;
        let unfit = |error: MediaError| FileError::Unfit { path: place.name(), error: error.into() };
        let Desk { scratch, file, kept } = desk;
        if let Some(kept) = self.cache.as_ref().and_then(|cache| cache.get(index, kept)) {
            return self.pipeline.write_kept(kept, rng, scratch, row).map_err(unfit);
        }
        let bytes = place.read(file)?;
        let keep = |image: &[u8]| {
            if let Some(cache) = &self.cache {
                cache.put(index, image);
            }
        };
        self.pipeline.write(bytes, rng, scratch, row, keep).map_err(unfit)
    }

    /// What becomes of each image.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
}

impl FileRows for Images {
    fn field(&self) -> &'static str {
        "image"
    }

    fn files(&self) -> &Listed {
        &self.files
    }

    fn dtype(&self) -> DType {
        self.pipeline.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.pipeline.shape()
    }

    fn is_random(&self) -> bool {
        self.pipeline.is_random()
    }

    fn write_row(&self, index: usize, rng: &mut SampleRng, row: &mut [u8]) -> Result<(), FileError> {
        self.desks.with(|desk| self.make(index, rng, desk, row))
    }
}

impl ImageSpec {
    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: impl Transform + 'static) -> Self {
        self.steps.push(Arc::new(step));
        self
    }

    /// Brings the shorter side to a length.
    #[must_use]
    pub fn resize(self, side: usize) -> Self {
        let (filter, like) = (Filter::Bilinear, Like::Pillow);
        self.then(transform::ResizeShort { side, longest: None, filter, like })
    }

    /// Brings it to a width and a height.
    #[must_use]
    pub fn resize_to(self, width: usize, height: usize) -> Self {
        let (filter, like) = (Filter::Bilinear, Like::Pillow);
        self.then(transform::ResizeTo { size: (width, height), filter, like })
    }

    /// Keeps the middle.
    #[must_use]
    pub fn centre_crop(self, width: usize, height: usize) -> Self {
        self.then(transform::CentreCrop { size: (width, height) })
    }

    /// Keeps a part from anywhere.
    #[must_use]
    pub fn random_crop(self, width: usize, height: usize) -> Self {
        self.then(transform::RandomCrop { size: (width, height), pad: None, if_needed: None })
    }

    /// Keeps a part from anywhere, 8 to 100 % of the area, about square, and brings it to a size.
    #[must_use]
    pub fn random_resized_crop(self, width: usize, height: usize) -> Self {
        self.then(transform::RandomResizedCrop {
            size: (width, height),
            scale: (0.08, 1.0),
            ratio: (3.0 / 4.0, 4.0 / 3.0),
            filter: Filter::Bilinear,
            like: Like::Pillow,
        })
    }

    /// Turns left to right, every other image.
    #[must_use]
    pub fn random_mirror(self) -> Self {
        self.then(transform::Flip { way: transform::Way::Mirror, probability: 0.5 })
    }

    /// Takes off a mean and divides by a standard deviation, of numbers between 0 and 1.
    #[must_use]
    pub fn normalise(mut self, mean: impl Into<Vec<f32>>, std: impl Into<Vec<f32>>) -> Self {
        self.shifts.push(MeanStd { mean: mean.into(), std: std.into() });
        self
    }

    /// Bytes instead of floats.
    #[must_use]
    pub fn as_bytes(mut self) -> Self {
        self.as_bytes = true;
        self
    }

    /// Decodes images that get much smaller in less time, not to the bit.
    #[must_use]
    pub fn decoding(mut self, decode: Decode) -> Self {
        self.decode = decode;
        self
    }

    /// Floats of another type: f16, bf16 or f64.
    #[must_use]
    pub fn cast(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Row, column, channel instead of channel, row, column.
    #[must_use]
    pub fn channels_last(mut self) -> Self {
        self.arrangement = Arrangement::Pixels;
        self
    }

    /// Checks that the steps fit together and give rows of one shape.
    pub fn build(self) -> Result<Images, Refused> {
        if self.as_bytes && !self.shifts.is_empty() {
            return Err(Refused("bytes cannot be normalised: leave out one of both".into()));
        }
        let numbers =
            if self.as_bytes { Numbers::Bytes } else { Numbers::Floats(Unit::Divided, self.shifts) };
        let mut pipeline = Pipeline::new(self.steps, numbers, self.arrangement)?.decoding(self.decode);
        if self.dtype != DType::F32 {
            pipeline = pipeline.cast(self.dtype)?;
        }
        Ok(Images::new(self.files, pipeline))
    }
}
