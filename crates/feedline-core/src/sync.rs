//! The synchronisation the engine stands on, in one place so that the model checker can take its place.
//!
//! Built with `--cfg shuttle`, every lock, condition and thread is shuttle's, which runs the engine's tests
//! under thousands of schedules; otherwise they are the standard library's.

pub(crate) use std::sync::Arc;

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::JoinHandle,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::JoinHandle,
};

use std::{
    io,
    time::{Duration, Instant},
};

/// Locks; a poisoned lock is taken all the same, because the engine catches every panic of foreign code
/// before it can cross a lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits for a signal.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits for a signal, at most as long as given.
pub(crate) fn wait_for<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    limit: Duration,
) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, limit).unwrap_or_else(std::sync::PoisonError::into_inner).0
}

/// Starts a named thread.
#[cfg(not(shuttle))]
pub(crate) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(body)
}

#[cfg(shuttle)]
pub(crate) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    shuttle::thread::Builder::new().name(name).spawn(body)
}

/// The moment now. Under shuttle time stands still, so that a schedule can be repeated exactly.
pub(crate) fn now() -> Instant {
    #[cfg(shuttle)]
    {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now)
    }
    #[cfg(not(shuttle))]
    Instant::now()
}
