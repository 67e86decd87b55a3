//! Volumes of medicine in files.

use std::{cell::RefCell, path::PathBuf};

use feedline::volumes::{Header, Scratch, VolumeFile};
use pyo3::{
    prelude::*,
    types::{PyByteArray, PyDict, PyTuple},
};

use crate::files::{numpy_name, to_python};

thread_local! {
    /// What is used again from volume to volume.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A volume that was read.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct Volume {
    header: Header,
    scaled: bool,
    bytes: Py<PyByteArray>,
}

#[pymethods]
impl Volume {
    /// Its numbers, the fastest axis first.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> Py<PyByteArray> {
        self.bytes.clone_ref(py)
    }

    /// The type of its numbers, by numpy's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        if self.scaled { "float64" } else { numpy_name(self.header.dtype) }
    }

    /// Its extents, the fastest axis first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.header.shape)
    }

    /// How far apart numbers are along each axis, where that is known.
    #[getter]
    fn spacing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.header.spacing)
    }

    /// All that its file says of it.
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        self.header.fields.iter().try_for_each(|(name, value)| fields.set_item(name, value))?;
        Ok(fields)
    }
}

/// Reads a volume: as values of 64 bits if it is a NIfTI file and `scaled`, otherwise as it is stored.
#[pyfunction]
pub(crate) fn read_volume(
    py: Python<'_>,
    path: PathBuf,
    scaled: bool,
    allow_outside: bool,
) -> PyResult<Volume> {
    let file = py.detach(|| VolumeFile::open(&path, allow_outside)).map_err(to_python)?;
    let header = file.header();
    let scaled = scaled && header.is_nifti();
    let length = if scaled { 8 * header.count() } else { header.bytes() };
    // Nobody else has seen these bytes yet.
    let bytes = PyByteArray::new_with(py, length, |bytes| {
        let read = || {
            SCRATCH.with_borrow_mut(|scratch| {
                if scaled {
                    file.read_scaled_into(scratch, bytemuck::cast_slice_mut(bytes))
                } else {
                    file.read_into(scratch, bytes)
                }
            })
        };
        py.detach(read).map_err(to_python)
    })?;
    Ok(Volume { header: file.header().clone(), scaled, bytes: bytes.unbind() })
}
