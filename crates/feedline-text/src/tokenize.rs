//! Texts to numbers.

use crate::BoxError;

/// Makes numbers of a text. One is shared by all threads.
pub trait Tokenize: Send + Sync + 'static {
    /// Adds the numbers of a text to those that are there.
    fn tokenize(&self, text: &str, ids: &mut Vec<i64>) -> Result<(), BoxError>;

    /// From now on, no more than so many of a text. What a tokenizer puts around a text is among them.
    fn truncate(&mut self, most: usize) -> Result<(), BoxError>;
}
