//! JPEG, decoded by libjpeg-turbo: whole, or only the part that is wanted, to the bit as Pillow has it.
//!
//! A part is decoded with one block more on each side, because colours are interpolated from their neighbours; what is
//! wanted is then the same as if all had been decoded. What is below a part is not even looked at.

use std::{
    ffi::{CStr, c_int, c_void},
    ptr::NonNull,
};

use turbojpeg_sys as tj;

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
}

/// A decoder, to be used for one image after the other by one worker.
pub(super) struct Decoder {
    handle: NonNull<c_void>,
}

// SAFETY: a handle may be used by any thread, by one at a time.
unsafe impl Send for Decoder {}

impl Decoder {
    /// One that has nothing to do yet.
    pub(super) fn new() -> Result<Self, MediaError> {
        // SAFETY: it takes a number and returns a handle or nothing.
        let handle = NonNull::new(unsafe { tj::tj3Init(tj::TJINIT_TJINIT_DECOMPRESS as c_int) });
        let decoder = Self { handle: handle.ok_or(MediaError::NoMemory)? };
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

    /// Reads the beginning of a file.
    pub(super) fn header(&mut self, bytes: &[u8]) -> Result<Header, MediaError> {
        let (size, orientation) = frame(bytes)?;
        // SAFETY: the slice is as long as it says.
        let ended =
            unsafe { tj::tj3DecompressHeader(self.handle.as_ptr(), bytes.as_ptr(), bytes.len() as _) };
        let (width, height) =
            (self.get(tj::TJPARAM_TJPARAM_JPEGWIDTH), self.get(tj::TJPARAM_TJPARAM_JPEGHEIGHT));
        if ended != 0 {
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
        Ok(Header { width, height, is_cmyk, orientation, block })
    }

    /// Decodes a part of an image as RGB. `bytes` are those of `header`. The memory is reused; what is returned lies in it.
    pub(super) fn decode<'a>(
        &mut self,
        bytes: &[u8],
        header: Header,
        part: Rect,
        memory: &'a mut Vec<u8>,
    ) -> Result<Pixels<'a>, MediaError> {
        let around = around(header, part);
        let whole = (around.width, around.height) == (header.width, header.height);
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
            // SAFETY: the handle lives as long as this.
            let is_warning = unsafe { tj::tj3GetErrorCode(self.handle.as_ptr()) } == 0;
            if !bytes.ends_with(&END) && complaint.to_lowercase().contains("premature end") {
                return Err(MediaError::Truncated("JPEG"));
            }
            // Others read images with warnings as well; what is missing is all that Pillow minds.
            if !is_warning {
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

/// Width and height, as the frame of an image has them; and how the camera was held.
fn frame(bytes: &[u8]) -> Result<((c_int, c_int), u8), MediaError> {
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
            _ => return Err(MediaError::Damaged("JPEG", "there is something between its segments".into())),
        };
        if let (
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf,
            [_, _, _, _, _, high, low, wide, narrow, ..],
        ) = (mark, rest)
        {
            let (width, height) = (u16::from_be_bytes([*wide, *narrow]), u16::from_be_bytes([*high, *low]));
            return Ok(((width.into(), height.into()), orientation.unwrap_or(1)));
        }
        if mark == 0xe1 && orientation.is_none() {
            orientation = rest.get(4..2 + length).and_then(exif::orientation);
        }
        rest = rest.get(2 + length..).ok_or(MediaError::Truncated("JPEG"))?;
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
    use super::*;

    #[test]
    fn a_part_is_decoded_with_a_block_around_it() {
        let header = Header { width: 100, height: 50, is_cmyk: false, orientation: 1, block: Some((16, 16)) };
        let part = Rect { x: 40, y: 20, width: 10, height: 10 };
        assert_eq!(around(header, part), Rect { x: 16, y: 0, width: 64, height: 48 });
        let part = Rect { x: 0, y: 0, width: 100, height: 50 };
        assert_eq!(around(header, part), part);
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let mut decoder = Decoder::new().unwrap();
        for bytes in [&b""[..], b"<html></html>", &[0xff, 0xd8, 0xff, 0xd9], &[0xff; 100]] {
            assert!(decoder.header(bytes).is_err(), "{bytes:?}");
        }
    }
}
