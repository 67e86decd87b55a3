//! Page-aligned memory for batches: private to this process, or shared with worker processes.
//!
//! A shared arena is one anonymous file (memfd): it has a single descriptor however many slabs there are,
//! does not depend on the size of `/dev/shm`, and vanishes with the last process that holds it. A slab's
//! place in that file never changes and is never given to another slab, so a worker process that has mapped
//! it once can fill it again and again.
//!
//! This file, [`crate::tray`] and [`crate::row`] are the only ones with `unsafe`.

use std::{
    io,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::{NonNull, null_mut},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use rustix::{
    fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create},
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap},
};

use crate::sync::{Arc, Mutex, lock};

/// Slabs from this size on ask for huge pages: fewer page faults when they are first filled.
const HUGE: usize = 4 << 20;

/// The longest that a huge page may take. Some virtual machines give those that nobody uses back to their host, and to
/// have them again takes longer than to have as many small ones.
const QUICK: Duration = Duration::from_micros(500);

/// Where slabs come from.
#[derive(Debug)]
pub struct Arena {
    shared: Option<Shared>,
    /// Whether huge pages were found to take too long.
    small: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    file: OwnedFd,
    /// Where the next slab goes. Places are not used twice: there are 2^63 of them.
    end: Mutex<u64>,
}

impl Arena {
    /// Memory of this process alone.
    pub fn private() -> Arc<Self> {
        Arc::new(Self { shared: None, small: AtomicBool::new(false) })
    }

    /// Memory that other processes can map from [`Arena::file`].
    pub fn shared() -> io::Result<Arc<Self>> {
        let file = memfd_create("feedline", MemfdFlags::CLOEXEC)?;
        let shared = Some(Shared { file, end: Mutex::new(0) });
        Ok(Arc::new(Self { shared, small: AtomicBool::new(false) }))
    }

    /// The file behind shared memory.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.shared.as_ref().map(|shared| shared.file.as_fd())
    }

    /// A new slab of at least `len` bytes, all zero.
    pub fn slab(self: &Arc<Self>, len: usize) -> io::Result<Slab> {
        let page = rustix::param::page_size();
        let len = len.max(1).checked_next_multiple_of(page).ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (start, offset) = match &self.shared {
            None => {
                // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no other memory.
                let start = unsafe { mmap_anonymous(null_mut(), len, access, MapFlags::PRIVATE) }?;
                (start, None)
            }
            Some(shared) => {
                let offset = shared.extend(len)?;
                // SAFETY: as above; the file has been made long enough, so no access can fault.
                let start = unsafe { mmap(null_mut(), len, access, MapFlags::SHARED, &shared.file, offset) }?;
                (start, Some(offset))
            }
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let slab = Slab { start, len, offset, arena: Arc::clone(self) };
        if len >= HUGE && !self.small.load(Relaxed) && !slab.has_quick_huge_pages() {
            self.small.store(true, Relaxed);
        }
        Ok(slab)
    }
}

impl Shared {
    fn extend(&self, len: usize) -> io::Result<u64> {
        let mut end = lock(&self.end);
        let offset = *end;
        ftruncate(&self.file, offset + len as u64)?;
        *end = offset + len as u64;
        Ok(offset)
    }
}

/// One piece of memory; given back to the system when dropped.
#[derive(Debug)]
pub struct Slab {
    start: NonNull<u8>,
    len: usize,
    offset: Option<u64>,
    arena: Arc<Arena>,
}

// SAFETY: a slab owns its memory, as a `Box<[u8]>` does; access is governed by the methods below.
unsafe impl Send for Slab {}
// SAFETY: as above. Shared references give bytes only through `unsafe` methods that state their condition.
unsafe impl Sync for Slab {}

impl Slab {
    /// Asks for huge pages, unless the first takes too long. They are a wish: without them all works as well.
    fn has_quick_huge_pages(&self) -> bool {
        // SAFETY: the range is the slab's.
        let advise = |advice| unsafe { madvise(self.start.as_ptr().cast(), self.len, advice) };
        let _ = advise(Advice::LinuxHugepage);
        let began = Instant::now();
        // In the middle, because a slab need not begin where a huge page does.
        // SAFETY: the slab is new, and nobody else has it.
        unsafe { self.start.as_ptr().wrapping_add(self.len / 2).write_volatile(0) };
        let is_quick = began.elapsed() <= QUICK;
        if !is_quick {
            let _ = advise(Advice::LinuxNoHugepage);
        }
        is_quick
    }

    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty)] // A slab has at least one page.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Its place in the arena's file.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// The bytes of a range.
    ///
    /// # Safety
    /// Nobody may write to the range while the slice lives, in this process or another.
    pub unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        let (start, len) = self.part(range);
        // SAFETY: `part` has checked the bounds, the memory was zeroed by the kernel, and the caller vouches
        // that nobody writes to it.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// The bytes of a range, to be written.
    ///
    /// # Safety
    /// Nobody else may read or write the range while the slice lives, in this process or another.
    #[allow(clippy::mut_from_ref)] // Several workers fill disjoint ranges of one slab: that is its purpose.
    #[inline]
    pub unsafe fn bytes_mut(&self, range: Range<usize>) -> &mut [u8] {
        let (start, len) = self.part(range);
        // SAFETY: as in `bytes`, and the caller vouches that nobody else touches the range.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    #[inline]
    fn part(&self, range: Range<usize>) -> (*mut u8, usize) {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} is outside a slab of {}",
            self.len
        );
        // SAFETY: the start is within the mapping, as just checked.
        (unsafe { self.start.as_ptr().add(range.start) }, range.end - range.start)
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no slice of it can outlive `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        if let (Some(shared), Some(offset)) = (&self.arena.shared, self.offset) {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&shared.file, flags, offset, self.len as u64);
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn a_slab_is_aligned_zeroed_and_at_least_as_long_as_asked() {
        for arena in [Arena::private(), Arena::shared().unwrap()] {
            let slab = arena.slab(5000).unwrap();
            assert!(slab.len() >= 5000);
            // SAFETY: nobody else knows this slab.
            let bytes = unsafe { slab.bytes(0..slab.len()) };
            assert_eq!(bytes.as_ptr() as usize % rustix::param::page_size(), 0);
            assert!(bytes.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn what_is_written_to_shared_memory_is_seen_through_its_file() {
        let arena = Arena::shared().unwrap();
        let (first, second) = (arena.slab(10).unwrap(), arena.slab(10).unwrap());
        // SAFETY: nobody else knows these slabs.
        unsafe { second.bytes_mut(0..3) }.copy_from_slice(b"row");
        let mut read = [0; 3];
        rustix::io::pread(arena.file().unwrap(), &mut read, second.offset().unwrap()).unwrap();
        assert_eq!(&read, b"row");
        assert_ne!(first.offset(), second.offset());
    }

    #[test]
    fn a_dropped_shared_slab_gives_its_pages_back() {
        let arena = Arena::shared().unwrap();
        let slab = arena.slab(1 << 20).unwrap();
        // SAFETY: nobody else knows this slab.
        unsafe { slab.bytes_mut(0..1 << 20) }.fill(1);
        let blocks = || rustix::fs::fstat(arena.file().unwrap()).unwrap().st_blocks;
        assert!(blocks() >= 2048);
        drop(slab);
        assert_eq!(blocks(), 0);
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        assert!(Arena::private().slab(usize::MAX).is_err());
        assert!(Arena::private().slab(1 << 60).is_err());
    }

    #[test]
    #[should_panic(expected = "outside a slab")]
    fn bytes_outside_the_slab_cannot_be_reached() {
        let slab = Arena::private().slab(1).unwrap();
        // SAFETY: nobody else knows this slab.
        let _ = unsafe { slab.bytes(0..slab.len() + 1) };
    }
}
