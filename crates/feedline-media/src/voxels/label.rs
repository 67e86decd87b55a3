//! The mask of some labels.

/// Writes 1 where the label is one of those wanted, 0 elsewhere.
///
/// # Panics
/// If there are not as many bytes for the result as labels.
pub fn write<T: Copy + PartialEq>(labels: &[T], wanted: &[T], out: &mut [u8]) {
    // Label by label over a stretch that stays in the nearest cache: a loop that compares with one has many at once.
    const STRETCH: usize = 4096;
    assert_eq!(out.len(), labels.len(), "a result has as many voxels");
    for (out, labels) in out.chunks_mut(STRETCH).zip(labels.chunks(STRETCH)) {
        out.fill(0);
        for wanted in wanted {
            out.iter_mut().zip(labels).for_each(|(out, label)| *out |= u8::from(label == wanted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_of_the_labels_is_in_the_mask() {
        let mut out = [9; 6];
        write(&[0i32, 1, 2, 3, 2, -1], &[2, -1], &mut out);
        assert_eq!(out, [0, 0, 1, 0, 1, 1]);
        write(&[0u8, 1, 2, 3, 2, 1], &[], &mut out);
        assert_eq!(out, [0; 6]);
    }
}
