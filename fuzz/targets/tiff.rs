//! Any bytes as a TIFF file: planes of the size that was said, or an error.
#![no_main]

use feedline_media::tiff::{Pages, Scratch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut pages = Pages::default();
    if let Ok(extent) = pages.open(bytes) {
        let channels: Vec<usize> = (0..extent.channels).collect();
        let all = extent.plane_bytes() * channels.len();
        assert!(all / 4096 <= bytes.len());
        if all <= 1 << 20 {
            let _ = pages.write_planes(bytes, &channels, &mut Scratch::default(), &mut vec![0; all]);
        }
    }
});
