//! `feedline report`: a page of one or several runs, and the plots as files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use clap::Args;
use feedline_bench::{
    picture::Painter,
    plot::standalone,
    record::Record,
    report::{Told, page, plots},
};

use crate::show;

/// The command.
#[derive(Args)]
pub(crate) struct Report {
    /// Records of `feedline bench`, or folders with such.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The page to write.
    #[arg(long, default_value = "report.html", value_name = "FILE")]
    out: PathBuf,
    /// Print the figures and the advice as well.
    #[arg(long)]
    text: bool,
    /// Write every plot as an SVG file into this folder.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Write every plot as a PNG file into this folder.
    #[arg(long, value_name = "FOLDER")]
    png: Option<PathBuf>,
}

impl Report {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut files = Vec::new();
        for run in &self.runs {
            if run.is_dir() {
                let listed =
                    fs::read_dir(run).with_context(|| format!("{} cannot be read", run.display()))?;
                let mut found: Vec<PathBuf> = listed
                    .filter_map(|entry| Some(entry.ok()?.path()))
                    .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
                    .collect();
                ensure!(!found.is_empty(), "there are no records (*.json) in {}", run.display());
                found.sort();
                files.extend(found);
            } else {
                files.push(run.clone());
            }
        }
        let told =
            files.iter().map(|file| Ok(Told::of(Record::load(file)?))).collect::<anyhow::Result<Vec<_>>>()?;
        if self.text {
            told.iter().try_for_each(show::run)?;
        }
        fs::write(&self.out, page(&told))
            .with_context(|| format!("{} cannot be written", self.out.display()))?;
        if let Some(folder) = &self.svg {
            write_plots(&told, folder, "svg", |plot| Ok(standalone(plot).into_bytes()))?;
        }
        if let Some(folder) = &self.png {
            let painter = Painter::new()?;
            write_plots(&told, folder, "png", |plot| Ok(painter.png(plot)?))?;
        }
        show::ended(&self.out, false)
    }
}

/// Every plot as a file of its own.
fn write_plots(
    told: &[Told],
    folder: &Path,
    ending: &str,
    draw: impl Fn(&str) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    for (run, one) in told.iter().enumerate() {
        for (number, plot) in plots(one).iter().enumerate() {
            let name = format!("{}-{}-{}.{ending}", one.record.job.study, run + 1, number + 1);
            let path = folder.join(name);
            fs::write(&path, draw(plot)?).with_context(|| format!("{} cannot be written", path.display()))?;
        }
    }
    Ok(())
}
