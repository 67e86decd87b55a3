//! A loader that chooses the number of its workers.

#![allow(clippy::unwrap_used)]

use std::{thread, time::Duration};

use feedline::{BoxError, Dataset, SampleRng, Spec};

/// Samples that wait and compute nothing.
struct Waits(u64);

impl Dataset for Waits {
    type Sample = u64;
    fn len(&self) -> usize {
        512
    }
    fn get(&self, index: usize, rng: &mut SampleRng) -> Result<u64, BoxError> {
        thread::sleep(Duration::from_millis(self.0));
        Ok(rng.below(1 << 40) ^ index as u64)
    }
}

fn spec(waits: u64) -> Spec<Vec<u64>> {
    Spec::values(Waits(waits)).batch_size(8).shuffle(true).seed(3)
}

#[test]
fn samples_that_wait_get_more_workers_than_there_are_processors() {
    let processors = thread::available_parallelism().unwrap().get();
    let mut loader = spec(5).auto_workers().build().unwrap();
    assert_eq!(loader.workers(), processors);
    // A consumer that does nothing else waits all the time, whatever else the machine does.
    let grew = (0..40).any(|_| {
        loader.epoch().for_each(|batch| drop(batch.unwrap()));
        loader.workers() > processors
    });
    assert!(grew, "there are still {processors} workers");
}

#[test]
fn what_is_loaded_does_not_depend_on_who_chooses_the_workers() {
    let mut fixed = spec(0).workers(2).build().unwrap();
    let mut auto = spec(1).auto_workers().build().unwrap();
    for _ in 0..3 {
        let want: Vec<_> = fixed.epoch().map(Result::unwrap).collect();
        let got: Vec<_> = auto.epoch().map(Result::unwrap).collect();
        assert_eq!(got, want);
    }
}

#[test]
fn a_number_that_is_given_stays() {
    let mut loader = spec(1).auto_workers().build().unwrap();
    loader.set_workers(1).unwrap();
    for _ in 0..3 {
        loader.epoch().for_each(|batch| drop(batch.unwrap()));
    }
    assert_eq!(loader.workers(), 1);
    assert_eq!(spec(1).auto_workers().workers(3).build().unwrap().workers(), 3, "the last word counts");
}
