//! Arrays in files (`.npy`, `.npz`, `.pt`, safetensors), read straight into the rows of batches.
//!
//! ```no_run
//! use feedline::{Spec, files::Listed, tensors::Tensors};
//!
//! let files = Listed::new(["a.npy", "b.npy"].iter().collect(), vec![0, 1])?;
//! let tensors = Tensors::files(files, None)?;
//! let mut loader = Spec::rows(tensors).batch_size(64).workers(2).build()?;
//! for batch in loader.epoch() {
//!     let batch = batch?;
//!     let (tensors, labels) = (batch.slice::<f32>("tensor")?, batch.slice::<i64>("label")?);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{fs::File, io, path::Path};

use feedline_core::{DType, SampleRng};
pub use feedline_media::tensor::{Found, ReadAt, TensorError, find};

use crate::files::{FileError, FileRows, Listed};

/// Arrays in files, all of one type and shape.
#[derive(Debug)]
pub struct Tensors {
    files: Listed,
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
    /// Files that must all be of the type and shape of the first. Of files with several arrays, `name` says which.
    pub fn files(files: Listed, name: Option<String>) -> Result<Self, FileError> {
        let first = files.path(0)?;
        let like = find(&open(first)?, name.as_deref()).map_err(|error| unfit(first, error))?;
        Ok(Self { files, name, like })
    }
}

impl FileRows for Tensors {
    fn field(&self) -> &'static str {
        "tensor"
    }

    fn files(&self) -> &Listed {
        &self.files
    }

    fn dtype(&self) -> DType {
        self.like.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.like.shape
    }

    fn write_row(&self, index: usize, _: &mut SampleRng, row: &mut [u8]) -> Result<(), FileError> {
        let path = self.files.path(index)?;
        let file = open(path)?;
        let found = find(&file, self.name.as_deref()).map_err(|error| unfit(path, error))?;
        if (found.dtype, &found.shape) != (self.like.dtype, &self.like.shape) {
            let (found, expected) = (found.name(), self.like.name());
            return Err(unfit(path, TensorError::Other { found, expected }));
        }
        found.read(&file, row).map_err(|error| unfit(path, error))
    }
}
