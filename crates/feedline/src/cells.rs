//! TIFF files of any number of channels, as microscopes write them, straight into the rows of batches.
//!
//! ```no_run
//! use feedline::{Spec, cells::{Cells, Filter, Steps}, files::Listed};
//!
//! let files = Listed::folder("cells/train")?;
//! let steps = Steps { resize: Some(((224, 220), Filter::Bilinear)), floats: true, ..Steps::default() };
//! let mut loader = Spec::rows(Cells::new(files, steps)?).batch_size(64).shuffle(true).workers(2).build()?;
//! for batch in loader.epoch() {
//!     let batch = batch?;
//!     let (cells, labels) = (batch.slice::<f32>("image")?, batch.slice::<i64>("label")?);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use feedline_core::{DType, SampleRng};
use feedline_media::stack::{Scratch, Stack};
pub use feedline_media::{Filter, MeanStd, MediaError, Refused, stack::Steps};

use crate::files::{Desks, FileError, FileRows, Listed, Place, Reader};

/// Images of many channels, all like the first.
pub struct Cells {
    files: Listed,
    stack: Stack,
    desks: Desks<Desk>,
}

/// Cells that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum CellsError {
    /// The first file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The steps do not fit it.
    #[error(transparent)]
    Steps(#[from] Refused),
}

#[derive(Default)]
struct Desk {
    scratch: Scratch,
    file: Reader,
}

impl Desk {
    fn read<'a>(&'a mut self, place: Place<'a>) -> Result<(&'a mut Scratch, &'a [u8]), FileError> {
        let bytes = place.read(&mut self.file)?;
        Ok((&mut self.scratch, bytes))
    }
}

fn unfit(place: Place<'_>) -> impl Fn(MediaError) -> FileError {
    move |error| FileError::Unfit { path: place.name(), error: error.into() }
}

impl Cells {
    /// Files, and what becomes of them. The first is looked at.
    pub fn new(files: Listed, steps: Steps) -> Result<Self, CellsError> {
        let first = files.place(0)?;
        let mut desk = Desk::default();
        let (scratch, bytes) = desk.read(first)?;
        let like = scratch.open(bytes).map_err(unfit(first))?;
        let stack = Stack::new(like, steps)?;
        Ok(Self { files, stack, desks: Desks::default() })
    }
}

impl FileRows for Cells {
    fn field(&self) -> &'static str {
        "image"
    }

    fn files(&self) -> &Listed {
        &self.files
    }

    fn dtype(&self) -> DType {
        self.stack.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.stack.shape()
    }

    fn is_random(&self) -> bool {
        self.stack.is_random()
    }

    fn write_row(&self, index: usize, rng: &mut SampleRng, row: &mut [u8]) -> Result<(), FileError> {
        let place = self.files.place(index)?;
        self.desks.with(|desk| {
            let (scratch, bytes) = desk.read(place)?;
            self.stack.write(bytes, rng, scratch, row).map_err(unfit(place))
        })
    }
}

/// What each file has, and none of its numbers: channels, rows and columns. Files need not be alike.
pub struct Extents {
    files: Listed,
    desks: Desks<Desk>,
}

impl Extents {
    /// Of some files.
    pub fn new(files: Listed) -> Self {
        Self { files, desks: Desks::default() }
    }
}

impl FileRows for Extents {
    fn field(&self) -> &'static str {
        "extents"
    }

    fn files(&self) -> &Listed {
        &self.files
    }

    fn dtype(&self) -> DType {
        DType::I64
    }

    fn shape(&self) -> &[usize] {
        &[3]
    }

    fn is_random(&self) -> bool {
        false
    }

    fn write_row(&self, index: usize, _: &mut SampleRng, row: &mut [u8]) -> Result<(), FileError> {
        let place = self.files.place(index)?;
        self.desks.with(|desk| {
            let (scratch, bytes) = desk.read(place)?;
            let extent = scratch.open(bytes).map_err(unfit(place))?;
            let extents = [extent.channels, extent.height, extent.width];
            for (number, extent) in row.as_chunks_mut::<8>().0.iter_mut().zip(extents) {
                *number = (extent as i64).to_ne_bytes();
            }
            Ok(())
        })
    }
}
