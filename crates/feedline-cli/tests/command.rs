//! The command as a person meets it: its output when piped, and what it says when it is asked wrongly.
#![allow(clippy::unwrap_used)] // A test that panics has failed, as it should.

use assert_cmd::Command;

fn feedline(arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("feedline")
        .unwrap()
        .args(arguments)
        .timeout(std::time::Duration::from_mins(1))
        .assert()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const SMALL: [&str; 8] = [
    "engine",
    "delay",
    "--batches=2",
    "--batch=2",
    "--wait=0.1",
    "--workers=1,2",
    "--shape=3",
    "--repeats=2",
];

#[test]
fn a_study_prints_a_table_and_nothing_else_when_piped() {
    let assert = feedline(&SMALL).success();
    let (out, err) = (text(&assert.get_output().stdout), text(&assert.get_output().stderr));
    assert_eq!(err, "");
    assert!(!out.contains('\u{1b}'), "no colours or cursor movements: {out:?}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "delay: 0.1 ms wait, [3] f32, batch 2 × 2, 2 repeats");
    assert!(lines[2].starts_with("loader    workers"), "{out}");
    let workers: Vec<&str> = lines[3..].iter().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(workers, ["inline", "1", "2"]);
}

#[test]
fn json_is_one_document_with_a_version() {
    let assert = feedline(&[&SMALL[..], &["--json"]].concat()).success();
    let report: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!((&report["version"], &report["study"]), (&1.into(), &"delay".into()));
    assert_eq!(report["rows"].as_array().unwrap().len(), 3);
    assert!(report["rows"][1]["items_per_second"].as_f64().unwrap() > 0.0);
    assert!(report["environment"]["processors"].as_u64().unwrap() > 0);
}

#[test]
fn wrong_arguments_are_explained() {
    for (arguments, expected) in [
        (&["engine", "dealy"][..], "unrecognized subcommand 'dealy'"),
        (&["engine", "delay", "--workers=two"], "invalid value 'two'"),
        (&["engine", "delay", "--wait=-1"], "--wait must be a number of milliseconds, not -1"),
        (&["engine", "delay", "--batches=0"], "--batches must be at least 1"),
        (&["engine", "delay", "--batch=0", "--batches=1"], "the batch size is 0; it must be at least 1"),
        (&["engine", "delay", "--repeats=0"], "--repeats must be at least 1"),
        (&["engine", "overhead", "--rows=0"], "the dataset has no samples"),
        (&["engine", "straggler", "--workers=0"], "--workers must be at least 1"),
    ] {
        let assert = feedline(arguments).failure();
        let err = text(&assert.get_output().stderr);
        assert!(err.contains(expected), "{arguments:?} said {err}");
        assert!(!err.contains("panicked"), "{err}");
    }
}
