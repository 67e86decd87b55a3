//! Streams, as the engine's [`Work`] and [`Plan`].
//!
//! Batch `b` of an epoch is the next batch of shard `b mod shards`. A shard is read by one worker at a time,
//! in the order of its batches; a worker that comes too early waits for its turn. It cannot wait for ever: the
//! engine gives batches out in order, so the one before it is already with another worker.
//!
//! How long a shard is shows only when it ends. Batches that were asked of it by then come back empty and are
//! not delivered; the epoch is over when all shards have ended. So what is delivered depends on the shards
//! alone. Each epoch, and each change of place, begins with new [`Lanes`]: what is still under way from before
//! keeps the old ones and disturbs nobody.

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use feedline_core::{
    BoxError, Cause, Cursor, Draw, Failure, Plan, PlanError, Run, Shard, Spare, Unit, What, Work,
};

use crate::{Stream, gather::Gather};

/// The shards of one epoch, from one place on.
pub(crate) struct Lanes<R> {
    lanes: Vec<Lane<R>>,
    /// Lanes that have not ended. It only tells the plan when to stop asking, so it orders nothing.
    live: AtomicUsize,
}

/// One shard.
struct Lane<R> {
    shard: usize,
    reading: Mutex<Reading<R>>,
    turn: Condvar,
}

struct Reading<R> {
    reader: Option<R>,
    /// Batches read, and samples, since the beginning of the shard.
    batches: u64,
    samples: u64,
    ended: bool,
}

impl<R> Lanes<R> {
    /// The shards of one rank, behind the first `batch` batches of the epoch.
    fn new(shards: usize, of: Shard, batch_size: usize, batch: u64) -> Arc<Self> {
        let mine: Vec<usize> = (of.rank()..shards).step_by(of.world()).collect();
        let count = mine.len() as u64;
        let lane = |(at, shard): (usize, usize)| {
            let batches = (batch + count - 1 - at as u64) / count;
            let samples = batches * batch_size as u64;
            let reading = Reading { reader: None, batches, samples, ended: false };
            Lane { shard, reading: Mutex::new(reading), turn: Condvar::new() }
        };
        Arc::new(Self {
            live: AtomicUsize::new(mine.len()),
            lanes: mine.into_iter().enumerate().map(lane).collect(),
        })
    }
}

impl<R> Lane<R> {
    /// Waits until this batch of the lane is the next one to be read.
    fn wait_for_turn(&self, batch: u64) -> MutexGuard<'_, Reading<R>> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        while reading.batches < batch && !reading.ended {
            reading = self.turn.wait(reading).unwrap_or_else(PoisonError::into_inner);
        }
        reading
    }
}

/// The lanes of the epoch that is drawn and, while its last batches have not been begun, of the one before;
/// with the epochs they are of. Shared by plan and work.
type Current<R> = Arc<Mutex<Vec<(u64, Arc<Lanes<R>>)>>>;

fn current<R>(lanes: &Current<R>) -> MutexGuard<'_, Vec<(u64, Arc<Lanes<R>>)>> {
    lanes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for batches until every shard has ended.
pub(crate) struct StreamPlan<R> {
    lanes: Current<R>,
    shards: usize,
    of: Shard,
    batch_size: usize,
    at: Cursor,
}

/// Reads shards.
pub(crate) struct Flow<S: Stream, G> {
    stream: S,
    gather: G,
    lanes: Current<S::Reader>,
    batch_size: usize,
    drop_last: bool,
}

impl<S: Stream, G> Flow<S, G> {
    /// The plan and the work for a stream of which there is at least one shard per rank.
    pub(crate) fn new(
        stream: S,
        gather: G,
        of: Shard,
        batch_size: usize,
        drop_last: bool,
    ) -> (StreamPlan<S::Reader>, Self) {
        let shards = stream.shards();
        let lanes: Current<S::Reader> =
            Arc::new(Mutex::new(vec![(0, Lanes::new(shards, of, batch_size, 0))]));
        let plan = StreamPlan { lanes: Arc::clone(&lanes), shards, of, batch_size, at: Cursor::default() };
        (plan, Self { stream, gather, lanes, batch_size, drop_last })
    }
}

impl<R: Send + 'static> Plan for StreamPlan<R> {
    fn draw(&mut self, indices: &mut Vec<usize>) -> Result<Draw, PlanError> {
        let mut lanes = current(&self.lanes);
        if lanes.last().is_some_and(|(_, last)| last.live.load(Ordering::Relaxed) == 0) {
            self.at = Cursor::epoch(self.at.epoch + 1);
            let before_last = lanes.len() - 1;
            lanes.drain(..before_last);
            lanes.push((self.at.epoch, Lanes::new(self.shards, self.of, self.batch_size, 0)));
            return Ok(Draw::EndOfEpoch);
        }
        // Which samples they are shows when they are read.
        indices.resize(self.batch_size, 0);
        self.at.batch += 1;
        self.at.used += 1;
        Ok(Draw::Batch)
    }

    fn cursor(&self) -> Cursor {
        self.at
    }

    fn seek(&mut self, to: Cursor) {
        self.at = to;
        let lanes = Lanes::new(self.shards, self.of, self.batch_size, to.batch);
        *current(&self.lanes) = vec![(to.epoch, lanes)];
    }

    fn spare(&self) -> Option<Spare> {
        None
    }

    fn batches(&self) -> Option<u64> {
        None
    }
}

/// A batch under construction, and how far it was filled.
pub(crate) struct Filling<R, T> {
    lanes: Arc<Lanes<R>>,
    tray: T,
    rows: Arc<Mutex<usize>>,
}

impl<R, T: Clone> Clone for Filling<R, T> {
    fn clone(&self) -> Self {
        Self { lanes: Arc::clone(&self.lanes), tray: self.tray.clone(), rows: Arc::clone(&self.rows) }
    }
}

impl<S: Stream, G: Gather<S::Sample>> Flow<S, G> {
    /// Reads up to a batch of samples; returns how many there were, and the ones that failed.
    fn read(
        &self,
        tray: &G::Tray,
        lane: &Lane<S::Reader>,
        reading: &mut Reading<S::Reader>,
        run: &Run<'_>,
    ) -> (usize, Vec<Failure>) {
        let mut failures = Vec::new();
        let mut fail = |row, number, cause| {
            failures.push(run.failure(What::Streamed { shard: lane.shard, number }, row, cause, None));
        };
        if reading.reader.is_none() {
            match Cause::catch(|| self.stream.open_at(lane.shard, run.epoch, reading.samples)) {
                Ok(reader) => reading.reader = Some(reader),
                Err(cause) => {
                    reading.ended = true;
                    fail(0, reading.samples, cause);
                    return (1, failures);
                }
            }
        }
        let reader = reading.reader.as_mut().expect("was opened just above");
        for row in 0..self.batch_size {
            let number = reading.samples;
            match Cause::catch(|| Ok(reader.next())) {
                Ok(Some(sample)) => {
                    let put = || self.gather.put(tray, row, sample?);
                    if let Err(cause) = Cause::catch(put) {
                        fail(row, number, cause);
                    }
                }
                Ok(None) => {
                    reading.ended = true;
                    return (row, failures);
                }
                // A reader that panicked is not asked again.
                Err(cause) => {
                    reading.ended = true;
                    fail(row, number, cause);
                    return (row + 1, failures);
                }
            }
            reading.samples += 1;
        }
        (self.batch_size, failures)
    }
}

impl<S: Stream, G: Gather<S::Sample>> Work for Flow<S, G> {
    type Hand = ();
    type Tray = Filling<S::Reader, G::Tray>;
    type Batch = G::Batch;

    fn unit(&self) -> Unit {
        Unit::Batch
    }

    fn is_sequential(&self) -> bool {
        true
    }

    fn hand(&self, _worker: usize) -> Result<(), BoxError> {
        Ok(())
    }

    fn estimate(&self, rows: usize) -> u64 {
        self.gather.estimate(rows)
    }

    fn size(&self, batch: &Self::Batch) -> Option<u64> {
        self.gather.size(batch)
    }

    fn open(&self, whole: &Run<'_>) -> Result<Self::Tray, BoxError> {
        let lanes = current(&self.lanes)
            .iter()
            .find(|(epoch, _)| *epoch == whole.epoch)
            .map(|(_, lanes)| Arc::clone(lanes));
        let lanes = lanes.ok_or("this batch is of an epoch that is over")?;
        Ok(Filling { lanes, tray: self.gather.open(whole.indices.len())?, rows: Arc::default() })
    }

    fn fill(&self, _hand: &mut (), filling: &Self::Tray, run: &Run<'_>) -> Vec<Failure> {
        let lanes = &filling.lanes;
        let (round, at) = (run.batch / lanes.lanes.len() as u64, run.batch % lanes.lanes.len() as u64);
        let lane = &lanes.lanes[at as usize];
        let mut reading = lane.wait_for_turn(round);
        if reading.ended {
            return Vec::new();
        }
        let (rows, failures) = self.read(&filling.tray, lane, &mut reading, run);
        reading.batches += 1;
        if reading.ended {
            reading.reader = None;
            lanes.live.fetch_sub(1, Ordering::Relaxed);
        }
        drop(reading);
        lane.turn.notify_all();
        *filling.rows.lock().unwrap_or_else(PoisonError::into_inner) = rows;
        failures
    }

    fn close(
        &self,
        filling: Self::Tray,
        whole: &Run<'_>,
        failed: &[usize],
    ) -> Result<Option<Self::Batch>, BoxError> {
        let rows = *filling.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if rows == 0 || (self.drop_last && rows < self.batch_size) {
            return Ok(None);
        }
        let failed: Vec<usize> =
            failed.iter().copied().filter(|row| *row < rows).chain(rows..self.batch_size).collect();
        self.gather.close(filling.tray, whole, &failed)
    }
}
