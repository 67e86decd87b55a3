//! `feedline tune`: the best setting for a dataset and a training step, in a stated time.

use std::{ffi::OsString, path::PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use feedline_bench::{
    grid::{NoStudy, Study},
    request::{Job, Point},
    runner::RunError,
    tune::{Objective, Search, Trial},
};

use crate::{
    Home,
    bench::{Scale, runner},
    show,
};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Goal {
    /// Samples per second.
    Throughput,
    /// The time to the first batch.
    FirstBatch,
    /// Memory, among settings that are nearly as fast as the fastest.
    Memory,
    /// The largest loss over several steps.
    Regret,
}

/// The command.
#[derive(Args)]
pub(crate) struct Tune {
    /// delay, images, cells, text or volumes, or module:name for a dataset of your own.
    study: String,
    /// Which variant of the study.
    #[arg(long)]
    variant: Option<String>,
    /// A folder of your own in place of generated data.
    #[arg(long)]
    data: Option<String>,
    /// What training does with a batch: none, a time (20ms), or work (cpu:20ms); several for regret.
    #[arg(long, value_delimiter = ',', default_value = "none")]
    step: Vec<String>,
    /// The batch size; several, to be advised about it.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    batch: Vec<usize>,
    /// Numbers of workers to try.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    workers: Vec<usize>,
    /// How long to measure.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// The most memory that loading may take, in MB.
    #[arg(long, value_name = "MB")]
    memory: Option<f64>,
    /// What is to be as good as possible.
    #[arg(long, default_value = "throughput")]
    objective: Goal,
    /// How much data a study generates.
    #[arg(long, default_value = "default")]
    scale: Scale,
    /// Write the result as JSON to standard output.
    #[arg(long)]
    json: bool,
    /// The interpreter that has the Python package.
    #[arg(long, value_name = "PROGRAM")]
    python: Option<OsString>,
    /// Where generated data is kept.
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
}

impl Tune {
    pub(crate) fn run(self, home: &Home) -> anyhow::Result<()> {
        ensure!(self.seconds > 0.0, "--seconds must be more than 0");
        ensure!(!self.batch.contains(&0), "--batch must be at least 1");
        let (job, points) = self.points()?;
        let objective = match self.objective {
            Goal::Throughput => Objective::Throughput,
            Goal::FirstBatch => Objective::FirstBatch,
            Goal::Memory => Objective::Memory,
            Goal::Regret => Objective::Regret,
        };
        let runner = runner(home, self.python.clone(), self.cache.clone());
        let mut session = runner.session().context("the measuring process could not be started")?;
        let mut search = Search::new(points, self.step.clone(), objective, self.seconds, self.memory);
        let (bar, mut spent) = (show::Bar::new(), 0.0);
        let mut measure = |point: &Point, seconds: f64| -> Result<Trial, RunError> {
            bar.set(&feedline_bench::run::describe(&point.contestant, point), spent / self.seconds);
            spent += seconds;
            let measurement = session.measure(&job, point, seconds)?;
            Ok(Trial {
                rate: measurement.running_rate(),
                first: measurement.first_batch(),
                memory: measurement.memory.peak_mb,
            })
        };
        search.run(&mut measure, &|error| matches!(error, RunError::Interrupted))?;
        drop(bar);
        if let Some(why) =
            search.candidates.iter().find_map(|one| one.out.as_ref()).filter(|_| search.ranked().is_empty())
        {
            bail!("no setting could be measured: {why}");
        }
        if self.json { show::tuned_json(&search) } else { show::tuned(&search) }
    }

    /// The settings to try; torch's default among them, because nothing slower is to be recommended.
    fn points(&self) -> anyhow::Result<(Job, Vec<Point>)> {
        let own = self.study.contains(':');
        let study = Study::find(if own { "delay" } else { &self.study })
            .ok_or_else(|| NoStudy(self.study.clone()))?;
        let (mut job, grid) = study.preset(self.scale.name());
        job.data.clone_from(&self.data);
        if own {
            (job.study, job.variant, job.data) = ("own".to_owned(), String::new(), Some(self.study.clone()));
        } else if let Some(variant) = &self.variant {
            job.variant.clone_from(variant);
        }
        // Long enough for any time that is given; it is the clock that ends a measurement.
        job.batches = if own { None } else { Some(2000) };
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let mut workers = self.workers.clone();
        if workers.is_empty() {
            workers = vec![0, 1, 2, 4, 8, processors, 2 * processors];
            workers.sort_unstable();
            workers.dedup();
        }
        let batches =
            if self.batch.is_empty() { vec![grid.batch[grid.batch.len() / 2]] } else { self.batch.clone() };
        let step = self.step[0].clone();
        let mut points = Vec::new();
        for batch in batches {
            let point = |contestant: &str, workers: usize| Point {
                contestant: contestant.to_owned(),
                workers,
                batch,
                prefetch: None,
                pin: false,
                step: step.clone(),
            };
            points.push(point("torch", 0));
            points.extend(workers.iter().map(|workers| point("feedline", *workers)));
            points.extend(
                workers.iter().filter(|workers| **workers > 0).map(|workers| point("threads", *workers)),
            );
        }
        Ok((job, points))
    }
}
