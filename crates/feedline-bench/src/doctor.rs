//! What is unhealthy about a machine for data loading: each finding with what it means and what to do.
//!
//! What the system says is read once into [`Vitals`]; what that means is a pure function.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// Will cost time or memory.
    Warning,
    /// Will fail.
    Problem,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub about: String,
    /// What was found.
    pub text: String,
    /// What to do; empty if nothing needs to be done.
    #[serde(default)]
    pub remedy: String,
}

/// What the system says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vitals {
    /// Processors of the machine, and those this process may run on.
    pub processors: usize,
    /// The latter.
    pub allowed: usize,
    /// Processors that the control group grants.
    pub quota: Option<f64>,
    /// Memory of the machine in MiB, and what the control group grants.
    pub memory: u64,
    /// The latter.
    pub memory_limit: Option<u64>,
    /// Free memory in MiB.
    pub available: u64,
    /// Files that may be open.
    pub files: Option<u64>,
    /// The size of /dev/shm in MiB; none if it is not there.
    pub shm: Option<u64>,
    /// Whether the system promises no more memory than it has.
    pub strict_memory: bool,
    /// What `OMP_NUM_THREADS` says.
    pub omp_threads: Option<String>,
    /// The load average over the last minute.
    pub load: f64,
}

impl Vitals {
    /// Reads them; what cannot be read is left out.
    pub fn read() -> Self {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory = file("/proc/meminfo");
        let mib = |key: &str| {
            let line = memory.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
        };
        let group = cgroup(&file("/proc/self/cgroup"));
        let shm = rustix::fs::statvfs("/dev/shm").ok().map(|stat| (stat.f_blocks * stat.f_frsize) >> 20);
        Self {
            processors: file("/proc/cpuinfo").lines().filter(|line| line.starts_with("processor")).count(),
            allowed: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            quota: quota(&file(&format!("{group}/cpu.max"))),
            memory: mib("MemTotal:"),
            memory_limit: file(&format!("{group}/memory.max"))
                .trim()
                .parse::<u64>()
                .ok()
                .map(|bytes| bytes >> 20),
            available: mib("MemAvailable:"),
            files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            shm: shm.filter(|_| Path::new("/dev/shm").is_dir()),
            strict_memory: file("/proc/sys/vm/overcommit_memory").trim() == "2",
            omp_threads: std::env::var("OMP_NUM_THREADS").ok(),
            load: file("/proc/loadavg")
                .split_whitespace()
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or(0.0),
        }
    }
}

/// The folder of this process's control group.
fn cgroup(text: &str) -> String {
    let own = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    format!("/sys/fs/cgroup{}", own.trim_end_matches('/'))
}

/// Processors that `cpu.max` grants.
fn quota(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let (granted, period): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (period > 0.0).then_some(granted / period)
}

/// What is to be said about a machine.
pub fn examine(vitals: &Vitals) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |severity, about: &str, text: String, remedy: &str| {
        findings.push(Finding { severity, about: about.to_owned(), text, remedy: remedy.to_owned() });
    };
    let usable = vitals.quota.map_or(vitals.allowed as f64, |quota| quota.min(vitals.allowed as f64));
    if usable + 0.01 < vitals.processors as f64 {
        find(
            Severity::Warning,
            "processors",
            format!("{usable:.1} of {} processors may be used", vitals.processors),
            "choose num_workers by what may be used, not by os.cpu_count(); or raise the container's limit",
        );
    } else {
        find(Severity::Good, "processors", format!("all {} may be used", vitals.processors), "");
    }
    if vitals.load > 0.5 * usable {
        find(
            Severity::Note,
            "load",
            format!("{:.1} processors are busy already", vitals.load),
            "measure when the machine is quiet",
        );
    }
    if let Some(limit) = vitals.memory_limit.filter(|limit| *limit < vitals.memory) {
        find(
            Severity::Note,
            "memory",
            format!("{limit} of {} MiB may be used", vitals.memory),
            "workers count too: what a sample takes, times num_workers, and the batches ahead",
        );
    }
    if vitals.available < 2048 {
        find(
            Severity::Warning,
            "memory",
            format!("only {} MiB are free", vitals.available),
            "use fewer workers, smaller batches or threads (workers=\"thread\")",
        );
    }
    if vitals.strict_memory {
        find(
            Severity::Note,
            "memory",
            "the system promises no more memory than it has (vm.overcommit_memory = 2)".to_owned(),
            "forked workers may be refused; use multiprocessing_context=\"forkserver\" or threads",
        );
    }
    match vitals.shm {
        None => find(
            Severity::Problem,
            "/dev/shm",
            "there is none: torch's own workers cannot hand batches over".to_owned(),
            "Feedline's need none; for torch, start the container with --ipc=host or --shm-size",
        ),
        Some(size) if size < 1024 => find(
            Severity::Warning,
            "/dev/shm",
            format!("{size} MiB: torch's own workers hand batches over in it, and fail when it is full"),
            "Feedline's do not use it; for torch, start the container with --shm-size=8g",
        ),
        Some(size) => find(Severity::Good, "/dev/shm", format!("{size} MiB"), ""),
    }
    match vitals.files {
        Some(files) if files < 1024 => find(
            Severity::Warning,
            "open files",
            format!("no more than {files}"),
            "ulimit -n 65536: torch's workers hold a file for every tensor on its way",
        ),
        Some(files) => find(Severity::Good, "open files", format!("up to {files}"), ""),
        None => find(Severity::Good, "open files", "no limit".to_owned(), ""),
    }
    if vitals.omp_threads.is_none() && usable > 1.0 {
        find(
            Severity::Note,
            "threads",
            "OMP_NUM_THREADS is not set: libraries in a worker may start a thread for every processor"
                .to_owned(),
            "OMP_NUM_THREADS=1 where samples use numpy, OpenCV or other libraries with threads of their own",
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEALTHY: Vitals = Vitals {
        processors: 8,
        allowed: 8,
        quota: None,
        memory: 32_000,
        memory_limit: None,
        available: 20_000,
        files: Some(65_536),
        shm: Some(16_000),
        strict_memory: false,
        omp_threads: None,
        load: 0.1,
    };

    fn worst(vitals: &Vitals, about: &str) -> Option<Severity> {
        examine(vitals)
            .into_iter()
            .filter(|finding| finding.about == about)
            .map(|finding| finding.severity)
            .max()
    }

    #[test]
    fn a_healthy_machine_has_nothing_worse_than_a_note() {
        assert!(examine(&HEALTHY).iter().all(|finding| finding.severity <= Severity::Note));
        assert!(!examine(&Vitals::read()).is_empty());
    }

    #[test]
    fn every_ailment_is_found_and_has_a_remedy() {
        for (vitals, about, severity) in [
            (Vitals { allowed: 2, ..HEALTHY }, "processors", Severity::Warning),
            (Vitals { quota: Some(1.5), ..HEALTHY }, "processors", Severity::Warning),
            (Vitals { load: 6.0, ..HEALTHY }, "load", Severity::Note),
            (Vitals { memory_limit: Some(4000), ..HEALTHY }, "memory", Severity::Note),
            (Vitals { available: 500, ..HEALTHY }, "memory", Severity::Warning),
            (Vitals { strict_memory: true, ..HEALTHY }, "memory", Severity::Note),
            (Vitals { shm: Some(64), ..HEALTHY }, "/dev/shm", Severity::Warning),
            (Vitals { shm: None, ..HEALTHY }, "/dev/shm", Severity::Problem),
            (Vitals { files: Some(256), ..HEALTHY }, "open files", Severity::Warning),
        ] {
            assert_eq!(worst(&vitals, about), Some(severity), "{about}");
            let bad = examine(&vitals).into_iter().filter(|finding| finding.severity > Severity::Good);
            assert!(bad.into_iter().all(|finding| !finding.remedy.is_empty()));
        }
    }

    #[test]
    fn control_groups_are_understood() {
        assert_eq!(cgroup("0::/user.slice/a\n"), "/sys/fs/cgroup/user.slice/a");
        assert_eq!(cgroup("0::/\n"), "/sys/fs/cgroup");
        assert_eq!(quota("150000 100000\n"), Some(1.5));
        assert_eq!(quota("max 100000\n"), None);
        assert_eq!(quota(""), None);
    }
}
