//! Memory of this process that others write to: whether they have.

use pyo3::{exceptions::PyValueError, prelude::*};

/// Places in memory, and what was there when they were last looked at.
///
/// Python could read them as well, but not several of them in the time that a tiny batch leaves.
#[pyclass(module = "feedline._engine")]
pub(crate) struct Places {
    places: Vec<Place>,
    /// What lies there must stay where it is, so its owners live as long as this.
    _owners: Vec<Py<PyAny>>,
}

struct Place {
    start: usize,
    seen: Box<[u32]>,
}

impl Place {
    /// Whether something else is there than before. It is looked at word by word, because a thread may be writing.
    fn look(&mut self) -> bool {
        let mut changed = false;
        for (number, seen) in self.seen.iter_mut().enumerate() {
            let word = std::ptr::with_exposed_provenance::<u32>(self.start).wrapping_add(number);
            // SAFETY: who named the place vouched for its being there as long as its owner, which is held, and
            // `new` has checked that it is aligned. The read is volatile: others write there.
            let now = unsafe { word.read_volatile() };
            changed |= now != *seen;
            *seen = now;
        }
        changed
    }
}

#[pymethods]
impl Places {
    /// Of each place: what keeps it where it is, its address, and its length in bytes; both in words of four.
    #[new]
    fn new(places: Vec<(Py<PyAny>, usize, usize)>) -> PyResult<Self> {
        let is_whole = |(_, start, len): &(Py<PyAny>, usize, usize)| {
            *start != 0 && start.is_multiple_of(4) && len.is_multiple_of(4)
        };
        if places.len() > 64 || !places.iter().all(is_whole) {
            let text = "places have whole words of four bytes, and there are 64 at most";
            return Err(PyValueError::new_err(text));
        }
        let (owners, places) = places
            .into_iter()
            .map(|(owner, start, len)| (owner, Place { start, seen: vec![0; len / 4].into() }))
            .unzip();
        let mut all = Self { places, _owners: owners };
        all.changed();
        Ok(all)
    }

    /// Which of them have changed since they were last looked at: a bit for each, the first being the lowest.
    fn changed(&mut self) -> u64 {
        let places = self.places.iter_mut().enumerate();
        places.fold(0, |bits, (number, place)| bits | (u64::from(place.look()) << number))
    }
}
