//! Words that come again: their numbers are kept, so that a tokenizer sees each of them once.
//!
//! Most tokenizers cut a text at white space before they do anything else, and what they make of a word does not depend on
//! the words around it. Of those the numbers of a text are the numbers of its words, one after the other. To look a word up
//! takes a fiftieth of the time that it takes to cut it into pieces, and most words of a text are among the most frequent.
//!
//! Whether that holds, the tokenizer's file says. What is not known to keep words apart is done as a whole, and so is a text
//! in which there may be one of the tokens that are found before words are: they have marks of their own, mostly brackets.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;
use tokenizers::Tokenizer;

use crate::BoxError;

/// Of each thread, no more words are kept than this, and none that are longer. Both bound its memory to some megabytes.
const MOST_WORDS: usize = 1 << 16;
const LONGEST: usize = 64;

/// How words lie in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// White space is between them, and becomes nothing.
    Apart,
    /// The space before a word is its first letter.
    WithSpace,
}

/// What is known of a tokenizer that keeps words apart.
#[derive(Debug)]
pub(crate) struct Words {
    manner: Manner,
    /// The first letters of tokens that are found before words are.
    marks: Vec<u8>,
    /// Whether such tokens are looked for when letters have been made others: then those that may become marks are not known.
    plain: bool,
    /// What is put around a text.
    pub(crate) before: Vec<i64>,
    pub(crate) after: Vec<i64>,
    /// What threads have seen, while none uses it: threads end with an epoch, and words come again in the next.
    seen: Mutex<Vec<Seen>>,
}

/// What a thread has seen.
#[derive(Debug, Default)]
struct Seen {
    /// Where the numbers of a word are.
    places: HashMap<Box<str>, (u32, u32)>,
    ids: Vec<u32>,
}

impl Words {
    /// If the tokenizer that a file describes keeps words apart. `special` says whether something is put around texts.
    pub(crate) fn of(file: &Value, tokenizer: &Tokenizer, special: bool) -> Option<Self> {
        let manner = manner(&file["pre_tokenizer"])?;
        if !is_local(&file["normalizer"]) || !is_certain(&file["model"]) {
            return None;
        }
        let (mut marks, mut plain) = (Vec::new(), false);
        for token in file["added_tokens"].as_array().map_or(&[][..], Vec::as_slice) {
            let mark = *token["content"].as_str()?.as_bytes().first()?;
            if !mark.is_ascii_punctuation() {
                return None;
            }
            marks.push(mark);
            plain |= token["normalized"] != Value::Bool(false);
        }
        marks.sort_unstable();
        marks.dedup();
        if marks.len() > 3 {
            return None;
        }
        let ids = |special| {
            let made = tokenizer.encode_fast("a", special).ok()?;
            Some(made.get_ids().iter().map(|id| i64::from(*id)).collect::<Vec<_>>())
        };
        let (alone, whole) = (ids(false)?, ids(special)?);
        // An `a` that is nothing would not say where the text is.
        let at = whole.windows(alone.len().max(1)).position(|part| part == alone)?;
        let (before, after) = (whole[..at].to_vec(), whole[at + alone.len()..].to_vec());
        Some(Self { manner, marks, plain, before, after, seen: Mutex::default() })
    }

    /// How many numbers are put around a text.
    pub(crate) fn around(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Adds the numbers of a text, up to so many, without what is put around it.
    pub(crate) fn tokenize(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        most: usize,
        ids: &mut Vec<i64>,
    ) -> Result<(), BoxError> {
        let end = ids.len().saturating_add(most);
        if self.may_be_marked(text) {
            let made = tokenizer.encode_fast(text, false)?;
            ids.extend(made.get_ids().iter().take(most).map(|id| i64::from(*id)));
            return Ok(());
        }
        let all = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = all().pop();
        let mut seen = taken.unwrap_or_default();
        let mut rest = text;
        while ids.len() < end {
            let Some(word) = self.next(&mut rest) else { break };
            seen.add(tokenizer, word, ids)?;
        }
        ids.truncate(end);
        all().push(seen);
        Ok(())
    }

    /// Whether there may be a token that is found before words are.
    fn may_be_marked(&self, text: &str) -> bool {
        let found = match *self.marks {
            [] => None,
            [one] => memchr::memchr(one, text.as_bytes()),
            [one, two] => memchr::memchr2(one, two, text.as_bytes()),
            [one, two, three, ..] => memchr::memchr3(one, two, three, text.as_bytes()),
        };
        found.is_some() || (self.plain && !text.is_ascii())
    }

    /// The next word, with its space if that belongs to it.
    fn next<'a>(&self, rest: &mut &'a str) -> Option<&'a str> {
        let bytes = rest.as_bytes();
        match self.manner {
            Manner::Apart => {
                let begin = bytes.iter().position(|byte| !is_space(*byte))?;
                let length = bytes[begin..].iter().position(|byte| is_space(*byte));
                let end = length.map_or(bytes.len(), |length| begin + length);
                let word = &rest[begin..end];
                *rest = &rest[end..];
                Some(word)
            }
            Manner::WithSpace => {
                let mut from = 1;
                let end = loop {
                    let Some(at) = bytes.get(from..).and_then(|rest| memchr::memchr(b' ', rest)) else {
                        break bytes.len();
                    };
                    let at = from + at;
                    // Between words, there is one space and nothing else.
                    let (before, behind) = (rest[..at].chars().next_back(), rest[at + 1..].chars().next());
                    if before.zip(behind).is_some_and(|(one, other)| is_letter(one) && is_letter(other)) {
                        break at;
                    }
                    from = at + 1;
                };
                let (word, others) = rest.split_at(end);
                *rest = others;
                (!word.is_empty()).then_some(word)
            }
        }
    }
}

impl Seen {
    fn add(&mut self, tokenizer: &Tokenizer, word: &str, ids: &mut Vec<i64>) -> Result<(), BoxError> {
        if let Some((begin, end)) = self.places.get(word) {
            ids.extend(self.ids[*begin as usize..*end as usize].iter().map(|id| i64::from(*id)));
            return Ok(());
        }
        let made = tokenizer.encode_fast(word, false)?;
        ids.extend(made.get_ids().iter().map(|id| i64::from(*id)));
        if word.len() <= LONGEST {
            if self.places.len() == MOST_WORDS {
                // The frequent ones will soon be back.
                self.places.clear();
                self.ids.clear();
            }
            let begin = self.ids.len() as u32;
            self.ids.extend_from_slice(made.get_ids());
            self.places.insert(word.into(), (begin, self.ids.len() as u32));
        }
        Ok(())
    }
}

/// White space to all that may come before words are cut. Some take other control characters for nothing.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_letter(letter: char) -> bool {
    !letter.is_whitespace() && !letter.is_control()
}

/// The parts of a sequence, or the one part there is.
fn parts<'a>(part: &'a Value, name: &str) -> Vec<&'a Value> {
    match (part["type"].as_str(), part[name].as_array()) {
        (Some("Sequence"), Some(parts)) => parts.iter().collect(),
        _ => vec![part],
    }
}

/// How words lie in a text, if a tokenizer cuts it at white space first.
fn manner(part: &Value) -> Option<Manner> {
    let parts = parts(part, "pretokenizers");
    let first = *parts.first()?;
    let kind = |part: &Value| part["type"].as_str().map(str::to_owned);
    match kind(first)?.as_str() {
        "ByteLevel" if parts.len() == 1 && first["use_regex"] != Value::Bool(false) => {
            Some(Manner::WithSpace)
        }
        "BertPreTokenizer" | "Whitespace" | "WhitespaceSplit" => {
            let known = ["BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits"];
            let all = parts.iter().all(|part| kind(part).is_some_and(|kind| known.contains(&kind.as_str())));
            all.then_some(Manner::Apart)
        }
        _ => None,
    }
}

/// Whether letters are made others without looking beyond white space.
fn is_local(part: &Value) -> bool {
    const KNOWN: [&str; 7] = ["BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"];
    part.is_null()
        || parts(part, "normalizers")
            .iter()
            .all(|part| part["type"].as_str().is_some_and(|kind| KNOWN.contains(&kind)))
}

/// Whether a word has the same numbers each time.
fn is_certain(model: &Value) -> bool {
    let known = matches!(model["type"].as_str(), Some("WordPiece" | "WordLevel" | "BPE"));
    known && model["dropout"].as_f64().is_none_or(|dropout| dropout == 0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pieces() -> Value {
        let words = [
            "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "e", "i", "##a", "##b", "##c", "##e", "##i", "ab",
            "##bc", "!", ".", "'", "1", "中", "<",
        ];
        let vocab: serde_json::Map<String, Value> =
            words.iter().enumerate().map(|(id, word)| ((*word).to_owned(), json!(id))).collect();
        json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": (0..3).map(|id| json!({
                "id": id, "content": words[id], "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            })).collect::<Vec<_>>(),
            "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                "strip_accents": null, "lowercase": true},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
            "decoder": null,
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 6, "vocab": vocab},
        })
    }

    fn bytes(prefix: bool) -> Value {
        // A letter for every byte, as the format has it, and two that were put together.
        let mut next = 256;
        let letters = (0..=255u8).map(|byte| match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae.. => char::from(byte),
            _ => {
                next += 1;
                char::from_u32(next - 1).expect("a letter")
            }
        });
        let mut words: Vec<String> = letters.map(String::from).collect();
        words.extend(["Ġa", "ab", "Ġab", "ĠĠ"].map(str::to_owned));
        let vocab: serde_json::Map<String, Value> =
            words.into_iter().enumerate().map(|(id, word)| (word, json!(id))).collect();
        json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": [{"id": 260, "content": "<end>", "single_word": false, "lstrip": true, "rstrip": false,
                "normalized": true, "special": true}],
            "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": true},
            "post_processor": null, "decoder": null,
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab,
                "merges": ["Ġ a", "a b", "Ġa b", "Ġ Ġ"]},
        })
    }

    fn opened(file: &Value, special: bool) -> (Tokenizer, Words) {
        let tokenizer = Tokenizer::from_bytes(file.to_string()).unwrap();
        let words = Words::of(file, &tokenizer, special).expect("it keeps words apart");
        (tokenizer, words)
    }

    fn letter() -> impl Strategy<Value = char> {
        let letters =
            "    aabbceiABÉé\u{301}\u{a0}\u{2003}\u{b}\u{1c}\u{200b}\u{fffd}\0\t\n\r!.'1中<>[]İß≮ｂ";
        prop::sample::select(letters.chars().collect::<Vec<_>>())
    }

    fn texts() -> impl Strategy<Value = String> {
        let parts = prop_oneof![
            20 => letter().prop_map(String::from),
            1 => prop::sample::select(vec!["[SEP]", "[sep]", "<end>", "it's", "a  b", " <end>", "  "]).prop_map(str::to_owned),
        ];
        prop::collection::vec(parts, 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_the_text_as_a_whole(text in texts(), most in prop_oneof![Just(usize::MAX), 0..20usize]) {
            thread_local! {
                static ALL: Vec<(Tokenizer, Words)> =
                    [pieces(), bytes(false), bytes(true)].iter().map(|file| opened(file, false)).collect();
            }
            ALL.with(|all| {
                for (tokenizer, words) in all {
                    let whole = tokenizer.encode_fast(&*text, false).unwrap();
                    let whole: Vec<i64> = whole.get_ids().iter().take(most).map(|id| i64::from(*id)).collect();
                    for _ in 0..2 {
                        let mut found = vec![7];
                        words.tokenize(tokenizer, &text, most, &mut found).unwrap();
                        prop_assert_eq!(&found[1..], &whole[..], "{:?}", &text);
                    }
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn what_is_put_around_a_text_is_found() {
        let (_, words) = opened(&pieces(), true);
        assert_eq!((&*words.before, &*words.after, words.around()), (&[1][..], &[2][..], 2));
        assert_eq!(opened(&pieces(), false).1.around(), 0);
    }

    #[test]
    fn what_may_look_beyond_words_is_done_as_a_whole() {
        let refused = |change: fn(&mut Value)| {
            let mut file = pieces();
            change(&mut file);
            let tokenizer = Tokenizer::from_bytes(file.to_string()).unwrap();
            Words::of(&file, &tokenizer, false).is_none()
        };
        assert!(!refused(|_| ()));
        assert!(refused(|file| file["pre_tokenizer"] = Value::Null));
        assert!(refused(|file| file["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "_",
            "prepend_scheme": "always", "split": true})));
        assert!(refused(
            |file| file["normalizer"] = json!({"type": "Replace", "pattern": {"String": " "}, "content": ""})
        ));
        assert!(refused(|file| file["added_tokens"][0]["content"] = json!("unknown")));
    }

    #[test]
    fn a_thread_keeps_no_more_words_than_it_may() {
        let (tokenizer, words) = opened(&bytes(false), false);
        let mut ids = Vec::new();
        for number in 0..MOST_WORDS + 10 {
            ids.clear();
            words.tokenize(&tokenizer, &number.to_string(), usize::MAX, &mut ids).unwrap();
        }
        assert_eq!(words.seen.lock().unwrap()[0].places.len(), 10);
    }
}
