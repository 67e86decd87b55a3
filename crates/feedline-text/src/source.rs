//! Where texts come from.

use std::borrow::Cow;

use crate::{Place, TextError, table::Splitter};

/// Texts, each with a label.
#[allow(clippy::len_without_is_empty)] // What has no texts is refused, or is empty and nobody asks.
pub trait Source: Send + Sync + 'static {
    /// How many there are.
    fn len(&self) -> usize;

    /// A text and its label. The number is less than `len`.
    fn read<'a>(&'a self, index: usize, memory: &'a mut Memory) -> Result<(Cow<'a, str>, i64), TextError>;

    /// Where a text stands, for messages.
    fn place(&self, index: usize) -> Place;
}

/// Memory that a thread uses again for every text.
#[derive(Debug, Default)]
pub struct Memory {
    pub(crate) bytes: Vec<u8>,
    pub(crate) splitter: Splitter,
}

/// Bytes as text.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes)
        .map_err(|error| format!("it is not UTF-8: byte {} of it cannot be read", error.valid_up_to() + 1))
}
