//! Tokenizers of Hugging Face, from their `tokenizer.json` files.

use std::path::Path;

use tokenizers::{Tokenizer, TruncationParams};

use crate::{BoxError, Place, TextError, Tokenize};

/// The largest file that is read as a tokenizer.
const LARGEST: u64 = 1 << 30;

/// A tokenizer with a vocabulary.
#[derive(Debug)]
pub struct Vocabulary {
    tokenizer: Tokenizer,
    special: bool,
    most: usize,
}

impl Vocabulary {
    /// From a `tokenizer.json` file. `special` says whether to put what belongs around a text around it.
    pub fn open(path: &Path, special: bool) -> Result<Self, TextError> {
        let read = std::fs::metadata(path).and_then(|metadata| {
            if metadata.len() > LARGEST {
                return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "it has more than 1 GiB"));
            }
            std::fs::read(path)
        });
        let bytes = read.map_err(TextError::unreadable(path))?;
        Self::parse(&bytes, special).map_err(|error| TextError::Unfit {
            place: Place::File(path.into()),
            why: format!("it is not a tokenizer: {error}"),
        })
    }

    /// From what would be in such a file.
    pub fn parse(json: &[u8], special: bool) -> Result<Self, BoxError> {
        let mut tokenizer = Tokenizer::from_bytes(json)?;
        // Batches are padded as is asked for, whatever the file says.
        tokenizer.with_padding(None);
        Ok(Self { tokenizer, special, most: usize::MAX })
    }
}

impl Tokenize for Vocabulary {
    fn tokenize(&self, text: &str, ids: &mut Vec<i64>) -> Result<(), BoxError> {
        let encoding = self.tokenizer.encode_fast(text, self.special)?;
        ids.extend(encoding.get_ids().iter().take(self.most).map(|id| i64::from(*id)));
        Ok(())
    }

    fn truncate(&mut self, most: usize) -> Result<(), BoxError> {
        self.most = most;
        let around = self.tokenizer.get_post_processor();
        let around = around.map_or(0, |around| tokenizers::PostProcessor::added_tokens(around, false));
        if !self.special {
            // There is nothing around a text that would have to be kept.
            self.tokenizer.with_truncation(None)?;
            return Ok(());
        }
        if most < around {
            return Err(
                format!("the tokenizer alone puts {around} numbers around a text, more than {most}").into()
            );
        }
        let truncation = TruncationParams { max_length: most, ..TruncationParams::default() };
        self.tokenizer.with_truncation(Some(truncation)).map(drop)
    }
}
