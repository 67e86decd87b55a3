//! The cache with threads, forked processes and deaths.

use std::{
    os::fd::AsFd,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use feedline_board::cache::{Cache, Circular, Found, Kept, Key, Turn};
use proptest::prelude::*;

const PAGE: usize = 4096;

fn key(number: u64) -> Key {
    [number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number]
}

/// What an entry of a key holds.
fn content(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 ^ number).wrapping_mul(31) as u8).collect()
}

fn parts(kept: &Kept) -> Vec<Vec<u8>> {
    let (start, len) = kept.memory();
    // SAFETY: the entry is in use, so nobody writes to it.
    let memory = unsafe { std::slice::from_raw_parts(start, len) };
    kept.parts().iter().map(|(start, len)| memory[*start..*start + *len].to_vec()).collect()
}

fn turn(found: Result<Found, Circular>) -> Turn {
    match found {
        Ok(Found::Turn(turn)) => turn,
        Ok(Found::Kept(_)) => panic!("it is kept"),
        Ok(Found::Busy(_)) => panic!("somebody loads it"),
        Err(Circular) => panic!("it waits for itself"),
    }
}

/// Finds or loads an entry of so many bytes, whoever else does.
fn get(cache: &Arc<Cache>, number: u64, len: usize, load: impl FnOnce()) -> Option<Kept> {
    let mut waited = false;
    loop {
        match cache.find(key(number), None, waited).unwrap_or_else(|_| panic!("no circle")) {
            Found::Kept(kept) => return Some(kept),
            Found::Busy(busy) => cache.wait(busy, Duration::from_millis(50)),
            Found::Turn(turn) => {
                load();
                return turn.keep(&[b"what it is", &content(number, len)]);
            }
        }
        waited = true;
    }
}

/// Bytes behind the file.
fn memory(cache: &Cache) -> u64 {
    rustix::fs::fstat(cache.file().as_fd()).expect("the file is open").st_blocks as u64 * 512
}

/// Runs something in a child that was forked, which then dies without a word.
fn in_a_child(run: impl FnOnce()) {
    // SAFETY: the child does what a signal handler may not, but nobody else runs in this test.
    match unsafe { libc::fork() } {
        0 => {
            run();
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
        }
        child => {
            assert!(child > 0);
            // SAFETY: no status is asked for.
            assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        }
    }
}

#[test]
fn what_one_has_loaded_all_find_in_the_same_memory() {
    let here = Cache::create(1 << 20).unwrap();
    let there = Cache::attach(here.file().try_clone_to_owned().unwrap()).unwrap();
    let kept = get(&here, 1, 10_000, || ()).unwrap();
    let found = get(&there, 1, 0, || panic!("it was loaded before")).unwrap();
    assert_eq!(parts(&found), [b"what it is".to_vec(), content(1, 10_000)]);
    assert_eq!(parts(&found), parts(&kept));
    assert!(found.parts().iter().all(|(start, _)| start % 64 == 0));
    assert!(there.contains(key(1)) && !there.contains(key(2)));
    let stats = there.stats();
    assert_eq!((stats.loads, stats.hits, stats.entries, stats.bytes), (1, 1, 1, 3 * PAGE as u64));
}

#[test]
fn a_crowd_loads_an_entry_once() {
    let cache = Cache::create(1 << 20).unwrap();
    let (loads, barrier) = (AtomicU32::new(0), Barrier::new(8));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                for number in 0..20 {
                    let kept = get(&cache, number, 5000, || {
                        loads.fetch_add(1, SeqCst);
                    });
                    assert_eq!(parts(&kept.unwrap())[1], content(number, 5000));
                }
            });
        }
    });
    assert_eq!(loads.into_inner(), 20);
    let stats = cache.stats();
    assert_eq!((stats.loads, stats.hits, stats.entries), (20, 140, 20));
}

#[test]
fn the_oldest_that_nobody_uses_makes_room() {
    let cache = Cache::create(64 * PAGE as u64).unwrap();
    let entry = 10 * PAGE - 200;
    let held = get(&cache, 0, entry, || ()).unwrap();
    for number in 1..5 {
        drop(get(&cache, number, entry, || ()));
    }
    drop(get(&cache, 1, entry, || panic!("it is still there")));
    drop(get(&cache, 9, 2 * entry, || ()));
    let there: Vec<_> = (0..10).filter(|number| cache.contains(key(*number))).collect();
    assert_eq!(there, [0, 1, 4, 9]);
    assert_eq!(cache.stats().evictions, 2);
    assert_eq!(parts(&held)[1], content(0, entry));
}

#[test]
fn what_is_larger_than_the_cache_or_finds_no_room_is_not_kept() {
    let cache = Cache::create(1 << 20).unwrap();
    assert!(get(&cache, 1, 2 << 20, || ()).is_none());
    assert!(get(&cache, 1, 2 << 20, || ()).is_none());
    let held = get(&cache, 2, 800 << 10, || ()).unwrap();
    drop(get(&cache, 4, 10_000, || ()));
    assert!(get(&cache, 3, 500 << 10, || ()).is_none());
    assert!(cache.contains(key(4)), "nothing is dropped in vain");
    drop(held);
    assert!(get(&cache, 3, 500 << 10, || ()).is_some());
    let stats = cache.stats();
    assert_eq!((stats.too_large, stats.private, stats.loads), (2, 1, 6));
}

#[test]
fn a_load_that_fails_is_the_next_ones() {
    let cache = Cache::create(1 << 20).unwrap();
    let first = turn(cache.find(key(1), None, false));
    let second = thread::scope(|scope| {
        let waits = scope.spawn(|| get(&cache, 1, 100, || ()));
        while cache.stats().waits == 0 {
            thread::yield_now();
        }
        drop(first);
        waits.join().unwrap()
    });
    assert_eq!(parts(&second.unwrap())[1], content(1, 100));
}

#[test]
fn a_load_that_would_wait_for_itself_is_refused() {
    let cache = Cache::create(1 << 20).unwrap();
    let outer = turn(cache.find(key(1), None, false));
    assert!(matches!(cache.find(key(1), Some(&outer), false), Err(Circular)));
    let inner = turn(cache.find(key(2), Some(&outer), false));
    assert!(matches!(cache.find(key(1), Some(&inner), false), Err(Circular)));
    // Another thread, which loads 3, waits for 1; then whoever loads 1 cannot wait for 3.
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let three = turn(cache.find(key(3), None, false));
            assert!(matches!(cache.find(key(1), Some(&three), false), Ok(Found::Busy(_))));
            three
        });
        let three = other.join().unwrap();
        assert!(matches!(cache.find(key(3), Some(&inner), false), Err(Circular)));
        cache.wait_no_more(&three);
        assert!(matches!(cache.find(key(3), Some(&inner), false), Ok(Found::Busy(_))));
    });
}

#[test]
fn what_is_cleared_is_not_found_but_stays_while_it_is_used() {
    let cache = Cache::create(1 << 20).unwrap();
    let held = get(&cache, 1, 50_000, || ()).unwrap();
    drop(get(&cache, 2, 50_000, || ()));
    let loading = turn(cache.find(key(3), None, false));
    cache.clear();
    assert_eq!((cache.stats().entries, cache.contains(key(1))), (0, false));
    assert_eq!(parts(&held)[1], content(1, 50_000));
    let late = loading.keep(&[b"late"]);
    assert_eq!(parts(&late.unwrap()), [b"late"]);
    assert!(!cache.contains(key(3)));
    drop(held);
    cache.clear();
    assert_eq!(cache.stats().bytes, 0);
}

#[test]
fn the_loads_and_holds_of_a_killed_process_end_with_it() {
    let cache = Cache::create(1 << 20).unwrap();
    let there = Arc::clone(&cache);
    in_a_child(move || {
        std::mem::forget(get(&there, 1, 900 << 10, || ()));
        std::mem::forget(turn(there.find(key(2), None, false)));
    });
    assert!(cache.contains(key(1)));
    assert!(get(&cache, 2, 500 << 10, || ()).is_some());
    assert!(!cache.contains(key(1)));
}

#[test]
fn a_child_holds_what_it_has_inherited() {
    let cache = Cache::create(1 << 20).unwrap();
    let kept = get(&cache, 1, 600 << 10, || ()).unwrap();
    let (mut read, mut write) = (0, 0);
    for end in [&mut read, &mut write] {
        // SAFETY: an eventfd is a new descriptor.
        *end = unsafe { libc::eventfd(0, 0) };
    }
    let tell = |end: i32| rustix::io::write(borrowed(end), &1u64.to_ne_bytes()).unwrap();
    let wait = |end: i32| rustix::io::read(borrowed(end), &mut [0; 8]).unwrap();
    cache.before_fork();
    // SAFETY: the child does what a signal handler may not, but nobody else runs in this test.
    let child = unsafe { libc::fork() };
    if child == 0 {
        cache.after_fork_in_child();
        wait(read);
        let fine = parts(&kept)[1] == content(1, 600 << 10);
        drop(kept);
        tell(write);
        wait(read);
        // SAFETY: it ends this process.
        unsafe { libc::_exit(i32::from(!fine)) };
    }
    cache.after_fork_in_parent();
    drop(kept);
    assert!(get(&cache, 2, 600 << 10, || ()).is_none(), "the child uses the memory");
    tell(read);
    wait(write);
    assert!(get(&cache, 2, 600 << 10, || ()).is_some(), "the child has let go");
    tell(read);
    let mut status = -1;
    // SAFETY: the child is ours.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
}

fn borrowed(fd: i32) -> std::os::fd::BorrowedFd<'static> {
    // SAFETY: the descriptor stays open until the process ends.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
}

#[test]
fn other_files_are_refused() {
    let board = feedline_board::Commons::create().unwrap();
    assert!(Cache::attach(board.file().unwrap().try_clone_to_owned().unwrap()).is_err());
    assert!(Cache::create(1 << 50).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn memory_is_bounded_and_entries_keep_their_content(
        max in (100usize..2000).prop_map(|kib| kib << 10),
        steps in prop::collection::vec((0u64..30, any::<prop::sample::Index>(), 0u8..8), 1..120),
    ) {
        let cache = Cache::create(max as u64).unwrap();
        let mut held = Vec::<(u64, Kept)>::new();
        let len = |number: u64| 9000 * (number as usize + 1);
        for (number, which, what) in steps {
            match what {
                0 => cache.clear(),
                1 | 2 if !held.is_empty() => drop(held.swap_remove(which.index(held.len()))),
                _ => {
                    let kept = get(&cache, number, len(number), || ());
                    if what > 4 {
                        held.extend(kept.map(|kept| (number, kept)));
                    }
                }
            }
            prop_assert!(cache.stats().bytes as usize <= max);
            prop_assert!(memory(&cache) as usize <= max, "{} of {max}, {:?}", memory(&cache), cache.stats());
        }
        for (number, kept) in &held {
            prop_assert_eq!(&parts(kept)[1], &content(*number, len(*number)));
        }
        held.clear();
        cache.clear();
        prop_assert_eq!(cache.stats().bytes, 0);
        prop_assert_eq!(cache.stats().entries, 0);
    }
}
