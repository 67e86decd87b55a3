//! How the numbers of a volume are stored, and how they are read.

use feedline_core::DType;

use super::{
    MOST_BYTES, Scratch, VolumeError, text,
    unpack::{self, Packing},
};
use crate::tensor::ReadAt;

/// What is done to numbers to store them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Raw,
    Packed(Packing),
    Text,
    Hex,
}

/// What stands before the numbers, once they are unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    Bytes(u64),
    /// All but what is needed at the end.
    AllBut,
}

/// How numbers are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) encoding: Encoding,
    /// Whether numbers have their bytes in the other order than on this machine.
    pub(super) swapped: bool,
    /// Where it begins in the file.
    pub(super) at: u64,
    /// Lines that follow, before it really begins.
    pub(super) lines: u64,
    pub(super) skip: Skip,
    /// Whether there may be no more than is needed.
    pub(super) exact: bool,
}

impl Stored {
    /// Refuses a file that cannot have so many bytes of numbers.
    pub(super) fn check(
        &self,
        file: &(impl ReadAt + ?Sized),
        bytes: u64,
        dtype: DType,
    ) -> Result<(), VolumeError> {
        let begin = self.begin(file)?;
        let length = file.len().saturating_sub(begin);
        let short = |most: u64, what: &str| {
            let found = format!("are at most {most} in the {length} bytes of {what} that the file has");
            if most < bytes { Err(VolumeError::Short { expected: bytes, found }) } else { Ok(()) }
        };
        match self.encoding {
            Encoding::Raw => self.check_raw(length, bytes, dtype),
            Encoding::Packed(packing) => {
                // What is skipped needs room as well.
                let skip = if let Skip::Bytes(skip) = self.skip { skip } else { 0 };
                let most = length.saturating_mul(packing.most_ratio()).min(MOST_BYTES);
                short(most.saturating_sub(skip), packing.name())?;
                if packing.is_exceeded(length, bytes) {
                    unpack::count(packing, file, begin, skip.saturating_add(bytes))
                        .and_then(|there| short(there.saturating_sub(skip), packing.name()))?;
                }
                Ok(())
            }
            // A digit and a blank for each number, but for the last.
            Encoding::Text => short((length / 2 + length % 2).saturating_mul(dtype.size() as u64), "text"),
            Encoding::Hex => short(length / 2, "text"),
        }
    }

    fn check_raw(&self, length: u64, bytes: u64, dtype: DType) -> Result<(), VolumeError> {
        let there = if let Skip::Bytes(skip) = self.skip { length.saturating_sub(skip) } else { length };
        if there < bytes {
            return Err(VolumeError::Short { expected: bytes, found: format!("are {there}") });
        }
        // Less than a number is the end of a line, or some padding.
        let is_long = self.skip != Skip::AllBut && there - bytes >= dtype.size() as u64;
        if self.exact && is_long { Err(VolumeError::Long(bytes)) } else { Ok(()) }
    }

    /// Reads the numbers; [`Stored::check`] came before.
    pub(super) fn read(
        &self,
        file: &(impl ReadAt + ?Sized),
        scratch: &mut Scratch,
        dtype: DType,
        row: &mut [u8],
    ) -> Result<(), VolumeError> {
        let begin = self.begin(file)?;
        match (self.encoding, self.skip) {
            (Encoding::Raw, Skip::Bytes(skip)) => file.read_exact_at(row, begin + skip)?,
            (Encoding::Raw, Skip::AllBut) => file.read_exact_at(row, file.len() - row.len() as u64)?,
            (Encoding::Packed(packing), Skip::Bytes(skip)) => {
                scratch.unpack(packing, file, begin, skip, self.exact, row)?;
            }
            (Encoding::Packed(packing), Skip::AllBut) => {
                let there = unpack::count(packing, file, begin, u64::MAX)?;
                let expected = row.len() as u64;
                let short = || VolumeError::Short { expected, found: format!("are {there}") };
                let skip = there.checked_sub(expected).ok_or_else(short)?;
                unpack::stream(packing, file, begin, skip, true, row)?;
            }
            (Encoding::Text, skip) => text::numbers(scratch.load(file, after(begin, skip)?)?, dtype, row)?,
            (Encoding::Hex, skip) => text::hex(scratch.load(file, after(begin, skip)?)?, row)?,
        }
        if self.swapped {
            swap(row, dtype.size());
        }
        Ok(())
    }

    /// Where it begins, behind the lines that are skipped.
    fn begin(&self, file: &(impl ReadAt + ?Sized)) -> Result<u64, VolumeError> {
        let (mut at, mut lines) = (self.at, self.lines);
        let mut piece = [0; 4096];
        while lines > 0 && at < file.len() {
            let piece = &mut piece[..(file.len() - at).min(4096) as usize];
            file.read_exact_at(piece, at)?;
            let ends = piece.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(end, _)| end + 1);
            let ends: Vec<usize> = ends.take(lines.min(4096) as usize).collect();
            lines -= ends.len() as u64;
            at += if lines == 0 { ends[ends.len() - 1] } else { piece.len() } as u64;
        }
        Ok(at)
    }
}

/// Where text begins.
fn after(begin: u64, skip: Skip) -> Result<u64, VolumeError> {
    match skip {
        Skip::Bytes(skip) => Ok(begin.saturating_add(skip)),
        Skip::AllBut => {
            Err(VolumeError::Unfit("a byte skip of -1 makes no sense with numbers in text".into()))
        }
    }
}

/// The other order of bytes.
fn swap(row: &mut [u8], size: usize) {
    match size {
        2 => row.as_chunks_mut::<2>().0.iter_mut().for_each(|number| number.reverse()),
        4 => row.as_chunks_mut::<4>().0.iter_mut().for_each(|number| number.reverse()),
        8 => row.as_chunks_mut::<8>().0.iter_mut().for_each(|number| number.reverse()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_skipped_wherever_they_end() {
        let text = [&vec![b'x'; 5000][..], b"\nsecond\n", &[b'y'; 4090], b"\nrest"].concat();
        let begin = |lines| {
            let stored = Stored {
                encoding: Encoding::Raw,
                swapped: false,
                at: 1,
                lines,
                skip: Skip::Bytes(0),
                exact: true,
            };
            stored.begin(text.as_slice()).unwrap()
        };
        assert_eq!([begin(0), begin(1), begin(2), begin(3)], [1, 5001, 5008, 9099]);
        assert_eq!(begin(u64::MAX), text.len() as u64, "as far as there are lines");
    }

    #[test]
    fn bytes_change_places_within_their_number() {
        let mut row = [1, 2, 3, 4, 5, 6, 7, 8];
        swap(&mut row, 2);
        assert_eq!(row, [2, 1, 4, 3, 6, 5, 8, 7]);
        swap(&mut row, 4);
        assert_eq!(row, [3, 4, 1, 2, 7, 8, 5, 6]);
        swap(&mut row, 8);
        assert_eq!(row, [6, 5, 8, 7, 2, 1, 4, 3]);
        swap(&mut row, 1);
        assert_eq!(row, [6, 5, 8, 7, 2, 1, 4, 3]);
    }
}
