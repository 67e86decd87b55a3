//! Any bytes as a file of arrays: an array that lies in the file, or an error.
#![no_main]

use feedline_media::tensor::find;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for name in [None, Some("a")] {
        if let Ok(found) = find(bytes, name) {
            let mut row = vec![0; found.bytes().expect("it was found to fit")];
            assert!(row.len() <= bytes.len());
            found.read(bytes, &mut row).expect("it lies in the file");
        }
    }
});
