//! Copies of large rows.

#[cfg(target_arch = "x86_64")]
use std::slice;

/// What is shorter stays in the caches: it may well be read from there.
const LONG: usize = 256 << 10;

/// Copies bytes for another processor to read. Many go past the caches: a store that has to fetch the old
/// contents of a line first takes twice as long.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
pub unsafe fn copy_past_caches(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len >= LONG && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the caller's promise, as below.
        let from = unsafe { slice::from_raw_parts(from, len) };
        // SAFETY: the same.
        let to = unsafe { slice::from_raw_parts_mut(to, len) };
        // SAFETY: the processor has it.
        return unsafe { stream(from, to) };
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn stream(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};

    // SAFETY: any bytes are a vector.
    let (head, vectors, tail) = unsafe { to.align_to_mut::<__m256i>() };
    let (from_head, from) = from.split_at(head.len());
    let (from, from_tail) = from.as_chunks::<{ size_of::<__m256i>() }>();
    head.copy_from_slice(from_head);
    tail.copy_from_slice(from_tail);
    for (to, from) in vectors.iter_mut().zip(from) {
        // SAFETY: it has the length of a vector; its alignment does not matter.
        let vector = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
        // SAFETY: the target is a vector.
        unsafe { _mm256_stream_si256(to, vector) };
    }
    // These stores are in no order with others; whoever is told that the row is done must see them.
    _mm_sfence();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_any_length_from_and_to_any_alignment() {
        let source: Vec<u8> = (0..LONG + 300).map(|at| (at * 31 % 251) as u8).collect();
        for len in [0, 1, 1000, LONG - 1, LONG, LONG + 31, LONG + 32, LONG + 127, LONG + 129] {
            for (from, to) in [(0, 0), (1, 0), (0, 1), (7, 33), (31, 63), (64, 5)] {
                let mut target = vec![0xee; LONG + 400];
                let (source, into) = (&source[from..from + len], &mut target[to..to + len]);
                // SAFETY: both are as long as that.
                unsafe { copy_past_caches(source.as_ptr(), into.as_mut_ptr(), len) };
                assert_eq!(&target[to..to + len], source);
                assert!(target[..to].iter().chain(&target[to + len..]).all(|byte| *byte == 0xee));
            }
        }
    }
}
