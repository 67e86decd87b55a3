//! Texts to batches of numbers.
//!
//! ```text
//! source ─► text ─► tokenizer ─► ids ─► rows of a batch, padded or ragged
//! tokens ──────────────────────► ids ─┘
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `source.rs` | where texts come from |
//! | `jsonl.rs`, `table.rs` | many texts in one file: JSON lines, comma-separated values |
//! | `files.rs`, `arena.rs` | a text in every file; texts in memory |
//! | `bytes.rs` | the bytes of a file of many texts |
//! | `tokenize.rs` | texts to numbers |
//! | `hash.rs` | by a hash of each word |
//! | `vocabulary.rs` | by a tokenizer of Hugging Face, with the feature `tokenizers` |
//! | `words.rs` | the numbers of words that come again, where such a tokenizer keeps words apart |
//! | `tokens.rs` | texts that are numbers already |
//! | `text.rs` | all of that put together |
//! | `batch.rs` | batches: padded with a mask, or ragged |
//! | `crew.rs` | batches made ahead of the one who takes them |

mod arena;
mod batch;
mod bytes;
mod crew;
mod error;
mod files;
mod hash;
pub mod jsonl;
mod source;
mod table;
mod text;
mod tokenize;
mod tokens;
#[cfg(feature = "tokenizers")]
mod vocabulary;
#[cfg(feature = "tokenizers")]
mod words;

pub use arena::Arena;
pub use batch::{Scratch, Shape, TextBatch};
pub use crew::Crew;
pub use error::{BoxError, Place, RowFailed, TextError};
pub use feedline_source::{Folder, FolderError, Paths};
pub use files::Files;
pub use hash::Hash;
pub use jsonl::Jsonl;
pub use source::{Memory, Source};
pub use table::Table;
pub use text::{Padding, Text};
pub use tokenize::Tokenize;
pub use tokens::Tokens;
#[cfg(feature = "tokenizers")]
pub use vocabulary::Vocabulary;
