//! The figures as tables for other programs and for text.

use std::fmt::Write as _;

use super::Told;
use crate::{plot::short, summary::Figures};

/// Names and values of the columns.
pub(super) const HEADS: [&str; 12] = [
    "loader",
    "workers",
    "batch",
    "step",
    "items/s",
    "±",
    "× torch",
    "first batch",
    "wait",
    "wait p99",
    "idle",
    "memory",
];

pub(super) fn cells(told: &Told, one: &Figures) -> [String; 12] {
    let point = &one.point;
    let mut loader = told.record.label(&point.contestant).to_owned();
    // A ratio to other work would be a rank.
    let ranked = told.is_ranked(&point.contestant);
    if !ranked {
        loader.push_str(" (other work)");
    }
    [
        loader,
        point.workers.to_string(),
        point.batch.to_string(),
        if point.step == "none" { String::new() } else { point.step.clone() },
        short(one.items_per_second),
        one.spread.map_or_else(String::new, |spread| format!("{:.0} %", 100.0 * spread)),
        one.against.filter(|_| ranked).map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        seconds(one.first),
        seconds(one.wait / 1e3),
        seconds(one.wait_p99 / 1e3),
        format!("{:.0} %", 100.0 * one.idle),
        if one.memory > 0.0 { format!("{:.0} MB", one.memory) } else { String::new() },
    ]
}

/// A time with a unit that fits.
pub(super) fn seconds(value: f64) -> String {
    match value {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

/// The table as text, its heads first.
pub fn rows(told: &Told) -> Vec<Vec<String>> {
    let heads = HEADS.map(str::to_owned).to_vec();
    std::iter::once(heads).chain(told.figures.iter().map(|one| cells(told, one).to_vec())).collect()
}

/// A table in Markdown, with the run's summary above and what was said below it.
pub fn markdown(told: &Told) -> String {
    let record = &told.record;
    let mut text = format!("# {}: {} {}\n\n", record.job.study, record.job.variant, record.job.scale);
    for sentence in told.summary() {
        let _ = writeln!(text, "{sentence}");
    }
    let _ = writeln!(text, "\n| {} |\n|{}", HEADS.join(" | "), "---|".repeat(HEADS.len()));
    for one in &told.figures {
        let _ = writeln!(text, "| {} |", cells(told, one).join(" | "));
    }
    let _ = writeln!(text);
    for remark in told.remarks() {
        let _ = writeln!(text, "{remark}.\n");
    }
    for one in &told.advice {
        let because = if one.because.is_empty() { String::new() } else { format!(" ({})", one.because) };
        let _ = writeln!(text, "- {}{because}", one.text);
    }
    text
}

/// All figures, one line for each point.
pub fn csv(told: &Told) -> String {
    let mut text = String::from(
        "study,variant,scale,contestant,workers,batch,prefetch,pin,step,repeats,items_per_s,spread,mb_per_s,total_s,first_s,\
         wait_ms,wait_p99_ms,idle,processors,memory_mb,foreign,times_torch,ranked\n",
    );
    let job = &told.record.job;
    for one in &told.figures {
        let point = &one.point;
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            job.study,
            job.variant,
            job.scale,
            point.contestant,
            point.workers,
            point.batch,
            point.prefetch.map_or_else(String::new, |prefetch| prefetch.to_string()),
            point.pin,
            point.step,
            one.repeats,
            one.items_per_second,
            one.spread.map_or_else(String::new, |spread| spread.to_string()),
            one.mb_per_second,
            one.total,
            one.first,
            one.wait,
            one.wait_p99,
            one.idle,
            one.processors,
            one.memory,
            one.foreign,
            one.against.map_or_else(String::new, |ratio| ratio.to_string()),
            told.is_ranked(&point.contestant)
        );
    }
    text
}
