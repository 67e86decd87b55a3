//! How far it is from every voxel of a mask to the nearest one outside it, in a straight line.
//!
//! The square of a distance is a sum over the axes, so they can be taken one after the other:
//!
//! ```text
//! mask ─► steps along the first axis ─► parabolas over the second ─► parabolas over the third ─► root
//!         (columns with an outside)     (one plane at a time, in a near cache)
//! ```
//!
//! Along the first axis two sweeps count the steps to the nearest voxel outside. Whether there is one depends on the
//! column alone; those without are left out from there on, and so are lines along the second axis without any. Where
//! few voxels are outside, as in maps around a drawn line, little is left to be looked at. If they lie in one slice, as
//! drawn lines do, the squares of all slices beside it differ by a constant, and the same parabolas are the lowest: they
//! are found once.
//!
//! Sums are made of the same numbers in the same order as scipy makes them, so results are the same to the bit where
//! the nearest voxel is the same one; of two that are equally near, rounding may decide otherwise.

mod envelope;

use self::envelope::{Axis, Envelope};
use super::{
    bands::{bands, each, share},
    number::Float,
    spacing::Spacing,
    view::{Voxels, room},
};

/// Distances of a mask. It keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Distance {
    outside: Outside,
    /// Steps along the first axis, of all columns of one plane after those of the other.
    steps: Vec<u32>,
    axes: [Axis; 3],
    workers: Vec<Worker>,
}

/// What a thread needs.
#[derive(Clone, Debug, Default)]
struct Worker {
    /// Along the second axis.
    line: Envelope,
    /// Along the third: of each row, if all planes share them; else there is one.
    rows: Vec<Envelope>,
    /// The squares of a plane, line after line along its first axis.
    squares: Vec<f64>,
    /// Of the parabolas of one line or row.
    heights: Vec<f64>,
    row: Vec<f64>,
}

impl Distance {
    /// Writes the distance of each voxel of the mask, 0 outside it, infinity if nothing is outside. Neighbours along an
    /// axis are `spacing` apart.
    ///
    /// # Panics
    /// If there are not as many numbers for the result as voxels.
    pub fn write<T: Float>(&mut self, mask: Voxels<'_, u8>, spacing: Spacing, threads: usize, out: &mut [T]) {
        let (extents, plane) = (mask.extents(), mask.plane());
        assert_eq!(out.len(), mask.values().len(), "a result has as many voxels");
        self.outside.find(mask);
        let columns = self.outside.columns.len();
        if columns == 0 {
            return out.fill(T::rounded(f64::INFINITY));
        }
        for ((axis, extent), spacing) in self.axes.iter_mut().zip(extents).zip(spacing.values()) {
            axis.set(extent, spacing);
        }
        let steps = room(&mut self.steps, columns * extents[0]);
        let (outside, axes) = (&self.outside, &self.axes);
        let width = share(columns, threads);
        each(bands(steps, columns, width), &mut self.workers, |at, band, _| {
            count_steps(mask, &outside.columns[at * width..], band);
        });
        let planes = share(extents[0], threads);
        let pieces = steps.chunks(planes * columns).zip(out.chunks_mut(planes * plane)).collect();
        each(pieces, &mut self.workers, |_, (steps, out): (&[u32], &mut [T]), worker| {
            worker.begin(outside, axes);
            for (steps, out) in steps.chunks_exact(columns).zip(out.chunks_exact_mut(plane)) {
                worker.plane(steps, outside, axes, out);
            }
        });
    }
}

/// The columns along the first axis that have a voxel outside the mask.
#[derive(Clone, Debug, Default)]
struct Outside {
    any: Vec<u8>,
    /// Their places in a plane, those along the second axis together.
    columns: Vec<usize>,
    /// Where each is along the second axis.
    places: Vec<u32>,
    /// Where each group of them is along the third, and where it ends.
    lines: Vec<u32>,
    ends: Vec<usize>,
    /// Whether all voxels outside lie in one slice across the first axis.
    in_one_plane: bool,
    /// If they lie in one slice across the second axis, which.
    in_one_row: Option<usize>,
}

impl Outside {
    fn find(&mut self, mask: Voxels<'_, u8>) {
        let [_, height, width] = mask.extents();
        self.any.clear();
        self.any.resize(mask.plane(), 0);
        let mut planes = 0;
        for plane in mask.values().chunks_exact(mask.plane()) {
            let mut least = u8::MAX;
            for (any, value) in self.any.iter_mut().zip(plane) {
                *any |= u8::from(*value == 0);
                least = least.min(*value);
            }
            planes += usize::from(least == 0);
        }
        self.in_one_plane = planes == 1;
        self.columns.clear();
        self.places.clear();
        self.lines.clear();
        self.ends.clear();
        for x in 0..width {
            let before = self.columns.len();
            let found = (0..height).filter(|y| self.any[y * width + x] != 0);
            self.places.extend(found.map(|y| y as u32));
            let places = &self.places[before..];
            self.columns.extend(places.iter().map(|y| *y as usize * width + x));
            if self.columns.len() > before {
                self.lines.push(x as u32);
                self.ends.push(self.columns.len());
            }
        }
        let first = self.places.first().copied();
        self.in_one_row =
            first.filter(|row| self.places.iter().all(|place| place == row)).map(|row| row as usize);
    }

    /// Each line along the second axis that has columns: the columns, as a range.
    fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        std::iter::once(0).chain(self.ends.iter().copied()).zip(&self.ends).map(|(begin, end)| begin..*end)
    }
}

/// How many steps it is to the nearest voxel outside, in some columns of all planes.
fn count_steps(mask: Voxels<'_, u8>, columns: &[usize], mut band: Vec<&mut [u32]>) {
    /// Further than any could be, with room for as many steps again.
    const FAR: u32 = u32::MAX / 2;
    band[0].fill(FAR);
    for (at, plane) in mask.values().chunks_exact(mask.plane()).enumerate() {
        let (before, here) = band.split_at_mut(at);
        // In the first plane, what stands there is as far as what would be before it.
        if let Some(before) = before.last() {
            here[0].copy_from_slice(before);
        }
        for (steps, column) in here[0].iter_mut().zip(columns) {
            *steps = if plane[*column] == 0 { 0 } else { *steps + 1 };
        }
    }
    for at in (1..band.len()).rev() {
        let (nearer, further) = band.split_at_mut(at);
        for (steps, behind) in nearer[at - 1].iter_mut().zip(further[0].iter()) {
            *steps = (*steps).min(behind + 1);
        }
    }
}

impl Worker {
    /// Before its first plane.
    fn begin(&mut self, outside: &Outside, axes: &[Axis; 3]) {
        let [_, second, third] = axes;
        let count = if outside.in_one_plane && outside.in_one_row.is_none() { second.extent() } else { 1 };
        self.rows.resize_with(count, Envelope::default);
        if outside.in_one_plane {
            // In that plane itself, where there is no constant to round differences away.
            self.lines(|_| 0.0, outside, second);
            for slot in 0..count {
                self.across(outside.in_one_row.unwrap_or(slot), second);
                self.rows[slot].build(third, &outside.lines, &self.heights);
            }
        }
    }

    /// One plane, from its steps.
    fn plane<T: Float>(&mut self, steps: &[u32], outside: &Outside, axes: &[Axis; 3], out: &mut [T]) {
        let [first, second, third] = axes;
        self.lines(|column| first.square(steps[column] as usize), outside, second);
        if let (false, Some(y)) = (outside.in_one_plane, outside.in_one_row) {
            self.across(y, second);
            self.rows[0].build(third, &outside.lines, &self.heights);
        }
        let each_its_own = !outside.in_one_plane && outside.in_one_row.is_none();
        for (y, out) in out.chunks_exact_mut(third.extent()).enumerate() {
            self.across(y, second);
            let slot = if self.rows.len() > 1 { y } else { 0 };
            let envelope = &mut self.rows[slot];
            if each_its_own {
                envelope.build(third, &outside.lines, &self.heights);
            }
            let row = room(&mut self.row, third.extent());
            envelope.write(third, &outside.lines, &self.heights, row);
            out.iter_mut().zip(row.iter()).for_each(|(out, square)| *out = T::rounded(square.sqrt()));
        }
    }

    /// The squares of a plane along its first axis, from those of its columns.
    fn lines(&mut self, square: impl Fn(usize) -> f64, outside: &Outside, second: &Axis) {
        let stride = stride(second);
        self.squares.resize(stride * outside.lines.len(), 0.0);
        for (columns, line) in outside.ranges().zip(self.squares.chunks_exact_mut(stride)) {
            let places = &outside.places[columns.clone()];
            self.heights.clear();
            self.heights.extend(columns.map(&square));
            self.line.build(second, places, &self.heights);
            self.line.write(second, places, &self.heights, &mut line[..second.extent()]);
        }
    }

    /// The squares of a row across all lines, which are the heights of its parabolas.
    fn across(&mut self, y: usize, second: &Axis) {
        self.heights.clear();
        self.heights.extend(self.squares[y..].iter().step_by(stride(second)));
    }
}

/// From one line of a plane to the next: an odd number of cache lines, so that a row, which crosses them all, does not
/// fall into one place of the cache.
fn stride(second: &Axis) -> usize {
    (second.extent().div_ceil(8) | 1) * 8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nearest of all voxels.
    fn slowly(mask: &[u8], extents: [usize; 3], spacing: [f64; 3]) -> Vec<f64> {
        let place = |at: usize| {
            let [_, height, width] = extents;
            [at / width / height, at / width % height, at % width]
        };
        let square = |one: usize, other: usize| -> f64 {
            let (one, other) = (place(one), place(other));
            (0..3).map(|axis| (one[axis].abs_diff(other[axis]) as f64 * spacing[axis]).powi(2)).sum()
        };
        let outside: Vec<usize> = (0..mask.len()).filter(|at| mask[*at] == 0).collect();
        let nearest =
            |at: usize| outside.iter().map(|other| square(at, *other)).fold(f64::INFINITY, f64::min);
        (0..mask.len()).map(|at| nearest(at).sqrt()).collect()
    }

    #[test]
    fn it_is_the_nearest_of_all() {
        let mut distance = Distance::default();
        let mut state = 7u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        for extents in [[1, 1, 1], [1, 1, 9], [1, 9, 1], [9, 1, 1], [7, 8, 9], [3, 16, 17]] {
            for spacing in [[1.0, 1.0, 1.0], [1.0, 1.0, 3.0], [3.0, 0.5, 1.0]] {
                for share in [1, 2, 20, 200] {
                    let voxels = extents.iter().product();
                    let mask: Vec<u8> = (0..voxels).map(|_| u8::from(noise() % share != 0)).collect();
                    for threads in [1, 3] {
                        let mut out = vec![0f64; voxels];
                        let view = Voxels::new(&mask, extents).unwrap();
                        distance.write(view, Spacing::new(spacing).unwrap(), threads, &mut out);
                        assert_eq!(out, slowly(&mask, extents, spacing), "{extents:?} {spacing:?} {share}");
                    }
                }
            }
        }
    }

    #[test]
    fn where_nothing_is_outside_it_is_infinitely_far() {
        let mut out = [0f32; 8];
        Distance::default().write(Voxels::new(&[1; 8], [2, 2, 2]).unwrap(), Spacing::default(), 1, &mut out);
        assert_eq!(out, [f32::INFINITY; 8]);
    }
}
