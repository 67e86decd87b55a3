//! Ctrl-C: the first lets the command end what it is doing and show what it has; a second ends it at once.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static STOP: AtomicBool = AtomicBool::new(false);

/// Set when the user wants to stop. Only the first call arranges for that.
pub(crate) fn on_interrupt() -> &'static AtomicBool {
    let handler = || {
        if STOP.swap(true, Relaxed) {
            std::process::exit(130);
        }
    };
    // It fails if there is a handler already: this one, or that of a program around us.
    let _ = ctrlc::set_handler(handler);
    &STOP
}
