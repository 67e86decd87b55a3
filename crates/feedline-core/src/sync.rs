//! The synchronisation the engine stands on, in one place so that the model checker can take its place.
//!
//! Built with `--cfg shuttle`, every lock, condition and thread is shuttle's, which runs the engine's tests
//! under thousands of schedules. Otherwise the locks are `parking_lot`'s: with tiny samples and more workers
//! than processors they move a quarter more rows than the standard library's.

pub(crate) use std::sync::Arc;
use std::{
    io,
    time::{Duration, Instant},
};

#[cfg(not(shuttle))]
mod imp {
    pub(crate) use std::thread::{Builder, JoinHandle};

    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }

    pub(crate) fn wait<'a, T>(condition: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condition.wait(&mut guard);
        guard
    }

    pub(crate) fn wait_for<'a, T>(
        condition: &Condvar,
        mut guard: MutexGuard<'a, T>,
        limit: super::Duration,
    ) -> MutexGuard<'a, T> {
        condition.wait_for(&mut guard, limit);
        guard
    }

    /// The moment now.
    pub(crate) fn now() -> super::Instant {
        super::Instant::now()
    }
}

#[cfg(shuttle)]
mod imp {
    use std::sync::{OnceLock, PoisonError};

    pub(crate) use shuttle::{
        sync::{Condvar, Mutex, MutexGuard},
        thread::{Builder, JoinHandle},
    };

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait_for<'a, T>(
        condition: &Condvar,
        guard: MutexGuard<'a, T>,
        limit: super::Duration,
    ) -> MutexGuard<'a, T> {
        condition.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Time stands still, so that a schedule can be repeated exactly.
    pub(crate) fn now() -> super::Instant {
        static START: OnceLock<super::Instant> = OnceLock::new();
        *START.get_or_init(super::Instant::now)
    }
}

pub(crate) use imp::{Condvar, JoinHandle, Mutex, MutexGuard, lock, now, wait, wait_for};

/// Starts a named thread.
pub(crate) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    imp::Builder::new().name(name).spawn(body)
}
