//! A run: every contestant's first batch is checked, then all points are measured, in turns.

use std::path::PathBuf;

use crate::{
    grid::Grid,
    record::{Entry, Measured, Record, RecordError},
    request::{Job, Point},
    runner::{Contestant, ENGINE, Event, RunError, Runner},
};

/// The contestant whose batches are the right ones.
pub const REFERENCE: &str = "torch";

/// Told what is being done, and how far the run is in parts of one.
pub type Tell<'a> = dyn FnMut(&str, f64) + 'a;

/// Who is asked for by name must be there; who is there by default may be missing.
pub struct Field {
    /// All that are known.
    pub known: Vec<Contestant>,
    /// Those that were asked for.
    pub asked: Vec<String>,
}

/// A contestant that does not exist, or nobody to measure.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoContestant(String);

impl Field {
    /// Those of a study that are there, and the entries of those that are not.
    pub fn of(&self, study: &str) -> Result<Vec<(String, Entry)>, NoContestant> {
        let mut field = Vec::new();
        for name in &self.asked {
            let Some(found) = self.known.iter().find(|known| known.name == *name) else {
                let known: Vec<&str> = self.known.iter().map(|known| known.name.as_str()).collect();
                return Err(NoContestant(format!(
                    "there is no contestant {name:?}; there are {}",
                    known.join(", ")
                )));
            };
            let absent = if !found.studies.iter().any(|own| own == study) {
                Some(format!("it has no {study}"))
            } else if found.version.is_none() {
                Some(format!("not installed; {}", found.how))
            } else {
                None
            };
            field.push((
                name.clone(),
                Entry {
                    label: found.label.clone(),
                    version: found.version.clone(),
                    workers: found.workers.clone(),
                    differs: found.differs.clone(),
                    check: None,
                    absent,
                },
            ));
        }
        if field.iter().all(|(_, entry)| entry.absent.is_some()) {
            let why: Vec<String> = field
                .iter()
                .map(|(name, entry)| format!("{name}: {}", entry.absent.as_deref().unwrap_or("")))
                .collect();
            return Err(NoContestant(format!("there is nobody to measure: {}", why.join("; "))));
        }
        Ok(field)
    }
}

/// A run under way.
pub struct Run<'a> {
    /// Starts contestants.
    pub runner: &'a Runner,
    /// What was measured so far.
    pub record: Record,
    /// Where that is written.
    pub file: PathBuf,
}

/// Why a run ended early. What was measured until then is in its record.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The user wanted it.
    #[error("interrupted")]
    Interrupted,
    /// The record cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// There is nothing to measure: what is asked for does not exist, or the reference gives no batch.
    #[error("{0}")]
    Nothing(String),
}

impl Run<'_> {
    /// Checks and measures all that the record does not have yet.
    pub fn go(&mut self, tell: &mut Tell<'_>) -> Result<(), Ended> {
        self.check(tell)?;
        let total: usize = self.record.points.len() * self.record.repeats;
        for repeat in 0..self.record.repeats {
            // Every other time in reverse, because the clock of a shared machine drifts.
            let mut order: Vec<usize> = (0..self.record.points.len()).collect();
            if repeat % 2 == 1 {
                order.reverse();
            }
            for (at, index) in order.into_iter().enumerate() {
                let done = (repeat * self.record.points.len() + at) as f64;
                self.measure(index, repeat, &mut |what, share| {
                    tell(what, (done + share) / total as f64);
                })?;
            }
        }
        self.timelines(tell)
    }

    /// Takes the timelines that the record does not have yet.
    fn timelines(&mut self, tell: &mut Tell<'_>) -> Result<(), Ended> {
        let batches = self.record.job.batches.map_or(TIMELINE, |batches| batches.min(TIMELINE));
        let job = Job { batches: Some(batches), epochs: 1, ..self.record.job.clone() };
        for index in with_timeline(&self.record.points) {
            let measured = &self.record.points[index];
            // The engine's workers are not Python's, and nobody writes down what they do.
            if measured.timeline.is_some()
                || measured.repeats.is_empty()
                || measured.point.contestant == ENGINE
            {
                continue;
            }
            let point = measured.point.clone();
            let name = describe(self.record.label(&point.contestant), &point);
            tell(&format!("timeline: {name}"), 1.0);
            match self.runner.timeline(&job, &point, &mut |_| {}) {
                Ok(timeline) => self.record.points[index].timeline = Some(timeline),
                Err(RunError::Interrupted) => return Err(Ended::Interrupted),
                // Its measurements stand; there is only no picture.
                Err(_) => continue,
            }
            self.record.save(&self.file)?;
        }
        Ok(())
    }

    fn measure(&mut self, index: usize, repeat: usize, tell: &mut Tell<'_>) -> Result<(), Ended> {
        let measured = &self.record.points[index];
        let absent =
            self.record.contestants.get(&measured.point.contestant).is_some_and(|e| e.absent.is_some());
        if absent || measured.error.is_some() || measured.repeats.len() > repeat {
            return Ok(());
        }
        let point = measured.point.clone();
        let name = describe(self.record.label(&point.contestant), &point);
        let batches = self.record.job.batches.map_or(0.0, |batches| batches as f64);
        tell(&name, 0.0);
        let result = self.runner.measure(&self.record.job, &point, &mut |event| match event {
            Event::Batches(done) if batches > 0.0 => tell(&name, (done as f64 / batches).min(1.0)),
            Event::Writing(done, of) => tell(&format!("writing files, {done} of {of}"), 0.0),
            _ => {}
        });
        let measured = &mut self.record.points[index];
        match result {
            Ok(measurement) => measured.repeats.push(measurement),
            Err(RunError::Interrupted) => return Err(Ended::Interrupted),
            Err(error) => measured.error = Some(error.to_string()),
        }
        Ok(self.record.save(&self.file)?)
    }

    /// Compares everyone's first batch with the reference's.
    fn check(&mut self, tell: &mut Tell<'_>) -> Result<(), Ended> {
        let Some(first) = self.record.points.first().map(|measured| measured.point.clone()) else {
            return Ok(());
        };
        let names: Vec<String> = self.record.contestants.keys().cloned().collect();
        let file = self.file.with_extension("first.npz");
        let path = file.to_string_lossy().into_owned();
        let reference =
            Point { workers: 0, prefetch: None, pin: false, step: "none".to_owned(), ..first.of(REFERENCE) };
        let unchecked = |entry: &Entry| entry.absent.is_none() && entry.check.is_none();
        if !self.record.contestants.values().any(unchecked) {
            return Ok(());
        }
        tell("getting ready", 0.0);
        let kept = self.runner.keep(&self.record.job, &reference, &path, &mut |event| {
            if let Event::Writing(done, of) = event {
                tell(&format!("writing files, {done} of {of}"), 0.0);
            }
        });
        match kept {
            Err(RunError::Interrupted) => return Err(Ended::Interrupted),
            // No other contestant would find it, and waiting for each to be stopped would take hours.
            Err(RunError::Asked(what)) => return Err(Ended::Nothing(what)),
            Err(error @ RunError::Hung(_)) => {
                return Err(Ended::Nothing(format!("{REFERENCE} gives no first batch: {error}")));
            }
            _ => {}
        }
        for name in names {
            let entry = &self.record.contestants[&name];
            // The engine alone makes other random images, of the same shape.
            if !unchecked(entry) || kept.is_err() || name == ENGINE {
                continue;
            }
            tell(&format!("checking {}", entry.label), 0.0);
            let workers = usize::from(entry.workers == "threads");
            let result =
                self.runner.check(&self.record.job, &Point { workers, ..reference.of(&name) }, &path);
            let entry = self.record.contestants.get_mut(&name).expect("the name is one of the map's");
            match result {
                Ok(check) => entry.check = Some(check),
                Err(RunError::Interrupted) => return Err(Ended::Interrupted),
                Err(error) => entry.absent = Some(error.to_string()),
            }
        }
        let _ = std::fs::remove_file(&file);
        Ok(self.record.save(&self.file)?)
    }
}

/// Batches in a timeline: enough to see the pattern, few enough to see each.
const TIMELINE: usize = 12;

/// The points to take timelines of: one of every contestant and step, all with the same workers and batch.
fn with_timeline(points: &[Measured]) -> Vec<usize> {
    let workers: Vec<usize> = points.iter().map(|one| one.point.workers).filter(|n| *n > 0).collect();
    // Few enough lanes to look at, if there is a choice.
    let few = workers.iter().copied().filter(|n| *n <= 4).max();
    let Some(workers) = few.or(workers.iter().copied().min()) else { return vec![] };
    let batch = points.iter().map(|one| one.point.batch).max().unwrap_or(0);
    let mut seen: Vec<(&str, &str)> = Vec::new();
    let mut chosen = Vec::new();
    for (index, Measured { point, .. }) in points.iter().enumerate() {
        let kind = (point.contestant.as_str(), point.step.as_str());
        if point.workers == workers && point.batch == batch && !seen.contains(&kind) {
            seen.push(kind);
            chosen.push(index);
        }
    }
    chosen
}

/// A point in words.
pub fn describe(label: &str, point: &Point) -> String {
    let step = if point.step == "none" { String::new() } else { format!(", step {}", point.step) };
    format!("{label}, {} workers, batch {}{step}", point.workers, point.batch)
}

/// The points of a grid, for those who are there.
pub fn points(grid: &Grid, field: &[(String, Entry)]) -> Vec<Point> {
    let here: Vec<&str> =
        field.iter().filter(|(_, entry)| entry.absent.is_none()).map(|(name, _)| name.as_str()).collect();
    let threads = |point: &Point| {
        field.iter().any(|(name, entry)| *name == point.contestant && entry.workers == "threads")
    };
    let all = grid.points().into_iter().filter(|point| here.contains(&point.contestant.as_str()));
    // Threads of another kind of loader have no inline mode; ours have, and it is the one of processes.
    all.filter(|point| point.workers > 0 || !threads(point)).collect()
}
