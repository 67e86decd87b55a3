//! Words to numbers without a vocabulary: lower case, split at white space, a hash of each word.
//!
//! It is what `crc32(word) % size + 1` gives in Python for the words of `text.lower().split()`: 0 is left for padding.

use crate::{BoxError, Tokenize};

/// The remainders of zlib's checksum: `CRC[k]` those of a byte with k bytes behind it.
const CRC: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut behind = 1;
    while behind < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[behind - 1][byte];
            tables[behind][byte] = tables[0][(before & 0xff) as usize] ^ (before >> 8);
            byte += 1;
        }
        behind += 1;
    }
    tables
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

    /// Most texts: letters of one byte, eight of them at a time, whatever the lengths of words are.
    fn plain(self, text: &[u8], ids: &mut Vec<i64>) {
        let (mut at, mut left) = (0, self.most);
        while at < text.len() && left > 0 {
            let (mut crc, begin) = (u32::MAX, at);
            loop {
                let (letters, count) = letters(&text[at..]);
                crc = add(crc, letters, count);
                at += count;
                if count < 8 {
                    break;
                }
            }
            if at > begin {
                ids.push(self.number(crc));
                left -= 1;
            }
            at += 1;
        }
    }

    /// Any text.
    fn unicode(self, text: &str, ids: &mut Vec<i64>) {
        let lower = text.to_lowercase();
        let words = lower.split(is_space).filter(|word| !word.is_empty()).take(self.most);
        ids.extend(words.map(|word| {
            let crc =
                word.bytes().fold(u32::MAX, |crc, byte| CRC[0][usize::from(crc as u8 ^ byte)] ^ (crc >> 8));
            self.number(crc)
        }));
    }
}

/// Whether all bytes are letters of their own or white space. Those between are rare.
fn is_plain(text: &[u8]) -> bool {
    // All of them, without leaving early: that goes many at a time.
    text.iter().fold(true, |plain, byte| plain & matches!(byte, 0x09..=0x0d | 0x1c..=0x7f))
}

/// The next letters in lower case, up to eight, and how many there are before white space or the end.
fn letters(text: &[u8]) -> (u64, usize) {
    /// The same in every byte.
    const fn all(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    let eight = match text.first_chunk::<8>() {
        Some(eight) => *eight,
        None => std::array::from_fn(|at| text.get(at).copied().unwrap_or(b' ')),
    };
    let eight = u64::from_le_bytes(eight);
    // Bytes are below 128, so that a sum does not reach the next one: its highest bit says what a byte is at least.
    let spaces = !(eight + all(0x80 - 0x21)) & all(0x80);
    let capitals = (eight + all(0x80 - b'A')) & !(eight + all(0x7f - b'Z')) & all(0x80);
    (eight | (capitals >> 2), spaces.trailing_zeros() as usize / 8)
}

/// The checksum with so many more bytes, up to eight.
fn add(crc: u32, bytes: u64, count: usize) -> u32 {
    if count == 0 {
        return crc;
    }
    // With zeros before them, which do not change a checksum of 0, there are always eight. What the checksum was is added
    // to the first four; if there are fewer, the rest of it stays.
    let away = 8 * (8 - count);
    let eight = ((bytes ^ u64::from(crc)) << away).to_le_bytes();
    let stays = (u64::from(crc) >> (8 * count.min(4))) as u32;
    eight.iter().zip(CRC.iter().rev()).fold(stays, |crc, (byte, table)| crc ^ table[usize::from(*byte)])
}

impl Tokenize for Hash {
    fn tokenize(&self, text: &str, ids: &mut Vec<i64>) -> Result<(), BoxError> {
        if is_plain(text.as_bytes()) {
            self.plain(text.as_bytes(), ids);
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
        fn the_short_way_is_the_long_way(text in "[ -~\t\n\x0b\x1c-\x1f]{0,60}|[ -~\0\x7f\x1bäΣ]{0,20}", most in 1usize..8) {
            let mut hash = Hash::new(1000);
            hash.truncate(most).unwrap();
            let mut long = Vec::new();
            hash.unicode(&text, &mut long);
            prop_assert_eq!(ids(hash, &text), long);
        }
    }
}
