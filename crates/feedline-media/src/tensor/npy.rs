//! The format of numpy: a line of text that looks like Python, then the numbers.

use feedline_core::DType;

use super::{Found, ReadAt, TensorError};

/// The longest header that is read.
const LONGEST: usize = 1 << 16;

fn damaged(why: &str) -> TensorError {
    TensorError::Damaged(".npy", why.into())
}

/// The array whose file begins with `head`, `begin` bytes from the start.
pub(super) fn find(file: &(impl ReadAt + ?Sized), head: &[u8], begin: u64) -> Result<Found, TensorError> {
    let (prefix, length) = match head {
        [_, _, _, _, _, _, 1, _, a, b, ..] => (10, usize::from(u16::from_le_bytes([*a, *b]))),
        [_, _, _, _, _, _, 2 | 3, _, a, b, c, d, ..] => (12, u32::from_le_bytes([*a, *b, *c, *d]) as usize),
        _ => return Err(damaged("its version is not known")),
    };
    if length > LONGEST {
        return Err(damaged("its header is too long"));
    }
    let mut long = Vec::new();
    let text = if let Some(text) = head.get(prefix..prefix + length) {
        text
    } else {
        long.resize(length, 0);
        file.read_exact_at(&mut long, begin + prefix as u64)?;
        &long
    };
    let text = std::str::from_utf8(text).map_err(|_| damaged("its header is not text"))?;
    let (dtype, swapped) = dtype(quoted(value(text, "descr")?)?)?;
    let order = value(text, "fortran_order")?;
    let shape = shape(value(text, "shape")?)?;
    if order.starts_with("True") && shape.len() > 1 {
        return Err(TensorError::Unfit(
            "its numbers are in Fortran's order: save it with numpy.ascontiguousarray".into(),
        ));
    }
    Ok(Found { dtype, shape, at: begin + (prefix + length) as u64, swapped })
}

/// What stands behind a key.
fn value<'a>(text: &'a str, key: &str) -> Result<&'a str, TensorError> {
    let found = ['\'', '"'].iter().find_map(|quote| text.split_once(&format!("{quote}{key}{quote}")));
    let behind = found.and_then(|(_, behind)| behind.trim_start().strip_prefix(':'));
    behind.map(str::trim_start).ok_or_else(|| damaged(&format!("its header has no {key}")))
}

fn quoted(text: &str) -> Result<&str, TensorError> {
    let quote = text.chars().next().filter(|first| ['\'', '"'].contains(first));
    // A list instead of a string has several fields.
    let quote = quote.ok_or_else(|| TensorError::Unfit("it has numbers of several types".into()))?;
    text[1..].split_once(quote).map(|(inside, _)| inside).ok_or_else(|| damaged("its type does not end"))
}

fn dtype(text: &str) -> Result<(DType, bool), TensorError> {
    let (order, kind) = text.split_at_checked(1).unwrap_or(("", text));
    let (order, kind) = if ["<", ">", "|", "="].contains(&order) { (order, kind) } else { ("=", text) };
    let dtype = match kind {
        "b1" | "?" => DType::Bool,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "O" => {
            return Err(TensorError::Unfit(
                "it has Python's objects, not numbers; they would have to be unpickled, which may run any code".into(),
            ));
        }
        _ => return Err(TensorError::Unfit(format!("its numbers are of type {text:?}, which is not read"))),
    };
    let swapped = if cfg!(target_endian = "little") { order == ">" } else { order == "<" };
    Ok((dtype, swapped))
}

fn shape(text: &str) -> Result<Vec<usize>, TensorError> {
    let inside = text.strip_prefix('(').and_then(|text| text.split_once(')'));
    let (inside, _) = inside.ok_or_else(|| damaged("its shape is not a tuple"))?;
    let extents = inside.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let number =
        |text: &str| text.trim_end_matches('L').parse().map_err(|_| damaged("its shape is not of numbers"));
    extents.map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, numbers: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(numbers);
        bytes
    }

    #[test]
    fn types_and_shapes_are_read() {
        let bytes = file("{'descr': '>u2', 'fortran_order': False, 'shape': (2, 1), }\n", &[1, 2, 3, 4]);
        let found = super::super::find(bytes.as_slice(), None).unwrap();
        assert_eq!((found.dtype, found.shape.as_slice()), (DType::U16, &[2, 1][..]));
        let mut row = [0; 4];
        found.read(bytes.as_slice(), &mut row).unwrap();
        assert_eq!(row, [2, 1, 4, 3]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for header in [
            "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
            "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }",
            "nothing",
        ] {
            assert!(super::super::find(file(header, &[0; 16]).as_slice(), None).is_err(), "{header}");
        }
    }
}
