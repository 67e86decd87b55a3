//! Texts in memory: their bytes one after the other.

use std::borrow::Cow;

use crate::{Memory, Place, Source, TextError};

/// A list of texts, with labels if there are any.
#[derive(Debug, Default)]
pub struct Arena {
    bytes: String,
    ends: Vec<usize>,
    labels: Vec<i64>,
}

impl Arena {
    /// Texts, and as many labels; or none, and each has the label 0.
    pub fn new<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
        labels: Vec<i64>,
    ) -> Result<Self, TextError> {
        let mut arena = Self { labels, ..Self::default() };
        for text in texts {
            arena.bytes.push_str(text.as_ref());
            arena.ends.push(arena.bytes.len());
        }
        check_labels(arena.labels.len(), arena.ends.len())?;
        Ok(arena)
    }
}

/// There are as many labels as texts, or none.
pub(crate) fn check_labels(labels: usize, texts: usize) -> Result<(), TextError> {
    if labels == 0 || labels == texts {
        return Ok(());
    }
    Err(TextError::Refused(format!("there are {labels} labels for {texts} texts; give one for each")))
}

impl Source for Arena {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn read<'a>(&'a self, index: usize, _: &'a mut Memory) -> Result<(Cow<'a, str>, i64), TextError> {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        let label = self.labels.get(index).copied().unwrap_or_default();
        Ok((Cow::Borrowed(&self.bytes[begin..self.ends[index]]), label))
    }

    fn place(&self, index: usize) -> Place {
        Place::Memory(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let arena = Arena::new(["one", "", "drei ß"], vec![1, 2, 3]).unwrap();
        let mut memory = Memory::default();
        let read: Vec<_> = (0..arena.len())
            .map(|index| {
                let (text, label) = arena.read(index, &mut memory).unwrap();
                (text.into_owned(), label)
            })
            .collect();
        assert_eq!(read, [("one".into(), 1), (String::new(), 2), ("drei ß".into(), 3)]);
        assert_eq!(
            Arena::new(["one"], vec![1, 2]).unwrap_err().to_string(),
            "there are 2 labels for 1 texts; give one for each"
        );
    }
}
