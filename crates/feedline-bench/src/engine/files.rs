//! *files*: images, cells or tensors from a folder, made into batches, against the least that must be done: images decoded
//! by libjpeg-turbo into one buffer and forgotten, the others read into one buffer and forgotten, by as many threads. One
//! buffer for each thread stays in its cache, batches do not: so arrays are also read into memory as large as one batch,
//! which is used over and over and was touched before the clock began.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use feedline::{
    Batch, Spec,
    cells::{Cells, Steps},
    files::{Listed, Reader},
    images::{ImageSpec, Images, Rect, codec::Codecs},
    tensors::Tensors,
};

use crate::{
    Report, Row,
    engine::{Measured, Progress, delay::StudyError, measure},
    row::{median, spread},
};

const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// The settings of the study.
#[derive(Clone, Debug)]
pub struct Files {
    /// A folder of images, of cells, or of arrays.
    pub root: PathBuf,
    /// Random crops and flips instead of the middle.
    pub train: bool,
    /// Samples in a batch.
    pub batch: usize,
    /// Batches in an epoch.
    pub batches: usize,
    /// The numbers of workers.
    pub workers: Vec<usize>,
    /// How often everything is measured.
    pub repeats: usize,
}

impl Default for Files {
    fn default() -> Self {
        Self { root: PathBuf::new(), train: false, batch: 64, batches: 50, workers: vec![2], repeats: 5 }
    }
}

/// What the files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Images,
    Cells,
    Arrays,
}

impl Kind {
    /// By the ending of a file's name.
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_lowercase().as_str() {
            "jpg" | "jpeg" | "png" => Some(Self::Images),
            "tif" | "tiff" => Some(Self::Cells),
            "npy" | "pt" => Some(Self::Arrays),
            _ => None,
        }
    }
}

impl Files {
    /// Measures both, with every number of workers, `repeats` times in turn.
    pub fn run(&self, progress: &mut Progress<'_>) -> Result<Report, StudyError> {
        let mut found = Vec::new();
        list(&self.root, &mut found)?;
        found.sort();
        let Some(kind) = found.first().and_then(|path| Kind::of(path)) else {
            let text = format!("{} has no .jpg, .png, .tif, .npy or .pt files", self.root.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text).into());
        };
        found.retain(|path| Kind::of(path) == Some(kind));
        // Over and over, until there are enough.
        let files: Vec<PathBuf> = found.iter().cycle().take(self.batch * self.batches).cloned().collect();
        let mut measured = vec![(Vec::new(), Vec::new(), Vec::new()); self.workers.len()];
        let total = (2 * self.workers.len() * self.repeats) as f64;
        for repeat in 0..self.repeats {
            for (at, workers) in self.workers.iter().enumerate() {
                let done = (2 * (repeat * self.workers.len() + at)) as f64;
                progress(&format!("the least, {workers} threads"), done / total);
                measured[at].0.push(least(&files, kind, &mut buffers(*workers, 1))?);
                if kind == Kind::Arrays {
                    let mut batch = buffers(*workers, self.batch.div_ceil((*workers).max(1)));
                    // Twice, so that threads that read more than their share have touched theirs as well.
                    least(&files[..files.len().min(2 * self.batch)], kind, &mut batch)?;
                    measured[at].2.push(least(&files, kind, &mut batch)?);
                }
                progress(&format!("feedline, {workers} workers"), (done + 1.0) / total);
                measured[at].1.push(self.one(&files, kind, *workers)?);
            }
        }
        progress("files", 1.0);
        let rows = self.workers.iter().zip(&measured).flat_map(|(workers, (least, ours, batches))| {
            let count = files.len() as f64;
            let rates =
                |times: &[Duration]| times.iter().map(|time| count / time.as_secs_f64()).collect::<Vec<_>>();
            let what = if kind == Kind::Images { "decoded into one buffer" } else { "read into one buffer" };
            let least = Row { loader: what.to_owned(), ..row(*workers, rates(least), Vec::new()) };
            let batches = (!batches.is_empty()).then(|| Row {
                loader: "read into one batch".to_owned(),
                ..row(*workers, rates(batches), Vec::new())
            });
            let first = ours.iter().map(|one| one.first_batch.as_secs_f64()).collect();
            let ours = ours.iter().map(|one| count / one.total.as_secs_f64()).collect();
            let ideal = Some(least.items_per_second);
            let ours = Row { loader: "feedline".to_owned(), ideal, ..row(*workers, ours, first) };
            [Some(least), batches, Some(ours)].into_iter().flatten()
        });
        let kind = match kind {
            Kind::Arrays => "arrays",
            Kind::Cells => "cells",
            Kind::Images if self.train => "images, training",
            Kind::Images => "images, inference",
        };
        let settings =
            format!("{kind}: {} files, batch {}, {} repeats", found.len(), self.batch, self.repeats);
        Ok(Report::new("files", settings, rows.collect()))
    }

    fn one(&self, files: &[PathBuf], kind: Kind, workers: usize) -> Result<Measured, StudyError> {
        let files = Listed::new(files.iter().collect(), Vec::new()).map_err(io::Error::other)?;
        match kind {
            Kind::Arrays => {
                let tensors = Tensors::files(files, None).map_err(io::Error::other)?;
                self.epoch(Spec::rows(tensors), workers)
            }
            Kind::Cells => {
                let cells = Cells::new(files, Steps::default()).map_err(io::Error::other)?;
                self.epoch(Spec::rows(cells), workers)
            }
            Kind::Images => self.images(files, workers),
        }
    }

    fn images(&self, files: Listed, workers: usize) -> Result<Measured, StudyError> {
        let cut = |images: ImageSpec| {
            if self.train {
                images.random_resized_crop(224, 224).random_mirror()
            } else {
                images.resize(256).centre_crop(224, 224)
            }
        };
        let images = cut(Images::files(files)).normalise(MEAN, STD).build().map_err(io::Error::other)?;
        self.epoch(Spec::rows(images), workers)
    }

    fn epoch(&self, spec: Spec<Batch>, workers: usize) -> Result<Measured, StudyError> {
        let mut loader = spec.batch_size(self.batch).workers(workers).epochs(1).build()?;
        Ok(measure(&mut loader, self.batches, |_| {})?)
    }
}

fn row(workers: usize, repeats: Vec<f64>, first: Vec<f64>) -> Row {
    Row {
        loader: String::new(),
        workers,
        items_per_second: median(&repeats),
        spread: spread(&repeats),
        first_batch: median(&first),
        ideal: None,
        repeats,
        extra: Vec::new(),
    }
}

/// Files of a kind that is known, in this folder and those inside.
fn list(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, found)?;
        } else if Kind::of(&path).is_some() {
            found.push(path);
        }
    }
    Ok(())
}

/// So many buffers for each thread.
fn buffers(threads: usize, each: usize) -> Vec<Vec<Reader>> {
    (0..threads.max(1)).map(|_| (0..each).map(|_| Reader::default()).collect()).collect()
}

/// The time in which threads read or decode all files, each into its buffers in turn.
fn least(files: &[PathBuf], kind: Kind, threads: &mut [Vec<Reader>]) -> io::Result<Duration> {
    let (next, began) = (AtomicUsize::new(0), Instant::now());
    let work = |buffers: &mut Vec<Reader>| -> io::Result<()> {
        let (mut codecs, mut pixels) = (Codecs::of_library(), Vec::new());
        let mut turn = 0;
        while let Some(path) = files.get(next.fetch_add(1, Relaxed)) {
            turn = (turn + 1) % buffers.len();
            let bytes = buffers[turn].read(path)?;
            if kind == Kind::Images {
                let opened = codecs.open(bytes).map_err(io::Error::other)?;
                let (width, height) = opened.size();
                let whole = Rect { x: 0, y: 0, width, height };
                codecs.decode(bytes, &opened, whole, &mut pixels).map_err(io::Error::other)?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = threads.iter_mut().map(|buffers| scope.spawn(|| work(buffers))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    Ok(began.elapsed())
}
