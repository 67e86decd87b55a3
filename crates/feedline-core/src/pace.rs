//! How many neighbouring rows a worker takes at once.
//!
//! Few rows bring the oldest batch to the consumer sooner, because all workers share it. Many rows cost less
//! (one visit to the scheduler for all of them) and keep neighbours on one worker, whose caches and open files
//! then serve them. So a run is short while the consumer waits, and grows with the time that is left until the
//! consumer will need the batch; and it is never so short that taking it costs as much as doing it.

use std::time::Duration;

/// What is known of the pace of the workers and the consumer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Nanoseconds a row takes, averaged over the recent ones; 0 before the first.
    row: f64,
    /// Nanoseconds the consumer spends between two batches, likewise.
    step: f64,
}

/// The weight of the newest measurement in the averages.
const NEWEST: f64 = 0.125;

/// A run lasts at least this long, if its batch has enough rows: a visit to the scheduler costs a microsecond.
const SHORTEST: Duration = Duration::from_micros(25);

/// And this much longer for every worker, because they visit the same scheduler.
const SHORTEST_PER_WORKER: Duration = Duration::from_micros(2);

impl Pace {
    /// Notes that so many rows took so long.
    pub(crate) fn note_rows(&mut self, rows: usize, spent: Duration) {
        average(&mut self.row, spent.as_nanos() as f64 / rows.max(1) as f64);
    }

    /// Notes that the consumer was busy so long with a batch.
    pub(crate) fn note_step(&mut self, spent: Duration) {
        average(&mut self.step, spent.as_nanos() as f64);
    }

    /// How many of `left` rows to take from a batch that the consumer will get after `ahead` others.
    pub(crate) fn rows(&self, left: usize, ahead: usize, consumer_waits: bool, workers: usize) -> usize {
        if self.row == 0.0 {
            return 1;
        }
        let shortest = SHORTEST.as_nanos() as f64 + SHORTEST_PER_WORKER.as_nanos() as f64 * workers as f64;
        // Half of the time left: the other half is for the batches before this one that are not done either.
        let slack = if consumer_waits { 0.0 } else { self.step * ahead as f64 / 2.0 };
        ((shortest.max(slack) / self.row) as usize).clamp(1, left)
    }

    /// The average time of a row.
    pub(crate) fn row(&self) -> Duration {
        Duration::from_nanos(self.row as u64)
    }

    /// The average time the consumer spends between two batches.
    pub(crate) fn step(&self) -> Duration {
        Duration::from_nanos(self.step as u64)
    }
}

fn average(mean: &mut f64, newest: f64) {
    // A clock that did not move still says that a row takes next to no time.
    let newest = newest.max(1.0);
    *mean = if *mean == 0.0 { newest } else { *mean + NEWEST * (newest - *mean) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(row: Duration, step: Duration) -> Pace {
        let mut pace = Pace::default();
        pace.note_rows(1, row);
        pace.note_step(step);
        pace
    }

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_run_is_one_row_because_nothing_is_known() {
        assert_eq!(Pace::default().rows(64, 0, true, 2), 1);
    }

    #[test]
    fn slow_rows_are_taken_one_by_one_while_the_consumer_waits() {
        assert_eq!(pace(10 * MILLI, MILLI).rows(64, 0, true, 8), 1);
        assert_eq!(pace(10 * MILLI, 1000 * MILLI).rows(64, 3, true, 8), 1);
    }

    #[test]
    fn slow_rows_are_taken_together_while_the_consumer_is_busy() {
        assert_eq!(pace(MILLI, 100 * MILLI).rows(64, 2, false, 8), 64);
        assert_eq!(pace(10 * MILLI, 100 * MILLI).rows(64, 2, false, 8), 10);
    }

    #[test]
    fn tiny_rows_are_taken_together_at_all_times() {
        assert_eq!(pace(Duration::from_nanos(50), Duration::ZERO).rows(64, 0, true, 2), 64);
        assert_eq!(pace(Duration::from_micros(1), Duration::ZERO).rows(64, 0, true, 2), 29);
    }

    #[test]
    fn averages_follow_a_change() {
        let mut pace = pace(MILLI, MILLI);
        (0..40).for_each(|_| pace.note_rows(4, 40 * MILLI));
        assert!(pace.row() > Duration::from_micros(9900));
    }
}
