//! Gzip and bzip2, unpacked into memory of a known size.
//!
//! A whole gzip stream goes to libdeflate, which is the fastest there is but must have all of it, and room for all that
//! comes out. What does not fit that (several members behind each other, something to be left out, bzip2) is streamed.

use std::io::{self, BufRead, BufReader, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use libdeflater::{DecompressionError, Decompressor};

use super::VolumeError;
use crate::{pixels::room, tensor::ReadAt};

/// Deflate turns at most 258 bytes into two bits.
const GZIP_RATIO: u64 = 1032;
/// Bzip2 turns a block of 900,000 bytes, each of which may be 52 by its run lengths, into some thirty bytes.
const BZIP2_RATIO: u64 = 1 << 21;

/// What packed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Bzip2,
}

impl Packing {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
        }
    }

    /// What a member begins with.
    fn magic(self) -> u8 {
        match self {
            Self::Gzip => 0x1f,
            Self::Bzip2 => b'B',
        }
    }

    /// How many bytes can come out of one.
    pub(super) fn most_ratio(self) -> u64 {
        match self {
            Self::Gzip => GZIP_RATIO,
            Self::Bzip2 => BZIP2_RATIO,
        }
    }

    /// Whether so many bytes are more than one would believe before counting them.
    pub(super) fn is_exceeded(self, packed: u64, bytes: u64) -> bool {
        self == Self::Bzip2 && bytes > packed.saturating_mul(GZIP_RATIO)
    }
}

/// What a worker keeps from volume to volume.
#[derive(Default)]
pub struct Scratch {
    packed: Vec<u8>,
    unpacked: Vec<u8>,
    pub(super) plain: Vec<u8>,
    inflater: Decompressor,
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl Scratch {
    /// How much memory it keeps.
    pub fn bytes(&self) -> usize {
        self.packed.capacity() + self.unpacked.capacity() + self.plain.capacity()
    }

    /// The rest of a file.
    pub(super) fn load(&mut self, file: &(impl ReadAt + ?Sized), begin: u64) -> Result<&[u8], VolumeError> {
        load(&mut self.packed, file, begin)
    }

    /// Unpacks what follows `begin` in the file, without the first `skip` bytes of it.
    pub(super) fn unpack(
        &mut self,
        packing: Packing,
        file: &(impl ReadAt + ?Sized),
        begin: u64,
        skip: u64,
        exact: bool,
        row: &mut [u8],
    ) -> Result<(), VolumeError> {
        if packing == Packing::Bzip2 {
            return stream(packing, file, begin, skip, exact, row);
        }
        let packed = load(&mut self.packed, file, begin)?;
        let inflater = &mut self.inflater;
        let done = if skip == 0 {
            inflater.gzip_decompress(packed, row).map(|count| count == row.len())
        } else {
            let unpacked = room(&mut self.unpacked, row.len() + skip as usize);
            let done = inflater.gzip_decompress(packed, unpacked).map(|count| count == unpacked.len());
            row.copy_from_slice(&unpacked[skip as usize..]);
            done
        };
        match done {
            Ok(true) => Ok(()),
            Err(DecompressionError::InsufficientSpace) if exact => Err(VolumeError::Long(row.len() as u64)),
            // There is more, which nobody needs; or one member was shorter, and there may be another behind it.
            Ok(false) | Err(DecompressionError::InsufficientSpace) => {
                stream(packing, packed, 0, skip, exact, row)
            }
            Err(DecompressionError::BadData) => Err(damaged(packing, "it is cut off, or was changed")),
        }
    }
}

fn load<'a>(
    memory: &'a mut Vec<u8>,
    file: &(impl ReadAt + ?Sized),
    begin: u64,
) -> Result<&'a [u8], VolumeError> {
    let memory = room(memory, file.len().saturating_sub(begin) as usize);
    file.read_exact_at(memory, begin)?;
    Ok(memory)
}

fn damaged(packing: Packing, why: &str) -> VolumeError {
    VolumeError::Damaged(packing.name(), why.into())
}

/// The rest of a file, from front to back.
struct Rest<'a, F: ?Sized> {
    file: &'a F,
    at: u64,
}

impl<F: ReadAt + ?Sized> Read for Rest<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.len().saturating_sub(self.at).min(buffer.len() as u64) as usize;
        self.file.read_exact_at(&mut buffer[..count], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// What comes out of all members of a stream. What follows the last is nobody's, as it is in Python.
struct Members<'a, F: ?Sized> {
    packing: Packing,
    /// None at the end.
    member: Option<Member<BufReader<Rest<'a, F>>>>,
}

enum Member<R> {
    Gzip(Box<GzDecoder<R>>),
    Bzip2(BzDecoder<R>),
}

impl<R: BufRead> Member<R> {
    fn new(packing: Packing, rest: R) -> Self {
        match packing {
            Packing::Gzip => Self::Gzip(Box::new(GzDecoder::new(rest))),
            Packing::Bzip2 => Self::Bzip2(BzDecoder::new(rest)),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(member) => member.read(buffer),
            Self::Bzip2(member) => member.read(buffer),
        }
    }

    fn into_rest(self) -> R {
        match self {
            Self::Gzip(member) => member.into_inner(),
            Self::Bzip2(member) => member.into_inner(),
        }
    }
}

impl<'a, F: ReadAt + ?Sized> Members<'a, F> {
    fn new(packing: Packing, file: &'a F, begin: u64) -> Self {
        let rest = BufReader::with_capacity(1 << 16, Rest { file, at: begin });
        Self { packing, member: Some(Member::new(packing, rest)) }
    }
}

impl<F: ReadAt + ?Sized> Read for Members<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            // It has ended, and its checksum was right.
            let Some(mut rest) = self.member.take().map(Member::into_rest) else { break };
            if rest.fill_buf()?.first() == Some(&self.packing.magic()) {
                self.member = Some(Member::new(self.packing, rest));
            }
        }
        Ok(0)
    }
}

/// The first bytes that come out of a file, as many as there are up to the length of `head`.
pub(super) fn head<'a>(
    packing: Packing,
    file: &(impl ReadAt + ?Sized),
    head: &'a mut [u8],
) -> Result<&'a [u8], VolumeError> {
    let mut stream = Members::new(packing, file, 0);
    let mut filled = 0;
    while filled < head.len() {
        match stream.read(&mut head[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) => return Err(damaged(packing, &error.to_string())),
        }
    }
    Ok(&head[..filled])
}

/// How many bytes come out; no more than `most` are waited for.
pub(super) fn count(
    packing: Packing,
    file: &(impl ReadAt + ?Sized),
    begin: u64,
    most: u64,
) -> Result<u64, VolumeError> {
    let mut stream = Members::new(packing, file, begin).take(most);
    io::copy(&mut stream, &mut io::sink()).map_err(|error| damaged(packing, &error.to_string()))
}

/// Unpacks piece by piece.
pub(super) fn stream(
    packing: Packing,
    file: &(impl ReadAt + ?Sized),
    begin: u64,
    skip: u64,
    exact: bool,
    row: &mut [u8],
) -> Result<(), VolumeError> {
    let mut stream = Members::new(packing, file, begin);
    let failed = |error: io::Error| damaged(packing, &error.to_string());
    io::copy(&mut stream.by_ref().take(skip), &mut io::sink()).map_err(failed)?;
    let mut filled = 0;
    while filled < row.len() {
        match stream.read(&mut row[filled..]).map_err(failed)? {
            0 => {
                let found = format!("are {filled}");
                return Err(VolumeError::Short { expected: row.len() as u64, found });
            }
            count => filled += count,
        }
    }
    if exact && stream.read(&mut [0]).map_err(failed)? > 0 {
        return Err(VolumeError::Long(row.len() as u64));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    fn unpacked(packed: &[u8], skip: u64, exact: bool, bytes: usize) -> Result<Vec<u8>, VolumeError> {
        let mut row = vec![0; bytes];
        Scratch::default().unpack(Packing::Gzip, packed, 0, skip, exact, &mut row).map(|()| row)
    }

    #[test]
    fn members_behind_each_other_are_one_stream() {
        let whole: Vec<u8> = (0..200_000u32).map(|number| (number / 7) as u8).collect();
        let (front, back) = whole.split_at(70_000);
        for packed in [gzip(&whole), [gzip(front), gzip(&[]), gzip(back)].concat()] {
            for exact in [true, false] {
                assert_eq!(unpacked(&packed, 0, exact, whole.len()).unwrap(), whole);
                assert_eq!(unpacked(&packed, 9, exact, whole.len() - 9).unwrap(), whole[9..]);
            }
            assert_eq!(unpacked(&packed, 9, false, 1000).unwrap(), whole[9..1009]);
            assert!(matches!(unpacked(&packed, 9, true, 1000), Err(VolumeError::Long(1000))));
            assert!(matches!(unpacked(&packed, 0, true, 200_001), Err(VolumeError::Short { .. })));
            // What follows the last member is not looked at, as Python does not.
            let padded = [packed.as_slice(), &[0; 100]].concat();
            assert_eq!(unpacked(&padded, 0, true, whole.len()).unwrap(), whole);
            assert!(matches!(
                unpacked(&packed[..packed.len() - 10], 0, true, whole.len()),
                Err(VolumeError::Damaged(..))
            ));
        }
    }

    #[test]
    fn as_many_bytes_as_the_ratio_says_and_no_more() {
        let zeros = vec![0; 46_000_000];
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&zeros).unwrap();
        let ratio = zeros.len() as u64 / packed.finish().unwrap().len() as u64;
        assert!((1020..=GZIP_RATIO).contains(&ratio), "{ratio}");
        let mut packed = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
        packed.write_all(&zeros).unwrap();
        let packed = packed.finish().unwrap();
        assert!(packed.len() as u64 * BZIP2_RATIO > zeros.len() as u64, "{}", packed.len());
        assert_eq!(count(Packing::Bzip2, packed.as_slice(), 0, u64::MAX).unwrap(), zeros.len() as u64);
        assert_eq!(count(Packing::Bzip2, packed.as_slice(), 0, 1000).unwrap(), 1000);
    }
}
