//! The consumer's side of the board.

use std::{collections::HashMap, sync::Arc, time::Duration};

use feedline_board::{Extent, Post, Wake};
use pyo3::{
    buffer::PyBuffer,
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyInt, PyList, PyMemoryView, PyTuple},
};

use crate::{
    memory::{Commons, Hold},
    parcel,
};

/// How the indices of a ticket are written down.
const LIST: u64 = 0;
const TUPLE: u64 = 1;
const PICKLED: u64 = 2;

/// The board of an iterator.
#[pyclass(module = "feedline._engine")]
pub(crate) struct Board {
    open: Option<feedline_board::Board>,
    commons: Arc<feedline_board::Commons>,
    workers: usize,
    payload: Vec<u8>,
    /// The memory that tickets were posted with; workers may have taken other.
    given: HashMap<u64, Extent>,
}

impl Board {
    fn get(&self) -> PyResult<&feedline_board::Board> {
        self.open.as_ref().ok_or_else(|| PyRuntimeError::new_err("the board is closed"))
    }

    fn get_mut(&mut self) -> PyResult<&mut feedline_board::Board> {
        self.open.as_mut().ok_or_else(|| PyRuntimeError::new_err("the board is closed"))
    }
}

#[pymethods]
impl Board {
    /// A board for so many workers, each with a journal of so many entries.
    #[new]
    #[pyo3(signature = (commons, workers, journal=0))]
    fn new(commons: &Commons, workers: usize, journal: u16) -> PyResult<Self> {
        let board = feedline_board::Board::new(Arc::clone(&commons.0), workers, journal)?;
        Ok(Self {
            open: Some(board),
            commons: Arc::clone(&commons.0),
            workers,
            payload: Vec::new(),
            given: HashMap::new(),
        })
    }

    /// Where it lies in the commons.
    #[getter]
    fn place(&self) -> PyResult<u64> {
        Ok(self.get()?.place().pack())
    }

    /// Says how many workers there are, if there are fewer than seats.
    fn set_present(&mut self, workers: usize) -> PyResult<()> {
        self.get_mut()?.set_present(workers);
        Ok(())
    }

    /// Tells a worker to leave after what it is at, or that its seat may be taken again.
    fn dismiss(&self, worker: usize, leave: bool) -> PyResult<()> {
        self.get()?.dismiss(worker, leave);
        Ok(())
    }

    /// For all workers together: busy seconds, units, seconds of a processor.
    fn work(&self) -> PyResult<(f64, u64, f64)> {
        let board = self.get()?;
        let sums = (0..self.workers).fold((0.0, 0, 0.0), |(busy, units, processor), worker| {
            let gauge = board.gauge(worker);
            (busy + gauge.busy.as_secs_f64(), units + gauge.units, processor + gauge.processor.as_secs_f64())
        });
        Ok(sums)
    }

    /// Whether another ticket can be posted.
    #[getter]
    fn has_room(&self) -> PyResult<bool> {
        Ok(self.get()?.has_room())
    }

    /// Posts a batch and returns the number of its ticket. `indices` is a list, a tuple or an array of integers,
    /// or bytes that the workers unpickle. `run` is how many units a worker takes at once, `only` the one worker
    /// that may take it, `size` and `schema` what is known of its rows. It wakes those
    /// who may take it; if `quiet`, one of them, and only if all sleep.
    #[pyo3(signature = (indices, units, run, kind, only=None, generation=0, size=0, schema=0, quiet=false))]
    #[allow(clippy::too_many_arguments)] // They are a ticket.
    fn post(
        &mut self,
        indices: &Bound<'_, PyAny>,
        units: usize,
        run: usize,
        kind: u32,
        only: Option<usize>,
        generation: u64,
        size: usize,
        schema: u64,
        quiet: bool,
    ) -> PyResult<u64> {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        write_indices(&mut payload, indices)?;
        let region = if size > 0 { Some(self.commons.take(size)?) } else { None };
        let board = self.get_mut()?;
        let post = Post { units, run, only, kind, generation, payload: &payload, region, schema };
        let ticket = board.post(&post)?;
        if quiet {
            board.ring_if_all_sleep();
        } else {
            // One sleeper for each piece; all of them if only one may take it, because nobody knows which is woken.
            board.ring(if only.is_some() { usize::MAX } else { units.div_ceil(run.max(1)) });
        }
        self.payload = payload;
        if let Some(region) = region {
            self.given.insert(ticket, region);
        }
        Ok(ticket)
    }

    /// Wakes all workers that sleep.
    fn ring(&self) -> PyResult<()> {
        self.get()?.ring(usize::MAX);
        Ok(())
    }

    /// Whether a ticket is done.
    fn is_done(&self, ticket: u64) -> PyResult<bool> {
        Ok(self.get()?.is_done(ticket))
    }

    /// Waits until one of the tickets is done (1), workers have nothing to do and `or_hungry` (2), or neither
    /// within so many seconds (0).
    fn wait(&self, py: Python<'_>, tickets: Vec<u64>, or_hungry: bool, seconds: f64) -> PyResult<u32> {
        let board = self.get()?;
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        let wake = match board.wait(&tickets, or_hungry, Duration::ZERO) {
            Wake::Neither if !limit.is_zero() => py.detach(|| board.wait(&tickets, or_hungry, limit)),
            wake => wake,
        };
        py.check_signals()?;
        Ok(match wake {
            Wake::Done => 1,
            Wake::Hungry => 2,
            Wake::Neither => 0,
        })
    }

    /// Takes a ticket that is done off the board.
    fn collect(&mut self, py: Python<'_>, ticket: u64) -> PyResult<Collected> {
        let retired = self.get_mut()?.retire(ticket);
        let retired = retired.ok_or_else(|| PyValueError::new_err(format!("ticket {ticket} is not done")))?;
        let commons = &self.commons;
        if let Some(given) = self.given.remove(&ticket).filter(|given| Some(*given) != retired.region) {
            commons.give(given);
        }
        let mut notes = Vec::with_capacity(retired.notes.len());
        for (unit, offset, len) in retired.notes {
            // SAFETY: the ticket is done, so nobody writes to its notes.
            let bytes = unsafe { commons.bytes(offset, len) };
            let bytes =
                bytes.ok_or_else(|| PyRuntimeError::new_err("a worker's note lies outside the memory"))?;
            notes.push((unit, PyBytes::new(py, bytes).unbind()));
            let within = retired.region.is_some_and(|region| {
                (region.offset()..region.offset() + region.len() as u64).contains(&offset)
            });
            if let Some(extent) = Extent::of(offset, len).filter(|_| !within) {
                commons.discard(extent);
            }
        }
        let hold = retired.region.map(|region| Py::new(py, Hold::new(Arc::clone(commons), region)));
        Ok(Collected { hold: hold.transpose()?, schema: retired.schema, odd: retired.odd, notes })
    }

    /// The bytes of a schema that a worker published.
    fn schema<'py>(&self, py: Python<'py>, id: u64) -> PyResult<Bound<'py, PyBytes>> {
        parcel::read_schema(py, &self.commons, id)
    }

    /// Takes back what workers have not begun with.
    fn revoke(&self, ticket: u64) -> PyResult<()> {
        self.get()?.revoke(ticket);
        Ok(())
    }

    /// Declares a unit that a dead worker held to be done.
    fn give_up(&self, ticket: u64, unit: usize, worker: usize) -> PyResult<()> {
        self.get()?.give_up(ticket, unit, worker);
        Ok(())
    }

    /// What a dead worker held: a list of (ticket, first unit, units, the unit it was at).
    fn lost(&self, worker: usize) -> PyResult<Vec<(u64, usize, usize, usize)>> {
        let lost = self.get()?.lost(worker);
        Ok(lost.iter().map(|lost| (lost.ticket, lost.first, lost.count, lost.unit)).collect())
    }

    /// Frees what a dead worker held and what has not been given up.
    fn reclaim(&mut self, worker: usize) -> PyResult<()> {
        self.get_mut()?.reclaim(worker);
        Ok(())
    }

    /// For each worker: ((ticket, unit, seconds) or None, busy seconds, waiting seconds, units, runs,
    /// seconds and number of the first units of runs, mark, seconds of a processor).
    #[allow(clippy::type_complexity)] // It is unpacked where it arrives.
    fn gauges(&self) -> PyResult<Vec<(Option<(u64, usize, f64)>, f64, f64, u64, u64, f64, u64, u32, f64)>> {
        let board = self.get()?;
        let gauge = |worker| {
            let gauge = board.gauge(worker);
            let at = gauge.at.map(|(ticket, unit, spent)| (ticket, unit, spent.as_secs_f64()));
            let (busy, waiting) = (gauge.busy.as_secs_f64(), gauge.waiting.as_secs_f64());
            let (first, first_units) = gauge.first;
            let (first, processor) = (first.as_secs_f64(), gauge.processor.as_secs_f64());
            (at, busy, waiting, gauge.units, gauge.runs, first, first_units, gauge.mark, processor)
        };
        Ok((0..self.workers).map(gauge).collect())
    }

    /// What workers have been at since the last time this was asked: a list of (worker, ticket, first unit, units,
    /// begin, end), times in nanoseconds of the monotonic clock, and how many entries are missing.
    #[allow(clippy::type_complexity)] // It is unpacked where it arrives.
    fn journal(&mut self) -> PyResult<(Vec<(usize, u64, usize, usize, u64, u64)>, u64)> {
        let (workers, board) = (self.workers, self.get_mut()?);
        let (mut entries, mut missed) = (Vec::new(), 0);
        for worker in 0..workers {
            let (stretches, left_out) = board.journal(worker);
            missed += left_out;
            entries.extend(
                stretches
                    .into_iter()
                    .map(|one| (worker, one.ticket, one.units.start, one.units.len(), one.began, one.ended)),
            );
        }
        Ok((entries, missed))
    }

    /// Tells the workers to leave.
    fn stop(&self) -> PyResult<()> {
        self.get()?.stop();
        Ok(())
    }

    /// Gives all memory back. All workers must be gone.
    fn release(&mut self) {
        if let Some(board) = self.open.take() {
            board.release();
        }
    }
}

fn write_indices(payload: &mut Vec<u8>, indices: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(bytes) = indices.cast_exact::<PyBytes>() {
        payload.extend_from_slice(&PICKLED.to_le_bytes());
        payload.extend_from_slice(bytes.as_bytes());
        return Ok(());
    }
    if indices.cast_exact::<PyMemoryView>().is_ok() {
        let buffer = PyBuffer::<i64>::get(indices)?;
        payload.extend_from_slice(&LIST.to_le_bytes());
        payload.extend_from_slice(bytemuck::cast_slice(&buffer.to_vec(indices.py())?));
        return Ok(());
    }
    let mut write = |index: &Bound<'_, PyAny>| -> PyResult<()> {
        payload.extend_from_slice(&index.cast_exact::<PyInt>()?.extract::<i64>()?.to_le_bytes());
        Ok(())
    };
    if let Ok(list) = indices.cast_exact::<PyList>() {
        write_tag(&mut write, list.py(), LIST)?;
        list.iter().try_for_each(|index| write(&index))
    } else {
        let tuple = indices.cast_exact::<PyTuple>()?;
        write_tag(&mut write, tuple.py(), TUPLE)?;
        tuple.iter().try_for_each(|index| write(&index))
    }
}

fn write_tag(
    write: &mut impl FnMut(&Bound<'_, PyAny>) -> PyResult<()>,
    py: Python<'_>,
    tag: u64,
) -> PyResult<()> {
    write(tag.into_pyobject(py)?.as_any())
}

/// What a ticket says its indices are.
pub(crate) enum Indices<'a> {
    Integers { tuple: bool, values: &'a [u8] },
    Pickled(&'a [u8]),
}

pub(crate) fn read_indices(payload: &[u8]) -> Option<Indices<'_>> {
    let (tag, rest) = payload.split_first_chunk::<8>()?;
    match u64::from_le_bytes(*tag) {
        PICKLED => Some(Indices::Pickled(rest)),
        tag => Some(Indices::Integers { tuple: tag == TUPLE, values: rest }),
    }
}

/// A ticket that is done.
#[pyclass(frozen, get_all, module = "feedline._engine")]
pub(crate) struct Collected {
    hold: Option<Py<Hold>>,
    schema: u64,
    odd: u32,
    notes: Vec<(usize, Py<PyBytes>)>,
}

#[pymethods]
impl Collected {
    /// Where the buffers of a parcel begin and how long they are.
    fn buffers(&self, py: Python<'_>) -> PyResult<Vec<(usize, usize)>> {
        let note = self.notes.first().map(|(_, note)| note.bind(py).as_bytes());
        parcel::places(note.unwrap_or_default())
    }
}
