//! The lowest of many parabolas of one width, at every whole place of a line.
//!
//! Each stands somewhere on the line, at some height. From left to right they are put onto a stack of those that are
//! the lowest somewhere: a new one takes all that lies beyond the place where it crosses the last of them, and throws
//! that one out if nothing is left to it. So each is put there once and thrown out at most once.
//!
//! One whose next neighbours on both sides stand no higher is a peak: it can be the lowest where it stands and nowhere
//! else. Peaks are left out at first, and compared in the end, each at its place. Outside a mask, where all heights are
//! 0, nearly all are peaks.

/// A direction: what squares of distances along it are.
#[derive(Clone, Debug, Default)]
pub(super) struct Axis {
    extent: usize,
    /// Of so many steps to either side; none is in the middle.
    squares: Vec<f64>,
    /// One by twice the square of a step, by so many steps.
    inverse: Vec<f64>,
}

impl Axis {
    pub(super) fn set(&mut self, extent: usize, spacing: f64) {
        self.extent = extent;
        let square = |steps: usize| (steps as f64 * spacing) * (steps as f64 * spacing);
        self.squares.clear();
        self.squares.extend((1..extent).rev().chain(0..extent).map(square));
        self.inverse.clear();
        self.inverse.extend((0..extent).map(|steps| 1.0 / (2.0 * spacing * spacing * steps as f64)));
    }

    pub(super) fn extent(&self) -> usize {
        self.extent
    }

    pub(super) fn square(&self, steps: usize) -> f64 {
        self.squares[self.extent - 1 + steps]
    }
}

/// A parabola that is the lowest from a place on.
#[derive(Clone, Copy, Debug, Default)]
struct Lowest {
    begin: f64,
    height: f64,
    at: u32,
    /// Which of the parabolas it is.
    number: u32,
}

/// The lowest ones, from left to right.
#[derive(Clone, Debug, Default)]
pub(super) struct Envelope {
    stack: Vec<Lowest>,
    count: usize,
    has_peaks: bool,
}

/// Added and taken away again, it leaves no bits behind the point.
const ROUND: f64 = 1.5 * (1u64 << 52) as f64;

impl Envelope {
    /// Of parabolas that stand at places further and further along the axis.
    pub(super) fn build(&mut self, axis: &Axis, places: &[u32], heights: &[f64]) {
        let extent = axis.extent as f64;
        if self.stack.len() < axis.extent {
            self.stack.resize(axis.extent, Lowest::default());
        }
        let stack = &mut self.stack[..axis.extent];
        let (mut count, mut peaks) = (0, 0);
        for (number, (at, height)) in places.iter().copied().zip(heights.iter().copied()).enumerate() {
            if is_peak(number, places, heights) {
                peaks += 1;
                continue;
            }
            let mut begin = 0.0;
            while count > 0 {
                let under = stack[count - 1];
                let middle = f64::from(at + under.at) * 0.5;
                let cross = middle + (height - under.height) * axis.inverse[(at - under.at) as usize];
                // The first whole place beyond. Where they cross at a whole one, it may be either's.
                begin = (cross + 0.5 + ROUND) - ROUND;
                if begin > under.begin {
                    break;
                }
                begin = 0.0;
                count -= 1;
            }
            if begin < extent {
                stack[count] = Lowest { begin, height, at, number: number as u32 };
                count += 1;
            }
        }
        (self.count, self.has_peaks) = (count, peaks > 0);
    }

    /// How high the lowest is at every place. Parabolas may stand higher than when this was built, if all of them do by
    /// as much.
    pub(super) fn write(&self, axis: &Axis, places: &[u32], heights: &[f64], out: &mut [f64]) {
        let stack = &self.stack[..self.count];
        for (at, lowest) in stack.iter().enumerate() {
            let begin = lowest.begin as usize;
            let end = stack.get(at + 1).map_or(axis.extent, |next| next.begin as usize);
            let squares = &axis.squares[axis.extent - 1 + begin - lowest.at as usize..];
            let height = heights[lowest.number as usize];
            for (out, square) in out[begin..end].iter_mut().zip(squares) {
                *out = height + square;
            }
        }
        if self.has_peaks && places.len() == axis.extent {
            out.iter_mut().zip(heights).for_each(|(out, height)| *out = out.min(*height));
        } else if self.has_peaks {
            for (at, height) in places.iter().zip(heights) {
                let out = &mut out[*at as usize];
                *out = out.min(*height);
            }
        }
    }
}

#[inline]
fn is_peak(number: usize, places: &[u32], heights: &[f64]) -> bool {
    if number == 0 || number + 1 >= places.len() {
        return false;
    }
    let (before, here, after) = (heights[number - 1], heights[number], heights[number + 1]);
    before <= here && after <= here && places[number + 1] - places[number - 1] == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lowest(extent: usize, parabolas: &[(u32, f64)]) -> Vec<f64> {
        let (mut axis, mut envelope, mut out) = (Axis::default(), Envelope::default(), vec![-1.0; extent]);
        axis.set(extent, 1.0);
        let (places, heights): (Vec<u32>, Vec<f64>) = parabolas.iter().copied().unzip();
        envelope.build(&axis, &places, &heights);
        envelope.write(&axis, &places, &heights, &mut out);
        out
    }

    #[test]
    fn the_lowest_wins_everywhere() {
        assert_eq!(lowest(1, &[(0, 3.0)]), [3.0]);
        assert_eq!(lowest(5, &[(2, 1.0)]), [5.0, 2.0, 1.0, 2.0, 5.0]);
        assert_eq!(lowest(6, &[(0, 0.0), (5, 0.0)]), [0.0, 1.0, 4.0, 4.0, 1.0, 0.0]);
        // One in the middle that is nowhere the lowest, one that is too high even where it stands, one that takes all.
        assert_eq!(lowest(4, &[(0, 0.0), (1, 9.0), (2, 0.0), (3, 50.0)]), [0.0, 1.0, 0.0, 1.0]);
        assert_eq!(lowest(4, &[(0, 90.0), (1, 80.0), (3, 0.0)]), [9.0, 4.0, 1.0, 0.0]);
        // Peaks: among all places, among some, and one that is the lowest where it stands.
        let flat = [0.0, 0.0, 0.0, 7.0, 0.0, 0.5, 0.0];
        let all: Vec<(u32, f64)> = (0..).zip(flat).collect();
        assert_eq!(lowest(7, &all), [0.0, 0.0, 0.0, 1.0, 0.0, 0.5, 0.0]);
        assert_eq!(lowest(7, &all[1..6]), [1.0, 0.0, 0.0, 1.0, 0.0, 0.5, 1.5]);
    }
}
