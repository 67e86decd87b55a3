//! Memory that all processes of a loader share: one anonymous file, mapped whole.
//!
//! The file is far longer than it will ever be used, which costs nothing: the system gives it pages as they
//! are touched. So an offset means the same in every process, for ever, and a worker can take fresh memory
//! by itself, with one atomic addition. Memory comes back only through the process that made the commons.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::null_mut,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use rustix::{
    fs::{MemfdFlags, fstat, ftruncate, memfd_create},
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap},
};

/// The unit in which memory is given out.
pub(crate) const PAGE: usize = 4096;

/// Lengths to try for the file: the first is enough for any machine, the others for one with limits set.
const LENGTHS: [u64; 4] = [1 << 38, 1 << 36, 1 << 34, 1 << 31];

/// Says that a file is one of ours.
const MAGIC: u64 = u64::from_le_bytes(*b"feedline");

/// Some pages of the commons. Never empty: the first page is the commons' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    page: u32,
    pages: u32,
}

impl Extent {
    /// As one word, which is never 0.
    pub fn pack(self) -> u64 {
        (u64::from(self.page) << 32) | u64::from(self.pages)
    }

    /// From one word; `None` from 0.
    pub fn unpack(word: u64) -> Option<Self> {
        (word != 0).then_some(Self { page: (word >> 32) as u32, pages: word as u32 })
    }

    /// Where it begins.
    pub fn offset(self) -> u64 {
        u64::from(self.page) * PAGE as u64
    }

    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty)] // An extent has at least one page.
    pub fn len(self) -> usize {
        self.pages as usize * PAGE
    }

    /// The extent that [`Commons::fresh`] gave for so many bytes at this offset.
    pub fn of(offset: u64, bytes: usize) -> Option<Self> {
        let page = u32::try_from(offset / PAGE as u64).ok()?;
        Some(Self { page, pages: class(bytes)? })
    }
}

/// How many pages to take for so many bytes: a little more than needed, so that batches of about the same
/// size can use each other's memory.
fn class(bytes: usize) -> Option<u32> {
    let pages = bytes.max(1).div_ceil(PAGE);
    let step = 1 << pages.ilog2().saturating_sub(3);
    u32::try_from(pages.next_multiple_of(step)).ok()
}

/// What stands in the first page.
#[repr(C)]
struct Head {
    magic: AtomicU64,
    pages: AtomicU64,
    /// The first page that has not been given out.
    end: AtomicU64,
}

/// The shared memory of a loader.
pub struct Commons {
    start: *mut u8,
    len: usize,
    file: OwnedFd,
    /// Extents that came back, by their number of pages; the last used first, because it is in the caches.
    free: Mutex<BTreeMap<u32, Vec<Extent>>>,
}

// SAFETY: the mapping lives as long as the value, and all access to it goes through atomics or through
// `unsafe` methods that state their condition.
unsafe impl Send for Commons {}
// SAFETY: as above.
unsafe impl Sync for Commons {}

impl Commons {
    /// New memory, empty.
    pub fn create() -> io::Result<Arc<Self>> {
        let file = memfd_create("feedline", MemfdFlags::CLOEXEC)?;
        let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
        for len in LENGTHS {
            match ftruncate(&file, len).map_err(io::Error::from).and_then(|()| Self::map(&file, len)) {
                Ok(start) => {
                    let commons = Self { start, len: len as usize, file, free: Mutex::default() };
                    let head = commons.head();
                    head.end.store(1, Relaxed);
                    head.pages.store(len / PAGE as u64, Relaxed);
                    head.magic.store(MAGIC, Relaxed);
                    return Ok(Arc::new(commons));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The memory behind a file that another process made.
    pub fn attach(file: OwnedFd) -> io::Result<Arc<Self>> {
        let len = fstat(&file)?.st_size as u64;
        if len < PAGE as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let commons = Self { start: Self::map(&file, len)?, len: len as usize, file, free: Mutex::default() };
        if commons.head().magic.load(Relaxed) != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Arc::new(commons))
    }

    fn map(file: &OwnedFd, len: u64) -> io::Result<*mut u8> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe { mmap(null_mut(), len as usize, access, flags, file, 0) }?;
        // SAFETY: the range was mapped just above. Both are wishes.
        let _ = unsafe { madvise(start, len as usize, Advice::LinuxDontDump) };
        Ok(start.cast())
    }

    fn head(&self) -> &Head {
        // SAFETY: the first page is ours, aligned, zeroed by the kernel, and holds only atomics.
        unsafe { &*self.start.cast() }
    }

    /// The file, for other processes to attach.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Memory that nobody has used, all zero, of at least so many bytes.
    pub fn fresh(&self, bytes: usize) -> io::Result<Extent> {
        let pages = class(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        let page = self.head().end.fetch_add(u64::from(pages), Relaxed);
        if (page + u64::from(pages)) * PAGE as u64 > self.len as u64 {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!("{bytes} bytes do not fit into what is left of {} bytes of shared memory", self.len),
            ));
        }
        Ok(Extent { page: page as u32, pages })
    }

    /// Memory of at least so many bytes; what was in it may still be there.
    pub fn take(&self, bytes: usize) -> io::Result<Extent> {
        let pages = class(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        // One that is up to twice as large will do: batches of changing size use each other's memory.
        let mut free = self.free.lock();
        let fitting = free.range_mut(pages..=pages.saturating_mul(2)).find_map(|(_, extents)| extents.pop());
        drop(free);
        match fitting {
            Some(extent) => Ok(extent),
            None => self.fresh(bytes),
        }
    }

    /// Gives an extent back for reuse. Nobody may use it any more.
    pub fn give(&self, extent: Extent) {
        self.free.lock().entry(extent.pages).or_default().push(extent);
    }

    /// Gives the pages of an extent back to the system, and forgets its place: for what only workers take, who
    /// cannot reuse anything. Nobody may use it any more.
    pub fn discard(&self, extent: Extent) {
        if let Some(start) = self.at(extent.offset(), extent.len()) {
            // SAFETY: the range lies in the mapping, and nobody uses it.
            let _ = unsafe { madvise(start.cast(), extent.len(), Advice::LinuxRemove) };
        }
    }

    /// Gives the pages behind all unused extents back to the system. They can still be taken.
    pub fn trim(&self) {
        for extent in self.free.lock().values().flatten() {
            self.discard(*extent);
        }
    }

    /// Bytes waiting for reuse.
    pub fn unused(&self) -> usize {
        self.free.lock().values().flatten().map(|extent| extent.len()).sum()
    }

    /// The address of so many bytes at an offset, if they lie in the memory.
    pub fn at(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(len)?;
        // SAFETY: the start is within the mapping, as the condition checks.
        (end <= self.len).then(|| unsafe { self.start.add(start) })
    }

    /// Bytes at an offset.
    ///
    /// # Safety
    /// Nobody may write to them while the slice lives, in this process or another.
    pub unsafe fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = self.at(offset, len)?;
        // SAFETY: the range lies in the mapping, and the caller vouches that nobody writes to it.
        Some(unsafe { std::slice::from_raw_parts(start, len) })
    }
}

impl Drop for Commons {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.start.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_writes_another_reads_at_the_same_offset() {
        let here = Commons::create().unwrap();
        let there = Commons::attach(here.file().try_clone_to_owned().unwrap()).unwrap();
        let extent = there.fresh(10_000).unwrap();
        let start = there.at(extent.offset(), 3).unwrap();
        // SAFETY: the extent is new, and nobody else has it.
        unsafe { start.copy_from_nonoverlapping(b"row".as_ptr(), 3) };
        // SAFETY: nobody writes to it any more.
        assert_eq!(unsafe { here.bytes(extent.offset(), 3) }.unwrap(), b"row");
        assert_ne!(here.fresh(1).unwrap(), extent);
    }

    #[test]
    fn memory_is_reused_among_batches_of_about_the_same_size() {
        let commons = Commons::create().unwrap();
        let first = commons.take(154 << 20).unwrap();
        commons.give(first);
        assert_eq!(commons.take((154 << 20) - 5000).unwrap(), first);
        assert_ne!(commons.take(154 << 20).unwrap(), first);
        assert_eq!(Extent::of(first.offset(), 154 << 20).unwrap(), first);
        assert_eq!(Extent::unpack(first.pack()).unwrap(), first);
    }

    #[test]
    fn trimmed_memory_is_zero_again_and_still_usable() {
        let commons = Commons::create().unwrap();
        let extent = commons.take(1 << 20).unwrap();
        let start = commons.at(extent.offset(), extent.len()).unwrap();
        // SAFETY: the extent is ours.
        unsafe { start.write_bytes(7, extent.len()) };
        let blocks = || fstat(commons.file()).unwrap().st_blocks;
        let full = blocks();
        commons.give(extent);
        commons.trim();
        assert!(blocks() + 2048 <= full);
        assert_eq!(commons.take(1 << 20).unwrap(), extent);
        // SAFETY: the extent is ours.
        assert_eq!(unsafe { *start }, 0);
    }

    #[test]
    fn offsets_outside_are_refused() {
        let commons = Commons::create().unwrap();
        assert!(commons.at(u64::MAX, 1).is_none());
        assert!(commons.at(commons.len as u64 - 1, 2).is_none());
        assert!(commons.fresh(usize::MAX).is_err());
        assert!(Commons::attach(memfd_create("other", MemfdFlags::CLOEXEC).unwrap()).is_err());
    }
}
