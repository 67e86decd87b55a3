//! A worker's side of the board.

use std::{collections::HashMap, sync::Arc, time::Duration};

use feedline_board::{Extent, copy_past_caches};
use pyo3::{
    buffer::PyBuffer,
    exceptions::{PyException, PyMemoryError, PyRuntimeError},
    prelude::*,
    types::{PyBytes, PyList, PyTuple},
};

use crate::{
    board::{Indices, read_indices},
    columns::{Columns, Samples, Target},
    files::FileRows,
    memory::{Commons, Lent},
    parcel::{self, place_after},
};

/// A ticket of rows, as the workers' Python code has it.
const ROWS: u32 = 0;
/// The ticket is not what its first sample let expect: it must be made in one place.
const ODD_TICKET: u32 = 1;
/// No ticket will ever be what rows can be made of.
const ODD_DATASET: u32 = 2;

/// Rows of a batch, or a batch, that this worker owns until it is done.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct Claim(feedline_board::Claim, bool);

#[pymethods]
impl Claim {
    #[getter]
    fn ticket(&self) -> u64 {
        self.0.ticket
    }

    #[getter]
    fn first(&self) -> usize {
        self.0.units.start
    }

    #[getter]
    fn count(&self) -> usize {
        self.0.units.len()
    }

    #[getter]
    fn kind(&self) -> u32 {
        self.0.kind
    }

    #[getter]
    fn generation(&self) -> u64 {
        self.0.generation
    }

    /// Whether its indices are bytes to be unpickled.
    #[getter]
    fn pickled(&self) -> bool {
        self.1
    }
}

/// A worker's place at a board.
#[pyclass(module = "feedline._engine")]
pub(crate) struct Seat {
    seat: feedline_board::Seat,
    /// The structures known so far, by what names them.
    known: HashMap<u64, Py<Columns>>,
}

#[pymethods]
impl Seat {
    /// Takes the place of a worker.
    #[new]
    fn new(commons: &Commons, place: u64, worker: usize) -> PyResult<Self> {
        let place = Extent::unpack(place).ok_or_else(|| PyRuntimeError::new_err("there is no board"))?;
        let seat = feedline_board::Seat::attach(Arc::clone(&commons.0), place, worker)?;
        Ok(Self { seat, known: HashMap::new() })
    }

    /// Whether the workers are to leave.
    #[getter]
    fn is_over(&self) -> bool {
        self.seat.is_over()
    }

    /// Takes something to do, waiting for it up to so many seconds.
    fn claim(&mut self, py: Python<'_>, seconds: f64) -> PyResult<Option<Claim>> {
        let mut claim = self.seat.claim(Duration::ZERO);
        if claim.is_none() {
            let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
            let seat = &mut self.seat;
            claim = py.detach(|| seat.claim(limit));
        }
        py.check_signals()?;
        Ok(claim.map(|claim| self.claimed(claim)))
    }

    /// Leaves a number for the consumer.
    fn mark(&self, mark: u32) {
        self.seat.mark(mark);
    }

    /// The indices of a claim's batch: a list or tuple of integers, or bytes to be unpickled.
    fn indices<'py>(&self, py: Python<'py>, claim: &Claim) -> PyResult<Bound<'py, PyAny>> {
        match read_indices(self.seat.payload(&claim.0)) {
            None => Err(PyRuntimeError::new_err("a ticket is damaged")),
            Some(Indices::Pickled(bytes)) => Ok(PyBytes::new(py, bytes).into_any()),
            Some(Indices::Integers { tuple: true, values }) => {
                Ok(PyTuple::new(py, integers(values).collect::<Vec<_>>())?.into_any())
            }
            Some(Indices::Integers { tuple: false, values }) => {
                Ok(PyList::new(py, integers(values).collect::<Vec<_>>())?.into_any())
            }
        }
    }

    /// Fills the rows of a claim. `get(index)` gives a sample; `clerk` knows the rest: `describe(sample)` its
    /// structure (bytes, or None if it has none that rows can be made of), `columns(bytes)` what that means,
    /// `failed(unit, index)` what to note of a sample whose exception is being handled, `seed(index)` is
    /// called before a sample if `seeded`. `make(index, row)`, if there is one, gives a sample as well, once it is known
    /// what samples look like: of its arrays, those may lie in the row that it is lent, a place for each column, and are
    /// not copied. Returns the objects to be noted, one list for each leaf that has them, and the failures.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (claim, get, clerk, indices, seeded, make=None))]
    fn fill<'py>(
        &mut self,
        py: Python<'py>,
        claim: &Claim,
        get: &Bound<'py, PyAny>,
        clerk: &Bound<'py, PyAny>,
        indices: Option<&Bound<'py, PyList>>,
        seeded: bool,
        make: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Vec<Py<PyList>>, Bound<'py, PyList>)> {
        let failures = PyList::empty(py);
        let mut rows: Option<Rows> = None;
        let indices = self.run_indices(py, claim, indices)?;
        if make.is_some() && self.seat.schema(&claim.0, 0) != 0 {
            rows = self.rows(py, &claim.0, clerk, &py.None().into_bound(py), 0)?;
        }
        let mut samples = Samples::new(get, &indices)?;
        for at in 0..claim.0.units.len() {
            let unit = claim.0.units.start + at;
            // Now and then: to look takes as long as a tiny sample.
            if at % 8 == 0 && self.seat.odd(&claim.0) != 0 {
                break;
            }
            self.seat.at(&claim.0, unit);
            let index = || indices.get_item(at);
            if seeded {
                clerk.call_method1("seed", (index()?,))?;
            }
            let sample = match (make, &rows) {
                (Some(make), Some(rows)) => make.call1((index()?, self.lent(py, rows, unit)?)),
                _ => samples.next(),
            };
            let sample = match sample {
                Ok(sample) => sample,
                Err(error) if error.is_instance_of::<PyException>(py) => {
                    failures.append(clerk.call_method1("failed", (unit, index()?, error.into_value(py)))?)?;
                    if let Some(rows) = &rows {
                        for list in &rows.objects {
                            list.bind(py).append(py.None())?;
                        }
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            if rows.is_none() {
                rows = self.rows(py, &claim.0, clerk, &sample, at)?;
            }
            let Some(Rows { start, offsets, columns, objects, .. }) = &rows else { break };
            let target = Target { start: *start, offsets, row: unit, objects };
            // A value that cannot even be looked at is one that rows cannot be made of.
            if !columns.get().write(&sample, &target).unwrap_or(false) {
                self.seat.set_odd(&claim.0, ODD_TICKET);
                break;
            }
        }
        Ok((rows.map(|rows| rows.objects).unwrap_or_default(), failures))
    }

    /// Fills the rows of a claim from files, without Python. Those that cannot be made so are asked of `get`, as in
    /// `fill`. Random numbers are those of (seed, epoch, index).
    #[allow(clippy::too_many_arguments)]
    fn fill_files<'py>(
        &mut self,
        py: Python<'py>,
        claim: &Claim,
        files: &FileRows,
        get: &Bound<'py, PyAny>,
        clerk: &Bound<'py, PyAny>,
        indices: Option<&Bound<'py, PyList>>,
        address: (u64, u64),
    ) -> PyResult<(Vec<Py<PyList>>, Bound<'py, PyList>)> {
        let failures = PyList::empty(py);
        let indices = self.run_indices(py, claim, indices)?;
        let Some(rows) = self.rows(py, &claim.0, clerk, &py.None().into_bound(py), 0)? else {
            return Ok((Vec::new(), failures));
        };
        // Indices that are not plain numbers are for Python.
        let numbers: Vec<Option<usize>> = indices.iter().map(|index| index.extract().ok()).collect();
        let Some(columns) = files.columns(rows.start, &rows.offsets, claim.0.of, address) else {
            // Samples that Python made for others are not like these.
            self.seat.set_odd(&claim.0, ODD_TICKET);
            return Ok((rows.objects, failures));
        };
        let seat = &self.seat;
        let left = py.detach(|| {
            let mut left = Vec::new();
            for (at, unit) in claim.0.units.clone().enumerate() {
                if seat.odd(&claim.0) != 0 {
                    break;
                }
                seat.at(&claim.0, unit);
                // SAFETY: the region is as long as its columns, and this row of it is ours until it is done.
                let made = numbers[at].is_some_and(|index| unsafe { columns.write(index, unit) });
                if !made {
                    left.push((at, unit));
                }
            }
            left
        });
        for (at, unit) in left {
            let index = indices.get_item(at)?;
            clerk.call_method1("seed", (&index,))?;
            match get.call1((&index,)) {
                Ok(sample) => {
                    let Rows { start, offsets, columns, objects, .. } = &rows;
                    let target = Target { start: *start, offsets, row: unit, objects };
                    if !columns.get().write(&sample, &target).unwrap_or(false) {
                        self.seat.set_odd(&claim.0, ODD_TICKET);
                        break;
                    }
                }
                Err(error) if error.is_instance_of::<PyException>(py) => {
                    failures.append(clerk.call_method1("failed", (unit, index, error.into_value(py)))?)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok((rows.objects, failures))
    }

    /// Makes rows from files, claim after claim, without Python and without asking for its lock in between. Returns a
    /// claim that needs Python: rows of a structure or a generation that is new here, or one that could not be made.
    /// None if there was nothing to do for so many seconds, or it is over.
    fn serve_files(
        &mut self,
        py: Python<'_>,
        files: &FileRows,
        address: (u64, u64),
        seconds: f64,
    ) -> PyResult<Option<Claim>> {
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        let left = py.detach(|| {
            while !self.seat.is_over() {
                let claim = self.seat.claim(limit)?;
                if !self.fill_known(&claim, files, address) {
                    return Some(claim);
                }
                self.seat.done(&claim, None);
            }
            None
        });
        py.check_signals()?;
        Ok(left.map(|claim| self.claimed(claim)))
    }

    /// Marks a claim as done, with a note.
    #[pyo3(signature = (claim, note=None))]
    fn done(&mut self, claim: &Claim, note: Option<&[u8]>) -> PyResult<()> {
        let place = match note {
            None => None,
            Some(note) => Some(self.place_note(&claim.0, note)?),
        };
        self.seat.done(&claim.0, place);
        Ok(())
    }

    /// Finishes a claim of a whole batch with a pickle and the buffers of its arrays.
    fn deliver(
        &mut self,
        py: Python<'_>,
        claim: &Claim,
        pickled: &[u8],
        buffers: Vec<PyBuffer<u8>>,
    ) -> PyResult<()> {
        let mut head = Vec::with_capacity(8 * (buffers.len() + 1) + pickled.len());
        head.extend_from_slice(&(buffers.len() as u64).to_le_bytes());
        let mut total = 0usize;
        for buffer in &buffers {
            head.extend_from_slice(&(buffer.len_bytes() as u64).to_le_bytes());
            let after = place_after(total, buffer.len_bytes());
            total = after.ok_or_else(|| PyMemoryError::new_err("the batch is too large"))?;
        }
        head.extend_from_slice(pickled);
        let region = self.seat.own_region(&claim.0, total + head.len())?;
        let commons = Arc::clone(self.seat.commons());
        let start = commons.at(region.offset(), region.len()).expect("an extent lies in the commons");
        let mut offset = 0;
        for buffer in &buffers {
            let len = buffer.len_bytes();
            let (from, to) = (buffer.buf_ptr() as usize, start as usize + offset);
            // SAFETY: the buffer is contiguous (the pickler made sure), stays as long as `buffers`, and the
            // region is ours and large enough.
            py.detach(|| unsafe { copy_past_caches(from as *const u8, to as *mut u8, len) });
            offset = place_after(offset, len).unwrap_or(total);
        }
        // SAFETY: as above.
        let note = unsafe { start.add(total) };
        // SAFETY: as above.
        unsafe { note.copy_from_nonoverlapping(head.as_ptr(), head.len()) };
        self.seat.done(&claim.0, Some((region.offset() + total as u64, head.len())));
        Ok(())
    }
}

/// What is known of the rows of a claim.
struct Rows {
    start: *mut u8,
    /// Where that is in the commons.
    at: u64,
    offsets: Vec<usize>,
    columns: Py<Columns>,
    objects: Vec<Py<PyList>>,
}

impl Seat {
    fn claimed(&self, claim: feedline_board::Claim) -> Claim {
        let pickled = matches!(read_indices(self.seat.payload(&claim)), Some(Indices::Pickled(_)));
        Claim(claim, pickled)
    }

    /// Fills the rows of a claim whose structure is known; whether all could be made. If not, they may be filled again.
    fn fill_known(&self, claim: &feedline_board::Claim, files: &FileRows, address: (u64, u64)) -> bool {
        if claim.kind != ROWS || claim.generation != address.1 {
            return false;
        }
        let Some(Indices::Integers { values, .. }) = read_indices(self.seat.payload(claim)) else {
            return false;
        };
        let Some(indices) = values.as_chunks::<8>().0.get(claim.units.clone()) else { return false };
        let Some(offsets) = self.known.get(&self.seat.schema(claim, 0)).and_then(|columns| {
            columns.get().offsets(claim.of).ok().filter(|_| columns.get().objects() == 0)
        }) else {
            return false;
        };
        let bytes = *offsets.last().expect("there is an end");
        let Ok(Some(region)) = self.seat.region(claim, bytes) else { return false };
        let start =
            self.seat.commons().at(region.offset(), region.len()).expect("an extent lies in the commons");
        let Some(columns) = files.columns(start, &offsets, claim.of, address) else { return false };
        for (unit, index) in claim.units.clone().zip(indices) {
            if self.seat.odd(claim) != 0 {
                return true; // it will be made again, in one place
            }
            self.seat.at(claim, unit);
            let Ok(index) = usize::try_from(i64::from_le_bytes(*index)) else { return false };
            // SAFETY: the region is as long as its columns, and this row of it is ours until it is done.
            if !unsafe { columns.write(index, unit) } {
                return false;
            }
        }
        true
    }

    /// The indices of a claim's units.
    fn run_indices<'py>(
        &self,
        py: Python<'py>,
        claim: &Claim,
        listed: Option<&Bound<'py, PyList>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let units = claim.0.units.clone();
        if let Some(listed) = listed {
            return Ok(listed.get_slice(units.start, units.end).to_tuple());
        }
        let damaged = || PyRuntimeError::new_err("a ticket is damaged");
        match read_indices(self.seat.payload(&claim.0)) {
            Some(Indices::Integers { values, .. }) => {
                let chunks = values.as_chunks::<8>().0.get(units).ok_or_else(damaged)?;
                PyTuple::new(py, chunks.iter().map(|bytes| i64::from_le_bytes(*bytes)))
            }
            _ => Err(damaged()),
        }
    }

    /// Finds out what rows of a claim look like, if it has not been said yet, from its first sample.
    fn rows(
        &mut self,
        py: Python<'_>,
        claim: &feedline_board::Claim,
        clerk: &Bound<'_, PyAny>,
        sample: &Bound<'_, PyAny>,
        before: usize,
    ) -> PyResult<Option<Rows>> {
        let mut id = self.seat.schema(claim, 0);
        if id == 0 {
            let described = clerk.call_method1("describe", (sample,))?;
            let Ok(bytes) = described.cast::<PyBytes>() else {
                self.seat.set_odd(claim, ODD_DATASET);
                return Ok(None);
            };
            id = self.seat.schema(claim, parcel::write_schema(self.seat.commons(), bytes.as_bytes())?);
        }
        if !self.known.contains_key(&id) {
            let bytes = parcel::read_schema(py, self.seat.commons(), id)?;
            let columns = clerk.call_method1("columns", (bytes,))?.cast_into::<Columns>()?.unbind();
            self.known.insert(id, columns);
        }
        let columns = self.known[&id].clone_ref(py);
        let offsets = columns.get().offsets(claim.of)?;
        let Some(region) = self.seat.region(claim, *offsets.last().expect("there is an end"))? else {
            self.seat.set_odd(claim, ODD_TICKET);
            return Ok(None);
        };
        let start =
            self.seat.commons().at(region.offset(), region.len()).expect("an extent lies in the commons");
        let lists = (0..columns.get().objects()).map(|_| {
            // Rows that failed before have no objects.
            Ok(PyList::new(py, (0..before).map(|_| py.None()))?.unbind())
        });
        let objects = lists.collect::<PyResult<_>>()?;
        Ok(Some(Rows { start, at: region.offset(), offsets, columns, objects }))
    }

    /// The places of a row, one for each column.
    fn lent<'py>(&self, py: Python<'py>, rows: &Rows, unit: usize) -> PyResult<Bound<'py, PyTuple>> {
        let places = rows.columns.get().widths().iter().zip(&rows.offsets).map(|(width, offset)| {
            let at = rows.at + (offset + unit * width) as u64;
            Py::new(py, Lent::new(Arc::clone(self.seat.commons()), at, *width))
        });
        PyTuple::new(py, places.collect::<PyResult<Vec<_>>>()?)
    }

    /// Puts a note into the side of the claim's rows, or, if it is too long, into memory of its own.
    fn place_note(&self, claim: &feedline_board::Claim, note: &[u8]) -> PyResult<(u64, usize)> {
        let commons = self.seat.commons();
        let offset = match self.side(claim) {
            Some((offset, room)) if room >= note.len() => offset,
            _ => commons.fresh(note.len())?.offset(),
        };
        let target = commons.at(offset, note.len()).expect("an extent lies in the commons");
        // SAFETY: the side of our rows is ours, and so is a fresh extent.
        unsafe { target.copy_from_nonoverlapping(note.as_ptr(), note.len()) };
        Ok((offset, note.len()))
    }

    /// Where the side of a claim's rows begins, and its length.
    fn side(&self, claim: &feedline_board::Claim) -> Option<(u64, usize)> {
        let columns = self.known.get(&self.seat.schema(claim, 0))?.get();
        let region = self.seat.region(claim, 1).ok()??;
        let offsets = columns.offsets(claim.of).ok()?;
        let (begin, end) = (offsets[offsets.len() - 2], offsets[offsets.len() - 1]);
        let begin = begin + claim.units.start * columns.side();
        let room = claim.units.len() * columns.side();
        (begin + room <= end && end <= region.len()).then_some((region.offset() + begin as u64, room))
    }
}

fn integers(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes))
}
