//! Any bytes as an NRRD file: as many numbers as its header says and its data can give, or an error, in bounded memory.
#![no_main]

use std::cell::RefCell;

use feedline_media::volume::{Header, Scratch};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Text and hexadecimal digits become no more bytes than they are, eight times over; what is packed, at most this.
const MOST: usize = 1032;

fuzz_target!(|bytes: &[u8]| {
    let Ok(header) = Header::read(bytes) else { return };
    if header.check(bytes).is_err() {
        return;
    }
    // Bzip2 alone can give more, which was counted.
    let packed = header.fields.iter().any(|(_, value)| value.to_ascii_lowercase().starts_with("bz"));
    assert!(packed || header.bytes() <= MOST * bytes.len());
    if header.bytes() > 1 << 26 {
        return;
    }
    let mut row = vec![0; header.bytes()];
    SCRATCH.with_borrow_mut(|scratch| {
        let _ = header.read_into(bytes, scratch, &mut row);
    });
});
