//! The `feedline` command: measures data loading on this machine. It only asks, shows and writes; what it
//! measures is in `feedline-bench`.

mod bench;
mod data;
mod doctor;
mod engine;
mod report;
mod show;
mod stop;
mod tune;

use std::{
    ffi::OsString,
    io::{self, Write as _},
};

use clap::{Parser, Subcommand};

/// Measure and understand data loading.
#[derive(Parser)]
#[command(name = "feedline", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare loaders on a study, or on a dataset of your own (module:name).
    Bench(Box<bench::Bench>),
    /// Find the best setting for a dataset and a training step.
    Tune(Box<tune::Tune>),
    /// Say what is unhealthy about this machine and a dataset, and what to do about it.
    Doctor(doctor::Doctor),
    /// Make a page of one or several runs.
    Report(report::Report),
    /// Write the generated data of a study.
    Data(data::Data),
    /// Measure the Rust engine alone.
    Engine(engine::Engine),
    /// Serve one measurement of the engine; what `bench` starts.
    #[command(hide = true)]
    Runner,
}

/// How this program can start itself again, and the interpreter that has the Python package.
pub(crate) struct Home {
    itself: Vec<OsString>,
    python: Option<OsString>,
}

/// Runs the command with these arguments, the first of which is its name. `itself` is a command that starts this
/// program again, `python` an interpreter that has the package. Returns the exit code.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    itself: &[OsString],
    python: Option<OsString>,
) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let home = Home { itself: itself.to_vec(), python };
    let result = match Cli::try_parse_from(&arguments) {
        Ok(cli) => dispatch(cli.command, &home, &arguments),
        Err(error) => {
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    // Inside another program nobody else does.
    let _ = io::stdout().flush();
    match result {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "feedline: {error:#}");
            1
        }
    }
}

fn dispatch(command: Command, home: &Home, arguments: &[OsString]) -> anyhow::Result<u8> {
    match command {
        Command::Bench(bench) => bench.run(home, arguments),
        Command::Tune(tune) => tune.run(home).map(|()| 0),
        Command::Doctor(doctor) => doctor.run(home),
        Command::Report(report) => report.run().map(|()| 0),
        Command::Data(data) => data.run(home).map(|()| 0),
        Command::Engine(engine) => engine.run().map(|()| 0),
        Command::Runner => {
            let mut request = String::new();
            io::stdin().read_line(&mut request)?;
            feedline_bench::serve::serve(&request, &mut io::stdout().lock())?;
            Ok(0)
        }
    }
}
