//! The table of contents of a zip archive, as far as files of arrays use it: entries that are stored, not compressed.

use super::{ReadAt, TensorError};

/// The longest table that is read, and how far from the end it is looked for.
const LONGEST: u64 = 1 << 24;
const FAR: u64 = 1 << 16;

/// A file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Its bytes.
    pub(super) length: u64,
    compressed: bool,
    /// Where it is announced; its bytes follow.
    header: u64,
}

/// Its entries.
#[derive(Debug)]
pub(super) struct Archive(Vec<Entry>);

fn damaged(why: &str) -> TensorError {
    TensorError::Damaged("zip", why.into())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Archive {
    /// Reads the table at the end of a file.
    pub(super) fn open(file: &(impl ReadAt + ?Sized)) -> Result<Self, TensorError> {
        // Most tables are short, and stand at the very end.
        for near in [2048, FAR] {
            let mut tail = vec![0; file.len().min(near) as usize];
            let begin = file.len() - tail.len() as u64;
            file.read_exact_at(&mut tail, begin)?;
            let Some(end) = tail.windows(4).rposition(|bytes| bytes == b"PK\x05\x06") else { continue };
            return Self::read(file, &tail, begin, end).ok_or_else(|| damaged("its table cannot be read"));
        }
        Err(damaged("it is truncated: it has no table"))
    }

    fn read(file: &(impl ReadAt + ?Sized), tail: &[u8], begin: u64, end: usize) -> Option<Self> {
        let (mut length, mut place) = (u32_at(tail, end + 12)?, u32_at(tail, end + 16)?);
        // Archives of more than 4 GiB have the same in larger numbers, announced before.
        if let Some(locator) = end.checked_sub(20)
            && tail[locator..].starts_with(b"PK\x06\x07")
        {
            let mut larger = [0; 56];
            file.read_exact_at(&mut larger, u64_at(tail, locator + 8)?).ok()?;
            if larger.starts_with(b"PK\x06\x06") {
                (length, place) = (u64_at(&larger, 40)?, u64_at(&larger, 48)?);
            }
        }
        if length > LONGEST {
            return None;
        }
        let mut far = Vec::new();
        let inside = place.checked_sub(begin).and_then(|at| tail.get(at as usize..(at + length) as usize));
        let table = if let Some(table) = inside {
            table
        } else {
            far.resize(length as usize, 0);
            file.read_exact_at(&mut far, place).ok()?;
            &far
        };
        Self::entries_of(table)
    }

    fn entries_of(mut table: &[u8]) -> Option<Self> {
        let mut entries = Vec::new();
        while table.starts_with(b"PK\x01\x02") {
            let [name, extra, comment] = [28, 30, 32].map(|at| u16_at(table, at).map(usize::from));
            let (name, extra, comment) = (46 + name?, extra?, comment?);
            let (mut length, mut header) = (u32_at(table, 24)?, u32_at(table, 42)?);
            let packed = u32_at(table, 20)?;
            let mut more = table.get(name..name + extra)?;
            while let (Some(1), Some(size)) = (u16_at(more, 0), u16_at(more, 2)) {
                // Only what did not fit is there, in this order.
                let mut values =
                    more.get(4..4 + usize::from(size))?.chunks_exact(8).map(|value| u64_at(value, 0));
                if length == 0xffff_ffff {
                    length = values.next()??;
                }
                if packed == 0xffff_ffff {
                    values.next()??;
                }
                if header == 0xffff_ffff {
                    header = values.next()??;
                }
                more = &more[4 + usize::from(size)..];
            }
            entries.push(Entry {
                name: String::from_utf8_lossy(table.get(46..name)?).into_owned(),
                length,
                compressed: u16_at(table, 10)? != 0,
                header,
            });
            table = table.get(name + extra + comment..)?;
        }
        Some(Self(entries))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }
}

impl Entry {
    /// Where its bytes begin.
    pub(super) fn place(&self, file: &(impl ReadAt + ?Sized)) -> Result<u64, TensorError> {
        if self.compressed {
            let name = &self.name;
            return Err(TensorError::Unfit(format!(
                "{name:?} in it is compressed: save it with numpy.savez, uncompressed"
            )));
        }
        let mut header = [0; 30];
        file.read_exact_at(&mut header, self.header)?;
        let [.., a, b, c, d] = header;
        if !header.starts_with(b"PK\x03\x04") {
            return Err(damaged("an entry is not where its table says"));
        }
        let behind = 30 + u64::from(u16::from_le_bytes([a, b])) + u64::from(u16::from_le_bytes([c, d]));
        let end = self.header.checked_add(behind).and_then(|at| at.checked_add(self.length));
        if end.is_none_or(|end| end > file.len()) {
            return Err(damaged("an entry does not fit into it"));
        }
        Ok(self.header + behind)
    }
}
