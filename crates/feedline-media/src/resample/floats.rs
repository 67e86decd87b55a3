//! Another size for planes of floats, as torch makes it with antialias: weights in f32, rows first. Sums are torch's but for
//! the last bits, where it multiplies and adds at once.

use std::ops::Range;

use super::{Filter, Span};
use crate::pixels::Rect;

/// A change of size for planes of one size, used until it is set anew.
#[derive(Clone, Debug, Default)]
pub struct FloatResize {
    set: Option<Setting>,
    across: Direction,
    down: Direction,
    between: Vec<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    filter: Filter,
    from: (usize, usize),
    to: (usize, usize),
    wanted: Rect,
}

#[derive(Clone, Debug, Default)]
struct Direction {
    spans: Vec<Span>,
    weights: Vec<f32>,
    /// The inputs that are needed. Spans count from the first of them.
    needs: Range<usize>,
    /// The outputs in the middle that have two inputs each: all but the first and last, where an image grows.
    twos: Range<usize>,
}

impl Direction {
    fn set(&mut self, filter: Filter, inputs: usize, outputs: usize, wanted: Range<usize>) {
        self.spans.clear();
        self.weights.clear();
        let scale = inputs as f32 / outputs as f32;
        for at in wanted {
            match filter {
                _ if inputs == outputs => self.nearest(at),
                Filter::Nearest => self.nearest(((at as f32 * scale) as usize).min(inputs - 1)),
                _ => self.smooth(filter, scale, inputs, at),
            }
        }
        let first = self.spans.iter().map(|span| span.first).min().unwrap_or(0);
        let end = self.spans.iter().map(|span| span.first + span.end - span.begin).max().unwrap_or(0);
        self.needs = first..end;
        for span in &mut self.spans {
            span.first -= first;
        }
        let two = |span: &Span| span.end - span.begin == 2;
        let begin = self.spans.iter().position(two).unwrap_or(0);
        let length = self.spans[begin..].iter().take_while(|span| two(span)).count();
        self.twos = begin..begin + length;
    }

    fn nearest(&mut self, first: usize) {
        let begin = self.weights.len();
        self.spans.push(Span { first, begin, end: begin + 1 });
        self.weights.push(1.0);
    }

    /// Rounded to f32 where torch does, and nowhere else.
    fn smooth(&mut self, filter: Filter, scale: f32, inputs: usize, at: usize) {
        let (wider, narrower) = if scale >= 1.0 { (scale, 1.0 / scale) } else { (1.0, 1.0) };
        let reach = filter.support() as f32 * wider;
        let centre = (f64::from(scale) * (at as f64 + 0.5)) as f32;
        let first = ((f64::from(centre - reach) + 0.5) as i64).max(0) as usize;
        let end = ((f64::from(centre + reach) + 0.5) as i64).min(inputs as i64) as usize;
        let begin = self.weights.len();
        self.spans.push(Span { first, begin, end: begin + end - first });
        self.weights.extend((first..end).map(|x| {
            let away = (f64::from(x as f32 - centre) + 0.5) * f64::from(narrower);
            filter.at(f64::from(away as f32)) as f32
        }));
        let weights = &mut self.weights[begin..];
        let sum: f32 = weights.iter().sum();
        if sum != 0.0 {
            for weight in weights {
                *weight /= sum;
            }
        }
    }

    fn one(&self, span: &Span, row: &[f32]) -> f32 {
        let weights = self.weights[span.begin..span.end].iter();
        weights.zip(&row[span.first..]).map(|(weight, value)| weight * value).sum()
    }

    /// One row to its wanted columns.
    fn across(&self, row: &[f32], out: &mut [f32]) {
        let spans = &self.spans;
        for at in (0..self.twos.start).chain(self.twos.end..spans.len()) {
            out[at] = self.one(&spans[at], row);
        }
        for (span, out) in spans[self.twos.clone()].iter().zip(&mut out[self.twos.clone()]) {
            let (weights, values) = (&self.weights[span.begin..][..2], &row[span.first..][..2]);
            *out = weights[0] * values[0] + weights[1] * values[1];
        }
    }

    /// Rows to the wanted ones.
    fn down(&self, rows: &[f32], width: usize, out: &mut [f32]) {
        for (span, out) in self.spans.iter().zip(out.chunks_exact_mut(width)) {
            let weights = &self.weights[span.begin..span.end];
            let row = |at: usize| &rows[(span.first + at) * width..][..width];
            if let [one, two] = weights {
                for ((out, a), b) in out.iter_mut().zip(row(0)).zip(row(1)) {
                    *out = one * a + two * b;
                }
                continue;
            }
            out.fill(0.0);
            for (at, weight) in weights.iter().enumerate() {
                out.iter_mut().zip(row(at)).for_each(|(out, value)| *out += weight * value);
            }
        }
    }
}

impl FloatResize {
    /// Works out the weights. `None` if there is nothing to make, or the part is not one.
    pub fn set(
        &mut self,
        filter: Filter,
        from: (usize, usize),
        to: (usize, usize),
        wanted: Rect,
    ) -> Option<&mut Self> {
        let setting = Setting { filter, from, to, wanted };
        if self.set == Some(setting) {
            return Some(self);
        }
        let inside =
            wanted.x.checked_add(wanted.width)? <= to.0 && wanted.y.checked_add(wanted.height)? <= to.1;
        if !inside || [from.0, from.1, wanted.width, wanted.height].contains(&0) {
            return None;
        }
        self.across.set(filter, from.0, to.0, wanted.x..wanted.x + wanted.width);
        self.down.set(filter, from.1, to.1, wanted.y..wanted.y + wanted.height);
        self.set = Some(setting);
        Some(self)
    }

    /// Writes the wanted part of a plane.
    ///
    /// # Panics
    /// If the plane or the memory has another size than was said.
    pub fn write(&mut self, plane: &[f32], out: &mut [f32]) {
        let Setting { from, wanted, .. } = self.set.expect("it was set");
        assert_eq!(plane.len(), from.0 * from.1, "a plane of another size");
        assert_eq!(out.len(), wanted.width * wanted.height, "memory of another size");
        let (columns, rows) = (&self.across.needs, &self.down.needs);
        self.between.resize(rows.len() * wanted.width, 0.0);
        let needed = plane.chunks_exact(from.0).skip(rows.start);
        for (row, out) in needed.zip(self.between.chunks_exact_mut(wanted.width)) {
            self.across.across(&row[columns.clone()], out);
        }
        self.down.down(&self.between, wanted.width, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straight_lines_stay_straight() {
        // One to two: a quarter from each border on, halves between.
        let mut resize = FloatResize::default();
        let whole = Rect { x: 0, y: 0, width: 4, height: 2 };
        let mut out = [0.0; 8];
        resize.set(Filter::Bilinear, (2, 1), (4, 2), whole).unwrap().write(&[0.0, 8.0], &mut out);
        assert_eq!(out, [0.0, 2.0, 6.0, 8.0, 0.0, 2.0, 6.0, 8.0]);
    }

    #[test]
    fn a_part_is_cut_from_what_the_whole_would_be() {
        let plane: Vec<f32> = (0..35).map(|number| (number * number % 17) as f32).collect();
        for filter in [Filter::Nearest, Filter::Bilinear, Filter::Bicubic] {
            for to in [(11, 9), (4, 3), (7, 5), (3, 12)] {
                let mut resize = FloatResize::default();
                let mut all = vec![0.0; to.0 * to.1];
                let whole = Rect { x: 0, y: 0, width: to.0, height: to.1 };
                resize.set(filter, (7, 5), to, whole).unwrap().write(&plane, &mut all);
                let part = Rect { x: 1, y: 1, width: 2, height: 2 };
                let mut out = [0.0; 4];
                resize.set(filter, (7, 5), to, part).unwrap().write(&plane, &mut out);
                let row = |y: usize| &all[y * to.0 + 1..][..2];
                assert_eq!(out, [row(1), row(2)].concat()[..], "{filter:?} {to:?}");
            }
        }
    }
}
