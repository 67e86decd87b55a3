//! TIFF: images of any number of channels, of numbers of many types, in one page or in several.
//!
//! ```text
//! first bytes ─► directory of each page (fields) ─► strips or tiles ─► uncompressed ─► planes
//! ```
//!
//! A file is read as what microscopes write: pages that are all alike, whose channels follow each other. Channels come out
//! as planes, one after the other, with the numbers that were stored: no colour is interpreted.

mod apart;
mod chunk;
mod directory;

use feedline_core::DType;

use apart::every;
use chunk::Part;
pub use chunk::Scratch;
use directory::{Meaning, Page, Source};

use crate::MediaError;

/// The most pages that are looked at.
const MOST_PAGES: usize = 1 << 12;

/// The most bytes of numbers that a file may have.
const MOST_BYTES: usize = 1 << 32;

/// The most bytes that one byte may stand for. The best that any compression can do is some 2,700 for two.
const MOST_PACKED: usize = 1 << 12;

fn damaged(why: &str) -> MediaError {
    MediaError::Damaged("TIFF", why.into())
}

fn unread(why: &str) -> MediaError {
    MediaError::Unread("TIFF", why.into())
}

/// What a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The type of its numbers.
    pub dtype: DType,
    /// Channels of all pages together.
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Extent {
    /// In words.
    pub fn name(&self) -> String {
        let Self { dtype, channels, height, width } = self;
        format!("{dtype} of {channels} channels, {height} rows and {width} columns")
    }

    /// Bytes of one channel.
    pub fn plane_bytes(&self) -> usize {
        self.height * self.width * self.dtype.size()
    }
}

/// The pages of a file. It keeps its memory from file to file.
#[derive(Debug, Default)]
pub struct Pages {
    pages: Vec<Page>,
    places: Vec<u64>,
}

impl Pages {
    /// Reads the directories of a file.
    pub fn open(&mut self, bytes: &[u8]) -> Result<Extent, MediaError> {
        let (source, mut at) = Source::open(bytes)?;
        self.pages.clear();
        self.places.clear();
        while at != 0 {
            if self.places.contains(&at) {
                return Err(damaged("its pages follow each other in a circle"));
            }
            if self.places.len() == MOST_PAGES {
                return Err(unread("it has more than 4096 pages"));
            }
            self.places.push(at);
            let (page, next) = Page::read(&source, at)?;
            at = next;
            if !page.is_copy {
                self.add(page)?;
            }
        }
        let first = self.pages.first().ok_or_else(|| damaged("it has no page"))?;
        let Page { dtype, samples, height, width, .. } = *first;
        let extent = Extent { dtype, channels: samples * self.pages.len(), height, width };
        match extent.plane_bytes().checked_mul(extent.channels) {
            Some(all) if all > MOST_BYTES => Err(unread("it has more than 4 GiB of numbers")),
            // What can be compressed best is one number throughout.
            Some(all) if all / MOST_PACKED <= bytes.len() => Ok(extent),
            _ => Err(MediaError::Truncated("TIFF")),
        }
    }

    fn add(&mut self, page: Page) -> Result<(), MediaError> {
        let alike = |one: &Page| (one.dtype, one.samples, one.height, one.width);
        match self.pages.first() {
            Some(first) if alike(first) != alike(&page) => {
                Err(unread(&format!("page {} is unlike the first", self.pages.len() + 1)))
            }
            _ => {
                self.pages.push(page);
                Ok(())
            }
        }
    }

    /// Whether its numbers are brightnesses or red, green and blue, in bytes: what other images are made of.
    pub fn is_picture(&self) -> bool {
        let fits = |page: &Page| {
            page.dtype == DType::U8
                && matches!((page.meaning, page.samples), (Meaning::Gray, 1) | (Meaning::Colours, 3))
        };
        self.pages.first().is_some_and(fits)
    }

    /// Writes the planes of the first page as pixels of three colours.
    ///
    /// # Panics
    /// If it is not a picture, or the memory has not three bytes for each pixel.
    pub fn write_picture(
        &self,
        bytes: &[u8],
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), MediaError> {
        assert!(self.is_picture(), "it is a picture");
        let (source, _) = Source::open(bytes)?;
        let page = &self.pages[0];
        assert_eq!(out.len(), 3 * page.width * page.height, "memory of another size");
        let samples = page.together();
        page.each_chunk(
            &source,
            scratch,
            |_| true,
            |plane, part, bytes, pitch| {
                for y in 0..part.height {
                    let row = bytes[y * pitch..].chunks_exact(samples);
                    let target = &mut out[3 * ((part.y + y) * page.width + part.x)..][..3 * part.width];
                    for (pixel, target) in row.zip(target.chunks_exact_mut(3)) {
                        match pixel {
                            [gray] if page.samples == 1 => target.fill(*gray),
                            [one] => target[plane] = *one,
                            colours => target.copy_from_slice(colours),
                        }
                    }
                }
            },
        )
    }

    /// Writes some channels, as planes one after the other.
    ///
    /// # Panics
    /// If there is no such channel, or the memory is not as long as they are.
    pub fn write_planes(
        &self,
        bytes: &[u8],
        channels: &[usize],
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), MediaError> {
        let (source, _) = Source::open(bytes)?;
        let size = self.pages.first().map_or(1, |page| page.dtype.size());
        let all = self.pages.iter().map(|page| page.samples).sum();
        let in_order = channels.iter().copied().eq(0..all);
        for (number, page) in self.pages.iter().enumerate() {
            let plane_bytes = page.width * page.height * size;
            assert_eq!(out.len(), channels.len() * plane_bytes, "memory of another size");
            // Where samples of this page go, and which.
            let wanted = |sample: usize| {
                let channel = number * page.samples + sample;
                channels.iter().enumerate().filter(move |(_, one)| **one == channel).map(|(place, _)| place)
            };
            let write = |plane: usize, part: &Part, bytes: &[u8], pitch: usize| {
                if in_order && size == 2 && page.together() > 1 {
                    let planes = &mut out[number * page.samples * plane_bytes..];
                    return put_all(page, part, bytes, pitch, planes);
                }
                for sample in if page.planar { plane..plane + 1 } else { 0..page.samples } {
                    let within = if page.planar { 0 } else { sample };
                    for place in wanted(sample) {
                        let out = &mut out[place * plane_bytes..][..plane_bytes];
                        put(page, part, &bytes[within * size..], pitch, out);
                    }
                }
            };
            page.each_chunk(&source, scratch, |plane| wanted(plane).next().is_some(), write)?;
        }
        if source.swapped && size > 1 {
            out.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}

/// How many rows a part has, and how wide they are. Rows without a gap are as good as one.
fn rows(page: &Page, part: &Part, pitch: usize) -> (usize, usize) {
    let whole = part.width == page.width && pitch == part.width * page.together() * page.dtype.size();
    if whole { (1, part.width * part.height) } else { (part.height, part.width) }
}

/// All samples of every pixel of a part, which have two bytes each, into their planes.
fn put_all(page: &Page, part: &Part, bytes: &[u8], pitch: usize, planes: &mut [u8]) {
    let (step, plane) = (page.together(), 2 * page.width * page.height);
    let (height, width) = rows(page, part, pitch);
    for y in 0..height {
        let row = &bytes[y * pitch..][..2 * step * width];
        let begin = 2 * ((part.y + y) * page.width + part.x);
        let done = apart::words(row, step, &mut planes[begin..], plane);
        let rest = &row[2 * step * done..];
        for sample in (0..step).filter(|_| done < width) {
            let target = &mut planes[sample * plane + begin..][2 * done..2 * width];
            every::<2>(&rest[2 * sample..], step, target);
        }
    }
}

/// One sample of every pixel of a part, into its plane.
fn put(page: &Page, part: &Part, bytes: &[u8], pitch: usize, out: &mut [u8]) {
    let size = page.dtype.size();
    let (height, width) = rows(page, part, pitch);
    for y in 0..height {
        let row = &bytes[y * pitch..];
        let target = &mut out[((part.y + y) * page.width + part.x) * size..][..width * size];
        match (page.together(), size) {
            (1, _) => target.copy_from_slice(&row[..target.len()]),
            (step, 1) => every::<1>(row, step, target),
            (step, 2) => every::<2>(row, step, target),
            (step, 4) => every::<4>(row, step, target),
            (step, _) => every::<8>(row, step, target),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one strip for each page: little-endian u16, samples together.
    fn file(pages: &[[u16; 12]], samples: u16, next_of_last: Option<u32>) -> Vec<u8> {
        let mut bytes = b"II\x2a\0".to_vec();
        let (entries, page_bytes) = (9, 2 + 9 * 12 + 4 + 24);
        bytes.extend(8u32.to_le_bytes());
        for (number, numbers) in pages.iter().enumerate() {
            let begin = 8 + number * page_bytes;
            let data = (begin + page_bytes - 24) as u32;
            bytes.extend((entries as u16).to_le_bytes());
            for (tag, value) in [
                (256, 2),
                (257, 6 / u32::from(samples)),
                (258, 16),
                (259, 1),
                (262, 1),
                (273, data),
                (277, u32::from(samples)),
                (278, 6 / u32::from(samples)),
                (279, 24),
            ] {
                bytes.extend((tag as u16).to_le_bytes());
                bytes.extend(4u16.to_le_bytes());
                bytes.extend(1u32.to_le_bytes());
                bytes.extend(value.to_le_bytes());
            }
            let last = number + 1 == pages.len();
            let next = if last { next_of_last.unwrap_or(0) } else { (begin + page_bytes) as u32 };
            bytes.extend(next.to_le_bytes());
            bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        bytes
    }

    fn planes(bytes: &[u8], channels: &[usize]) -> Result<Vec<u16>, MediaError> {
        let mut pages = Pages::default();
        let extent = pages.open(bytes)?;
        let mut out = vec![0; channels.len() * extent.plane_bytes()];
        pages.write_planes(bytes, channels, &mut Scratch::default(), &mut out)?;
        Ok(out.as_chunks::<2>().0.iter().map(|bytes| u16::from_ne_bytes(*bytes)).collect())
    }

    const NUMBERS: [u16; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

    #[test]
    fn samples_of_a_pixel_become_planes() {
        let bytes = file(&[NUMBERS], 3, None);
        assert_eq!(planes(&bytes, &[0, 1, 2]).unwrap(), [1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12]);
        assert_eq!(planes(&bytes, &[2, 0]).unwrap(), [3, 6, 9, 12, 1, 4, 7, 10]);
    }

    #[test]
    fn pages_are_channels() {
        let other = NUMBERS.map(|number| number + 100);
        let bytes = file(&[NUMBERS, other], 1, None);
        assert_eq!(planes(&bytes, &[1]).unwrap(), other);
        assert_eq!(planes(&bytes, &[0, 1]).unwrap()[..12], NUMBERS);
    }

    #[test]
    fn pages_in_a_circle_are_refused() {
        let bytes = file(&[NUMBERS, NUMBERS], 1, Some(8));
        assert_eq!(planes(&bytes, &[0]), Err(damaged("its pages follow each other in a circle")));
    }

    #[test]
    fn a_file_cut_anywhere_is_refused_or_whole() {
        let bytes = file(&[NUMBERS, NUMBERS], 2, None);
        for length in 0..bytes.len() {
            assert!(planes(&bytes[..length], &[0, 1, 2, 3]).is_err(), "{length}");
        }
    }

    #[test]
    fn runs_of_bytes_are_unpacked() {
        // As Apple's technical note has it.
        let packed =
            [0xfe, 0xaa, 0x02, 0x80, 0x00, 0x2a, 0xfd, 0xaa, 0x03, 0x80, 0x00, 0x2a, 0x22, 0xf7, 0xaa];
        let mut out = [0; 24];
        chunk::unpack_bits(&packed, &mut out).unwrap();
        assert_eq!(out[..9], [0xaa, 0xaa, 0xaa, 0x80, 0x00, 0x2a, 0xaa, 0xaa, 0xaa]);
        assert_eq!(
            out[9..],
            [0xaa, 0x80, 0x00, 0x2a, 0x22, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa]
        );
    }
}
