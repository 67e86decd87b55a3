//! Why there is no text.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// What a user's tokenizer may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no text, or no batch of it.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// There is no such sample.
    #[error("there is no text {0}: there are {1}")]
    NoSuch(i64, usize),
    /// A file cannot be read.
    #[error("{path} cannot be read: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A text is not what it should be.
    #[error("{place}: {why}")]
    Unfit {
        /// Which text.
        place: Place,
        /// What is wrong with it.
        why: String,
    },
    /// What is asked for cannot be.
    #[error("{0}")]
    Refused(String),
}

impl TextError {
    pub(crate) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Unreadable { path: path.into(), error }
    }
}

/// Where a text stands, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A whole file.
    File(PathBuf),
    /// A line of a file, from 1.
    Line(PathBuf, u64),
    /// A text in memory, by its number.
    Memory(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Line(path, line) => write!(f, "{}, line {line}", path.display()),
            Self::Memory(index) => write!(f, "text {index}"),
        }
    }
}

/// A sample of a batch that failed.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RowFailed {
    /// Its row in the batch.
    pub row: usize,
    /// Why.
    #[source]
    pub error: TextError,
}
