//! Measuring loaders: what is measured, how, and what the figures say. Nothing here prints: the command line does.
//!
//! ```text
//! grid ─► points ─► runner: a fresh process for each ─► record ─► summary ─► advice ─► report
//!                     └ monitor: its memory                 └ plot
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | [`grid`] | the five studies, and which settings they compare |
//! | [`request`] | what is asked of a process, and what it answers |
//! | [`runner`] | a contestant in a process of its own |
//! | [`run`] | all points of a grid, in turns, checked and written down |
//! | [`record`] | the file of a run |
//! | [`summary`] | medians, with spreads that a repetition keeps |
//! | [`work`] | whether contestants do the same work |
//! | [`advice`] | what limits, and what to do about it |
//! | [`doctor`] | what is unhealthy about a machine |
//! | [`tune`] | the best setting in a given time |
//! | [`plot`], [`picture`], [`report`] | a page that opens offline, SVG, PNG, Markdown, CSV |
//! | [`gpu`] | what accelerators did meanwhile |
//! | [`serve`] | the contestant that this program itself is |
//! | [`engine`] | studies of the engine alone, in this process |

pub mod advice;
pub mod doctor;
pub mod engine;
mod environment;
pub mod gpu;
pub mod grid;
mod monitor;
mod noise;
pub mod picture;
pub mod plot;
pub mod record;
pub mod report;
pub mod request;
mod row;
pub mod run;
pub mod runner;
pub mod serve;
pub mod summary;
pub mod tune;
pub mod work;

pub use environment::Environment;
pub use row::{Report, Row, median};
