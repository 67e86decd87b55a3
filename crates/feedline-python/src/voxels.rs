//! Operations on volumes: arrays of Python's are read and written where they are, without the GIL.
//!
//! The result is an array that the caller has made. That nobody writes to either meanwhile is asked of the caller, as
//! numpy asks it.

use feedline::voxels::{
    Distance, Edge, Float, Gaussian, Morphology, Patch, Resample, Scale, Spacing, Voxels, Window, crop_pad,
    falloff, flip, label, slice, view::count,
};
use feedline_core::{Key, Purpose};
use pyo3::{
    buffer::{Element, PyBuffer, PyUntypedBuffer},
    exceptions::{PyIndexError, PyTypeError, PyValueError},
    prelude::*,
};

/// Does something with an array as what it is: one of some types.
macro_rules! typed {
    ($array:ident, $($number:ty)|+, $body:expr) => {{
        let untyped = PyUntypedBuffer::get($array)?;
        $(if let Ok($array) = untyped.as_typed::<$number>() {
            return $body;
        })+
        Err(PyTypeError::new_err(concat!("the array should be of ", stringify!($($number)|+))))
    }};
}

/// Erosion, dilation or opening.
#[pyfunction]
pub(crate) fn voxels_morphology(
    py: Python<'_>,
    step: &str,
    mask: PyBuffer<u8>,
    iterations: usize,
    border: bool,
    out: PyBuffer<u8>,
) -> PyResult<()> {
    let make = match step {
        "erode" => Morphology::erode,
        "dilate" => Morphology::dilate,
        "open" => Morphology::open,
        _ => return Err(PyValueError::new_err(format!("there is no step {step:?}"))),
    };
    let mask = volume(&mask)?;
    write(py, mask, mask.extents(), &out, |out| {
        make(&mut Morphology::default(), mask, iterations, border, out);
    })
}

/// How far it is to the nearest voxel outside the mask.
#[pyfunction]
pub(crate) fn voxels_distance(
    py: Python<'_>,
    mask: PyBuffer<u8>,
    spacing: [f64; 3],
    threads: usize,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (mask, spacing) = (volume(&mask)?, Spacing::new(spacing).map_err(refused)?);
    typed!(out, f32 | f64, {
        write(py, mask, mask.extents(), out, |out| {
            Distance::default().write(mask, spacing, threads, out);
        })
    })
}

/// What falls with the distance.
#[pyfunction]
pub(crate) fn voxels_falloff(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    sigma: f64,
    out: PyBuffer<f32>,
) -> PyResult<()> {
    typed!(array, f32 | f64, {
        let array = volume(array)?;
        write(py, array, array.extents(), &out, |out| falloff::write(array.values(), sigma, out))
    })
}

/// A blur. Beyond the ends lies what a mode and its constant say.
#[pyfunction]
pub(crate) fn voxels_gaussian(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    sigma: [f64; 3],
    truncate: f64,
    edge: (String, f64),
    threads: usize,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    fn same<T: Float + Element>(
        py: Python<'_>,
        array: &PyBuffer<T>,
        gaussian: &mut Gaussian,
        threads: usize,
        out: &PyBuffer<T>,
    ) -> PyResult<()> {
        let array = volume(array)?;
        write(py, array, array.extents(), out, |out| gaussian.write(array, threads, out))
    }
    let (mode, cval) = edge;
    let edge = match mode.as_str() {
        "reflect" => Edge::Reflect,
        "nearest" => Edge::Nearest,
        "constant" => Edge::Constant(cval),
        _ => {
            return Err(PyValueError::new_err(format!(
                "there is no mode {mode:?}; there are 'reflect', 'nearest', 'constant'"
            )));
        }
    };
    let mut gaussian = Gaussian::new(sigma, truncate, edge).map_err(refused)?;
    typed!(array, f32 | f64, same(py, array, &mut gaussian, threads, &PyBuffer::get(out)?))
}

/// The values that matter, from 0 to 1 or by their deviation.
#[pyfunction]
pub(crate) fn voxels_window(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    low: f32,
    high: f32,
    zscore: bool,
    out: PyBuffer<f32>,
) -> PyResult<()> {
    let scale = if zscore { Scale::Deviation } else { Scale::Unit };
    let window = Window::new(low, high, scale).map_err(refused)?;
    typed!(array, f32 | f64 | i16 | u8 | u16, {
        let array = volume(array)?;
        write(py, array, array.extents(), &out, |out| window.write(array.values(), out))
    })
}

/// Another shape around the same middle. `fill` is an array of one number.
#[pyfunction]
pub(crate) fn voxels_crop_pad(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    shape: [usize; 3],
    fill: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    fn same<T: Element + Send + Sync>(
        py: Python<'_>,
        array: &PyBuffer<T>,
        shape: [usize; 3],
        fill: &PyBuffer<T>,
        out: &PyBuffer<T>,
    ) -> PyResult<()> {
        let fill = fill.to_vec(py)?.first().copied();
        let fill = fill.ok_or_else(|| PyValueError::new_err("there is nothing to fill with"))?;
        let array = volume(array)?;
        write(py, array, shape, out, |out| crop_pad::write(array, shape, fill, out))
    }
    let (fill, out) = (PyUntypedBuffer::get(fill)?, PyUntypedBuffer::get(out)?);
    typed!(array, u8 | u16 | u32 | u64, same(py, array, shape, fill.as_typed()?, out.as_typed()?))
}

/// Mirror images.
#[pyfunction]
pub(crate) fn voxels_flip(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    axes: [bool; 3],
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    fn same<T: Element + Send + Sync>(
        py: Python<'_>,
        array: &PyBuffer<T>,
        axes: [bool; 3],
        out: &PyBuffer<T>,
    ) -> PyResult<()> {
        let array = volume(array)?;
        write(py, array, array.extents(), out, |out| flip::write(array, axes, out))
    }
    let out = PyUntypedBuffer::get(out)?;
    typed!(array, u8 | u16 | u32 | u64, same(py, array, axes, out.as_typed()?))
}

/// One slice across an axis.
#[pyfunction]
pub(crate) fn voxels_slice(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    axis: usize,
    at: usize,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    fn same<T: Element + Send + Sync>(
        py: Python<'_>,
        array: &PyBuffer<T>,
        (axis, at): (usize, usize),
        out: &PyBuffer<T>,
    ) -> PyResult<()> {
        let array = volume(array)?;
        let mut extents = array.extents();
        if extents.get(axis).is_none_or(|extent| at >= *extent) {
            let text = format!("there is no slice {at} across axis {axis} of {extents:?} voxels");
            return Err(PyIndexError::new_err(text));
        }
        extents[axis] = 1;
        write(py, array, extents, out, |out| slice::write(array, axis, at, out))
    }
    let out = PyUntypedBuffer::get(out)?;
    typed!(array, u8 | u16 | u32 | u64, same(py, array, (axis, at), out.as_typed()?))
}

/// How many voxels there are at another spacing.
#[pyfunction]
pub(crate) fn voxels_extents(
    extents: [usize; 3],
    spacing: [f64; 3],
    to: [f64; 3],
) -> PyResult<(usize, usize, usize)> {
    let (from, to) = (Spacing::new(spacing).map_err(refused)?, Spacing::new(to).map_err(refused)?);
    Ok(from.extents(extents, to).map_err(refused)?.into())
}

/// Other extents of the same volume, with straight lines between voxels.
#[pyfunction]
pub(crate) fn voxels_linear(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    to: [usize; 3],
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    fn same<T: Float + Element>(
        py: Python<'_>,
        array: &PyBuffer<T>,
        to: [usize; 3],
        out: &PyBuffer<T>,
    ) -> PyResult<()> {
        let array = volume(array)?;
        write(py, array, to, out, |out| Resample::default().linear(array, to, out))
    }
    let out = PyUntypedBuffer::get(out)?;
    typed!(array, f32 | f64, same(py, array, to, out.as_typed()?))
}

/// Other extents of the same volume, each voxel the nearest one.
#[pyfunction]
pub(crate) fn voxels_nearest(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    to: [usize; 3],
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    fn same<T: Element + Send + Sync>(
        py: Python<'_>,
        array: &PyBuffer<T>,
        to: [usize; 3],
        out: &PyBuffer<T>,
    ) -> PyResult<()> {
        let array = volume(array)?;
        write(py, array, to, out, |out| Resample::default().nearest(array, to, out))
    }
    let out = PyUntypedBuffer::get(out)?;
    typed!(array, u8 | u16 | u32 | u64, same(py, array, to, out.as_typed()?))
}

/// The mask of some labels, which are an array as well.
#[pyfunction]
pub(crate) fn voxels_label(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    wanted: &Bound<'_, PyAny>,
    out: PyBuffer<u8>,
) -> PyResult<()> {
    fn same<T: Element + PartialEq + Send + Sync>(
        py: Python<'_>,
        array: &PyBuffer<T>,
        wanted: &PyBuffer<T>,
        out: &PyBuffer<u8>,
    ) -> PyResult<()> {
        let (array, wanted) = (volume(array)?, wanted.to_vec(py)?);
        write(py, array, array.extents(), out, |out| label::write(array.values(), &wanted, out))
    }
    let wanted = PyUntypedBuffer::get(wanted)?;
    typed!(array, u8 | u16 | u32 | u64, same(py, array, wanted.as_typed()?, &out))
}

/// Where a random patch begins. Random numbers are those of (seed, epoch, sample).
#[pyfunction]
pub(crate) fn voxels_patch(
    py: Python<'_>,
    labels: PyBuffer<u8>,
    size: [usize; 3],
    label: u8,
    probability: f64,
    address: (u64, u64, u64),
) -> PyResult<(usize, usize, usize)> {
    let (labels, patch) = (volume(&labels)?, Patch::new(size, label, probability).map_err(refused)?);
    let (seed, epoch, index) = address;
    let mut rng = Key::new(seed, epoch, Purpose::Sample).rng(index);
    let place = py.detach(|| patch.place(labels, &mut rng));
    Ok(place.map_err(|error| PyValueError::new_err(error.to_string()))?.into())
}

/// The voxels of an array of three axes.
fn volume<T: Element>(array: &PyBuffer<T>) -> PyResult<Voxels<'_, T>> {
    let extents: [usize; 3] = array
        .shape()
        .try_into()
        .map_err(|_| PyValueError::new_err(format!("a volume has three axes, not {}", array.dimensions())))?;
    let values = array.as_slice_ptr().ok_or_else(|| PyValueError::new_err("the array is not contiguous"))?;
    // SAFETY: the memory is of this type and stays as long as the buffer does. Who writes meanwhile was asked not to.
    let values = unsafe { values.as_ref() };
    Voxels::new(values, extents)
        .ok_or_else(|| PyValueError::new_err(format!("an array of shape {extents:?} has no voxels")))
}

/// Makes a result of these extents from a volume, without the GIL.
fn write<S: Element, T: Element + Send>(
    py: Python<'_>,
    from: Voxels<'_, S>,
    extents: [usize; 3],
    out: &PyBuffer<T>,
    make: impl FnOnce(&mut [T]) + Send,
) -> PyResult<()> {
    let target = out.as_slice_ptr().filter(|_| !out.readonly());
    let mut target = target.ok_or_else(|| PyValueError::new_err("the result cannot be written to"))?;
    if count(extents) != Some(target.len()) {
        let text = format!("a result of {extents:?} voxels is not one of {}", target.len());
        return Err(PyValueError::new_err(text));
    }
    let (begin, read) = (target.as_ptr().cast::<u8>() as usize, from.values().as_ptr_range());
    if begin < read.end as usize && (read.start as usize) < begin + out.len_bytes() {
        return Err(PyValueError::new_err("the result lies where the array does"));
    }
    // SAFETY: as in `volume`; besides, it can be written to and lies apart from what is read.
    let target = unsafe { target.as_mut() };
    py.detach(|| make(target));
    Ok(())
}

fn refused(error: feedline::images::Refused) -> PyErr {
    PyValueError::new_err(error.to_string())
}
