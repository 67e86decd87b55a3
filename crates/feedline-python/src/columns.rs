//! Samples of a known structure, written as rows of columns.
//!
//! A structure is a tree with leaves of fixed size. Every leaf is a column of the batch, so that the batch's
//! tensors are finished when the last row is written. A sample that has another structure is not written, and
//! says so; what becomes of it is for others to decide.

use std::{ffi::c_int, ptr, sync::Arc};

use feedline_board::copy_past_caches;
use pyo3::{
    exceptions::{PyStopIteration, PyTypeError, PyValueError},
    ffi, intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyFloat, PyInt, PyIterator, PyList, PyTuple, PyType},
};

use crate::{
    files::FileRows,
    memory::{Commons, Hold},
    parcel::place_after,
};

/// The structure of samples.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct Columns {
    root: Node,
    /// Bytes of a row in each column.
    widths: Vec<usize>,
    /// How many leaves are kept beside the columns.
    objects: usize,
    /// Bytes for those, per row.
    side: usize,
}

enum Node {
    Int(usize),
    Float(usize),
    Bool(usize),
    Tensor { column: usize, class: Py<PyType>, dtype: Py<PyAny>, layout: Py<PyAny>, shape: Py<PyAny> },
    Array { column: usize, class: Py<PyType>, dtype: Py<PyAny>, shape: Vec<isize> },
    Scalar { column: usize, class: Py<PyType> },
    Object { class: Py<PyType>, place: usize },
    Tuple(Vec<Node>),
    List(Vec<Node>),
    Named(Py<PyType>, Vec<Node>),
    Dict(Vec<(Py<PyAny>, Node)>),
}

/// Where the rows of a batch are.
pub(crate) struct Target<'a> {
    pub(crate) start: *mut u8,
    pub(crate) offsets: &'a [usize],
    pub(crate) row: usize,
    /// A list for each leaf that is kept beside.
    pub(crate) objects: &'a [Py<PyList>],
}

#[pymethods]
impl Columns {
    /// From nested tuples, each with the kind of a node first.
    #[new]
    fn new(tree: &Bound<'_, PyAny>, side: usize) -> PyResult<Self> {
        let mut columns = Self { root: Node::Tuple(Vec::new()), widths: Vec::new(), objects: 0, side };
        columns.root = columns.node(tree)?;
        Ok(columns)
    }

    /// Where each column begins in a batch of so many rows, then where the side begins, then the end.
    pub(crate) fn offsets(&self, rows: usize) -> PyResult<Vec<usize>> {
        let too_large = || PyValueError::new_err(format!("{rows} rows of these samples are too large"));
        let mut offsets = vec![0];
        for width in &self.widths {
            let (last, len) = (offsets[offsets.len() - 1], width.checked_mul(rows).ok_or_else(too_large)?);
            offsets.push(place_after(last, len).ok_or_else(too_large)?);
        }
        let last = offsets[offsets.len() - 1];
        offsets.push(
            last.checked_add(self.side.checked_mul(rows).ok_or_else(too_large)?).ok_or_else(too_large)?,
        );
        Ok(offsets)
    }

    /// Writes a batch: the samples that `get(index)` gives, except for the first if that is there already.
    /// Returns its memory, the objects that are kept beside it, and, if a sample has another structure, how many
    /// were written and that one.
    #[allow(clippy::type_complexity)]
    fn stack<'py>(
        &self,
        commons: &Commons,
        get: &Bound<'py, PyAny>,
        indices: &Bound<'py, PyList>,
        mut first: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Hold, Vec<Py<PyList>>, Option<(usize, Bound<'py, PyAny>)>)> {
        let py = indices.py();
        let offsets = self.offsets(indices.len())?;
        let hold = Hold::take(Arc::clone(&commons.0), offsets[self.widths.len()])?;
        let objects: Vec<_> = (0..self.objects).map(|_| PyList::empty(py).unbind()).collect();
        // A tuple stays as long as it is, whatever samples do to the list.
        let indices = indices.to_tuple();
        let mut samples = Samples::new(get, &indices.get_slice(usize::from(first.is_some()), indices.len()))?;
        for row in 0..indices.len() {
            let sample = match first.take() {
                Some(sample) => sample,
                None => samples.next()?,
            };
            let target = Target { start: hold.start(), offsets: &offsets, row, objects: &objects };
            if !self.write(&sample, &target).unwrap_or(false) {
                return Ok((hold, objects, Some((row, sample))));
            }
        }
        Ok((hold, objects, None))
    }

    /// Writes a batch of files, without Python. `None` if one of them cannot be made so.
    fn stack_files(
        &self,
        py: Python<'_>,
        commons: &Commons,
        files: &FileRows,
        indices: Vec<usize>,
        address: (u64, u64),
    ) -> PyResult<Option<Hold>> {
        let offsets = self.offsets(indices.len())?;
        let hold = Hold::take(Arc::clone(&commons.0), offsets[self.widths.len()])?;
        let Some(columns) = files.columns(hold.start(), &offsets, indices.len(), address) else {
            return Ok(None);
        };
        // SAFETY: the memory was just taken, and nobody else knows it yet.
        let write = |(row, index): (usize, &usize)| unsafe { columns.write(*index, row) };
        let made = py.detach(|| indices.iter().enumerate().all(write));
        Ok(made.then_some(hold))
    }
}

/// The samples of some indices, one after the other.
///
/// Python's own `map` calls a function without making a tuple of its arguments, which its stable interface cannot do
/// and which takes as long as a tiny sample.
pub(crate) struct Samples<'py>(Bound<'py, PyIterator>);

impl<'py> Samples<'py> {
    pub(crate) fn new(get: &Bound<'py, PyAny>, indices: &Bound<'py, PyTuple>) -> PyResult<Self> {
        static MAP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let map = MAP.import(get.py(), "builtins", "map")?;
        Ok(Self(map.call1((get, indices))?.try_iter()?))
    }

    /// The next one; there must be one.
    pub(crate) fn next(&mut self) -> PyResult<Bound<'py, PyAny>> {
        // A map that ends early has met a sample that raises `StopIteration`.
        self.0.next().unwrap_or_else(|| Err(PyStopIteration::new_err(())))
    }
}

impl Columns {
    pub(crate) fn objects(&self) -> usize {
        self.objects
    }

    pub(crate) fn side(&self) -> usize {
        self.side
    }

    /// Bytes of a row in each column.
    pub(crate) fn widths(&self) -> &[usize] {
        &self.widths
    }

    fn column(&mut self, width: usize) -> usize {
        self.widths.push(width);
        self.widths.len() - 1
    }

    fn node(&mut self, tree: &Bound<'_, PyAny>) -> PyResult<Node> {
        let tree = tree.cast::<PyTuple>()?;
        let item = |at| tree.get_item(at);
        let class = |at| -> PyResult<Py<PyType>> { Ok(item(at)?.cast_into::<PyType>()?.unbind()) };
        let kind: String = item(0)?.extract()?;
        Ok(match kind.as_str() {
            "int" => Node::Int(self.column(8)),
            "float" => Node::Float(self.column(8)),
            "bool" => Node::Bool(self.column(1)),
            "tensor" => Node::Tensor {
                class: class(1)?,
                dtype: item(2)?.unbind(),
                layout: item(3)?.unbind(),
                shape: item(4)?.unbind(),
                column: self.column(item(5)?.extract()?),
            },
            "array" => Node::Array {
                class: class(1)?,
                dtype: item(2)?.unbind(),
                shape: item(3)?.extract()?,
                column: self.column(item(4)?.extract()?),
            },
            "scalar" => Node::Scalar { class: class(1)?, column: self.column(item(2)?.extract()?) },
            "object" => {
                self.objects += 1;
                Node::Object { class: class(1)?, place: self.objects - 1 }
            }
            "tuple" => Node::Tuple(self.nodes(&item(1)?)?),
            "list" => Node::List(self.nodes(&item(1)?)?),
            "named" => Node::Named(class(1)?, self.nodes(&item(2)?)?),
            "dict" => {
                let keys = item(1)?.cast_into::<PyTuple>()?;
                let nodes = self.nodes(&item(2)?)?;
                Node::Dict(keys.iter().map(Bound::unbind).zip(nodes).collect())
            }
            other => return Err(PyTypeError::new_err(format!("there is no kind of node {other:?}"))),
        })
    }

    fn nodes(&mut self, trees: &Bound<'_, PyAny>) -> PyResult<Vec<Node>> {
        trees.cast::<PyTuple>()?.iter().map(|tree| self.node(&tree)).collect()
    }

    /// Writes a sample into its row. False if it has another structure; then the row may be half-written.
    pub(crate) fn write(&self, sample: &Bound<'_, PyAny>, target: &Target<'_>) -> PyResult<bool> {
        self.write_node(&self.root, sample, target)
    }

    fn write_node(&self, node: &Node, value: &Bound<'_, PyAny>, target: &Target<'_>) -> PyResult<bool> {
        match node {
            Node::Int(column) => {
                if !value.is_exact_instance_of::<PyInt>() {
                    return Ok(false);
                }
                let mut overflow: c_int = 0;
                // SAFETY: the value is an int.
                let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(value.as_ptr(), &raw mut overflow) };
                if overflow == 0 {
                    self.copy(target, *column, (&raw const number).cast(), 8);
                }
                Ok(overflow == 0)
            }
            Node::Float(column) => {
                let Ok(float) = value.cast_exact::<PyFloat>() else { return Ok(false) };
                let number = float.value();
                self.copy(target, *column, (&raw const number).cast(), 8);
                Ok(true)
            }
            Node::Bool(column) => {
                let Ok(truth) = value.extract::<bool>() else { return Ok(false) };
                let byte = u8::from(truth);
                self.copy(target, *column, &raw const byte, 1);
                Ok(true)
            }
            Node::Tensor { column, class, dtype, layout, shape } => {
                if !value.get_type().is(class) {
                    return Ok(false);
                }
                self.write_tensor(*column, [dtype, layout, shape], value, target)
            }
            Node::Array { column, class, dtype, shape } => {
                let py = value.py();
                if !value.get_type().is(class) {
                    return Ok(false);
                }
                let found = value.getattr(intern!(py, "dtype"))?;
                if !found.is(dtype) && !found.eq(dtype)? {
                    return Ok(false);
                }
                self.write_buffer(*column, Some(shape), value, target)
            }
            Node::Scalar { column, class } => {
                if !value.get_type().is(class) {
                    return Ok(false);
                }
                self.write_buffer(*column, None, value, target)
            }
            Node::Object { class, place } => {
                if !value.get_type().is(class) {
                    return Ok(false);
                }
                target.objects[*place].bind(value.py()).append(value)?;
                Ok(true)
            }
            Node::Tuple(nodes) => match value.cast_exact::<PyTuple>() {
                Ok(tuple) if tuple.len() == nodes.len() => self.write_all(nodes, tuple.iter(), target),
                _ => Ok(false),
            },
            Node::List(nodes) => match value.cast_exact::<PyList>() {
                Ok(list) if list.len() == nodes.len() => self.write_all(nodes, list.iter(), target),
                _ => Ok(false),
            },
            Node::Named(class, nodes) => match value.cast::<PyTuple>() {
                Ok(tuple) if value.get_type().is(class) && tuple.len() == nodes.len() => {
                    self.write_all(nodes, tuple.iter(), target)
                }
                _ => Ok(false),
            },
            Node::Dict(fields) => {
                let Ok(dict) = value.cast_exact::<PyDict>() else { return Ok(false) };
                if dict.len() != fields.len() {
                    return Ok(false);
                }
                for ((key, node), (found, value)) in fields.iter().zip(dict.iter()) {
                    if !(found.is(key) || found.eq(key)?) || !self.write_node(node, &value, target)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn write_all<'py>(
        &self,
        nodes: &[Node],
        values: impl Iterator<Item = Bound<'py, PyAny>>,
        target: &Target<'_>,
    ) -> PyResult<bool> {
        for (node, value) in nodes.iter().zip(values) {
            if !self.write_node(node, &value, target)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write_tensor(
        &self,
        column: usize,
        [dtype, layout, shape]: [&Py<PyAny>; 3],
        tensor: &Bound<'_, PyAny>,
        target: &Target<'_>,
    ) -> PyResult<bool> {
        let py = tensor.py();
        let is = |name, what: &Py<PyAny>| -> PyResult<bool> { Ok(tensor.getattr(name)?.is(what)) };
        let says = |name| -> PyResult<bool> { tensor.getattr(name)?.is_truthy() };
        let plain = is(intern!(py, "dtype"), dtype)?
            && is(intern!(py, "layout"), layout)?
            && tensor.getattr(intern!(py, "shape"))?.eq(shape)?
            && says(intern!(py, "is_cpu"))?
            && !says(intern!(py, "requires_grad"))?;
        if !plain || tensor.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
            return Ok(false);
        }
        let resolved = tensor.call_method0(intern!(py, "resolve_conj"))?;
        let tensor = resolved.call_method0(intern!(py, "contiguous"))?;
        let start: usize = tensor.call_method0(intern!(py, "data_ptr"))?.extract()?;
        let width = self.widths[column];
        if width > 0 {
            if start == 0 {
                return Ok(false);
            }
            self.copy_large(py, target, column, start as *const u8, width);
        }
        Ok(true)
    }

    fn write_buffer(
        &self,
        column: usize,
        shape: Option<&Vec<isize>>,
        value: &Bound<'_, PyAny>,
        target: &Target<'_>,
    ) -> PyResult<bool> {
        let py = value.py();
        let mut view = std::mem::MaybeUninit::<ffi::Py_buffer>::uninit();
        let flags = ffi::PyBUF_C_CONTIGUOUS;
        // SAFETY: `view` is large enough, and is read only if the call succeeds.
        if unsafe { ffi::PyObject_GetBuffer(value.as_ptr(), view.as_mut_ptr(), flags) } != 0 {
            drop(PyErr::fetch(py));
            let strides: Vec<isize> = value.getattr(intern!(py, "strides"))?.extract()?;
            if strides.iter().any(|stride| *stride < 0) {
                // Torch refuses these, and says so better.
                return Ok(false);
            }
            let copy = value.call_method1(intern!(py, "copy"), ("C",))?;
            return self.write_buffer(column, shape, &copy, target);
        }
        // SAFETY: the call has succeeded.
        let mut view = unsafe { view.assume_init() };
        let fits = view.len as usize == self.widths[column]
            && shape.is_none_or(|shape| {
                // SAFETY: with this flag there are `ndim` entries.
                view.ndim as usize == shape.len()
                    && (shape.is_empty()
                        || unsafe { std::slice::from_raw_parts(view.shape, shape.len()) } == shape.as_slice())
            });
        if fits {
            self.copy_large(py, target, column, view.buf.cast(), view.len as usize);
        }
        // SAFETY: the view is one that Python gave us.
        unsafe { ffi::PyBuffer_Release(&raw mut view) };
        Ok(fits)
    }

    fn copy_large(&self, py: Python<'_>, target: &Target<'_>, column: usize, from: *const u8, len: usize) {
        // Worth letting other threads run.
        const LARGE: usize = 256 << 10;
        if len < LARGE {
            self.copy(target, column, from, len);
            return;
        }
        let (to, from) = (self.cell(target, column) as usize, from as usize);
        if to == from {
            return; // it was made in its place
        }
        // SAFETY: the source is kept alive by its object, which the caller holds; the target is a row of ours.
        py.detach(|| unsafe { copy_past_caches(from as *const u8, to as *mut u8, len) });
    }

    fn copy(&self, target: &Target<'_>, column: usize, from: *const u8, len: usize) {
        debug_assert_eq!(len, self.widths[column]);
        // Not `copy_nonoverlapping`: what was made in its place is there already.
        // SAFETY: the region is as large as the offsets say, the row is ours, and `from` has `len` bytes.
        unsafe { ptr::copy(from, self.cell(target, column), len) };
    }

    fn cell(&self, target: &Target<'_>, column: usize) -> *mut u8 {
        let at = target.offsets[column] + target.row * self.widths[column];
        // SAFETY: the region is as large as the offsets say.
        unsafe { target.start.add(at) }
    }
}
