//! Many paths in little memory: their bytes one after the other.

use std::path::{Path, PathBuf};

/// A list of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Paths {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds one.
    pub fn push(&mut self, path: &Path) {
        self.bytes.extend_from_slice(path.as_os_str().as_encoded_bytes());
        self.ends.push(self.bytes.len());
    }

    /// One of them.
    pub fn get(&self, at: usize) -> Option<&Path> {
        let end = *self.ends.get(at)?;
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        // SAFETY: these are the whole bytes of one path, as they came from it.
        let name = unsafe { std::ffi::OsStr::from_encoded_bytes_unchecked(&self.bytes[begin..end]) };
        Some(Path::new(name))
    }

    /// All of them in turn.
    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        (0..self.len()).map(|at| self.get(at).expect("it is there"))
    }
}

impl<P: Into<PathBuf>> FromIterator<P> for Paths {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        let mut list = Self::default();
        for path in paths {
            list.push(&path.into());
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let names = ["a/b.jpg", "", "ü/ж.png", "c"];
        let paths: Paths = names.iter().collect();
        assert_eq!(paths.iter().collect::<Vec<_>>(), names.map(Path::new));
        assert_eq!(paths.get(2), Some(Path::new("ü/ж.png")));
        assert_eq!(paths.get(4), None);
        assert!(Paths::default().is_empty());
    }
}
