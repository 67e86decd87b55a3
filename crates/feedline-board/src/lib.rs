//! The board: how worker *processes* take part in loading.
//!
//! Worker processes cannot be called; they can only look. So the consumer posts [tickets](Post) on a
//! [`Board`] in memory that all of them share, and workers take rows from it, fill them in place and mark them
//! as done. Nobody drives anybody: no threads, no queues, no messages, and no lock that a killed process could
//! take with it.
//!
//! ```text
//!  consumer                      shared memory (one memfd)                      workers
//!  post ──────────► ticket: indices, one owner word per row ◄─── CAS free → mine, oldest ticket first
//!                   region: rows of the batch               ◄─── written in place
//!  wait, retire ◄── all owner words say done                ◄─── done; the last one wakes the consumer
//! ```
//!
//! | noun | what it is |
//! |---|---|
//! | [`Commons`] | the memory, mapped whole by every process; anybody may take a fresh [`Extent`] of it |
//! | [`Board`] | the consumer's side: posts, waits, retires, and frees what a dead worker held |
//! | [`Seat`] | a worker's side: claims rows, writes, marks them as done |
//! | [`SeatGauge`] | what a worker is at, and where its time went |
//! | [`Stretch`] | when it was at which rows, if the board keeps a journal |
//!
//! # What holds whatever happens
//!
//! *The owner word of a row is the only truth.* It carries the number of its ticket and a state: free, taken by a
//! worker, done, revoked. A worker owns a row exactly if it has changed its word from free to its own number; the
//! ticket's number in the word makes that fail for a worker that was asleep while the memory was used for
//! another ticket. Everything else in shared memory (counters, flags, who sleeps) is a hint that may be wrong
//! without harm.
//!
//! *A worker may die at any instruction.* The rows it owned still carry its number, and the consumer makes them
//! free again ([`Board::reclaim`]). Rows that it had marked as done were written before that.
//!
//! *Nothing read from shared memory is trusted with the consumer's memory*: offsets and lengths are checked
//! against the mapping.
//!
//! Beside the board, and in memory of its own, lies what datasets keep for all workers: the [`cache`].

mod board;
pub mod cache;
mod commons;
mod copy;
mod futex;
mod journal;
mod layout;
mod seat;

pub use board::{Board, Lost, Post, Retired, SeatGauge, Wake};
pub use commons::{Commons, Extent};
pub use copy::copy_past_caches;
pub use journal::Stretch;
pub use layout::ANY;
pub use seat::{Claim, Seat};
