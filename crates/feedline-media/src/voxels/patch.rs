//! Random places for patches, as often as wanted around a voxel of a label.
//!
//! What is looked for is often small: patches from anywhere would hardly ever show it.

use feedline_core::SampleRng;

use super::view::{Voxels, count};
use crate::{MediaError, Refused};

/// Patches of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patch {
    size: [usize; 3],
    label: u8,
    probability: f64,
}

impl Patch {
    /// With this probability, around a voxel of the label; else from anywhere.
    pub fn new(size: [usize; 3], label: u8, probability: f64) -> Result<Self, Refused> {
        if count(size).is_none() {
            return Err(Refused(format!("a patch of {size:?}: each side should be at least 1")));
        }
        if !(0.0..=1.0).contains(&probability) {
            return Err(Refused(format!(
                "patch: a probability lies between 0 and 1, {probability} does not"
            )));
        }
        Ok(Self { size, label, probability })
    }

    /// How large they are.
    pub fn size(&self) -> [usize; 3] {
        self.size
    }

    /// Where one begins. Around a voxel, the patch has it in its middle, unless it would reach outside. If there is no
    /// voxel of the label, it comes from anywhere.
    pub fn place(&self, labels: Voxels<'_, u8>, rng: &mut SampleRng) -> Result<[usize; 3], MediaError> {
        let extents = labels.extents();
        if (0..3).any(|axis| self.size[axis] > extents[axis]) {
            return Err(MediaError::Shape(format!(
                "a patch of {:?} does not fit into {extents:?} voxels: pad before it",
                self.size
            )));
        }
        let room = [0, 1, 2].map(|axis| extents[axis] - self.size[axis]);
        // Drawn in any case, so that what follows does not depend on what the volume shows.
        let (around, anywhere) = (rng.chance(self.probability), room.map(|room| rng.below(room as u64 + 1)));
        let centre = if around { self.drawn(labels, rng) } else { None };
        Ok(match centre {
            Some(centre) => {
                [0, 1, 2].map(|axis| centre[axis].saturating_sub(self.size[axis] / 2).min(room[axis]))
            }
            None => anywhere.map(|at| at as usize),
        })
    }

    /// Any voxel of the label, each as likely as the other.
    fn drawn(&self, labels: Voxels<'_, u8>, rng: &mut SampleRng) -> Option<[usize; 3]> {
        let [_, height, width] = labels.extents();
        let of = |values: &[u8]| values.iter().map(|value| usize::from(*value == self.label)).sum::<usize>();
        let all = of(labels.values());
        if all == 0 {
            return None;
        }
        let mut left = rng.below(all as u64) as usize;
        for (row, values) in labels.values().chunks_exact(width).enumerate() {
            let found = of(values);
            if left < found {
                let mut places = (0..width).filter(|x| values[*x] == self.label);
                return places.nth(left).map(|x| [row / height, row % height, x]);
            }
            left -= found;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use feedline_core::{Key, Purpose};

    use super::*;

    #[test]
    fn patches_lie_inside_and_around_the_label() {
        let mut values = vec![0u8; 10 * 12 * 14];
        let marked = [[0, 0, 0], [5, 6, 7], [9, 11, 13]];
        for [z, y, x] in marked {
            values[(z * 12 + y) * 14 + x] = 3;
        }
        let labels = Voxels::new(&values, [10, 12, 14]).unwrap();
        let (patch, key) = (Patch::new([4, 5, 6], 3, 1.0).unwrap(), Key::new(1, 0, Purpose::Sample));
        let expected = [[0, 0, 0], [3, 4, 4], [6, 7, 8]];
        let mut seen = [0; 3];
        for n in 0..3000 {
            let place = patch.place(labels, &mut key.rng(n)).unwrap();
            seen[expected.iter().position(|expected| *expected == place).unwrap()] += 1;
        }
        // Standard deviation of each is about 26.
        assert!(seen.iter().all(|seen| (850..1150).contains(seen)), "{seen:?}");
    }

    #[test]
    fn without_the_label_they_come_from_anywhere() {
        let values = [0u8; 27];
        let labels = Voxels::new(&values, [3, 3, 3]).unwrap();
        let key = Key::new(1, 0, Purpose::Sample);
        let places = |probability: f64, label: u8| -> Vec<[usize; 3]> {
            let patch = Patch::new([2, 2, 3], label, probability).unwrap();
            (0..100).map(|n| patch.place(labels, &mut key.rng(n)).unwrap()).collect()
        };
        let found = places(1.0, 1);
        assert_eq!(found, places(0.0, 0));
        for wanted in [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]] {
            assert!(found.contains(&wanted));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let labels = Voxels::new(&[0; 8], [2, 2, 2]).unwrap();
        let mut rng = Key::new(1, 0, Purpose::Sample).rng(0);
        let error = Patch::new([3, 1, 1], 1, 0.5).unwrap().place(labels, &mut rng).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a patch of [3, 1, 1] does not fit into [2, 2, 2] voxels: pad before it"
        );
        assert!(Patch::new([0, 1, 1], 1, 0.5).is_err());
        assert!(Patch::new([1, 1, 1], 1, 1.5).is_err());
    }
}
