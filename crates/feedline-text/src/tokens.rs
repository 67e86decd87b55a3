//! Texts that are numbers already, in memory: one after the other, in as few bytes as they need.

use crate::{TextError, arena::check_labels};

/// Numbers of many texts, with labels if there are any.
#[derive(Debug)]
pub struct Tokens {
    values: Values,
    /// Where each text begins, and the end.
    offsets: Vec<usize>,
    labels: Vec<i64>,
}

#[derive(Debug)]
enum Values {
    Small(Vec<u16>),
    Medium(Vec<i32>),
    Large(Vec<i64>),
}

impl Values {
    /// Vocabularies are small: a quarter of the bytes, a quarter of the time to read them.
    fn new(values: Vec<i64>) -> Self {
        let (least, most) = values
            .iter()
            .fold((0, 0), |(least, most), value| (std::cmp::min(least, *value), std::cmp::max(most, *value)));
        if least >= 0 && most <= i64::from(u16::MAX) {
            return Self::Small(values.iter().map(|value| *value as u16).collect());
        }
        if least >= i64::from(i32::MIN) && most <= i64::from(i32::MAX) {
            return Self::Medium(values.iter().map(|value| *value as i32).collect());
        }
        Self::Large(values)
    }

    fn len(&self) -> usize {
        match self {
            Self::Small(values) => values.len(),
            Self::Medium(values) => values.len(),
            Self::Large(values) => values.len(),
        }
    }
}

fn widen<T: Copy + Into<i64>>(values: &[T], row: &mut [i64]) {
    for (value, place) in values.iter().zip(row) {
        *place = (*value).into();
    }
}

impl Tokens {
    /// The numbers of text `i` are `values[offsets[i]..offsets[i + 1]]`. There are as many labels as texts; or none, and
    /// each has the label 0.
    pub fn new(values: Vec<i64>, offsets: Vec<usize>, labels: Vec<i64>) -> Result<Self, TextError> {
        let refused = |why: String| Err(TextError::Refused(why));
        if offsets.first() != Some(&0) || offsets.last() != Some(&values.len()) {
            return refused(format!("the offsets should begin with 0 and end with {}", values.len()));
        }
        if let Some(at) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            return refused(format!("the offsets go back: text {at} would end before it begins"));
        }
        check_labels(labels.len(), offsets.len() - 1)?;
        Ok(Self { values: Values::new(values), offsets, labels })
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many numbers all texts have together.
    pub fn total(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn length(&self, index: usize) -> usize {
        self.offsets[index + 1] - self.offsets[index]
    }

    pub(crate) fn label(&self, index: usize) -> i64 {
        self.labels.get(index).copied().unwrap_or_default()
    }

    /// Copies as many of the first numbers of a text as there is room for; there are at least as many.
    pub(crate) fn copy(&self, index: usize, row: &mut [i64]) {
        let range = self.offsets[index]..self.offsets[index] + row.len();
        match &self.values {
            Values::Small(values) => widen(&values[range], row),
            Values::Medium(values) => widen(&values[range], row),
            Values::Large(values) => row.copy_from_slice(&values[range]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_come_back() {
        for values in [vec![0, 1, 65_535], vec![-1, 65_536, 7], vec![i64::MIN, 3, i64::MAX]] {
            let tokens = Tokens::new(values.clone(), vec![0, 2, 2, 3], vec![5, 6, 7]).unwrap();
            assert_eq!((tokens.len(), tokens.total()), (3, 3));
            let mut row = [0; 2];
            tokens.copy(0, &mut row);
            assert_eq!(row, values[..2]);
            tokens.copy(2, &mut row[..1]);
            assert_eq!((row[0], tokens.length(1), tokens.label(2)), (values[2], 0, 7));
        }
    }

    #[test]
    fn offsets_that_do_not_fit_are_refused() {
        for (offsets, expected) in [
            (vec![], "begin with 0 and end with 3"),
            (vec![0, 2], "begin with 0 and end with 3"),
            (vec![1, 3], "begin with 0 and end with 3"),
            (vec![0, 2, 1, 3], "text 1 would end before it begins"),
        ] {
            let error = Tokens::new(vec![1, 2, 3], offsets, vec![]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Tokens::new(vec![1], vec![0, 1], vec![1, 2]).is_err());
    }
}
