//! Masks that shrink or grow by a voxel in all directions, corners included: a box of 3 × 3 × 3.
//!
//! The largest (or smallest) of a box is that of three rows, of which each is that of three voxels, and so on through
//! the three axes. A plane is read once and written once; between lie four planes of memory, which fit into a near
//! cache. All loops are over whole lines of bytes, sixteen or more at once.

use super::view::{Voxels, room};

/// Erosion, dilation, opening. It keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Morphology {
    planes: Vec<u8>,
}

impl Morphology {
    /// What has nothing but mask around it, so many times over. `border` is whether what lies outside counts as mask.
    ///
    /// # Panics
    /// If there are not as many bytes for the result as voxels.
    pub fn erode(&mut self, mask: Voxels<'_, u8>, iterations: usize, border: bool, out: &mut [u8]) {
        copy(mask, out);
        self.repeat::<false>(mask.extents(), iterations, border, out);
    }

    /// What has any mask around it, so many times over.
    ///
    /// # Panics
    /// As `erode`.
    pub fn dilate(&mut self, mask: Voxels<'_, u8>, iterations: usize, border: bool, out: &mut [u8]) {
        copy(mask, out);
        self.repeat::<true>(mask.extents(), iterations, border, out);
    }

    /// Eroded, then dilated: what is thinner than the box is gone. `border` is for the erosion; what lies outside never
    /// grows inwards.
    ///
    /// # Panics
    /// As `erode`.
    pub fn open(&mut self, mask: Voxels<'_, u8>, iterations: usize, border: bool, out: &mut [u8]) {
        self.erode(mask, iterations, border, out);
        self.repeat::<true>(mask.extents(), iterations, false, out);
    }

    fn repeat<const GROW: bool>(&mut self, extents: [usize; 3], times: usize, border: bool, out: &mut [u8]) {
        for _ in 0..times {
            self.once::<GROW>(extents, out);
            // A border changes nothing if it is what the step looks for least; else it decides all that it touches.
            if border == GROW {
                shell(extents, u8::from(GROW), out);
            }
        }
    }

    /// One step, as if the border were not there. In place: a plane is read before the one in front of it is written.
    fn once<const GROW: bool>(&mut self, extents: [usize; 3], volume: &mut [u8]) {
        let [depth, height, width] = extents;
        let plane = height * width;
        let (lines, flat) = room(&mut self.planes, 4 * plane).split_at_mut(plane);
        for z in 0..=depth {
            if z < depth {
                let source = &volume[z * plane..][..plane];
                flatten::<GROW>(source, width, lines, &mut flat[z % 3 * plane..][..plane]);
            }
            if z > 0 {
                // What is missing at either end is replaced by the plane itself, which is among the three anyway.
                let [before, here, after] = [z.saturating_sub(2), z - 1, z.min(depth - 1)]
                    .map(|plane_at| &flat[plane_at % 3 * plane..][..plane]);
                three::<GROW>(before, here, after, &mut volume[(z - 1) * plane..][..plane]);
            }
        }
    }
}

/// The same mask, of 0 and 1 alone.
fn copy(mask: Voxels<'_, u8>, out: &mut [u8]) {
    assert_eq!(out.len(), mask.values().len(), "a result has as many voxels");
    out.iter_mut().zip(mask.values()).for_each(|(out, value)| *out = u8::from(*value != 0));
}

fn pick<const GROW: bool>(one: u8, other: u8) -> u8 {
    if GROW { one.max(other) } else { one.min(other) }
}

fn three<const GROW: bool>(one: &[u8], two: &[u8], three: &[u8], out: &mut [u8]) {
    for (((out, one), two), three) in out.iter_mut().zip(one).zip(two).zip(three) {
        *out = pick::<GROW>(pick::<GROW>(*one, *two), *three);
    }
}

/// A plane in its own two directions.
fn flatten<const GROW: bool>(source: &[u8], width: usize, lines: &mut [u8], out: &mut [u8]) {
    for (row, line) in source.chunks_exact(width).zip(lines.chunks_exact_mut(width)) {
        across::<GROW>(row, line);
    }
    let rows = source.len() / width;
    let line = |y: usize| &lines[y * width..][..width];
    for (y, out) in out.chunks_exact_mut(width).enumerate() {
        three::<GROW>(line(y.saturating_sub(1)), line(y), line((y + 1).min(rows - 1)), out);
    }
}

fn across<const GROW: bool>(row: &[u8], out: &mut [u8]) {
    match row {
        [.., before, last] => {
            out[0] = pick::<GROW>(row[0], row[1]);
            out[row.len() - 1] = pick::<GROW>(*before, *last);
            three::<GROW>(row, &row[1..], &row[2..], &mut out[1..row.len() - 1]);
        }
        _ => out.copy_from_slice(row),
    }
}

/// Sets the six faces.
fn shell([depth, height, width]: [usize; 3], value: u8, out: &mut [u8]) {
    for (z, plane) in out.chunks_exact_mut(height * width).enumerate() {
        if z == 0 || z + 1 == depth {
            plane.fill(value);
            continue;
        }
        plane[..width].fill(value);
        plane[(height - 1) * width..].fill(value);
        for row in plane.chunks_exact_mut(width) {
            row[0] = value;
            row[width - 1] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at every voxel of every box.
    fn slowly(mask: &[u8], extents: [usize; 3], grow: bool, border: bool) -> Vec<u8> {
        let [depth, height, width] = extents.map(|extent| extent as isize);
        let at = |z: isize, y: isize, x: isize| {
            let inside = (0..depth).contains(&z) && (0..height).contains(&y) && (0..width).contains(&x);
            if inside { mask[((z * height + y) * width + x) as usize] != 0 } else { border }
        };
        let near = [-1, 0, 1];
        let places =
            (0..depth).flat_map(|z| (0..height).flat_map(move |y| (0..width).map(move |x| (z, y, x))));
        places
            .map(|(z, y, x)| {
                let mut around = near
                    .iter()
                    .flat_map(|dz| near.map(|dy| (dz, dy)))
                    .flat_map(|(dz, dy)| near.map(|dx| at(z + dz, y + dy, x + dx)));
                u8::from(if grow { around.any(|value| value) } else { around.all(|value| value) })
            })
            .collect()
    }

    #[test]
    fn every_box_is_looked_at() {
        for extents in [[1, 1, 1], [1, 2, 3], [3, 1, 2], [4, 5, 1], [2, 2, 2], [5, 7, 19]] {
            let voxels = extents.iter().product();
            for share in [2, 6] {
                let mask: Vec<u8> =
                    (0..voxels).map(|at| u8::from(at * at * 7 % 11 % share == 0) * 9).collect();
                let view = Voxels::new(&mask, extents).unwrap();
                let mut out = vec![0; voxels];
                for border in [false, true] {
                    Morphology::default().erode(view, 1, border, &mut out);
                    assert_eq!(out, slowly(&mask, extents, false, border), "{extents:?} {border}");
                    Morphology::default().dilate(view, 1, border, &mut out);
                    assert_eq!(out, slowly(&mask, extents, true, border), "{extents:?} {border}");
                    Morphology::default().erode(view, 2, border, &mut out);
                    let once = slowly(&mask, extents, false, border);
                    assert_eq!(out, slowly(&once, extents, false, border), "{extents:?} {border}");
                }
            }
        }
    }

    #[test]
    fn what_is_thin_is_gone_after_an_opening() {
        let extents = [5, 5, 9];
        let mask: Vec<u8> = (0..225).map(|at| u8::from(at % 9 < 4 || at == 112)).collect();
        let mut out = vec![0; 225];
        Morphology::default().open(Voxels::new(&mask, extents).unwrap(), 1, true, &mut out);
        assert_eq!(out, (0..225).map(|at| u8::from(at % 9 < 4)).collect::<Vec<_>>());
    }
}
