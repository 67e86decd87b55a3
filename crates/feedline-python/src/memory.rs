//! Shared memory, and batches in it.

use std::{
    ffi::c_int,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr::null_mut,
    sync::Arc,
};

use feedline_board::Extent;
use pyo3::{exceptions::PyOSError, ffi, prelude::*};

/// The memory of a loader's batches, shared with its workers or private.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct Commons(pub(crate) Arc<feedline_board::Commons>);

#[pymethods]
impl Commons {
    /// New memory.
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(feedline_board::Commons::create()?))
    }

    /// The memory behind a file descriptor, which it takes over.
    #[staticmethod]
    fn attach(fd: c_int) -> PyResult<Self> {
        if fd < 0 {
            return Err(PyOSError::new_err("not a file descriptor"));
        }
        // SAFETY: the caller gives the descriptor away.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self(feedline_board::Commons::attach(file)?))
    }

    /// New memory that is this process's alone.
    #[staticmethod]
    fn private() -> PyResult<Self> {
        Ok(Self(feedline_board::Commons::private()?))
    }

    /// The file descriptor; none if the memory is private.
    #[getter]
    fn fd(&self) -> Option<c_int> {
        self.0.file().map(|file| file.as_raw_fd())
    }
}

/// One column's place in a row of a batch, lent to whoever makes the sample until the row is done.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct Lent {
    commons: Arc<feedline_board::Commons>,
    offset: u64,
    len: usize,
}

impl Lent {
    pub(crate) fn new(commons: Arc<feedline_board::Commons>, offset: u64, len: usize) -> Self {
        Self { commons, offset, len }
    }

    /// Where it begins; null if that is outside the memory.
    pub(crate) fn start(&self) -> *mut u8 {
        self.commons.at(self.offset, self.len).unwrap_or(null_mut())
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[pymethods]
impl Lent {
    /// Its length in bytes.
    fn __len__(&self) -> usize {
        self.len
    }

    #[allow(clippy::missing_safety_doc)]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (start, len) = (slf.get().start(), slf.get().len);
        // SAFETY: as for a hold, below.
        unsafe { fill_view(&slf, view, flags, start, len) }
    }
}

/// A batch's memory. It goes back for reuse with the last object that refers to it.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct Hold {
    commons: Arc<feedline_board::Commons>,
    extent: Extent,
}

impl Hold {
    pub(crate) fn new(commons: Arc<feedline_board::Commons>, extent: Extent) -> Self {
        Self { commons, extent }
    }

    /// Memory of at least so many bytes.
    pub(crate) fn take(commons: Arc<feedline_board::Commons>, bytes: usize) -> PyResult<Self> {
        let extent = commons.take(bytes)?;
        Ok(Self { commons, extent })
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> *mut u8 {
        self.commons.at(self.extent.offset(), self.extent.len()).expect("an extent lies in the commons")
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.commons.give(self.extent);
    }
}

#[pymethods]
impl Hold {
    /// Its length in bytes.
    fn __len__(&self) -> usize {
        self.extent.len()
    }

    /// Where it is in this process.
    #[getter]
    fn address(&self) -> usize {
        self.start() as usize
    }

    #[allow(clippy::missing_safety_doc)]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let hold = slf.get();
        let len = hold.extent.len();
        let start = hold.commons.at(hold.extent.offset(), len).unwrap_or(null_mut());
        // SAFETY: `view` is Python's, and the memory stays as long as the object, which the view keeps alive.
        unsafe { fill_view(&slf, view, flags, start, len) }
    }
}

/// Lets Python look at memory that stays as long as its object.
unsafe fn fill_view<T>(
    object: &Bound<'_, T>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    start: *mut u8,
    len: usize,
) -> PyResult<()> {
    if start.is_null() {
        return Err(PyOSError::new_err("the batch lies outside its memory"));
    }
    // SAFETY: the caller vouches for the view and the memory.
    let filled =
        unsafe { ffi::PyBuffer_FillInfo(view, object.as_ptr(), start.cast(), len as isize, 0, flags) };
    if filled == 0 { Ok(()) } else { Err(PyErr::fetch(object.py())) }
}
