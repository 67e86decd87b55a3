//! Waiting for a word in shared memory to change.

use std::{sync::atomic::AtomicU32, time::Duration};

use rustix::{
    io::Errno,
    thread::futex::{self, Flags, Timespec},
};

/// Sleeps while the word is `seen`, until it is woken, the time is over, or a signal arrives.
pub(crate) fn wait(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    match futex::wait(word, Flags::empty(), seen, Some(&limit)) {
        // Whatever the reason for waking up, the caller looks again at what it waits for.
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        // A system without futexes would make the caller spin; let it at least be polite.
        Err(_) => std::thread::yield_now(),
    }
}

/// Wakes up to `count` sleepers.
pub(crate) fn wake(word: &AtomicU32, count: u32) {
    let _ = futex::wake(word, Flags::empty(), count);
}
