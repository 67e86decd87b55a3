//! JPEG: whole, or only the part that is wanted, to the bit as Pillow has it. Plain files are decoded by [`plain`], all
//! others, and those in which something is wrong, by libjpeg-turbo.
//!
//! libjpeg-turbo decodes a part with one block more on each side, because colours are interpolated from their neighbours;
//! what is wanted is then the same as if all had been decoded. What is below a part is not even looked at.

#[cfg(target_arch = "x86_64")]
mod colours;
#[cfg(target_arch = "x86_64")]
mod cosines;
#[cfg(target_arch = "x86_64")]
mod huffman;
#[cfg(target_arch = "x86_64")]
mod plain;
#[cfg(not(target_arch = "x86_64"))]
#[path = "jpeg/elsewhere.rs"]
mod plain;

use std::{
    ffi::{CStr, c_int, c_void},
    ptr::NonNull,
};

use turbojpeg_sys as tj;

use self::plain::{Outline, Plain};
use super::exif;
use crate::{
    MediaError,
    pixels::{Pixels, Rect, room},
};

/// The most passes of a progressive image: more are made to waste time.
const MOST_SCANS: c_int = 500;

/// What a file ends with.
const END: [u8; 2] = [0xff, 0xd9];

/// What the beginning of a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Whether it has four inks instead of three lights, or one.
    pub is_cmyk: bool,
    /// How the camera was held: 1 is upright.
    pub orientation: u8,
    /// Width and height of a block of all its colours; `None` if only all of the image can be decoded.
    block: Option<(usize, usize)>,
    /// Of a plain file.
    outline: Option<Outline>,
}

/// A decoder, to be used for one image after the other by one worker.
pub(super) struct Decoder {
    handle: NonNull<c_void>,
    plain: Option<Plain>,
    /// Whether the last image was decoded by that.
    #[cfg(test)]
    was_plain: bool,
}

// SAFETY: a handle may be used by any thread, by one at a time.
unsafe impl Send for Decoder {}

impl Decoder {
    /// One that has nothing to do yet. It may be told to leave all files to libjpeg-turbo.
    pub(super) fn new(library_only: bool) -> Result<Self, MediaError> {
        // SAFETY: it takes a number and returns a handle or nothing.
        let handle = NonNull::new(unsafe { tj::tj3Init(tj::TJINIT_TJINIT_DECOMPRESS as c_int) });
        let plain = if library_only { None } else { Plain::new() };
        let decoder = Self {
            handle: handle.ok_or(MediaError::NoMemory)?,
            plain,
            #[cfg(test)]
            was_plain: false,
        };
        decoder.set(tj::TJPARAM_TJPARAM_SCANLIMIT, MOST_SCANS);
        Ok(decoder)
    }

    fn set(&self, parameter: tj::TJPARAM, value: c_int) {
        // SAFETY: the handle lives as long as this.
        let _ = unsafe { tj::tj3Set(self.handle.as_ptr(), parameter as c_int, value) };
    }

    fn get(&self, parameter: tj::TJPARAM) -> c_int {
        // SAFETY: the handle lives as long as this.
        unsafe { tj::tj3Get(self.handle.as_ptr(), parameter as c_int) }
    }

    /// What went wrong last, in words.
    fn complaint(&self) -> String {
        // SAFETY: the handle lives as long as this.
        let text = unsafe { tj::tj3GetErrorStr(self.handle.as_ptr()) };
        // SAFETY: it is a C string inside the handle.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Whether what went wrong last is nothing that keeps an image from being read.
    fn is_warning(&self) -> bool {
        // SAFETY: the handle lives as long as this.
        unsafe { tj::tj3GetErrorCode(self.handle.as_ptr()) == tj::TJERR_TJERR_WARNING as c_int }
    }

    /// Reads the beginning of a file.
    pub(super) fn header(&mut self, bytes: &[u8]) -> Result<Header, MediaError> {
        let Frame { size, orientation, outline } = Frame::of(bytes)?;
        // Of a file that is cut off, all is decoded by the library, so that this is found.
        let outline = outline.filter(|_| self.plain.is_some() && bytes.ends_with(&END));
        if outline.is_none() {
            return self.header_of_library(bytes, size, orientation);
        }
        let (width, height) = (size.0 as usize, size.1 as usize);
        Ok(Header { width, height, is_cmyk: false, orientation, block: None, outline })
    }

    fn header_of_library(
        &mut self,
        bytes: &[u8],
        size: (c_int, c_int),
        orientation: u8,
    ) -> Result<Header, MediaError> {
        // SAFETY: the slice is as long as it says.
        let ended =
            unsafe { tj::tj3DecompressHeader(self.handle.as_ptr(), bytes.as_ptr(), bytes.len() as _) };
        let (width, height) =
            (self.get(tj::TJPARAM_TJPARAM_JPEGWIDTH), self.get(tj::TJPARAM_TJPARAM_JPEGHEIGHT));
        if ended != 0 && !self.is_warning() {
            return Err(MediaError::Damaged("JPEG", self.complaint()));
        }
        // A file that ends before its frame leaves what is known of the file before.
        if (width, height) != size {
            return Err(MediaError::Truncated("JPEG"));
        }
        let (width, height) = (width as usize, height as usize);
        let space = self.get(tj::TJPARAM_TJPARAM_COLORSPACE);
        let is_cmyk = [tj::TJCS_TJCS_CMYK, tj::TJCS_TJCS_YCCK].iter().any(|one| *one as c_int == space);
        // Of a file that is cut off, all is decoded, so that this is found.
        let is_whole = bytes.ends_with(&END);
        let block = block(self.get(tj::TJPARAM_TJPARAM_SUBSAMP)).filter(|_| is_whole);
        Ok(Header { width, height, is_cmyk, orientation, block, outline: None })
    }

    /// Decodes a part of an image as RGB. `bytes` are those of `header`. The memory is reused; what is returned lies in it.
    pub(super) fn decode<'a>(
        &mut self,
        bytes: &[u8],
        header: Header,
        part: Rect,
        memory: &'a mut Vec<u8>,
    ) -> Result<Pixels<'a>, MediaError> {
        let Some(outline) = header.outline else {
            return self.decode_by_library(bytes, header, part, 1, memory);
        };
        // From a column of an even number on: colours are mixed for two at a time.
        let odd = part.x % 2;
        let around = Rect { x: part.x - odd, width: part.width + odd, ..part };
        let stride = 3 * around.width;
        // Behind the last row, some pixels are made that nobody wants.
        let pixels = room(memory, stride * around.height + 96);
        let done = self.plain.as_mut().and_then(|plain| plain.decode(bytes, outline, around, stride, pixels));
        #[cfg(test)]
        {
            self.was_plain = done.is_some();
        }
        if done.is_none() {
            let size = (header.width as c_int, header.height as c_int);
            let header = self.header_of_library(bytes, size, header.orientation)?;
            return self.decode_by_library(bytes, header, part, 1, memory);
        }
        let pixels = Pixels::new(memory, around.width, around.height, 3);
        let inside = Rect { x: odd, y: 0, ..part };
        Ok(pixels.and_then(|pixels| pixels.part(inside)).expect("the part lies in what is around it"))
    }

    /// Decodes a part of an image at a half, a quarter or an eighth of its size: its finest patterns are left out before they
    /// are made. The part is one of the smaller image.
    pub(super) fn decode_smaller<'a>(
        &mut self,
        bytes: &[u8],
        header: Header,
        part: Rect,
        shrink: usize,
        memory: &'a mut Vec<u8>,
    ) -> Result<Pixels<'a>, MediaError> {
        let size = (header.width as c_int, header.height as c_int);
        let header = self.header_of_library(bytes, size, header.orientation)?;
        self.decode_by_library(bytes, header, part, shrink, memory)
    }

    fn decode_by_library<'a>(
        &mut self,
        bytes: &[u8],
        header: Header,
        part: Rect,
        shrink: usize,
        memory: &'a mut Vec<u8>,
    ) -> Result<Pixels<'a>, MediaError> {
        let factor = tj::tjscalingfactor { num: 1, denom: shrink as c_int };
        // SAFETY: the handle lives as long as this.
        if unsafe { tj::tj3SetScalingFactor(self.handle.as_ptr(), factor) } != 0 {
            return Err(MediaError::Damaged("JPEG", self.complaint()));
        }
        let size = (header.width.div_ceil(shrink), header.height.div_ceil(shrink));
        let around = if shrink == 1 {
            around(header, part)
        } else {
            Rect { x: 0, y: 0, width: size.0, height: size.1 }
        };
        let whole = (around.width, around.height) == size;
        let region = if whole {
            tj::tjregion { x: 0, y: 0, w: 0, h: 0 }
        } else {
            tj::tjregion {
                x: around.x as c_int,
                y: around.y as c_int,
                w: around.width as c_int,
                h: around.height as c_int,
            }
        };
        // SAFETY: the handle lives as long as this, and has read the header.
        if unsafe { tj::tj3SetCroppingRegion(self.handle.as_ptr(), region) } != 0 {
            return Err(MediaError::Damaged("JPEG", self.complaint()));
        }
        // Four inks become three colours in the same memory.
        let (channels, format) =
            if header.is_cmyk { (4, tj::TJPF_TJPF_CMYK) } else { (3, tj::TJPF_TJPF_RGB) };
        let memory = room(memory, channels * around.width * around.height);
        // SAFETY: both slices are as long as they say: the region that was set fits into the second.
        let ended = unsafe {
            tj::tj3Decompress8(
                self.handle.as_ptr(),
                bytes.as_ptr(),
                bytes.len() as _,
                memory.as_mut_ptr(),
                (channels * around.width) as c_int,
                format as c_int,
            )
        };
        if ended != 0 {
            let complaint = self.complaint();
            if !bytes.ends_with(&END) && complaint.to_lowercase().contains("premature end") {
                return Err(MediaError::Truncated("JPEG"));
            }
            // Others read images with warnings as well; what is missing is all that Pillow minds.
            if !self.is_warning() {
                return Err(MediaError::Damaged("JPEG", complaint));
            }
        }
        if header.is_cmyk {
            from_inks(memory);
        }
        let inside = Rect { x: part.x - around.x, y: part.y - around.y, ..part };
        let pixels = Pixels::new(memory, around.width, around.height, 3);
        Ok(pixels.and_then(|pixels| pixels.part(inside)).expect("the part lies in what is around it"))
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { tj::tj3Destroy(self.handle.as_ptr()) };
    }
}

/// What the frame of an image says, and what stands before it.
struct Frame {
    size: (c_int, c_int),
    /// How the camera was held.
    orientation: u8,
    /// If it is plain.
    outline: Option<Outline>,
}

impl Frame {
    fn of(bytes: &[u8]) -> Result<Self, MediaError> {
        let mut orientation = None;
        let mut rest = bytes.get(2..).unwrap_or_default();
        loop {
            // Segments begin with 0xff, any number of them, and a mark.
            while let [0xff, 0xff, ..] = rest {
                rest = &rest[1..];
            }
            let (mark, length) = match rest {
                [0xff, 0x01 | 0xd0..=0xd8, after @ ..] => {
                    rest = after;
                    continue;
                }
                [0xff, mark, high, low, ..] => (*mark, usize::from(u16::from_be_bytes([*high, *low]))),
                [0xff, ..] | [] => return Err(MediaError::Truncated("JPEG")),
                _ => {
                    return Err(MediaError::Damaged(
                        "JPEG",
                        "there is something between its segments".into(),
                    ));
                }
            };
            if let (
                0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf,
                [_, _, _, _, _, high, low, wide, narrow, ..],
            ) = (mark, rest)
            {
                let (width, height) =
                    (u16::from_be_bytes([*wide, *narrow]), u16::from_be_bytes([*high, *low]));
                let inside = rest.get(4..2 + length).filter(|_| mark == 0xc0);
                return Ok(Self {
                    size: (width.into(), height.into()),
                    orientation: orientation.unwrap_or(1),
                    outline: inside.and_then(Outline::of),
                });
            }
            if mark == 0xe1 && orientation.is_none() {
                orientation = rest.get(4..2 + length).and_then(exif::orientation);
            }
            rest = rest.get(2 + length..).ok_or(MediaError::Truncated("JPEG"))?;
        }
    }
}

/// Colours of inks, as Pillow has them. Files keep inks inverted: 255 is none.
fn from_inks(memory: &mut [u8]) {
    for at in 0..memory.len() / 4 {
        let [cyan, magenta, yellow, black] = std::array::from_fn(|ink| u32::from(memory[4 * at + ink]));
        for (channel, ink) in [cyan, magenta, yellow].into_iter().enumerate() {
            let product = (255 - ink) * black + 128;
            memory[3 * at + channel] = (black - ((product + (product >> 8)) >> 8)) as u8;
        }
    }
}

/// The size of a block of all colours, by how they are thinned out.
fn block(subsampling: c_int) -> Option<(usize, usize)> {
    match subsampling {
        x if x == tj::TJSAMP_TJSAMP_444 as c_int || x == tj::TJSAMP_TJSAMP_GRAY as c_int => Some((8, 8)),
        x if x == tj::TJSAMP_TJSAMP_422 as c_int => Some((16, 8)),
        x if x == tj::TJSAMP_TJSAMP_440 as c_int => Some((8, 16)),
        x if x == tj::TJSAMP_TJSAMP_411 as c_int => Some((32, 8)),
        x if x == tj::TJSAMP_TJSAMP_441 as c_int => Some((8, 32)),
        x if x == tj::TJSAMP_TJSAMP_420 as c_int => Some((16, 16)),
        _ => None,
    }
}

/// A part with a block more on each side, beginning and ending where blocks do; or all.
fn around(header: Header, part: Rect) -> Rect {
    let Some(block) = header.block else {
        return Rect { x: 0, y: 0, width: header.width, height: header.height };
    };
    let span = |first: usize, count: usize, block: usize, most: usize| {
        let begin = first.saturating_sub(block) / block * block;
        let end = (first + count + block).next_multiple_of(block).min(most);
        (begin, end - begin)
    };
    let (x, width) = span(part.x, part.width, block.0, header.width);
    let (y, height) = span(part.y, part.height, block.1, header.height);
    Rect { x, y, width, height }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_part_is_decoded_with_a_block_around_it() {
        let header = Header {
            width: 100,
            height: 50,
            is_cmyk: false,
            orientation: 1,
            block: Some((16, 16)),
            outline: None,
        };
        let part = Rect { x: 40, y: 20, width: 10, height: 10 };
        assert_eq!(around(header, part), Rect { x: 16, y: 0, width: 64, height: 48 });
        let part = Rect { x: 0, y: 0, width: 100, height: 50 };
        assert_eq!(around(header, part), part);
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let mut decoder = Decoder::new(false).unwrap();
        for bytes in [&b""[..], b"<html></html>", &[0xff, 0xd8, 0xff, 0xd9], &[0xff; 100]] {
            assert!(decoder.header(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_version_that_is_not_known_is_no_obstacle() {
        let mut file = written((45, 37), tj::TJSAMP_TJSAMP_420, 80, 0, 1);
        assert_eq!(file[6..12], *b"JFIF\0\x01");
        let expected = decoded(true, &file, None).0.unwrap();
        file[11] = 9;
        assert_eq!(decoded(true, &file, None).0.unwrap(), expected);
        assert_eq!(decoded(false, &file, None).0.unwrap(), expected);
    }

    /// A file of noise and slopes, with marks to begin anew after so many rows of blocks.
    fn written(
        size: (usize, usize),
        subsampling: tj::TJSAMP,
        quality: c_int,
        restart: c_int,
        seed: u32,
    ) -> Vec<u8> {
        let mut state = seed;
        let pixels: Vec<u8> = (0..3 * size.0 * size.1)
            .map(|at| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let slope = (at / 3 % size.0 + at / 3 / size.0 * (1 + at % 3)) as u32;
                (slope + (state >> 24 & (255 >> (seed % 8)))) as u8
            })
            .collect();
        // SAFETY: it takes a number and returns a handle or nothing.
        let handle = unsafe { tj::tj3Init(tj::TJINIT_TJINIT_COMPRESS as c_int) };
        for (parameter, value) in [
            (tj::TJPARAM_TJPARAM_QUALITY, quality),
            (tj::TJPARAM_TJPARAM_SUBSAMP, subsampling as c_int),
            (tj::TJPARAM_TJPARAM_RESTARTROWS, restart),
            (tj::TJPARAM_TJPARAM_OPTIMIZE, c_int::from(seed.is_multiple_of(2))),
        ] {
            // SAFETY: the handle is one.
            assert_eq!(unsafe { tj::tj3Set(handle, parameter as c_int, value) }, 0);
        }
        let (mut out, mut length) = (std::ptr::null_mut(), 0);
        let (width, height) = (size.0 as c_int, size.1 as c_int);
        // SAFETY: there are as many pixels, and the library makes room for what it writes.
        let ended = unsafe {
            let format = tj::TJPF_TJPF_RGB as c_int;
            tj::tj3Compress8(handle, pixels.as_ptr(), width, 0, height, format, &raw mut out, &raw mut length)
        };
        assert_eq!(ended, 0);
        // SAFETY: the library wrote so many bytes.
        let file = unsafe { std::slice::from_raw_parts(out, length as usize) }.to_vec();
        // SAFETY: it is the library's.
        unsafe { tj::tj3Free(out.cast()) };
        // SAFETY: nobody uses it any more.
        unsafe { tj::tj3Destroy(handle) };
        file
    }

    /// The pixels of a part, or what is wrong; and whether it was decoded here.
    fn decoded(library_only: bool, file: &[u8], part: Option<Rect>) -> (Result<Vec<u8>, MediaError>, bool) {
        let mut decoder = Decoder::new(library_only).unwrap();
        let mut memory = Vec::new();
        let pixels = decoder.header(file).and_then(|header| {
            let (width, height) = (header.width, header.height);
            let part = part.unwrap_or(Rect { x: 0, y: 0, width, height });
            let pixels = decoder.decode(file, header, part, &mut memory)?;
            Ok((0..pixels.height()).flat_map(|y| pixels.row(y).to_vec()).collect())
        });
        (pixels, !library_only && decoder.was_plain)
    }

    proptest! {
        /// To the bit what libjpeg-turbo makes of all of it.
        #[test]
        fn a_plain_file_is_decoded_as_the_library_does(
            size in (1usize..80, 1usize..80),
            kind in 0usize..6,
            quality in 1..101,
            restart in 0..3,
            seed: u32,
            place in (0f64..1.0, 0f64..1.0, 0f64..1.0, 0f64..1.0),
        ) {
            let subsampling = [
                tj::TJSAMP_TJSAMP_444, tj::TJSAMP_TJSAMP_422, tj::TJSAMP_TJSAMP_420, tj::TJSAMP_TJSAMP_GRAY,
                tj::TJSAMP_TJSAMP_440, tj::TJSAMP_TJSAMP_411,
            ][kind];
            let file = written(size, subsampling, quality, restart, seed);
            let (x, y) = ((place.0 * size.0 as f64) as usize, (place.1 * size.1 as f64) as usize);
            let (width, height) = (
                1 + (place.2 * (size.0 - x - 1) as f64).round() as usize,
                1 + (place.3 * (size.1 - y - 1) as f64).round() as usize,
            );
            let part = Rect { x, y, width, height };
            let (whole, _) = decoded(true, &file, None);
            let whole = whole.unwrap();
            let (found, was_plain) = decoded(false, &file, None);
            prop_assert_eq!(&found.unwrap(), &whole);
            let is_narrow = kind != 0 && kind != 3 && size.0 <= 4;
            prop_assert!(was_plain == (kind < 4 && !is_narrow) || !cfg!(target_arch = "x86_64"));
            let whole = Pixels::new(&whole, size.0, size.1, 3).unwrap().part(part).unwrap();
            let expected: Vec<u8> = (0..height).flat_map(|y| whole.row(y).to_vec()).collect();
            prop_assert_eq!(decoded(false, &file, Some(part)).0.unwrap(), expected);
        }

        /// Whatever happens to a file, the result is the library's, or its error.
        #[test]
        fn a_damaged_file_is_what_the_library_makes_of_it(
            kind in 0usize..4,
            quality in 1..101,
            restart in 0..2,
            seed: u32,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let subsampling = [
                tj::TJSAMP_TJSAMP_444, tj::TJSAMP_TJSAMP_422, tj::TJSAMP_TJSAMP_420, tj::TJSAMP_TJSAMP_GRAY,
            ][kind];
            let mut file = written((45, 37), subsampling, quality, restart, seed);
            for (place, byte) in damage {
                let at = place.index(file.len());
                file[at] = byte;
            }
            let header = Decoder::new(true).unwrap().header(&file);
            // Sizes that make no sense take long.
            if header.is_ok_and(|header| header.width * header.height < 1 << 16) {
                prop_assert_eq!(decoded(false, &file, None).0, decoded(true, &file, None).0);
            }
        }
    }
}
