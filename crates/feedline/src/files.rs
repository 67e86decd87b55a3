//! Files that become rows of one shape, each with a label.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use feedline_core::{BoxError, DType, Field, Layout, LayoutError, RowMut, SampleRng};
pub use feedline_source::{Folder, FolderError, Paths, Reader, read_into};

use crate::Rows;

/// Why there is no row of a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no such sample.
    #[error("there is no sample {0}: there are {1}")]
    NoSuch(usize, usize),
    /// It cannot be read.
    #[error("{path} cannot be read: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It is not what it should be.
    #[error("{path}: {error}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: BoxError,
    },
}

/// Files, each with a label.
#[derive(Clone, Debug)]
pub struct Listed {
    paths: Paths,
    labels: Vec<i64>,
}

/// Labels that are not one for each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {labels} labels for {files} files: give one for each, or none")]
pub struct LabelError {
    labels: usize,
    files: usize,
}

impl Listed {
    /// As many labels as files; or none, and each has the label 0.
    pub fn new(paths: Paths, mut labels: Vec<i64>) -> Result<Self, LabelError> {
        if labels.is_empty() {
            labels = vec![0; paths.len()];
        }
        if labels.len() != paths.len() {
            return Err(LabelError { labels: labels.len(), files: paths.len() });
        }
        Ok(Self { paths, labels })
    }

    /// A folder with one folder for each class.
    pub fn folder(root: impl AsRef<Path>) -> Result<Self, FolderError> {
        let Folder { paths, labels, .. } = Folder::list(root.as_ref())?;
        Ok(Self { paths, labels: labels.into_iter().map(i64::from).collect() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// One of the files.
    pub fn path(&self, index: usize) -> Result<&Path, FileError> {
        self.paths.get(index).ok_or(FileError::NoSuch(index, self.len()))
    }

    /// Its label.
    pub fn label(&self, index: usize) -> Result<i64, FileError> {
        self.labels.get(index).copied().ok_or(FileError::NoSuch(index, self.len()))
    }
}

/// Files that become rows of one shape, each with a label. They can be loaded as any [`Rows`].
pub trait FileRows: Send + Sync + 'static {
    /// What the field is called, beside `"label"`.
    fn field(&self) -> &'static str;

    /// The files.
    fn files(&self) -> &Listed;

    /// The type of a row's numbers.
    fn dtype(&self) -> DType;

    /// The extents of a row.
    fn shape(&self) -> &[usize];

    /// Whether random numbers are drawn.
    fn is_random(&self) -> bool {
        false
    }

    /// Writes the row of a file, which has as many bytes as the shape says.
    fn write_row(&self, index: usize, rng: &mut SampleRng, row: &mut [u8]) -> Result<(), FileError>;

    /// Bytes of a row.
    fn row_bytes(&self) -> usize {
        self.shape().iter().product::<usize>() * self.dtype().size()
    }
}

impl<T: FileRows> Rows for T {
    fn layout(&self) -> Result<Layout, LayoutError> {
        Layout::new([
            Field::dynamic(self.field(), self.dtype(), self.shape()),
            Field::fixed::<i64>("label", []),
        ])
    }

    fn len(&self) -> usize {
        self.files().len()
    }

    fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        self.write_row(index, rng, row.bytes_mut(0)?)?;
        row.write(1, &[self.files().label(index)?])?;
        Ok(())
    }
}

/// What workers keep from file to file, while none uses it.
#[derive(Debug, Default)]
pub(crate) struct Desks<T>(Mutex<Vec<T>>);

impl<T: Default> Desks<T> {
    /// Calls back with one.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let desks = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = desks().pop();
        let mut desk = taken.unwrap_or_default();
        let result = work(&mut desk);
        desks().push(desk);
        result
    }
}
