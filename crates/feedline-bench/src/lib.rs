//! Workloads that measure loaders, and what they measure.
//!
//! A study runs one loader after the other in this process, in an order that mixes the settings, and gives a
//! [`Row`] for each. Nothing here prints: the command line does.
//!
//! | study | what it asks |
//! |---|---|
//! | [`delay`] | do `n` workers hide waiting `n` times as well as one? |
//! | [`overhead`] | what does the loader itself cost when samples cost nothing? |
//! | [`straggler`] | what does one slow sample cost the others? |

pub mod delay;
mod environment;
mod measure;
pub mod overhead;
mod row;
pub mod straggler;

pub use environment::Environment;
pub use measure::{Measured, measure};
pub use row::{Report, Row, median};

/// Told about every row as it is measured: what is being done, and how far it is in parts of one.
pub type Progress<'a> = dyn FnMut(&str, f64) + 'a;
