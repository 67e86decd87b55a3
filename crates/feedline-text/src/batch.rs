//! Batches of numbers: rows made equally long, or one after the other.
//!
//! A batch is one piece of memory, all of it `i64`:
//!
//! | padded | ragged |
//! |---|---|
//! | labels, ids (rows × width), the mask if there is one (rows × width) | labels, offsets (rows + 1), ids |
//!
//! It is made in two steps, because how much memory it takes is known only after the texts have been read:
//! [`Text::gather`] reads, [`Text::write`] writes.

use std::ops::Range;

use crate::{Memory, Padding, RowFailed, Text, TextError};

/// Memory that a thread uses again for every batch.
#[derive(Debug, Default)]
pub struct Scratch {
    memory: Memory,
    indices: Vec<usize>,
    ids: Vec<i64>,
    /// Where the numbers of each row end, or how many they are if they are still where they were.
    ends: Vec<usize>,
    labels: Vec<i64>,
}

/// The extents of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its samples.
    pub rows: usize,
    /// Numbers of every row; of a ragged batch, those of all rows together.
    pub width: usize,
    /// Whether rows are one after the other.
    pub ragged: bool,
    /// Whether there is a mask.
    pub mask: bool,
}

impl Shape {
    /// Numbers of the whole batch.
    #[allow(clippy::len_without_is_empty)] // A batch has a sample.
    pub fn len(&self) -> usize {
        if self.ragged { self.ids().end } else { self.mask().end }
    }

    /// Where the ids are.
    pub fn ids(&self) -> Range<usize> {
        if self.ragged {
            let start = 2 * self.rows + 1;
            return start..start + self.width;
        }
        self.rows..self.rows + self.rows * self.width
    }

    /// Where the offsets of a ragged batch are.
    pub fn offsets(&self) -> Range<usize> {
        self.rows..if self.ragged { 2 * self.rows + 1 } else { self.rows }
    }

    /// Where the mask is.
    pub fn mask(&self) -> Range<usize> {
        let ids = self.ids();
        ids.end..if self.mask && !self.ragged { ids.end + ids.len() } else { ids.end }
    }
}

/// A batch in memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextBatch {
    /// Its extents.
    pub shape: Shape,
    numbers: Vec<i64>,
}

impl TextBatch {
    /// The labels.
    pub fn labels(&self) -> &[i64] {
        &self.numbers[..self.shape.rows]
    }

    /// The ids, row by row.
    pub fn ids(&self) -> &[i64] {
        &self.numbers[self.shape.ids()]
    }

    /// Where each row of a ragged batch begins, and the end.
    pub fn offsets(&self) -> &[i64] {
        &self.numbers[self.shape.offsets()]
    }

    /// 1 for every id of a text, 0 for padding; empty if it was not asked for.
    pub fn mask(&self) -> &[i64] {
        &self.numbers[self.shape.mask()]
    }
}

impl Text {
    /// A batch of these samples.
    pub fn batch(&self, indices: &[i64]) -> Result<TextBatch, RowFailed> {
        let mut scratch = Scratch::default();
        let shape = self.gather(indices, &mut scratch)?;
        let mut numbers = vec![0; shape.len()];
        self.write(&scratch, shape, &mut numbers);
        Ok(TextBatch { shape, numbers })
    }

    /// Reads these samples; negative numbers count from the end. Says what the batch will be.
    pub fn gather(&self, indices: &[i64], scratch: &mut Scratch) -> Result<Shape, RowFailed> {
        scratch.indices.clear();
        scratch.ids.clear();
        scratch.ends.clear();
        scratch.labels.clear();
        let (mut longest, mut total) = (0, 0);
        for (row, index) in indices.iter().enumerate() {
            let length = self.gather_row(*index, scratch).map_err(|error| RowFailed { row, error })?;
            (longest, total) = (std::cmp::max(longest, length), total + length);
        }
        let (width, ragged) = match self.padding {
            Padding::Longest => (longest, false),
            Padding::To(width) => (width, false),
            Padding::Ragged => (total, true),
        };
        let shape = Shape { rows: indices.len(), width, ragged, mask: self.mask };
        // Padded to a width that somebody has asked for, it may be more than there can be.
        if !ragged && indices.len().checked_mul(width).is_none_or(|len| len > isize::MAX as usize / 32) {
            let error = TextError::Refused(format!("{} rows of {width} numbers are too many", indices.len()));
            return Err(RowFailed { row: 0, error });
        }
        Ok(shape)
    }

    fn gather_row(&self, index: i64, scratch: &mut Scratch) -> Result<usize, TextError> {
        let len = self.len();
        let from_begin = if index < 0 { index + len as i64 } else { index };
        let at = usize::try_from(from_begin).ok().filter(|at| *at < len);
        let at = at.ok_or(TextError::NoSuch(index, len))?;
        if let Some((tokens, most)) = self.ready() {
            let length = tokens.length(at).min(most);
            self.check(at, length)?;
            scratch.indices.push(at);
            scratch.ends.push(length);
            scratch.labels.push(tokens.label(at));
            return Ok(length);
        }
        let begin = scratch.ids.len();
        let label = self.read(at, &mut scratch.memory, &mut scratch.ids)?;
        scratch.ends.push(scratch.ids.len());
        scratch.labels.push(label);
        Ok(scratch.ids.len() - begin)
    }

    /// Writes what was read into as many numbers as the shape says.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn write(&self, scratch: &Scratch, shape: Shape, numbers: &mut [i64]) {
        numbers[..shape.rows].copy_from_slice(&scratch.labels);
        if shape.ragged {
            self.write_ragged(scratch, shape, numbers);
        } else {
            self.write_padded(scratch, shape, numbers);
        }
    }

    fn write_padded(&self, scratch: &Scratch, shape: Shape, numbers: &mut [i64]) {
        let (before, masks) = numbers.split_at_mut(shape.mask().start);
        let ids = &mut before[shape.ids()];
        for (row, place) in ids.chunks_exact_mut(shape.width.max(1)).take(shape.rows).enumerate() {
            let (filled, rest) = place.split_at_mut(self.length(scratch, row));
            self.copy(scratch, row, filled);
            rest.fill(self.pad);
        }
        if shape.mask {
            for (row, place) in masks.chunks_exact_mut(shape.width.max(1)).take(shape.rows).enumerate() {
                let (filled, rest) = place.split_at_mut(self.length(scratch, row));
                filled.fill(1);
                rest.fill(0);
            }
        }
    }

    fn write_ragged(&self, scratch: &Scratch, shape: Shape, numbers: &mut [i64]) {
        let (before, ids) = numbers.split_at_mut(shape.ids().start);
        let offsets = &mut before[shape.offsets()];
        let mut end = 0;
        offsets[0] = 0;
        for row in 0..shape.rows {
            let begin = end;
            end += self.length(scratch, row);
            self.copy(scratch, row, &mut ids[begin..end]);
            offsets[row + 1] = end as i64;
        }
    }

    fn length(&self, scratch: &Scratch, row: usize) -> usize {
        let begin = if row == 0 || self.is_ready() { 0 } else { scratch.ends[row - 1] };
        scratch.ends[row] - begin
    }

    fn copy(&self, scratch: &Scratch, row: usize, place: &mut [i64]) {
        match self.ready() {
            Some((tokens, _)) => tokens.copy(scratch.indices[row], place),
            None => place.copy_from_slice(&scratch.ids[scratch.ends[row] - place.len()..scratch.ends[row]]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, Tokens};

    fn tokens() -> Text {
        Text::tokens(Tokens::new(vec![1, 2, 3, 4, 5, 6], vec![0, 3, 3, 4, 6], vec![10, 11, 12, 13]).unwrap())
    }

    fn strings() -> Text {
        Text::hashed(Arena::new(["c a b", "", "d", "e f"], vec![10, 11, 12, 13]).unwrap(), 1000)
    }

    #[test]
    fn rows_are_padded_to_the_longest() {
        for text in [tokens(), strings()] {
            let text = text.pad(Padding::Longest, -7).mask(true);
            let batch = text.batch(&[3, 0, -3]).unwrap();
            assert_eq!(batch.shape, Shape { rows: 3, width: 3, ragged: false, mask: true });
            assert_eq!(batch.labels(), [13, 10, 11]);
            assert_eq!(batch.mask(), [1, 1, 0, 1, 1, 1, 0, 0, 0]);
            assert_eq!((batch.ids()[2], &batch.ids()[6..]), (-7, &[-7, -7, -7][..]));
        }
        assert_eq!(tokens().batch(&[3, 0]).unwrap().ids(), [5, 6, 0, 1, 2, 3]);
    }

    #[test]
    fn rows_may_be_one_after_the_other() {
        for text in [tokens(), strings()] {
            let batch = text.pad(Padding::Ragged, 0).batch(&[1, 0, 2]).unwrap();
            assert_eq!((batch.offsets(), batch.labels()), (&[0, 0, 3, 4][..], &[11, 10, 12][..]));
            assert_eq!((batch.ids().len(), batch.mask().len()), (4, 0));
        }
    }

    #[test]
    fn texts_are_cut() {
        for text in [tokens(), strings()] {
            let batch = text.truncate(2).unwrap().pad(Padding::To(4), 0).batch(&[0, 2]).unwrap();
            assert_eq!(batch.shape.width, 4);
            assert!(batch.ids()[..2].iter().all(|id| *id > 0) && batch.ids()[2..4] == [0, 0]);
        }
    }

    #[test]
    fn empty_texts_make_a_batch() {
        for text in [tokens(), strings()] {
            let batch = text.mask(true).batch(&[1, 1]).unwrap();
            assert_eq!((batch.shape.width, batch.ids().len(), batch.labels()), (0, 0, &[11, 11][..]));
        }
    }

    #[test]
    fn what_does_not_fit_is_said_with_its_row() {
        let failed = tokens().pad(Padding::To(2), 0).batch(&[2, 0]).unwrap_err();
        assert_eq!(failed.row, 1);
        assert_eq!(
            failed.to_string(),
            "text 0: it has 3 numbers, more than the 2 it is padded to; truncate it"
        );
        let failed = strings().batch(&[0, 1, 4]).unwrap_err();
        assert_eq!((failed.row, failed.to_string()), (2, "there is no text 4: there are 4".into()));
        assert!(tokens().pad(Padding::To(usize::MAX), 0).batch(&[0]).is_err());
    }

    #[test]
    fn lengths_are_those_of_the_rows() {
        for text in [tokens(), strings()] {
            for threads in [1, 3, 9] {
                assert_eq!(text.lengths(threads).unwrap(), [3, 0, 1, 2]);
            }
            assert_eq!(text.truncate(2).unwrap().lengths(2).unwrap(), [2, 0, 1, 2]);
        }
    }
}
