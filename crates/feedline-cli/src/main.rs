//! The `feedline` command. What it does is in the library, because Python's package has the same command.

use std::{env, ffi::OsString, process::ExitCode};

fn main() -> ExitCode {
    let itself = env::current_exe().map_or_else(|_| OsString::from("feedline"), Into::into);
    feedline_cli::run(env::args_os(), &[itself], None).into()
}
