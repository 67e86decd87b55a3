//! Any bytes as a NIfTI file, packed or not: numbers and values, or an error, in bounded memory.
#![no_main]

use std::{cell::RefCell, io::Write as _};

use feedline_media::volume::{Header, Scratch};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

fn read(bytes: &[u8]) {
    let Ok(header) = Header::read(bytes) else { return };
    if header.check(bytes).is_err() {
        return;
    }
    assert!(header.bytes() <= 1032 * bytes.len());
    let (mut row, mut values) = (vec![0; header.bytes()], vec![0.0; header.count()]);
    SCRATCH.with_borrow_mut(|scratch| {
        let read = header.read_into(bytes, scratch, &mut row).is_ok();
        assert_eq!(header.read_scaled_into(bytes, scratch, &mut values).is_ok(), read);
    });
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    // A stream with a right checksum is not found by chance.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).expect("memory can be written");
    read(&packed.finish().expect("memory can be written"));
});
