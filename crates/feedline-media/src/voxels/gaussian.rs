//! A blur: each voxel becomes a mean of those around it, weighted by a bell, along one axis after the other.
//!
//! As in scipy, sums are made in f64, from the far ends of the bell to its middle, and rounded to the type of the
//! volume after each axis: results differ from scipy's by what the weights may differ in their last bit.
//!
//! Lines are blurred sixteen at a time, side by side: copied as f64 into the nearest cache, summed there, and written
//! back.

use super::{
    bands::{bands, each, share},
    number::Float,
    view::{Voxels, room},
};
use crate::Refused;

/// What is taken to lie beyond the ends of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edge {
    /// The line again, mirrored at its end: `c b a | a b c | c b a`.
    Reflect,
    /// Its last voxel, over and over.
    Nearest,
    /// This.
    Constant(f64),
}

impl Edge {
    /// Which of so many voxels stands at a place that may lie outside; `None` if it is the constant.
    fn at(self, place: isize, count: usize) -> Option<usize> {
        let (last, period) = (count as isize - 1, 2 * count as isize);
        match self {
            Self::Nearest => Some(place.clamp(0, last) as usize),
            Self::Constant(_) => (0..=last).contains(&place).then_some(place as usize),
            Self::Reflect => {
                let within = place.rem_euclid(period);
                Some(within.min(period - 1 - within) as usize)
            }
        }
    }

    fn outside(self) -> f64 {
        if let Self::Constant(value) = self { value } else { 0.0 }
    }
}

/// Lines that are blurred side by side, and a voxel of each.
const LINES: usize = 16;
type Side = [f64; LINES];

/// A blur of one strength. It keeps its memory.
#[derive(Clone, Debug)]
pub struct Gaussian {
    /// Half of the bell of each axis, from its middle outwards; nothing if the axis stays as it is.
    bells: [Vec<f64>; 3],
    edge: Edge,
    workers: Vec<Worker>,
}

/// What a thread needs.
#[derive(Clone, Debug, Default)]
struct Worker {
    /// Which voxel stands where, from before the begin of a line to behind its end.
    places: Vec<usize>,
    lines: Vec<Side>,
    blurred: Vec<Side>,
}

impl Gaussian {
    /// Of a standard deviation for each axis, in voxels. The bell is cut off after `truncate` of them.
    pub fn new(sigma: [f64; 3], truncate: f64, edge: Edge) -> Result<Self, Refused> {
        const WIDEST: f64 = 32_768.0;
        let fits = |sigma: &f64| *sigma >= 0.0 && (0.0..=WIDEST).contains(&(truncate * sigma));
        if !sigma.iter().all(fits) {
            return Err(Refused(format!(
                "gaussian: sigma {sigma:?} and truncate {truncate} should not be below 0, nor their product above {WIDEST}"
            )));
        }
        Ok(Self { bells: sigma.map(|sigma| bell(sigma, truncate)), edge, workers: Vec::new() })
    }

    /// Writes the blurred volume.
    ///
    /// # Panics
    /// If there are not as many numbers for the result as voxels.
    pub fn write<T: Float>(&mut self, volume: Voxels<'_, T>, threads: usize, out: &mut [T]) {
        let ([depth, height, width], plane) = (volume.extents(), volume.plane());
        out.copy_from_slice(volume.values());
        let ([first, second, third], edge) = (&self.bells, self.edge);
        if !first.is_empty() {
            let rows = share(height, threads);
            each(bands(out, plane, rows * width), &mut self.workers, |_, mut band, worker| {
                worker.set(first, edge, depth);
                for y in 0..band[0].len() / width {
                    worker.down(first, edge, band.iter_mut().map(|piece| &mut piece[y * width..][..width]));
                }
            });
        }
        let planes = out.chunks_mut(share(depth, threads) * plane).collect();
        each(planes, &mut self.workers, |_, planes: &mut [T], worker| {
            if !second.is_empty() {
                worker.set(second, edge, height);
                for plane in planes.chunks_exact_mut(plane) {
                    worker.down(second, edge, plane.chunks_exact_mut(width));
                }
            }
            if !third.is_empty() {
                worker.set(third, edge, width);
                for rows in planes.chunks_mut(LINES * width) {
                    worker.across(third, edge, width, rows);
                }
            }
        });
    }
}

/// One half of it, its middle first; all of it sums up to 1.
fn bell(sigma: f64, truncate: f64) -> Vec<f64> {
    if sigma <= 1e-15 {
        return Vec::new();
    }
    let reach = (truncate * sigma + 0.5) as usize;
    let at = |x: usize| (-0.5 / (sigma * sigma) * (x * x) as f64).exp();
    // From the smallest to the largest, and both sides, for the best sum.
    let sum: f64 = (1..=reach).rev().map(|x| 2.0 * at(x)).sum::<f64>() + at(0);
    (0..=reach).map(|x| at(x) / sum).collect()
}

impl Worker {
    /// For lines of one length.
    fn set(&mut self, bell: &[f64], edge: Edge, count: usize) {
        let reach = bell.len() as isize - 1;
        self.places.clear();
        // The constant stands behind the last.
        self.places.extend((-reach..count as isize + reach).map(|at| edge.at(at, count).unwrap_or(count)));
    }

    /// Rows of one length, from one to the next.
    fn down<'a, T: Float>(&mut self, bell: &[f64], edge: Edge, rows: impl Iterator<Item = &'a mut [T]>) {
        let mut rows: Vec<&mut [T]> = rows.collect();
        for begin in (0..rows[0].len()).step_by(LINES) {
            let lines = begin..(begin + LINES).min(rows[0].len());
            let blurred = self.blur(bell, edge, rows.len(), |at, side| {
                side.iter_mut().zip(&rows[at][lines.clone()]).for_each(|(wide, value)| *wide = value.wide());
            });
            for (row, side) in rows.iter_mut().zip(blurred) {
                row[lines.clone()].iter_mut().zip(side).for_each(|(out, sum)| *out = T::rounded(*sum));
            }
        }
    }

    /// Rows, each along itself.
    fn across<T: Float>(&mut self, bell: &[f64], edge: Edge, width: usize, rows: &mut [T]) {
        let blurred = self.blur(bell, edge, width, |at, side| {
            let column = rows[at..].iter().step_by(width);
            side.iter_mut().zip(column).for_each(|(wide, value)| *wide = value.wide());
        });
        for (row, line) in rows.chunks_exact_mut(width).zip(0..) {
            row.iter_mut().zip(blurred).for_each(|(out, side): (_, &Side)| *out = T::rounded(side[line]));
        }
    }

    /// Lines side by side, of which `read` gives the voxels at each place.
    fn blur(&mut self, bell: &[f64], edge: Edge, count: usize, read: impl Fn(usize, &mut Side)) -> &[Side] {
        let lines = room(&mut self.lines, count + 1);
        for (at, side) in lines[..count].iter_mut().enumerate() {
            read(at, side);
        }
        lines[count] = [edge.outside(); LINES];
        let blurred = room(&mut self.blurred, count);
        weigh(bell, &self.places, lines, blurred);
        blurred
    }
}

/// The sums at every place.
fn weigh(bell: &[f64], places: &[usize], lines: &[Side], out: &mut [Side]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[target_feature(enable = "avx2")]
        fn wide(bell: &[f64], places: &[usize], lines: &[Side], out: &mut [Side]) {
            weigh_by(bell, places, lines, out);
        }
        // SAFETY: the machine has it.
        return unsafe { wide(bell, places, lines, out) };
    }
    weigh_by(bell, places, lines, out);
}

#[expect(clippy::inline_always, reason = "it is compiled for what its caller may use")]
#[inline(always)]
fn weigh_by(bell: &[f64], places: &[usize], lines: &[Side], out: &mut [Side]) {
    let reach = bell.len() - 1;
    for (around, out) in places.windows(2 * reach + 1).zip(out) {
        let mut sums = lines[around[reach]].map(|value| value * bell[0]);
        for (distance, weight) in bell.iter().enumerate().skip(1).rev() {
            let sides = lines[around[reach - distance]].iter().zip(&lines[around[reach + distance]]);
            for (sum, (before, after)) in sums.iter_mut().zip(sides) {
                *sum += (before + after) * weight;
            }
        }
        *out = sums;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [Edge; 3] = [Edge::Reflect, Edge::Nearest, Edge::Constant(2.0)];

    #[test]
    fn a_bell_sums_up_to_one() {
        for sigma in [0.3, 1.0, 7.5] {
            let bell = bell(sigma, 4.0);
            assert_eq!(bell.len(), 1 + (4.0 * sigma + 0.5) as usize);
            assert!((bell[0] + 2.0 * bell[1..].iter().sum::<f64>() - 1.0).abs() < 1e-15);
        }
    }

    #[test]
    fn lines_go_on_beyond_their_ends() {
        let line = |edge: Edge| -> Vec<_> { (-4..7).map(|at| edge.at(at, 3)).collect() };
        let reflected = [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0].map(Some);
        assert_eq!(line(Edge::Reflect), reflected);
        assert_eq!(line(Edge::Nearest), [0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2].map(Some));
        assert_eq!(line(Edge::Constant(0.0))[3..8], [None, Some(0), Some(1), Some(2), None]);
        assert_eq!(Edge::Reflect.at(-100, 1), Some(0));
    }

    #[test]
    fn each_axis_is_blurred_alike_by_any_number_of_threads() {
        let extents = [9, 5, 35];
        let values: Vec<f64> = (0..9 * 5 * 35).map(|at| f64::from(at * at % 101)).collect();
        for edge in EDGES {
            let blurred = |threads| {
                let mut out = vec![0.0; values.len()];
                let mut gaussian = Gaussian::new([1.5, 2.0, 0.7], 4.0, edge).unwrap();
                gaussian.write(Voxels::new(&values, extents).unwrap(), threads, &mut out);
                out
            };
            assert_eq!(blurred(1), blurred(3));
            // One voxel, weight by weight.
            let weight = |sigma: f64, at: i32| {
                let bell = bell(sigma, 4.0);
                bell.get(at.unsigned_abs() as usize).copied().unwrap_or(0.0)
            };
            let value = |place: [i32; 3]| {
                let at: Option<Vec<_>> =
                    (0..3).map(|axis| edge.at(place[axis] as isize, extents[axis])).collect();
                at.map_or(edge.outside(), |at| values[(at[0] * 5 + at[1]) * 35 + at[2]])
            };
            let mut sum = 0.0;
            for (z, y, x) in
                (-9..10).flat_map(|z| (-9..10).flat_map(move |y| (-9..10).map(move |x| (z, y, x))))
            {
                let weight = weight(1.5, z) * weight(2.0, y) * weight(0.7, x);
                sum += weight * value([8 + z, 2 + y, 33 + x]);
            }
            assert!((blurred(2)[(8 * 5 + 2) * 35 + 33] - sum).abs() < 1e-9, "{edge:?}");
        }
    }

    #[test]
    fn nothing_is_not_blurred() {
        let values = [3.0f32, 1.0, 2.0];
        let mut out = [0.0; 3];
        let mut gaussian = Gaussian::new([0.0; 3], 4.0, Edge::Reflect).unwrap();
        gaussian.write(Voxels::new(&values, [1, 1, 3]).unwrap(), 1, &mut out);
        assert_eq!(out, values);
        assert!(Gaussian::new([-1.0, 0.0, 0.0], 4.0, Edge::Reflect).is_err());
        assert!(Gaussian::new([1.0, 1.0, f64::NAN], 4.0, Edge::Reflect).is_err());
        assert!(Gaussian::new([1e9, 1.0, 1.0], 4.0, Edge::Reflect).is_err());
    }
}
