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
    let mut file = File::open(path)?;
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
        memory.clear();
        file.take(LARGEST).read_to_end(memory)?;
        return Ok(memory);
    }
    if memory.len() < expected {
        memory.resize(expected, 0);
    }
    let mut filled = 0;
    while filled < expected {
        match file.read(&mut memory[filled..expected]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&memory[..filled])
}

#[cfg(test)]
mod tests {
    use super::*;

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
