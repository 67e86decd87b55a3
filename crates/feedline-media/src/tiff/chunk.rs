//! A strip or a tile: bytes in a file to numbers in a row.

use libdeflater::Decompressor;
use weezl::{BitOrder, LzwStatus, decode::Decoder};

use super::{
    MOST_BYTES, MOST_PACKED, damaged,
    directory::{Compression, Page, Source},
};
use crate::{MediaError, pixels::room};

/// What a worker keeps from file to file.
#[derive(Default)]
pub struct Scratch {
    chunk: Vec<u8>,
    lzw: Option<Decoder>,
    deflate: Option<Decompressor>,
}

/// The part of an image that a strip or a tile has.
pub(super) struct Part {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Page {
    /// Calls back with the numbers of every strip or tile: for its plane (if each sample has its own), its part of the image,
    /// its bytes, and the bytes from one of its rows to the next.
    pub(super) fn each_chunk(
        &self,
        source: &Source<'_>,
        scratch: &mut Scratch,
        wanted: impl Fn(usize) -> bool,
        mut write: impl FnMut(usize, &Part, &[u8], usize),
    ) -> Result<(), MediaError> {
        let (columns, rows) = self.chunks();
        let planes = if self.planar { self.samples } else { 1 };
        for plane in (0..planes).filter(|plane| !self.planar || wanted(*plane)) {
            for number in 0..columns * rows {
                let (x, y) = (number % columns * self.chunk.0, number / columns * self.chunk.1);
                let part = Part {
                    x,
                    y,
                    width: self.chunk.0.min(self.width - x),
                    height: self.chunk.1.min(self.height - y),
                };
                // The last strip may end with the image, tiles are whole.
                let stored = if self.tiled { self.chunk.1 } else { part.height };
                let pitch = self.chunk.0 * self.together() * self.dtype.size();
                let at = (plane * columns * rows + number) as u64;
                let bytes = self.unpacked(source, scratch, at, pitch * stored, pitch)?;
                write(plane, &part, bytes, pitch);
            }
        }
        Ok(())
    }

    /// The numbers of a strip or a tile, which are so many bytes.
    fn unpacked<'a>(
        &self,
        source: &Source<'a>,
        scratch: &'a mut Scratch,
        number: u64,
        expected: usize,
        pitch: usize,
    ) -> Result<&'a [u8], MediaError> {
        let at = self.places.get(source, number)?;
        if self.compression == Compression::None && !self.differences {
            return source.slice(at, expected as u64);
        }
        let packed = source.slice(at, self.lengths.get(source, number)?)?;
        // What claims more than it can have is refused before it is given memory.
        if expected > MOST_BYTES || expected / MOST_PACKED > packed.len() {
            return Err(damaged("its strips are shorter than their size says"));
        }
        let Scratch { chunk, lzw, deflate } = scratch;
        let out = room(chunk, expected);
        match self.compression {
            Compression::None => {
                let whole = packed.get(..expected).ok_or(MediaError::Truncated("TIFF"))?;
                out.copy_from_slice(whole);
            }
            Compression::Lzw => unpack_lzw(lzw, packed, out)?,
            Compression::Deflate => {
                let deflate = deflate.get_or_insert_with(Decompressor::new);
                let unpacked = deflate.zlib_decompress(packed, out);
                if unpacked != Ok(expected) {
                    return Err(damaged("a strip does not decompress to its size"));
                }
            }
            Compression::PackBits => unpack_bits(packed, out)?,
        }
        if self.differences {
            self.add_up(source.swapped, out, pitch);
        }
        Ok(out)
    }

    /// Differences to the left neighbours become numbers, in the byte order of the file.
    fn add_up(&self, swapped: bool, out: &mut [u8], pitch: usize) {
        let (size, step) = (self.dtype.size(), self.together() * self.dtype.size());
        for row in out.chunks_exact_mut(pitch) {
            for at in (step..row.len()).step_by(size) {
                let mut carry = false;
                for byte in 0..size {
                    // From the least byte to the greatest.
                    let place =
                        if swapped == cfg!(target_endian = "little") { size - 1 - byte } else { byte };
                    let (sum, over) = row[at + place].overflowing_add(row[at + place - step]);
                    let (sum, again) = sum.overflowing_add(u8::from(carry));
                    row[at + place] = sum;
                    carry = over || again;
                }
            }
        }
    }
}

fn unpack_lzw(decoder: &mut Option<Decoder>, packed: &[u8], out: &mut [u8]) -> Result<(), MediaError> {
    let decoder = decoder.get_or_insert_with(|| Decoder::with_tiff_size_switch(BitOrder::Msb, 8));
    decoder.reset();
    let (mut read, mut written) = (0, 0);
    while written < out.len() {
        let step = decoder.decode_bytes(&packed[read..], &mut out[written..]);
        read += step.consumed_in;
        written += step.consumed_out;
        match step.status {
            Ok(LzwStatus::Ok) if step.consumed_in + step.consumed_out > 0 => {}
            _ => break,
        }
    }
    if written == out.len() { Ok(()) } else { Err(damaged("a strip does not decompress to its size")) }
}

/// Runs: a count and so many bytes, or a negative count and one byte as often.
pub(super) fn unpack_bits(mut packed: &[u8], mut out: &mut [u8]) -> Result<(), MediaError> {
    while !out.is_empty() {
        let [count, rest @ ..] = packed else { return Err(MediaError::Truncated("TIFF")) };
        packed = rest;
        let count = *count as i8;
        if count == i8::MIN {
            continue;
        }
        let length = usize::from(count.unsigned_abs()) + 1;
        let stored = if count >= 0 { length } else { 1 };
        let stored = packed.split_off(..stored).ok_or(MediaError::Truncated("TIFF"))?;
        let length = length.min(out.len());
        let (target, others) = std::mem::take(&mut out).split_at_mut(length);
        if count >= 0 {
            target.copy_from_slice(&stored[..length]);
        } else {
            target.fill(stored[0]);
        }
        out = others;
    }
    Ok(())
}
