//! The record of a run: what was measured where, as one file that others can read.
//!
//! It is written anew after every measurement, so that what is measured is never lost, and a run that was stopped
//! can go on. `docs/record.md` describes the form; its version changes with its meaning.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    Environment,
    request::{Job, Measurement, Point, Timeline},
    runner::Check,
};

/// The version of the form.
pub const VERSION: u32 = 1;
const KIND: &str = "feedline-bench";

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// What this file is.
    pub kind: String,
    /// The version of its form.
    pub version: u32,
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// Where it ran.
    pub environment: Environment,
    /// The command.
    pub command: Vec<String>,
    /// What was measured.
    pub job: Job,
    /// How often each point is measured.
    pub repeats: usize,
    /// All contestants of the run.
    pub contestants: BTreeMap<String, Entry>,
    /// Each point with its measurements, in the order of the grid.
    pub points: Vec<Measured>,
}

/// A contestant of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What it is called in tables.
    pub label: String,
    /// Its version.
    pub version: Option<String>,
    /// What its workers are.
    pub workers: String,
    /// How its work differs from the reference's, in words that can follow its name; empty if it does not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub differs: String,
    /// How its first batch compares with the reference; none before it was looked at.
    pub check: Option<Check>,
    /// Why it was not measured.
    pub absent: Option<String>,
}

/// A point and its measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The settings.
    pub point: Point,
    /// One after the other.
    pub repeats: Vec<Measurement>,
    /// Why there are no more.
    pub error: Option<String>,
    /// Who was at what when, in a run of its own; taken of some points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
}

/// A record that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is in it.
    #[error("{} is not a whole record of feedline bench: {reason}", path.display())]
    Form {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Record {
    /// A record of a run that has not measured anything yet.
    pub fn new(command: Vec<String>, job: Job, repeats: usize, points: Vec<Point>) -> Self {
        let began = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            kind: KIND.to_owned(),
            version: VERSION,
            began: began.map_or(0, |since| since.as_secs()),
            environment: Environment::read(),
            command,
            job,
            repeats,
            contestants: BTreeMap::new(),
            points: points
                .into_iter()
                .map(|point| Measured { point, repeats: vec![], error: None, timeline: None })
                .collect(),
        }
    }

    /// Reads a record.
    pub fn load(path: &Path) -> Result<Self, RecordError> {
        let file = |source| RecordError::File { path: path.to_owned(), source };
        let form = |reason: String| RecordError::Form { path: path.to_owned(), reason };
        let text = fs::read_to_string(path).map_err(file)?;
        let head: serde_json::Value = serde_json::from_str(&text).map_err(|error| form(error.to_string()))?;
        if head["kind"] != KIND {
            return Err(form("it is something else".to_owned()));
        }
        if head["version"] != VERSION {
            return Err(form(format!("it has version {}, this program reads {VERSION}", head["version"])));
        }
        serde_json::from_value(head).map_err(|error| form(error.to_string()))
    }

    /// Writes it: under another name first, so that the file is whole at any moment.
    pub fn save(&self, path: &Path) -> Result<(), RecordError> {
        let file = |source| RecordError::File { path: path.to_owned(), source };
        let text = serde_json::to_string_pretty(self).expect("a record is plain data");
        let draft = path.with_extension("json.part");
        fs::write(&draft, text + "\n").and_then(|()| fs::rename(&draft, path)).map_err(file)
    }

    /// Takes over what another record has measured of the same points.
    pub fn go_on_from(&mut self, other: Self) {
        self.began = other.began;
        self.contestants = other.contestants;
        for measured in &mut self.points {
            let found = other.points.iter().find(|old| old.point == measured.point);
            if let Some(old) = found {
                measured.repeats.clone_from(&old.repeats);
                measured.timeline.clone_from(&old.timeline);
            }
        }
    }

    /// What a contestant is called.
    pub fn label<'a>(&'a self, contestant: &'a str) -> &'a str {
        self.contestants.get(contestant).map_or(contestant, |entry| entry.label.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Study;

    fn record() -> Record {
        let (job, grid) = Study::find("delay").unwrap().preset("smoke");
        Record::new(vec!["feedline".to_owned()], job, 2, grid.points())
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_half_of_it_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let mut record = record();
        record.points[0].repeats.push(Measurement { seconds: 1.5, ..Measurement::default() });
        record.save(&path).unwrap();
        let read = Record::load(&path).unwrap();
        assert_eq!((&read.points, &read.job), (&record.points, &record.job));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        let error = Record::load(&path).unwrap_err().to_string();
        assert!(error.contains("run.json is not a whole record of feedline bench"), "{error}");
        fs::write(&path, text.replace("\"version\": 1", "\"version\": 9")).unwrap();
        assert!(Record::load(&path).unwrap_err().to_string().contains("version 9, this program reads 1"));
        fs::write(&path, "{}").unwrap();
        assert!(Record::load(&path).unwrap_err().to_string().contains("something else"));
        assert!(Record::load(&folder.path().join("none.json")).is_err());
    }

    #[test]
    fn a_run_goes_on_with_what_was_measured() {
        let mut before = record();
        before.points[3].repeats.push(Measurement::default());
        let mut after = record();
        after.points.remove(0);
        after.go_on_from(before);
        assert_eq!(
            after.points.iter().map(|point| point.repeats.len()).collect::<Vec<_>>()[..4],
            [0, 0, 1, 0]
        );
    }
}
