//! A map that is 1 where the distance is 0, and falls like a bell: `exp(-0.5 (distance / sigma)²)`.
//!
//! The exponential is computed here, in f32 and without a branch, so that a loop has several at once. It is within 2e-7
//! of the exact value everywhere.

use super::number::Number;

/// Writes the falloff of each distance.
///
/// # Panics
/// If there are not as many numbers for the result as distances.
pub fn write<T: Number>(distances: &[T], sigma: f64, out: &mut [f32]) {
    // What stays in the nearest cache between the two loops.
    const STRETCH: usize = 4096;
    assert_eq!(out.len(), distances.len(), "a result has as many voxels");
    // Nothing is infinitely many times as far, so that 0 stays 0.
    let inverse = ((1.0 / sigma) as f32).min(f32::MAX);
    for (out, distances) in out.chunks_mut(STRETCH).zip(distances.chunks(STRETCH)) {
        out.iter_mut().zip(distances).for_each(|(out, distance)| *out = distance.narrow());
        bells(out, inverse);
    }
}

/// Each number to its falloff.
fn bells(values: &mut [f32], inverse: f32) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[target_feature(enable = "avx2")]
        fn wide(values: &mut [f32], inverse: f32) {
            bells_by(values, inverse);
        }
        // SAFETY: the machine has it.
        return unsafe { wide(values, inverse) };
    }
    bells_by(values, inverse);
}

#[expect(clippy::inline_always, reason = "it is compiled for what its caller may use")]
#[inline(always)]
fn bells_by(values: &mut [f32], inverse: f32) {
    for value in values {
        let relative = *value * inverse;
        *value = exponential(-0.5 * relative * relative);
    }
}

/// `e` to the power of a number that is not above 0.
#[inline(always)]
fn exponential(power: f32) -> f32 {
    // Below that, nothing is left of it in f32.
    const LEAST: f32 = -87.0;
    // Added, it leaves no bits behind the point; those of the whole number are then the lowest.
    const ROUND: f32 = 1.5 * (1u32 << 23) as f32;
    // The first part of ln 2 has few bits, so that its product with a whole number is exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let within = power.max(LEAST);
    let rounded = within * std::f32::consts::LOG2_E + ROUND;
    let halvings = rounded - ROUND;
    let rest = (within - halvings * LN_2[0]) - halvings * LN_2[1];
    // The series of the exponential around 0; the rest is at most ln 2 / 2.
    let series = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    let value = series.into_iter().fold(0.0, |sum, factor| sum * rest + factor);
    let exponent = rounded.to_bits().wrapping_add(127) << 23;
    let found = value * f32::from_bits(exponent);
    if power < LEAST { 0.0 } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential() {
        for at in 0..200_000 {
            let power = -f64::from(at) * 5e-4;
            let found = f64::from(exponential(power as f32));
            assert!((found - power.exp()).abs() < 2e-7, "{power} {found}");
        }
        assert_eq!([exponential(0.0), exponential(-1e30), exponential(f32::NEG_INFINITY)], [1.0, 0.0, 0.0]);
    }

    #[test]
    fn it_falls_with_the_distance() {
        let mut out = [0.0; 4];
        write(&[0.0f64, 2.0, 4.0, 1e300], 2.0, &mut out);
        let expected = [1.0, (-0.5f32).exp(), (-2.0f32).exp(), 0.0];
        assert!(out.iter().zip(expected).all(|(found, wanted)| (found - wanted).abs() < 2e-7), "{out:?}");
        write(&[0.0f32, 1e-30, 1.0, f32::INFINITY], 1e-300, &mut out);
        assert_eq!(out, [1.0, 0.0, 0.0, 0.0]);
    }
}
