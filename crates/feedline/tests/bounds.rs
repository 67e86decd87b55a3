//! Memory, threads and descriptors: bounded while running, all gone afterwards.
#![allow(clippy::unwrap_used)] // A test that panics has failed, as it should.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use feedline::{BoxError, Field, Layout, LayoutError, RowMut, Rows, SampleRng, Spec};
use support::{Numbers, within};

const KIB: u64 = 1024;

/// Rows of 64 KiB that take a moment, as real ones do; counts how many have been written.
struct Large(Arc<AtomicUsize>);

impl Rows for Large {
    fn layout(&self) -> Result<Layout, LayoutError> {
        Layout::new([Field::fixed::<u8>("bytes", [64 * 1024])])
    }
    fn len(&self) -> usize {
        240
    }
    fn write(&self, index: usize, _: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        std::thread::sleep(Duration::from_micros(50));
        self.0.fetch_add(1, Ordering::SeqCst);
        row.slice_mut::<u8>(0)?.fill(index as u8);
        Ok(())
    }
}

#[test]
fn a_slow_consumer_never_makes_the_bytes_in_flight_exceed_the_budget() {
    within(Duration::from_mins(1), || {
        let written = Arc::new(AtomicUsize::new(0));
        // A batch is 256 KiB; the budget holds five.
        let spec =
            Spec::rows(Large(Arc::clone(&written))).batch_size(4).workers(3).prefetch_bytes(1300 * KIB);
        let mut loader = spec.build().unwrap();
        let mut epoch = loader.epoch();
        let mut taken = 0;
        while let Some(batch) = epoch.next() {
            taken += batch.unwrap().len();
            // Give the workers every chance to run too far: wait until they have nothing left to do.
            let full = |written: usize| written >= (taken + 5 * 4).min(240);
            while !full(written.load(Ordering::SeqCst)) {
                std::thread::yield_now();
            }
            let queue = epoch.gauges().queue;
            assert!(queue.bytes <= 1300 * KIB && queue.in_flight <= 5, "{queue:?}");
            assert!(written.load(Ordering::SeqCst) <= taken + 5 * 4);
        }
        assert_eq!(taken, 240);
        assert!(epoch.gauges().queue.peak_bytes <= 1300 * KIB);
    });
}

#[test]
fn a_batch_larger_than_the_budget_still_gets_through() {
    within(Duration::from_mins(1), || {
        for workers in [0, 1, 4] {
            let spec = Spec::rows(Large(Arc::default())).batch_size(60).workers(workers).prefetch_bytes(1);
            let mut loader = spec.build().unwrap();
            assert_eq!(loader.epoch().map(|batch| batch.unwrap().len()).sum::<usize>(), 240);
            // And one at a time.
            assert_eq!(loader.gauges().queue.peak_bytes, 60 * 64 * KIB);
        }
    });
}

#[test]
fn batches_that_are_kept_are_never_overwritten_and_the_pool_grows() {
    within(Duration::from_mins(1), || {
        let mut loader = Spec::rows(Large(Arc::default())).batch_size(8).workers(3).build().unwrap();
        for _ in 0..2 {
            let kept: Vec<_> = loader.epoch().map(Result::unwrap).collect();
            for (number, batch) in kept.iter().enumerate() {
                for (row, bytes) in batch.slice::<u8>(0).unwrap().chunks(64 * 1024).enumerate() {
                    assert!(bytes.iter().all(|byte| *byte == (number * 8 + row) as u8));
                }
            }
        }
    });
}

#[test]
fn an_explicit_prefetch_is_the_number_of_batches_begun() {
    within(Duration::from_mins(1), || {
        let written = Arc::new(AtomicUsize::new(0));
        let spec = Spec::rows(Large(Arc::clone(&written))).batch_size(4).workers(3).prefetch(2);
        let mut loader = spec.build().unwrap();
        let mut epoch = loader.epoch();
        let _first = epoch.next().unwrap().unwrap();
        while written.load(Ordering::SeqCst) < 12 {
            std::thread::yield_now();
        }
        assert_eq!(epoch.gauges().queue.in_flight, 2);
        assert_eq!(written.load(Ordering::SeqCst), 12);
    });
}

/// Threads, descriptors and resident pages of this process.
fn footprint() -> (usize, usize, usize) {
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident = pages.split(' ').nth(1).unwrap().parse().unwrap();
    (count("/proc/self/task"), count("/proc/self/fd"), resident)
}

/// In a process of its own, where no other test starts threads.
#[test]
fn ten_thousand_epochs_started_and_left_at_random_leak_nothing() {
    if std::env::var_os("FEEDLINE_TEST_CHILD").is_some() {
        let mut state = 88_172_645_463_325_252u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) % below
        };
        let mut round = |epochs: usize| {
            let mut done = 0;
            while done < epochs {
                let workers = random(4) as usize;
                let numbers = Numbers { len: 64, fail: vec![random(64) as usize] };
                let spec = Spec::rows(numbers).batch_size(4).shuffle(true).workers(workers);
                let mut loader = spec.in_order(random(2) == 0).build().unwrap();
                // Some loaders live through several epochs, each left after a few batches or finished.
                for _ in 0..=random(6) {
                    let mut held = Vec::new();
                    for batch in loader.epoch().take(random(20) as usize) {
                        held.extend(batch.ok().filter(|_| random(3) == 0));
                    }
                    done += 1;
                }
            }
        };
        round(1000);
        let before = footprint();
        round(10_000);
        println!("before {before:?} after {:?}", footprint());
        return;
    }
    within(Duration::from_secs(110), || {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ten_thousand_epochs_started_and_left_at_random_leak_nothing", "--nocapture"])
            .env("FEEDLINE_TEST_CHILD", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.contains("before (")).unwrap_or_else(|| panic!("{text}"));
        let numbers: Vec<usize> =
            line.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
        let [threads, files, pages, threads_after, files_after, pages_after] = numbers[..] else {
            panic!("{line}")
        };
        assert_eq!((threads_after, files_after), (threads, files), "{line}");
        // A leak of one slab or thread stack per hundred epochs would show as more than this.
        assert!(pages_after < pages + 400, "{line}");
    });
}
