//! Mirror images.

use super::view::Voxels;

/// Writes the volume with the order along some axes turned round.
///
/// # Panics
/// If there is not as much memory as voxels.
pub fn write<T: Copy>(volume: Voxels<'_, T>, axes: [bool; 3], out: &mut [T]) {
    assert_eq!(out.len(), volume.values().len(), "a result has as many voxels");
    let [depth, height, width] = volume.extents();
    let turned = |axis: usize, at: usize, count: usize| if axes[axis] { count - 1 - at } else { at };
    for (at, out) in out.chunks_exact_mut(width).enumerate() {
        let (z, y) = (turned(0, at / height, depth), turned(1, at % height, height));
        out.copy_from_slice(volume.row(z, y));
        if axes[2] {
            out.reverse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_axis_is_turned_alone() {
        let values: Vec<u8> = (0..8).collect();
        let volume = Voxels::new(&values, [2, 2, 2]).unwrap();
        let flipped = |axes| {
            let mut out = [0; 8];
            write(volume, axes, &mut out);
            out
        };
        assert_eq!(flipped([true, false, false]), [4, 5, 6, 7, 0, 1, 2, 3]);
        assert_eq!(flipped([false, true, false]), [2, 3, 0, 1, 6, 7, 4, 5]);
        assert_eq!(flipped([false, false, true]), [1, 0, 3, 2, 5, 4, 7, 6]);
        assert_eq!(flipped([true; 3]), [7, 6, 5, 4, 3, 2, 1, 0]);
    }
}
