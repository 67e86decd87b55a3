//! The gauges tell what really happened: who waited for whom.
#![allow(clippy::unwrap_used)] // A test that panics has failed, as it should.

mod support;

use std::time::Duration;

use feedline::{BoxError, Dataset, SampleRng, Spec};
use support::{Numbers, within};

/// Samples that take about a millisecond.
struct Slow;

impl Dataset for Slow {
    type Sample = u64;
    fn len(&self) -> usize {
        40
    }
    fn get(&self, index: usize, _: &mut SampleRng) -> Result<u64, BoxError> {
        std::thread::sleep(Duration::from_millis(1));
        Ok(index as u64)
    }
}

const MOST: Duration = Duration::from_mins(1);

#[test]
fn every_sample_and_batch_is_counted_once() {
    within(MOST, || {
        for workers in [0, 1, 3] {
            let spec = Spec::rows(Numbers::new(100)).batch_size(8).workers(workers).across_epochs(false);
            let mut loader = spec.build().unwrap();
            assert_eq!(loader.epoch().count(), 13);
            let gauges = loader.gauges();
            assert_eq!(gauges.workers.len(), workers.max(1));
            assert_eq!(gauges.workers.iter().map(|worker| worker.rows).sum::<u64>(), 100);
            assert_eq!(gauges.consumer.batches, 13);
            assert_eq!((gauges.queue.ready, gauges.queue.in_flight, gauges.queue.bytes), (0, 0, 0));
            assert!(gauges.queue.peak_bytes > 0);
        }
    });
}

#[test]
fn a_consumer_that_is_faster_than_the_workers_waits_for_them() {
    within(MOST, || {
        let mut loader = Spec::values(Slow).batch_size(4).workers(2).across_epochs(false).build().unwrap();
        assert_eq!(loader.epoch().count(), 10);
        let gauges = loader.gauges();
        let filling: Duration = gauges.workers.iter().map(|worker| worker.filling).sum();
        assert!(filling >= Duration::from_millis(40), "{gauges:?}");
        assert!(gauges.queue.row >= Duration::from_millis(1), "{gauges:?}");
        // Whatever the machine does besides, the consumer has had nothing else to do.
        assert!(gauges.consumer.waiting > gauges.consumer.busy, "{gauges:?}");
    });
}

#[test]
fn workers_that_are_faster_than_the_consumer_wait_for_room() {
    within(MOST, || {
        let spec = Spec::rows(Numbers::new(400)).batch_size(4).workers(2).prefetch(2).across_epochs(false);
        let mut loader = spec.build().unwrap();
        let mut epoch = loader.epoch();
        for batch in epoch.by_ref() {
            batch.unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        let gauges = epoch.gauges();
        let room: Duration = gauges.workers.iter().map(|worker| worker.waiting_for_room).sum();
        assert!(room > gauges.consumer.waiting, "{gauges:?}");
        assert!(gauges.consumer.busy >= Duration::from_millis(99), "{gauges:?}");
        assert!(gauges.queue.step >= Duration::from_millis(1), "{gauges:?}");
    });
}
