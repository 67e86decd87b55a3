//! What `torch.save` writes: an archive with a pickle that describes tensors, and their numbers beside it.

use feedline_core::DType;

use super::{
    Found, ReadAt, TensorError, missing,
    pickle::{self, Tensor, Value},
    several,
    zip::{Archive, Entry},
};

/// The longest pickle that is read.
const LONGEST: u64 = 1 << 22;

fn damaged(why: &str) -> TensorError {
    TensorError::Damaged(".pt", why.into())
}

pub(super) fn find(
    file: &(impl ReadAt + ?Sized),
    archive: &Archive,
    pickle: &Entry,
    name: Option<&str>,
) -> Result<Found, TensorError> {
    if pickle.length > LONGEST {
        return Err(damaged("its pickle is too long"));
    }
    let mut bytes = vec![0; pickle.length as usize];
    file.read_exact_at(&mut bytes, pickle.place(file)?)?;
    let value = pickle::read(&bytes).ok_or_else(|| damaged("its pickle cannot be read as data"))?;
    let tensor = chosen(&value, name)?;
    let dtype = dtype(&tensor.storage)?;
    if !is_contiguous(tensor) {
        return Err(TensorError::Unfit("its tensor is not contiguous: save tensor.contiguous()".into()));
    }
    let folder = pickle.name.strip_suffix("data.pkl").unwrap_or_default();
    let stored = format!("{folder}data/{}", tensor.key);
    let entry = archive.entries().find(|entry| entry.name == stored);
    let entry = entry.ok_or_else(|| damaged("the numbers of its tensor are not there"))?;
    let begin = tensor.offset.checked_mul(dtype.size()).map(|begin| begin as u64);
    let found =
        Found { dtype, shape: tensor.shape.clone(), at: 0, swapped: is_swapped(file, archive, folder)? };
    let end = found.bytes().and_then(|bytes| begin?.checked_add(bytes as u64));
    match (begin, end) {
        (Some(begin), Some(end)) if end <= entry.length => {
            Ok(Found { at: entry.place(file)? + begin, ..found })
        }
        _ => Err(damaged("its tensor is larger than what is stored of it")),
    }
}

fn chosen<'a>(value: &'a Value, name: Option<&str>) -> Result<&'a Tensor, TensorError> {
    if let (Value::Tensor(tensor), None) = (value, name) {
        return Ok(tensor);
    }
    let Value::Dict(pairs) = value else {
        return Err(TensorError::Unfit("it is neither a tensor nor a dictionary of tensors".into()));
    };
    let tensors = || {
        pairs.iter().filter_map(|(key, value)| match (key, value) {
            (Value::Text(key), Value::Tensor(tensor)) => Some((&**key, &**tensor)),
            _ => None,
        })
    };
    let names = || tensors().map(|(key, _)| key);
    match name {
        Some(name) => tensors().find(|(key, _)| *key == name),
        None if tensors().count() > 1 => return Err(TensorError::Unfit(several(names()))),
        None => tensors().next(),
    }
    .map(|(_, tensor)| tensor)
    .ok_or_else(|| TensorError::Unfit(missing(name, names())))
}

fn dtype(storage: &str) -> Result<DType, TensorError> {
    Ok(match storage {
        "BoolStorage" => DType::Bool,
        "ByteStorage" => DType::U8,
        "CharStorage" => DType::I8,
        "ShortStorage" => DType::I16,
        "IntStorage" => DType::I32,
        "LongStorage" => DType::I64,
        "HalfStorage" => DType::F16,
        "BFloat16Storage" => DType::Bf16,
        "FloatStorage" => DType::F32,
        "DoubleStorage" => DType::F64,
        other => return Err(TensorError::Unfit(format!("its tensor is a {other}, which is not read"))),
    })
}

fn is_contiguous(tensor: &Tensor) -> bool {
    let mut expected = 1usize;
    let axes = tensor.shape.iter().zip(&tensor.strides).rev();
    tensor.shape.len() == tensor.strides.len()
        && axes.into_iter().all(|(extent, stride)| {
            let fits = *extent == 1 || *stride == expected;
            expected = expected.saturating_mul(*extent);
            fits
        })
}

/// Whether the machine that wrote it has greater bytes first, and this one not.
fn is_swapped(file: &(impl ReadAt + ?Sized), archive: &Archive, folder: &str) -> Result<bool, TensorError> {
    let name = format!("{folder}byteorder");
    let Some(entry) = archive.entries().find(|entry| entry.name == name && entry.length <= 6) else {
        return Ok(false);
    };
    let mut order = [0; 6];
    let order = &mut order[..entry.length as usize];
    file.read_exact_at(order, entry.place(file)?)?;
    Ok(order == b"big" && cfg!(target_endian = "little"))
}
