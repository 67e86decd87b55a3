//! Tokenizers of Hugging Face, from their `tokenizer.json` files.

use std::path::Path;

use tokenizers::{Tokenizer, TruncationDirection, TruncationParams};

use crate::{BoxError, Place, TextError, Tokenize, words::Words};

/// The largest file that is read as a tokenizer.
const LARGEST: u64 = 1 << 30;

/// A tokenizer with a vocabulary.
#[derive(Debug)]
pub struct Vocabulary {
    tokenizer: Tokenizer,
    special: bool,
    most: usize,
    /// If it keeps words apart, in which case the tokenizer leaves it to us to cut texts short.
    words: Option<Words>,
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
        let own = tokenizer.get_truncation().cloned();
        tokenizer.with_truncation(None)?;
        let file = serde_json::from_slice(json)?;
        let words = Words::of(&file, &tokenizer, special);
        let mut made = Self { tokenizer, special, most: usize::MAX, words };
        match own {
            // The end of a text rather than its beginning, or parts that overlap.
            Some(own) if own.direction != TruncationDirection::Right || own.stride > 0 => {
                made.words = None;
                made.tokenizer.with_truncation(Some(own))?;
            }
            Some(own) => made.truncate(own.max_length)?,
            None => {}
        }
        Ok(made)
    }
}

impl Tokenize for Vocabulary {
    fn tokenize(&self, text: &str, ids: &mut Vec<i64>) -> Result<(), BoxError> {
        if let Some(words) = &self.words {
            ids.extend_from_slice(&words.before);
            words.tokenize(&self.tokenizer, text, self.most.saturating_sub(words.around()), ids)?;
            ids.extend_from_slice(&words.after);
            return Ok(());
        }
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
        if self.words.is_some() {
            return Ok(());
        }
        let truncation = TruncationParams { max_length: most, ..TruncationParams::default() };
        self.tokenizer.with_truncation(Some(truncation)).map(drop)
    }
}
