//! A text in every file.

use std::borrow::Cow;

use feedline_source::{Paths, read_into};

use crate::{Memory, Place, Source, TextError, arena::check_labels, source::utf8};

/// Files, with labels if there are any.
#[derive(Debug)]
pub struct Files {
    paths: Paths,
    labels: Vec<i64>,
}

impl Files {
    /// Files, and as many labels; or none, and each has the label 0.
    pub fn new(paths: Paths, labels: Vec<i64>) -> Result<Self, TextError> {
        check_labels(labels.len(), paths.len())?;
        Ok(Self { paths, labels })
    }
}

impl Source for Files {
    fn len(&self) -> usize {
        self.paths.len()
    }

    fn read<'a>(&'a self, index: usize, memory: &'a mut Memory) -> Result<(Cow<'a, str>, i64), TextError> {
        let path = self.paths.get(index).ok_or(TextError::NoSuch(index as i64, self.len()))?;
        let bytes = read_into(path, &mut memory.bytes).map_err(TextError::unreadable(path))?;
        let text = utf8(bytes).map_err(|why| TextError::Unfit { place: self.place(index), why })?;
        Ok((Cow::Borrowed(text), self.labels.get(index).copied().unwrap_or_default()))
    }

    fn place(&self, index: usize) -> Place {
        Place::File(self.paths.get(index).unwrap_or("".as_ref()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_text() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<_> = ["a", "b", "c", "none"].iter().map(|name| folder.path().join(name)).collect();
        std::fs::write(&paths[0], "first text").unwrap();
        std::fs::write(&paths[1], "").unwrap();
        std::fs::write(&paths[2], b"ok\xff").unwrap();
        let files = Files::new(paths.iter().collect(), vec![4, 5, 6, 7]).unwrap();
        let mut memory = Memory::default();
        assert_eq!(files.read(0, &mut memory).unwrap(), ("first text".into(), 4));
        assert_eq!(files.read(1, &mut memory).unwrap(), ("".into(), 5));
        let error = files.read(2, &mut memory).unwrap_err().to_string();
        assert!(error.ends_with("c: it is not UTF-8: byte 3 of it cannot be read"), "{error}");
        assert!(matches!(files.read(3, &mut memory), Err(TextError::Unreadable { .. })));
    }
}
