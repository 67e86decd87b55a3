//! `feedline bench`: contestants on a grid, in fresh processes, in turns.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use feedline_bench::{
    grid::{Grid, NoStudy, STUDIES, Study},
    record::Record,
    report::{Told, csv, markdown, page},
    request::Job,
    run::{Ended, Field, Run, points},
    runner::{RunError, Runner},
};
use serde::Deserialize;

use crate::{Home, show, stop};

/// How much data a study has.
#[derive(Clone, Copy, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scale {
    Smoke,
    Default,
    Full,
}

impl Scale {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Default => "default",
            Self::Full => "full",
        }
    }
}

/// What is asked for on the command line; a file may hold the same.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Which variant of the study.
    #[arg(long)]
    variant: Option<String>,
    /// A folder of your own in place of generated data.
    #[arg(long)]
    data: Option<String>,
    /// Whom to compare with.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    against: Vec<String>,
    /// Measure these, and Feedline only if it is among them.
    #[arg(long, value_delimiter = ',', value_name = "NAME", conflicts_with = "against")]
    only: Vec<String>,
    /// Numbers of workers.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    workers: Vec<usize>,
    /// Samples in a batch.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    batch: Vec<usize>,
    /// Batches ahead for each worker.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    prefetch: Vec<usize>,
    /// Page-locked memory: off, on, or both.
    #[arg(long, value_delimiter = ',', value_name = "off|on")]
    pin: Vec<String>,
    /// What the consumer does with a batch: none, a wait (20ms, 2s), or work (cpu:20ms).
    #[arg(long, value_delimiter = ',')]
    step: Vec<String>,
    /// How much data.
    #[arg(long)]
    scale: Option<Scale>,
    /// Batches of an epoch.
    #[arg(long, value_name = "N")]
    batches: Option<usize>,
    /// Epochs of a measurement.
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// How often every point is measured.
    #[arg(long, value_name = "N")]
    repeats: Option<usize>,
    /// Load in random order.
    #[arg(long)]
    shuffle: bool,
}

/// The command.
#[derive(Args)]
pub(crate) struct Bench {
    /// delay, images, cells, text or volumes; module:name for a dataset of your own; all five if there is none.
    study: Option<String>,
    #[command(flatten)]
    settings: Settings,
    /// Read settings from a TOML file; those of the command line come first.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write the records as JSON to standard output instead of tables.
    #[arg(long)]
    json: bool,
    /// The folder for records and reports. A run that was stopped goes on in the same folder.
    #[arg(long, default_value = "feedline-runs", value_name = "FOLDER")]
    out: PathBuf,
    /// The interpreter that has the Python package and the loaders.
    #[arg(long, value_name = "PROGRAM")]
    python: Option<OsString>,
    /// Where generated data is kept.
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Stop a measurement that takes longer.
    #[arg(long, default_value = "1800", value_name = "SECONDS")]
    limit: u64,
}

impl Bench {
    pub(crate) fn run(self, home: &Home, arguments: &[OsString]) -> anyhow::Result<u8> {
        let settings = self.settings.clone().or_else_from(self.config.as_deref())?;
        ensure!(self.limit > 0, "--limit must be at least 1");
        let limit = Duration::from_secs(self.limit);
        let runner = runner(home, self.python.clone(), self.cache.clone()).with_limit(limit);
        let known = match runner.contestants() {
            Err(RunError::Asked(what)) => bail!(what),
            known => known.context(
                "the loaders could not be listed; is the Python package installed (pip install feedline), or is --python \
                 wrong?",
            )?,
        };
        fs::create_dir_all(&self.out).with_context(|| format!("{} cannot be made", self.out.display()))?;
        let names: Vec<String> = match &self.study {
            Some(study) => vec![study.clone()],
            None => STUDIES.iter().map(|study| study.name.to_owned()).collect(),
        };
        let mut told = Vec::new();
        let mut interrupted = false;
        for name in names {
            let (job, mut grid) = settings.of(&name)?;
            let asked = settings.contestants(&grid);
            let field = Field { known: known.clone(), asked }.of(&job.study)?;
            grid.contestants = field.iter().map(|(name, _)| name.clone()).collect();
            let command = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let repeats = settings.repeats.unwrap_or(if job.scale == "smoke" { 2 } else { 3 });
            let mut record = Record::new(command, job, repeats, points(&grid, &field));
            record.contestants = field.into_iter().collect();
            let file = self.out.join(format!("{}.json", file_name(&record.job)));
            if let Ok(before) = Record::load(&file)
                && before.job == record.job
            {
                record.go_on_from(before);
            }
            let mut run = Run { runner: &runner, record, file };
            let bar = show::Bar::new();
            let ended = run.go(&mut |what, share| bar.set(what, share));
            drop(bar);
            match ended {
                Ok(()) => {}
                Err(Ended::Interrupted) => interrupted = true,
                Err(Ended::Record(error)) => return Err(error.into()),
                Err(Ended::Nothing(why)) => bail!(why),
            }
            let one = Told::of(run.record);
            write_beside(&run.file, &one)?;
            if !self.json {
                show::run(&one)?;
            }
            told.push(one);
            if interrupted {
                break;
            }
        }
        let path = self.out.join("report.html");
        fs::write(&path, page(&told)).with_context(|| format!("{} cannot be written", path.display()))?;
        if self.json {
            let records: Vec<&Record> = told.iter().map(|one| &one.record).collect();
            let mut out = io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, &records)?;
            writeln!(out)?;
        } else {
            show::ended(&path, interrupted)?;
        }
        let failed = told.iter().any(|one| one.record.points.iter().all(|point| point.repeats.is_empty()));
        Ok(if interrupted { 130 } else { u8::from(failed) })
    }
}

/// The same figures beside the record, for other programs and for text.
fn write_beside(file: &Path, told: &Told) -> anyhow::Result<()> {
    fs::write(file.with_extension("csv"), csv(told))?;
    Ok(fs::write(file.with_extension("md"), markdown(told))?)
}

fn file_name(job: &Job) -> String {
    let variant = if job.variant.is_empty() { String::new() } else { format!("-{}", job.variant) };
    let study = if job.study == "own" { job.data.clone().unwrap_or_default() } else { job.study.clone() };
    format!("{}{variant}-{}", study.replace(|c: char| !c.is_alphanumeric(), "-"), job.scale)
}

pub(crate) fn runner(home: &Home, python: Option<OsString>, cache: Option<PathBuf>) -> Runner {
    let of_environment = || {
        let folder = std::env::var_os("VIRTUAL_ENV")?;
        Some(Path::new(&folder).join("bin/python").into_os_string())
    };
    let python =
        python.or_else(|| home.python.clone()).or_else(of_environment).unwrap_or_else(|| "python3".into());
    let of_user = || {
        let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        folder.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))
    };
    let cache = cache.or_else(|| of_user().map(|folder| folder.join("feedline")));
    let mut itself = home.itself.clone();
    itself.push("runner".into());
    Runner::new(
        python,
        itself,
        cache.unwrap_or_else(|| PathBuf::from(".feedline-cache")),
        stop::on_interrupt(),
    )
}

impl Settings {
    fn or_else_from(self, file: Option<&Path>) -> anyhow::Result<Self> {
        let Some(file) = file else { return Ok(self) };
        let text = fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
        let other: Self =
            toml::from_str(&text).with_context(|| format!("{} is not understood", file.display()))?;
        let list = |own: Vec<String>, other: Vec<String>| if own.is_empty() { other } else { own };
        let numbers = |own: Vec<usize>, other: Vec<usize>| if own.is_empty() { other } else { own };
        Ok(Self {
            variant: self.variant.or(other.variant),
            data: self.data.or(other.data),
            against: list(self.against, other.against),
            only: list(self.only, other.only),
            workers: numbers(self.workers, other.workers),
            batch: numbers(self.batch, other.batch),
            prefetch: numbers(self.prefetch, other.prefetch),
            pin: list(self.pin, other.pin),
            step: list(self.step, other.step),
            scale: self.scale.or(other.scale),
            batches: self.batches.or(other.batches),
            epochs: self.epochs.or(other.epochs),
            repeats: self.repeats.or(other.repeats),
            shuffle: self.shuffle || other.shuffle,
        })
    }

    /// Who is measured, the reference first.
    fn contestants(&self, grid: &Grid) -> Vec<String> {
        if !self.only.is_empty() {
            return self.only.clone();
        }
        let own = grid.contestants.iter().filter(|name| *name != "torch" || self.against.is_empty());
        let mut all: Vec<String> = Vec::new();
        for name in self.against.iter().chain(own) {
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        all
    }

    /// The job and the grid of a study, as far as nothing else was asked for.
    fn of(&self, name: &str) -> anyhow::Result<(Job, Grid)> {
        let scale = self.scale.unwrap_or(Scale::Default).name();
        let own = name.contains(':');
        let study = Study::find(if own { "delay" } else { name }).ok_or_else(|| NoStudy(name.to_owned()))?;
        let (mut job, mut grid) = study.preset(scale);
        if own {
            (job.study, job.variant, job.data) = ("own".to_owned(), String::new(), Some(name.to_owned()));
            grid.workers = vec![0, 1, 2, 4];
        } else {
            if let Some(variant) = &self.variant {
                let known = study.variants;
                ensure!(
                    known.contains(&variant.as_str()),
                    "{name} has no variant {variant:?}; it has {}",
                    known.join(", ")
                );
                job.variant.clone_from(variant);
            }
            job.data.clone_from(&self.data);
            if name == "delay" {
                grid.contestants.push("engine".to_owned());
            }
            // Lines in volumes are drawn in Python.
            let native = name != "volumes" || ["maps", "read"].contains(&job.variant.as_str());
            if native && name != "delay" {
                grid.contestants.push("native".to_owned());
            }
            if name == "volumes" && job.variant != "read" {
                grid.contestants.push("shared_cache".to_owned());
            }
        }
        job.batches = self.batches.or(job.batches);
        job.epochs = self.epochs.unwrap_or(job.epochs);
        job.shuffle = self.shuffle;
        let positive = |name: &str, values: &[usize]| -> anyhow::Result<()> {
            ensure!(!values.contains(&0), "--{name} must be at least 1");
            Ok(())
        };
        positive("batch", &self.batch)?;
        positive("prefetch", &self.prefetch)?;
        for (name, value) in [("repeats", self.repeats), ("batches", self.batches), ("epochs", self.epochs)] {
            ensure!(value != Some(0), "--{name} must be at least 1");
        }
        take(&mut grid.workers, &self.workers);
        take(&mut grid.batch, &self.batch);
        take(&mut grid.step, &self.step);
        if !self.prefetch.is_empty() {
            grid.prefetch = self.prefetch.iter().copied().map(Some).collect();
        }
        if !self.pin.is_empty() {
            let pin = self.pin.iter().map(|word| match word.as_str() {
                "on" => Ok(true),
                "off" => Ok(false),
                other => bail!("--pin is off, on, or off,on, not {other:?}"),
            });
            grid.pin = pin.collect::<anyhow::Result<_>>()?;
        }
        Ok((job, grid))
    }
}

fn take<T: Clone>(values: &mut Vec<T>, asked: &[T]) {
    if !asked.is_empty() {
        *values = asked.to_vec();
    }
}
