//! Another shape around the same middle: what is too long is cut, what is too short gets a border.
//!
//! What is odd is at the end: of 5 voxels to 2, those from the second on are kept; from 2 to 5, one is put before and two
//! behind.

use super::view::{Voxels, count};

/// Writes the volume with other extents.
///
/// # Panics
/// If the memory is not as large as the extents say.
pub fn write<T: Copy>(volume: Voxels<'_, T>, to: [usize; 3], fill: T, out: &mut [T]) {
    assert_eq!(Some(out.len()), count(to), "a result has as many voxels as its extents say");
    let from = volume.extents();
    let spans = [0, 1, 2].map(|axis| Span::between(from[axis], to[axis]));
    if (0..3).any(|axis| spans[axis].length < to[axis]) {
        out.fill(fill);
    }
    let [depths, heights, widths] = spans;
    for (z, y) in (0..depths.length).flat_map(|z| (0..heights.length).map(move |y| (z, y))) {
        let begin = ((depths.to + z) * to[1] + heights.to + y) * to[2] + widths.to;
        let row = volume.row(depths.from + z, heights.from + y);
        out[begin..][..widths.length].copy_from_slice(&row[widths.from..][..widths.length]);
    }
}

/// What is kept along an axis: from where, to where, how much.
#[derive(Clone, Copy)]
struct Span {
    from: usize,
    to: usize,
    length: usize,
}

impl Span {
    fn between(before: usize, after: usize) -> Self {
        let half = |more: usize, less: usize| more.saturating_sub(less) / 2;
        Self { from: half(before, after), to: half(after, before), length: before.min(after) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_stays_in_the_middle() {
        let values: Vec<u16> = (0..2 * 5 * 3).collect();
        let volume = Voxels::new(&values, [2, 5, 3]).unwrap();
        let mut out = [0; 3 * 2 * 4];
        write(volume, [3, 2, 4], 99, &mut out);
        let row = |first: u16| [first, first + 1, first + 2, 99];
        assert_eq!(out[..8], [row(3), row(6)].concat());
        assert_eq!(out[8..16], [row(18), row(21)].concat());
        assert_eq!(out[16..], [99; 8]);
    }

    #[test]
    fn the_same_shape_is_the_same_volume() {
        let values: Vec<u8> = (0..24).collect();
        let mut out = [0; 24];
        write(Voxels::new(&values, [2, 3, 4]).unwrap(), [2, 3, 4], 0, &mut out);
        assert_eq!(out, *values);
    }
}
