//! Looks at the memory of a process and its descendants while they work, at accelerators, and at who else used the
//! processors.

use std::{
    fs,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    gpu::{Gpus, Look, Watch},
    median,
    request::Memory,
};

/// Looking at a process's memory makes the kernel walk through it; so there is this long between two looks at least, and
/// one part in so many of the time may be spent on them.
const BETWEEN: Duration = Duration::from_millis(250);
const SHARE: u32 = 200;

/// A thread that looks at a process tree now and then, and when it is asked to.
pub(crate) struct Monitor {
    asks: Sender<Ask>,
    looks: JoinHandle<Seen>,
}

enum Ask {
    /// What was seen so far does not count.
    Forget,
    /// Look now; the other end hears of it by losing this one.
    Look(Sender<()>),
}

/// What it has seen.
#[derive(Default)]
struct Seen {
    memory: Vec<f64>,
    gpus: Option<Gpus>,
    looking: Duration,
    total: Duration,
}

impl Monitor {
    pub(crate) fn start(root: u32) -> Self {
        let (asks, asked) = channel();
        Self { asks, looks: thread::spawn(move || watch(root, &asked)) }
    }

    /// Only what is seen from now on counts: the process has got ready, and begins what it was asked for.
    pub(crate) fn forget(&self) {
        // It cannot have ended before it was told to.
        let _ = self.asks.send(Ask::Forget);
    }

    /// Looks now, and returns when that is done. A brief run may have ended before its first look otherwise.
    pub(crate) fn look(&self) {
        let (done, is_done) = channel();
        let _ = self.asks.send(Ask::Look(done));
        // Nothing is ever sent: what is waited for is the end of the other end.
        let _ = is_done.recv();
    }

    pub(crate) fn stop(self) -> Memory {
        drop(self.asks);
        let seen = self.looks.join().unwrap_or_default();
        Memory {
            peak_mb: seen.memory.iter().copied().fold(0.0, f64::max),
            median_mb: median(&seen.memory),
            monitor: seen.looking.as_secs_f64() / seen.total.as_secs_f64().max(1e-9),
            gpus: seen.gpus,
        }
    }
}

fn watch(root: u32, asked: &Receiver<Ask>) -> Seen {
    let gpu = Watch::find();
    let (mut start, mut seen, mut gpus) = (Instant::now(), Seen::default(), Vec::<Look>::new());
    let (mut rest, mut cost) = (BETWEEN, Cost::default());
    loop {
        match asked.recv_timeout(rest) {
            Ok(Ask::Forget) => {
                (start, seen, rest) = (Instant::now(), Seen::default(), BETWEEN);
                gpus.clear();
            }
            // The process waits, so what this costs is nobody's.
            Ok(Ask::Look(_done)) => seen.memory.push(tree(root).into_iter().map(pss_mb).sum()),
            Err(RecvTimeoutError::Timeout) => {
                let began = processor_time();
                let spent = || processor_time().saturating_sub(began);
                let processes = tree(root);
                let resident = processes.iter().copied().map(resident_mb).sum();
                gpus.extend(gpu.as_ref().map(Watch::look));
                if cost.wait(seen.looking + spent(), resident, start.elapsed()).is_zero() {
                    seen.memory.push(processes.into_iter().map(pss_mb).sum());
                    cost.learn(spent(), resident);
                }
                seen.looking += spent();
                rest = BETWEEN.max(cost.wait(seen.looking, resident, start.elapsed()));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    seen.total = start.elapsed();
    seen.gpus = gpu.map(|gpu| gpu.summary(&gpus));
    seen
}

/// What a look takes: longer, the more memory there is to walk through.
#[derive(Default)]
struct Cost {
    second_per_mb: f64,
}

impl Cost {
    fn learn(&mut self, took: Duration, resident_mb: f64) {
        self.second_per_mb = took.as_secs_f64() / resident_mb.max(1.0);
    }

    /// How long to wait until one more look is within its share of the time, after so much was spent on others.
    fn wait(&self, spent: Duration, resident_mb: f64, elapsed: Duration) -> Duration {
        let next = Duration::from_secs_f64(self.second_per_mb * resident_mb);
        ((spent + next) * SHARE).saturating_sub(elapsed)
    }
}

/// How long a processor has been busy with this thread.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A process and its descendants.
fn tree(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in the middle may hold anything but ends with the last bracket.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found
}

/// The pages of a process, shared ones with each that has them: dear to split, cheap to count.
fn resident_mb(pid: u32) -> f64 {
    let counts = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = counts.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0);
    pages * rustix::param::page_size() as f64 / f64::from(1 << 20)
}

fn pss_mb(pid: u32) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// The processors' time at one moment.
pub(crate) struct Processors {
    at: Instant,
    busy: f64,
}

impl Processors {
    pub(crate) fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        // user, nice, system, idle, waiting, interrupts (2), stolen: all but the two that are not busy.
        let busy: f64 =
            ticks.iter().take(8).enumerate().filter(|(at, _)| *at != 3 && *at != 4).map(|(_, t)| t).sum();
        Self { at: Instant::now(), busy: busy / rustix::param::clock_ticks_per_second() as f64 }
    }

    /// The share of all processors that was not used by those who used so many seconds.
    pub(crate) fn foreign_since(&self, used: f64) -> f64 {
        let now = Self::read();
        let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
        let all = (now.at - self.at).as_secs_f64() * processors;
        ((now.busy - self.busy - used) / all).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_is_the_root_of_its_tree() {
        let own = std::process::id();
        assert_eq!(tree(own)[0], own);
        assert!(pss_mb(own) > 0.1);
        assert!(resident_mb(own) >= pss_mb(own));
        assert_eq!((pss_mb(u32::MAX), resident_mb(u32::MAX)), (0.0, 0.0));
    }

    #[test]
    fn looks_stay_within_their_share_of_the_time() {
        let seconds = Duration::from_secs_f64;
        let mut cost = Cost::default();
        assert_eq!(cost.wait(seconds(0.0), 100.0, seconds(0.25)), Duration::ZERO, "nothing is known yet");
        cost.learn(seconds(0.002), 100.0);
        // Eight more processes were started since: 18 ms, which are one part of 3.6 s.
        assert_eq!(cost.wait(seconds(0.0), 900.0, seconds(0.25)), seconds(3.35));
        assert_eq!(cost.wait(seconds(0.0), 900.0, seconds(3.6)), Duration::ZERO);
        assert_eq!(cost.wait(seconds(0.018), 900.0, seconds(3.6)), seconds(3.6));
    }

    #[test]
    fn a_look_that_is_asked_for_is_seen_however_brief_the_run() {
        let monitor = Monitor::start(std::process::id());
        monitor.look();
        let memory = monitor.stop();
        assert!(memory.peak_mb > 0.1 && memory.median_mb > 0.1, "{memory:?}");
    }

    #[test]
    fn what_was_seen_before_the_beginning_does_not_count_nor_what_looks_cost_that_were_asked_for() {
        let seen = |asks: Vec<Ask>| {
            let (send, asked) = channel();
            for ask in asks {
                send.send(ask).unwrap();
            }
            drop(send);
            watch(std::process::id(), &asked)
        };
        let look = || Ask::Look(channel().0);
        assert_eq!(seen(vec![look(), Ask::Forget]).memory.len(), 0);
        let after = seen(vec![look(), look(), Ask::Forget, look()]);
        assert_eq!((after.memory.len(), after.looking), (1, Duration::ZERO));
    }
}
