//! The machine a study ran on: without it a number says nothing.

use std::fs;

use serde::{Deserialize, Serialize};

/// Where a study ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// The version of Feedline.
    pub feedline: String,
    /// The processor.
    pub processor: String,
    /// Processors this process may use.
    pub processors: usize,
    /// Memory of the machine in MiB.
    pub memory_mib: u64,
    /// The kernel.
    pub kernel: String,
    /// The load average over the last minute when the study began or ended, whichever is reported.
    pub load: f64,
}

impl Environment {
    /// Reads it from the system; what cannot be read is empty.
    pub fn read() -> Self {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key));
            line.and_then(|line| line.split_once(':'))
                .map(|(_, value)| value.trim().to_owned())
                .unwrap_or_default()
        };
        let number = |text: &str| text.split_whitespace().next().and_then(|word| word.parse().ok());
        Self {
            feedline: env!("CARGO_PKG_VERSION").to_owned(),
            processor: after(&file("/proc/cpuinfo"), "model name"),
            processors: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            memory_mib: number(&after(&file("/proc/meminfo"), "MemTotal")).unwrap_or(0.0) as u64 / 1024,
            kernel: file("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: number(&file("/proc/loadavg")).unwrap_or(0.0),
        }
    }
}
