//! The two passes over pixels: along rows, and along columns.
//!
//! They are where the time goes after decoding, so what most images need has a version with AVX2. Sums of integers are
//! the same in any order, so both versions give the same.

use super::{Span, Weights};

/// Rows to their wanted columns. Each row of `out` is as long as the spans have columns.
pub(super) fn across<'a>(
    weights: &Weights,
    channels: usize,
    row: impl Fn(usize) -> &'a [u8],
    out: &mut [u8],
) {
    let length = weights.spans.len() * channels;
    #[cfg(target_arch = "x86_64")]
    if channels == 3 && std::arch::is_x86_feature_detected!("avx2") {
        for (pair, out) in out.chunks_mut(2 * length).enumerate() {
            let (one, other) = out.split_at_mut(length);
            // An odd row at the end goes with itself.
            let second = if other.is_empty() { 2 * pair } else { 2 * pair + 1 };
            // SAFETY: the machine has it.
            unsafe { avx2::across(weights, [row(2 * pair), row(second)], one, other) };
        }
        return;
    }
    for (y, out) in out.chunks_exact_mut(length).enumerate() {
        across_one(weights, row(y), channels, out);
    }
}

/// One row to its wanted columns.
fn across_one(weights: &Weights, row: &[u8], channels: usize, out: &mut [u8]) {
    match channels {
        1 => across_of::<1>(weights, 0, row, out),
        3 => across_of::<3>(weights, 0, row, out),
        4 => across_of::<4>(weights, 0, row, out),
        _ => across_any(weights, row, channels, out),
    }
}

/// From the `from`-th column on.
fn across_of<const CHANNELS: usize>(weights: &Weights, from: usize, row: &[u8], out: &mut [u8]) {
    let (pixels, _) = row.as_chunks::<CHANNELS>();
    let (targets, _) = out.as_chunks_mut::<CHANNELS>();
    for (Span { first, begin, end }, target) in weights.spans.iter().zip(targets).skip(from) {
        let mut sums = [0i32; CHANNELS];
        for (weight, pixel) in weights.values[*begin..*end].iter().zip(&pixels[*first..]) {
            for (sum, byte) in sums.iter_mut().zip(pixel) {
                *sum += weight * i32::from(*byte);
            }
        }
        *target = sums.map(|sum| rounded(sum, weights.bits));
    }
}

fn across_any(weights: &Weights, row: &[u8], channels: usize, out: &mut [u8]) {
    for (Span { first, begin, end }, pixel) in weights.spans.iter().zip(out.chunks_exact_mut(channels)) {
        for (channel, target) in pixel.iter_mut().enumerate() {
            let inputs = row[first * channels + channel..].iter().step_by(channels);
            let values = weights.values[*begin..*end].iter();
            let sum = values.zip(inputs).map(|(weight, byte)| weight * i32::from(*byte)).sum();
            *target = rounded(sum, weights.bits);
        }
    }
}

/// Some rows to one. `stride` is from one row to the next.
pub(super) fn down(weights: &[i32], bits: u32, rows: &[u8], stride: usize, out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has it.
        return unsafe { avx2::down(weights, bits, rows, stride, out) };
    }
    down_of(weights, bits, rows, stride, out);
}

#[allow(clippy::inline_always)] // It is compiled for what its caller may use.
#[inline(always)]
fn down_of(weights: &[i32], bits: u32, rows: &[u8], stride: usize, out: &mut [u8]) {
    // In blocks, whose sums stay in registers while the rows go by.
    const BLOCK: usize = 32;
    let row = out.len();
    let mut at = 0;
    while at + BLOCK <= row {
        let mut sums = [0i32; BLOCK];
        for (weight, line) in weights.iter().zip(rows.chunks(stride)) {
            let bytes: &[u8; BLOCK] = line[at..].first_chunk().expect("a block fits into the row");
            for (sum, byte) in sums.iter_mut().zip(bytes) {
                *sum += weight * i32::from(*byte);
            }
        }
        for (target, sum) in out[at..].iter_mut().zip(sums) {
            *target = rounded(sum, bits);
        }
        at += BLOCK;
    }
    for (target, at) in out[at..].iter_mut().zip(at..) {
        let bytes = rows[at..].iter().step_by(stride);
        *target =
            rounded(weights.iter().zip(bytes).map(|(weight, byte)| weight * i32::from(*byte)).sum(), bits);
    }
}

#[inline]
fn rounded(sum: i32, bits: u32) -> u8 {
    ((sum + (1 << (bits - 1))) >> bits).clamp(0, 255) as u8
}

/// Weights for four pixels at a time, each cut into two halves that fit into 16 bits: there is an instruction that
/// multiplies eight pairs of those and adds neighbours.
#[derive(Clone, Debug, Default)]
pub(super) struct Fours {
    /// For each output, where its fours are.
    spans: Vec<(usize, usize)>,
    /// The upper halves of the first pair and of the second, then the lower ones.
    values: Vec<[i32; 4]>,
}

/// Bits of a lower half.
const LOWER: u32 = 12;

impl Fours {
    pub(super) fn set(&mut self, spans: &[Span], values: &[i32]) {
        self.spans.clear();
        self.values.clear();
        for span in spans {
            let begin = self.values.len();
            for four in values[span.begin..span.end].chunks(4) {
                let weight = |at: usize| four.get(at).copied().unwrap_or(0);
                let pair = |one: i32, other: i32| (one & 0xffff) | (other << 16);
                let upper = |at: usize| pair(weight(at) >> LOWER, weight(at + 1) >> LOWER);
                let mask = (1 << LOWER) - 1;
                let lower = |at: usize| pair(weight(at) & mask, weight(at + 1) & mask);
                self.values.push([upper(0), upper(2), lower(0), lower(2)]);
            }
            self.spans.push((begin, self.values.len()));
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_cvtsi32_si128, _mm_loadu_si128, _mm256_add_epi32, _mm256_extract_epi32,
        _mm256_madd_epi16, _mm256_packs_epi32, _mm256_packus_epi16, _mm256_set_m128i, _mm256_set1_epi32,
        _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_sra_epi32,
    };

    use super::{LOWER, Weights, across_of, down_of};

    #[target_feature(enable = "avx2")]
    pub(super) fn down(weights: &[i32], bits: u32, rows: &[u8], stride: usize, out: &mut [u8]) {
        down_of(weights, bits, rows, stride, out);
    }

    /// Two rows of three channels to their wanted columns; the second may have nowhere to go.
    #[target_feature(enable = "avx2")]
    pub(super) fn across(weights: &Weights, rows: [&[u8]; 2], one: &mut [u8], other: &mut [u8]) {
        // Of four pixels, the channels of the first two side by side, each with room above; then those of the others.
        #[rustfmt::skip]
        let first = _mm256_setr_epi8(
            0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,
            0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,
        );
        #[rustfmt::skip]
        let second = _mm256_setr_epi8(
            6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1,
            6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1,
        );
        let half = _mm256_set1_epi32(1 << (weights.bits - 1));
        let shift = _mm_cvtsi32_si128(weights.bits as i32);
        let length = rows[0].len().min(rows[1].len());
        let spans = weights.spans.iter().zip(&weights.fours.spans);
        for (column, (span, (begin, end))) in spans.enumerate() {
            let fours = &weights.fours.values[*begin..*end];
            // Sixteen bytes are read where twelve are needed; near the end of a row there are none, nor is there room
            // to write four where three are needed.
            if 3 * span.first + 12 * fours.len() + 4 > length || 3 * column + 4 > one.len() {
                across_of::<3>(weights, column, rows[0], one);
                if !other.is_empty() {
                    across_of::<3>(weights, column, rows[1], other);
                }
                return;
            }
            let (mut upper, mut lower) = (_mm256_setzero_si256(), _mm256_setzero_si256());
            for (at, [upper_first, upper_second, lower_first, lower_second]) in fours.iter().enumerate() {
                let place = 3 * span.first + 12 * at;
                let pixels = _mm256_set_m128i(sixteen(rows[1], place), sixteen(rows[0], place));
                let (a, b) = (_mm256_shuffle_epi8(pixels, first), _mm256_shuffle_epi8(pixels, second));
                upper = add(upper, multiplied(a, *upper_first), multiplied(b, *upper_second));
                lower = add(lower, multiplied(a, *lower_first), multiplied(b, *lower_second));
            }
            let sums = add(_mm256_slli_epi32::<{ LOWER as i32 }>(upper), lower, half);
            let words = _mm256_packs_epi32(_mm256_sra_epi32(sums, shift), _mm256_setzero_si256());
            let bytes = _mm256_packus_epi16(words, words);
            put(one, column, _mm256_extract_epi32::<0>(bytes));
            if !other.is_empty() {
                put(other, column, _mm256_extract_epi32::<4>(bytes));
            }
        }
    }

    #[target_feature(enable = "avx2")]
    fn sixteen(row: &[u8], at: usize) -> __m128i {
        let bytes: &[u8; 16] = row[at..].first_chunk().expect("the caller looks");
        // SAFETY: these are sixteen bytes.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    fn multiplied(pixels: __m256i, pair: i32) -> __m256i {
        _mm256_madd_epi16(pixels, _mm256_set1_epi32(pair))
    }

    #[target_feature(enable = "avx2")]
    fn add(one: __m256i, two: __m256i, three: __m256i) -> __m256i {
        _mm256_add_epi32(_mm256_add_epi32(one, two), three)
    }

    /// Three bytes, and a fourth that the next pixel will write over.
    fn put(out: &mut [u8], column: usize, pixel: i32) {
        let place: &mut [u8; 4] = out[3 * column..].first_chunk_mut().expect("the caller looks");
        *place = pixel.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::resample::{Filter, Like};

    proptest! {
        /// Both versions give the same, whatever the weights and pixels.
        #[test]
        fn vectors_do_what_loops_do(
            inputs in 1usize..90,
            outputs in 1usize..90,
            rows in 1usize..4,
            bicubic: bool,
            torchvision: bool,
            bytes in prop::collection::vec(any::<u8>(), 3 * 90 * 4),
        ) {
            let filter = if bicubic { Filter::Bicubic } else { Filter::Bilinear };
            let like = if torchvision { Like::Torchvision } else { Like::Pillow };
            let mut weights = Weights::default();
            weights.set(filter, like, inputs, outputs, 0..outputs);
            let row = |y: usize| &bytes[y * 3 * inputs..][..3 * inputs];
            let mut found = vec![0; rows * 3 * outputs];
            across(&weights, 3, row, &mut found);
            let mut expected = vec![0; rows * 3 * outputs];
            for (y, out) in expected.chunks_exact_mut(3 * outputs).enumerate() {
                across_one(&weights, row(y), 3, out);
            }
            prop_assert_eq!(&found, &expected);
            let mut any = vec![0; 3 * outputs];
            across_any(&weights, row(0), 3, &mut any);
            prop_assert_eq!(&found[..3 * outputs], &any[..]);
            let (mut one, mut other) = (vec![0; 3 * inputs], vec![0; 3 * inputs]);
            let column = &weights.values[weights.spans[0].begin..weights.spans[0].end.min(weights.spans[0].begin + 4)];
            down(column, weights.bits, &bytes, 3 * inputs, &mut one);
            down_of(column, weights.bits, &bytes, 3 * inputs, &mut other);
            prop_assert_eq!(one, other);
        }
    }
}
