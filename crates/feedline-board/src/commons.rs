//! Memory that all processes of a loader share: one anonymous file, mapped whole.
//!
//! The file is far longer than it will ever be used, which costs nothing: the system gives it pages as they
//! are touched. So an offset means the same in every process, for ever, and a worker can take fresh memory
//! by itself, with one atomic addition. Memory comes back only through the process that made the commons.
//!
//! What has come back is kept for reuse; but pages that were not needed for a while go back to the system.
//!
//! Where only threads fill batches, the memory is private: to touch it for the first time, which takes longer than
//! to fill it, takes half as long as of shared memory, and a tenth where there are huge pages. But some virtual
//! machines give huge pages that nobody uses back to their host, and to have them again takes longest of all. So
//! the first one is timed.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::null_mut,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::{
    fs::{MemfdFlags, fstat, ftruncate, memfd_create},
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap},
};

/// The unit in which memory is given out.
pub(crate) const PAGE: usize = 4096;

/// The pages of a huge page.
const HUGE: u64 = 512;

/// Private memory of so many pages asks for huge ones; of less, the rest of the last one would count.
const LARGE: u32 = 2 * HUGE as u32;

/// The longest that a huge page may take: as many small ones take longer, and zeros are written in a third of that.
const QUICK: Duration = Duration::from_micros(500);

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

    /// What [`Commons::fresh`] gives for so many bytes when nobody has taken anything yet.
    pub(crate) fn first(bytes: usize) -> Option<Self> {
        Self::of(PAGE as u64, bytes)
    }

    /// What it gives for so many bytes after this.
    pub(crate) fn next(self, bytes: usize) -> Option<Self> {
        Self::of(self.offset() + self.len() as u64, bytes)
    }

    /// Some pages of these.
    pub(crate) fn part(self, first: u32, pages: u32) -> Self {
        debug_assert!(u64::from(first) + u64::from(pages) <= u64::from(self.pages));
        Self { page: self.page + first, pages }
    }

    /// How many pages before it belong to another, and how many it has itself; `None` if it is no part of that.
    pub(crate) fn within(self, whole: Self) -> Option<(u32, u32)> {
        let first = self.page.checked_sub(whole.page)?;
        (u64::from(first) + u64::from(self.pages) <= u64::from(whole.pages)).then_some((first, self.pages))
    }
}

/// How many pages to take for so many bytes: a little more than needed, so that batches of about the same
/// size can use each other's memory.
fn class(bytes: usize) -> Option<u32> {
    let pages = bytes.max(1).div_ceil(PAGE);
    let step = 1 << pages.ilog2().saturating_sub(3);
    u32::try_from(pages.next_multiple_of(step)).ok()
}

/// Tries a mapping with each of the lengths.
fn longest(map: impl Fn(u64) -> io::Result<*mut u8>) -> io::Result<(*mut u8, u64)> {
    let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
    for len in LENGTHS {
        match map(len) {
            Ok(start) => return Ok((start, len)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What stands in the first page.
#[repr(C)]
struct Head {
    magic: AtomicU64,
    pages: AtomicU64,
    /// The first page that has not been given out.
    end: AtomicU64,
}

/// So many extents of a size are taken before those of that size that were not needed lose their pages.
const PATIENCE: u32 = 64;

/// Extents of one size that came back.
#[derive(Default)]
struct Shelf {
    /// The last used is taken first, because it is in the caches.
    extents: Vec<Extent>,
    /// How many of the first ones have no pages.
    bare: usize,
    /// The fewest there were lately, and how often one was taken meanwhile.
    least: usize,
    taken: u32,
}

impl Shelf {
    fn pop(&mut self) -> Option<Extent> {
        let extent = self.extents.pop()?;
        self.bare = self.bare.min(self.extents.len());
        self.least = self.least.min(self.extents.len());
        self.taken += 1;
        Some(extent)
    }

    /// Those that have pages and were not needed lately.
    fn idle(&mut self) -> &[Extent] {
        if self.taken < PATIENCE {
            return &[];
        }
        let bare = self.bare;
        (self.bare, self.least, self.taken) = (bare.max(self.least), self.extents.len(), 0);
        &self.extents[bare..self.bare]
    }
}

/// The memory of a loader: shared with its workers, or private.
pub struct Commons {
    start: *mut u8,
    len: usize,
    /// None if it is private.
    file: Option<OwnedFd>,
    /// What came back, by its number of pages.
    free: Mutex<BTreeMap<u32, Shelf>>,
    /// Whether huge pages were found to take too long.
    small: AtomicBool,
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
        let map = |len| {
            ftruncate(&file, len)?;
            Self::map(&file, len)
        };
        let (start, len) = longest(map)?;
        Ok(Self::empty(start, len, Some(file)))
    }

    /// New memory that is not shared with other processes: one that is forked has a copy.
    pub fn private() -> io::Result<Arc<Self>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let map = |len| Ok(unsafe { mmap_anonymous(null_mut(), len as usize, access, flags) }?.cast());
        let (start, len) = longest(map)?;
        Ok(Self::empty(start, len, None))
    }

    fn empty(start: *mut u8, len: u64, file: Option<OwnedFd>) -> Arc<Self> {
        let commons =
            Self { start, len: len as usize, file, free: Mutex::default(), small: AtomicBool::new(false) };
        let head = commons.head();
        head.end.store(1, Relaxed);
        head.pages.store(len / PAGE as u64, Relaxed);
        head.magic.store(MAGIC, Relaxed);
        Arc::new(commons)
    }

    /// The memory behind a file that another process made.
    pub fn attach(file: OwnedFd) -> io::Result<Arc<Self>> {
        let len = fstat(&file)?.st_size as u64;
        if len < PAGE as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let start = Self::map(&file, len)?;
        let commons = Self {
            start,
            len: len as usize,
            file: Some(file),
            free: Mutex::default(),
            small: AtomicBool::new(false),
        };
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
        // SAFETY: the range was mapped just above. It is a wish.
        let _ = unsafe { madvise(start, len as usize, Advice::LinuxDontDump) };
        Ok(start.cast())
    }

    fn head(&self) -> &Head {
        // SAFETY: the first page is ours, aligned, zeroed by the kernel, and holds only atomics.
        unsafe { &*self.start.cast() }
    }

    /// The file, for other processes to attach; none if the memory is private.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// How long it is, used or not.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Memory that nobody has used, all zero, of at least so many bytes.
    pub fn fresh(&self, bytes: usize) -> io::Result<Extent> {
        let pages = class(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        let huge = self.file.is_none() && pages >= LARGE;
        let page =
            if huge { self.add_aligned(pages) } else { self.head().end.fetch_add(pages.into(), Relaxed) };
        if (page + u64::from(pages)) * PAGE as u64 > self.len as u64 {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!("{bytes} bytes do not fit into what is left of {} bytes of memory", self.len),
            ));
        }
        let extent = Extent { page: page as u32, pages };
        if huge {
            self.advise(extent);
        }
        Ok(extent)
    }

    /// Asks for huge pages, unless the first takes too long. It is a wish: without them all works as well.
    fn advise(&self, extent: Extent) {
        if self.small.load(Relaxed) {
            return;
        }
        let start = self.at(extent.offset(), extent.len()).expect("it was checked to lie in the commons");
        // SAFETY: the range lies in the mapping.
        let advise = |advice| unsafe { madvise(start.cast(), extent.len(), advice) };
        if advise(Advice::LinuxHugepage).is_err() {
            return;
        }
        let began = Instant::now();
        // SAFETY: the extent is new, and nobody else has it.
        unsafe { start.write_volatile(0) };
        if began.elapsed() > QUICK {
            let _ = advise(Advice::LinuxNoHugepage);
            self.small.store(true, Relaxed);
        }
    }

    /// Takes pages that begin where a huge page can: no two batches share one.
    fn add_aligned(&self, pages: u32) -> u64 {
        let before = (self.start as usize / PAGE) as u64;
        let begin = |end: u64| (before + end).next_multiple_of(HUGE) - before;
        let end = &self.head().end;
        let taken = end.fetch_update(Relaxed, Relaxed, |end| Some(begin(end) + u64::from(pages)));
        taken.map_or_else(begin, begin)
    }

    /// Memory of at least so many bytes; what was in it may still be there.
    pub fn take(&self, bytes: usize) -> io::Result<Extent> {
        let pages = class(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        // One that is up to twice as large will do: batches of changing size use each other's memory.
        let mut free = self.free.lock();
        let mut shelves = free.range_mut(pages..=pages.saturating_mul(2));
        let fitting = shelves.find_map(|(_, shelf)| shelf.pop().map(|extent| (extent, shelf)));
        match fitting {
            Some((extent, shelf)) => {
                for idle in shelf.idle() {
                    self.discard(*idle);
                }
                Ok(extent)
            }
            None => self.fresh(bytes),
        }
    }

    /// Gives an extent back for reuse. Nobody may use it any more.
    pub fn give(&self, extent: Extent) {
        self.free.lock().entry(extent.pages).or_default().extents.push(extent);
    }

    /// Gives the pages of an extent back to the system. Nobody may use it any more: who takes it next finds
    /// zeros, and what only workers take, who cannot reuse anything, is not taken again.
    pub fn discard(&self, extent: Extent) {
        let advice = if self.file.is_some() { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
        if let Some(start) = self.at(extent.offset(), extent.len()) {
            // SAFETY: the range lies in the mapping, and nobody uses it.
            let _ = unsafe { madvise(start.cast(), extent.len(), advice) };
        }
    }

    /// Bytes waiting for reuse, in pages that were not given back.
    pub fn unused(&self) -> usize {
        let free = self.free.lock();
        free.values().flat_map(|shelf| &shelf.extents[shelf.bare..]).map(|extent| extent.len()).sum()
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
        let there = Commons::attach(here.file().unwrap().try_clone_to_owned().unwrap()).unwrap();
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
    fn large_private_memory_begins_where_a_huge_page_can_and_belongs_to_one() {
        let commons = Commons::private().unwrap();
        let taken: Vec<_> = [1, 5 << 20, 9000, 154 << 20, (4 << 20) - 5000, 4 << 20]
            .map(|bytes| commons.fresh(bytes).unwrap())
            .into();
        let address = |extent: &Extent| commons.at(extent.offset(), extent.len()).unwrap() as u64;
        for extent in &taken {
            let is_aligned = address(extent).is_multiple_of(HUGE * PAGE as u64);
            assert!(is_aligned || extent.pages < LARGE, "{extent:?}");
        }
        assert!(taken.is_sorted_by(|one, next| one.offset() + one.len() as u64 <= next.offset()));
        // Shared memory has none, and its places follow from each other.
        let shared = Commons::create().unwrap();
        let first = shared.fresh(9000).unwrap();
        assert_eq!(Some(shared.fresh(5 << 20).unwrap()), first.next(5 << 20));
    }

    #[test]
    fn what_is_not_needed_for_a_while_goes_back_to_the_system_and_can_be_taken_again() {
        for commons in [Commons::create().unwrap(), Commons::private().unwrap()] {
            let extents: Vec<_> = (0..5).map(|_| commons.take(1 << 20).unwrap()).collect();
            let first = |extent: &Extent| commons.at(extent.offset(), extent.len()).unwrap();
            for extent in &extents {
                // SAFETY: the extent is ours.
                unsafe { first(extent).write_bytes(7, extent.len()) };
            }
            for extent in &extents {
                commons.give(*extent);
            }
            assert_eq!(commons.unused(), 5 << 20);
            for _ in 0..2 * PATIENCE {
                let two = [commons.take(1 << 20).unwrap(), commons.take(1 << 20).unwrap()];
                for extent in two {
                    commons.give(extent);
                }
            }
            assert_eq!(commons.unused(), 2 << 20);
            if let Some(file) = commons.file() {
                assert!(fstat(file).unwrap().st_blocks * 512 < 3 << 20);
            }
            // SAFETY: the extents are ours, or nobody's.
            let kept = extents.iter().filter(|extent| unsafe { *first(extent) } == 7);
            assert_eq!(kept.count(), 2);
            for _ in 0..5 {
                assert!(extents.contains(&commons.take(1 << 20).unwrap()));
            }
            assert_eq!(commons.unused(), 0);
        }
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
