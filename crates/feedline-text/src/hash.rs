//! Words to numbers without a vocabulary: lower case, split at white space, a hash of each word.
//!
//! It is what `crc32(word) % size + 1` gives in Python for the words of `text.lower().split()`: 0 is left for padding.

use crate::{BoxError, Tokenize};

/// The remainders of all bytes, for the checksum of zlib.
const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Bytes of ASCII in lower case; 0 for white space. A text that has a 0 of its own goes the long way.
const LOWER: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = if is_space(byte as u8 as char) { 0 } else { (byte as u8).to_ascii_lowercase() };
        byte += 1;
    }
    table
};

/// White space as Python's `str.split` has it: also four separators that Unicode does not count.
const fn is_space(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\x1c'..='\x1f')
}

/// A tokenizer that needs no vocabulary.
#[derive(Clone, Copy, Debug)]
pub struct Hash {
    size: u32,
    most: usize,
}

impl Hash {
    /// Numbers from 1 to `size`.
    ///
    /// # Panics
    /// If the size is 0.
    pub fn new(size: u32) -> Self {
        assert!(size > 0, "there must be a number for words to get");
        Self { size, most: usize::MAX }
    }

    fn number(self, crc: u32) -> i64 {
        i64::from(!crc % self.size) + 1
    }

    /// Most texts: every byte is a letter, and has a lower case of its own.
    fn ascii(self, text: &[u8], ids: &mut Vec<i64>) {
        let (mut crc, mut inside, mut left) = (u32::MAX, false, self.most);
        for byte in text {
            let lower = LOWER[usize::from(*byte)];
            if lower != 0 {
                crc = CRC[usize::from(crc as u8 ^ lower)] ^ (crc >> 8);
                inside = true;
            } else if inside {
                ids.push(self.number(crc));
                left -= 1;
                if left == 0 {
                    return;
                }
                (crc, inside) = (u32::MAX, false);
            }
        }
        if inside {
            ids.push(self.number(crc));
        }
    }

    /// Any text.
    fn unicode(self, text: &str, ids: &mut Vec<i64>) {
        let lower = text.to_lowercase();
        let words = lower.split(is_space).filter(|word| !word.is_empty()).take(self.most);
        ids.extend(words.map(|word| {
            let crc =
                word.bytes().fold(u32::MAX, |crc, byte| CRC[usize::from(crc as u8 ^ byte)] ^ (crc >> 8));
            self.number(crc)
        }));
    }
}

impl Tokenize for Hash {
    fn tokenize(&self, text: &str, ids: &mut Vec<i64>) -> Result<(), BoxError> {
        if self.most > 0 && text.is_ascii() && memchr::memchr(0, text.as_bytes()).is_none() {
            self.ascii(text.as_bytes(), ids);
        } else {
            self.unicode(text, ids);
        }
        Ok(())
    }

    fn truncate(&mut self, most: usize) -> Result<(), BoxError> {
        self.most = most;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(hash: Hash, text: &str) -> Vec<i64> {
        let mut ids = Vec::new();
        hash.tokenize(text, &mut ids).unwrap();
        ids
    }

    #[test]
    fn numbers_are_those_of_zlib() {
        // crc32(b"the") and crc32(b"movie") as Python says them.
        let hash = Hash::new(u32::MAX);
        assert_eq!(ids(hash, " The\tmovie\n"), [0x3c45_6de6 + 1, 0x1d5e_f26f + 1]);
        assert_eq!(ids(Hash::new(30_000), "the"), [0x3c45_6de6 % 30_000 + 1]);
        assert_eq!(ids(hash, " \x1c "), [0; 0]);
    }

    #[test]
    fn no_more_words_are_read_than_are_kept() {
        let mut hash = Hash::new(100);
        let all = ids(hash, "a b c d");
        for most in 0..6 {
            hash.truncate(most).unwrap();
            assert_eq!(ids(hash, "a b c d"), all[..most.min(4)]);
            assert_eq!(ids(hash, "a b c ä"), ids(Hash::new(100), "a b c ä")[..most.min(4)]);
        }
    }

    proptest! {
        #[test]
        fn the_short_way_is_the_long_way(text in "[ -~\t\n\x0b\x1c-\x1f\0]{0,60}", most in 1usize..8) {
            let mut hash = Hash::new(1000);
            hash.truncate(most).unwrap();
            let mut long = Vec::new();
            hash.unicode(&text, &mut long);
            prop_assert_eq!(ids(hash, &text), long);
        }
    }
}
