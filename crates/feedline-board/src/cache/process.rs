//! Who a process is, and whether it still lives.

use rustix::process::{Pid, getpid, test_kill_process};

/// A process: its number, and when it began, because numbers are given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// In ticks since the machine began; 0 if the system does not say.
    pub(crate) start: u64,
}

impl Process {
    /// The process that asks.
    pub(crate) fn this() -> Self {
        let pid = number();
        Self { pid, start: look(pid).map_or(0, |(_, start)| start) }
    }

    /// Whether it has not ended. One that nobody has buried yet has ended nevertheless. If in doubt, it lives.
    pub(crate) fn is_alive(self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid as i32) else { return false };
        if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
            return false;
        }
        match look(self.pid) {
            Some((state, start)) => !matches!(state, b'Z' | b'X') && (self.start == 0 || self.start == start),
            None => true,
        }
    }
}

/// The number of this process.
pub(crate) fn number() -> u32 {
    getpid().as_raw_nonzero().get() as u32
}

/// The state of a process and when it began. Its name, which may hold anything, stands in brackets before them.
fn look(pid: u32) -> Option<(u8, u64)> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = text.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = text[after..].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let state = *fields.next()?.first()?;
    let start = str::from_utf8(fields.nth(18)?).ok()?.parse().ok()?;
    Some((state, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_another_that_has_its_number() {
        let this = Process::this();
        assert!(this.start > 0);
        assert!(this.is_alive());
        assert!(!Process { start: this.start - 1, ..this }.is_alive());
        assert!(Process { start: 0, ..this }.is_alive());
    }

    #[test]
    fn a_process_that_has_ended_is_dead_before_and_after_its_parent_knows() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let process = Process { pid, start: look(pid).unwrap().1 };
        assert!(process.is_alive());
        drop(child.stdin.take());
        while process.is_alive() {
            std::thread::yield_now();
        }
        assert_eq!(look(pid).unwrap().0, b'Z');
        child.wait().unwrap();
        assert!(!process.is_alive());
    }
}
