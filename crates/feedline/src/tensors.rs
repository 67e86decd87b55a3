//! Arrays in files (`.npy`, `.npz`, `.pt`, safetensors), read straight into the rows of batches.
//!
//! ```no_run
//! use feedline::{Spec, tensors::Tensors};
//!
//! let tensors = Tensors::files(["a.npy", "b.npy"].iter().collect(), vec![0, 1], None)?;
//! let mut loader = Spec::rows(tensors).batch_size(64).workers(2).build()?;
//! for batch in loader.epoch() {
//!     let batch = batch?;
//!     let (tensors, labels) = (batch.slice::<f32>("tensor")?, batch.slice::<i64>("label")?);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{fs::File, io, path::Path};

use feedline_core::{BoxError, DType, Layout, LayoutError, RowMut, SampleRng};
pub use feedline_media::tensor::{Found, ReadAt, TensorError, find};

use crate::{
    Rows,
    files::{self, FileError, FileRows, Paths},
};

/// Arrays in files, all of one type and shape.
#[derive(Debug)]
pub struct Tensors {
    paths: Paths,
    labels: Vec<i64>,
    name: Option<String>,
    like: Found,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Opened(File, u64);

impl ReadAt for Opened {
    fn len(&self) -> u64 {
        self.1
    }

    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.0, buffer, at)
    }
}

pub(crate) fn open(path: &Path) -> Result<Opened, FileError> {
    let opened = File::open(path).and_then(|file| {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            Err(io::ErrorKind::IsADirectory.into())
        } else {
            Ok(Opened(file, metadata.len()))
        }
    });
    opened.map_err(|error| FileError::Unreadable { path: path.into(), error })
}

fn unfit(path: &Path, error: TensorError) -> FileError {
    match error {
        TensorError::Io(error) => FileError::Unreadable { path: path.into(), error },
        other => FileError::Unfit { path: path.into(), error: other.into() },
    }
}

impl Tensors {
    /// Files, and as many labels; or none, and each has the label 0. All must be of the type and shape of the first. Of files
    /// with several arrays, `name` says which.
    ///
    /// # Panics
    /// If there are labels, but not one for each file.
    pub fn files(paths: Paths, mut labels: Vec<i64>, name: Option<String>) -> Result<Self, FileError> {
        if labels.is_empty() {
            labels = vec![0; paths.len()];
        }
        assert_eq!(labels.len(), paths.len(), "one label for each file");
        let first = paths.get(0).ok_or(FileError::NoSuch(0, 0))?;
        let like = find(&open(first)?, name.as_deref()).map_err(|error| unfit(first, error))?;
        Ok(Self { paths, labels, name, like })
    }
}

impl FileRows for Tensors {
    fn paths(&self) -> &Paths {
        &self.paths
    }

    fn labels(&self) -> &[i64] {
        &self.labels
    }

    fn dtype(&self) -> DType {
        self.like.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.like.shape
    }

    fn write_row(&self, index: usize, _: &mut SampleRng, row: &mut [u8]) -> Result<(), FileError> {
        let path = self.paths.get(index).ok_or(FileError::NoSuch(index, self.paths.len()))?;
        let file = open(path)?;
        let found = find(&file, self.name.as_deref()).map_err(|error| unfit(path, error))?;
        if (found.dtype, &found.shape) != (self.like.dtype, &self.like.shape) {
            let (found, expected) = (found.name(), self.like.name());
            return Err(unfit(path, TensorError::Other { found, expected }));
        }
        found.read(&file, row).map_err(|error| unfit(path, error))
    }
}

impl Rows for Tensors {
    fn layout(&self) -> Result<Layout, LayoutError> {
        files::layout(self, "tensor")
    }

    fn len(&self) -> usize {
        self.paths.len()
    }

    fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        files::write(self, index, rng, row)
    }
}
