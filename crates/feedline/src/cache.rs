//! Images that are kept between epochs: decoded and cut to size, before anything random happens to them.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{
            AtomicU8, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// States of a row in a file.
const NOTHING: u8 = 0;
const BEGUN: u8 = 1;
const KEPT: u8 = 2;

/// Rows of one length by the number of their sample, up to a number of bytes: then no more are added.
#[derive(Debug)]
pub struct Cache {
    row: usize,
    /// Rows that may still be added.
    room: AtomicUsize,
    store: Store,
}

#[derive(Debug)]
enum Store {
    Memory(Vec<OnceLock<Box<[u8]>>>),
    File { file: File, path: PathBuf, states: Vec<AtomicU8> },
}

impl Cache {
    /// For `samples` rows of `row` bytes each, in memory, or in a new file, which is removed in the end.
    pub fn new(samples: usize, row: usize, most_bytes: u64, path: Option<&Path>) -> io::Result<Self> {
        let store = match path {
            None => Store::Memory((0..samples).map(|_| OnceLock::new()).collect()),
            Some(path) => {
                let file = File::options().read(true).write(true).create_new(true).open(path)?;
                Store::File {
                    file,
                    path: path.into(),
                    states: (0..samples).map(|_| AtomicU8::new(NOTHING)).collect(),
                }
            }
        };
        let room = AtomicUsize::new(usize::try_from(most_bytes / row.max(1) as u64).unwrap_or(usize::MAX));
        Ok(Self { row, room, store })
    }

    /// A row that was kept; one from a file is read into `memory`.
    pub fn get<'a>(&'a self, sample: usize, memory: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        match &self.store {
            Store::Memory(rows) => rows.get(sample)?.get().map(|row| &**row),
            Store::File { file, states, .. } => {
                if states.get(sample)?.load(Acquire) != KEPT {
                    return None;
                }
                memory.resize(self.row, 0);
                // A file that can no longer be read is as good as none: the sample is made again.
                file.read_exact_at(memory, (sample * self.row) as u64).ok()?;
                Some(memory)
            }
        }
    }

    /// Keeps a row, if there is room and nobody else has.
    pub fn put(&self, sample: usize, row: &[u8]) {
        debug_assert_eq!(row.len(), self.row, "rows have one length");
        let takes_room = || self.room.fetch_update(Relaxed, Relaxed, |room| room.checked_sub(1)).is_ok();
        match &self.store {
            Store::Memory(rows) => {
                let Some(place) = rows.get(sample) else { return };
                if place.get().is_none() && takes_room() && place.set(row.into()).is_err() {
                    // Another thread was faster.
                    self.room.fetch_add(1, Relaxed);
                }
            }
            Store::File { file, states, .. } => {
                let Some(state) = states.get(sample) else { return };
                if state.load(Relaxed) == NOTHING
                    && takes_room()
                    && state.compare_exchange(NOTHING, BEGUN, Relaxed, Relaxed).is_ok()
                {
                    let written = file.write_all_at(row, (sample * self.row) as u64);
                    // A full disk ends it: what is there stays.
                    state.store(if written.is_ok() { KEPT } else { BEGUN }, Release);
                }
            }
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Store::File { path, .. } = &self.store {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_until_there_is_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        for file in [None, Some(path.as_path())] {
            let cache = Cache::new(5, 4, 11, file).unwrap();
            let mut memory = Vec::new();
            assert_eq!(cache.get(1, &mut memory), None);
            cache.put(1, &[1; 4]);
            cache.put(1, &[9; 4]);
            cache.put(3, &[3; 4]);
            cache.put(4, &[4; 4]);
            cache.put(7, &[7; 4]);
            assert_eq!(cache.get(1, &mut memory), Some(&[1; 4][..]));
            assert_eq!(cache.get(3, &mut memory), Some(&[3; 4][..]));
            assert_eq!(cache.get(4, &mut memory), None);
            assert_eq!(cache.get(7, &mut memory), None);
            if file.is_some() {
                assert!(Cache::new(5, 4, 11, file).is_err(), "a file that is there is not overwritten");
            }
        }
        assert!(!path.exists());
    }
}
