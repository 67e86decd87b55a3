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

/// How exactly an image is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Decode {
    /// To the bit as Pillow does.
    #[default]
    Exact,
    /// A JPEG that will get smaller is decoded at a half, a quarter or an eighth of its size, if that is not smaller than
    /// what is to become of it. Pixels of photographs differ by 1 to 3 of 255 on average from what would be exact.
    Fast,
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

    /// By how much a part may be smaller when it is decoded, if it is to be brought to this size: 8, 4, 2 or 1.
    pub(crate) fn shrink(&self, part: Rect, to: (usize, usize)) -> usize {
        let is_large = |by: &usize| part.width >= by * to.0 && part.height >= by * to.1;
        match self {
            Self::Jpeg(_) => [8, 4, 2].into_iter().find(is_large).unwrap_or(1),
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

    /// Decodes a part of an image that is made smaller by a factor that [`Opened::shrink`] gave. The part is one of the
    /// smaller image.
    pub(crate) fn decode_smaller<'a>(
        &mut self,
        bytes: &[u8],
        opened: &Opened,
        part: Rect,
        shrink: usize,
        memory: &'a mut Vec<u8>,
    ) -> Result<Pixels<'a>, MediaError> {
        match opened {
            Opened::Jpeg(header) if shrink > 1 => {
                self.jpeg()?.decode_smaller(bytes, *header, part, shrink, memory)
            }
            _ => self.decode(bytes, opened, part, memory),
        }
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
