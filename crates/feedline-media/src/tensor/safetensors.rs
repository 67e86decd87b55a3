//! Safetensors: a length, a table in JSON, then the numbers.

use feedline_core::DType;
use serde::Deserialize;

use super::{Found, ReadAt, TensorError, missing, several};

/// The longest table that is read.
const LONGEST: u64 = 1 << 26;

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

fn damaged(why: impl Into<String>) -> TensorError {
    TensorError::Damaged("safetensors", why.into())
}

pub(super) fn find(
    file: &(impl ReadAt + ?Sized),
    head: &[u8],
    name: Option<&str>,
) -> Result<Found, TensorError> {
    let length = u64::from_le_bytes(*head.first_chunk().ok_or_else(|| damaged("it is too short"))?);
    if length > LONGEST || length > file.len() {
        return Err(damaged("its table is longer than it should be"));
    }
    let mut table = vec![0; length as usize];
    file.read_exact_at(&mut table, 8)?;
    let table: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&table).map_err(|error| damaged(error.to_string()))?;
    let names = || table.keys().map(String::as_str).filter(|key| *key != "__metadata__");
    let name = match name {
        Some(name) => name,
        None if names().count() > 1 => return Err(TensorError::Unfit(several(names()))),
        None => names().next().ok_or_else(|| TensorError::Unfit(missing(None, names())))?,
    };
    let entry = table.get(name).ok_or_else(|| TensorError::Unfit(missing(Some(name), names())))?;
    let entry = Entry::deserialize(entry).map_err(|error| damaged(error.to_string()))?;
    let dtype = match entry.dtype.as_str() {
        "BOOL" => DType::Bool,
        "U8" => DType::U8,
        "U16" => DType::U16,
        "U32" => DType::U32,
        "U64" => DType::U64,
        "I8" => DType::I8,
        "I16" => DType::I16,
        "I32" => DType::I32,
        "I64" => DType::I64,
        "F16" => DType::F16,
        "BF16" => DType::Bf16,
        "F32" => DType::F32,
        "F64" => DType::F64,
        other => {
            return Err(TensorError::Unfit(format!("its numbers are of type {other:?}, which is not read")));
        }
    };
    let (begin, end) = entry.data_offsets;
    let at = begin.checked_add(8 + length).ok_or_else(|| damaged("its numbers begin nowhere"))?;
    let found = Found { dtype, shape: entry.shape, at, swapped: cfg!(target_endian = "big") };
    if found.bytes().map(|bytes| bytes as u64) != end.checked_sub(begin) {
        return Err(damaged("its numbers are not as many as its shape says"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(table: &str, numbers: &[u8]) -> Vec<u8> {
        [&(table.len() as u64).to_le_bytes()[..], table.as_bytes(), numbers].concat()
    }

    #[test]
    fn the_table_is_believed_as_far_as_the_file_goes() {
        let table = r#"{"__metadata__":{"a":"b"},"x":{"dtype":"I16","shape":[2],"data_offsets":[2,6]}}"#;
        let bytes = file(table, &[9, 9, 1, 0, 2, 0]);
        let found = super::super::find(bytes.as_slice(), None).unwrap();
        let mut row = [0; 4];
        found.read(bytes.as_slice(), &mut row).unwrap();
        assert_eq!((found.dtype, row), (DType::I16, [1, 0, 2, 0]));
        assert!(super::super::find(bytes.as_slice(), Some("y")).is_err());
        assert!(super::super::find(&bytes[..bytes.len() - 1], None).is_err());
        for table in [
            r#"{"x":{"dtype":"I16","shape":[2],"data_offsets":[0,5]}}"#,
            r#"{"x":{"dtype":"I16","shape":[2],"data_offsets":[18446744073709551615,3]}}"#,
            r#"{"x":{"dtype":"F8","shape":[2],"data_offsets":[0,2]}}"#,
            r#"{"x":1}"#,
            r#"{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"y":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#,
            "{}",
            "{",
        ] {
            assert!(super::super::find(file(table, &[0; 8]).as_slice(), None).is_err(), "{table}");
        }
    }
}
