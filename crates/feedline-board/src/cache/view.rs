//! The entries as readers see them: a second mapping that cannot be written to.

use std::{io, os::fd::BorrowedFd, ptr::null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A part of a file, mapped to be read.
pub(crate) struct View {
    start: *const u8,
    len: usize,
}

// SAFETY: the mapping lives as long as the value and is only read.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// Maps so many bytes of a file from an offset on, both in whole pages.
    pub(crate) fn of(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe { mmap(null_mut(), len, ProtFlags::READ, flags, file, offset) }?;
        // SAFETY: the range was mapped just above. It is a wish.
        let _ = unsafe { madvise(start, len, Advice::LinuxDontDump) };
        Ok(Self { start: start.cast(), len })
    }

    /// The address of so many bytes at an offset from the beginning of the view, if they lie in it.
    pub(crate) fn at(&self, offset: usize, len: usize) -> Option<*const u8> {
        // SAFETY: the start is within the mapping, as the condition checks.
        (offset.checked_add(len)? <= self.len).then(|| unsafe { self.start.add(offset) })
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.start.cast_mut().cast(), self.len) };
    }
}
