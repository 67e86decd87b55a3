//! Microseconds that an image takes on one processor: decoded by libjpeg-turbo and by this crate, and the pipelines of
//! inference and training with each of both. `make instructions` counts what each part of them executes.
//!
//! ```sh
//! cargo run --release -p feedline-media --example stages -- FOLDER [ROUNDS [STAGE]]
//! ```

use std::{fs, hint::black_box, io, path::Path, sync::Arc, time::Instant};

use feedline_core::{Key, Purpose};
use feedline_media::{
    Arrangement, Filter, Like, MeanStd, Numbers, Pipeline, Rect, Scratch, Transform,
    codec::Codecs,
    normalise::Unit,
    transform::{CentreCrop, Flip, RandomResizedCrop, ResizeShort, Way},
};

/// What is done to the bytes of a file, given its number.
type Work = Box<dyn FnMut(usize, &[u8])>;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or_else(|| io::Error::other("give a folder of JPEG files"))?;
    let rounds = arguments.next().map_or(Ok(5), |text| text.parse()).map_err(io::Error::other)?;
    let only = arguments.next();
    let mut files = Vec::new();
    read(Path::new(&folder), &mut files)?;
    let mut stages: Vec<(&str, Work)> = vec![
        ("library", whole(Codecs::of_library())),
        ("decode", whole(Codecs::default())),
        ("library-inference", pipeline(false, Scratch::of_library())),
        ("inference", pipeline(false, Scratch::default())),
        ("library-training", pipeline(true, Scratch::of_library())),
        ("training", pipeline(true, Scratch::default())),
    ];
    stages.retain(|(name, _)| only.as_ref().is_none_or(|only| only == name));
    let mut best = vec![f64::INFINITY; stages.len()];
    for _ in 0..rounds {
        for ((_, stage), best) in stages.iter_mut().zip(&mut best) {
            let began = Instant::now();
            for (number, file) in files.iter().enumerate() {
                stage(number, file);
            }
            *best = best.min(began.elapsed().as_secs_f64() / files.len() as f64);
        }
    }
    let lines = stages.iter().zip(&best).map(|((name, _), best)| format!("{name:18}{:6.0} µs\n", 1e6 * best));
    io::Write::write_all(&mut io::stdout(), lines.collect::<String>().as_bytes())
}

fn read(folder: &Path, files: &mut Vec<Vec<u8>>) -> io::Result<()> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "jpg") {
            files.push(fs::read(path)?);
        }
    }
    Ok(())
}

fn whole(mut codecs: Codecs) -> Work {
    let mut memory = Vec::new();
    Box::new(move |_, file| {
        let opened = codecs.open(file).expect("it is an image");
        let (width, height) = opened.size();
        let whole = Rect { x: 0, y: 0, width, height };
        black_box(codecs.decode(file, &opened, whole, &mut memory).expect("it is whole"));
    })
}

fn pipeline(is_training: bool, mut scratch: Scratch) -> Work {
    let (filter, like, size) = (Filter::Bilinear, Like::Pillow, (224, 224));
    let steps: Vec<Arc<dyn Transform>> = if is_training {
        let (scale, ratio) = ((0.08, 1.0), (0.75, 4.0 / 3.0));
        let crop = RandomResizedCrop { size, scale, ratio, filter, like };
        vec![Arc::new(crop), Arc::new(Flip { way: Way::Mirror, probability: 0.5 })]
    } else {
        vec![Arc::new(ResizeShort { side: 256, longest: None, filter, like }), Arc::new(CentreCrop { size })]
    };
    let shift = MeanStd { mean: vec![0.485, 0.456, 0.406], std: vec![0.229, 0.224, 0.225] };
    let numbers = Numbers::Floats(Unit::Divided, vec![shift]);
    let pipeline = Pipeline::new(steps, numbers, Arrangement::Planes).expect("the steps fit together");
    let key = Key::new(1, 0, Purpose::Sample);
    let mut row = vec![0f32; pipeline.row_bytes() / 4];
    Box::new(move |number, file| {
        let row = bytemuck::cast_slice_mut(&mut row);
        pipeline.write(file, &mut key.rng(number as u64), &mut scratch, row, |_| ()).expect("it is whole");
        black_box(row);
    })
}
