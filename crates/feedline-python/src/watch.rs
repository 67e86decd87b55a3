//! A worker does not outlive the process that started it.

use pyo3::prelude::*;
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

/// Ends this process as soon as another has ended, whatever this one is doing then. Returns whether that could
/// be arranged.
#[pyfunction]
pub(crate) fn exit_with(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return false };
    let Ok(parent) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let watch = move || {
        let mut events = [PollFd::new(&parent, PollFlags::IN)];
        while poll(&mut events, None).is_err() {}
        // Not `exit`: that would run handlers and destructors of threads that are in the middle of something.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
    };
    std::thread::Builder::new().name("feedline-watch".into()).spawn(watch).is_ok()
}
