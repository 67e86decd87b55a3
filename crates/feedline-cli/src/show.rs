//! What a person sees: a progress bar while measuring, then a table. Piped, there is no bar and no colour.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use feedline_bench::{
    Report,
    plot::short,
    report::{Told, rows},
    request::Point,
    tune::{Candidate, Certainty, Search},
};
use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error; nothing if that is not a terminal.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new() -> Self {
        let style = ProgressStyle::with_template("{msg:28} {wide_bar} {percent:>3} %  {eta} left");
        let bar = ProgressBar::new(1000).with_style(style.expect("the template is a constant"));
        bar.enable_steady_tick(Duration::from_millis(500));
        Self(bar)
    }

    pub(crate) fn set(&self, name: &str, share: f64) {
        if self.0.message() != name {
            self.0.set_message(name.to_owned());
        }
        let position = (share * 1000.0) as u64;
        if self.0.position() != position {
            self.0.set_position(position);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The report as one JSON document.
pub(crate) fn json(report: &Report) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, report)?;
    Ok(writeln!(out)?)
}

/// The report as a table.
pub(crate) fn table(report: &Report) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let environment = &report.environment;
    writeln!(out, "{}: {}", report.study, report.settings)?;
    writeln!(
        out,
        "{} × {}, load {:.2}, feedline {}",
        environment.processors, environment.processor, environment.load, environment.feedline
    )?;
    let mut lines = vec![header(report)];
    lines.extend(report.rows.iter().map(|row| {
        let mut cells = vec![
            row.loader.clone(),
            if row.workers == 0 { "inline".to_owned() } else { row.workers.to_string() },
            grouped(row.items_per_second),
            if row.repeats.len() > 1 { format!("± {:.1} %", row.spread * 100.0) } else { String::new() },
            row.ideal.map_or_else(String::new, grouped),
            row.of_ideal().map_or_else(String::new, |share| format!("{share:.3}")),
            time(row.first_batch),
        ];
        cells.extend(row.extra.iter().map(|(_, value)| format!("{value:.2}")));
        cells
    }));
    write_aligned(&mut out, &lines)
}

/// The figures of a run as a table, and what they say.
pub(crate) fn run(told: &Told) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let (record, environment) = (&told.record, &told.record.environment);
    writeln!(
        out,
        "{}, {} scale, {} repeat{}",
        record.job.name(),
        record.job.scale,
        record.repeats,
        if record.repeats == 1 { "" } else { "s" }
    )?;
    let (count, processor) = (environment.processors, &environment.processor);
    writeln!(out, "{count} × {processor}, load {:.2} before", environment.load)?;
    write_aligned(&mut out, &rows(told))?;
    for remark in told.remarks() {
        writeln!(out, "{remark}")?;
    }
    for (name, entry) in &record.contestants {
        if let Some(why) = &entry.absent {
            writeln!(out, "{name}: {why}")?;
        }
    }
    for measured in &record.points {
        if let Some(error) = &measured.error {
            let label = record.label(&measured.point.contestant);
            writeln!(out, "{}: {error}", feedline_bench::run::describe(label, &measured.point))?;
        }
    }
    let disturbed = told.figures.iter().filter(|one| one.foreign > feedline_bench::summary::FOREIGN).count();
    if disturbed > 0 {
        let most = told.figures.iter().map(|one| one.foreign).fold(0.0, f64::max);
        writeln!(out, "others used up to {} % of the processors at {disturbed} points", short(100.0 * most))?;
    }
    writeln!(out)?;
    for one in &told.advice {
        let because = if one.because.is_empty() { String::new() } else { format!(" ({})", one.because) };
        writeln!(out, "- {}{because}", one.text)?;
    }
    Ok(writeln!(out)?)
}

/// The best setting as the call to paste, what it gains, and how sure that is.
pub(crate) fn tuned(search: &Search) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let ranked = search.ranked();
    let Some(best) = ranked.first() else { return Ok(writeln!(out, "no setting could be measured")?) };
    let torch = search
        .candidates
        .iter()
        .find(|one| one.point.contestant == "torch" && one.point.batch == best.point.batch);
    if best.point.contestant == "torch" {
        writeln!(out, "from torch.utils.data import DataLoader")?;
    } else {
        writeln!(out, "from feedline import DataLoader")?;
    }
    writeln!(out, "DataLoader(dataset, {})\n", arguments(&best.point))?;
    let (rate, first) = (grouped(best.rate()), time(best.first()));
    writeln!(out, "{rate} samples/s, first batch after {first}, {:.0} MB", best.memory())?;
    if let Some(torch) = torch.filter(|torch| torch.rate() > 0.0) {
        let times = best.rate() / torch.rate();
        writeln!(
            out,
            "{times:.2} times torch's default (num_workers=0): {} samples/s",
            grouped(torch.rate())
        )?;
    }
    if let Some(next) = ranked.get(1) {
        let (certainty, next) = (search.certainty(), arguments(&next.point));
        match certainty.apart() {
            Some(apart) if !matches!(certainty, Certainty::Open(_)) => {
                let (word, behind) = (certainty.word(), 100.0 * apart);
                writeln!(out, "{word}: the next best ({next}) is {behind:.0} % slower")?;
            }
            _ => writeln!(out, "{next} is as good; measure longer (--seconds) to tell them apart")?,
        }
    }
    for one in search.candidates.iter().filter(|one| one.out.is_some()) {
        let why = one.out.as_deref().unwrap_or_default();
        writeln!(out, "not {}: {why}", arguments(&one.point))?;
    }
    Ok(())
}

/// The same for machines.
pub(crate) fn tuned_json(search: &Search) -> anyhow::Result<()> {
    let entry = |one: &&Candidate| {
        serde_json::json!({
            "point": one.point, "items_per_s": one.rate(), "first_s": one.first(), "memory_mb": one.memory(),
        })
    };
    let ranked: Vec<_> = search.ranked().iter().map(entry).collect();
    let certainty = search.certainty();
    let document = serde_json::json!({
        "kind": "feedline-tune", "version": 1, "ranked": ranked, "certainty": certainty.word(),
        "next_behind": certainty.apart(),
    });
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &document)?;
    Ok(writeln!(out)?)
}

fn arguments(point: &Point) -> String {
    let threads = if point.contestant == "threads" { ", workers=\"thread\"" } else { "" };
    let prefetch =
        point.prefetch.map_or_else(String::new, |prefetch| format!(", prefetch_factor={prefetch}"));
    format!("batch_size={}, num_workers={}{prefetch}{threads}", point.batch, point.workers)
}

/// Where the report is.
pub(crate) fn ended(report: &std::path::Path, interrupted: bool) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if interrupted {
        writeln!(out, "interrupted; the same command goes on where it was")?;
    }
    Ok(writeln!(out, "report: {}", report.display())?)
}

fn header(report: &Report) -> Vec<String> {
    let fixed = ["loader", "workers", "items/s", "", "ideal", "of ideal", "first batch"];
    let extra = report.rows.first().map(|row| row.extra.iter().map(|(name, _)| name.replace('_', " ")));
    fixed.into_iter().map(str::to_owned).chain(extra.into_iter().flatten()).collect()
}

fn write_aligned(out: &mut impl io::Write, lines: &[Vec<String>]) -> anyhow::Result<()> {
    let columns = lines[0].len();
    // A column without a value in any line but the header is left out.
    let used: Vec<usize> = (0..columns)
        .filter(|at| lines[1..].iter().any(|line| line.get(*at).is_some_and(|cell| !cell.is_empty())))
        .collect();
    let width =
        |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
    for line in lines {
        let cells = used.iter().map(|at| {
            let (cell, width) = (line.get(*at).map_or("", String::as_str), width(*at).unwrap_or(0));
            if *at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// A number with its thousands apart.
fn grouped(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([99.44, 100.0, 1234.5, 12_345_678.0].map(grouped), ["99.4", "100", "1,234", "12,345,678"]);
        assert_eq!([2.5, 0.0123, 0.000_004].map(time), ["2.50 s", "12.3 ms", "4.0 µs"]);
    }
}
