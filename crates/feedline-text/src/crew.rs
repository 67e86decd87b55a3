//! Batches made ahead of the one who takes them, in the order in which they were asked for.
//!
//! The engine of `feedline-core` has threads already, but draws from its sampler itself. Here the order comes from
//! somebody else (a sampler in Python), batch by batch, and whoever takes batches helps to make them: with
//! a batch that takes less time than to wake a thread, nothing is lost by having threads.
//!
//! - The oldest batch is begun first. The taker that finds its batch not begun makes it; if somebody is at it, it makes
//!   the next one that nobody has begun, and waits only if there is none.
//! - Threads that compute are no use beyond the processors there are: they would take them from each other and from the taker.
//!   So no more than those are started, and the others, that were asked for, once batches turn out to wait for something.
//! - A panic is the result of its batch, and of no other.
//! - Dropping the crew ends its threads after the batches they are at. A forked process has no threads and waits for none.

use std::{
    collections::VecDeque,
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Threads that make batches ahead.
pub struct Crew<T> {
    shared: Arc<Shared<T>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// How many there may be.
    most: usize,
    process: u32,
}

/// What makes a batch of samples.
type Make<T> = dyn Fn(&[i64]) -> T + Send + Sync;

struct Shared<T> {
    make: Box<Make<T>>,
    state: Mutex<State<T>>,
    /// There is something to make, or it is over.
    posted: Condvar,
    /// A batch has been made.
    made: Condvar,
}

struct State<T> {
    batches: VecDeque<Slot<T>>,
    /// The number of the first of them, counted from the beginning.
    first: u64,
    /// How many of the first ones are begun.
    begun: usize,
    threads: usize,
    asleep: usize,
    taker_waits: bool,
    is_over: bool,
    /// What the threads have done so far.
    busy: Duration,
    /// So much of that time they have computed.
    computed: Duration,
    made: u64,
}

enum Slot<T> {
    Posted(Vec<i64>),
    Begun,
    Made(thread::Result<T>),
}

impl<T> State<T> {
    /// The oldest batch that nobody has begun: its number, and its samples.
    fn begin(&mut self) -> Option<(u64, Vec<i64>)> {
        let slot = self.batches.get_mut(self.begun)?;
        let Slot::Posted(indices) = std::mem::replace(slot, Slot::Begun) else {
            unreachable!("batches are begun in their order")
        };
        self.begun += 1;
        Some((self.first + self.begun as u64 - 1, indices))
    }

    /// Puts a batch into its place, if anybody still wants it.
    fn end(&mut self, number: u64, made: thread::Result<T>) {
        let place = number.checked_sub(self.first).and_then(|at| self.batches.get_mut(at as usize));
        if let Some(slot) = place {
            *slot = Slot::Made(made);
        }
    }

    /// Whether one more thread would have something to do, and a processor to do it on: others wait for something else.
    fn wants_more(&self) -> bool {
        self.asleep == 0 && self.made >= 2 * self.threads as u64 && 2 * self.computed < self.busy
    }

    /// The next batch, if it is made.
    fn take(&mut self) -> Option<thread::Result<T>> {
        if !matches!(self.batches.front(), Some(Slot::Made(_))) {
            return None;
        }
        let Some(Slot::Made(made)) = self.batches.pop_front() else { unreachable!("it was there just now") };
        self.first += 1;
        self.begun -= 1;
        Some(made)
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing is left half done under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, indices: &[i64]) -> thread::Result<T> {
        catch_unwind(AssertUnwindSafe(|| (self.make)(indices)))
    }

    fn work(&self) {
        let mut state = self.lock();
        while !state.is_over {
            let Some((number, indices)) = state.begin() else {
                state.asleep += 1;
                state = self.posted.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.asleep -= 1;
                continue;
            };
            drop(state);
            let (began, before) = (Instant::now(), computed());
            let made = self.make(&indices);
            let (busy, computed) = (began.elapsed(), computed().saturating_sub(before));
            state = self.lock();
            state.end(number, made);
            (state.busy, state.computed) = (state.busy + busy, state.computed + computed);
            state.made += 1;
            if state.taker_waits {
                self.made.notify_one();
            }
        }
    }
}

impl<T: Send + 'static> Crew<T> {
    /// Starts so many threads; none at all is one that makes everything when it is taken.
    pub fn start(
        threads: usize,
        make: impl Fn(&[i64]) -> T + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let state = State {
            batches: VecDeque::new(),
            first: 0,
            begun: 0,
            threads: 0,
            asleep: 0,
            taker_waits: false,
            is_over: false,
            busy: Duration::ZERO,
            computed: Duration::ZERO,
            made: 0,
        };
        let (posted, made) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { make: Box::new(make), state: Mutex::new(state), posted, made });
        let crew = Self { shared, threads: Mutex::default(), most: threads, process: std::process::id() };
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        for _ in 0..threads.min(processors) {
            // If one cannot be started, those that were are ended by the drop.
            crew.start_one()?;
        }
        Ok(crew)
    }

    fn start_one(&self) -> std::io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = Arc::clone(&self.shared);
        let name = format!("feedline-text-{}", threads.len());
        threads.push(thread::Builder::new().name(name).spawn(move || shared.work())?);
        self.shared.lock().threads = threads.len();
        Ok(())
    }

    /// Asks for a batch, to be taken after all that were asked for before.
    pub fn post(&self, indices: Vec<i64>) {
        let mut state = self.shared.lock();
        state.batches.push_back(Slot::Posted(indices));
        if state.asleep > 0 {
            self.shared.posted.notify_one();
        } else if state.threads < self.most && state.wants_more() {
            drop(state);
            // Without it, batches are made all the same.
            let _ = self.start_one();
        }
    }

    /// The next batch; `None` if none was asked for, or it takes longer than this to wait for it.
    pub fn take(&self, limit: Duration) -> Option<thread::Result<T>> {
        let mut state = self.shared.lock();
        let mut began = None;
        loop {
            if let Some(made) = state.take() {
                return Some(made);
            }
            if let Some((number, indices)) = state.begin() {
                drop(state);
                let made = self.shared.make(&indices);
                state = self.shared.lock();
                state.end(number, made);
                continue;
            }
            let left = limit.saturating_sub(began.get_or_insert_with(Instant::now).elapsed());
            if state.batches.is_empty() || left.is_zero() {
                return None;
            }
            state.taker_waits = true;
            let waited = self.shared.made.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.taker_waits = false;
        }
    }

    /// Whether nothing is left to be taken.
    pub fn is_empty(&self) -> bool {
        self.shared.lock().batches.is_empty()
    }

    /// How long the threads have worked, all together, and how many batches they have made.
    pub fn work(&self) -> (Duration, u64) {
        let state = self.shared.lock();
        (state.busy, state.made)
    }

    /// Forgets all that was asked for.
    pub fn clear(&self) {
        let mut state = self.shared.lock();
        state.first += state.batches.len() as u64;
        state.begun = 0;
        state.batches.clear();
    }
}

impl<T> Drop for Crew<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        self.shared.lock().is_over = true;
        self.shared.posted.notify_all();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // What its batches ended with is known to those who took them.
            let _ = thread.join();
        }
    }
}

/// How long this thread has computed so far.
fn computed() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn batches_come_in_order_whoever_makes_them() {
        for threads in [0, 1, 2, 5] {
            let crew = Crew::start(threads, <[i64]>::to_vec).unwrap();
            for batch in 0..50 {
                crew.post(vec![batch, batch + 1]);
            }
            for batch in 0..50 {
                assert_eq!(crew.take(LONG).unwrap().unwrap(), [batch, batch + 1]);
                crew.post(vec![batch + 50, batch + 51]);
            }
            for batch in 50..100 {
                assert_eq!(crew.take(LONG).unwrap().unwrap(), [batch, batch + 1]);
            }
            assert!(crew.take(LONG).is_none() && crew.is_empty());
        }
    }

    #[test]
    fn threads_beyond_the_processors_are_started_for_batches_that_wait() {
        let processors = thread::available_parallelism().unwrap().get();
        let crew = Crew::start(processors + 3, |_| ()).unwrap();
        assert_eq!(crew.threads.lock().unwrap().len(), processors);
        // Batches that compute, and batches that wait.
        for (computed, expected) in [(900, processors), (400, processors + 3)] {
            for _ in 0..1000 {
                let mut state = crew.shared.lock();
                (state.made, state.asleep) = (1000, 0);
                state.busy = Duration::from_secs(1);
                state.computed = Duration::from_millis(computed);
                let wanted = state.threads < crew.most && state.wants_more();
                drop(state);
                if wanted {
                    crew.start_one().unwrap();
                }
            }
            assert_eq!(crew.threads.lock().unwrap().len(), expected);
        }
    }

    #[test]
    fn a_panic_is_the_result_of_its_batch_alone() {
        for threads in [0, 2] {
            let crew = Crew::start(threads, |indices| {
                assert_ne!(indices, [1], "not that one");
                indices[0]
            })
            .unwrap();
            for batch in 0..3 {
                crew.post(vec![batch]);
            }
            assert_eq!(crew.take(LONG).unwrap().unwrap(), 0);
            assert!(crew.take(LONG).unwrap().is_err());
            assert_eq!(crew.take(LONG).unwrap().unwrap(), 2);
        }
    }

    #[test]
    fn what_was_forgotten_does_not_come() {
        // A thread is at a batch when all are forgotten: it meets the taker there and once more to go on.
        let meet = Arc::new(Barrier::new(2));
        let there = Arc::clone(&meet);
        let crew = Crew::start(1, move |indices| {
            if indices == [-1] {
                there.wait();
                there.wait();
            }
            indices[0]
        })
        .unwrap();
        crew.post(vec![-1]);
        crew.post(vec![-2]);
        meet.wait();
        crew.clear();
        crew.post(vec![3]);
        meet.wait();
        assert_eq!(crew.take(LONG).unwrap().unwrap(), 3);
        assert!(crew.take(LONG).is_none());
    }

    #[test]
    fn the_taker_waits_no_longer_than_it_says() {
        let meet = Arc::new(Barrier::new(2));
        let there = Arc::clone(&meet);
        let crew = Crew::start(1, move |_| {
            there.wait();
            there.wait();
        })
        .unwrap();
        crew.post(vec![]);
        meet.wait();
        assert!(crew.take(Duration::from_millis(1)).is_none());
        meet.wait();
        assert!(crew.take(LONG).unwrap().is_ok());
    }

    #[test]
    fn dropping_it_ends_its_threads() {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let crew = Crew::start(3, move |_| counted.fetch_add(1, Relaxed)).unwrap();
        for _ in 0..1000 {
            crew.post(vec![]);
        }
        drop(crew);
        // The threads held the other one.
        assert_eq!(Arc::strong_count(&made), 1);
    }
}
