//! `feedline data`: writes what a study generates, without measuring anything.

use std::{ffi::OsString, path::PathBuf};

use anyhow::bail;
use clap::Args;
use feedline_bench::{grid::Study, request::Point, runner::Event};

use crate::{
    Home,
    bench::{Scale, runner},
    show,
};

/// The command.
#[derive(Args)]
pub(crate) struct Data {
    /// images, cells, text or volumes.
    study: String,
    /// Which variant of the study.
    #[arg(long)]
    variant: Option<String>,
    /// How much data.
    #[arg(long, default_value = "default")]
    scale: Scale,
    /// The folder to write to.
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// The interpreter that has the Python package.
    #[arg(long, value_name = "PROGRAM")]
    python: Option<OsString>,
}

impl Data {
    pub(crate) fn run(self, home: &Home) -> anyhow::Result<()> {
        let Some(study) = Study::find(&self.study) else { bail!("there is no study {:?}", self.study) };
        let (mut job, grid) = study.preset(self.scale.name());
        if let Some(variant) = self.variant {
            job.variant = variant;
        }
        // One batch is loaded, because that is what needs the files.
        job.batches = Some(1);
        let points = grid.points();
        let Some(point) = points.first() else { bail!("{} has no settings", self.study) };
        let point = Point { workers: 0, batch: 1, ..point.of("torch") };
        let bar = show::Bar::new();
        let mut tell = |event: Event| {
            if let Event::Writing(done, of) = event {
                bar.set("writing files", done as f64 / of.max(1) as f64);
            }
        };
        runner(home, self.python, self.cache).measure(&job, &point, &mut tell)?;
        Ok(())
    }
}
