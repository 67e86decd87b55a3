//! `feedline doctor`: what is unhealthy about this machine, and about a dataset.

use std::{
    ffi::OsString,
    io::{self, Write as _},
};

use clap::Args;
use feedline_bench::doctor::{Finding, Severity, Vitals, examine};

use crate::{Home, bench::runner};

/// The command.
#[derive(Args)]
pub(crate) struct Doctor {
    /// A dataset of your own, as module:name.
    dataset: Option<String>,
    /// Write the findings as JSON to standard output.
    #[arg(long)]
    json: bool,
    /// The interpreter that has the Python package.
    #[arg(long, value_name = "PROGRAM")]
    python: Option<OsString>,
}

impl Doctor {
    /// The exit code is 1 if something will fail.
    pub(crate) fn run(self, home: &Home) -> anyhow::Result<u8> {
        let mut findings = examine(&Vitals::read());
        if let Some(dataset) = &self.dataset {
            findings.extend(runner(home, self.python.clone(), None).doctor(dataset)?);
        }
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let mut out = io::stdout().lock();
        if self.json {
            let document = serde_json::json!({"kind": "feedline-doctor", "version": 1, "findings": findings});
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        } else {
            for finding in &findings {
                show(&mut out, finding)?;
            }
        }
        Ok(u8::from(findings.iter().any(|finding| finding.severity == Severity::Problem)))
    }
}

fn show(out: &mut impl io::Write, finding: &Finding) -> io::Result<()> {
    let severity = match finding.severity {
        Severity::Good => "good",
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Problem => "problem",
    };
    writeln!(out, "{severity:8} {}: {}", finding.about, finding.text)?;
    if !finding.remedy.is_empty() {
        writeln!(out, "         {}", finding.remedy)?;
    }
    Ok(())
}
