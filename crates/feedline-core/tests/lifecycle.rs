//! The life-cycle contract of the engine: one test for each clause, of the same name, with a time limit.
#![allow(clippy::unwrap_used)] // A test that panics has failed, as it should.

mod support;

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use feedline_core::{
    Cause, Cursor, Engine, Error, Next, OnFailure, Position, Sampled, Sequential, Shard, What,
};
use support::{Echo, engine, rest, settings, within};

const LIMIT: Duration = Duration::from_secs(20);

fn batch(next: Next<Vec<usize>>) -> Vec<usize> {
    match next {
        Next::Batch(Ok(batch)) => batch,
        other => panic!("no batch but {other:?}"),
    }
}

fn at_epoch(epoch: u64) -> Position {
    Position { at: Cursor::epoch(epoch), delivered: Vec::new() }
}

#[test]
fn epoch_finished() {
    within(LIMIT, || {
        for (workers, across_epochs) in [(0, false), (2, false), (2, true)] {
            let work = Echo::default();
            let mut settings = settings(workers);
            settings.across_epochs = across_epochs;
            let mut engine = engine(work.clone(), 10, 4, &settings);
            for _ in 0..3 {
                let batches: Vec<Vec<usize>> = rest(&mut engine).into_iter().map(Result::unwrap).collect();
                assert_eq!(batches, [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]);
            }
            if !across_epochs {
                assert_eq!(work.loaded.load(Ordering::SeqCst), 30);
            }
        }
    });
}

#[test]
fn the_next_epoch_is_loaded_while_the_consumer_is_in_this_one() {
    within(LIMIT, || {
        // The workers come to sample 0 a second time before the consumer has taken anything.
        let work = Echo { wait: HashSet::from([0]), ..Echo::default() };
        let mut settings = settings(2);
        settings.across_epochs = true;
        let mut engine = engine(work.clone(), 4, 2, &settings);
        engine.begin().unwrap();
        work.gate.until_waiting(2);
        work.gate.open();
        assert_eq!(rest(&mut engine).len(), 2);
    });
}

#[test]
fn sample_failed() {
    within(LIMIT, || {
        for workers in [0, 1, 3] {
            let work = Echo { fail: HashSet::from([5, 7]), ..Echo::default() };
            let mut engine = engine(work, 12, 4, &settings(workers));
            let batches = rest(&mut engine);
            assert_eq!(batches[0].as_ref().unwrap(), &[0, 1, 2, 3]);
            // The first failure of the batch is delivered, whoever was first in time.
            let Err(Error::Sample(failure)) = &batches[1] else { panic!("{batches:?}") };
            assert_eq!(failure.what, What::Sample(5));
            assert_eq!(
                failure.to_string(),
                "sample 5 (row 1 of batch 1, epoch 0) failed: the file is cut short"
            );
            assert_eq!(batches[2].as_ref().unwrap(), &[8, 9, 10, 11]);
            assert_eq!(engine.failures().count, 2);
        }
    });
}

#[test]
fn sample_failed_and_skipped() {
    within(LIMIT, || {
        let work = Echo { fail: HashSet::from([1, 4, 5]), ..Echo::default() };
        let mut settings = settings(2);
        settings.on_failure = OnFailure::Skip;
        let mut engine = engine(work, 6, 2, &settings);
        let batches: Vec<Vec<usize>> = rest(&mut engine).into_iter().map(Result::unwrap).collect();
        // The third batch has nothing left and is not delivered.
        assert_eq!(batches, [vec![0], vec![2, 3]]);
        let failed: Vec<What> =
            engine.failures().failures.iter().map(|failure| failure.what.clone()).collect();
        assert_eq!(failed, [1, 4, 5].map(What::Sample));
    });
}

#[test]
fn sample_failed_and_replaced() {
    within(LIMIT, || {
        let mut seen = Vec::new();
        for workers in [0, 1, 4] {
            let work = Echo { fail: HashSet::from([3]), ..Echo::default() };
            let mut settings = settings(workers);
            settings.on_failure = OnFailure::Replace { tries: 20 };
            let mut engine = engine(work, 8, 4, &settings);
            let batches: Vec<Vec<usize>> = rest(&mut engine).into_iter().map(Result::unwrap).collect();
            let failure = &engine.failures().failures[0];
            assert_eq!((failure.what.clone(), failure.replaced_by), (What::Sample(3), Some(batches[0][3])));
            assert_ne!(batches[0][3], 3);
            seen.push(batches);
        }
        assert!(seen.iter().all(|batches| *batches == seen[0]), "{seen:?}");
    });
}

#[test]
fn consumer_left_early() {
    within(LIMIT, || {
        // Sample 2 is under way and stays so; the consumer leaves all the same.
        let work = Echo { wait: HashSet::from([2]), ..Echo::default() };
        let mut engine = engine(work.clone(), 8, 2, &settings(2));
        assert_eq!(batch(engine.next()), [0, 1]);
        work.gate.until_waiting(1);
        engine.restart(at_epoch(1)).unwrap();
        assert_eq!(engine.position(), at_epoch(1));
        assert_eq!(batch(engine.next()), [0, 1]);
        work.gate.open();
        assert_eq!(rest(&mut engine).len(), 3);
    });
}

#[test]
fn consumer_dropped_the_loader() {
    within(LIMIT, || {
        let work = Echo { wait: HashSet::from([0, 1]), ..Echo::default() };
        let mut engine = engine(work.clone(), 100, 2, &settings(2));
        engine.begin().unwrap();
        work.gate.until_waiting(2);
        let gate = Arc::clone(&work.gate);
        let opener = std::thread::spawn(move || gate.open());
        drop(engine);
        opener.join().unwrap();
        // Workers have ended: nobody holds the work but this test, and only what was under way was loaded
        // (and what a worker could take before it saw the end).
        assert_eq!(Arc::strong_count(&work.loaded), 1);
        assert!(work.loaded.load(Ordering::SeqCst) <= 4);
    });
}

#[test]
fn worker_panicked() {
    within(LIMIT, || {
        for workers in [0, 2] {
            let work = Echo { panic: HashSet::from([0]), ..Echo::default() };
            let mut engine = engine(work, 4, 2, &settings(workers));
            let batches = rest(&mut engine);
            let Err(Error::Sample(failure)) = &batches[0] else { panic!("{batches:?}") };
            assert!(matches!(&failure.cause, Cause::Panic(text) if text == "sample 0 is cursed"));
            assert_eq!(batches[1].as_ref().unwrap(), &[2, 3]);
        }
        let work = Echo { fail_collate: true, ..Echo::default() };
        let batches = rest(&mut engine(work, 4, 2, &settings(2)));
        let errors: Vec<String> = batches.into_iter().map(|batch| batch.unwrap_err().to_string()).collect();
        assert_eq!(errors[1], "putting batch 1 of epoch 0 together failed: shapes differ");
    });
}

#[test]
fn worker_could_not_start() {
    within(LIMIT, || {
        for (workers, broken) in [(0, 0), (1, 0), (3, 1)] {
            let work = Echo { no_hand: Some(broken), ..Echo::default() };
            let mut engine = engine(work, 400, 2, &settings(workers));
            let error = loop {
                if let Next::Batch(Err(error)) = engine.next() {
                    break error;
                }
            };
            assert_eq!(error.to_string(), format!("worker {broken} failed: no licence"));
            assert!(error.is_final());
            // It is not delivered once and then waited on for ever.
            while !matches!(engine.next(), Next::Batch(Err(_))) {}
        }
    });
}

#[test]
fn interrupted() {
    within(LIMIT, || {
        let work = Echo { wait: HashSet::from([1]), ..Echo::default() };
        let mut engine = engine(work.clone(), 4, 2, &settings(2));
        for _ in 0..3 {
            assert!(matches!(engine.next_within(Duration::from_millis(5)), Next::NotYet));
        }
        work.gate.open();
        assert_eq!(batch(engine.next_within(LIMIT)), [0, 1]);
        assert_eq!(batch(engine.next_within(LIMIT)), [2, 3]);
    });
}

/// A process that is killed or interrupted in the middle ends at once, with its threads, and leaves nothing in
/// `/dev/shm` behind.
#[test]
fn process_killed() {
    if std::env::var_os("FEEDLINE_TEST_CHILD").is_some() {
        let _slab = feedline_core::Arena::shared().unwrap().slab(1 << 20).unwrap();
        let work = Echo { wait: HashSet::from([0]), ..Echo::default() };
        let mut engine = engine(work.clone(), 4, 2, &settings(2));
        engine.begin().unwrap();
        work.gate.until_waiting(1);
        println!("loading");
        let _ = engine.next();
        unreachable!("nobody opens the gate");
    }
    within(LIMIT, || {
        use std::{
            io::{BufRead, BufReader},
            os::unix::process::ExitStatusExt,
        };
        let shared_memory = || std::fs::read_dir("/dev/shm").map_or(0, Iterator::count);
        let before = shared_memory();
        for signal in [libc::SIGKILL, libc::SIGINT, libc::SIGTERM] {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "process_killed", "--nocapture"])
                .env("FEEDLINE_TEST_CHILD", "1")
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            assert!(lines.map_while(Result::ok).any(|line| line.contains("loading")));
            // SAFETY: sends a signal to the child just made.
            assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
            assert_eq!(child.wait().unwrap().signal(), Some(signal));
        }
        assert_eq!(shared_memory(), before);
    });
}

#[test]
fn fork_in_the_middle() {
    within(LIMIT, || {
        let work = Echo { wait: HashSet::from([3]), ..Echo::default() };
        let mut engine = engine(work.clone(), 6, 2, &settings(2));
        assert_eq!(batch(engine.next()), [0, 1]);
        work.gate.until_waiting(1);
        // SAFETY: the child calls only the engine, whose clause this is, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused =
                matches!(engine.next(), Next::Batch(Err(error @ Error::Forked { .. })) if error.is_final());
            let begun = engine.begin().is_err() && engine.restart(at_epoch(0)).is_err();
            // None of these may touch a lock that a thread of the parent held at the moment of the fork.
            let (_, _, _) = (engine.position(), engine.gauges(), engine.workers());
            let begun = begun && engine.set_workers(3).is_err();
            drop(engine);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!(refused && begun))) };
        }
        let mut status = 0;
        // SAFETY: waits for the child just made.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child could use the loader, or hung");
        work.gate.open();
        assert_eq!(rest(&mut engine).len(), 2);
    });
}

/// Runs in a process of its own, with so little address space that some threads start and some do not.
#[test]
fn half_built_pool() {
    if std::env::var_os("FEEDLINE_TEST_CHILD").is_some() {
        let stack = 64 << 20;
        let used = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = used.split(' ').next().unwrap().parse().unwrap();
        let limit = pages * rustix::param::page_size() as u64 + 10 * stack;
        let limit = rustix::process::Rlimit { current: Some(limit), maximum: Some(limit) };
        rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
        let plan = Sampled::new(Arc::new(Sequential(4)), 4, 2, false, Shard::whole(), 0);
        let error = Engine::start(Echo::default(), Box::new(plan), &settings(64)).err();
        println!("error: {error:?}, threads left: {}", support::worker_threads());
        return;
    }
    within(LIMIT, || {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "half_built_pool", "--nocapture", "--test-threads=1"])
            .env("FEEDLINE_TEST_CHILD", "1")
            .env("RUST_MIN_STACK", (64u64 << 20).to_string())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("error: Some(Os") && text.contains("threads left: 0"), "{text}");
    });
}

#[test]
fn the_number_of_workers_can_change_at_any_time() {
    within(LIMIT, || {
        let mut engine = engine(Echo::default(), 1000, 7, &settings(1));
        let mut seen = Vec::new();
        for workers in [3, 0, 8, 1, 0, 0, 2, 5].into_iter().cycle() {
            engine.set_workers(workers).unwrap();
            assert_eq!(engine.workers(), workers);
            match engine.next() {
                Next::Batch(batch) => seen.extend(batch.unwrap()),
                Next::EndOfEpoch => break,
                Next::NotYet => unreachable!(),
            }
        }
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        drop(engine);
    });
}

#[test]
fn a_sampler_that_panics_is_an_error_and_not_a_hang() {
    struct Cursed;
    impl feedline_core::Sampler for Cursed {
        fn len(&self) -> usize {
            10
        }
        fn arrange(&self, _: u64, epoch: u64) -> feedline_core::Arrangement {
            assert_eq!(epoch, 0, "only one epoch was agreed");
            Arc::new(|position| position)
        }
        fn name(&self) -> &'static str {
            "cursed"
        }
    }
    within(LIMIT, || {
        for workers in [0, 2] {
            let plan = Sampled::new(Arc::new(Cursed), 10, 4, false, Shard::whole(), 0);
            let mut engine = Engine::start(Echo::default(), Box::new(plan), &settings(workers)).unwrap();
            assert_eq!(rest(&mut engine).len(), 3);
            let Next::Batch(Err(error)) = engine.next() else { panic!("no error") };
            assert!(error.to_string().contains("only one epoch was agreed"), "{error}");
        }
    });
}
