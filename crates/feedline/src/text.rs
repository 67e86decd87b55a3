//! Texts as numbers: JSON lines, CSV, files or strings, tokenised by the workers; or numbers that are there already.
//!
//! ```
//! use feedline::{
//!     Spec,
//!     text::{Arena, Hash, Padding, Text},
//! };
//!
//! // As well: Jsonl::open, Table::open, Files::new; a tokenizer.json file with the feature `tokenizers`.
//! let texts = Arena::new(["A good film", "Bad", "Not that bad"], vec![1, 0, 1])?;
//! let text = Text::new(texts, Hash::new(30_000)).truncate(512)?.pad(Padding::Longest, 0);
//! let mut loader = Spec::rows(text).batch_size(2).workers(2).build()?;
//! let batch = loader.epoch().next().expect("there is a batch")?;
//! assert_eq!(batch.shape("ids")?, [2, 3]);
//! assert_eq!(batch.extents("ids")?, Some(&[3, 1][..])); // how long each text is: what a mask would say
//! assert_eq!(batch.slice::<i64>("ids")?[4..], [0, 0]);
//! assert_eq!(batch.slice::<i64>("label")?, [1, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Batches have the fields `ids` (padded, or values with offsets if padding is [`Padding::Ragged`]) and `label`.

use std::cell::RefCell;

use feedline_core::{BoxError, Field, Layout, LayoutError, RowMut, SampleRng};
#[cfg(feature = "tokenizers")]
pub use feedline_text::Vocabulary;
pub use feedline_text::{
    Arena, Crew, Files, Folder, FolderError, Hash, Jsonl, Memory, Padding, Paths, Place, RowFailed, Scratch,
    Shape, Source, Table, Text, TextBatch, TextError, Tokenize, Tokens,
};

use crate::Rows;

thread_local! {
    /// What a worker reads a text into, and its numbers.
    static MEMORY: RefCell<(Memory, Vec<i64>)> = RefCell::default();
}

impl Rows for Text {
    fn layout(&self) -> Result<Layout, LayoutError> {
        let (padding, pad) = self.padding();
        let ids = Field::ragged::<i64>("ids", []);
        let ids = match padding {
            Padding::Longest => ids.pad_to_longest(pad),
            Padding::To(width) => ids.pad_to(width, pad),
            Padding::Ragged => ids,
        };
        Layout::new([ids, Field::fixed::<i64>("label", [])])
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn write(&self, index: usize, _: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        MEMORY.with_borrow_mut(|(memory, ids)| {
            ids.clear();
            let label = self.read(index, memory, ids)?;
            row.write(0, ids)?;
            row.write(1, &[label])?;
            Ok(())
        })
    }
}
