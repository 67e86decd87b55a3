//! A lock in shared memory whose owner may be killed.
//!
//! It is the robust mutex of POSIX: the kernel knows who owns it, and hands it to the next in line together with the
//! news that the owner has died. Words with process ids of our own would have to be polled for that.

use std::{cell::UnsafeCell, io, mem::MaybeUninit};

/// A lock, at its place in shared memory.
#[repr(C)]
pub(crate) struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex made for it is used by several threads and processes at once.
unsafe impl Sync for Lock {}

/// What its owner had been up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// It gave the lock back.
    Whole,
    /// It died with it: whatever it guards may be half done.
    Torn,
}

impl Lock {
    /// Makes the lock. Nobody else may know of it yet.
    pub(crate) fn make(&self) -> io::Result<()> {
        let mut kind = MaybeUninit::uninit();
        // SAFETY: it initialises what it is given.
        checked(unsafe { libc::pthread_mutexattr_init(kind.as_mut_ptr()) })?;
        // SAFETY: it was initialised just above.
        let mut kind = unsafe { kind.assume_init() };
        // SAFETY: it is initialised.
        checked(unsafe { libc::pthread_mutexattr_setpshared(&raw mut kind, libc::PTHREAD_PROCESS_SHARED) })?;
        // SAFETY: it is initialised.
        checked(unsafe { libc::pthread_mutexattr_setrobust(&raw mut kind, libc::PTHREAD_MUTEX_ROBUST) })?;
        // SAFETY: the place is ours alone, large enough and aligned.
        checked(unsafe { libc::pthread_mutex_init(self.0.get(), &raw const kind) })
    }

    /// Waits for the lock. Whoever finds it torn mends what it guards, says [`Lock::mended`], and then releases it.
    pub(crate) fn acquire(&self) -> Last {
        // SAFETY: the mutex was made when the memory was, and stays as long as it.
        match unsafe { libc::pthread_mutex_lock(self.0.get()) } {
            0 => Last::Whole,
            libc::EOWNERDEAD => Last::Torn,
            code => panic!("the lock of a shared cache is damaged: {}", io::Error::from_raw_os_error(code)),
        }
    }

    /// What the lock guards is whole again.
    pub(crate) fn mended(&self) {
        // SAFETY: the caller has acquired it.
        unsafe { libc::pthread_mutex_consistent(self.0.get()) };
    }

    /// Gives the lock back.
    ///
    /// # Safety
    /// This thread must have acquired it, and must not touch any more what it guards.
    pub(crate) unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

fn checked(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
