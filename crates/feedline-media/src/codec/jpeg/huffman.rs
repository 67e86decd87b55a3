//! The numbers of a scan: codes of Huffman, each followed by the bits of a value.
//!
//! This is three quarters of the time that a photograph takes, and each code must be known before the next can be looked
//! at. So the shortest way from one to the next is what counts: ten bits are looked up at once, and the table says how many
//! bits the code and its value take together, or two codes and their values, if ten bits hold both. The values are made
//! beside it, without a branch. Blocks that nobody wants are passed by even more codes at once.

// A call from code to code would cost more than the code itself.
#![allow(clippy::inline_always)]

/// Bits that are looked up at once. Codes that are longer are rare.
const NEAR: u32 = 10;

/// Where the numbers of a block belong, in the order in which they are stored. Those beyond the end, which only damaged
/// files have, belong to the last place, as libjpeg has it.
pub(super) const ORDER: [u8; 128] = {
    let mut order = [63; 128];
    let (mut at, mut diagonal) = (0, 0);
    // From corner to corner, one diagonal up, the next one down.
    while diagonal < 15 {
        let mut step = 0;
        while step <= diagonal {
            let (row, column) =
                if diagonal % 2 == 0 { (diagonal - step, step) } else { (step, diagonal - step) };
            if row < 8 && column < 8 {
                order[at] = (8 * row + column) as u8;
                at += 1;
            }
            step += 1;
        }
        diagonal += 1;
    }
    order
};

/// What a code means, in one word, to be taken apart by shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u32);

impl Entry {
    /// No code, or a longer one.
    const NONE: Self = Self(0);

    /// A symbol has the number of zeros before the value in its upper half, the bits of the value in its lower one.
    fn new(length: u32, symbol: u8) -> Self {
        let (zeros, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
        Self((length + size) | length << 8 | size << 16 | zeros << 24)
    }

    /// Bits of the code and the value.
    #[inline(always)]
    fn all(self) -> u32 {
        self.0 & 0xff
    }

    /// Bits of the code.
    #[inline(always)]
    fn length(self) -> u32 {
        self.0 >> 8 & 0xff
    }

    /// Bits of the value.
    #[inline(always)]
    fn size(self) -> u32 {
        self.0 >> 16 & 0xff
    }

    #[inline(always)]
    fn zeros(self) -> usize {
        (self.0 >> 24) as usize
    }

    /// Whether the block ends with it: it is no number, and not sixteen zeros.
    #[inline(always)]
    fn is_end(self) -> bool {
        self.size() == 0 && self.zeros() != 15
    }
}

/// One number of a block and, if it fits into the same bits, the next one or the end of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Two(u64);

impl Two {
    /// Nothing that begins with a number, or a longer code.
    const NONE: Self = Self(0);

    /// `place` and `value` are those of the second number; `on` is how far to go on behind both.
    fn new(first: Entry, all: u32, place: usize, on: usize, value: i16) -> Self {
        // All bits of both, instead of those of the first.
        let first = u64::from(first.0 & !0xff | all);
        Self(first | (place as u64) << 32 | (on as u64) << 40 | u64::from(value as u16) << 48)
    }

    /// The first alone, but for the count of bits.
    #[inline(always)]
    fn first(self) -> Entry {
        Entry(self.0 as u32)
    }

    #[inline(always)]
    fn place(self) -> usize {
        (self.0 >> 32 & 0xff) as usize
    }

    #[inline(always)]
    fn on(self) -> usize {
        (self.0 >> 40 & 0xff) as usize
    }

    #[inline(always)]
    fn value(self) -> i16 {
        (self.0 >> 48) as i16
    }
}

/// Several codes with their values, to be passed by at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Many(u32);

impl Many {
    const NONE: Self = Self(0);

    fn new(all: u32, on: usize, is_end: bool) -> Self {
        Self(all | (on as u32) << 8 | u32::from(is_end) << 16)
    }

    #[inline(always)]
    fn all(self) -> u32 {
        self.0 & 0xff
    }

    #[inline(always)]
    fn on(self) -> usize {
        (self.0 >> 8 & 0xff) as usize
    }

    /// Whether the block ends with them.
    #[inline(always)]
    fn is_end(self) -> bool {
        self.0 >> 16 != 0
    }
}

/// A table of codes.
#[derive(Clone, Debug)]
pub(super) struct Table {
    near: [Entry; 1 << NEAR],
    two: [Two; 1 << NEAR],
    many: [Many; 1 << NEAR],
    /// For each length, the first code that is longer, as if it had 16 bits.
    ends: [u32; 17],
    /// For each length, what to add to a code to get the place of its symbol.
    places: [i32; 17],
    symbols: [u8; 256],
    /// What it was made of: files of one kind often have the same.
    made_of: Vec<u8>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            near: [Entry::NONE; 1 << NEAR],
            two: [Two::NONE; 1 << NEAR],
            many: [Many::NONE; 1 << NEAR],
            ends: [0; 17],
            places: [0; 17],
            symbols: [0; 256],
            made_of: Vec::new(),
        }
    }
}

impl Table {
    /// Reads a table from how many codes there are of each length, and their symbols in turn. `None` if it is not one.
    pub(super) fn set(&mut self, counts: &[u8; 16], symbols: &[u8]) -> Option<()> {
        if self.made_of.strip_prefix(counts) == Some(symbols) {
            return Some(());
        }
        self.made_of.clear();
        self.set_codes(counts, symbols)?;
        self.set_several();
        self.made_of.extend_from_slice(counts);
        self.made_of.extend_from_slice(symbols);
        Some(())
    }

    fn set_codes(&mut self, counts: &[u8; 16], symbols: &[u8]) -> Option<()> {
        self.near.fill(Entry::NONE);
        self.symbols.get_mut(..symbols.len())?.copy_from_slice(symbols);
        let (mut code, mut place) = (0u32, 0usize);
        for (length, count) in (1u32..).zip(counts) {
            let first = code;
            self.places[length as usize] = place as i32 - first as i32;
            for _ in 0..*count {
                let symbol = *symbols.get(place)?;
                if length <= NEAR {
                    let begin = (code << (NEAR - length)) as usize;
                    let same = self.near.get_mut(begin..begin + (1 << (NEAR - length)))?;
                    same.fill(Entry::new(length, symbol));
                }
                code += 1;
                place += 1;
            }
            // No code may be of ones alone.
            if *count > 0 && code >= 1 << length {
                return None;
            }
            self.ends[length as usize] = code << (16 - length);
            code <<= 1;
        }
        (place == symbols.len()).then_some(())
    }

    /// Works out what several codes in a row mean, for numbers behind the first of a block.
    fn set_several(&mut self) {
        let near = &self.near;
        // What a stretch of so many bits begins with, if all of it is there.
        let whole = |bits: usize, count: u32| {
            let entry = near[bits & ((1 << NEAR) - 1)];
            (entry != Entry::NONE && entry.all() <= count).then_some(entry)
        };
        for (bits, first) in near.iter().copied().enumerate() {
            let (mut all, mut on, mut is_end) = (0, 0, false);
            while let Some(entry) = whole(bits << all, NEAR - all)
                && !is_end
            {
                is_end = entry.is_end();
                all += entry.all();
                on += if is_end { 0 } else { entry.zeros() + 1 };
            }
            self.many[bits] = if all == 0 { Many::NONE } else { Many::new(all, on, is_end) };
            let place = first.zeros() + 1;
            self.two[bits] = match whole(bits << first.all().min(NEAR), NEAR.saturating_sub(first.all())) {
                // It begins with no number.
                _ if first.size() == 0 => Two::NONE,
                Some(second) if second.size() > 0 => {
                    let word = (bits as u64) << (64 - NEAR) << first.all();
                    let place = place + second.zeros();
                    Two::new(first, first.all() + second.all(), place, place + 1, value(word, second) as i16)
                }
                // Zeros are where nothing was, and beyond the end.
                Some(second) if second.is_end() => Two::new(first, first.all() + second.all(), place, 64, 0),
                _ => Two::new(first, first.all(), place, place, 0),
            };
        }
    }

    /// A code that was not found at once, from the next 16 bits.
    #[cold]
    fn far(&self, bits: u32) -> Option<Entry> {
        let length = (NEAR + 1..=16).find(|length| bits < self.ends[*length as usize])?;
        let place = (bits >> (16 - length)) as i32 + self.places[length as usize];
        Some(Entry::new(length, *self.symbols.get(usize::try_from(place).ok()?)?))
    }
}

/// The value behind a code, which has bits: those below the middle of their range are negative.
#[inline(always)]
fn value(word: u64, entry: Entry) -> i32 {
    let bits = word << entry.length();
    let negative = !(bits as i64 >> 63) as i32;
    let value = (bits >> (64 - entry.size())) as i32;
    value + ((negative << entry.size()) - negative)
}

/// Bits, the first of a byte first.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// The next byte that is not in the word.
    at: usize,
    /// The next bits, from the top.
    word: u64,
    /// How many of them count.
    count: u32,
}

impl<'a> Bits<'a> {
    /// Behind the last byte that counts there are eight more.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, word: 0, count: 0 }
    }

    /// Goes on elsewhere.
    pub(super) fn move_to(&mut self, at: usize) {
        (self.at, self.word, self.count) = (at, 0, 0);
    }

    /// Whether more bits were taken than there are up to this byte.
    #[inline(always)]
    pub(super) fn are_beyond(&self, end: usize) -> bool {
        8 * self.at - self.count as usize > 8 * end
    }

    /// Makes sure that there are 32 bits, as many as any code and its value have. Behind the end there are zeros.
    #[inline(always)]
    fn refill(&mut self) {
        if self.count < 32 {
            let next = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk());
            // What does not fit now is in the word nevertheless, and the same bits will be put there again.
            self.word |= next.map_or(0, |bytes| u64::from_be_bytes(*bytes)) >> self.count;
            let bytes = (63 - self.count) >> 3;
            self.at += bytes as usize;
            self.count += 8 * bytes;
        }
    }

    #[inline(always)]
    fn leave(&mut self, bits: u32) {
        self.word <<= bits;
        self.count -= bits;
    }

    #[inline(always)]
    fn entry(&mut self, table: &Table) -> Option<Entry> {
        self.refill();
        let mut entry = table.near[(self.word >> (64 - NEAR)) as usize];
        if entry == Entry::NONE {
            entry = table.far((self.word >> 48) as u32)?;
        }
        Some(entry)
    }

    /// What the first number of a block adds to that of the block before.
    #[inline(always)]
    fn difference(&mut self, table: &Table) -> Option<i32> {
        let entry = self.entry(table)?;
        let value = if entry.size() == 0 { 0 } else { value(self.word, entry) };
        self.leave(entry.all());
        Some(value)
    }

    /// The numbers of a block, into one of zeros. `first` is that of the block before, and becomes that of this one. Whether
    /// there are others; `None` if there is a code that is none.
    ///
    /// A function of its own, so that all it needs is in registers.
    #[inline(never)]
    #[target_feature(enable = "bmi2")]
    pub(super) fn block(
        &mut self,
        (first_table, table): (&Table, &Table),
        first: &mut i32,
        block: &mut [i16; 64],
    ) -> Option<bool> {
        let mut bits = Bits { ..*self };
        *first = first.wrapping_add(bits.difference(first_table)?);
        block[0] = *first as i16;
        let mut at = 1;
        while at < 64 {
            bits.refill();
            let two = table.two[(bits.word >> (64 - NEAR)) as usize];
            // Near the end of a block, the second number may be the next block's.
            if two != Two::NONE && at < 48 {
                let entry = two.first();
                let value = value(bits.word, entry);
                bits.leave(entry.all());
                block[usize::from(ORDER[(at + entry.zeros()) & 127] & 63)] = value as i16;
                block[usize::from(ORDER[(at + two.place()) & 127] & 63)] = two.value();
                at += two.on();
                continue;
            }
            let entry = bits.entry(table)?;
            if entry.size() > 0 {
                at += entry.zeros();
                block[usize::from(ORDER[at & 127] & 63)] = value(bits.word, entry) as i16;
                at += 1;
            } else if entry.is_end() {
                bits.leave(entry.all());
                break;
            } else {
                at += 16;
            }
            bits.leave(entry.all());
        }
        *self = bits;
        Some(at > 1)
    }

    /// The same, of a block that nobody wants.
    #[inline(never)]
    #[target_feature(enable = "bmi2")]
    pub(super) fn skip(&mut self, (first_table, table): (&Table, &Table), first: &mut i32) -> Option<()> {
        let mut bits = Bits { ..*self };
        *first = first.wrapping_add(bits.difference(first_table)?);
        let mut at = 1;
        while at < 64 {
            bits.refill();
            let many = table.many[(bits.word >> (64 - NEAR)) as usize];
            // As above.
            if many != Many::NONE && at + many.on() < 64 {
                bits.leave(many.all());
                if many.is_end() {
                    break;
                }
                at += many.on();
                continue;
            }
            let entry = bits.entry(table)?;
            bits.leave(entry.all());
            if entry.is_end() {
                break;
            }
            at += entry.zeros() + 1;
        }
        *self = bits;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_any_length_are_found() {
        if !std::arch::is_x86_feature_detected!("bmi2") {
            return;
        }
        // One code of 1 bit, one of 2, one of 12: 0, 10, 1100_0000_0000.
        let mut counts = [0; 16];
        (counts[0], counts[1], counts[11]) = (1, 1, 1);
        let mut table = Table::default();
        table.set(&counts, &[0x03, 0x00, 0x21]).unwrap();
        // 0 and 101 (5), 0 and 001 (-6); 1100 0000 0000 and 1 (behind two zeros, 1); 10 (the end).
        let bytes = [0b0101_0001, 0b1100_0000, 0b0000_1100, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut block = [0; 64];
        let mut first = 100;
        let mut bits = Bits::new(&bytes);
        // SAFETY: this is asked before.
        let decoded = unsafe { bits.block((&table, &table), &mut first, &mut block) };
        assert_eq!(decoded, Some(true));
        assert_eq!(first, 105);
        let mut expected = [0; 64];
        (expected[0], expected[1], expected[9]) = (105, -6, 1);
        assert_eq!(block, expected);
        assert!(bits.are_beyond(2) && !bits.are_beyond(3));
        bits.move_to(0);
        // SAFETY: as above.
        assert_eq!(unsafe { bits.skip((&table, &table), &mut first) }, Some(()));
        assert_eq!(first, 110);
        // Ones alone are no code.
        // SAFETY: as above.
        let decoded = unsafe { Bits::new(&[0xff; 8]).block((&table, &table), &mut first, &mut block) };
        assert_eq!(decoded, None);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let mut table = Table::default();
        let mut counts = [0; 16];
        counts[0] = 2;
        assert!(table.set(&counts, &[1, 2]).is_none(), "a code of ones");
        counts[0] = 1;
        assert!(table.set(&counts, &[]).is_none(), "too few symbols");
        assert!(table.set(&counts, &[1, 2]).is_none(), "too many");
        assert!(table.set(&counts, &[1]).is_some());
    }
}
