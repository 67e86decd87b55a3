//! A view of an image: rows of interleaved channels, u8.

/// A part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    /// The first column.
    pub x: usize,
    /// The first row.
    pub y: usize,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// An image that somebody else owns. Its rows may be longer than what is seen of them.
#[derive(Clone, Copy, Debug)]
pub struct Pixels<'a> {
    bytes: &'a [u8],
    width: usize,
    height: usize,
    channels: usize,
    /// Bytes from one row to the next.
    stride: usize,
}

impl<'a> Pixels<'a> {
    /// Of rows without gaps. `None` if there are not as many bytes as that takes, or if there is no pixel.
    pub fn new(bytes: &'a [u8], width: usize, height: usize, channels: usize) -> Option<Self> {
        let stride = width.checked_mul(channels).filter(|stride| *stride > 0)?;
        let needed = stride.checked_mul(height).filter(|needed| *needed > 0)?;
        Some(Self { bytes: bytes.get(..needed)?, width, height, channels, stride })
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Channels of a pixel.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// One row.
    pub fn row(&self, y: usize) -> &'a [u8] {
        assert!(y < self.height, "row {y} of {}", self.height);
        &self.bytes[y * self.stride..][..self.width * self.channels]
    }

    /// The rows from one on, and the bytes from one to the next.
    pub(crate) fn rows_from(&self, y: usize) -> (&'a [u8], usize) {
        (&self.bytes[y * self.stride..], self.stride)
    }

    /// A part of it; `None` if that is empty or reaches outside.
    pub fn part(&self, rect: Rect) -> Option<Self> {
        let inside =
            rect.x.checked_add(rect.width)? <= self.width && rect.y.checked_add(rect.height)? <= self.height;
        if !inside || rect.width == 0 || rect.height == 0 {
            return None;
        }
        let start = rect.y * self.stride + rect.x * self.channels;
        Some(Self { bytes: &self.bytes[start..], width: rect.width, height: rect.height, ..*self })
    }
}

/// So many bytes of memory that is used again. What is in them does not matter: to clear them would take time.
pub(crate) fn room(memory: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if memory.len() < bytes {
        memory.resize(bytes, 0);
    }
    &mut memory[..bytes]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_lies_inside() {
        let bytes: Vec<u8> = (0..24).collect();
        let pixels = Pixels::new(&bytes, 4, 2, 3).unwrap();
        let part = pixels.part(Rect { x: 1, y: 1, width: 2, height: 1 }).unwrap();
        assert_eq!(part.row(0), [15, 16, 17, 18, 19, 20]);
        assert!(pixels.part(Rect { x: 3, y: 0, width: 2, height: 1 }).is_none());
        assert!(pixels.part(Rect { x: 0, y: 0, width: 0, height: 1 }).is_none());
        assert!(Pixels::new(&bytes, 4, 3, 3).is_none());
        assert!(Pixels::new(&bytes, usize::MAX, 2, 3).is_none());
    }
}
