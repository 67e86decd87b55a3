//! A contestant in a process of its own: asked once, it answers with lines of JSON.
//!
//! A fresh process for every measurement means that nothing a contestant leaves behind (warm allocators,
//! imported modules, finished workers) reaches the next one. It leads a process group, so that one that hangs
//! is ended together with its workers.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    doctor::Finding,
    monitor::{Monitor, Processors},
    request::{Job, Measurement, Point, Request, Timeline},
};

/// How often to look whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A loader that can be measured.
#[derive(Clone, Debug, Deserialize)]
pub struct Contestant {
    /// What it is called on the command line.
    pub name: String,
    /// What it is called in tables.
    pub label: String,
    /// The studies it can run.
    pub studies: Vec<String>,
    /// Its version; none if it is not installed.
    pub version: Option<String>,
    /// How to install it.
    pub how: String,
    /// What its workers are.
    pub workers: String,
    /// How its work differs from the reference's, in words that can follow its name.
    #[serde(default)]
    pub differs: String,
}

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The process could not be started.
    #[error("{command} could not be started: {source}")]
    Start {
        /// What was tried.
        command: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The contestant is not there.
    #[error("not installed; {0}")]
    Missing(String),
    /// It said that something went wrong.
    #[error("{0}")]
    Failed(String),
    /// It was asked for what does not exist.
    #[error("{0}")]
    Asked(String),
    /// It ended without an answer.
    #[error("the process ended ({status}) without a result{detail}")]
    Died {
        /// How.
        status: String,
        /// The last line it wrote to the error stream.
        detail: String,
    },
    /// It took too long.
    #[error("no result after {} s; it was stopped", .0.as_secs())]
    Hung(Duration),
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What a process says while it works.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It writes data: so many of so many files.
    Writing(u64, u64),
    /// It has got ready and measures.
    Measuring,
    /// So many batches were taken.
    Batches(u64),
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line {
    State {
        state: String,
        done: Option<u64>,
        of: Option<u64>,
    },
    Batch {
        done: u64,
    },
    Look {},
    Error {
        message: String,
        missing: Option<String>,
        #[serde(default)]
        bad_request: bool,
    },
    Result(serde_json::Map<String, serde_json::Value>),
}

/// Starts contestants.
pub struct Runner {
    /// The command that serves requests for Python's contestants, and the one for those of this program.
    python: Vec<OsString>,
    itself: Vec<OsString>,
    cache: PathBuf,
    /// Set when the user wants to stop.
    stop: &'static AtomicBool,
    limit: Duration,
}

/// The contestant that this program itself is.
pub const ENGINE: &str = "engine";

#[derive(Deserialize)]
struct Listed {
    contestants: Vec<Contestant>,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, serde::Serialize)]
pub struct Check {
    /// Whether the first batch is the same, bit by bit.
    pub same: bool,
    /// The mean absolute difference of its values; none if its shapes differ.
    #[serde(default)]
    pub difference: Option<f64>,
    /// Samples are random, so that only the shapes could be compared, and are the same.
    #[serde(default)]
    pub random: bool,
}

impl Runner {
    /// `python` is an interpreter that has the package, `itself` the command that starts this program.
    pub fn new(python: OsString, itself: Vec<OsString>, cache: PathBuf, stop: &'static AtomicBool) -> Self {
        let python = vec![python, "-m".into(), "feedline.bench.runner".into()];
        Self { python, itself, cache, stop, limit: Duration::from_mins(30) }
    }

    /// The same, which stops a measurement that takes longer.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// All contestants, installed or not.
    pub fn contestants(&self) -> Result<Vec<Contestant>, RunError> {
        let mut command = self.python.clone();
        command.push("--list".into());
        let (listed, _) = self.serve::<Listed>(&command, String::new(), &mut |_| {})?;
        let mut contestants = listed.contestants;
        contestants.push(Contestant {
            name: ENGINE.to_owned(),
            label: "feedline, Rust".to_owned(),
            studies: vec!["delay".to_owned()],
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            how: String::new(),
            workers: "threads".to_owned(),
            differs: String::new(),
        });
        Ok(contestants)
    }

    /// Measures one point once.
    pub fn measure(
        &self,
        job: &Job,
        point: &Point,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Measurement, RunError> {
        let before = Processors::read();
        let (mut measurement, memory) = self.ask::<Measurement>(job, point, "measure", None, tell)?;
        measurement.memory = memory;
        measurement.foreign = before.foreign_since(measurement.process_cpu_s);
        Ok(measurement)
    }

    /// Who is at what when, at one point.
    pub fn timeline(
        &self,
        job: &Job,
        point: &Point,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Timeline, RunError> {
        Ok(self.ask(job, point, "timeline", None, tell)?.0)
    }

    /// Findings about a dataset of the user's.
    pub fn doctor(&self, data: &str) -> Result<Vec<Finding>, RunError> {
        #[derive(Deserialize)]
        struct Found {
            findings: Vec<Finding>,
        }
        let mut command = self.python.clone();
        command.push("--doctor".into());
        let request = serde_json::json!({"study": "own", "contestant": "torch", "data": data});
        Ok(self.serve::<Found>(&command, request.to_string(), &mut |_| {})?.0.findings)
    }

    /// Writes the first batch of a point to a file.
    pub fn keep(
        &self,
        job: &Job,
        point: &Point,
        file: &str,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), RunError> {
        self.ask::<serde::de::IgnoredAny>(job, point, "keep", Some(file), tell).map(drop)
    }

    /// Compares the first batch of a point with that of a file.
    pub fn check(&self, job: &Job, point: &Point, file: &str) -> Result<Check, RunError> {
        Ok(self.ask(job, point, "check", Some(file), &mut |_| {})?.0)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        job: &Job,
        point: &Point,
        mode: &str,
        reference: Option<&str>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(T, crate::request::Memory), RunError> {
        let cache = self.cache.to_string_lossy();
        let request = Request { job, point, cache: &cache, mode, reference, seconds: None, looks: true };
        let request = serde_json::to_string(&request).expect("a request is plain data");
        let command = if point.contestant == ENGINE { &self.itself } else { &self.python };
        self.serve(command, request, tell)
    }

    fn serve<T: DeserializeOwned>(
        &self,
        command: &[OsString],
        request: String,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(T, crate::request::Memory), RunError> {
        let mut process = Served::start(command)?;
        process.ask(&request);
        self.answer(&mut process, tell)
    }

    /// A process that serves one request after the other.
    pub fn session(&self) -> Result<Session<'_>, RunError> {
        let mut command = self.python.clone();
        command.push("--session".into());
        Ok(Session { runner: self, process: Served::start(&command)? })
    }

    fn answer<T: DeserializeOwned>(
        &self,
        process: &mut Served,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(T, crate::request::Memory), RunError> {
        let monitor = Monitor::start(process.child.id());
        let began = Instant::now();
        loop {
            if self.stop.load(Relaxed) {
                return Err(RunError::Interrupted);
            }
            if began.elapsed() > self.limit {
                return Err(RunError::Hung(self.limit));
            }
            let text = match process.lines.recv_timeout(LOOK) {
                Ok(text) => text,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(process.died()),
            };
            match serde_json::from_str(&text) {
                Ok(Line::State { state, done, of }) => tell(match (state.as_str(), done, of) {
                    ("writing", Some(done), Some(of)) => Event::Writing(done, of),
                    ("measuring", ..) => {
                        monitor.forget();
                        Event::Measuring
                    }
                    _ => continue,
                }),
                Ok(Line::Batch { done }) => tell(Event::Batches(done)),
                Ok(Line::Look {}) => {
                    monitor.look();
                    process.ask("");
                }
                Ok(Line::Error { missing: Some(how), .. }) => return Err(RunError::Missing(how)),
                Ok(Line::Error { message, bad_request: true, .. }) => return Err(RunError::Asked(message)),
                Ok(Line::Error { message, .. }) => return Err(RunError::Failed(message)),
                Ok(Line::Result(fields)) => {
                    let memory = monitor.stop();
                    let result = serde_json::from_value(fields.into());
                    let result =
                        result.map_err(|error| RunError::Failed(format!("not understood: {error}")))?;
                    return Ok((result, memory));
                }
                Err(error) => return Err(RunError::Failed(format!("not understood: {error}: {text}"))),
            }
        }
    }
}

/// A process that serves one request after the other: imports are paid for once. What one leaves behind may reach the
/// next; that is for brief looks, not for figures.
pub struct Session<'a> {
    runner: &'a Runner,
    process: Served,
}

impl Session<'_> {
    /// Measures a point for so many seconds.
    pub fn measure(&mut self, job: &Job, point: &Point, seconds: f64) -> Result<Measurement, RunError> {
        let cache = self.runner.cache.to_string_lossy();
        let seconds = Some(seconds);
        let request =
            Request { job, point, cache: &cache, mode: "measure", reference: None, seconds, looks: true };
        self.process.ask(&serde_json::to_string(&request).expect("a request is plain data"));
        let (mut measurement, memory) = self.runner.answer::<Measurement>(&mut self.process, &mut |_| {})?;
        measurement.memory = memory;
        Ok(measurement)
    }
}

/// A process that serves requests. Dropped, it is ended with all that it has started.
struct Served {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
}

impl Served {
    fn start(command: &[OsString]) -> Result<Self, RunError> {
        let failed = |source| RunError::Start { command: command[0].to_string_lossy().into_owned(), source };
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let (send, lines) = channel();
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // Two threads, because a process that finds one of its pipes full waits for ever.
        thread::spawn(move || {
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()) {
                if line.is_err() || line.is_ok_and(|line| send.send(line).is_err()) {
                    break;
                }
            }
        });
        let errors = thread::spawn(move || {
            let lines =
                errors.into_iter().flat_map(|errors| BufReader::new(errors).lines().map_while(Result::ok));
            lines.filter(|line| !line.trim().is_empty()).last().unwrap_or_default()
        });
        Ok(Self { child, input, lines, errors: Some(errors) })
    }

    fn ask(&mut self, request: &str) {
        if let Some(input) = &mut self.input {
            // A process that does not read it has something to say about why.
            let _ = writeln!(input, "{request}");
        }
    }

    fn died(&mut self) -> RunError {
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let last = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
        let detail = if last.is_empty() { last } else { format!(": {last}") };
        RunError::Died { status, detail }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // Gone already, if all is well.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
