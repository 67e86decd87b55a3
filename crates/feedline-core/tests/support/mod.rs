//! A small way of loading for the engine's tests: a batch is the list of its samples, and a test can make any
//! sample wait at a gate, fail or panic.
#![allow(dead_code)] // Each test binary uses a part of it.

use std::{
    collections::HashSet,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use feedline_core::{
    BoxError, Engine, Error, Failure, Next, OnFailure, Run, Sampled, Sequential, Settings, Shard, Unit,
    Window, Work,
};

/// Loads nothing: the sample is its number.
#[derive(Clone, Default)]
pub(crate) struct Echo {
    pub gate: Arc<Gate>,
    /// Samples that wait at the gate.
    pub wait: HashSet<usize>,
    pub fail: HashSet<usize>,
    pub panic: HashSet<usize>,
    pub fail_collate: bool,
    /// Workers that cannot start.
    pub no_hand: Option<usize>,
    /// Samples loaded so far.
    pub loaded: Arc<AtomicUsize>,
    pub bytes: u64,
}

/// Where samples wait until a test lets them go.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    /// Waits until so many samples stand at the gate.
    pub(crate) fn until_waiting(&self, count: usize) {
        let mut state = self.state.lock().unwrap();
        while state.0 < count {
            state = self.changed.wait(state).unwrap();
        }
    }

    pub(crate) fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        while !state.1 {
            state = self.changed.wait(state).unwrap();
        }
        state.0 -= 1;
    }
}

impl Work for Echo {
    type Hand = ();
    type Tray = Arc<Mutex<Vec<usize>>>;
    type Batch = Vec<usize>;

    fn unit(&self) -> Unit {
        Unit::Row
    }

    fn hand(&self, worker: usize) -> Result<(), BoxError> {
        if self.no_hand == Some(worker) { Err("no licence".into()) } else { Ok(()) }
    }

    fn estimate(&self, rows: usize) -> u64 {
        self.bytes * rows as u64
    }

    fn size(&self, _batch: &Vec<usize>) -> Option<u64> {
        None
    }

    fn open(&self, whole: &Run<'_>) -> Result<Self::Tray, BoxError> {
        Ok(Arc::new(Mutex::new(vec![usize::MAX; whole.indices.len()])))
    }

    fn fill(&self, _hand: &mut (), tray: &Self::Tray, run: &Run<'_>) -> Vec<Failure> {
        run.each(|row, index, _| {
            if self.wait.contains(&index) {
                self.gate.pass();
            }
            self.loaded.fetch_add(1, Ordering::SeqCst);
            assert!(!self.panic.contains(&index), "sample {index} is cursed");
            if self.fail.contains(&index) {
                return Err("the file is cut short".into());
            }
            tray.lock().unwrap()[row] = index;
            Ok(())
        })
    }

    fn close(&self, tray: Self::Tray, _: &Run<'_>, failed: &[usize]) -> Result<Option<Vec<usize>>, BoxError> {
        if self.fail_collate {
            return Err("shapes differ".into());
        }
        let mut rows = std::mem::take(&mut *tray.lock().unwrap());
        let mut row = 0;
        rows.retain(|_| {
            row += 1;
            !failed.contains(&(row - 1))
        });
        Ok((!rows.is_empty()).then_some(rows))
    }
}

/// Settings with room for everything.
pub(crate) fn settings(workers: usize) -> Settings {
    Settings {
        workers,
        window: Window { batches: 8, run_ahead: false, bytes: u64::MAX },
        in_order: true,
        on_failure: OnFailure::Raise,
        across_epochs: false,
        epochs: None,
        seed: 0,
    }
}

/// An engine over `len` samples in their order, in batches of `batch`.
pub(crate) fn engine(work: Echo, len: usize, batch: usize, settings: &Settings) -> Engine<Echo> {
    let plan = Sampled::new(Arc::new(Sequential(len)), len, batch, false, Shard::whole(), settings.seed);
    Engine::start(work, Box::new(plan), settings).unwrap()
}

/// The rest of the epoch.
pub(crate) fn rest(engine: &mut Engine<Echo>) -> Vec<Result<Vec<usize>, Error>> {
    let mut batches = Vec::new();
    loop {
        match engine.next() {
            Next::Batch(batch) => batches.push(batch),
            Next::EndOfEpoch => return batches,
            Next::NotYet => unreachable!("`next` waits for ever"),
        }
    }
}

/// Runs a test with a time limit: a hang is a failure. The result of the test is handed on.
pub(crate) fn within<T: Send + 'static>(limit: Duration, test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = test();
        let _ = done.send(());
        result
    });
    match wait.recv_timeout(limit) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs: nothing within {limit:?}"),
        // A panic closes the channel, and is handed on here.
        _ => thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)),
    }
}

/// Threads of this process by the names the engine gives them.
pub(crate) fn worker_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("feedline-")).count()
}
