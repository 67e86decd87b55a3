//! A batch of any kind: a pickle, and beside it the buffers of its arrays and tensors.
//!
//! ```text
//!  region: buffer │ buffer │ …     each at a multiple of 64
//!  note:   how many │ their lengths │ the pickle
//! ```

use std::sync::Arc;

use feedline_board::{Commons, Extent};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};

pub(crate) const ALIGN: usize = 64;

/// Where each buffer of a parcel begins, and its length.
pub(crate) fn places(note: &[u8]) -> PyResult<Vec<(usize, usize)>> {
    let damaged = || PyValueError::new_err("a worker's parcel is damaged");
    let word = |at: usize| -> PyResult<usize> {
        let bytes = note.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
        Ok(u64::from_le_bytes(bytes.ok_or_else(damaged)?) as usize)
    };
    let (count, mut offset) = (word(0)?, 0);
    let mut places = Vec::with_capacity(count.min(note.len() / 8));
    for buffer in 0..count {
        let len = word(1 + buffer)?;
        places.push((offset, len));
        offset = place_after(offset, len).ok_or_else(damaged)?;
    }
    Ok(places)
}

pub(crate) fn place_after(offset: usize, len: usize) -> Option<usize> {
    offset.checked_add(len)?.checked_next_multiple_of(ALIGN)
}

/// Puts the bytes of a schema into memory of their own, and returns what names it.
pub(crate) fn write_schema(commons: &Arc<Commons>, bytes: &[u8]) -> PyResult<u64> {
    let extent = commons.fresh(bytes.len() + 8)?;
    let start = commons.at(extent.offset(), bytes.len() + 8).expect("the extent is that large");
    let len = (bytes.len() as u64).to_le_bytes();
    // SAFETY: the extent is new, and nobody else has it.
    unsafe { start.copy_from_nonoverlapping(len.as_ptr(), 8) };
    // SAFETY: as above.
    let text = unsafe { start.add(8) };
    // SAFETY: as above.
    unsafe { text.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(extent.pack())
}

/// The bytes of a schema.
pub(crate) fn read_schema<'py>(
    py: Python<'py>,
    commons: &Arc<Commons>,
    id: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let unknown = || PyValueError::new_err(format!("there is no schema {id}"));
    let extent = Extent::unpack(id).ok_or_else(unknown)?;
    // SAFETY: a schema is not written to once it has been published.
    let len = unsafe { commons.bytes(extent.offset(), 8) }.ok_or_else(unknown)?;
    let len = u64::from_le_bytes(len.try_into().expect("eight bytes")) as usize;
    if len > extent.len() - 8 {
        return Err(unknown());
    }
    // SAFETY: as above.
    let bytes = unsafe { commons.bytes(extent.offset() + 8, len) }.ok_or_else(unknown)?;
    Ok(PyBytes::new(py, bytes))
}
