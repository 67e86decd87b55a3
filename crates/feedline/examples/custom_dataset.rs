//! A dataset of your own over files: a folder of small raw images whose labels are part of their names.
//!
//! ```sh
//! cargo run -p feedline --example custom_dataset
//! ```
//!
//! It makes such a folder, cuts one of the images short, and loads two shuffled epochs with four workers. The
//! broken image is left out of its batch and named, with its path, in the list of failures:
//!
//! ```text
//! epoch 0: 19 batches, 299 images, mean 0.500
//!   sample 123 (row 15 of batch 5, epoch 0) failed: /tmp/…/image_123_label_3.raw: 1000 bytes, but an image has 3072
//!   so far: waited 1.8 ms for batches, worked 1.1 ms on them; 14 of 19 were ready when asked for
//! ```
//!
//! What a dataset has to do is in [`Folder`]; the rest of the file uses it.

#![allow(clippy::print_stdout)] // An example talks to whoever runs it.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use feedline::{
    Batch, BoxError, Error, Field, Layout, LayoutError, Loader, OnFailure, RowMut, Rows, SampleRng, Spec,
};

const SIDE: usize = 32;
const CHANNELS: usize = 3;
const BYTES: usize = SIDE * SIDE * CHANNELS;

const IMAGES: usize = 300;
const BROKEN: usize = 123;
const EPOCHS: u64 = 2;

/// A folder of raw images: 32×32 pixels of three bytes, one row of pixels after the other.
struct Folder {
    images: Vec<Image>,
}

struct Image {
    path: PathBuf,
    label: i64,
}

impl Folder {
    /// Lists the images and reads their labels, but none of their pixels: that is for the workers.
    fn open(folder: &Path) -> Result<Self, BoxError> {
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut paths: Vec<PathBuf> =
            entries.map_err(in_file(folder))?.iter().map(fs::DirEntry::path).collect();
        // A directory is listed in any order. Sample 17 must be the same image in every run, or neither the
        // seed nor a saved state means anything.
        paths.sort();
        let images = paths.into_iter().map(Image::new).collect::<Result<_, _>>()?;
        Ok(Self { images })
    }
}

impl Image {
    /// Of a path that ends in `_label_7.raw`.
    fn new(path: PathBuf) -> Result<Self, BoxError> {
        let label = path.file_stem().and_then(|stem| stem.to_str()?.rsplit_once("_label_")?.1.parse().ok());
        match label {
            Some(label) => Ok(Self { path, label }),
            None => Err(format!("{}: the name does not end in a label", path.display()).into()),
        }
    }

    /// Reads the pixels. The size is checked first: a file that is too long is as wrong as one cut short.
    fn read_into(&self, pixels: &mut [u8; BYTES]) -> Result<(), BoxError> {
        let mut file = File::open(&self.path).map_err(in_file(&self.path))?;
        let size = file.metadata().map_err(in_file(&self.path))?.len();
        if size != BYTES as u64 {
            return Err(format!("{}: {size} bytes, but an image has {BYTES}", self.path.display()).into());
        }
        Ok(file.read_exact(pixels).map_err(in_file(&self.path))?)
    }
}

impl Rows for Folder {
    fn layout(&self) -> Result<Layout, LayoutError> {
        let image = Field::fixed::<f32>("image", [CHANNELS, SIDE, SIDE]);
        Layout::new([image, Field::fixed::<i64>("label", [])])
    }

    fn len(&self) -> usize {
        self.images.len()
    }

    fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        let image = &self.images[index];
        let mut pixels = [0; BYTES];
        image.read_into(&mut pixels)?;
        // The generator belongs to this image in this epoch, so whichever worker comes here flips alike.
        let flip = rng.below(2) == 1;
        convert(&pixels, flip, row.slice_mut("image")?);
        row.write("label", &[image.label])?;
        Ok(())
    }
}

/// From bytes, pixel by pixel, to numbers in [0, 1], channel by channel; mirrored if `flip`.
fn convert(pixels: &[u8; BYTES], flip: bool, image: &mut [f32]) {
    for (at, value) in image.iter_mut().enumerate() {
        let (channel, y, x) = (at / (SIDE * SIDE), at / SIDE % SIDE, at % SIDE);
        let x = if flip { SIDE - 1 - x } else { x };
        *value = f32::from(pixels[(y * SIDE + x) * CHANNELS + channel]) / 255.0;
    }
}

/// The errors of the file system do not say which file; this adds it.
fn in_file(path: &Path) -> impl FnOnce(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

fn main() -> Result<(), BoxError> {
    let folder = TemporaryFolder::new()?;
    write_images(&folder.0)?;

    let mut loader = Spec::rows(Folder::open(&folder.0)?)
        .batch_size(16)
        .shuffle(true)
        .seed(1)
        .workers(4)
        .on_failure(OnFailure::Skip)
        .epochs(EPOCHS)
        .build()?;
    for epoch in 0..EPOCHS {
        let seen = Seen::of(loader.epoch())?;
        println!("epoch {epoch}: {seen}");
        print_failures(&loader, epoch);
        print_gauges(&loader);
    }
    Ok(())
}

/// What an epoch amounts to: it stands in for training.
#[derive(Default)]
struct Seen {
    batches: usize,
    images: usize,
    sum: f64,
}

impl Seen {
    fn of(batches: impl Iterator<Item = Result<Batch, Error>>) -> Result<Self, BoxError> {
        let mut seen = Self::default();
        for batch in batches {
            let batch = batch?;
            seen.batches += 1;
            seen.images += batch.len();
            seen.sum += batch.slice::<f32>("image")?.iter().copied().map(f64::from).sum::<f64>();
        }
        Ok(seen)
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { batches, images, sum } = self;
        let mean = sum / (images * BYTES) as f64;
        write!(f, "{batches} batches, {images} images, mean {mean:.3}")
    }
}

/// The list grows from epoch to epoch, so this picks those of one.
fn print_failures(loader: &Loader<Batch>, epoch: u64) {
    for failure in loader.failures().failures.iter().filter(|failure| failure.epoch == epoch) {
        println!("  {failure}");
    }
}

/// A consumer that waits much and works little has too few workers, or too slow a disk.
fn print_gauges(loader: &Loader<Batch>) {
    let consumer = loader.gauges().consumer;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "  so far: waited {:.1} ms for batches, worked {:.1} ms on them; {} of {} were ready when asked for",
        ms(consumer.waiting),
        ms(consumer.busy),
        consumer.batches_ready,
        consumer.batches
    );
}

/// A folder that is gone when the example ends, also when it ends with an error.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Result<Self, BoxError> {
        let path = std::env::temp_dir().join(format!("feedline-custom-dataset-{}", std::process::id()));
        fs::create_dir(&path).map_err(in_file(&path))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Nothing can be done about a folder that will not go.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes images of ten labels, one of them cut short.
fn write_images(folder: &Path) -> Result<(), BoxError> {
    for number in 0..IMAGES {
        let path = folder.join(format!("image_{number:03}_label_{}.raw", number % 10));
        let pixels: Vec<u8> = (0..BYTES).map(|at| ((at + number) % 256) as u8).collect();
        let kept = if number == BROKEN { 1000 } else { BYTES };
        fs::write(&path, &pixels[..kept]).map_err(in_file(&path))?;
    }
    Ok(())
}
