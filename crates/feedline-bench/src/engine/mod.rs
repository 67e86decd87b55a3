//! Studies of the engine alone, in this process: what it costs, without Python and without other loaders.
//!
//! | study | what it asks |
//! |---|---|
//! | [`delay`] | do `n` workers hide waiting `n` times as well as one? |
//! | [`files`] | images and tensors: how near is it to what decoding or reading alone takes? |
//! | [`overhead`] | what does the loader itself cost when samples cost nothing? |
//! | [`straggler`] | what does one slow sample cost the others? |
//! | [`volumes`] | packed volumes: how near is it to what inflating alone takes? |

pub mod delay;
pub mod files;
mod measure;
pub mod overhead;
pub mod straggler;
pub mod volumes;

pub use measure::{Measured, measure};

/// Told about every row as it is measured: what is being done, and how far it is in parts of one.
pub type Progress<'a> = dyn FnMut(&str, f64) + 'a;
