//! One slice across an axis.

use super::view::Voxels;

/// Writes the `at`-th slice across an axis: the other two axes in their order.
///
/// # Panics
/// If there is no such axis or slice, or not as much memory as it has voxels.
pub fn write<T: Copy>(volume: Voxels<'_, T>, axis: usize, at: usize, out: &mut [T]) {
    let [depth, height, width] = volume.extents();
    assert!(at < volume.extents()[axis], "slice {at} of {}", volume.extents()[axis]);
    match axis {
        0 => out.copy_from_slice(&volume.values()[at * volume.plane()..][..volume.plane()]),
        1 => {
            assert_eq!(out.len(), depth * width, "a result has as many voxels");
            for (z, out) in out.chunks_exact_mut(width).enumerate() {
                out.copy_from_slice(volume.row(z, at));
            }
        }
        _ => {
            assert_eq!(out.len(), depth * height, "a result has as many voxels");
            let column = volume.values()[at..].iter().step_by(width);
            out.iter_mut().zip(column).for_each(|(out, value)| *out = *value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_keep_the_order_of_the_other_axes() {
        let values: Vec<u8> = (0..24).collect();
        let volume = Voxels::new(&values, [2, 3, 4]).unwrap();
        let sliced = |axis, at, count| {
            let mut out = vec![0; count];
            write(volume, axis, at, &mut out);
            out
        };
        assert_eq!(sliced(0, 1, 12), (12..24).collect::<Vec<_>>());
        assert_eq!(sliced(1, 2, 8), [8, 9, 10, 11, 20, 21, 22, 23]);
        assert_eq!(sliced(2, 3, 6), [3, 7, 11, 15, 19, 23]);
    }
}
