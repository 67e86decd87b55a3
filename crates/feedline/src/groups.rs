//! Groups that samples share, such as the volumes of a patient: decoded once, kept while there is room, used by all workers.
//!
//! ```text
//! get(key) ─► kept: here it is
//!          ─► being loaded by another: wait, then look again
//!          ─► neither: make room, load (without the lock), keep, wake those who wait
//! ```
//!
//! A group is loaded by one thread at a time, whoever asks. If that fails, by an error or a panic, it is as if nobody had
//! asked: those who wait look again, and one of them loads.
//!
//! Room is made before a group is loaded, by letting go of those that were not asked for the longest. What somebody holds
//! stays: letting go would free no memory, and it would be loaded again beside itself. So the bytes are within the bound
//! unless what is held and loaded at the same time is not; nobody waits for others to let go, because they may be waiting
//! themselves.

#[cfg(not(shuttle))]
use std::sync::{Condvar, Mutex, MutexGuard};
use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, PoisonError},
};

#[cfg(shuttle)]
use shuttle::sync::{Condvar, Mutex, MutexGuard};

/// Groups by their keys, up to a number of bytes.
///
/// ```
/// use feedline::Groups;
///
/// let groups = Groups::new(1 << 20);
/// for _ in 0..3 {
///     let volume = groups.get("patient 7", 4000, || Ok::<_, std::io::Error>(vec![0f32; 1000]))?;
///     assert_eq!(volume.len(), 1000);
/// }
/// assert_eq!((groups.counts().loads, groups.counts().hits), (1, 2));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Groups<K, V> {
    state: Mutex<State<K, V>>,
    /// A load has ended, well or not.
    ended: Condvar,
    most_bytes: u64,
}

/// What happened so far, and what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// How often a group was loaded.
    pub loads: u64,
    /// How often one was there, or was waited for while another thread loaded it.
    pub hits: u64,
    /// How often one could not be loaded.
    pub failures: u64,
    /// How often one was let go of.
    pub dropped: u64,
    /// Bytes of the groups that are kept or being loaded.
    pub bytes: u64,
    /// The most bytes there ever were.
    pub most_bytes: u64,
}

struct State<K, V> {
    places: HashMap<K, Place<V>>,
    /// Counts requests, and so says which was the last for each group.
    clock: u64,
    counts: GroupCounts,
}

enum Place<V> {
    Loading,
    Kept { value: Arc<V>, size: u64, asked: u64 },
}

impl<K: Eq + Hash + Clone, V> Groups<K, V> {
    /// Keeps groups of so many bytes together.
    pub fn new(most_bytes: u64) -> Self {
        let state = State { places: HashMap::new(), clock: 0, counts: GroupCounts::default() };
        Self { state: Mutex::new(state), ended: Condvar::new(), most_bytes }
    }

    /// The group of this key, which takes `size` bytes; `load` makes it if it is not there. One that is larger than the
    /// bound is made all the same.
    ///
    /// While it loads, `load` should not ask for groups: for its own it would wait forever.
    pub fn get<E>(&self, key: K, size: u64, load: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        let mut state = self.lock();
        while let Some(Place::Loading) = state.places.get(&key) {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(value) = state.look(&key) {
            let dropped = state.let_go(|bytes| bytes <= self.most_bytes);
            // Memory goes back without the lock.
            drop(state);
            drop(dropped);
            return Ok(value);
        }
        let dropped = state.let_go(|bytes| bytes.saturating_add(size) <= self.most_bytes);
        state.begin(key.clone(), size);
        let loading = Loading { groups: self, key: Some(key), size };
        drop(state);
        drop(dropped);
        Ok(loading.end(Arc::new(load()?)))
    }

    /// What happened so far, and what there is.
    pub fn counts(&self) -> GroupCounts {
        self.lock().counts
    }

    /// Lets go of all groups that nobody holds.
    pub fn clear(&self) {
        let dropped = self.lock().let_go(|_| false);
        drop(dropped);
    }

    // What is done under the lock does not panic half way: a lock that was poisoned guards what is whole.
    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone, V> State<K, V> {
    /// A group that is there.
    fn look(&mut self, key: &K) -> Option<Arc<V>> {
        let Some(Place::Kept { value, asked, .. }) = self.places.get_mut(key) else { return None };
        self.clock += 1;
        *asked = self.clock;
        self.counts.hits += 1;
        Some(Arc::clone(value))
    }

    /// Announces a load.
    fn begin(&mut self, key: K, size: u64) {
        let counts = &mut self.counts;
        counts.bytes += size;
        counts.most_bytes = counts.most_bytes.max(counts.bytes);
        self.places.insert(key, Place::Loading);
    }

    /// Gives back groups that nobody holds, the longest not asked for first, until the bytes are few enough.
    fn let_go(&mut self, enough: impl Fn(u64) -> bool) -> Vec<Arc<V>> {
        let mut dropped = Vec::new();
        if enough(self.counts.bytes) {
            return dropped;
        }
        let mut free: Vec<(u64, K)> = self.places.iter().filter_map(|(key, place)| place.free(key)).collect();
        free.sort_unstable_by_key(|(asked, _)| *asked);
        for (_, key) in free {
            if enough(self.counts.bytes) {
                break;
            }
            if let Some(Place::Kept { value, size, .. }) = self.places.remove(&key) {
                self.counts.bytes -= size;
                self.counts.dropped += 1;
                dropped.push(value);
            }
        }
        dropped
    }
}

impl<V> Place<V> {
    /// When it was last asked for, if nobody holds it. Nobody can begin to without the lock.
    fn free<K: Clone>(&self, key: &K) -> Option<(u64, K)> {
        match self {
            Self::Kept { value, asked, .. } if Arc::strong_count(value) == 1 => Some((*asked, key.clone())),
            _ => None,
        }
    }
}

/// A load under way. However it ends, those who wait are told.
struct Loading<'a, K: Eq + Hash + Clone, V> {
    groups: &'a Groups<K, V>,
    /// Until it has ended well.
    key: Option<K>,
    size: u64,
}

impl<K: Eq + Hash + Clone, V> Loading<'_, K, V> {
    fn end(mut self, value: Arc<V>) -> Arc<V> {
        if let Some(key) = self.key.take() {
            let mut state = self.groups.lock();
            state.clock += 1;
            state.counts.loads += 1;
            let (kept, asked) = (Arc::clone(&value), state.clock);
            state.places.insert(key, Place::Kept { value: kept, size: self.size, asked });
            drop(state);
            self.groups.ended.notify_all();
        }
        value
    }
}

impl<K: Eq + Hash + Clone, V> Drop for Loading<'_, K, V> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let mut state = self.groups.lock();
            state.places.remove(&key);
            state.counts.bytes -= self.size;
            state.counts.failures += 1;
            drop(state);
            self.groups.ended.notify_all();
        }
    }
}

impl<K, V> std::fmt::Debug for Groups<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Groups").field("most_bytes", &self.most_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{
            Barrier,
            atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
        },
        thread,
    };

    use super::*;

    type Outcome = Result<Arc<u64>, String>;

    fn loaded(groups: &Groups<u64, u64>, key: u64, size: u64) -> Arc<u64> {
        groups.get(key, size, || Ok::<_, String>(key)).unwrap()
    }

    fn is_kept(groups: &Groups<u64, u64>, key: u64) -> bool {
        groups.get(key, 0, || Err("not there")).is_ok()
    }

    #[test]
    fn a_group_is_loaded_once_however_many_ask_at_the_same_time() {
        const THREADS: usize = 8;
        let (groups, asked, loads) = (Groups::new(100), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    asked.fetch_add(1, SeqCst);
                    let group = groups.get("a", 10, || {
                        loads.fetch_add(1, SeqCst);
                        // Until all have asked, or are about to.
                        while asked.load(SeqCst) < THREADS {
                            thread::yield_now();
                        }
                        Ok::<_, String>(7)
                    });
                    assert_eq!(*group.unwrap(), 7);
                });
            }
        });
        let counts = groups.counts();
        assert_eq!((loads.into_inner(), counts.loads, counts.hits), (1, 1, THREADS as u64 - 1));
    }

    #[test]
    fn the_longest_not_asked_for_goes_first() {
        let groups = Groups::new(30);
        for key in [1, 2, 3, 1] {
            loaded(&groups, key, 10);
        }
        loaded(&groups, 4, 10);
        assert_eq!([1, 2, 3, 4].map(|key| is_kept(&groups, key)), [true, false, true, true]);
        let counts = groups.counts();
        assert_eq!((counts.loads, counts.dropped, counts.bytes, counts.most_bytes), (4, 1, 30, 30));
        groups.clear();
        assert_eq!(groups.counts().bytes, 0);
        assert!(!is_kept(&groups, 4));
    }

    #[test]
    fn what_is_held_stays_and_what_is_too_large_gets_through() {
        let groups = Groups::new(30);
        let held = loaded(&groups, 1, 20);
        loaded(&groups, 2, 10);
        let large = loaded(&groups, 3, 1000);
        assert_eq!([1, 2, 3].map(|key| is_kept(&groups, key)), [true, false, true]);
        assert_eq!(groups.counts().bytes, 1020);
        drop((held, large));
        // The next request, of whatever kind, lets go of it.
        loaded(&groups, 1, 20);
        assert_eq!(groups.counts().bytes, 20);
        assert!(!is_kept(&groups, 3));
    }

    #[test]
    fn those_who_waited_for_a_load_that_fails_try_themselves() {
        let (groups, began) = (Groups::new(100), Barrier::new(2));
        thread::scope(|scope| {
            let first = scope.spawn(|| -> Outcome {
                groups.get(1, 10, || {
                    began.wait();
                    Err("broken".to_owned())
                })
            });
            let panics = scope.spawn(|| {
                began.wait();
                catch_unwind(AssertUnwindSafe(|| {
                    groups.get(1, 10, || -> Result<u64, String> { panic!("broken") })
                }))
            });
            assert_eq!(first.join().unwrap().unwrap_err(), "broken");
            assert!(panics.join().unwrap().is_err());
        });
        assert_eq!(*loaded(&groups, 1, 10), 1);
        let counts = groups.counts();
        assert_eq!((counts.loads, counts.failures, counts.bytes), (1, 2, 10));
    }

    #[test]
    fn many_threads_and_keys_never_load_a_group_beside_itself() {
        const KEYS: u64 = 9;
        let groups = Groups::new(40);
        let loading: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        thread::scope(|scope| {
            for thread in 0..4u64 {
                let (groups, loading) = (&groups, &loading);
                scope.spawn(move || {
                    let mut number = thread;
                    for step in 0..5000 {
                        number = number
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let key = (number >> 33) % KEYS;
                        let group = groups.get(key, 10, || {
                            assert_eq!(loading[key as usize].fetch_add(1, SeqCst), 0, "nobody else loads it");
                            let fails = step % 7 == 3;
                            thread::yield_now();
                            loading[key as usize].fetch_sub(1, SeqCst);
                            if fails { Err(key) } else { Ok(key) }
                        });
                        assert_eq!(group.map_or_else(|failed| failed, |group| *group), key);
                    }
                });
            }
        });
        let counts = groups.counts();
        assert_eq!(counts.loads + counts.hits + counts.failures, 4 * 5000);
        // Each thread holds one group, and so as many may be beyond the bound.
        assert!(counts.most_bytes <= 40 + 4 * 10, "{counts:?}");
    }
}
