//! From planes of brightness and of two thinned-out colours to red, green and blue, to the bit as libjpeg has it.
//!
//! Where colours are thinned out, a pixel's is mixed from the two nearest of them in each direction, three parts of the
//! nearer and one of the other.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_or_si128, _mm_shuffle_epi8, _mm_storeu_si128, _mm256_add_epi16,
    _mm256_add_epi32, _mm256_castsi256_si128, _mm256_cvtepu8_epi16, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_mulhi_epi16, _mm256_mullo_epi16, _mm256_packs_epi32,
    _mm256_packus_epi16, _mm256_permute2x128_si256, _mm256_permute4x64_epi64, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_slli_epi16, _mm256_srai_epi16, _mm256_srai_epi32, _mm256_srli_epi16,
    _mm256_storeu_si256, _mm256_sub_epi16, _mm256_unpackhi_epi16, _mm256_unpacklo_epi16,
};

/// Pixels that are made at once.
pub(super) const STEP: usize = 32;

/// A row of a colour: the one that the pixels lie in, and the other one that is near, which may be the same.
#[derive(Clone, Copy)]
pub(super) struct Near<'a> {
    pub(super) row: &'a [u8],
    pub(super) other: &'a [u8],
}

/// Which of a colour's values there are for a row of pixels.
#[derive(Clone, Copy)]
pub(super) struct Range {
    /// Pairs of pixels: as many values are in their midst.
    pub(super) pairs: usize,
    /// Whether there is one before them, and one behind. Otherwise the first and the last stand for it.
    pub(super) before: bool,
    pub(super) behind: bool,
}

/// Mixed values of one row of a colour: sixteen times what they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Mixed {
    sums: Vec<i16>,
    /// What rounds the left one of two pixels, and the right one.
    halves: (i16, i16),
}

impl Mixed {
    /// Mixes two rows. They begin with the value before the pixels', if there is one, and 16 more than are needed can be
    /// read.
    #[target_feature(enable = "avx2")]
    pub(super) fn set(&mut self, near: Near<'_>, range: Range, is_thinned_down: bool) {
        let count = range.pairs + usize::from(range.before) + usize::from(range.behind);
        let first = usize::from(!range.before);
        let needed = range.pairs + 2 + STEP;
        if self.sums.len() < needed {
            self.sums.resize(needed, 0);
        }
        // Of rows that are not thinned out downwards, the same four times; it is then rounded like three and one.
        self.halves = if is_thinned_down { (8, 7) } else { (4, 8) };
        let three = _mm256_set1_epi16(3);
        for at in (0..count).step_by(16) {
            let (row, other) = (words(near.row, at), words(near.other, at));
            let sum = _mm256_add_epi16(_mm256_mullo_epi16(row, three), other);
            put(&mut self.sums, first + at, sum);
        }
        if !range.before {
            self.sums[0] = self.sums[1];
        }
        if !range.behind {
            self.sums[range.pairs + 1] = self.sums[range.pairs];
        }
    }

    /// The colours of 32 pixels, from the `at`-th pair on, less 128.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn get(&self, at: usize) -> [__m256i; 2] {
        let three = _mm256_set1_epi16(3);
        let load = |at: usize| {
            let sums = &self.sums[at..at + 16];
            // SAFETY: sixteen numbers are as long as the vector.
            unsafe { _mm256_loadu_si256(sums.as_ptr().cast()) }
        };
        let middle = _mm256_mullo_epi16(load(at + 1), three);
        let mixed = |other: usize, half: i16| {
            let sum = _mm256_add_epi16(_mm256_add_epi16(middle, load(at + other)), _mm256_set1_epi16(half));
            _mm256_sub_epi16(_mm256_srli_epi16::<4>(sum), _mm256_set1_epi16(128))
        };
        let (left, right) = (mixed(0, self.halves.0), mixed(2, self.halves.1));
        let (low, high) = (_mm256_unpacklo_epi16(left, right), _mm256_unpackhi_epi16(left, right));
        [_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high)]
    }
}

/// Writes a row of pixels whose colours are thinned out across. Up to 31 pixels more are read and written.
#[target_feature(enable = "avx2")]
pub(super) fn write_mixed(brightness: &[u8], blue: &Mixed, red: &Mixed, width: usize, out: &mut [u8]) {
    for at in (0..width).step_by(STEP) {
        let light = [words(brightness, at), words(brightness, at + 16)];
        write(light, blue.get(at / 2), red.get(at / 2), &mut out[3 * at..][..3 * STEP]);
    }
}

/// The same where every pixel has its colour.
#[target_feature(enable = "avx2")]
pub(super) fn write_full(brightness: &[u8], blue: &[u8], red: &[u8], width: usize, out: &mut [u8]) {
    let middle = _mm256_set1_epi16(128);
    for at in (0..width).step_by(STEP) {
        let light = [words(brightness, at), words(brightness, at + 16)];
        let [blue, red] =
            [blue, red].map(|colour| [at, at + 16].map(|at| _mm256_sub_epi16(words(colour, at), middle)));
        write(light, blue, red, &mut out[3 * at..][..3 * STEP]);
    }
}

/// The same without colours.
#[target_feature(enable = "avx2")]
pub(super) fn write_gray(brightness: &[u8], width: usize, out: &mut [u8]) {
    for at in (0..width).step_by(16) {
        let gray = sixteen(brightness, at);
        interleave([gray; 3], &mut out[3 * at..][..48]);
    }
}

/// Thirty-two pixels.
#[inline]
#[target_feature(enable = "avx2")]
fn write(light: [__m256i; 2], blue: [__m256i; 2], red: [__m256i; 2], out: &mut [u8]) {
    let [one, other] = [0, 1].map(|half| colours(light[half], blue[half], red[half]));
    let bytes: [__m256i; 3] = std::array::from_fn(|channel| {
        _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(one[channel], other[channel]))
    });
    let (first, second) = out.split_at_mut(48);
    interleave(bytes.map(|bytes| _mm256_castsi256_si128(bytes)), first);
    interleave(bytes.map(|bytes| _mm256_extracti128_si256::<1>(bytes)), second);
}

/// Red, green and blue of sixteen pixels, before they are cut off at 0 and 255.
///
/// The factors are those of libjpeg, of 16 bits behind the point; what does not fit into 16 bits is a whole number more.
#[inline]
#[target_feature(enable = "avx2")]
fn colours(light: __m256i, blue: __m256i, red: __m256i) -> [__m256i; 3] {
    // 1.402 = 1 + 26345 / 65536, 1.772 = 2 - 14942 / 65536. Twice the product, then half of it: that is how it is rounded.
    let part = |colour: __m256i, factor: i16| {
        let twice = _mm256_mulhi_epi16(_mm256_slli_epi16::<1>(colour), _mm256_set1_epi16(factor));
        _mm256_srai_epi16::<1>(_mm256_add_epi16(twice, _mm256_set1_epi16(1)))
    };
    let r = _mm256_add_epi16(_mm256_add_epi16(light, red), part(red, 26345));
    let b = _mm256_add_epi16(_mm256_add_epi16(light, _mm256_slli_epi16::<1>(blue)), part(blue, -14942));
    // -0.34414 = -22554 / 65536, -0.71414 = -1 + 18734 / 65536.
    let factors = _mm256_set1_epi32((18734 << 16) + (-22554 + (1 << 16)));
    let sums = |pairs: __m256i| {
        let sum = _mm256_add_epi32(_mm256_madd_epi16(pairs, factors), _mm256_set1_epi32(1 << 15));
        _mm256_srai_epi32::<16>(sum)
    };
    let both =
        _mm256_packs_epi32(sums(_mm256_unpacklo_epi16(blue, red)), sums(_mm256_unpackhi_epi16(blue, red)));
    let g = _mm256_add_epi16(_mm256_sub_epi16(light, red), both);
    [r, g, b]
}

/// For each third of 16 pixels' bytes, where those of a channel come from.
const PLACES: [[[i8; 16]; 3]; 3] = {
    let mut places = [[[-1; 16]; 3]; 3];
    let mut at = 0;
    while at < 48 {
        places[at / 16][at % 3][at % 16] = (at / 3) as i8;
        at += 1;
    }
    places
};

/// Bytes of three channels to 48 bytes of pixels.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave(channels: [__m128i; 3], out: &mut [u8]) {
    let (thirds, _) = out.as_chunks_mut::<16>();
    for (places, out) in PLACES.iter().zip(thirds) {
        let [r, g, b]: [__m128i; 3] = std::array::from_fn(|channel| {
            // SAFETY: sixteen bytes are as long as the vector.
            let places = unsafe { _mm_loadu_si128(places[channel].as_ptr().cast()) };
            _mm_shuffle_epi8(channels[channel], places)
        });
        let all = _mm_or_si128(_mm_or_si128(r, g), b);
        // SAFETY: sixteen bytes are as long as the vector.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), all) };
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn sixteen(bytes: &[u8], at: usize) -> __m128i {
    let bytes = &bytes[at..at + 16];
    // SAFETY: sixteen bytes are as long as the vector.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Sixteen bytes as numbers of 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn words(bytes: &[u8], at: usize) -> __m256i {
    _mm256_cvtepu8_epi16(sixteen(bytes, at))
}

#[inline]
#[target_feature(enable = "avx2")]
fn put(sums: &mut [i16], at: usize, value: __m256i) {
    let sums = &mut sums[at..at + 16];
    // SAFETY: sixteen numbers are as long as the vector.
    unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), value) };
}
