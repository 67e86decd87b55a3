//! Other distances between voxels.
//!
//! A voxel is a box, not a point: the outer faces of the volume stay where they are, and so the middle of the `k`-th
//! new voxel lies at `(k + 0.5) · old / new - 0.5` of the old ones. Beyond the middles of the outermost voxels, those
//! go on. This is `scipy.ndimage.zoom(…, grid_mode=True, mode="nearest")`, of order 1 or 0.

use super::{
    number::Float,
    view::{Voxels, count, room},
};
use crate::Refused;

/// How far neighbours along each axis are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spacing([f64; 3]);

impl Default for Spacing {
    fn default() -> Self {
        Self([1.0; 3])
    }
}

impl Spacing {
    /// Refused if it is not above 0, or so small or large that its square is no number.
    pub fn new(spacing: [f64; 3]) -> Result<Self, Refused> {
        if spacing.iter().all(|spacing| (1e-100..=1e100).contains(spacing)) {
            return Ok(Self(spacing));
        }
        Err(Refused(format!("spacing {spacing:?}: each should be a number above 0, from 1e-100 to 1e100")))
    }

    /// As numbers.
    pub fn values(self) -> [f64; 3] {
        self.0
    }

    /// How many voxels a volume has at another spacing: about as much room as before, and at least one along each axis.
    pub fn extents(self, before: [usize; 3], to: Self) -> Result<[usize; 3], Refused> {
        let extent = |axis: usize| {
            let exact = before[axis] as f64 * (self.0[axis] / to.0[axis]);
            exact.round_ties_even().max(1.0) as usize
        };
        let extents = [extent(0), extent(1), extent(2)];
        if count(extents).is_some() {
            return Ok(extents);
        }
        Err(Refused(format!("from spacing {:?} to {:?}, {before:?} voxels would be too many", self.0, to.0)))
    }
}

/// How voxels between voxels are guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Straight lines.
    Linear,
    /// The nearest one, as it is: for labels.
    Nearest,
}

/// A change of extents. It keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Resample {
    places: [Vec<Place>; 3],
    row: Vec<f64>,
}

/// Where a new voxel lies between two old ones, which may be the same.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    first: usize,
    second: usize,
    /// How far from the first to the second.
    share: f64,
}

impl Place {
    fn of(at: usize, from: usize, to: usize) -> Self {
        let middle = (at as f64 + 0.5) * (from as f64 / to as f64) - 0.5;
        let within = middle.clamp(0.0, (from - 1) as f64);
        let first = within as usize;
        Self { first, second: (first + 1).min(from - 1), share: within - first as f64 }
    }

    fn nearest(self) -> usize {
        if self.share >= 0.5 { self.second } else { self.first }
    }
}

impl Resample {
    fn set(&mut self, from: [usize; 3], to: [usize; 3]) {
        for ((places, from), to) in self.places.iter_mut().zip(from).zip(to) {
            places.clear();
            places.extend((0..to).map(|at| Place::of(at, from, to)));
        }
    }

    /// Writes the volume with other extents, with straight lines between its voxels.
    ///
    /// # Panics
    /// If the memory is not as large as the extents say.
    pub fn linear<T: Float>(&mut self, volume: Voxels<'_, T>, to: [usize; 3], out: &mut [T]) {
        assert_eq!(Some(out.len()), count(to), "a result has as many voxels as its extents say");
        self.set(volume.extents(), to);
        let [depths, heights, widths] = &self.places;
        let row = room(&mut self.row, volume.extents()[2]);
        let places = depths.iter().flat_map(|z| heights.iter().map(move |y| (z, y)));
        for ((z, y), out) in places.zip(out.chunks_exact_mut(to[2])) {
            let rows = [(z.first, y.first), (z.first, y.second), (z.second, y.first), (z.second, y.second)];
            let shares = [
                (1.0 - z.share) * (1.0 - y.share),
                (1.0 - z.share) * y.share,
                z.share * (1.0 - y.share),
                z.share * y.share,
            ];
            mix(rows.map(|(z, y)| volume.row(z, y)), shares, row);
            for (out, x) in out.iter_mut().zip(widths) {
                *out = T::rounded(row[x.first] * (1.0 - x.share) + row[x.second] * x.share);
            }
        }
    }

    /// Writes the volume with other extents, each voxel the nearest one.
    ///
    /// # Panics
    /// As `linear`.
    pub fn nearest<T: Copy>(&mut self, volume: Voxels<'_, T>, to: [usize; 3], out: &mut [T]) {
        assert_eq!(Some(out.len()), count(to), "a result has as many voxels as its extents say");
        self.set(volume.extents(), to);
        let [depths, heights, widths] = &self.places;
        let places = depths.iter().flat_map(|z| heights.iter().map(move |y| (z.nearest(), y.nearest())));
        for ((z, y), out) in places.zip(out.chunks_exact_mut(to[2])) {
            let row = volume.row(z, y);
            out.iter_mut().zip(widths).for_each(|(out, x)| *out = row[x.nearest()]);
        }
    }
}

fn mix<T: Float>([one, two, three, four]: [&[T]; 4], shares: [f64; 4], out: &mut [f64]) {
    for ((((out, one), two), three), four) in out.iter_mut().zip(one).zip(two).zip(three).zip(four) {
        let first = one.wide() * shares[0] + two.wide() * shares[1];
        *out = first + three.wide() * shares[2] + four.wide() * shares[3];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacings_are_above_nothing() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-200] {
            assert!(Spacing::new([1.0, wrong, 1.0]).is_err());
        }
        let (from, to) = (Spacing::new([1.0, 1.0, 3.0]).unwrap(), Spacing::new([2.0, 100.0, 1.0]).unwrap());
        assert_eq!(from.extents([144, 10, 5], to), Ok([72, 1, 15]));
        let tiny = Spacing::new([1e-50; 3]).unwrap();
        assert!(from.extents([144, 10, 5], tiny).is_err());
    }

    #[test]
    fn boxes_keep_their_outer_faces() {
        let mut out = [0.0; 8];
        let values = [0.0f32, 4.0, 8.0, 12.0];
        let volume = Voxels::new(&values, [1, 1, 4]).unwrap();
        let mut resample = Resample::default();
        resample.linear(volume, [1, 1, 8], &mut out);
        assert_eq!(out, [0.0, 1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 12.0]);
        resample.linear(volume, [1, 1, 2], &mut out[..2]);
        assert_eq!(out[..2], [2.0, 10.0]);
        resample.nearest(volume, [1, 2, 3], &mut out[..6]);
        assert_eq!(out[..6], [0.0, 8.0, 12.0, 0.0, 8.0, 12.0]);
    }

    #[test]
    fn the_same_extents_are_the_same_volume() {
        let values: Vec<f64> = (0..60).map(f64::from).collect();
        let volume = Voxels::new(&values, [3, 4, 5]).unwrap();
        let mut out = vec![0.0; 60];
        Resample::default().linear(volume, [3, 4, 5], &mut out);
        assert_eq!(out, values);
    }
}
