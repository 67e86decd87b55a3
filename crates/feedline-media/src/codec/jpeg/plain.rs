//! A plain JPEG, as cameras and most programs write it, decoded here: faster than libjpeg-turbo does, to the same bits.
//!
//! ```text
//! segments ─► tables ─► codes of the scan ─► blocks that are wanted ─► planes ─► rows of red, green and blue
//! ```
//!
//! Plain is: baseline, one scan, 8 bits, gray or in three colours that are thinned out not at all, across, or both ways.
//! Whatever is not plain, and whatever is not as it should be, is left to libjpeg-turbo: it then says what is wrong, or makes
//! of it what it always made. So nothing here has to be said in words; it is done, or it is not.
//!
//! Of a part of an image, all codes up to its last row must be read, because each begins where the one before ends. But only
//! the blocks that the part touches become pixels; those of thinned-out colours also where they lie beside it.

use std::ops::Range;

use super::{
    colours::{self, Mixed, Near},
    cosines,
    huffman::{Bits, ORDER, Table},
};
use crate::pixels::Rect;

/// A plain image's outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outline {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Colours; 1 is gray.
    channels: usize,
    /// How many blocks of brightness there are for one of a colour: across and down.
    thinned: (usize, usize),
    /// What the channels are called.
    names: [u8; 3],
    /// Which table the numbers of each are multiplied by.
    quants: [usize; 3],
}

impl Outline {
    /// Reads the segment of a frame. `None` if it is not plain.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let (&[bits, high, low, wide, narrow, channels], rest) = frame.split_first_chunk()?;
        let (height, width) = (u16::from_be_bytes([high, low]), u16::from_be_bytes([wide, narrow]));
        let (channels, (each, [])) = (usize::from(channels), rest.as_chunks::<3>()) else { return None };
        // Longer sides are nothing that libjpeg would read.
        let is_side = |side: u16| (1..=65500).contains(&side);
        if bits != 8 || !is_side(width) || !is_side(height) || each.len() != channels {
            return None;
        }
        let thinned = match each {
            [[_, 0x11, _]] | [[_, 0x11, _], [_, 0x11, _], [_, 0x11, _]] => (1, 1),
            [[_, 0x21, _], [_, 0x11, _], [_, 0x11, _]] => (2, 1),
            [[_, 0x22, _], [_, 0x11, _], [_, 0x11, _]] => (2, 2),
            _ => return None,
        };
        let (mut names, mut quants) = ([0; 3], [0; 3]);
        for (at, [name, _, quant]) in each.iter().enumerate() {
            (names[at], quants[at]) = (*name, usize::from(*quant));
        }
        let (width, height) = (usize::from(width), usize::from(height));
        // Of so few columns, libjpeg mixes no colours.
        let is_narrow = thinned.0 == 2 && width.div_ceil(2) <= 2;
        let [one, two, three] = names;
        let is_clear = channels == 1 || (one != two && two != three && three != one);
        (is_clear && !is_narrow).then_some(Self { width, height, channels, thinned, names, quants })
    }
}

/// A channel, and the part of it that is wanted.
#[derive(Clone, Debug, Default)]
struct Plane {
    /// Blocks of a unit, across and down.
    blocks: (usize, usize),
    /// The blocks that become pixels.
    columns: Range<usize>,
    rows: Range<usize>,
    /// Its tables.
    quant: usize,
    first: usize,
    others: usize,
    bytes: Vec<u8>,
}

/// What is read beyond the end of a row.
const BEYOND: usize = 2 * colours::STEP;

impl Plane {
    /// Makes room for the blocks that these values lie in.
    fn want(&mut self, columns: Range<usize>, rows: Range<usize>) {
        let blocks = |values: Range<usize>| values.start / 8..values.end.div_ceil(8);
        (self.columns, self.rows) = (blocks(columns), blocks(rows));
        let needed = self.stride() * 8 * self.rows.len() + BEYOND;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
    }

    fn stride(&self) -> usize {
        8 * self.columns.len()
    }

    /// Its values from a place on.
    fn from(&self, x: usize, y: usize) -> &[u8] {
        &self.bytes[(y - 8 * self.rows.start) * self.stride() + x - 8 * self.columns.start..]
    }

    /// Where a block is to be written, if it is wanted.
    #[inline]
    fn place(&mut self, column: usize, row: usize) -> Option<&mut [u8]> {
        let (x, y) = (column.wrapping_sub(self.columns.start), row.wrapping_sub(self.rows.start));
        if x >= self.columns.len() || y >= self.rows.len() {
            return None;
        }
        let stride = self.stride();
        self.bytes.get_mut(8 * (y * stride + x)..)
    }
}

/// What is kept from image to image.
pub(super) struct Plain {
    quants: [[i16; 64]; 4],
    /// For the first number of a block, and for the others.
    first: [Table; 2],
    others: [Table; 2],
    planes: [Plane; 3],
    /// Units between marks at which the scan begins anew; 0 is never.
    restart: usize,
    /// The bytes of the scan, and where its stretches end.
    scan: Vec<u8>,
    ends: Vec<usize>,
    mixed: [Mixed; 2],
}

impl Plain {
    /// Nothing on machines that would be slower than libjpeg-turbo.
    pub(super) fn new() -> Option<Self> {
        let is_possible =
            std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi2");
        is_possible.then(|| Self {
            quants: [[0; 64]; 4],
            first: Default::default(),
            others: Default::default(),
            planes: Default::default(),
            restart: 0,
            scan: Vec::new(),
            ends: Vec::new(),
            mixed: Default::default(),
        })
    }

    /// Decodes a part of an image as RGB, into rows of `stride` bytes from one to the next, behind which there is room for
    /// 96 bytes. `None` if it is not plain, or not as it should be.
    ///
    /// The part begins at a column of an even number.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        outline: Outline,
        part: Rect,
        stride: usize,
        out: &mut [u8],
    ) -> Option<()> {
        assert_eq!(part.x % 2, 0, "pixels are made two by two");
        let scan = self.read_tables(bytes, outline)?;
        self.unstuff(&bytes[scan..])?;
        self.want(outline, part);
        // SAFETY: the machine has it, or there would be nothing of this type.
        unsafe { self.read_scan(outline, part, stride, out) }
    }

    /// Reads all segments up to the scan's; says where the scan begins.
    fn read_tables(&mut self, bytes: &[u8], outline: Outline) -> Option<usize> {
        let (mut has_quants, mut has_first, mut has_others) = ([false; 4], [false; 2], [false; 2]);
        let (mut is_jfif, mut adobe, mut frames) = (false, None, 0);
        self.restart = 0;
        let mut at = 2;
        loop {
            let [0xff, mark, high, low] = *bytes.get(at..)?.first_chunk()? else { return None };
            let end = at + 2 + usize::from(u16::from_be_bytes([high, low]));
            let inside = bytes.get(at + 4..end)?;
            at = end;
            match mark {
                0xc0 => {
                    frames += 1;
                    if Outline::of(inside) != Some(outline) {
                        return None;
                    }
                }
                0xc4 => self.read_codes(inside, &mut has_first, &mut has_others)?,
                0xdb => self.read_quants(inside, &mut has_quants)?,
                0xdd => self.restart = usize::from(u16::from_be_bytes(*inside.as_array()?)),
                0xda => break self.read_scan_header(inside, outline, has_first, has_others)?,
                // These say how colours are meant.
                0xe0 if inside.starts_with(b"JFIF\0") => is_jfif |= inside.len() >= 14,
                0xee if inside.starts_with(b"Adobe") => adobe = Some(*inside.get(11)?),
                0xe0..=0xef | 0xfe => {}
                _ => return None,
            }
        }
        let names = [b'R', b'G', b'B'];
        let is_known =
            outline.channels == 1 || is_jfif || adobe.map_or(outline.names != names, |way| way == 1);
        let has_all =
            outline.quants[..outline.channels].iter().all(|quant| has_quants.get(*quant) == Some(&true));
        (frames == 1 && is_known && has_all).then_some(at)
    }

    fn read_quants(&mut self, mut inside: &[u8], has: &mut [bool; 4]) -> Option<()> {
        while let Some((which, rest)) = inside.split_first() {
            // The upper half is 1 for numbers of 16 bits.
            let which = usize::from(*which);
            let (numbers, rest) = rest.split_first_chunk::<64>()?;
            let quants = self.quants.get_mut(which)?;
            for (place, number) in ORDER.iter().zip(numbers) {
                quants[usize::from(*place)] = i16::from(*number);
            }
            has[which] = true;
            inside = rest;
        }
        Some(())
    }

    fn read_codes(
        &mut self,
        mut inside: &[u8],
        has_first: &mut [bool; 2],
        has_others: &mut [bool; 2],
    ) -> Option<()> {
        while let Some((which, rest)) = inside.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>()?;
            let count = counts.iter().map(|count| usize::from(*count)).sum();
            let (symbols, rest) = rest.split_at_checked(count)?;
            let (kind, which) = (which >> 4, usize::from(which & 15));
            match kind {
                0 if symbols.iter().all(|symbol| *symbol < 16) => {
                    self.first.get_mut(which)?.set(counts, symbols)?;
                    has_first[which] = true;
                }
                1 => {
                    self.others.get_mut(which)?.set(counts, symbols)?;
                    has_others[which] = true;
                }
                _ => return None,
            }
            inside = rest;
        }
        Some(())
    }

    /// All channels in their order, all numbers at once.
    fn read_scan_header(
        &mut self,
        inside: &[u8],
        outline: Outline,
        has_first: [bool; 2],
        has_others: [bool; 2],
    ) -> Option<()> {
        let (count, rest) = inside.split_first()?;
        let (each, ends) = rest.as_chunks::<2>();
        let (each, [[0, 63]]) = each.split_at_checked(outline.channels)? else { return None };
        if usize::from(*count) != outline.channels || ends != [0] {
            return None;
        }
        for (at, [name, tables]) in each.iter().enumerate() {
            let plane = &mut self.planes[at];
            (plane.first, plane.others) = (usize::from(tables >> 4), usize::from(tables & 15));
            plane.quant = outline.quants[at];
            plane.blocks = if at == 0 { outline.thinned } else { (1, 1) };
            let has = |tables: [bool; 2], which: usize| tables.get(which) == Some(&true);
            if *name != outline.names[at] || !has(has_first, plane.first) || !has(has_others, plane.others) {
                return None;
            }
        }
        Some(())
    }

    /// Takes out of a scan what is there only so that its bytes are not taken for marks; up to the end of the image.
    fn unstuff(&mut self, mut rest: &[u8]) -> Option<()> {
        self.scan.clear();
        self.ends.clear();
        let mut marks = (0xd0..=0xd7u8).cycle();
        loop {
            let at = memchr::memchr(0xff, rest)?;
            let mark = *rest.get(at + 1)?;
            // The byte itself counts if it is followed by a zero.
            self.scan.extend_from_slice(&rest[..at + usize::from(mark == 0)]);
            rest = &rest[at + 2..];
            match mark {
                0 => {}
                0xd9 => break,
                _ if self.restart > 0 && marks.next() == Some(mark) => self.ends.push(self.scan.len()),
                _ => return None,
            }
        }
        self.ends.push(self.scan.len());
        // Eight bytes are looked at at once, the last ones too.
        self.scan.extend_from_slice(&[0; 8]);
        Some(())
    }

    /// Says which values of which planes are wanted for a part.
    fn want(&mut self, outline: Outline, part: Rect) {
        let (columns, rows) = (part.x..part.x + part.width, part.y..part.y + part.height);
        let all = (outline.width, outline.height);
        let [light, colours @ ..] = &mut self.planes;
        light.want(columns.clone(), rows.clone());
        // Of those that are thinned out, also the nearest outside.
        let thinned = |values: Range<usize>, by: usize, all: usize| match by {
            2 => values.start.div_ceil(2).saturating_sub(1)..(values.end / 2 + 1).min(all.div_ceil(2)),
            _ => values,
        };
        let columns = thinned(columns, outline.thinned.0, all.0);
        let rows = thinned(rows, outline.thinned.1, all.1);
        for colour in &mut colours[..outline.channels - 1] {
            colour.want(columns.clone(), rows.clone());
        }
    }

    /// Decodes the scan as far as it is wanted.
    #[target_feature(enable = "avx2,bmi2")]
    fn read_scan(&mut self, outline: Outline, part: Rect, stride: usize, out: &mut [u8]) -> Option<()> {
        let Self { quants, first, others, planes, restart, scan, ends, mixed } = self;
        let planes = &mut planes[..outline.channels];
        let unit = (8 * outline.thinned.0, 8 * outline.thinned.1);
        let across = outline.width.div_ceil(unit.0);
        // Below the part, only colours are wanted, and only if they are mixed with those above.
        let last = planes.iter().map(|plane| plane.rows.end.div_ceil(plane.blocks.1)).max()?;
        let mut bits = Bits::new(scan);
        let (mut before, mut stretch, mut left) = ([0; 3], 0, *restart);
        let mut block = [0; 64];
        let mut made = part.y;
        for row in 0..last {
            for column in 0..across {
                if *restart > 0 && left == 0 {
                    bits.move_to(*ends.get(stretch)?);
                    (before, stretch, left) = ([0; 3], stretch + 1, *restart);
                }
                for (plane, before) in planes.iter_mut().zip(&mut before) {
                    let tables = (&first[plane.first], &others[plane.others]);
                    let (wide, high) = plane.blocks;
                    for each in 0..wide * high {
                        let (right, down) = (each % wide, each / wide);
                        let (quants, stride) = (&quants[plane.quant], plane.stride());
                        let Some(place) = plane.place(column * wide + right, row * high + down) else {
                            bits.skip(tables, before)?;
                            continue;
                        };
                        block.fill(0);
                        if bits.block(tables, before, &mut block)? {
                            cosines::pixels(&block, quants, place, stride);
                        } else {
                            cosines::even(block[0], quants[0], place, stride);
                        }
                    }
                }
                if bits.are_beyond(*ends.get(stretch)?) {
                    return None;
                }
                left = left.wrapping_sub(1);
            }
            // While the planes are near, rows are made of them: the last one waits for the colours below.
            let end = part.y + part.height;
            let ready =
                if row + 1 == last { end } else { ((row + 1) * unit.1 - (outline.thinned.1 - 1)).min(end) };
            for y in made..ready.max(made) {
                let out = &mut out[(y - part.y) * stride..];
                write_row(outline, planes, mixed, part, y, out);
            }
            made = ready.max(made);
        }
        Some(())
    }
}

/// Makes a row of pixels of the planes.
#[target_feature(enable = "avx2")]
fn write_row(
    outline: Outline,
    planes: &[Plane],
    mixed: &mut [Mixed; 2],
    part: Rect,
    y: usize,
    out: &mut [u8],
) {
    let light = planes[0].from(part.x, y);
    let [_, blue, red] = planes else { return colours::write_gray(light, part.width, out) };
    if outline.thinned.0 == 1 {
        return colours::write_full(light, blue.from(part.x, y), red.from(part.x, y), part.width, out);
    }
    let all = (outline.width.div_ceil(2), outline.height.div_ceil(2));
    let (x, pairs) = (part.x / 2, part.width.div_ceil(2));
    let range = colours::Range { pairs, before: x > 0, behind: x + pairs < all.0 };
    let is_thinned_down = outline.thinned.1 == 2;
    // Of two rows of pixels, the upper one is nearer to the colours above.
    let (row, other) = match y % 2 {
        _ if !is_thinned_down => (y, y),
        0 => (y / 2, (y / 2).saturating_sub(1)),
        _ => (y / 2, (y / 2 + 1).min(all.1 - 1)),
    };
    for (mixed, plane) in mixed.iter_mut().zip([blue, red]) {
        let x = x - usize::from(range.before);
        let near = Near { row: plane.from(x, row), other: plane.from(x, other) };
        mixed.set(near, range, is_thinned_down);
    }
    colours::write_mixed(light, &mixed[0], &mixed[1], part.width, out);
}
