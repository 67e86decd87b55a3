//! Any bytes as an image: a row or an error, in bounded memory.
#![no_main]

use std::{cell::RefCell, sync::Arc, sync::LazyLock};

use feedline_core::{Key, Purpose};
use feedline_media::{
    Arrangement, Filter, Like, Numbers, Pipeline, Scratch,
    transform::{ColourJitter, Flip, RandomResizedCrop, Way},
};
use libfuzzer_sys::fuzz_target;

static PIPELINE: LazyLock<Pipeline> = LazyLock::new(|| {
    let crop = RandomResizedCrop {
        size: (24, 16),
        scale: (0.08, 1.0),
        ratio: (0.75, 1.33),
        filter: Filter::Bicubic,
        like: Like::Pillow,
    };
    let jitter = ColourJitter { hue: Some((-0.5, 0.5)), contrast: Some((0.0, 2.0)), ..ColourJitter::default() };
    Pipeline::new(vec![Arc::new(crop), Arc::new(Flip { way: Way::Mirror, probability: 0.5 }), Arc::new(jitter)], Numbers::Bytes, Arrangement::Planes)
        .expect("the steps fit together")
});

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

fuzz_target!(|bytes: &[u8]| {
    let mut row = vec![0; PIPELINE.row_bytes()];
    let mut rng = Key::new(1, 0, Purpose::Sample).rng(bytes.len() as u64);
    SCRATCH.with_borrow_mut(|scratch| {
        let _ = PIPELINE.write(bytes, &mut rng, scratch, &mut row, |_| {});
    });
});
