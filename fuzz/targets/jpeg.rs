//! Damaged JPEG files: what is decoded here is what libjpeg-turbo makes of them, or its error.
#![no_main]

use feedline_media::{MediaError, Rect, codec::Codecs};
use libfuzzer_sys::fuzz_target;

/// Small files of every kind that is decoded here.
const FILES: [&[u8]; 4] = [
    include_bytes!("../seeds/420.jpg"),
    include_bytes!("../seeds/422.jpg"),
    include_bytes!("../seeds/444.jpg"),
    include_bytes!("../seeds/gray.jpg"),
];

fuzz_target!(|bytes: &[u8]| {
    let [kind, way, rest @ ..] = bytes else { return };
    let mut file = FILES[usize::from(*kind) % FILES.len()].to_vec();
    if way % 2 == 0 {
        // Other codes behind the same tables.
        let scan = file.windows(2).position(|mark| mark == [0xff, 0xda]).expect("there is a scan");
        file.truncate(scan + 2 + usize::from(file[scan + 3]));
        file.extend_from_slice(rest);
        file.extend_from_slice(&[0xff, 0xd9]);
    } else {
        // Other bytes in some places.
        for change in rest.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % file.len();
            file[at] = change[2];
        }
    }
    // Sizes that make no sense take long. What is wrong with tables, some find here and others when they decode.
    let is_small = |size: (usize, usize)| size.0 * size.1 <= 1 << 16;
    if !Codecs::default().open(&file).is_ok_and(|opened| is_small(opened.size())) {
        return;
    }
    let part = (usize::from(*way) * 7 % 40, usize::from(*kind) * 5 % 30);
    assert_eq!(decoded(Codecs::default(), &file, part), decoded(Codecs::of_library(), &file, part));
});

/// The pixels from a place on.
fn decoded(mut codecs: Codecs, file: &[u8], (x, y): (usize, usize)) -> Result<Vec<u8>, MediaError> {
    let opened = codecs.open(file)?;
    let (width, height) = opened.size();
    let (x, y) = (x % width, y % height);
    let part = Rect { x, y, width: width - x, height: height - y };
    let mut memory = Vec::new();
    let pixels = codecs.decode(file, &opened, part, &mut memory)?;
    Ok((0..pixels.height()).flat_map(|y| pixels.row(y).to_vec()).collect())
}
