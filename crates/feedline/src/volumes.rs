//! Volumes in files: NRRD with its header attached or apart, NIfTI in one file or two, packed or not.
//!
//! ```no_run
//! use feedline::volumes::{Scratch, VolumeFile};
//!
//! let (file, mut scratch) = (VolumeFile::open("ct.nrrd", false)?, Scratch::default());
//! let mut numbers = vec![0; file.header().bytes()];
//! file.read_into(&mut scratch, &mut numbers)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::{Path, PathBuf};

pub use feedline_media::volume::{Header, MOST_BYTES, Place, Scratch, VolumeError};

use crate::{
    files::FileError,
    tensors::{Opened, open},
};

/// An open volume. What its header says has been compared with what its data can give.
#[derive(Debug)]
pub struct VolumeFile {
    header: Header,
    data: Opened,
    /// The file that the numbers are in.
    path: PathBuf,
}

impl VolumeFile {
    /// Opens a file, and the one with its numbers if that is another. Which one it is, the file says: one outside its
    /// folder is refused unless `allow_outside`, because anybody may have written it.
    pub fn open(path: impl AsRef<Path>, allow_outside: bool) -> Result<Self, FileError> {
        let path = path.as_ref();
        let file = open(path)?;
        let header = Header::read(&file).map_err(|error| unfit(path, error))?;
        let other = match &header.place {
            Place::Here => None,
            Place::Named(name) => Some(named(path, name, allow_outside)?),
            Place::Beside => Some(beside(path)?),
        };
        let (data, path) = match other {
            Some(other) => (open(&other)?, other),
            None => (file, path.into()),
        };
        header.check(&data).map_err(|error| unfit(&path, error))?;
        Ok(Self { header, data, path })
    }

    /// What is known of it.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the numbers as they are stored, the fastest axis first.
    ///
    /// # Panics
    /// If the row is not as long as the header says.
    pub fn read_into(&self, scratch: &mut Scratch, row: &mut [u8]) -> Result<(), FileError> {
        self.header.read_into(&self.data, scratch, row).map_err(|error| unfit(&self.path, error))
    }

    /// Reads the values: the numbers as floats, times a slope, plus an intercept where the header has them.
    ///
    /// # Panics
    /// If the row is not as long as the header says.
    pub fn read_scaled_into(&self, scratch: &mut Scratch, row: &mut [f64]) -> Result<(), FileError> {
        self.header.read_scaled_into(&self.data, scratch, row).map_err(|error| unfit(&self.path, error))
    }
}

fn unfit(path: &Path, error: VolumeError) -> FileError {
    match error {
        VolumeError::Io(error) => FileError::Unreadable { path: path.into(), error },
        other => FileError::Unfit { path: path.into(), error: other.into() },
    }
}

/// The file that a header names, where links and `..` lead to.
fn named(path: &Path, name: &str, allow_outside: bool) -> Result<PathBuf, FileError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let other = folder.join(name);
    if allow_outside {
        return Ok(other);
    }
    let real = |path: &Path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        path.canonicalize().map_err(|error| FileError::Unreadable { path: path.into(), error })
    };
    if !real(&other)?.starts_with(real(folder)?) {
        let text =
            format!("its numbers are in {name:?}, outside its folder: allow that if you trust the file");
        return Err(unfit(path, VolumeError::Unfit(text)));
    }
    Ok(other)
}

/// The image of a header: `brain.img` of `brain.hdr`.
fn beside(path: &Path) -> Result<PathBuf, FileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, packed) = name.strip_suffix(".gz").map_or((&*name, ""), |stem| (stem, ".gz"));
    let Some(stem) = stem.strip_suffix(".hdr") else {
        let text =
            "its numbers are in another file, of which the name is not known: this one should end with .hdr";
        return Err(unfit(path, VolumeError::Unfit(text.into())));
    };
    Ok(path.with_file_name(format!("{stem}.img{packed}")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const HEADER: &str = "NRRD0004\ntype: uchar\ndimension: 1\nsizes: 3\nencoding: raw\n";

    fn read(path: &Path, allow_outside: bool) -> Result<Vec<u8>, String> {
        let file = VolumeFile::open(path, allow_outside).map_err(|error| error.to_string())?;
        let mut row = vec![0; file.header().bytes()];
        file.read_into(&mut Scratch::default(), &mut row).map_err(|error| error.to_string())?;
        Ok(row)
    }

    #[test]
    fn numbers_outside_the_folder_are_refused_unless_allowed() {
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("inside");
        fs::create_dir_all(inside.join("deeper")).unwrap();
        fs::write(root.path().join("secret"), [1, 2, 3]).unwrap();
        fs::write(inside.join("deeper/data.raw"), [4, 5, 6]).unwrap();
        std::os::unix::fs::symlink(root.path().join("secret"), inside.join("link")).unwrap();
        let header = inside.join("a.nhdr");
        let with = |name: &str, allow_outside| {
            fs::write(&header, format!("{HEADER}data file: {name}\n")).unwrap();
            read(&header, allow_outside)
        };
        for name in ["deeper/data.raw", "../inside/deeper/data.raw"] {
            assert_eq!(with(name, false), Ok(vec![4, 5, 6]));
        }
        let absolute = root.path().join("secret").display().to_string();
        for name in ["../secret", "link", "deeper/../../secret", &absolute] {
            let refused = with(name, false).unwrap_err();
            assert!(refused.contains("outside its folder") && refused.contains("a.nhdr"), "{refused}");
            assert_eq!(with(name, true), Ok(vec![1, 2, 3]));
        }
        assert!(with("nothing", false).unwrap_err().contains("cannot be read"));
        fs::write(&header, HEADER).unwrap();
        assert!(read(&header, false).unwrap_err().contains("there are 0"));
    }
}
