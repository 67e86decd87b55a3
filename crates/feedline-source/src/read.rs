//! The bytes of a file, into memory that is used again.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// The largest file that is read whole.
const LARGEST: u64 = 1 << 32;

/// Reads a file. Its bytes lie in the memory, which is used again and may be longer.
pub fn read_into<'a>(path: &Path, memory: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
    rest(File::open(path)?, memory, 0)
}

/// Reads file after file. One that is as long as the one before takes three calls of the system: its length is not asked for.
#[derive(Debug, Default)]
pub struct Reader {
    memory: Vec<u8>,
    last: usize,
}

impl Reader {
    /// Reads a file.
    pub fn read(&mut self, path: &Path) -> io::Result<&[u8]> {
        let Self { memory, last } = self;
        let mut file = File::open(path)?;
        if memory.len() <= *last {
            memory.resize(*last + 1, 0);
        }
        // A byte more than expected: what ends before it has ended.
        let begun = if *last == 0 { 0 } else { some(&mut file, &mut memory[..=*last])? };
        if *last == 0 || begun != *last {
            *last = rest(file, memory, begun)?.len();
        }
        Ok(&self.memory[..self.last])
    }
}

/// As many bytes as one call gives.
fn some(file: &mut File, memory: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(memory) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The bytes of a file of which some are there already.
fn rest(mut file: File, memory: &mut Vec<u8>, mut filled: usize) -> io::Result<&[u8]> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if metadata.len() > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 4 GiB"));
    }
    let expected = metadata.len() as usize;
    if expected == 0 {
        // Pipes and the like do not say how long they are.
        memory.truncate(filled);
        file.take(LARGEST).read_to_end(memory)?;
        return Ok(memory);
    }
    if memory.len() < expected {
        memory.resize(expected, 0);
    }
    while filled < expected {
        match some(&mut file, &mut memory[filled..expected])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(&memory[..filled])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_any_length_follow_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = Reader::default();
        // As long as the one before, longer, shorter, empty.
        for (number, length) in [10, 10, 11, 9, 9, 0, 0, 1, 5000, 5000, 4999, 0, 3].into_iter().enumerate() {
            let path = folder.path().join(number.to_string());
            std::fs::write(&path, vec![number as u8; length]).unwrap();
            assert_eq!(reader.read(&path).unwrap(), vec![number as u8; length], "{number}");
        }
        assert!(reader.read(folder.path()).is_err());
        assert_eq!(reader.read(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(reader.read(&folder.path().join("12")).unwrap(), [12; 3]);
    }

    #[test]
    fn what_does_not_say_its_length_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [1; 100]).unwrap();
        let mut reader = Reader::default();
        reader.read(&path).unwrap();
        let version = std::fs::read("/proc/version").unwrap();
        assert_eq!(reader.read(Path::new("/proc/version")).unwrap(), version);
        assert_eq!(reader.read(Path::new("/proc/version")).unwrap(), version);
    }

    #[test]
    fn memory_holds_the_last_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (long, short, empty) =
            (folder.path().join("long"), folder.path().join("short"), folder.path().join("empty"));
        std::fs::write(&long, [1; 1000]).unwrap();
        std::fs::write(&short, [2; 10]).unwrap();
        std::fs::write(&empty, []).unwrap();
        let mut memory = Vec::new();
        for (path, expected) in
            [(&long, vec![1; 1000]), (&short, vec![2; 10]), (&empty, vec![]), (&long, vec![1; 1000])]
        {
            assert_eq!(read_into(path, &mut memory).unwrap(), expected);
        }
        assert_eq!(read_into(folder.path(), &mut memory).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(
            read_into(&folder.path().join("none"), &mut memory).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
