//! A cache that all processes of a program share.

use std::{
    ffi::c_int,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use feedline_board::cache::{self, Found};
use pyo3::{
    buffer::PyBuffer,
    exceptions::{PyOSError, PyRecursionError, PyRuntimeError, PyValueError},
    ffi,
    prelude::*,
};

/// How long a waiter sleeps before it looks whether the loader is alive, and whether Python has a signal to handle.
const LOOK: Duration = Duration::from_millis(100);

/// A bounded cache in shared memory.
///
/// Whatever takes its lock lets go of the GIL before: somebody who forks has both, and may be asked for the GIL back.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct SharedCache(Arc<cache::Cache>);

#[pymethods]
impl SharedCache {
    /// A new one, of at most so many bytes.
    #[new]
    fn new(max_bytes: u64) -> PyResult<Self> {
        Ok(Self(cache::Cache::create(max_bytes)?))
    }

    /// The one behind a file descriptor, which it takes over.
    #[staticmethod]
    fn attach(fd: c_int) -> PyResult<Self> {
        if fd < 0 {
            return Err(PyOSError::new_err("not a file descriptor"));
        }
        // SAFETY: the caller gives the descriptor away.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self(cache::Cache::attach(file)?))
    }

    /// The file descriptor.
    #[getter]
    fn fd(&self) -> c_int {
        self.0.file().as_raw_fd()
    }

    /// The most memory it may use.
    #[getter]
    fn max_bytes(&self) -> u64 {
        self.0.max_bytes()
    }

    /// Finds an entry by its key of 16 bytes, and waits while another loads it. It gives what is kept, or a turn to load
    /// it. `inside` is the turn whose load asks.
    fn find<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        inside: Option<PyRef<'_, Turn>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (key, inside) = (digest(key)?, inside.as_ref().and_then(|turn| turn.0.as_ref()));
        let (cache, mut waited) = (&self.0, false);
        loop {
            match py.detach(|| cache.find(key, inside, waited)) {
                Ok(Found::Kept(kept)) => return Ok(Bound::new(py, Kept(kept))?.into_any()),
                Ok(Found::Turn(turn)) => return Ok(Bound::new(py, Turn(Some(turn)))?.into_any()),
                Ok(Found::Busy(busy)) => py.detach(|| cache.wait(busy, LOOK)),
                Err(cache::Circular) => return Err(PyRecursionError::new_err("it waits for itself")),
            }
            waited = true;
            if let Err(interrupt) = py.check_signals() {
                inside.inspect(|turn| py.detach(|| cache.wait_no_more(turn)));
                return Err(interrupt);
            }
        }
    }

    /// Whether there is an entry.
    fn contains(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        let key = digest(key)?;
        Ok(py.detach(|| self.0.contains(key)))
    }

    /// Drops all entries.
    fn clear(&self, py: Python<'_>) {
        py.detach(|| self.0.clear());
    }

    /// Loads, hits, waits, evictions, what was too large, what found no room; bytes, entries.
    #[allow(clippy::type_complexity)] // It is unpacked where it arrives.
    fn stats(&self) -> (u64, u64, u64, u64, u64, u64, u64, u64) {
        let stats = self.0.stats();
        let (done, not_kept) =
            ((stats.loads, stats.hits, stats.waits, stats.evictions), (stats.too_large, stats.private));
        (done.0, done.1, done.2, done.3, not_kept.0, not_kept.1, stats.bytes, stats.entries)
    }

    /// Before a fork, by the thread that forks.
    fn before_fork(&self, py: Python<'_>) {
        py.detach(|| self.0.before_fork());
    }

    /// After a fork, by the thread that forked.
    fn after_fork_in_parent(&self) {
        self.0.after_fork_in_parent();
    }

    /// After a fork, in the child.
    fn after_fork_in_child(&self, py: Python<'_>) {
        py.detach(|| self.0.after_fork_in_child());
    }
}

fn digest(key: &[u8]) -> PyResult<cache::Key> {
    let key: [u8; 16] = key.try_into().map_err(|_| PyValueError::new_err("a key has 16 bytes"))?;
    let (halves, _) = key.as_chunks::<8>();
    Ok([u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1])])
}

/// The right and the duty to load an entry. Others wait until it is kept or given up.
#[pyclass(module = "feedline._engine")]
pub(crate) struct Turn(Option<cache::Turn>);

#[pymethods]
impl Turn {
    /// Whether nobody waits for it, because what is loaded cannot be kept.
    #[getter]
    fn is_alone(&self) -> bool {
        self.0.as_ref().is_none_or(cache::Turn::is_alone)
    }

    /// Keeps what was loaded: parts of contiguous memory. None if it cannot be kept.
    fn keep(&mut self, py: Python<'_>, parts: Vec<PyBuffer<u8>>) -> PyResult<Option<Kept>> {
        let turn = self.0.take().ok_or_else(|| PyRuntimeError::new_err("the turn is over"))?;
        let mut slices = Vec::with_capacity(parts.len());
        for part in &parts {
            if !part.is_c_contiguous() {
                return Err(PyValueError::new_err("a part is not contiguous"));
            }
            // SAFETY: the buffer is contiguous and stays as long as `parts`. Its owner has given it away to be kept.
            slices.push(unsafe { std::slice::from_raw_parts(part.buf_ptr().cast::<u8>(), part.len_bytes()) });
        }
        Ok(py.detach(|| turn.keep(&slices)).map(Kept))
    }

    /// Gives it up: others may try.
    fn give_up(&mut self, py: Python<'_>) {
        let turn = self.0.take();
        py.detach(|| drop(turn));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turn) = self.0.take() {
            Python::attach(|py| py.detach(|| drop(turn)));
        }
    }
}

/// An entry in use: its memory stays until the last object that refers to it is gone.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct Kept(cache::Kept);

#[pymethods]
impl Kept {
    /// Where its parts begin, and their lengths.
    fn parts(&self) -> Vec<(usize, usize)> {
        self.0.parts()
    }

    /// The buffer says that it can be written to, because torch warns of any other; but the memory is mapped to be read.
    #[allow(clippy::missing_safety_doc)]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (start, len) = slf.get().0.memory();
        // SAFETY: `view` is Python's, and the memory stays as long as the object, which the view keeps alive.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start.cast_mut().cast(), len as isize, 0, flags)
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
