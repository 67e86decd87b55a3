//! Stored numbers to values: as floats of 64 bits, times a slope, plus an intercept; each step rounded once, as nibabel has it.

use feedline_core::{DType, bf16, f16};

/// Writes the values of numbers that are in this machine's order of bytes.
pub(super) fn into(dtype: DType, numbers: &[u8], scaling: Option<(f64, f64)>, values: &mut [f64]) {
    match dtype {
        DType::Bool | DType::U8 => convert(numbers, scaling, values, |[byte]: [u8; 1]| f64::from(byte)),
        DType::I8 => convert(numbers, scaling, values, |bytes| f64::from(i8::from_ne_bytes(bytes))),
        DType::U16 => convert(numbers, scaling, values, |bytes| f64::from(u16::from_ne_bytes(bytes))),
        DType::I16 => convert(numbers, scaling, values, |bytes| f64::from(i16::from_ne_bytes(bytes))),
        DType::F16 => convert(numbers, scaling, values, |bytes| f16::from_ne_bytes(bytes).to_f64()),
        DType::Bf16 => convert(numbers, scaling, values, |bytes| bf16::from_ne_bytes(bytes).to_f64()),
        DType::U32 => convert(numbers, scaling, values, |bytes| f64::from(u32::from_ne_bytes(bytes))),
        DType::I32 => convert(numbers, scaling, values, |bytes| f64::from(i32::from_ne_bytes(bytes))),
        DType::F32 => convert(numbers, scaling, values, |bytes| f64::from(f32::from_ne_bytes(bytes))),
        DType::U64 => convert(numbers, scaling, values, |bytes| u64::from_ne_bytes(bytes) as f64),
        DType::I64 => convert(numbers, scaling, values, |bytes| i64::from_ne_bytes(bytes) as f64),
        DType::F64 => convert(numbers, scaling, values, f64::from_ne_bytes),
    }
}

/// Scales values where they are.
pub(super) fn in_place(values: &mut [f64], scaling: Option<(f64, f64)>) {
    if scaling.is_none() {
        return;
    }
    let scale = scaled(scaling);
    for value in values {
        *value = scale(*value);
    }
}

fn convert<const N: usize>(
    numbers: &[u8],
    scaling: Option<(f64, f64)>,
    values: &mut [f64],
    number: impl Fn([u8; N]) -> f64,
) {
    let scale = scaled(scaling);
    for (value, bytes) in values.iter_mut().zip(numbers.as_chunks::<N>().0) {
        *value = scale(number(*bytes));
    }
}

/// A slope of one and an intercept of zero change nothing, not even the sign of a zero.
fn scaled(scaling: Option<(f64, f64)>) -> impl Fn(f64) -> f64 {
    let (slope, intercept) = scaling.unwrap_or((1.0, 0.0));
    // Adding -0.0 leaves every number as it is, and so does multiplying by one.
    let intercept = if intercept == 0.0 { -0.0 } else { intercept };
    move |number| number * slope + intercept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_after_each_step() {
        let numbers: Vec<u8> = [-7i16, 3, 32767].iter().flat_map(|number| number.to_ne_bytes()).collect();
        let mut values = [0.0; 3];
        into(DType::I16, &numbers, Some((0.1, -1e-17)), &mut values);
        assert_eq!(values, [-7.0 * 0.1 - 1e-17, 3.0 * 0.1 - 1e-17, 32767.0 * 0.1 - 1e-17]);
        into(DType::I16, &numbers, None, &mut values);
        assert_eq!(values, [-7.0, 3.0, 32767.0]);
        let mut zero = [-0.0];
        in_place(&mut zero, Some((1.0, 0.0)));
        assert!(zero[0].is_sign_negative());
        in_place(&mut zero, Some((2.0, 0.0)));
        assert!(zero[0].is_sign_negative());
    }
}
