//! The directory of a page: numbered fields, each a value or the place of its values.

use feedline_core::DType;

use super::{damaged, unread};
use crate::{MediaError, codec::MOST_PIXELS};

/// The most channels that are read, of all pages together.
const MOST_CHANNELS: usize = 1 << 12;

/// Bytes whose numbers may have their greater bytes first, and may be of 8 bytes where others have 4.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) swapped: bool,
    pub(super) big: bool,
}

impl<'a> Source<'a> {
    /// What the first bytes say, and where the first directory is.
    pub(super) fn open(bytes: &'a [u8]) -> Result<(Self, u64), MediaError> {
        let greater_first = match bytes {
            [b'I', b'I', ..] => false,
            [b'M', b'M', ..] => true,
            [] => return Err(MediaError::Empty),
            _ => return Err(MediaError::Unknown(crate::codec::name(bytes))),
        };
        let swapped = greater_first == cfg!(target_endian = "little");
        let mut source = Self { bytes, swapped, big: false };
        match source.number(2, 2)? {
            42 => Ok((source, source.number(4, 4)?)),
            43 => {
                source.big = true;
                Ok((source, source.number(8, 8)?))
            }
            _ => Err(MediaError::Unknown(crate::codec::name(bytes))),
        }
    }

    /// Some bytes from a place on.
    pub(super) fn slice(&self, at: u64, length: u64) -> Result<&'a [u8], MediaError> {
        let begin = usize::try_from(at).ok();
        let end = at.checked_add(length).and_then(|end| usize::try_from(end).ok());
        let found = begin.zip(end).and_then(|(begin, end)| self.bytes.get(begin..end));
        found.ok_or(MediaError::Truncated("TIFF"))
    }

    /// A whole number of so many bytes.
    fn number(&self, at: u64, size: u64) -> Result<u64, MediaError> {
        let mut bytes = [0; 8];
        let found = self.slice(at, size)?;
        if self.swapped == cfg!(target_endian = "little") {
            bytes[8 - found.len()..].copy_from_slice(found);
            Ok(u64::from_be_bytes(bytes))
        } else {
            bytes[..found.len()].copy_from_slice(found);
            Ok(u64::from_le_bytes(bytes))
        }
    }
}

/// Where the values of a field are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Values {
    /// Bytes of a value.
    size: u64,
    count: u64,
    at: u64,
}

impl Values {
    pub(super) fn get(&self, source: &Source<'_>, number: u64) -> Result<u64, MediaError> {
        if number >= self.count {
            return Err(damaged("a field has fewer values than it needs"));
        }
        // Neither overflows: all values were seen to lie in the file.
        source.number(self.at + number * self.size, self.size)
    }
}

/// How bytes were made fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Lzw,
    Deflate,
    PackBits,
}

/// What a pixel's numbers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// More is brighter.
    Gray,
    /// Red, green, blue.
    Colours,
    /// Anything else.
    Other,
}

/// One image of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) samples: usize,
    pub(super) dtype: DType,
    pub(super) compression: Compression,
    /// Whether numbers are differences to their neighbours on the left.
    pub(super) differences: bool,
    /// Whether each sample has a plane of its own.
    pub(super) planar: bool,
    pub(super) meaning: Meaning,
    /// Width and height of a strip or a tile.
    pub(super) chunk: (usize, usize),
    pub(super) tiled: bool,
    pub(super) places: Values,
    pub(super) lengths: Values,
    /// Whether it is a smaller copy of another page.
    pub(super) is_copy: bool,
}

/// The fields of a directory as they are found.
struct Fields {
    width: u64,
    height: u64,
    bits: Option<u64>,
    format: u64,
    samples: u64,
    compression: u64,
    predictor: u64,
    planar: u64,
    photometric: u64,
    fill_order: u64,
    rows: u64,
    tile: Option<(u64, u64)>,
    places: Values,
    lengths: Values,
    kind: u64,
}

impl Page {
    /// The directory at a place, and where the next one is; 0 if there is none.
    pub(super) fn read(source: &Source<'_>, at: u64) -> Result<(Self, u64), MediaError> {
        let (count_size, entry_size, next_size) = if source.big { (8, 20, 8) } else { (2, 12, 4) };
        let count = source.number(at, count_size)?;
        let entries = count.checked_mul(entry_size).filter(|_| count <= 1 << 16);
        let entries = entries.ok_or_else(|| damaged("a directory has too many fields"))?;
        let begin = at + count_size;
        source.slice(begin, entries)?;
        let mut fields = Fields {
            width: 0,
            height: 0,
            bits: None,
            format: 1,
            samples: 1,
            compression: 1,
            predictor: 1,
            planar: 1,
            photometric: 1,
            fill_order: 1,
            rows: u64::MAX,
            tile: None,
            places: Values::default(),
            lengths: Values::default(),
            kind: 0,
        };
        for number in 0..count {
            fields.add(source, begin + number * entry_size)?;
        }
        Ok((fields.check()?, source.number(begin + entries, next_size)?))
    }

    /// Strips or tiles next to and below each other.
    pub(super) fn chunks(&self) -> (usize, usize) {
        (self.width.div_ceil(self.chunk.0), self.height.div_ceil(self.chunk.1))
    }

    /// Samples of a pixel that lie together.
    pub(super) fn together(&self) -> usize {
        if self.planar { 1 } else { self.samples }
    }
}

impl Fields {
    fn add(&mut self, source: &Source<'_>, entry: u64) -> Result<(), MediaError> {
        let tag = source.number(entry, 2)?;
        let size = match source.number(entry + 2, 2)? {
            1 => 1,
            3 => 2,
            4 | 13 => 4,
            16 | 18 => 8,
            _ => return Ok(()), // text, fractions: nothing that is needed
        };
        let (wide, inline) = if source.big { (8, 8) } else { (4, 4) };
        let count = source.number(entry + 4, wide)?;
        let bytes = count.checked_mul(size).ok_or_else(|| damaged("a field is too long"))?;
        let at = if bytes <= inline { entry + 4 + wide } else { source.number(entry + 4 + wide, wide)? };
        let values = Values { size, count, at };
        let first = || values.get(source, 0);
        match tag {
            254 => self.kind = first()?,
            256 => self.width = first()?,
            257 => self.height = first()?,
            258 => self.bits = Some(same(source, values)?),
            259 => self.compression = first()?,
            262 => self.photometric = first()?,
            266 => self.fill_order = first()?,
            273 | 324 => self.places = all_there(source, values)?,
            277 => self.samples = first()?,
            278 => self.rows = first()?,
            279 | 325 => self.lengths = all_there(source, values)?,
            284 => self.planar = first()?,
            317 => self.predictor = first()?,
            322 => self.tile = Some((first()?, self.tile.map_or(0, |(_, height)| height))),
            323 => self.tile = Some((self.tile.map_or(0, |(width, _)| width), first()?)),
            339 => self.format = same(source, values)?,
            _ => {}
        }
        Ok(())
    }

    fn check(self) -> Result<Page, MediaError> {
        let (width, height) = (self.width as usize, self.height as usize);
        if width == 0 || height == 0 {
            return Err(damaged("it has no width or no height"));
        }
        if width.checked_mul(height).is_none_or(|pixels| pixels > MOST_PIXELS) {
            return Err(MediaError::TooLarge { width, height, most: MOST_PIXELS });
        }
        if self.samples == 0 || self.samples > MOST_CHANNELS as u64 {
            return Err(damaged("the number of its channels cannot be"));
        }
        if self.fill_order != 1 {
            return Err(unread("its bits are in reverse order"));
        }
        let chunk = match self.tile {
            Some((wide, high)) => (wide as usize, high as usize),
            None => (width, self.rows.min(height as u64) as usize),
        };
        // Tiles may reach over the border, but not far.
        let most = |extent: usize| extent.next_multiple_of(1 << 16);
        if chunk.0 == 0 || chunk.1 == 0 || chunk.0 > most(width) || chunk.1 > most(height) {
            return Err(damaged("its strips or tiles have a size that cannot be"));
        }
        Ok(Page {
            width,
            height,
            samples: self.samples as usize,
            dtype: dtype(self.bits.unwrap_or(1), self.format)?,
            compression: compression(self.compression)?,
            differences: match self.predictor {
                1 => false,
                2 => true,
                _ => return Err(unread("its numbers were taken apart by a predictor for floats")),
            },
            planar: self.planar == 2 && self.samples > 1,
            meaning: match self.photometric {
                1 => Meaning::Gray,
                2 => Meaning::Colours,
                _ => Meaning::Other,
            },
            chunk,
            tiled: self.tile.is_some(),
            places: self.places,
            lengths: self.lengths,
            is_copy: self.kind & 1 == 1,
        })
    }
}

/// The value of all samples.
fn same(source: &Source<'_>, values: Values) -> Result<u64, MediaError> {
    let first = values.get(source, 0)?;
    for number in 1..values.count.min(MOST_CHANNELS as u64) {
        if values.get(source, number)? != first {
            return Err(unread("its channels have different types"));
        }
    }
    Ok(first)
}

fn all_there(source: &Source<'_>, values: Values) -> Result<Values, MediaError> {
    source.slice(values.at, values.count * values.size)?;
    Ok(values)
}

fn dtype(bits: u64, format: u64) -> Result<DType, MediaError> {
    Ok(match (format, bits) {
        (1 | 4, 8) => DType::U8,
        (1 | 4, 16) => DType::U16,
        (1 | 4, 32) => DType::U32,
        (1 | 4, 64) => DType::U64,
        (2, 8) => DType::I8,
        (2, 16) => DType::I16,
        (2, 32) => DType::I32,
        (2, 64) => DType::I64,
        (3, 16) => DType::F16,
        (3, 32) => DType::F32,
        (3, 64) => DType::F64,
        _ => return Err(unread(&format!("its numbers have {bits} bits in format {format}"))),
    })
}

fn compression(number: u64) -> Result<Compression, MediaError> {
    Ok(match number {
        1 => Compression::None,
        5 => Compression::Lzw,
        8 | 32946 => Compression::Deflate,
        32773 => Compression::PackBits,
        7 => return Err(unread("it is compressed as JPEG")),
        other => return Err(unread(&format!("its compression is number {other}"))),
    })
}
