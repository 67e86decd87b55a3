//! From the numbers of a block to its pixels: the inverse cosine transform of libjpeg's "slow" kind, to the bit.
//!
//! Sums and products are of 16 and 32 bits in the places where libjpeg-turbo's vectors have them, so that even numbers that
//! no encoder would write overflow alike.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi8, _mm_add_epi16, _mm_loadu_si128, _mm_mullo_epi16, _mm_or_si128,
    _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi8, _mm_set1_epi16, _mm_slli_epi16, _mm_storel_epi64,
    _mm_storeu_si128, _mm_sub_epi16, _mm_testz_si128, _mm_unpackhi_epi16, _mm_unpackhi_epi64,
    _mm_unpacklo_epi16, _mm256_add_epi32, _mm256_castsi256_si128, _mm256_cvtepi16_epi32,
    _mm256_extracti128_si256, _mm256_madd_epi16, _mm256_set_m128i, _mm256_set1_epi32, _mm256_slli_epi32,
    _mm256_srai_epi32, _mm256_sub_epi32,
};

/// Eight rows of a block, or eight columns.
type Lines = [__m128i; 8];

/// Writes the 8 × 8 pixels of a block. Each number is multiplied by its own of `quants` before. Rows of `out` are `stride`
/// bytes apart.
///
/// # Panics
/// If there is not so much room.
#[target_feature(enable = "avx2")]
pub(super) fn pixels(block: &[i16; 64], quants: &[i16; 64], out: &mut [u8], stride: usize) {
    assert!(out.len() >= 7 * stride + 8, "there is room for a block");
    let rows: Lines = std::array::from_fn(|row| line(block, row));
    let mut below = rows[1];
    for row in &rows[2..] {
        below = _mm_or_si128(below, *row);
    }
    let columns = if _mm_testz_si128(below, below) == 1 {
        // Every column is of one value.
        let first = _mm_slli_epi16::<2>(_mm_mullo_epi16(rows[0], line(quants, 0)));
        let mut values = [0i16; 8];
        // SAFETY: eight numbers are as long as the vector.
        unsafe { _mm_storeu_si128(values.as_mut_ptr().cast(), first) };
        values.map(|value| _mm_set1_epi16(value))
    } else {
        let rows = std::array::from_fn(|row| _mm_mullo_epi16(rows[row], line(quants, row)));
        turned(along::<11>(rows))
    };
    let rows = turned(along::<18>(columns));
    let middle = _mm_set1_epi8(-128);
    for (pair, two) in rows.chunks_exact(2).enumerate() {
        let bytes = _mm_add_epi8(_mm_packs_epi16(two[0], two[1]), middle);
        let place = out[2 * pair * stride..].as_mut_ptr();
        // SAFETY: there is room for eight rows, as was looked; this is within the second of the pair.
        let next = unsafe { place.add(stride) };
        // SAFETY: as above.
        unsafe { _mm_storel_epi64(place.cast(), bytes) };
        let second = _mm_unpackhi_epi64(bytes, bytes);
        // SAFETY: as above.
        unsafe { _mm_storel_epi64(next.cast(), second) };
    }
}

/// The same of a block that has only its first number: all pixels are alike.
pub(super) fn even(first: i16, quant: i16, out: &mut [u8], stride: usize) {
    let value = i32::from(first.wrapping_mul(quant).wrapping_shl(2));
    let pixel = (((value + 16) >> 5) + 128).clamp(0, 255) as u8;
    for row in 0..8 {
        out[row * stride..][..8].fill(pixel);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn line(block: &[i16; 64], row: usize) -> __m128i {
    let line = &block[8 * row..][..8];
    // SAFETY: eight numbers are as long as the vector.
    unsafe { _mm_loadu_si128(line.as_ptr().cast()) }
}

/// The transform of eight lines at once, one along each lane. `SHIFT` bits are rounded off.
#[inline]
#[target_feature(enable = "avx2")]
fn along<const SHIFT: i32>(lines: Lines) -> Lines {
    let [in0, in1, in2, in3, in4, in5, in6, in7] = lines;
    // The even ones: 8192 times the sum and the difference of two, and a rotation of two others.
    let sum = _mm256_slli_epi32::<13>(_mm256_cvtepi16_epi32(_mm_add_epi16(in0, in4)));
    let difference = _mm256_slli_epi32::<13>(_mm256_cvtepi16_epi32(_mm_sub_epi16(in0, in4)));
    let pair = side_by_side(in2, in6);
    let (large, small) = (products(pair, 10703, 4433), products(pair, 4433, -10704));
    let half = _mm256_set1_epi32(1 << (SHIFT - 1));
    let (sum, difference) = (_mm256_add_epi32(sum, half), _mm256_add_epi32(difference, half));
    let outer = [_mm256_add_epi32(sum, large), _mm256_sub_epi32(sum, large)];
    let inner = [_mm256_add_epi32(difference, small), _mm256_sub_epi32(difference, small)];
    // The odd ones.
    let pair = side_by_side(_mm_add_epi16(in7, in3), _mm_add_epi16(in5, in1));
    let (one, other) = (products(pair, -6436, 9633), products(pair, 9633, 6437));
    let pair = side_by_side(in7, in1);
    let fourth = _mm256_add_epi32(products(pair, -4927, -7373), one);
    let first = _mm256_add_epi32(products(pair, -7373, 4926), other);
    let pair = side_by_side(in5, in3);
    let third = _mm256_add_epi32(products(pair, -4176, -20995), other);
    let second = _mm256_add_epi32(products(pair, -20995, 4177), one);
    let (out0, out7) = both::<SHIFT>(outer[0], first);
    let (out1, out6) = both::<SHIFT>(inner[0], second);
    let (out2, out5) = both::<SHIFT>(inner[1], third);
    let (out3, out4) = both::<SHIFT>(outer[1], fourth);
    [out0, out1, out2, out3, out4, out5, out6, out7]
}

/// The sum and the difference of two, rounded, of 16 bits again.
#[inline]
#[target_feature(enable = "avx2")]
fn both<const SHIFT: i32>(even: __m256i, odd: __m256i) -> (__m128i, __m128i) {
    let sum = _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(even, odd));
    let difference = _mm256_srai_epi32::<SHIFT>(_mm256_sub_epi32(even, odd));
    (narrow(sum), narrow(difference))
}

#[inline]
#[target_feature(enable = "avx2")]
fn narrow(wide: __m256i) -> __m128i {
    _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256::<1>(wide))
}

/// Pairs of a number of each.
#[inline]
#[target_feature(enable = "avx2")]
fn side_by_side(one: __m128i, other: __m128i) -> __m256i {
    _mm256_set_m128i(_mm_unpackhi_epi16(one, other), _mm_unpacklo_epi16(one, other))
}

/// The sums of pairs, each times its own.
#[inline]
#[target_feature(enable = "avx2")]
fn products(pairs: __m256i, one: i16, other: i16) -> __m256i {
    _mm256_madd_epi16(pairs, _mm256_set1_epi32(i32::from(one) & 0xffff | i32::from(other) << 16))
}

/// Rows to columns.
#[inline]
#[target_feature(enable = "avx2")]
fn turned(lines: Lines) -> Lines {
    let mut lines = lines;
    // Three times, neighbours of half of the lines and of the other half are put side by side.
    for _ in 0..3 {
        lines = std::array::from_fn(|at| {
            let (one, other) = (lines[at / 2], lines[at / 2 + 4]);
            if at % 2 == 0 { _mm_unpacklo_epi16(one, other) } else { _mm_unpackhi_epi16(one, other) }
        });
    }
    lines
}
