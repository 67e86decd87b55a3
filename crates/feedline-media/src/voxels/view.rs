//! A view of a volume: its voxels one after the other, the last axis the fastest.

/// A volume that somebody else owns. It has at least one voxel.
#[derive(Clone, Copy, Debug)]
pub struct Voxels<'a, T> {
    values: &'a [T],
    extents: [usize; 3],
}

impl<'a, T> Voxels<'a, T> {
    /// `None` if there are not as many values as the extents take, or if there is no voxel.
    pub fn new(values: &'a [T], extents: [usize; 3]) -> Option<Self> {
        let needed = count(extents)?;
        Some(Self { values: values.get(..needed)?, extents })
    }

    /// All voxels.
    pub fn values(&self) -> &'a [T] {
        self.values
    }

    /// How many there are along each axis.
    pub fn extents(&self) -> [usize; 3] {
        self.extents
    }

    /// How many there are in a plane: one step along the first axis.
    pub fn plane(&self) -> usize {
        self.extents[1] * self.extents[2]
    }

    /// One row, along the last axis.
    ///
    /// # Panics
    /// If it lies outside.
    pub fn row(&self, z: usize, y: usize) -> &'a [T] {
        let [depth, height, width] = self.extents;
        assert!(z < depth && y < height, "row {z}, {y} of {depth} × {height}");
        &self.values[(z * height + y) * width..][..width]
    }
}

/// The voxels of a volume; `None` if that is none, or more than there could be.
pub fn count(extents: [usize; 3]) -> Option<usize> {
    /// So that steps along an axis fit into 32 bits.
    const LONGEST: usize = i32::MAX as usize;
    let [depth, height, width] = extents;
    let all = depth.checked_mul(height)?.checked_mul(width)?;
    let fits = (1..=isize::MAX as usize).contains(&all) && extents.iter().all(|extent| *extent <= LONGEST);
    fits.then_some(all)
}

/// So many values of memory that is used again. What is in them does not matter.
pub(crate) fn room<T: Copy + Default>(memory: &mut Vec<T>, values: usize) -> &mut [T] {
    if memory.len() < values {
        memory.resize(values, T::default());
    }
    &mut memory[..values]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_view_cannot_be_made() {
        let values: Vec<u8> = (0..24).collect();
        let voxels = Voxels::new(&values, [2, 3, 4]).unwrap();
        assert_eq!(voxels.row(1, 2), [20, 21, 22, 23]);
        assert_eq!((voxels.plane(), voxels.values().len()), (12, 24));
        assert!(Voxels::new(&values, [2, 3, 5]).is_none());
        assert!(Voxels::new(&values, [2, 0, 4]).is_none());
        assert!(Voxels::new(&values, [usize::MAX, 2, 4]).is_none());
        assert!(Voxels::new(&values, [1 << 40, 1 << 40, 0]).is_none());
    }
}
