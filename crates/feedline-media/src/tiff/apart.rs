//! Numbers of several channels that lie together, pixel by pixel, taken apart into planes.

/// Every `step`-th number of so many bytes.
pub(super) fn every<const SIZE: usize>(row: &[u8], step: usize, target: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[target_feature(enable = "avx2")]
        fn wide<const SIZE: usize>(row: &[u8], step: usize, target: &mut [u8]) {
            every_of::<SIZE>(row, step, target);
        }
        // SAFETY: the machine has it.
        return unsafe { wide::<SIZE>(row, step, target) };
    }
    every_of::<SIZE>(row, step, target);
}

/// The usual steps are known when this is compiled, which is several times as fast.
#[expect(clippy::inline_always, reason = "it is compiled for what its caller may use")]
#[inline(always)]
fn every_of<const SIZE: usize>(row: &[u8], step: usize, target: &mut [u8]) {
    let (numbers, _) = row.as_chunks::<SIZE>();
    let (targets, _) = target.as_chunks_mut::<SIZE>();
    match step {
        2 => firsts::<SIZE, 2>(numbers, targets),
        3 => firsts::<SIZE, 3>(numbers, targets),
        4 => firsts::<SIZE, 4>(numbers, targets),
        5 => firsts::<SIZE, 5>(numbers, targets),
        6 => firsts::<SIZE, 6>(numbers, targets),
        7 => firsts::<SIZE, 7>(numbers, targets),
        8 => firsts::<SIZE, 8>(numbers, targets),
        _ => {
            for (target, number) in targets.iter_mut().zip(numbers.iter().step_by(step)) {
                *target = *number;
            }
        }
    }
}

/// The first number of every group; the last group may end with it.
#[expect(clippy::inline_always, reason = "it is compiled for what its caller may use")]
#[inline(always)]
fn firsts<const SIZE: usize, const STEP: usize>(numbers: &[[u8; SIZE]], targets: &mut [[u8; SIZE]]) {
    let (groups, rest) = numbers.as_chunks::<STEP>();
    let whole = targets.len().min(groups.len());
    let (targets, last) = targets.split_at_mut(whole);
    for (target, group) in targets.iter_mut().zip(groups) {
        *target = group[0];
    }
    if let (Some(target), Some(number)) = (last.first_mut(), rest.first()) {
        *target = *number;
    }
}

/// All numbers of two bytes of pixels that lie side by side, each channel into its plane; planes begin so many bytes after
/// each other. Says how many pixels were done: none, if there is no fast way for so many channels or on this machine.
pub(super) fn words(pixels: &[u8], channels: usize, planes: &mut [u8], plane: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        let apart: unsafe fn(&[u8], &mut [u8], usize) -> usize = match channels {
            3 => wide::three,
            5 => wide::five,
            7 => wide::seven,
            _ => return 0,
        };
        // SAFETY: the machine has it.
        return unsafe { apart(pixels, planes, plane) };
    }
    0
}

/// Eight pixels at a time, which are as many vectors as there are channels.
///
/// Number `n` of the eight of a channel lies at `n * channels + channel`. If there is an odd number of channels, no two of
/// these have the same place in their vectors: so the vectors are laid over each other first, and put in order by one
/// instruction at the end, where others would need one for each vector.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{__m128i, _mm_blend_epi16, _mm_loadu_si128, _mm_shuffle_epi8, _mm_storeu_si128};

    const LANES: usize = 8;

    /// Which places of a vector have numbers of a channel.
    const fn taken(channels: usize, channel: usize, vector: usize) -> i32 {
        let (mut places, mut number) = (0, 0);
        while number < LANES {
            let at = number * channels + channel;
            if at / LANES == vector {
                places |= 1 << (at % LANES);
            }
            number += 1;
        }
        places
    }

    /// Where the bytes of each number of a channel are, once its vectors lie over each other.
    const fn order(channels: usize, channel: usize) -> [u8; 2 * LANES] {
        let (mut bytes, mut number) = ([0; 2 * LANES], 0);
        while number < LANES {
            let at = 2 * ((number * channels + channel) % LANES);
            (bytes[2 * number], bytes[2 * number + 1]) = (at as u8, at as u8 + 1);
            number += 1;
        }
        bytes
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; 2 * LANES]) -> __m128i {
        // SAFETY: there are as many bytes, and they may lie anywhere.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(vector: __m128i, target: &mut [u8]) {
        let target: &mut [u8; 2 * LANES] = target.try_into().expect("as many bytes as a vector has");
        // SAFETY: there are as many bytes, and they may lie anywhere.
        unsafe { _mm_storeu_si128(target.as_mut_ptr().cast(), vector) };
    }

    macro_rules! apart {
        ($name:ident, $channels:literal, [$($channel:literal)*], $laid:tt) => {
            #[target_feature(enable = "avx2")]
            pub(super) fn $name(pixels: &[u8], planes: &mut [u8], plane: usize) -> usize {
                let (vectors, _) = pixels.as_chunks::<{ 2 * LANES }>();
                let (blocks, _) = vectors.as_chunks::<$channels>();
                for (at, block) in blocks.iter().enumerate() {
                    let mut vectors = [load(&block[0]); $channels];
                    for (vector, bytes) in vectors.iter_mut().zip(block) {
                        *vector = load(bytes);
                    }
                    $(
                        let laid = apart!(laid vectors, $channels, $channel, $laid);
                        let ordered = _mm_shuffle_epi8(laid, load(const { &order($channels, $channel) }));
                        store(ordered, &mut planes[$channel * plane + 2 * LANES * at..][..2 * LANES]);
                    )*
                }
                LANES * blocks.len()
            }
        };
        (laid $vectors:ident, $channels:literal, $channel:literal, [$($vector:literal)*]) => {{
            let laid = $vectors[0];
            $(let laid = _mm_blend_epi16::<{ taken($channels, $channel, $vector) }>(laid, $vectors[$vector]);)*
            laid
        }};
    }

    apart!(three, 3, [0 1 2], [1 2]);
    apart!(five, 5, [0 1 2 3 4], [1 2 3 4]);
    apart!(seven, 7, [0 1 2 3 4 5 6], [1 2 3 4 5 6]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_sample_are_taken_at_any_step() {
        let row: Vec<u8> = (0..200).collect();
        for step in 2..12 {
            for (begin, width) in [(0, 1), (1, 1), (1, 7), (step - 1, 9)] {
                // As many as there are, up to the last that is wanted.
                let numbers = &row[2 * begin..2 * (begin + (width - 1) * step + 1)];
                let mut target = vec![0; 2 * width];
                every::<2>(numbers, step, &mut target);
                let expected: Vec<u8> = (0..width)
                    .flat_map(|at| [row[2 * (begin + at * step)], row[2 * (begin + at * step) + 1]])
                    .collect();
                assert_eq!(target, expected, "{step} {begin} {width}");
            }
        }
    }

    #[test]
    fn what_is_taken_apart_at_once_is_what_is_taken_one_by_one() {
        for channels in 2..9 {
            for width in [0, 1, 7, 8, 9, 16, 41] {
                let pixels: Vec<u8> = (0..2 * channels * width).map(|at| (at * 7 % 251) as u8).collect();
                // Planes with room between them, which stays as it is.
                let plane = 2 * width + 6;
                let (mut found, mut expected) = (vec![9; channels * plane], vec![9; channels * plane]);
                let done = words(&pixels, channels, &mut found, plane);
                assert!(
                    done == 0 || (channels % 2 == 1 && done == width / 8 * 8),
                    "{channels} {width} {done}"
                );
                for channel in (0..channels).filter(|_| done > 0) {
                    let target = &mut expected[channel * plane..][..2 * done];
                    every::<2>(&pixels[2 * channel..], channels, target);
                }
                assert_eq!(found, expected, "{channels} channels, {width} pixels");
            }
        }
    }
}
