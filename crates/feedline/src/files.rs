//! Files that become rows of one shape, each with a label.

use std::{io, path::PathBuf};

use feedline_core::{BoxError, DType, Field, Layout, LayoutError, RowMut, SampleRng};
pub use feedline_source::{Folder, FolderError, Paths, read_into};

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

/// Files that become rows of one shape, each with a label.
pub trait FileRows: Send + Sync + 'static {
    /// The files.
    fn paths(&self) -> &Paths;

    /// As many labels.
    fn labels(&self) -> &[i64];

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

/// The layout of rows with a field of this name, and their labels.
pub(crate) fn layout(files: &impl FileRows, name: &str) -> Result<Layout, LayoutError> {
    Layout::new([Field::dynamic(name, files.dtype(), files.shape()), Field::fixed::<i64>("label", [])])
}

/// Writes both fields.
pub(crate) fn write(
    files: &impl FileRows,
    index: usize,
    rng: &mut SampleRng,
    row: &mut RowMut<'_>,
) -> Result<(), BoxError> {
    files.write_row(index, rng, row.bytes_mut(0)?)?;
    row.write(1, &[files.labels()[index]])?;
    Ok(())
}
