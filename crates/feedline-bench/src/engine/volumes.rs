//! *volumes*: packed volumes of a folder, opened, read and decoded, against the least that must be done: the same streams, in
//! memory already, inflated by libdeflate into one buffer and forgotten, by as many threads.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use feedline::volumes::{Scratch, VolumeFile};
use libdeflater::Decompressor;

use crate::{
    Report, Row,
    engine::{Progress, delay::StudyError},
    row::{median, spread},
};

/// The settings of the study.
#[derive(Clone, Debug)]
pub struct Volumes {
    /// A folder of volumes, packed by gzip.
    pub root: PathBuf,
    /// How often each is read.
    pub passes: usize,
    /// The numbers of threads.
    pub workers: Vec<usize>,
    /// How often everything is measured.
    pub repeats: usize,
}

impl Default for Volumes {
    fn default() -> Self {
        Self { root: PathBuf::new(), passes: 3, workers: vec![2], repeats: 5 }
    }
}

/// A packed stream, and how many bytes come out of it.
struct Stream {
    path: PathBuf,
    packed: Vec<u8>,
    bytes: usize,
}

impl Volumes {
    /// Measures both, with every number of threads, `repeats` times in turn.
    pub fn run(&self, progress: &mut Progress<'_>) -> Result<Report, StudyError> {
        let mut streams = Vec::new();
        list(&self.root, &mut streams)?;
        if streams.is_empty() {
            let text = format!("{} has no volumes packed by gzip", self.root.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text).into());
        }
        let mut measured = vec![(Vec::new(), Vec::new()); self.workers.len()];
        let total = (2 * self.workers.len() * self.repeats) as f64;
        for repeat in 0..self.repeats {
            for (at, workers) in self.workers.iter().enumerate() {
                let done = (2 * (repeat * self.workers.len() + at)) as f64;
                progress(&format!("libdeflate, {workers} threads"), done / total);
                measured[at].0.push(self.timed(&streams, *workers, inflate)?);
                progress(&format!("feedline, {workers} threads"), (done + 1.0) / total);
                measured[at].1.push(self.timed(&streams, *workers, read)?);
            }
        }
        progress("volumes", 1.0);
        let bytes: usize = streams.iter().map(|stream| stream.bytes).sum();
        let rows = self.workers.iter().zip(&measured).flat_map(|(workers, (least, ours))| {
            let row = |loader: &str, times: &[Duration]| {
                let count = (self.passes * streams.len()) as f64;
                let repeats: Vec<f64> = times.iter().map(|time| count / time.as_secs_f64()).collect();
                let items_per_second = median(&repeats);
                let megabytes = items_per_second * bytes as f64 / streams.len() as f64 / 1e6;
                Row {
                    loader: loader.to_owned(),
                    workers: *workers,
                    items_per_second,
                    spread: spread(&repeats),
                    first_batch: 0.0,
                    ideal: None,
                    repeats,
                    extra: vec![("MB/s".to_owned(), megabytes)],
                }
            };
            let least = row("inflated from memory", least);
            let ideal = Some(least.items_per_second);
            [least, Row { ideal, ..row("feedline", ours) }]
        });
        let rows = rows.collect();
        let settings = format!(
            "{} volumes of {} MB together, {} passes, {} repeats",
            streams.len(),
            bytes / 1_000_000,
            self.passes,
            self.repeats
        );
        Ok(Report::new("volumes", settings, rows))
    }

    /// The time in which threads do something with all volumes, each with memory of its own that it uses again.
    fn timed(
        &self,
        streams: &[Stream],
        threads: usize,
        one: impl Fn(&Stream, &mut Desk) -> io::Result<()> + Sync,
    ) -> io::Result<Duration> {
        let (next, began) = (AtomicUsize::new(0), Instant::now());
        let work = || -> io::Result<()> {
            let mut desk = Desk::default();
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= self.passes * streams.len() {
                    return Ok(());
                }
                one(&streams[number % streams.len()], &mut desk)?;
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
        })?;
        Ok(began.elapsed())
    }
}

/// What a thread keeps.
#[derive(Default)]
struct Desk {
    inflater: Decompressor,
    scratch: Scratch,
    row: Vec<u8>,
}

fn room(row: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if row.len() < bytes {
        row.resize(bytes, 0);
    }
    &mut row[..bytes]
}

fn inflate(stream: &Stream, desk: &mut Desk) -> io::Result<()> {
    let row = room(&mut desk.row, stream.bytes);
    desk.inflater.gzip_decompress(&stream.packed, row).map(drop).map_err(io::Error::other)
}

fn read(stream: &Stream, desk: &mut Desk) -> io::Result<()> {
    let file = VolumeFile::open(&stream.path, false).map_err(io::Error::other)?;
    let row = room(&mut desk.row, file.header().bytes());
    file.read_into(&mut desk.scratch, row).map_err(io::Error::other)
}

/// The streams of volumes in this folder and those inside, in the order of their names.
fn list(folder: &Path, streams: &mut Vec<Stream>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        let name = path.to_string_lossy();
        if path.is_dir() {
            list(&path, streams)?;
        } else if [".nrrd", ".nii.gz"].iter().any(|ending| name.ends_with(ending)) {
            let mut packed = fs::read(&path)?;
            // Behind the empty line at the end of an NRRD header, or at once.
            let begin = packed.windows(4).position(|bytes| bytes == [b'\n', b'\n', 0x1f, 0x8b]);
            if let Some(begin) = begin {
                packed.drain(..begin + 2);
            }
            // A stream ends with its length, once unpacked.
            if let (true, Some(length)) = (packed.starts_with(&[0x1f, 0x8b]), packed.last_chunk()) {
                let bytes = u32::from_le_bytes(*length) as usize;
                streams.push(Stream { path, packed, bytes });
            }
        }
    }
    Ok(())
}
