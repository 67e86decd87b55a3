//! Arrays that are already numbers: `.npy`, `.npz`, `.pt` and safetensors. Which format it is, the first bytes say.
//!
//! An array is first found (its type, its shape, where its bytes begin), then read straight into the row of a batch. Nothing
//! in a file is executed: what Python's pickle would build is read as data, and what is not a tensor is refused.

mod npy;
mod pickle;
mod pt;
mod safetensors;
mod zip;

use std::io;

use feedline_core::DType;

/// A file, or bytes that are like one.
pub trait ReadAt {
    /// How many bytes there are.
    fn len(&self) -> u64;

    /// Fills a buffer from a place on.
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ReadAt for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let begin = usize::try_from(at).ok();
        let bytes = begin.and_then(|begin| self.get(begin..begin.checked_add(buffer.len())?));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// An array that cannot be found or read.
#[derive(Debug, thiserror::Error)]
pub enum TensorError {
    /// The file cannot be read, or ends too early.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not of a format that is known.
    #[error("it is not an .npy, .npz, .pt or safetensors file")]
    Unknown,
    /// It is damaged.
    #[error("the {0} file is damaged: {1}")]
    Damaged(&'static str, String),
    /// It is of a kind that is not read.
    #[error("{0}")]
    Unfit(String),
    /// It has another type or shape than the others.
    #[error("it is {found}, but the first file is {expected}: all should be alike")]
    Other {
        /// What it is.
        found: String,
        /// What was expected.
        expected: String,
    },
}

/// An array in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The type of its numbers.
    pub dtype: DType,
    /// Its extents.
    pub shape: Vec<usize>,
    /// Where its bytes begin.
    pub at: u64,
    /// Whether its numbers have their greater bytes first.
    pub swapped: bool,
}

impl Found {
    /// Its bytes; `None` if no memory has as many.
    pub fn bytes(&self) -> Option<usize> {
        self.shape.iter().try_fold(self.dtype.size(), |bytes, extent| bytes.checked_mul(*extent))
    }

    /// In words.
    pub fn name(&self) -> String {
        format!("{:?} of shape {:?}", self.dtype, self.shape)
    }

    /// Refuses what is not all in the file.
    fn checked(self, length: u64) -> Result<Self, TensorError> {
        let end = self.bytes().and_then(|bytes| self.at.checked_add(bytes as u64));
        if end.is_none_or(|end| end > length) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is truncated").into());
        }
        Ok(self)
    }

    /// Reads it into a row.
    ///
    /// # Panics
    /// If the row has another length.
    pub fn read(&self, file: &(impl ReadAt + ?Sized), row: &mut [u8]) -> Result<(), TensorError> {
        assert_eq!(Some(row.len()), self.bytes(), "a row of another length");
        file.read_exact_at(row, self.at)?;
        if self.swapped {
            row.chunks_exact_mut(self.dtype.size()).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}

/// Finds the array of a file: the only one, or the one of this name.
pub fn find(file: &(impl ReadAt + ?Sized), name: Option<&str>) -> Result<Found, TensorError> {
    let mut head = [0; 512];
    let length = file.len();
    let head = &mut head[..length.min(512) as usize];
    file.read_exact_at(head, 0)?;
    let found = match head {
        [] => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty").into()),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => npy::find(file, head, 0)?,
        [b'P', b'K', 3, 4, ..] => zipped(file, name)?,
        [_, _, _, _, _, _, _, _, b'{', ..] => safetensors::find(file, head, name)?,
        _ => return Err(TensorError::Unknown),
    };
    found.checked(length)
}

/// In an archive: torch's, or several of numpy's.
fn zipped(file: &(impl ReadAt + ?Sized), name: Option<&str>) -> Result<Found, TensorError> {
    let archive = zip::Archive::open(file)?;
    if let Some(pickle) = archive.entries().find(|entry| entry.name.ends_with("/data.pkl")) {
        return pt::find(file, &archive, pickle, name);
    }
    let wanted = |entry: &&zip::Entry| match name {
        Some(name) => entry.name.strip_suffix(".npy") == Some(name) || entry.name == name,
        None => entry.name.strip_suffix(".npy").is_some(),
    };
    let mut entries = archive.entries().filter(wanted);
    let Some(entry) = entries.next() else {
        return Err(TensorError::Unfit(missing(name, archive.entries().map(|entry| entry.name.as_str()))));
    };
    if entries.next().is_some() {
        return Err(TensorError::Unfit(several(archive.entries().map(|entry| entry.name.as_str()))));
    }
    let at = entry.place(file)?;
    let mut head = [0; 512];
    let head = &mut head[..entry.length.min(512) as usize];
    file.read_exact_at(head, at)?;
    npy::find(file, head, at)
}

fn missing<'a>(name: Option<&str>, names: impl Iterator<Item = &'a str>) -> String {
    let names = listed(names);
    match name {
        Some(name) => format!("there is no array {name:?} in it; there are {names}"),
        None => format!("there is no array in it; there are {names}"),
    }
}

fn several<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("there are several arrays in it, and none was named: {}", listed(names))
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.take(10).map(|name| format!("{name:?}")).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_array_is_refused() {
        for bytes in [&b""[..], b"<html>", b"\x93NUMPY", b"PK\x03\x04", &[0; 600], b"\xff\0\0\0\0\0\0\0{"] {
            assert!(find(bytes, None).is_err(), "{bytes:?}");
        }
    }
}
