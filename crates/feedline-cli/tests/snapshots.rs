//! What the command prints, word for word: a change of it is a change that somebody has looked at.
#![allow(clippy::unwrap_used)] // A test that panics has failed, as it should.

use std::{fs, path::Path};

use assert_cmd::Command;

/// A folder with a record, and half of one.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/delay.json");
    let text = fs::read_to_string(record).unwrap();
    fs::write(folder.path().join("half.json"), &text[..text.len() / 2]).unwrap();
    fs::write(folder.path().join("delay.json"), text).unwrap();
    folder
}

/// What it says and how it ends.
fn feedline(arguments: &[&str]) -> String {
    let folder = folder();
    let mut command = Command::cargo_bin("feedline").unwrap();
    let command = command.args(arguments).current_dir(folder.path());
    let output = command.timeout(std::time::Duration::from_mins(1)).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    format!("exit {}\n{out}{err}", output.status.code().unwrap())
}

#[test]
fn help() {
    insta::assert_snapshot!("help", feedline(&["--help"]));
    for command in ["bench", "tune", "doctor", "report", "data", "engine"] {
        insta::assert_snapshot!(format!("help-{command}"), feedline(&[command, "--help"]));
    }
}

#[test]
fn a_run() {
    insta::assert_snapshot!("run", feedline(&["report", "delay.json", "--text"]));
}

#[test]
fn mistakes() {
    for (name, arguments) in [
        ("no-command", &[][..]),
        ("no-such-study", &["tune", "dealy"]),
        ("no-such-record", &["report", "none.json"]),
        ("half-a-record", &["report", "half.json"]),
        ("no-such-folder", &["report", "delay.json", "--out", "none/report.html"]),
    ] {
        insta::assert_snapshot!(format!("mistake-{name}"), feedline(arguments));
    }
}
