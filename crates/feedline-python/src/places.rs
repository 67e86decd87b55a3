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
            // SAFETY: who named the place vouched for its being there as long as its owner, which is held, and
            // `new` has checked that it is aligned. The read is volatile: others write there.
            let now = unsafe { (self.start as *const u32).add(number).read_volatile() };
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
        let mut all = Self { places: Vec::new(), _owners: Vec::new() };
        for (owner, start, len) in places {
            if start == 0 || start % 4 != 0 || len % 4 != 0 || all.places.len() == 64 {
                return Err(PyValueError::new_err(
                    "places have whole words of four bytes, and there are 64 at most",
                ));
            }
            all.places.push(Place { start, seen: vec![0; len / 4].into() });
            all._owners.push(owner);
        }
        all.changed();
        Ok(all)
    }

    /// Which of them have changed since they were last looked at: a bit for each, the first being the lowest.
    fn changed(&mut self) -> u64 {
        let places = self.places.iter_mut().enumerate();
        places.fold(0, |bits, (number, place)| bits | u64::from(place.look()) << number)
    }
}
