//! A cache in shared memory: what one process has loaded, all of them read in place.
//!
//! ```text
//!  find(key) ─► Kept: somebody has loaded it                         ─► its parts, mapped to be read
//!            ─► Turn: nobody has ─► load ─► keep(parts) ─► Kept      ─► the same; or nothing, if there is no room
//!            ─► Busy: somebody does ─► wait ─► find(key) again
//! ```
//!
//! | noun | what it is |
//! |---|---|
//! | [`Cache`] | entries by their keys, in a bounded amount of memory |
//! | [`Turn`] | the right and the duty to load an entry; others wait for it |
//! | [`Kept`] | an entry that is in use: it stays until the last of these is gone, or the process that has it |
//! | `Table` | where everything lies |
//! | `Locked` | what is done while the lock is held: finding, making room, mending |
//! | `Lock` | the lock, which survives its owner |
//! | `Room` | which pages are taken |
//! | `Process` | who is alive |
//!
//! # What holds whatever happens
//!
//! *A slot's state, its place and the holds on it are the only truth.* The state is one word and is written last; which
//! pages are taken, how many, and how many entries there are follows from the slots. Whoever is given the lock of a dead
//! owner counts anew. Nothing that takes long, no copy and no load, happens under the lock.
//!
//! *A hold is one word for each entry and process.* To let go is one subtraction, without the lock; when a process is found
//! dead, its column is wiped. It is looked for when it matters: when somebody waits for what it loads, or when there is
//! no room.
//!
//! *Who loads may wait, but never in a circle*: a load that would wait for itself, however many others are in between, is
//! refused.

#[allow(clippy::module_inception)] // The noun of this folder.
mod cache;
mod fork;
mod lock;
mod locked;
mod process;
mod room;
mod table;
mod turn;
mod view;

pub use cache::{Busy, Cache, Circular, Found, Kept, Key, Stats};
pub use turn::Turn;
