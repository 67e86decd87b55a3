//! When each worker was at what: a ring for each, which the worker writes and the consumer empties.
//!
//! Only a board that is asked for it has one. A worker that finds no room leaves the stretch out and counts it: a
//! consumer that does not look must not hold up the work.

use std::{
    ops::Range,
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
};

use crate::layout::Table;

/// Units that a worker was at, without a break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The ticket.
    pub ticket: u64,
    /// Its units.
    pub units: Range<usize>,
    /// When it began, in nanoseconds of the monotonic clock.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
}

impl Table {
    /// Notes a stretch of a worker; called by that worker only.
    pub(crate) fn note(&self, worker: usize, stretch: &Stretch) {
        let (desk, room) = (self.desk(worker), u64::from(self.head().journal.load(Relaxed)));
        if room == 0 {
            return;
        }
        let written = desk.written.load(Relaxed);
        // Acquire: what the consumer has read, it has read before this overwrites it.
        if written.wrapping_sub(desk.read.load(Acquire)) >= room {
            desk.missed.fetch_add(1, Relaxed);
            return;
        }
        let entry = self.entry(worker, written);
        entry.ticket.store(stretch.ticket, Relaxed);
        entry.units.store((stretch.units.start as u64) << 32 | stretch.units.len() as u64, Relaxed);
        entry.began.store(stretch.began, Relaxed);
        entry.ended.store(stretch.ended, Relaxed);
        desk.written.store(written + 1, Release);
    }

    /// Takes what a worker has noted since the last time, and how often it had no room; called by the consumer.
    pub(crate) fn noted(&self, worker: usize) -> (Vec<Stretch>, u64) {
        let desk = self.desk(worker);
        let (read, room) = (desk.read.load(Relaxed), u64::from(self.head().journal.load(Relaxed)));
        // No more than there can be, whatever the worker has written there.
        let written = desk.written.load(Acquire).min(read + room);
        let stretches = (read..written).map(|number| {
            let entry = self.entry(worker, number);
            let units = entry.units.load(Relaxed);
            let first = (units >> 32) as usize;
            Stretch {
                ticket: entry.ticket.load(Relaxed),
                units: first..first + (units & 0xffff_ffff) as usize,
                began: entry.began.load(Relaxed),
                ended: entry.ended.load(Relaxed),
            }
        });
        let stretches = stretches.collect();
        desk.read.store(written, Release);
        (stretches, desk.missed.swap(0, Relaxed))
    }
}
