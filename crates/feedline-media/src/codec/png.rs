//! PNG, of any depth, with or without a palette or transparency, as Pillow converts it to three colours.

use std::io::Cursor;

use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Reader, Transformations};

use crate::MediaError;

/// What a decoder may take besides the image itself.
const MOST_BYTES: usize = 1 << 28;

fn open(bytes: &[u8]) -> Decoder<Cursor<&[u8]>> {
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: MOST_BYTES });
    decoder.set_transformations(Transformations::EXPAND);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder
}

fn damaged(error: DecodingError) -> MediaError {
    let ended =
        matches!(&error, DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof);
    if ended { MediaError::Truncated("PNG") } else { MediaError::Damaged("PNG", error.to_string()) }
}

/// Width and height.
pub(super) fn size(bytes: &[u8]) -> Result<(usize, usize), MediaError> {
    let mut decoder = open(bytes);
    let info = decoder.read_header_info().map_err(damaged)?;
    Ok((info.width as usize, info.height as usize))
}

/// All of an image, three colours to a pixel.
pub(super) fn decode(bytes: &[u8], memory: &mut Vec<u8>) -> Result<(), MediaError> {
    let mut reader = open(bytes).read_info().map_err(damaged)?;
    let info = reader.info();
    let (pixels, gray_16) = (
        info.width as usize * info.height as usize,
        (info.color_type, info.bit_depth) == (ColorType::Grayscale, BitDepth::Sixteen),
    );
    let (colour, depth) = reader.output_color_type();
    let channels = colour.samples();
    let sample = if depth == BitDepth::Sixteen { 2 } else { 1 };
    let needed = reader.output_buffer_size().unwrap_or(usize::MAX);
    let most = pixels * channels.max(3) * sample;
    if needed > most {
        return Err(MediaError::Damaged("PNG", "its size is not what its header says".into()));
    }
    memory.resize(most, 0);
    read(&mut reader, memory)?;
    if sample == 2 {
        // Of two bytes the first is the greater one. Pillow keeps all of gray, and cuts what is above 255.
        let narrow = |pair: [u8; 2]| {
            if gray_16 && channels == 1 { u16::from_be_bytes(pair).min(255) as u8 } else { pair[0] }
        };
        for at in 0..pixels * channels {
            memory[at] = narrow([memory[2 * at], memory[2 * at + 1]]);
        }
    }
    match channels {
        1 | 2 => {
            // From the end, because there will be more.
            for at in (0..pixels).rev() {
                let value = memory[at * channels];
                memory[3 * at..3 * at + 3].fill(value);
            }
        }
        4 => {
            for at in 0..pixels {
                memory.copy_within(4 * at..4 * at + 3, 3 * at);
            }
        }
        _ => {}
    }
    memory.truncate(3 * pixels);
    Ok(())
}

fn read(reader: &mut Reader<Cursor<&[u8]>>, memory: &mut [u8]) -> Result<(), MediaError> {
    reader.next_frame(memory).map(drop).map_err(damaged)
}
