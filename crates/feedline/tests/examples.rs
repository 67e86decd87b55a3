//! The examples do what their first paragraph says. They are run as a user runs them, each with a time limit.
//!
//! `cargo test` and `cargo nextest run` build the examples along with the tests. They do not when told which
//! targets to build (`--test`, `--all-targets`): then `cargo build --examples` has to come first.
#![allow(clippy::unwrap_used)] // A test that panics has failed, as it should.

use std::{
    fs,
    io::{self, PipeReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::mpsc,
    thread,
    time::Duration,
};

const LIMIT: Duration = Duration::from_mins(1);

/// The built example of this name, next to the folder that this test was built into.
fn example(name: &str) -> io::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let profile = test.ancestors().nth(2).expect("a test is built into target/<profile>/deps");
    let example = profile.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(example.exists(), "{} is missing; run `cargo build --examples` first", example.display());
    Ok(example)
}

/// Starts an example. What it prints and its errors come through one pipe, so that each stands in its place.
fn start(name: &str, arguments: &[&str]) -> io::Result<(Child, PipeReader)> {
    let (reader, writer) = io::pipe()?;
    // The command goes at the end of this line, and with it our own ends for writing: while one of them is
    // open, a reader finds no end.
    let child =
        Command::new(example(name)?).args(arguments).stdout(writer.try_clone()?).stderr(writer).spawn()?;
    Ok((child, reader))
}

/// All that comes through the pipe. The child has ended when it closes; `None` if that takes too long.
fn read_within(limit: Duration, mut reader: PipeReader) -> Option<io::Result<String>> {
    let (send, printed) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        // Nobody listens any more once the time is up.
        let _ = send.send(reader.read_to_string(&mut text).map(|_| text));
    });
    printed.recv_timeout(limit).ok()
}

/// Runs an example to its end, or kills it at the time limit and fails. Gives what it printed.
fn run(name: &str, arguments: &[&str]) -> io::Result<String> {
    let (mut child, reader) = start(name, arguments)?;
    let Some(printed) = read_within(LIMIT, reader) else {
        child.kill()?;
        child.wait()?;
        panic!("{name} {arguments:?} did not end within {LIMIT:?} and was killed");
    };
    let (printed, status) = (printed?, child.wait()?);
    assert!(status.success(), "{name} {arguments:?} ended with {status}:\n{printed}");
    Ok(printed)
}

#[test]
fn custom_dataset_leaves_the_broken_image_out_and_names_it() {
    let printed = run("custom_dataset", &[]).unwrap();
    for epoch in 0..2 {
        assert!(printed.contains(&format!("epoch {epoch}: 19 batches, 299 images, mean 0.5")), "{printed}");
    }
    let failures: Vec<&str> = printed.lines().filter(|line| line.contains(" failed: ")).collect();
    assert_eq!(failures.len(), 2, "{printed}");
    for (epoch, failure) in failures.iter().enumerate() {
        assert!(failure.contains(&format!("epoch {epoch})")), "{failure}");
        assert!(failure.ends_with("image_123_label_3.raw: 1000 bytes, but an image has 3072"), "{failure}");
    }
    let (_, path) = failures[0].split_once(" failed: ").unwrap();
    let folder = Path::new(path).parent().unwrap();
    assert!(folder.is_absolute() && !folder.exists(), "{} was left behind", folder.display());
}

/// What a run that came to its end prints last.
fn checksum(printed: &str) -> &str {
    let (_, checksum) = printed.split_once("checksum ").unwrap_or_else(|| panic!("no checksum:\n{printed}"));
    assert_eq!(checksum.trim_end().len(), 16, "{printed}");
    checksum
}

#[test]
fn training_loop_resumed_with_other_workers_gives_the_model_of_an_uninterrupted_run() {
    let whole = run("training_loop", &["--workers", "2"]).unwrap();
    // An epoch has 200 batches and every hundredth is saved: the first two runs go on in the middle of an
    // epoch, the last one behind the last batch of one.
    for (stop, epoch, before, after) in [("150", 0, "0", "2"), ("750", 3, "1", "4"), ("850", 3, "3", "0")] {
        let path = std::env::temp_dir().join(format!("feedline-training-loop-{}", std::process::id()));
        let state = path.to_str().unwrap();

        let stopped =
            run("training_loop", &["--state", state, "--stop-after", stop, "--workers", before]).unwrap();
        assert!(stopped.ends_with(&format!("stopped after {stop} batches, as if killed\n")), "{stopped}");

        let resumed = run("training_loop", &["--state", state, "--workers", after]).unwrap();
        assert!(resumed.starts_with(&format!("resuming {state} in epoch {epoch}\n")), "{resumed}");
        assert_eq!(checksum(&resumed), checksum(&whole), "{resumed}");
        fs::remove_file(path).unwrap();
    }
}
