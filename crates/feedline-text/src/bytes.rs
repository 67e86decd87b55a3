//! The bytes of a file of many texts: in memory if they are few, else read piece by piece as they are needed.
//!
//! The file is not mapped: one that gets shorter while it is read gives an error here, and would end the process there.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt as _, path::Path};

/// Files up to this many bytes are held in memory.
const HELD: u64 = 256 << 20;

/// The longest text.
const LONGEST: u64 = 256 << 20;

/// So many bytes are read at once where the whole file is gone through.
const PIECE: usize = 1 << 20;

/// The bytes of a file.
#[derive(Debug)]
pub(crate) enum Bytes {
    Held(Vec<u8>),
    OnDisk(File, u64),
}

impl Bytes {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if metadata.len() > HELD {
            return Ok(Self::OnDisk(file, metadata.len()));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        // A pipe does not say how long it is.
        io::Read::read_to_end(&mut io::Read::take(file, HELD + 1), &mut bytes)?;
        if bytes.len() as u64 > HELD {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "it goes on and on; it should be a file",
            ));
        }
        Ok(Self::Held(bytes))
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Held(bytes) => bytes.len() as u64,
            Self::OnDisk(_, len) => *len,
        }
    }

    /// Some of them, where they are or in the memory.
    pub(crate) fn get<'a>(&'a self, range: Range<u64>, memory: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        match self {
            Self::Held(bytes) => Ok(&bytes[range.start as usize..range.end as usize]),
            Self::OnDisk(file, _) => {
                let len = range.end - range.start;
                if len > LONGEST {
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a text has more than 256 MiB"));
                }
                if memory.len() < len as usize {
                    memory.resize(len as usize, 0);
                }
                let bytes = &mut memory[..len as usize];
                file.read_exact_at(bytes, range.start)?;
                Ok(bytes)
            }
        }
    }

    /// Goes through all of them, piece by piece.
    pub(crate) fn pieces(&self, mut see: impl FnMut(u64, &[u8])) -> io::Result<()> {
        match self {
            Self::Held(bytes) => see(0, bytes),
            Self::OnDisk(file, len) => {
                let (mut at, mut piece) = (0, vec![0; PIECE]);
                while at < *len {
                    let count = PIECE.min((len - at) as usize);
                    file.read_exact_at(&mut piece[..count], at)?;
                    see(at, &piece[..count]);
                    at += count as u64;
                }
            }
        }
        Ok(())
    }

    /// What reads all of them.
    pub(crate) fn reader(&self) -> Box<dyn io::Read + '_> {
        match self {
            Self::Held(bytes) => Box::new(&bytes[..]),
            Self::OnDisk(file, len) => Box::new(Reader { file, at: 0, len: *len }),
        }
    }

    /// The line that a byte is in, from 1. Asked for errors only: it goes through the file.
    pub(crate) fn line(&self, of: u64) -> u64 {
        let mut line = 1;
        let seen = self.pieces(|at, piece| {
            let before = of.saturating_sub(at).min(piece.len() as u64) as usize;
            line += memchr::memchr_iter(b'\n', &piece[..before]).count() as u64;
        });
        // Of a file that has become unreadable no line can be said; that there is an error is said already.
        if seen.is_ok() { line } else { 0 }
    }
}

struct Reader<'a> {
    file: &'a File,
    at: u64,
    len: u64,
}

impl io::Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min((self.len - self.at) as usize);
        let count = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn on_disk_is_as_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let text = "one\ntwo\n\nfour".repeat(200_000);
        std::fs::write(&path, &text).unwrap();
        let (held, on_disk) =
            (Bytes::open(&path).unwrap(), Bytes::OnDisk(File::open(&path).unwrap(), text.len() as u64));
        assert!(matches!(held, Bytes::Held(_)));
        let mut memory = [Vec::new(), Vec::new()];
        let [one, other] = &mut memory;
        assert_eq!(held.get(5..1000, one).unwrap(), on_disk.get(5..1000, other).unwrap());
        for of in [0, 4, 2_000_000] {
            assert_eq!(held.line(of), on_disk.line(of));
        }
        assert_eq!(held.line(4), 2);
        let mut read = String::new();
        on_disk.reader().read_to_string(&mut read).unwrap();
        assert!(read == text);
        std::fs::write(&path, "short").unwrap();
        assert!(on_disk.get(5..1000, other).is_err());
    }
}
