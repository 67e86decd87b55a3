//! The engine under shuttle: thousands of schedules of its locks, conditions and threads. A deadlock, a lost
//! wake-up or a wrong result in any of them fails. Built only with `--cfg shuttle` (`make test-shuttle`).
#![allow(clippy::unwrap_used)] // A test that panics has failed, as it should.
#![cfg(shuttle)]

use std::sync::{Arc, Mutex};

use feedline_core::{
    Arena, Batch, BoxError, Cursor, Engine, Failure, Field, Layout, Next, OnFailure, Pool, Position, Run,
    Sampled, Sequential, Settings, Shard, Tray, Unit, Window, Work,
};

/// Rows of one number in a slab: both the engine's synchronisation and the trays'.
struct Numbers {
    pool: Pool,
    unit: Unit,
}

impl Work for Numbers {
    type Hand = ();
    type Tray = Arc<Tray>;
    type Batch = Batch;

    fn unit(&self) -> Unit {
        self.unit
    }

    fn hand(&self, _: usize) -> Result<(), BoxError> {
        Ok(())
    }

    fn estimate(&self, rows: usize) -> u64 {
        self.pool.estimate(rows)
    }

    fn size(&self, batch: &Batch) -> Option<u64> {
        Some(batch.bytes() as u64)
    }

    fn open(&self, whole: &Run<'_>) -> Result<Arc<Tray>, BoxError> {
        Ok(self.pool.take(whole.indices.len())?)
    }

    fn fill(&self, (): &mut (), tray: &Arc<Tray>, run: &Run<'_>) -> Vec<Failure> {
        let mut rows = tray.rows(run.rows());
        run.each(|row, index, _| {
            shuttle::thread::yield_now();
            if index == 5 {
                return Err("cut short".into());
            }
            Ok(rows.row(row).write(0, &[index as u64])?)
        })
    }

    fn close(&self, tray: Arc<Tray>, whole: &Run<'_>, failed: &[usize]) -> Result<Option<Batch>, BoxError> {
        Ok(Some(tray.close(&self.pool, whole.indices, failed)?))
    }
}

const LEN: usize = 7;

fn engine(workers: usize, in_order: bool, unit: Unit, budget: u64, across_epochs: bool) -> Engine<Numbers> {
    let layout = Layout::new([Field::fixed::<u64>("n", [])]).unwrap();
    let work = Numbers { pool: Pool::new(layout, Arena::private(), 1 << 20), unit };
    let plan = Sampled::new(Arc::new(Sequential(LEN)), LEN, 2, false, Shard::whole(), 0);
    let settings = Settings {
        workers,
        window: Window { batches: 2, run_ahead: false, bytes: budget },
        in_order,
        on_failure: OnFailure::Skip,
        across_epochs,
        epochs: None,
        seed: 0,
    };
    Engine::start(work, Box::new(plan), &settings).unwrap()
}

fn epoch(engine: &mut Engine<Numbers>) -> Vec<u64> {
    let mut seen = Vec::new();
    loop {
        match engine.next() {
            Next::Batch(batch) => seen.extend_from_slice(batch.unwrap().slice::<u64>(0).unwrap()),
            Next::EndOfEpoch => return seen,
            Next::NotYet => unreachable!(),
        }
    }
}

fn check(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(test, 3000);
}

#[test]
fn every_schedule_delivers_every_row_in_order() {
    check(|| {
        let mut engine = engine(2, true, Unit::Row, 1 << 20, true);
        for _ in 0..2 {
            assert_eq!(epoch(&mut engine), [0, 1, 2, 3, 4, 6]);
        }
    });
}

#[test]
fn every_schedule_delivers_every_row_out_of_order() {
    check(|| {
        let mut engine = engine(3, false, Unit::Row, 1 << 20, false);
        let mut seen = epoch(&mut engine);
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4, 6]);
    });
}

#[test]
fn a_budget_of_one_byte_starves_nobody() {
    check(|| {
        let mut engine = engine(2, true, Unit::Batch, 1, true);
        assert_eq!(epoch(&mut engine), [0, 1, 2, 3, 4, 6]);
    });
}

#[test]
fn leaving_early_and_going_elsewhere_is_clean() {
    check(|| {
        let mut engine = engine(2, true, Unit::Row, 1 << 20, true);
        let _ = engine.next();
        engine
            .restart(Position { at: Cursor { epoch: 3, batch: 2, used: 4 }, delivered: Vec::new() })
            .unwrap();
        assert_eq!(epoch(&mut engine), [4, 6]);
        let _ = engine.next();
        // And dropped in the middle.
    });
}

#[test]
fn the_number_of_workers_can_change_in_any_schedule() {
    check(|| {
        let mut engine = engine(1, true, Unit::Row, 1 << 20, false);
        let mut seen = Vec::new();
        for workers in [2, 0, 3, 1] {
            engine.set_workers(workers).unwrap();
            if let Next::Batch(batch) = engine.next() {
                seen.extend_from_slice(batch.unwrap().slice::<u64>(0).unwrap());
            }
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 6]);
        assert!(matches!(engine.next(), Next::EndOfEpoch));
    });
}

#[test]
fn batches_can_be_kept_and_dropped_by_another_thread() {
    check(|| {
        let mut engine = engine(2, true, Unit::Row, 1 << 20, false);
        let kept = Arc::new(Mutex::new(Vec::new()));
        let dropper = {
            let kept = Arc::clone(&kept);
            shuttle::thread::spawn(move || {
                for _ in 0..3 {
                    shuttle::thread::yield_now();
                    let batch: Option<Batch> = kept.lock().unwrap().pop();
                    drop(batch);
                }
            })
        };
        let mut seen = Vec::new();
        while let Next::Batch(batch) = engine.next() {
            let batch = batch.unwrap();
            seen.extend_from_slice(batch.slice::<u64>(0).unwrap());
            kept.lock().unwrap().push(batch);
        }
        drop(engine);
        dropper.join().unwrap();
        assert_eq!(seen, [0, 1, 2, 3, 4, 6]);
        for batch in kept.lock().unwrap().iter() {
            assert!(batch.slice::<u64>(0).unwrap().iter().all(|number| *number < LEN as u64));
        }
    });
}
