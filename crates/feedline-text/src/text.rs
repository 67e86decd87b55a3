//! Texts as numbers: a source and a tokenizer, or numbers that are there already, and how batches are made of them.

use std::sync::Arc;

use crate::{Hash, Memory, Source, TextError, Tokenize, Tokens};

/// What makes the rows of a batch equally long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// As long as the longest of the batch.
    Longest,
    /// As long as this; a text that is longer is an error.
    To(usize),
    /// Nothing does: values one after the other, and where each row begins.
    Ragged,
}

/// Texts as numbers, each with a label.
///
/// ```
/// use feedline_text::{Arena, Hash, Padding, Text};
///
/// let texts = Arena::new(["A good film", "Bad"], vec![1, 0])?;
/// let text = Text::new(texts, Hash::new(30_000)).truncate(2)?.pad(Padding::To(4), 0);
/// let batch = text.batch(&[1, 0])?;
/// assert_eq!((batch.shape.rows, batch.shape.width), (2, 4));
/// assert_eq!(batch.labels(), [0, 1]);
/// assert_eq!(batch.ids()[1..4], [0, 0, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Text {
    content: Content,
    most: usize,
    pub(crate) padding: Padding,
    pub(crate) pad: i64,
    pub(crate) mask: bool,
}

enum Content {
    Texts(Arc<dyn Source>, Box<dyn Tokenize>),
    Tokens(Arc<Tokens>),
}

impl Text {
    /// Texts, and what makes numbers of them.
    pub fn new(source: impl Source, tokenizer: impl Tokenize) -> Self {
        Self::shared(Arc::new(source), Box::new(tokenizer))
    }

    /// The same, for texts that others use as well.
    pub fn shared(source: Arc<dyn Source>, tokenizer: Box<dyn Tokenize>) -> Self {
        Self::of(Content::Texts(source, tokenizer))
    }

    /// Words by a hash.
    pub fn hashed(source: impl Source, size: u32) -> Self {
        Self::new(source, Hash::new(size))
    }

    /// Texts that are numbers already.
    pub fn tokens(tokens: impl Into<Arc<Tokens>>) -> Self {
        Self::of(Content::Tokens(tokens.into()))
    }

    fn of(content: Content) -> Self {
        Self { content, most: usize::MAX, padding: Padding::Longest, pad: 0, mask: false }
    }

    /// No more than so many numbers of a text: the first.
    pub fn truncate(mut self, most: usize) -> Result<Self, TextError> {
        self.most = most;
        if let Content::Texts(_, tokenizer) = &mut self.content {
            tokenizer.truncate(most).map_err(|error| TextError::Refused(error.to_string()))?;
        }
        Ok(self)
    }

    /// What makes rows equally long, and the number that does. Default: 0s up to the longest of the batch.
    #[must_use]
    pub fn pad(self, padding: Padding, pad: i64) -> Self {
        Self { padding, pad, ..self }
    }

    /// Whether batches have a mask: 1 where there is a number of the text, 0 where there is padding.
    #[must_use]
    pub fn mask(self, mask: bool) -> Self {
        Self { mask, ..self }
    }

    /// What makes rows equally long.
    pub fn padding(&self) -> (Padding, i64) {
        (self.padding, self.pad)
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Texts(source, _) => source.len(),
            Content::Tokens(tokens) => tokens.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether batches are only gathered: the numbers are there already.
    pub fn is_ready(&self) -> bool {
        matches!(self.content, Content::Tokens(_))
    }

    /// Adds the numbers of a text to those that are there, and returns its label.
    pub fn read(&self, index: usize, memory: &mut Memory, ids: &mut Vec<i64>) -> Result<i64, TextError> {
        if index >= self.len() {
            return Err(TextError::NoSuch(index as i64, self.len()));
        }
        let begin = ids.len();
        let label = match &self.content {
            Content::Texts(source, tokenizer) => {
                let (text, label) = source.read(index, memory)?;
                tokenizer.tokenize(&text, ids).map_err(|error| TextError::Unfit {
                    place: source.place(index),
                    why: format!("it cannot be tokenised: {error}"),
                })?;
                label
            }
            Content::Tokens(tokens) => {
                ids.resize(begin + tokens.length(index).min(self.most), 0);
                tokens.copy(index, &mut ids[begin..]);
                tokens.label(index)
            }
        };
        let length = ids.len() - begin;
        self.check(index, length)?;
        Ok(label)
    }

    /// Whether a row of this length fits.
    pub(crate) fn check(&self, index: usize, length: usize) -> Result<(), TextError> {
        match self.padding {
            Padding::To(width) if length > width => {
                let why =
                    format!("it has {length} numbers, more than the {width} it is padded to; truncate it");
                let place = match &self.content {
                    Content::Texts(source, _) => source.place(index),
                    Content::Tokens(_) => crate::Place::Memory(index),
                };
                Err(TextError::Unfit { place, why })
            }
            _ => Ok(()),
        }
    }

    /// The numbers that are there already, and how many of each text are kept.
    pub(crate) fn ready(&self) -> Option<(&Tokens, usize)> {
        match &self.content {
            Content::Texts(..) => None,
            Content::Tokens(tokens) => Some((tokens, self.most)),
        }
    }

    /// How many numbers each text has, found out by so many threads.
    pub fn lengths(&self, threads: usize) -> Result<Vec<usize>, TextError> {
        if let Some((tokens, most)) = self.ready() {
            return Ok((0..tokens.len()).map(|index| tokens.length(index).min(most)).collect());
        }
        let mut lengths = vec![0; self.len()];
        let share = lengths.len().div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let threads: Vec<_> = lengths
                .chunks_mut(share)
                .enumerate()
                .map(|(number, chunk)| scope.spawn(move || self.lengths_from(number * share, chunk)))
                .collect();
            // The first failure in the order of the texts.
            threads.into_iter().try_for_each(|thread| thread.join().expect("a tokenizer does not panic"))
        })?;
        Ok(lengths)
    }

    fn lengths_from(&self, first: usize, lengths: &mut [usize]) -> Result<(), TextError> {
        let (mut memory, mut ids) = (Memory::default(), Vec::new());
        for (index, length) in lengths.iter_mut().enumerate() {
            ids.clear();
            self.read(first + index, &mut memory, &mut ids)?;
            *length = ids.len();
        }
        Ok(())
    }
}
