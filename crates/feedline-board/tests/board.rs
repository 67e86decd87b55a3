//! The board with threads in place of worker processes: who gets what, and what remains of those that die.

#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use feedline_board::{Board, Claim, Commons, Post, Seat, Wake};
use proptest::prelude::*;

const SOON: Duration = Duration::from_secs(20);

fn ticket(units: usize, run: usize) -> Post<'static> {
    Post { units, run, only: None, kind: 0, generation: 0, payload: b"payload", region: None, schema: 0 }
}

fn board(workers: usize) -> (Board, Vec<Seat>) {
    board_with_journal(workers, 0)
}

fn board_with_journal(workers: usize, journal: u16) -> (Board, Vec<Seat>) {
    let board = Board::new(Commons::create().unwrap(), workers, journal).unwrap();
    let seat = |worker| Seat::attach(Arc::clone(board.commons()), board.place(), worker).unwrap();
    let seats = (0..workers).map(seat).collect();
    (board, seats)
}

/// Writes the number of each unit into its byte of the region.
fn fill(seat: &Seat, claim: &Claim) {
    let region = seat.region(claim, claim.of).unwrap().unwrap();
    for unit in claim.units.clone() {
        let byte = seat.commons().at(region.offset() + unit as u64, 1).unwrap();
        // SAFETY: the unit is ours, and so is its byte.
        unsafe { byte.write(unit as u8 + 1) };
    }
}

#[test]
fn the_oldest_ticket_is_given_out_first_and_in_runs() {
    let (mut board, mut seats) = board(2);
    let (first, second) = (board.post(&ticket(5, 2)).unwrap(), board.post(&ticket(1, 1)).unwrap());
    let claims: Vec<_> = (0..4).map(|turn| seats[turn % 2].claim(Duration::ZERO).unwrap()).collect();
    let got: Vec<_> = claims.iter().map(|claim| (claim.ticket, claim.units.clone())).collect();
    assert_eq!(got, [(first, 0..2), (first, 2..4), (first, 4..5), (second, 0..1)]);
    assert!(seats[0].claim(Duration::ZERO).is_none());
    assert_eq!(seats[0].payload(&claims[0]), b"payload");
}

#[test]
fn a_ticket_for_one_worker_is_not_given_to_another() {
    let (mut board, mut seats) = board(2);
    board.post(&Post { only: Some(1), ..ticket(1, 1) }).unwrap();
    let second = board.post(&ticket(1, 1)).unwrap();
    assert_eq!(seats[0].claim(Duration::ZERO).unwrap().ticket, second);
    assert_eq!(seats[1].claim(Duration::ZERO).unwrap().ticket, 0);
}

#[test]
fn the_time_of_first_units_is_counted_apart() {
    let (mut board, mut seats) = board(1);
    board.post(&ticket(4, 3)).unwrap();
    for (units, firsts) in [(0..3, 1), (3..4, 2)] {
        let claim = seats[0].claim(Duration::ZERO).unwrap();
        assert_eq!(claim.units, units);
        units.for_each(|unit| seats[0].at(&claim, unit));
        fill(&seats[0], &claim);
        seats[0].done(&claim, None);
        let gauge = board.gauge(0);
        assert_eq!(gauge.first.1, firsts);
        assert!(gauge.first.0 <= gauge.busy);
    }
}

#[test]
fn a_journal_says_who_was_at_what_and_how_much_it_had_no_room_for() {
    let (mut board, mut seats) = board_with_journal(2, 4);
    let ticket = board.post(&ticket(12, 2)).unwrap();
    let mut before = 0;
    for turn in 0..6 {
        let seat = &mut seats[usize::from(turn == 1)];
        let claim = seat.claim(Duration::ZERO).unwrap();
        seat.done(&claim, None);
    }
    let (own, missed) = board.journal(0);
    assert_eq!(own.iter().map(|one| one.units.clone()).collect::<Vec<_>>(), [0..2, 4..6, 6..8, 8..10]);
    assert_eq!(missed, 1, "five stretches, room for four");
    for one in own {
        assert!(one.ticket == ticket && before <= one.began && one.began <= one.ended);
        before = one.ended;
    }
    assert_eq!(board.journal(1).0[0].units, 2..4);
    assert_eq!((board.journal(0), board.journal(1)), ((vec![], 0), (vec![], 0)), "told once");
    board.post(&self::ticket(1, 1)).unwrap();
    let claim = seats[0].claim(Duration::ZERO).unwrap();
    seats[0].done(&claim, None);
    assert_eq!(board.journal(0).0.len(), 1, "there is room again");
}

#[test]
fn what_a_dead_worker_held_is_given_to_others_and_what_it_had_done_is_not() {
    let (mut board, mut seats) = board(2);
    let ticket = board.post(&ticket(6, 2)).unwrap();
    let done = seats[0].claim(Duration::ZERO).unwrap();
    fill(&seats[0], &done);
    seats[0].done(&done, None);
    let held = seats[0].claim(Duration::ZERO).unwrap();
    seats[0].at(&held, 3);
    let last = seats[1].claim(Duration::ZERO).unwrap();
    fill(&seats[1], &last);
    seats[1].done(&last, None);
    assert!(!board.is_done(ticket));
    let lost = board.lost(0);
    board.reclaim(0);
    assert_eq!(lost.len(), 1);
    assert_eq!((lost[0].first, lost[0].count, lost[0].unit), (2, 2, 3));
    let again = seats[1].claim(Duration::ZERO).unwrap();
    assert_eq!(again.units, 2..4);
    fill(&seats[1], &again);
    seats[1].done(&again, Some((again.units.start as u64, 7)));
    assert_eq!(board.wait(&[ticket], false, SOON), Wake::Done);
    let retired = board.retire(ticket).unwrap();
    assert_eq!(retired.notes, [(2, 2, 7)]);
    let region = retired.region.unwrap();
    // SAFETY: all units are done.
    assert_eq!(unsafe { board.commons().bytes(region.offset(), 6) }.unwrap(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn what_is_given_up_or_revoked_does_not_hold_up_its_ticket() {
    let (mut board, mut seats) = board(1);
    let (first, second) = (board.post(&ticket(2, 1)).unwrap(), board.post(&ticket(3, 1)).unwrap());
    let claim = seats[0].claim(Duration::ZERO).unwrap();
    board.give_up(first, 1, 0); // not held by that worker
    seats[0].done(&claim, None);
    assert!(!board.is_done(first));
    let _held = seats[0].claim(Duration::ZERO).unwrap();
    board.give_up(first, 1, 0);
    assert!(board.is_done(first));
    board.reclaim(0);
    assert!(board.is_done(first));
    board.revoke(second);
    assert!(board.is_done(second));
    assert!(seats[0].claim(Duration::ZERO).is_none());
}

#[test]
fn a_waiting_worker_is_woken_by_a_post_and_by_the_end() {
    let (mut board, mut seats) = board(1);
    let mut seat = seats.pop().unwrap();
    let worker = thread::spawn(move || {
        let mut claimed = 0;
        while !seat.is_over() {
            if let Some(claim) = seat.claim(SOON) {
                seat.done(&claim, None);
                claimed += 1;
            }
        }
        claimed
    });
    for _ in 0..100 {
        let ticket = board.post(&ticket(1, 1)).unwrap();
        board.ring(1);
        assert_eq!(board.wait(&[ticket], false, SOON), Wake::Done);
        board.retire(ticket).unwrap();
    }
    board.stop();
    assert_eq!(worker.join().unwrap(), 100);
}

#[test]
fn nothing_is_missed_if_a_worker_is_woken_only_when_all_sleep() {
    let (mut board, seats) = board(3);
    let workers: Vec<_> = seats
        .into_iter()
        .map(|mut seat| {
            thread::spawn(move || {
                while !seat.is_over() {
                    if let Some(claim) = seat.claim(SOON) {
                        seat.done(&claim, None);
                    }
                }
            })
        })
        .collect();
    for _ in 0..2000 {
        let tickets = [board.post(&ticket(1, 1)).unwrap(), board.post(&ticket(1, 1)).unwrap()];
        board.ring_if_all_sleep();
        for ticket in tickets {
            assert_eq!(board.wait(&[ticket], false, SOON), Wake::Done);
            board.retire(ticket).unwrap();
        }
    }
    board.stop();
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn a_consumer_that_waits_learns_that_workers_have_nothing_to_do() {
    let (mut board, mut seats) = board(2);
    let held = board.post(&ticket(1, 1)).unwrap();
    let mut other = seats.pop().unwrap();
    let claim = seats[0].claim(Duration::ZERO).unwrap();
    let idle = thread::spawn(move || {
        // It says so each time it finds nothing.
        while !other.is_over() {
            let _ = other.claim(Duration::from_millis(5));
        }
    });
    assert_eq!(board.wait(&[held], true, SOON), Wake::Hungry);
    seats[0].done(&claim, None);
    assert_eq!(board.wait(&[held], false, SOON), Wake::Done);
    board.stop();
    idle.join().unwrap();
}

#[test]
fn memory_of_a_board_is_used_again() {
    let commons = Commons::create().unwrap();
    for _ in 0..50 {
        let mut board = Board::new(Arc::clone(&commons), 2, 0).unwrap();
        let mut seat = Seat::attach(Arc::clone(&commons), board.place(), 0).unwrap();
        board.post(&ticket(2, 1)).unwrap();
        let claim = seat.claim(Duration::ZERO).unwrap();
        seat.region(&claim, 10_000).unwrap();
        board.release();
    }
    assert!(commons.unused() < 1 << 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Workers that die at any of their steps, again and again: every unit is done exactly once in the end.
    #[test]
    fn nothing_is_lost_and_nothing_is_done_twice(
        units in 1usize..40,
        run in 1usize..12,
        tickets in 1usize..6,
        deaths in prop::collection::vec((0usize..3, 0u8..3), 0..12),
    ) {
        let (mut board, mut seats) = board(3);
        let posted: Vec<_> = (0..tickets).map(|_| board.post(&ticket(units, run)).unwrap()).collect();
        let mut counts = vec![vec![0; units]; tickets];
        let mut deaths = deaths.into_iter();
        let mut turn = 0;
        while !posted.iter().all(|ticket| board.is_done(*ticket)) {
            turn += 1;
            prop_assert!(turn < 10_000, "it does not end");
            let worker = turn % 3;
            let Some(claim) = seats[worker].claim(Duration::ZERO) else { continue };
            let death = deaths.next().filter(|(at, _)| *at == worker).map(|(_, step)| step);
            if death == Some(0) {
                board.reclaim(worker);
                seats[worker] = Seat::attach(Arc::clone(board.commons()), board.place(), worker).unwrap();
                continue;
            }
            fill(&seats[worker], &claim);
            if death == Some(1) {
                board.reclaim(worker);
                continue;
            }
            let at = posted.iter().position(|ticket| *ticket == claim.ticket).unwrap();
            claim.units.clone().for_each(|unit| counts[at][unit] += 1);
            seats[worker].done(&claim, None);
            if death == Some(2) {
                prop_assert!(board.lost(worker).is_empty());
                board.reclaim(worker);
            }
        }
        prop_assert!(counts.iter().flatten().all(|count| *count == 1));
    }
}

#[test]
fn many_workers_share_many_tickets_without_a_gap() {
    let (mut board, seats) = board(4);
    let done = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = seats
        .into_iter()
        .map(|mut seat| {
            let done = Arc::clone(&done);
            thread::spawn(move || {
                while !seat.is_over() {
                    if let Some(claim) = seat.claim(SOON) {
                        fill(&seat, &claim);
                        done.fetch_add(claim.units.len(), SeqCst);
                        seat.done(&claim, None);
                    }
                }
            })
        })
        .collect();
    let mut queue = std::collections::VecDeque::new();
    for number in 0..3000usize {
        let units = 1 + number % 50;
        queue.push_back((board.post(&ticket(units, 1 + number % 7)).unwrap(), units));
        board.ring(4);
        if queue.len() == 8 {
            take(&mut board, queue.pop_front().unwrap());
        }
    }
    for entry in queue {
        take(&mut board, entry);
    }
    board.stop();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(done.load(SeqCst), (0..3000).map(|number| 1 + number % 50).sum());
}

fn take(board: &mut Board, (ticket, units): (u64, usize)) {
    assert_eq!(board.wait(&[ticket], false, SOON), Wake::Done);
    let region = board.retire(ticket).unwrap().region.unwrap();
    // SAFETY: all units are done.
    let bytes = unsafe { board.commons().bytes(region.offset(), units) }.unwrap();
    assert!(bytes.iter().enumerate().all(|(unit, byte)| *byte == unit as u8 + 1));
    board.commons().give(region);
}

#[test]
fn a_worker_that_is_dismissed_leaves_and_its_seat_is_taken_again() {
    let (mut board, mut seats) = board(2);
    let (place, commons) = (board.place(), Arc::clone(board.commons()));
    let mut leaving = seats.pop().unwrap();
    let mut staying = seats.pop().unwrap();
    let first = board.post(&ticket(4, 2)).unwrap();
    let held = leaving.claim(Duration::ZERO).unwrap();
    board.dismiss(1, true);
    board.set_present(1);
    assert!(leaving.is_over() && !staying.is_over());
    // What it has, it finishes; more it does not get, nor does it wait for any.
    assert!(leaving.claim(SOON).is_none());
    leaving.done(&held, None);
    let rest = staying.claim(Duration::ZERO).unwrap();
    staying.done(&rest, None);
    assert!(board.is_done(first));
    drop(leaving);
    board.dismiss(1, false);
    board.set_present(2);
    let mut another = Seat::attach(commons, place, 1).unwrap();
    board.post(&ticket(1, 1)).unwrap();
    assert!(another.claim(Duration::ZERO).is_some());
    assert_eq!(board.gauge(1).units, 2, "a seat's figures go on with whoever sits there");
}

#[test]
fn a_worker_that_sleeps_is_woken_to_leave() {
    let (board, seats) = board(3);
    let threads: Vec<_> = seats
        .into_iter()
        .map(|mut seat| {
            thread::spawn(move || {
                while !seat.is_over() {
                    assert!(seat.claim(SOON).is_none());
                }
            })
        })
        .collect();
    for (worker, thread) in threads.into_iter().enumerate().rev() {
        board.dismiss(worker, true);
        thread.join().unwrap();
    }
}

#[test]
fn time_of_a_processor_is_counted_apart_from_waiting() {
    let (mut board, mut seats) = board(1);
    let seat = &mut seats[0];
    board.post(&ticket(2, 1)).unwrap();
    let waits = seat.claim(Duration::ZERO).unwrap();
    thread::sleep(Duration::from_millis(20));
    seat.done(&waits, None);
    let gauge = board.gauge(0);
    assert!(gauge.processor < gauge.busy / 2, "{gauge:?}");
    let computes = seat.claim(Duration::ZERO).unwrap();
    let before = used();
    while used().saturating_sub(before) < Duration::from_millis(20) {}
    seat.done(&computes, None);
    let gauge = board.gauge(0);
    assert!(gauge.processor >= Duration::from_millis(20), "{gauge:?}");
}

/// What this thread has used of a processor.
fn used() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
