//! The two passes over pixels: along rows, and along columns.
//!
//! They are where the time goes after decoding, so what most images need has versions with AVX2 and AVX-512. Sums of
//! integers are the same in any order, so all versions give the same.

use super::{Span, Weights};

/// Rows to their wanted columns, all rows of one length. Each row of `out` is as long as the spans have columns.
pub(super) fn across<'a>(
    weights: &Weights,
    channels: usize,
    row: impl Fn(usize) -> &'a [u8],
    out: &mut [u8],
) {
    let length = weights.spans.len() * channels;
    #[cfg(target_arch = "x86_64")]
    if channels == 3 && std::arch::is_x86_feature_detected!("avx2") {
        return vectors::across(weights, row, out);
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
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has it.
        done = unsafe { vectors::down(weights, bits, rows, stride, out) };
    }
    down_from(done, weights, bits, rows, stride, out);
}

/// From the `from`-th column on.
fn down_from(from: usize, weights: &[i32], bits: u32, rows: &[u8], stride: usize, out: &mut [u8]) {
    // In blocks, whose sums stay in registers while the rows go by.
    const BLOCK: usize = 32;
    for (block, out) in out[from..].chunks_mut(BLOCK).enumerate() {
        let (at, mut sums) = (from + block * BLOCK, [0i32; BLOCK]);
        for (weight, line) in weights.iter().zip(rows.chunks(stride)) {
            for (sum, byte) in sums.iter_mut().zip(&line[at..at + out.len()]) {
                *sum += weight * i32::from(*byte);
            }
        }
        for (target, sum) in out.iter_mut().zip(sums) {
            *target = rounded(sum, bits);
        }
    }
}

#[inline]
fn rounded(sum: i32, bits: u32) -> u8 {
    ((sum + (1 << (bits - 1))) >> bits).clamp(0, 255) as u8
}

/// Weights for four pixels at a time, each cut into two halves that fit into 16 bits: there is an instruction that
/// multiplies pairs of those and adds neighbours.
#[derive(Clone, Debug, Default)]
pub(super) struct Fours {
    /// How many each output has.
    depth: usize,
    /// Where its first input is.
    first: Vec<usize>,
    /// The upper halves of the first pair and of the second, then the lower ones.
    values: Vec<[i32; 4]>,
}

/// Bits of a lower half.
const LOWER: u32 = 12;

/// Two weights as one number: their upper halves, and their lower ones.
fn halves(one: i32, other: i32) -> (i32, i32) {
    let pair = |one: i32, other: i32| (one & 0xffff) | (other << 16);
    let mask = (1 << LOWER) - 1;
    (pair(one >> LOWER, other >> LOWER), pair(one & mask, other & mask))
}

impl Fours {
    pub(super) fn set(&mut self, spans: &[Span], values: &[i32]) {
        let longest = spans.iter().map(|span| span.end - span.begin).max().unwrap_or(0);
        self.depth = longest.div_ceil(4);
        self.first.clear();
        self.values.clear();
        for span in spans {
            let values = &values[span.begin..span.end];
            let weight = |at: usize| values.get(at).copied().unwrap_or(0);
            self.values.extend((0..self.depth).map(|four| {
                let (upper, lower) = halves(weight(4 * four), weight(4 * four + 1));
                let (upper_second, lower_second) = halves(weight(4 * four + 2), weight(4 * four + 3));
                [upper, upper_second, lower, lower_second]
            }));
            self.first.push(span.first);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::{
        __m128i, __m256i, __m512i, _mm_cvtsi32_si128, _mm_loadu_si128, _mm_packus_epi16, _mm_setr_epi8,
        _mm_storeu_si128, _mm_unpackhi_epi8, _mm_unpacklo_epi8, _mm256_add_epi32,
        _mm256_broadcastsi128_si256, _mm256_castsi256_si128, _mm256_cvtepu8_epi16, _mm256_extracti128_si256,
        _mm256_madd_epi16, _mm256_packs_epi32, _mm256_packus_epi16, _mm256_permute4x64_epi64,
        _mm256_set_m128i, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_slli_epi32,
        _mm256_sra_epi32, _mm512_add_epi32, _mm512_broadcast_i32x4, _mm512_castsi128_si512,
        _mm512_extracti32x4_epi32, _mm512_inserti32x4, _mm512_madd_epi16, _mm512_packs_epi32,
        _mm512_packus_epi16, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_slli_epi32,
        _mm512_sra_epi32,
    };

    use super::{LOWER, Weights, across_of, halves};

    /// Rows of three channels, two or four at a time.
    pub(super) fn across<'a>(weights: &Weights, row: impl Fn(usize) -> &'a [u8], out: &mut [u8]) {
        let length = 3 * weights.spans.len();
        let height = out.len() / length;
        let wide =
            std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bw");
        let shortest = (0..height).map(|y| row(y).len()).min().unwrap_or(0);
        // Sixteen bytes are read where twelve are needed, and four written where three are: near the end of a row there
        // may be none.
        let needed = 12 * weights.fours.depth + 4;
        let columns = weights.fours.first.partition_point(|first| 3 * first + needed <= shortest);
        let columns = columns.min(weights.spans.len() - 1);
        let start = out.as_mut_ptr();
        let mut y = 0;
        while y < height {
            // At the end, the last row is made more than once.
            let from = |beyond: usize| row((y + beyond).min(height - 1)).as_ptr();
            let to = |beyond: usize| start.wrapping_add((y + beyond).min(height - 1) * length);
            if wide && height - y > 2 {
                let (from, to) = ([0, 1, 2, 3].map(from), [0, 1, 2, 3].map(to));
                // SAFETY: the machine has it; of all columns, enough can be read and written.
                unsafe { across_four(weights, columns, from, to) };
                y += 4;
            } else {
                let (from, to) = ([0, 1].map(from), [0, 1].map(to));
                // SAFETY: as above.
                unsafe { across_two(weights, columns, from, to) };
                y += 2;
            }
        }
        for (y, out) in out.chunks_exact_mut(length).enumerate() {
            across_of::<3>(weights, columns, row(y), out);
        }
    }

    /// Of four pixels, the channels of the first two side by side, each with room above; or those of the others.
    #[target_feature(enable = "avx2")]
    fn side_by_side(second: bool) -> __m128i {
        if second {
            _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1)
        } else {
            _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1)
        }
    }

    /// # Safety
    /// Of each of the columns, as many pixels as have weights and two more can be read, and four bytes written.
    #[target_feature(enable = "avx2")]
    unsafe fn across_two(weights: &Weights, columns: usize, rows: [*const u8; 2], out: [*mut u8; 2]) {
        let first = _mm256_broadcastsi128_si256(side_by_side(false));
        let second = _mm256_broadcastsi128_si256(side_by_side(true));
        let half = _mm256_set1_epi32(1 << (weights.bits - 1));
        let shift = _mm_cvtsi32_si128(weights.bits as i32);
        let fours = weights.fours.values.chunks_exact(weights.fours.depth);
        for (column, (place, fours)) in weights.fours.first[..columns].iter().zip(fours).enumerate() {
            let (mut upper, mut lower) = (_mm256_setzero_si256(), _mm256_setzero_si256());
            for (at, [upper_first, upper_second, lower_first, lower_second]) in fours.iter().enumerate() {
                let place = 3 * place + 12 * at;
                // SAFETY: the caller says so.
                let [one, other] = rows.map(|row| unsafe { sixteen(row, place) });
                let pixels = _mm256_set_m128i(other, one);
                let (a, b) = (_mm256_shuffle_epi8(pixels, first), _mm256_shuffle_epi8(pixels, second));
                upper = add(upper, multiplied(a, *upper_first), multiplied(b, *upper_second));
                lower = add(lower, multiplied(a, *lower_first), multiplied(b, *lower_second));
            }
            let sums = add(_mm256_slli_epi32::<{ LOWER as i32 }>(upper), lower, half);
            let words = _mm256_packs_epi32(_mm256_sra_epi32(sums, shift), sums);
            let bytes = _mm256_packus_epi16(words, words);
            let pixels = [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)];
            for (out, pixel) in out.into_iter().zip(pixels) {
                // SAFETY: the caller says so.
                unsafe { put(out, column, pixel) };
            }
        }
    }

    /// # Safety
    /// As `across_two`.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn across_four(weights: &Weights, columns: usize, rows: [*const u8; 4], out: [*mut u8; 4]) {
        let first = _mm512_broadcast_i32x4(side_by_side(false));
        let second = _mm512_broadcast_i32x4(side_by_side(true));
        let half = _mm512_set1_epi32(1 << (weights.bits - 1));
        let shift = _mm_cvtsi32_si128(weights.bits as i32);
        let add =
            |one: __m512i, two: __m512i, three: __m512i| _mm512_add_epi32(_mm512_add_epi32(one, two), three);
        let multiplied = |pixels: __m512i, pair: i32| _mm512_madd_epi16(pixels, _mm512_set1_epi32(pair));
        let fours = weights.fours.values.chunks_exact(weights.fours.depth);
        for (column, (place, fours)) in weights.fours.first[..columns].iter().zip(fours).enumerate() {
            let (mut upper, mut lower) = (_mm512_setzero_si512(), _mm512_setzero_si512());
            for (at, [upper_first, upper_second, lower_first, lower_second]) in fours.iter().enumerate() {
                let place = 3 * place + 12 * at;
                // SAFETY: the caller says so.
                let [one, two, three, four] = rows.map(|row| unsafe { sixteen(row, place) });
                let pixels = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(one), two);
                let pixels = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(pixels, three), four);
                let (a, b) = (_mm512_shuffle_epi8(pixels, first), _mm512_shuffle_epi8(pixels, second));
                upper = add(upper, multiplied(a, *upper_first), multiplied(b, *upper_second));
                lower = add(lower, multiplied(a, *lower_first), multiplied(b, *lower_second));
            }
            let sums = add(_mm512_slli_epi32::<LOWER>(upper), lower, half);
            let words = _mm512_packs_epi32(_mm512_sra_epi32(sums, shift), sums);
            let bytes = _mm512_packus_epi16(words, words);
            let pixels = [
                _mm512_extracti32x4_epi32::<0>(bytes),
                _mm512_extracti32x4_epi32::<1>(bytes),
                _mm512_extracti32x4_epi32::<2>(bytes),
                _mm512_extracti32x4_epi32::<3>(bytes),
            ];
            for (out, pixel) in out.into_iter().zip(pixels) {
                // SAFETY: the caller says so.
                unsafe { put(out, column, pixel) };
            }
        }
    }

    /// # Safety
    /// There are sixteen bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn sixteen(row: *const u8, at: usize) -> __m128i {
        // SAFETY: the caller says so.
        let place = unsafe { row.add(at) };
        // SAFETY: the caller says so.
        unsafe { _mm_loadu_si128(place.cast()) }
    }

    /// Three bytes, and a fourth that the next pixel will write over.
    ///
    /// # Safety
    /// There is room.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn put(out: *mut u8, column: usize, pixel: __m128i) {
        let pixel = std::arch::x86_64::_mm_cvtsi128_si32(pixel);
        // SAFETY: the caller says so.
        let place = unsafe { out.add(3 * column) };
        // SAFETY: the caller says so.
        unsafe { place.cast::<i32>().write_unaligned(pixel) };
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn multiplied(pixels: __m256i, pair: i32) -> __m256i {
        _mm256_madd_epi16(pixels, _mm256_set1_epi32(pair))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(one: __m256i, two: __m256i, three: __m256i) -> __m256i {
        _mm256_add_epi32(_mm256_add_epi32(one, two), three)
    }

    /// As many columns as fill vectors; says how many.
    #[target_feature(enable = "avx2")]
    pub(super) fn down(weights: &[i32], bits: u32, rows: &[u8], stride: usize, out: &mut [u8]) -> usize {
        const MOST: usize = 64;
        let mut pairs = [(0, 0); MOST];
        if weights.is_empty() || weights.len() > 2 * MOST {
            return 0;
        }
        for (pair, weights) in pairs.iter_mut().zip(weights.chunks(2)) {
            *pair = halves(weights[0], weights.get(1).copied().unwrap_or(0));
        }
        let pairs = &pairs[..weights.len().div_ceil(2)];
        // The last row has a weight of its own or, with one of nothing, goes with itself.
        let second = |pair: usize| (2 * pair + 1).min(weights.len() - 1);
        let columns = out.len() / 16 * 16;
        assert!((weights.len() - 1) * stride + columns <= rows.len(), "there are rows for all weights");
        let half = _mm256_set1_epi32(1 << (bits - 1));
        let shift = _mm_cvtsi32_si128(bits as i32);
        for (block, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let mut sums = [[_mm256_setzero_si256(); 2]; 2];
            for (at, (upper, lower)) in pairs.iter().enumerate() {
                let [one, other] = [2 * at, second(at)].map(|row| {
                    // SAFETY: it was looked whether there are as many.
                    unsafe { sixteen(rows.as_ptr(), row * stride + 16 * block) }
                });
                let mixed = [_mm_unpacklo_epi8(one, other), _mm_unpackhi_epi8(one, other)];
                for ([upper_sum, lower_sum], mixed) in sums.iter_mut().zip(mixed) {
                    let pixels = _mm256_cvtepu8_epi16(mixed);
                    *upper_sum = _mm256_add_epi32(*upper_sum, multiplied(pixels, *upper));
                    *lower_sum = _mm256_add_epi32(*lower_sum, multiplied(pixels, *lower));
                }
            }
            let [left, right] = sums.map(|[upper, lower]| {
                let sum = add(_mm256_slli_epi32::<{ LOWER as i32 }>(upper), lower, half);
                _mm256_sra_epi32(sum, shift)
            });
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(left, right));
            let bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            // SAFETY: there is room for sixteen.
            unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), bytes) };
        }
        columns
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
            rows in 1usize..9,
            bicubic: bool,
            torchvision: bool,
            bytes in prop::collection::vec(any::<u8>(), 3 * 90 * 9),
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
            down_from(0, column, weights.bits, &bytes, 3 * inputs, &mut other);
            prop_assert_eq!(one, other);
        }
    }
}
