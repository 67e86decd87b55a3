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

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use feedline_core::{BoxError, Field, Layout, LayoutError, RowMut, SampleRng};
pub use feedline_media::{
    Arrangement, Filter, Like, MeanStd, MediaError, Numbers, Pipeline, Refused, Scratch, Transform,
    normalise::Unit, transform,
};
pub use feedline_source::{Folder, FolderError, Paths};

use crate::Rows;

/// Why there is no row of an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// There is no such sample.
    #[error("there is no image {0}: there are {1}")]
    NoSuch(usize, usize),
    /// Its file cannot be read.
    #[error("{path} cannot be read: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It cannot be decoded, or not be transformed.
    #[error("{path}: {error}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: MediaError,
    },
}

/// Files and what is to become of them; checked by [`ImageSpec::build`].
#[derive(Clone, Debug)]
pub struct ImageSpec {
    paths: Paths,
    labels: Vec<i64>,
    steps: Vec<Arc<dyn Transform>>,
    shifts: Vec<MeanStd>,
    as_bytes: bool,
    arrangement: Arrangement,
}

/// Images in files, and the rows they become.
pub struct Images {
    paths: Paths,
    labels: Vec<i64>,
    pipeline: Pipeline,
    /// What workers keep from image to image, while none uses it.
    desks: Mutex<Vec<Desk>>,
}

#[derive(Default)]
struct Desk {
    scratch: Scratch,
    file: Vec<u8>,
}

impl Images {
    /// A folder with one folder for each class.
    pub fn folder(root: impl AsRef<Path>) -> Result<ImageSpec, FolderError> {
        let Folder { paths, labels, .. } = Folder::list(root.as_ref())?;
        Ok(Self::files(paths, labels.into_iter().map(i64::from).collect()))
    }

    /// A list of files, and as many labels; or none, and each has the label 0.
    pub fn files(paths: Paths, labels: Vec<i64>) -> ImageSpec {
        let (steps, shifts) = (Vec::new(), Vec::new());
        ImageSpec { paths, labels, steps, shifts, as_bytes: false, arrangement: Arrangement::Planes }
    }

    /// Files for a pipeline that is checked already.
    ///
    /// # Panics
    /// If there are labels, but not one for each file.
    pub fn new(paths: Paths, mut labels: Vec<i64>, pipeline: Pipeline) -> Self {
        if labels.is_empty() {
            labels = vec![0; paths.len()];
        }
        assert_eq!(labels.len(), paths.len(), "one label for each file");
        Self { paths, labels, pipeline, desks: Mutex::default() }
    }

    /// What becomes of each image.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// The files.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The label of each file.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// Writes one image into memory of [`Pipeline::row_bytes`].
    pub fn write_image(&self, index: usize, rng: &mut SampleRng, row: &mut [u8]) -> Result<(), ImageError> {
        let path = self.paths.get(index).ok_or(ImageError::NoSuch(index, self.paths.len()))?;
        let desks = || self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut desk = desks().pop().unwrap_or_default();
        let written = feedline_source::read_into(path, &mut desk.file)
            .map_err(|error| ImageError::Unreadable { path: path.into(), error })
            .and_then(|()| {
                let made = self.pipeline.write(&desk.file, rng, &mut desk.scratch, row);
                made.map_err(|error| ImageError::Unfit { path: path.into(), error })
            });
        desks().push(desk);
        written
    }
}

impl Rows for Images {
    fn layout(&self) -> Result<Layout, LayoutError> {
        let (dtype, shape) = (self.pipeline.dtype(), self.pipeline.shape());
        Layout::new([Field::dynamic("image", dtype, shape), Field::fixed::<i64>("label", [])])
    }

    fn len(&self) -> usize {
        self.paths.len()
    }

    fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        self.write_image(index, rng, row.bytes_mut("image")?)?;
        row.write("label", &[self.labels[index]])?;
        Ok(())
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
        self.then(transform::Mirror(0.5))
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

    /// Row, column, channel instead of channel, row, column.
    #[must_use]
    pub fn channels_last(mut self) -> Self {
        self.arrangement = Arrangement::Pixels;
        self
    }

    /// Checks that the steps fit together and give rows of one shape.
    pub fn build(self) -> Result<Images, Refused> {
        if !self.labels.is_empty() && self.labels.len() != self.paths.len() {
            let (labels, files) = (self.labels.len(), self.paths.len());
            return Err(Refused(format!(
                "there are {labels} labels for {files} files: give one for each, or none"
            )));
        }
        if self.as_bytes && !self.shifts.is_empty() {
            return Err(Refused("bytes cannot be normalised: leave out one of both".into()));
        }
        let numbers =
            if self.as_bytes { Numbers::Bytes } else { Numbers::Floats(Unit::Divided, self.shifts) };
        let pipeline = Pipeline::new(self.steps, numbers, self.arrangement)?;
        Ok(Images::new(self.paths, self.labels, pipeline))
    }
}
