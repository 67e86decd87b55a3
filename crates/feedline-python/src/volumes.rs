//! Volumes of medicine in files.

use std::{path::PathBuf, sync::Mutex};

use feedline::volumes::{Header, Scratch, VolumeFile};
use pyo3::{
    prelude::*,
    types::{PyByteArray, PyDict, PyTuple},
};

use crate::{
    files::{numpy_name, to_python},
    memory::Lent,
};

/// What is used again from volume to volume: one for each thread that reads at the same time, not for each that ever did.
static SPARE: Mutex<Vec<Scratch>> = Mutex::new(Vec::new());

/// The most that is kept of one, so that a large file does not leave its size behind.
const KEPT: usize = 64 << 20;

/// Lends a scratch. Nobody waits for one: whoever holds the lock may be a thread that a fork has left behind.
fn with_scratch<T>(use_it: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SPARE.try_lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default();
    let made = use_it(&mut scratch);
    if scratch.bytes() <= KEPT
        && let Ok(mut spare) = SPARE.try_lock()
    {
        spare.push(scratch);
    }
    made
}

/// A volume that was read.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct Volume {
    header: Header,
    scaled: bool,
    bytes: Py<PyAny>,
}

#[pymethods]
impl Volume {
    /// Its numbers, the fastest axis first: an object with a buffer.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> Py<PyAny> {
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

/// Reads a volume: as values of 64 bits if it is a NIfTI file and `scaled`, otherwise as it is stored. If a place was lent
/// that is just as long, its numbers are there; if not, in memory of their own.
#[pyfunction]
#[pyo3(signature = (path, scaled, allow_outside, into=None))]
pub(crate) fn read_volume(
    py: Python<'_>,
    path: PathBuf,
    scaled: bool,
    allow_outside: bool,
    into: Option<Bound<'_, Lent>>,
) -> PyResult<Volume> {
    let file = py.detach(|| VolumeFile::open(&path, allow_outside)).map_err(to_python)?;
    let header = file.header();
    let scaled = scaled && header.is_nifti();
    let length = if scaled { 8 * header.count() } else { header.bytes() };
    let read = |bytes: &mut [u8]| {
        let read = || {
            with_scratch(|scratch| {
                if scaled {
                    file.read_scaled_into(scratch, bytemuck::cast_slice_mut(bytes))
                } else {
                    file.read_into(scratch, bytes)
                }
            })
        };
        py.detach(read).map_err(to_python)
    };
    let fits = |place: &Bound<'_, Lent>| {
        let start = place.get().start();
        place.get().len() == length && !start.is_null() && (start as usize).is_multiple_of(align_of::<f64>())
    };
    let bytes = match into.filter(fits) {
        Some(place) => {
            // SAFETY: it lies in the memory, which it keeps. The row is this worker's, who reads one file at a time into
            // each place of it.
            read(unsafe { std::slice::from_raw_parts_mut(place.get().start(), length) })?;
            place.into_any().unbind()
        }
        // Nobody else has seen these bytes yet.
        None => PyByteArray::new_with(py, length, read)?.into_any().unbind(),
    };
    Ok(Volume { header: file.header().clone(), scaled, bytes })
}
