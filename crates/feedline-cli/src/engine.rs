//! The engine alone: studies that run in this process.

use std::{path::PathBuf, time::Duration};

use anyhow::ensure;
use clap::{Args, Subcommand};
use feedline_bench::engine::{
    delay::Delay, files::Files, overhead::Overhead, straggler::Straggler, volumes::Volumes,
};

use crate::show;

/// Which study, and how it is shown.
#[derive(Args)]
pub(crate) struct Engine {
    #[command(subcommand)]
    study: Study,
    /// Write the report as JSON to standard output instead of a table.
    #[arg(long, global = true)]
    json: bool,
    /// How often every setting is measured; the table shows medians.
    #[arg(long, global = true)]
    repeats: Option<usize>,
}

#[derive(Subcommand)]
enum Study {
    /// Samples that wait, as for a disk: do n workers hide it n times as well?
    Delay {
        /// The numbers of workers, besides inline loading.
        #[arg(long, value_delimiter = ',', default_values_t = Delay::default().workers)]
        workers: Vec<usize>,
        /// Batches in an epoch.
        #[arg(long, default_value_t = Delay::default().batches)]
        batches: usize,
        /// Samples in a batch.
        #[arg(long, default_value_t = Delay::default().batch)]
        batch: usize,
        /// Milliseconds every sample waits.
        #[arg(long, default_value_t = 10.0)]
        wait: f64,
        /// The shape of the random image that a sample makes after waiting.
        #[arg(long, value_delimiter = ',', default_values_t = Delay::default().shape)]
        shape: Vec<usize>,
    },
    /// Images, cells or tensors from a folder: how near is it to what decoding or reading alone takes?
    Files {
        /// The folder.
        root: PathBuf,
        /// Random crops and flips instead of the middle of each image.
        #[arg(long)]
        train: bool,
        /// The numbers of workers.
        #[arg(long, value_delimiter = ',', default_values_t = Files::default().workers)]
        workers: Vec<usize>,
        /// Batches in an epoch.
        #[arg(long, default_value_t = Files::default().batches)]
        batches: usize,
        /// Samples in a batch.
        #[arg(long, default_value_t = Files::default().batch)]
        batch: usize,
    },
    /// Samples that cost nothing: what does the loader itself cost?
    Overhead {
        /// The numbers of workers, besides inline loading.
        #[arg(long, value_delimiter = ',', default_values_t = Overhead::default().workers)]
        workers: Vec<usize>,
        /// Rows in an epoch.
        #[arg(long, default_value_t = Overhead::default().rows)]
        rows: usize,
        /// Rows in a batch.
        #[arg(long, default_value_t = Overhead::default().batch)]
        batch: usize,
    },
    /// One sample in a few hundred is slow: what does it cost the others?
    Straggler {
        /// Workers.
        #[arg(long, default_value_t = Straggler::default().workers)]
        workers: usize,
        /// Samples in an epoch.
        #[arg(long, default_value_t = Straggler::default().samples)]
        samples: usize,
    },
    /// Packed volumes from a folder: how near is it to what inflating alone takes?
    Volumes {
        /// The folder.
        root: PathBuf,
        /// The numbers of threads.
        #[arg(long, value_delimiter = ',', default_values_t = Volumes::default().workers)]
        workers: Vec<usize>,
        /// How often each volume is read.
        #[arg(long, default_value_t = Volumes::default().passes)]
        passes: usize,
    },
}

impl Engine {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        ensure!(self.repeats != Some(0), "--repeats must be at least 1");
        let report = measure(self.study, self.repeats)?;
        if self.json { show::json(&report) } else { show::table(&report) }
    }
}

fn measure(study: Study, repeats: Option<usize>) -> anyhow::Result<feedline_bench::Report> {
    let bar = show::Bar::new();
    let mut progress = |name: &str, share: f64| bar.set(name, share);
    let report = match study {
        Study::Delay { workers, batches, batch, wait, shape } => {
            ensure!(batches > 0, "--batches must be at least 1");
            let wait = Duration::try_from_secs_f64(wait / 1e3)
                .map_err(|_| anyhow::anyhow!("--wait must be a number of milliseconds, not {wait}"))?;
            let repeats = repeats.unwrap_or(1);
            Delay { wait, shape, batch, batches, workers, repeats }.run(&mut progress)
        }
        Study::Files { root, train, workers, batches, batch } => {
            ensure!(batches > 0 && batch > 0, "--batches and --batch must be at least 1");
            let repeats = repeats.unwrap_or(Files::default().repeats);
            Files { root, train, batch, batches, workers, repeats }.run(&mut progress)
        }
        Study::Overhead { workers, rows, batch } => {
            let repeats = repeats.unwrap_or(Overhead::default().repeats);
            Overhead { rows, batch, workers, repeats }.run(&mut progress)
        }
        Study::Straggler { workers, samples } => {
            ensure!(workers > 0, "--workers must be at least 1");
            let repeats = repeats.unwrap_or(1);
            Straggler { workers, samples, repeats, ..Straggler::default() }.run(&mut progress)
        }
        Study::Volumes { root, workers, passes } => {
            ensure!(passes > 0, "--passes must be at least 1");
            let repeats = repeats.unwrap_or(Volumes::default().repeats);
            Volumes { root, passes, workers, repeats }.run(&mut progress)
        }
    };
    Ok(report?)
}
