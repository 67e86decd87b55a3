//! Which pages are taken: one bit each.
//!
//! Entries lie in far more address space than they may use memory, so gaps between them cost nothing and hardly ever
//! stand in the way; the lowest gap that is large enough is taken, which keeps the rest in one piece.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Pages in a word.
pub(crate) const WORD: u32 = u64::BITS;

/// Pages, by their numbers. Whoever changes them owns the lock.
#[derive(Clone, Copy)]
pub(crate) struct Room<'a>(pub(crate) &'a [AtomicU64]);

impl Room<'_> {
    /// Takes so many neighbouring pages; `None` if no gap is that large.
    pub(crate) fn take(self, pages: u32) -> Option<u32> {
        let first = self.gap(pages)?;
        self.mark(first, pages, true);
        Some(first)
    }

    /// Gives pages back.
    pub(crate) fn give(self, first: u32, pages: u32) {
        self.mark(first, pages, false);
    }

    /// The lowest gap of so many pages.
    fn gap(self, pages: u32) -> Option<u32> {
        let (mut first, mut found) = (0, 0);
        for (at, word) in self.0.iter().enumerate() {
            let (start, word) = (at as u32 * WORD, word.load(Relaxed));
            let mut bit = 0;
            while bit < WORD {
                let rest = word >> bit;
                // So many free pages, and then so many taken ones; a shift has brought in zeros at the far end.
                let free = rest.trailing_zeros().min(WORD - bit);
                if found == 0 {
                    first = start + bit;
                }
                found += free;
                if found >= pages {
                    return Some(first);
                }
                bit += free;
                if bit < WORD {
                    found = 0;
                    bit += (word >> bit).trailing_ones();
                }
            }
        }
        None
    }

    /// Marks pages as taken or not.
    pub(crate) fn mark(self, first: u32, pages: u32, taken: bool) {
        let (mut at, end) = (first, first + pages);
        while at < end {
            let (word, bit) = (&self.0[(at / WORD) as usize], at % WORD);
            let count = (WORD - bit).min(end - at);
            let bits = (u64::MAX >> (WORD - count)) << bit;
            let before = word.load(Relaxed);
            word.store(if taken { before | bits } else { before & !bits }, Relaxed);
            at += count;
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// All gaps: the first page and how many there are.
    pub(crate) fn gaps(self) -> Vec<(u32, u32)> {
        let mut gaps = Vec::<(u32, u32)>::new();
        for (at, word) in self.0.iter().enumerate() {
            let word = word.load(Relaxed);
            for bit in (0..WORD).filter(|bit| word & (1 << bit) == 0) {
                let page = at as u32 * WORD + bit;
                match gaps.last_mut() {
                    Some((first, pages)) if *first + *pages == page => *pages += 1,
                    _ => gaps.push((page, 1)),
                }
            }
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn all_of_it_can_be_taken_at_once_and_no_more() {
        let words = words(3);
        let room = Room(&words);
        assert_eq!(room.take(193), None);
        assert_eq!(room.take(192), Some(0));
        assert_eq!(room.take(1), None);
        assert_eq!(room.gaps(), []);
        room.give(60, 70);
        assert_eq!(room.gaps(), [(60, 70)]);
        assert_eq!(room.take(70), Some(60));
    }

    proptest! {
        #[test]
        fn what_is_taken_never_overlaps_and_the_lowest_gap_is_found(
            steps in prop::collection::vec((1u32..150, any::<prop::sample::Index>(), any::<bool>()), 1..80),
        ) {
            let words = words(6);
            let room = Room(&words);
            let mut taken = vec![false; 6 * WORD as usize];
            let mut held = Vec::<(u32, u32)>::new();
            for (pages, which, give) in steps {
                if give && !held.is_empty() {
                    let (first, pages) = held.swap_remove(which.index(held.len()));
                    room.give(first, pages);
                    taken[first as usize..(first + pages) as usize].fill(false);
                    continue;
                }
                let expected = taken.windows(pages as usize).position(|run| run.iter().all(|page| !page));
                let found = room.take(pages);
                prop_assert_eq!(found, expected.map(|first| first as u32));
                if let Some(first) = found {
                    taken[first as usize..(first + pages) as usize].fill(true);
                    held.push((first, pages));
                }
                let free: u32 = room.gaps().iter().map(|(_, pages)| pages).sum();
                prop_assert_eq!(free as usize, taken.iter().filter(|page| !**page).count());
            }
            for (first, pages) in held {
                room.give(first, pages);
            }
            prop_assert_eq!(room.gaps(), [(0, 6 * WORD)]);
        }
    }
}
