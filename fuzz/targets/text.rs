//! Any bytes as JSON lines, as comma-separated values and as a text: samples or errors, and both ways of the hash agree.
#![no_main]

use std::path::Path;

use feedline_text::{Arena, Jsonl, Padding, Source, Table, Text, TextError};
use libfuzzer_sys::fuzz_target;

fn take(source: Result<impl Source, TextError>) {
    let Ok(source) = source else { return };
    let text = Text::hashed(source, 1000).mask(true);
    for index in 0..text.len() as i64 {
        if let Ok(batch) = text.batch(&[index, 0, index]) {
            assert_eq!(batch.ids().len(), batch.shape.rows * batch.shape.width);
        }
    }
    let _ = text.lengths(1);
}

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("fuzzed");
    take(Jsonl::held(path, bytes.to_vec(), "text", Some("label")));
    take(Table::held(path, bytes.to_vec(), "text", Some("label"), b','));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let texts = [text, &format!("{text} ä")];
        let text = Text::hashed(Arena::new(texts, vec![]).expect("there are no labels"), 1000);
        let batch = text.pad(Padding::Ragged, 0).batch(&[0, 1]).expect("any text has words, or none");
        // The second goes the long way, and has one word more.
        let [_, first, second] = batch.offsets() else { panic!("there are two rows") };
        let (one, other) = batch.ids().split_at(*first as usize);
        assert_eq!((one, first + first + 1), (&other[..one.len()], *second));
    }
});
