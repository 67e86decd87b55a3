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

use std::{
    fs::File,
    io::{self, IoSliceMut, Read as _},
    path::Path,
};

use feedline_core::{DType, SampleRng};
pub use feedline_media::tensor::{Found, ReadAt, TensorError, find};

use crate::files::{Desks, FileError, FileRows, Listed, Place};

/// Arrays in files, all of one type and shape.
#[derive(Debug)]
pub struct Tensors {
    files: Listed,
    name: Option<String>,
    like: Found,
    desks: Desks<Desk>,
}

/// What a worker keeps from file to file: where the numbers of the last one were, and how long it was without them.
#[derive(Debug, Default)]
struct Desk {
    last: Option<(usize, usize)>,
    around: Vec<u8>,
}

/// The most bytes around the numbers that are read together with them.
const MOST_AROUND: usize = 1 << 16;

/// A file that was read: what stands before the row, the row, and what stands behind it.
struct Pieces<'a>([&'a [u8]; 3]);

impl ReadAt for Pieces<'_> {
    fn len(&self) -> u64 {
        self.0.iter().map(|piece| piece.len() as u64).sum()
    }

    fn read_exact_at(&self, mut buffer: &mut [u8], at: u64) -> io::Result<()> {
        let mut before = usize::try_from(at).unwrap_or(usize::MAX);
        for piece in self.0 {
            let Some(rest) = piece.get(before..) else {
                before -= piece.len();
                continue;
            };
            let (now, later) = buffer.split_at_mut(rest.len().min(buffer.len()));
            now.copy_from_slice(&rest[..now.len()]);
            (buffer, before) = (later, 0);
        }
        if buffer.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
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
        let first = files.place(0)?;
        let like = match first {
            Place::File(path) => find(&open(path)?, name.as_deref()),
            Place::Memory(_, bytes) => find(bytes, name.as_deref()),
        };
        let like = like.map_err(|error| unfit(&first.name(), error))?;
        Ok(Self { files, name, like, desks: Desks::default() })
    }

    /// Reads a whole file by one call, taking it to be like the last one, and looks then whether it is. Where its numbers
    /// are, the file itself says; if they are not in the row, nothing is lost but time.
    fn guess(&self, path: &Path, desk: &mut Desk, row: &mut [u8]) -> Option<()> {
        let (at, around) = desk.last?;
        let mut file = File::open(path).ok()?;
        // With one byte more, that there is not if it is as long as the last.
        desk.around.resize(around + 1, 0);
        let (head, tail) = desk.around.split_at_mut(at);
        let mut pieces = [&mut *head, &mut *row, &mut *tail].map(IoSliceMut::new);
        let read = file.read_vectored(&mut pieces).ok()?;
        if read != around + row.len() {
            return None;
        }
        let found = find(&Pieces([head, row, &tail[..around - at]]), self.name.as_deref()).ok()?;
        (Found { at: found.at, ..self.like.clone() } == found && found.at == at as u64).then_some(())
    }

    /// Finds the numbers of something that is like a file, and reads them.
    fn fill(&self, file: &(impl ReadAt + ?Sized), row: &mut [u8]) -> Result<Found, TensorError> {
        let found = find(file, self.name.as_deref())?;
        if (found.dtype, &found.shape) != (self.like.dtype, &self.like.shape) {
            let (found, expected) = (found.name(), self.like.name());
            return Err(TensorError::Other { found, expected });
        }
        found.read(file, row)?;
        Ok(found)
    }

    /// The same of a file; and where its numbers were, if the next may be like it.
    fn read(&self, path: &Path, row: &mut [u8]) -> Result<Option<(usize, usize)>, FileError> {
        let file = open(path)?;
        let found = self.fill(&file, row).map_err(|error| unfit(path, error))?;
        let around = file.len().checked_sub(row.len() as u64).and_then(|around| usize::try_from(around).ok());
        let can_be_guessed = |around: &usize| *around <= MOST_AROUND && !found.swapped && !self.like.swapped;
        Ok(around.filter(can_be_guessed).map(|around| (found.at as usize, around)))
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
        let path = match self.files.place(index)? {
            Place::File(path) => path,
            place @ Place::Memory(_, bytes) => {
                return self.fill(bytes, row).map(drop).map_err(|error| unfit(&place.name(), error));
            }
        };
        self.desks.with(|desk| {
            if self.guess(path, desk, row).is_none() {
                desk.last = self.read(path, row)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use feedline_core::{Key, Purpose};

    use super::*;

    fn npy(header: &str, numbers: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(numbers);
        bytes
    }

    #[test]
    fn a_file_that_is_not_like_the_last_is_read_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }";
        let files = [
            npy(header, &[1, 2, 3, 4]),
            npy(header, &[5, 6, 7, 8]),
            // Its numbers begin later; there is something behind them; one is missing; it is of another type.
            npy(&format!("{header}   "), &[9, 10, 11, 12]),
            npy(header, &[13, 14, 15, 16, 99]),
            npy(header, &[17, 18, 19]),
            npy(&header.replace("|u1", "|i1"), &[1, 2, 3, 4]),
            npy(header, &[20, 21, 22, 23]),
        ];
        let paths: Vec<_> = (0..files.len()).map(|at| folder.path().join(at.to_string())).collect();
        for (path, file) in paths.iter().zip(&files) {
            std::fs::write(path, file).unwrap();
        }
        let tensors = Tensors::files(Listed::new(paths.iter().collect(), Vec::new()).unwrap(), None).unwrap();
        let key = Key::new(0, 0, Purpose::Sample);
        // In this order and in the other, so that each follows each kind.
        for at in (0..files.len()).chain((0..files.len()).rev()) {
            let mut row = [0; 4];
            let read = tensors.write_row(at, &mut key.rng(0), &mut row);
            match at {
                4 => assert!(read.unwrap_err().to_string().contains("truncated")),
                5 => assert!(read.unwrap_err().to_string().contains("I8")),
                _ => {
                    read.unwrap();
                    assert_eq!(row, files[at][files[at].len() - 4 - usize::from(at == 3)..][..4]);
                }
            }
        }
    }
}
