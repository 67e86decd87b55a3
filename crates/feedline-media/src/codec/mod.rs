//! Bytes of a file to pixels. Which format it is, its first bytes say; names are not asked.

mod exif;
mod jpeg;
mod png;
mod webp;

use crate::{
    MediaError,
    pixels::{Pixels, Rect, room},
    tiff,
};

/// The most pixels of an image: 2^28 are 768 MiB in memory.
pub const MOST_PIXELS: usize = 1 << 28;

/// Decoders that a worker keeps.
#[derive(Default)]
pub struct Codecs {
    jpeg: Option<jpeg::Decoder>,
    library_only: bool,
    tiff: (tiff::Pages, tiff::Scratch),
}

/// What the beginning of a file says.
#[derive(Clone, Copy, Debug)]
pub enum Opened {
    /// JPEG.
    Jpeg(jpeg::Header),
    /// PNG, of this width and height.
    Png(usize, usize),
    /// TIFF.
    Tiff(usize, usize),
    /// WebP.
    WebP(usize, usize),
}

impl Opened {
    /// How the camera was held: 1 is upright.
    pub fn orientation(&self) -> u8 {
        match self {
            Self::Jpeg(header) => header.orientation,
            Self::Png(..) | Self::Tiff(..) | Self::WebP(..) => 1,
        }
    }

    /// Width and height.
    pub fn size(&self) -> (usize, usize) {
        match self {
            Self::Jpeg(header) => (header.width, header.height),
            Self::Png(width, height) | Self::Tiff(width, height) | Self::WebP(width, height) => {
                (*width, *height)
            }
        }
    }
}

impl Codecs {
    /// Decoders that leave every JPEG to libjpeg-turbo: to compare with.
    pub fn of_library() -> Self {
        Self { library_only: true, ..Self::default() }
    }

    /// Reads the beginning of a file.
    pub fn open(&mut self, bytes: &[u8]) -> Result<Opened, MediaError> {
        let opened = match bytes {
            [] => return Err(MediaError::Empty),
            [0xff, 0xd8, 0xff, ..] => Opened::Jpeg(self.jpeg()?.header(bytes)?),
            [0x89, b'P', b'N', b'G', ..] => {
                let (width, height) = png::size(bytes)?;
                Opened::Png(width, height)
            }
            [b'I', b'I', ..] | [b'M', b'M', ..] => {
                let extent = self.tiff.0.open(bytes)?;
                if !self.tiff.0.is_picture() {
                    let why = "it is not of 8 bits, in gray or in three colours";
                    return Err(MediaError::Unread("TIFF", why.into()));
                }
                Opened::Tiff(extent.width, extent.height)
            }
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
                let (width, height) = webp::size(bytes)?;
                Opened::WebP(width, height)
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
            self.jpeg = Some(jpeg::Decoder::new(self.library_only)?);
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
                Ok(part_of(memory, (*width, *height), part))
            }
            Opened::Tiff(width, height) => {
                let (pages, scratch) = &mut self.tiff;
                pages.open(bytes)?;
                pages.write_picture(bytes, scratch, room(memory, 3 * width * height))?;
                Ok(part_of(memory, (*width, *height), part))
            }
            Opened::WebP(width, height) => {
                webp::decode(bytes, (*width, *height), room(memory, 3 * width * height))?;
                Ok(part_of(memory, (*width, *height), part))
            }
        }
    }
}

/// A part of an image that was decoded whole.
fn part_of(memory: &[u8], (width, height): (usize, usize), part: Rect) -> Pixels<'_> {
    let whole = Pixels::new(memory, width, height, 3);
    whole.and_then(|pixels| pixels.part(part)).expect("the part lies in the image")
}

/// What a file that cannot be decoded may be.
pub(crate) fn name(bytes: &[u8]) -> &'static str {
    match bytes {
        [b'G', b'I', b'F', b'8', ..] => "GIF",
        [b'B', b'M', ..] => "BMP",
        [b'<', ..] => "text: HTML or XML",
        _ => "no format that is known",
    }
}
