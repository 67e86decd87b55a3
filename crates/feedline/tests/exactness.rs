//! The result is a function of the dataset, the seed and the epoch: for every kind of dataset, any number of
//! workers, either order, and from every place that can be saved.
#![allow(clippy::unwrap_used)] // A test that panics has failed, as it should.

mod support;

use feedline::{OnFailure, Spec, State};
use proptest::prelude::*;
use support::{Kind, Numbers, Seen, Wishes};

const WORKERS: [usize; 4] = [0, 1, 2, 7];

#[derive(Clone, Copy, Debug)]
struct Setting {
    batch: usize,
    drop_last: bool,
    shuffle: bool,
    workers: usize,
    in_order: bool,
    prefetch: Option<usize>,
    across: bool,
    shard: (usize, usize),
}

impl Default for Setting {
    fn default() -> Self {
        let (workers, in_order, across, shard) = (0, true, true, (0, 1));
        Self { batch: 4, drop_last: false, shuffle: true, workers, in_order, prefetch: None, across, shard }
    }
}

impl Wishes for Setting {
    fn apply<B>(&self, spec: Spec<B>) -> Spec<B> {
        let spec = spec
            .batch_size(self.batch)
            .drop_last(self.drop_last)
            .shuffle(self.shuffle)
            .seed(5)
            .workers(self.workers)
            .in_order(self.in_order)
            .across_epochs(self.across)
            .shard(self.shard.0, self.shard.1);
        match self.prefetch {
            Some(batches) => spec.prefetch(batches),
            None => spec,
        }
    }
}

fn settings() -> impl Strategy<Value = (Kind, usize, Setting)> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let prefetch = prop::option::of(1usize..5);
    (kind, 1usize..120, 1usize..12, any::<[bool; 4]>(), prefetch, 1usize..4).prop_map(
        |(kind, len, batch, [drop_last, shuffle, across, last_rank], prefetch, world)| {
            // A stream is not shuffled; and at least one whole batch must be there for every rank.
            let len = len.max(world * batch);
            let shard = (if last_rank { world - 1 } else { 0 }, world);
            let shuffle = shuffle && !kind.is_stream();
            let setting =
                Setting { batch, drop_last, shuffle, prefetch, across, shard, ..Setting::default() };
            (kind, len, setting)
        },
    )
}

fn sorted(batches: &[Vec<Seen>]) -> Vec<Vec<Seen>> {
    let mut sorted = batches.to_vec();
    sorted.sort();
    sorted
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_number_of_workers_gives_the_same((kind, len, setting) in settings()) {
        let mut reference = kind.build(Numbers::new(len), &setting);
        let expected = [reference.epoch(), reference.epoch()];
        for workers in WORKERS {
            for in_order in [true, false] {
                let mut loader = kind.build(Numbers::new(len), &Setting { workers, in_order, ..setting });
                for expected in &expected {
                    let epoch = loader.epoch();
                    if in_order {
                        prop_assert_eq!(&epoch, expected, "{} workers", workers);
                    } else {
                        prop_assert_eq!(sorted(&epoch), sorted(expected), "{} workers", workers);
                    }
                }
            }
        }
    }

    #[test]
    fn every_saved_place_gives_the_identical_rest((kind, len, setting) in settings(), in_order: bool) {
        let numbers = Numbers::new(len);
        let mut reference = kind.build(numbers.clone(), &setting);
        let expected = [reference.epoch(), reference.epoch()];
        for done in 0..=expected[0].len() {
            // Saved at one number of workers, resumed at another, through the written form.
            let (before, after) = (WORKERS[done % 4], WORKERS[(done / 4 + 1) % 4]);
            let mut loader = kind.build(numbers.clone(), &Setting { workers: before, in_order, ..setting });
            let first: Vec<Vec<Seen>> = loader.batches(done).into_iter().map(Result::unwrap).collect();
            let saved = loader.state().to_json();
            prop_assert!(saved.len() <= 1024);
            drop(loader);
            let mut loader = kind.build(numbers.clone(), &Setting { workers: after, in_order, ..setting });
            loader.restore(&State::from_json(&saved).unwrap()).unwrap();
            prop_assert_eq!(loader.state().to_json(), saved);
            let rest = loader.epoch();
            if in_order {
                prop_assert_eq!(&rest[..], &expected[0][done..]);
                prop_assert_eq!(&loader.epoch(), &expected[1]);
            } else {
                prop_assert_eq!(sorted(&[first, rest].concat()), sorted(&expected[0]));
                prop_assert_eq!(sorted(&loader.epoch()), sorted(&expected[1]));
            }
        }
    }
}

#[test]
fn an_epoch_that_is_left_early_is_given_up() {
    for kind in Kind::ALL {
        for workers in WORKERS {
            let setting = Setting { workers, shuffle: !kind.is_stream(), ..Setting::default() };
            let mut reference = kind.build(Numbers::new(50), &setting);
            let mut loader = kind.build(Numbers::new(50), &setting);
            let (_, second) = (reference.epoch(), reference.epoch());
            assert_eq!(loader.batches(3).len(), 3);
            assert_eq!(loader.epoch(), second, "{kind:?} at {workers} workers");
        }
    }
}

#[test]
fn a_state_taken_after_the_last_batch_is_at_the_end_of_the_epoch_and_one_after_the_epoch_at_the_next() {
    let setting = Setting { workers: 2, ..Setting::default() };
    let mut loader = Kind::Values.build(Numbers::new(8), &setting);
    let mut reference = Kind::Values.build(Numbers::new(8), &setting);
    let (_, second) = (reference.epoch(), reference.epoch());
    assert_eq!(loader.batches(2).len(), 2);
    let inside = loader.state();
    loader.restore(&inside).unwrap();
    assert_eq!(loader.epoch(), Vec::<Vec<Seen>>::new());
    let after = loader.state();
    let mut other = Kind::Values.build(Numbers::new(8), &setting);
    other.restore(&after).unwrap();
    assert_eq!(other.epoch(), second);
    assert_eq!(loader.epoch(), second);
}

/// Failures are the same whoever loads, and the manifest names them in the order of delivery.
#[test]
fn failures_do_not_depend_on_the_workers() {
    struct Failing(Setting, OnFailure);
    impl Wishes for Failing {
        fn apply<B>(&self, spec: Spec<B>) -> Spec<B> {
            self.0.apply(spec).on_failure(self.1)
        }
    }
    let numbers = Numbers { len: 40, fail: vec![3, 4, 17, 39] };
    for kind in Kind::ALL {
        for policy in [OnFailure::Raise, OnFailure::Skip, OnFailure::Replace { tries: 9 }] {
            let whole = kind.is_stream() || kind == Kind::Batches;
            if whole && matches!(policy, OnFailure::Replace { .. }) {
                continue;
            }
            let shuffle = !kind.is_stream();
            let mut seen = Vec::new();
            for workers in WORKERS {
                let setting = Setting { shuffle, workers, ..Setting::default() };
                let mut loader = kind.build(numbers.clone(), &Failing(setting, policy));
                let batches: Vec<Result<Vec<Seen>, String>> = loader
                    .batches(usize::MAX)
                    .into_iter()
                    .map(|batch| batch.map_err(|e| e.to_string()))
                    .collect();
                seen.push((batches, loader.failures()));
            }
            assert!(seen.iter().all(|other| *other == seen[0]), "{kind:?} {policy:?}: {seen:#?}");
            let (batches, failures) = &seen[0];
            let samples: usize = batches.iter().flatten().map(Vec::len).sum();
            match policy {
                OnFailure::Raise => assert!(batches.iter().any(Result::is_err)),
                OnFailure::Skip if kind == Kind::Batches => assert!(samples <= 36),
                OnFailure::Skip => assert_eq!((samples, failures.len()), (36, 4), "{kind:?}"),
                OnFailure::Replace { .. } => {
                    assert_eq!((samples, failures.len()), (40, 4));
                    assert!(
                        failures.iter().all(|failure| failure.contains("(replaced by sample")),
                        "{failures:?}"
                    );
                }
            }
            assert!(failures.iter().all(|failure| failure.contains("is unlucky")));
        }
    }
}

#[test]
fn the_number_of_workers_may_change_during_an_epoch() {
    let reference = Spec::values(Numbers::new(500)).batch_size(3).shuffle(true).workers(0);
    let expected: Vec<Vec<Seen>> = reference.build().unwrap().epoch().map(Result::unwrap).collect();
    let mut loader = Spec::values(Numbers::new(500)).batch_size(3).shuffle(true).workers(1).build().unwrap();
    let mut epoch = loader.epoch();
    let mut seen = Vec::new();
    for workers in [4, 0, 2, 9, 1].into_iter().cycle() {
        epoch.set_workers(workers).unwrap();
        match epoch.next() {
            Some(batch) => seen.push(batch.unwrap()),
            None => break,
        }
    }
    assert_eq!(seen, expected);
}
