//! Numbers that are written with digits: decimal ones with blanks between them, or bytes of two hexadecimal digits.

use feedline_core::{DType, f16};

use super::VolumeError;

fn damaged(why: String) -> VolumeError {
    VolumeError::Damaged("NRRD", why)
}

/// Writes the numbers of a text, which must be as many as there is room for.
pub(super) fn numbers(text: &[u8], dtype: DType, row: &mut [u8]) -> Result<(), VolumeError> {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let expected = row.len() as u64;
    for (number, place) in row.chunks_exact_mut(dtype.size()).enumerate() {
        let Some(word) = words.next() else {
            let found = format!("are {number} numbers of {} bytes", dtype.size());
            return Err(VolumeError::Short { expected, found });
        };
        let word = str::from_utf8(word).unwrap_or("?");
        if write(word, dtype, place).is_none() {
            let word: String = word.chars().take(40).collect();
            return Err(damaged(format!("{word:?}, its number {number}, is not of type {dtype}")));
        }
    }
    if words.next().is_some() { Err(VolumeError::Long(expected)) } else { Ok(()) }
}

/// A number of this type, or none if it is not one.
fn write(word: &str, dtype: DType, place: &mut [u8]) -> Option<()> {
    macro_rules! whole {
        ($rust:ty) => {
            place.copy_from_slice(&word.parse::<$rust>().ok()?.to_ne_bytes())
        };
    }
    let real = || word.parse::<f64>().ok();
    match dtype {
        DType::U8 => whole!(u8),
        DType::U16 => whole!(u16),
        DType::U32 => whole!(u32),
        DType::U64 => whole!(u64),
        DType::I8 => whole!(i8),
        DType::I16 => whole!(i16),
        DType::I32 => whole!(i32),
        DType::I64 => whole!(i64),
        // By way of the longer type, as numpy reads them.
        DType::F32 => place.copy_from_slice(&(real()? as f32).to_ne_bytes()),
        DType::F64 => place.copy_from_slice(&real()?.to_ne_bytes()),
        DType::F16 => place.copy_from_slice(&f16::from_f64(real()?).to_ne_bytes()),
        DType::Bool | DType::Bf16 => return None,
    }
    Some(())
}

/// Writes bytes of two digits each; blanks may stand anywhere.
pub(super) fn hex(text: &[u8], row: &mut [u8]) -> Result<(), VolumeError> {
    let mut digits = text.iter().filter(|byte| !byte.is_ascii_whitespace()).map(|byte| {
        let digit = char::from(*byte).to_digit(16);
        digit
            .map(|digit| digit as u8)
            .ok_or_else(|| damaged(format!("the byte {byte} is no hexadecimal digit")))
    });
    let expected = row.len() as u64;
    for (number, place) in row.iter_mut().enumerate() {
        let (Some(high), Some(low)) = (digits.next().transpose()?, digits.next().transpose()?) else {
            return Err(VolumeError::Short { expected, found: format!("are {number}") });
        };
        *place = high << 4 | low;
    }
    if digits.next().is_some() { Err(VolumeError::Long(expected)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, dtype: DType, count: usize) -> Result<Vec<u8>, VolumeError> {
        let mut row = vec![0; count * dtype.size()];
        numbers(text.as_bytes(), dtype, &mut row).map(|()| row)
    }

    #[test]
    fn digits_are_numbers_of_their_type() {
        assert_eq!(read(" 1\n+2\t\r\n255 ", DType::U8, 3).unwrap(), [1, 2, 255]);
        let floats = [0.1f32, -3e38, f32::INFINITY, 7.0];
        let expected: Vec<u8> = floats.iter().flat_map(|number| number.to_ne_bytes()).collect();
        assert_eq!(read("0.1 -3e38 inf 7", DType::F32, 4).unwrap(), expected);
        for text in ["1 2 256", "1 2 -3", "1 2 3.0", "1 2 x", "1 2", "1 2 3 4", "1 2 \u{b2}"] {
            assert!(read(text, DType::U8, 3).is_err(), "{text}");
        }
    }

    #[test]
    fn two_digits_are_a_byte() {
        let read = |text: &str| {
            let mut row = [0; 3];
            hex(text.as_bytes(), &mut row).map(|()| row)
        };
        assert_eq!(read("00fF1\n0 ").unwrap(), [0, 255, 16]);
        for text in ["00ff1", "00ff101", "00ff1g", ""] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
