//! Which rows of a batch have been taken: one bit each, set once.
//!
//! Two workers can ask for the same row at the same moment, and exactly one of them gets it. There is nothing
//! to give back: bits are cleared only when the batch is nobody's.

use std::ops::Range;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<AtomicU64>);

impl Taken {
    /// Room for `rows` rows, none of them taken.
    pub(crate) fn reset(&mut self, rows: usize) {
        self.0.iter_mut().for_each(clear);
        self.0.resize_with(rows.div_ceil(64).max(self.0.len()), || AtomicU64::new(0));
    }

    /// Takes all of these rows; `false` if one of them had been taken before.
    ///
    /// Relaxed is enough. A bit is changed by a single atomic operation, so of those who try one finds it
    /// clear; and what that one then writes is read only by whoever closes the batch, after both have been
    /// under the engine's lock.
    pub(crate) fn take(&self, rows: Range<usize>) -> bool {
        let mut row = rows.start;
        while row < rows.end {
            let count = (64 - row % 64).min(rows.end - row);
            let bits = (u64::MAX >> (64 - count)) << (row % 64);
            if self.0[row / 64].fetch_or(bits, Relaxed) & bits != 0 {
                return false;
            }
            row += count;
        }
        true
    }
}

#[cfg(not(loom))]
fn clear(word: &mut AtomicU64) {
    *word.get_mut() = 0;
}

#[cfg(loom)]
fn clear(word: &mut AtomicU64) {
    word.with_mut(|bits| *bits = 0);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_row_is_taken_once(ranges in prop::collection::vec((0usize..200, 0usize..150), 1..20)) {
            let mut taken = Taken::default();
            taken.reset(350);
            let mut model = [false; 350];
            for (start, count) in ranges {
                let rows = start..start + count;
                let free = model[rows.clone()].iter().all(|taken| !taken);
                prop_assert_eq!(taken.take(rows.clone()), free);
                if !free {
                    break;
                }
                model[rows].fill(true);
            }
        }
    }

    #[test]
    fn a_batch_that_is_used_again_has_all_rows_free() {
        let mut taken = Taken::default();
        taken.reset(70);
        assert!(taken.take(0..70));
        assert!(!taken.take(69..70));
        taken.reset(10);
        assert!(taken.take(0..10));
    }
}

/// Run by `make test-loom`: all interleavings and all orders the memory model allows.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    #[test]
    fn of_two_who_want_a_row_one_gets_it_and_no_row_is_written_by_both() {
        loom::model(|| {
            let mut taken = Taken::default();
            taken.reset(3);
            let shared = Arc::new((taken, [(); 3].map(|()| UnsafeCell::new(0))));
            // Row 1 is wanted by both; loom fails if a cell is reached by two threads at once.
            let write = |shared: &(Taken, [UnsafeCell<i32>; 3]), rows: Range<usize>| {
                let got = shared.0.take(rows.clone());
                if got {
                    rows.for_each(|row| shared.1[row].with_mut(|cell| unsafe { *cell += 1 }));
                }
                got
            };
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || write(&shared, 1..3))
            };
            let mine = write(&shared, 0..2);
            let theirs = other.join().unwrap();
            assert!(mine != theirs, "exactly one of them gets row 1");
        });
    }

    #[test]
    fn disjoint_rows_are_all_given_out() {
        loom::model(|| {
            let mut taken = Taken::default();
            taken.reset(4);
            let taken = Arc::new(taken);
            let other = {
                let taken = Arc::clone(&taken);
                thread::spawn(move || taken.take(2..4))
            };
            assert!(taken.take(0..2));
            assert!(other.join().unwrap());
        });
    }
}
