//! Bytes of a file to pixels. Which format it is, its first bytes say; names are not asked.

mod exif;
mod jpeg;
mod png;

use crate::{
    MediaError,
    pixels::{Pixels, Rect},
};

/// The most pixels of an image: 2^28 are 768 MiB in memory.
pub const MOST_PIXELS: usize = 1 << 28;

/// Decoders that a worker keeps.
#[derive(Default)]
pub struct Codecs {
    jpeg: Option<jpeg::Decoder>,
}

/// What the beginning of a file says.
#[derive(Clone, Copy, Debug)]
pub enum Opened {
    /// JPEG.
    Jpeg(jpeg::Header),
    /// PNG, of this width and height.
    Png(usize, usize),
}

impl Opened {
    /// How the camera was held: 1 is upright.
    pub fn orientation(&self) -> u8 {
        match self {
            Self::Jpeg(header) => header.orientation,
            Self::Png(..) => 1,
        }
    }

    /// Width and height.
    pub fn size(&self) -> (usize, usize) {
        match self {
            Self::Jpeg(header) => (header.width, header.height),
            Self::Png(width, height) => (*width, *height),
        }
    }
}

impl Codecs {
    /// Reads the beginning of a file.
    pub fn open(&mut self, bytes: &[u8]) -> Result<Opened, MediaError> {
        let opened = match bytes {
            [] => return Err(MediaError::Empty),
            [0xff, 0xd8, 0xff, ..] => Opened::Jpeg(self.jpeg()?.header(bytes)?),
            [0x89, b'P', b'N', b'G', ..] => {
                let (width, height) = png::size(bytes)?;
                Opened::Png(width, height)
            }
            _ => return Err(MediaError::Unknown(name(bytes))),
        };
        let (width, height) = opened.size();
        match width.checked_mul(height) {
            Some(pixels) if pixels <= MOST_PIXELS => Ok(opened),
            _ => Err(MediaError::TooLarge { width, height, most: MOST_PIXELS }),
        }
    }

    fn jpeg(&mut self) -> Result<&mut jpeg::Decoder, MediaError> {
        if self.jpeg.is_none() {
            self.jpeg = Some(jpeg::Decoder::new()?);
        }
        Ok(self.jpeg.as_mut().expect("it was just made"))
    }

    /// Decodes a part of an image, in three colours, into memory that is reused.
    pub fn decode<'a>(
        &mut self,
        bytes: &[u8],
        opened: &Opened,
        part: Rect,
        memory: &'a mut Vec<u8>,
    ) -> Result<Pixels<'a>, MediaError> {
        match opened {
            Opened::Jpeg(header) => self.jpeg()?.decode(bytes, *header, part, memory),
            Opened::Png(width, height) => {
                png::decode(bytes, memory)?;
                let whole = Pixels::new(memory, *width, *height, 3);
                Ok(whole.and_then(|pixels| pixels.part(part)).expect("the part lies in the image"))
            }
        }
    }
}

/// What a file that cannot be decoded may be.
fn name(bytes: &[u8]) -> &'static str {
    match bytes {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "WebP",
        [b'G', b'I', b'F', b'8', ..] => "GIF",
        [b'B', b'M', ..] => "BMP",
        [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => "TIFF",
        [b'<', ..] => "text: HTML or XML",
        _ => "no format that is known",
    }
}
