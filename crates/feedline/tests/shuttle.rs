//! Groups under shuttle: thousands of schedules of threads that ask for them. A deadlock, a lost wake-up or a group that is
//! loaded twice in any of them fails. Built only with `--cfg shuttle` (`make test-shuttle`).
#![allow(clippy::unwrap_used)] // A test that panics has failed, as it should.
#![cfg(shuttle)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use feedline::Groups;
use shuttle::thread;

fn check(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(test, 3000);
}

/// Runs threads that each take some groups, and waits for them.
fn threads(count: usize, body: impl Fn(usize) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let start = |number| {
        let body = Arc::clone(&body);
        thread::spawn(move || body(number))
    };
    let started: Vec<_> = (0..count).map(start).collect();
    started.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn every_schedule_loads_each_group_once() {
    check(|| {
        let groups = Arc::new(Groups::new(100));
        let shared = Arc::clone(&groups);
        threads(3, move |number| {
            for key in [number % 2, 1 - number % 2] {
                let load = || {
                    thread::yield_now();
                    Ok::<_, ()>(key)
                };
                assert_eq!(*shared.get(key, 10, load).unwrap(), key);
            }
        });
        let counts = groups.counts();
        assert_eq!((counts.loads, counts.hits, counts.bytes), (2, 4, 20));
    });
}

#[test]
fn every_schedule_goes_on_after_a_load_that_fails() {
    check(|| {
        let (groups, tries) = (Arc::new(Groups::new(100)), Arc::new(AtomicUsize::new(0)));
        let (shared, counted) = (Arc::clone(&groups), Arc::clone(&tries));
        threads(3, move |_| {
            let load = || {
                thread::yield_now();
                if counted.fetch_add(1, SeqCst) == 0 { Err(()) } else { Ok(7) }
            };
            let _ = shared.get((), 10, load);
        });
        let counts = groups.counts();
        assert_eq!((tries.load(SeqCst), counts.loads, counts.failures, counts.hits), (2, 1, 1, 1));
    });
}

#[test]
fn a_bound_that_nothing_fits_into_starves_nobody() {
    check(|| {
        let groups = Arc::new(Groups::new(1));
        let shared = Arc::clone(&groups);
        threads(3, move |number| {
            let first = shared.get(number, 10, || Ok::<_, ()>(number)).unwrap();
            let second = shared.get((number + 1) % 3, 10, || Ok::<_, ()>((number + 1) % 3)).unwrap();
            assert_eq!((*first, *second), (number, (number + 1) % 3));
        });
        groups.clear();
        assert_eq!(groups.counts().bytes, 0);
    });
}
