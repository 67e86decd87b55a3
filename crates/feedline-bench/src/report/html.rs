//! One page for one or several runs. It holds everything it shows: no request leaves the file.

use std::fmt::Write as _;

use super::{
    Told,
    table::{HEADS, cells, seconds},
};
use crate::{
    grid::Study,
    plot::{self, Bar, Frame, Series, Span, escape, short},
    request::{Point, Timeline},
    summary::{FOREIGN, Figures},
    work::Work,
};

const PAGE_STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fff;--text:#1c2733;--soft:#5d6b7a;--line:#d8dee6;--card:#f6f8fa;--mark:#d9480f}\
@media(prefers-color-scheme:dark){:root{--paper:#12181f;--text:#e6ebf0;--soft:#9aa7b4;--line:#2c3742;--card:#1a222b;\
--mark:#ff8542}}\
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--text);font:16px/1.55 system-ui,sans-serif}\
main{max-width:72rem;margin:0 auto;padding:1.5rem 1rem 4rem}h1{font-size:1.7rem;margin:.2rem 0}h2{font-size:1.25rem;\
margin:2.4rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--line)}p,li{max-width:52rem}\
.lead{font-size:1.1rem}.soft{color:var(--soft)}.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(30rem,100%),1fr));\
gap:1rem;align-items:start}figure{margin:0;background:var(--card);border-radius:10px;padding:.6rem}figure svg{width:100%;height:auto;display:block}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}th,td{padding:.3rem .7rem;\
text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}th:first-child,td:first-child{text-align:left}th{\
cursor:pointer;user-select:none}tr.best td{font-weight:600;color:var(--mark)}code{background:var(--card);padding:.1em .35em;\
border-radius:4px;font-size:.9em}dl{display:grid;grid-template-columns:fit-content(40%) minmax(0,1fr);gap:.2rem 1rem}dd{margin:0;\
overflow-wrap:anywhere}\
@media(max-width:600px){figure{overflow-x:auto}figure svg{width:30rem}}\
@media print{body{font-size:11pt}h2{break-after:avoid}figure,tr{break-inside:avoid}}";

/// Sorts a table by the column whose head is pressed.
const SCRIPT: &str = "\
document.querySelectorAll('table').forEach(function(table){table.querySelectorAll('th').forEach(function(head,at){\
head.addEventListener('click',function(){var body=table.tBodies[0],rows=Array.from(body.rows),up=head.dataset.up!=='1';\
head.dataset.up=up?'1':'0';rows.sort(function(a,b){var x=a.cells[at].dataset.v||a.cells[at].textContent,\
y=b.cells[at].dataset.v||b.cells[at].textContent,p=parseFloat(x),q=parseFloat(y);\
var order=isNaN(p)||isNaN(q)?x.localeCompare(y):p-q;return up?order:-order;});\
rows.forEach(function(row){body.appendChild(row);});});});});";

/// The page of some runs.
pub fn page(runs: &[Told]) -> String {
    let mut html = String::from("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    let names: Vec<String> = runs.iter().map(|told| told.record.job.name()).collect();
    let _ = write!(
        html,
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>Feedline: {}</title>\
         <style>{PAGE_STYLE}{}</style></head><body><main>",
        escape(&names.join(", ")),
        plot::style()
    );
    for told in runs {
        section(&mut html, told);
    }
    if runs.len() > 1 {
        comparison(&mut html, runs);
    }
    let _ = write!(html, "</main><script>{SCRIPT}</script></body></html>");
    html
}

fn section(html: &mut String, told: &Told) {
    let job = &told.record.job;
    let about = Study::find(&job.study).map_or("", |study| study.about);
    let _ = write!(
        html,
        "<h1>{} <span class=\"soft\">{}</span></h1><p class=\"soft\">{}</p><p class=\"lead\">{}</p>",
        escape(&job.name()),
        escape(&job.scale),
        escape(about),
        escape(&told.summary().join(" "))
    );
    warnings(html, told);
    let _ = write!(html, "<h2>Plots</h2><div class=\"plots\">");
    for svg in plots(told) {
        let _ = write!(html, "<figure>{svg}</figure>");
    }
    let _ = write!(html, "</div><h2>Advice</h2><ul>");
    for one in &told.advice {
        let because = if one.because.is_empty() {
            String::new()
        } else {
            format!(" <span class=\"soft\">{}</span>", escape(&one.because))
        };
        let _ = write!(html, "<li>{}{because}</li>", escape(&one.text));
    }
    let _ = write!(html, "</ul><h2>Figures</h2>");
    table(html, told);
    for remark in told.remarks() {
        let _ = write!(html, "<p class=\"soft\">{}.</p>", escape(&remark));
    }
    published(html, &job.study);
    environment(html, told);
}

fn warnings(html: &mut String, told: &Told) {
    let disturbed = told.figures.iter().filter(|one| one.foreign > FOREIGN).count();
    if disturbed > 0 {
        let most = told.figures.iter().map(|one| one.foreign).fold(0.0, f64::max);
        let _ = write!(
            html,
            "<p>Others used up to {:.0} % of the processors while {disturbed} of {} points were measured; repeat these \
             before you trust them.</p>",
            100.0 * most,
            told.figures.len()
        );
    }
    for (name, entry) in &told.record.contestants {
        if let Some(why) = &entry.absent {
            let _ = write!(html, "<p class=\"soft\">{}: {}</p>", escape(name), escape(why));
        }
    }
    for measured in told.record.points.iter().filter(|measured| measured.error.is_some()) {
        let _ = write!(
            html,
            "<p>{}: {}</p>",
            escape(&crate::run::describe(told.record.label(&measured.point.contestant), &measured.point)),
            escape(measured.error.as_deref().unwrap_or_default())
        );
    }
}

fn table(html: &mut String, told: &Told) {
    let best = told
        .figures
        .iter()
        .filter(|one| told.is_ranked(&one.point.contestant))
        .map(|one| one.items_per_second)
        .fold(0.0, f64::max);
    let _ = write!(html, "<div class=\"wide\"><table><thead><tr>");
    for head in HEADS {
        let _ = write!(html, "<th>{}</th>", escape(head));
    }
    let _ = write!(html, "</tr></thead><tbody>");
    for one in &told.figures {
        let ranked = told.is_ranked(&one.point.contestant);
        let class = if ranked && one.items_per_second == best { " class=\"best\"" } else { "" };
        let _ = write!(html, "<tr{class}>");
        let raw = [
            None,
            None,
            None,
            None,
            Some(one.items_per_second),
            one.spread,
            one.against.filter(|_| ranked),
            Some(one.first),
        ];
        let raw =
            raw.into_iter().chain([Some(one.wait), Some(one.wait_p99), Some(one.idle), Some(one.memory)]);
        for (cell, value) in cells(told, one).iter().zip(raw) {
            let value = value.map_or_else(String::new, |value| format!(" data-v=\"{value}\""));
            let _ = write!(html, "<td{value}>{}</td>", escape(cell));
        }
        let _ = write!(html, "</tr>");
    }
    let _ = write!(html, "</tbody></table></div>");
}

/// The publication's figures, as context: machines differ.
fn published(html: &mut String, study: &str) {
    let Some(study) = Study::find(study) else { return };
    let _ = write!(
        html,
        "<h2>Published</h2><p class=\"soft\">On another machine: {}.</p>",
        escape(study.published_as)
    );
    if study.published.is_empty() {
        return;
    }
    let _ = write!(html, "<div class=\"wide\"><table><thead><tr><th>workers</th>");
    for (workers, _) in study.published {
        let _ = write!(html, "<th>{workers}</th>");
    }
    let _ = write!(html, "</tr></thead><tbody><tr><td>torch, samples/s</td>");
    for (_, rate) in study.published {
        let _ = write!(html, "<td>{}</td>", short(*rate));
    }
    let _ = write!(html, "</tr></tbody></table></div>");
}

fn environment(html: &mut String, told: &Told) {
    let record = &told.record;
    let environment = &record.environment;
    let _ = write!(html, "<h2>Where and how</h2><dl>");
    let mut entry = |name: &str, value: String| {
        let _ = write!(html, "<dt class=\"soft\">{name}</dt><dd>{}</dd>", escape(&value));
    };
    entry("command", record.command.join(" "));
    entry("processor", format!("{} × {}", environment.processors, environment.processor));
    entry("memory", format!("{} MiB", environment.memory_mib));
    entry("kernel", environment.kernel.clone());
    entry("load before", format!("{:.2}", environment.load));
    entry("repeats", record.repeats.to_string());
    for (name, contestant) in &record.contestants {
        if let Some(version) = &contestant.version {
            let seen = Work::of(record, name).seen();
            entry(&escape(&contestant.label), format!("{version}, {seen}"));
        }
    }
    let _ = write!(html, "</dl>");
}

/// All plots of a run.
pub fn plots(told: &Told) -> Vec<String> {
    let mut plots = Vec::new();
    let mut batches: Vec<usize> = told.figures.iter().map(|one| one.point.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    for batch in &batches {
        let of_batch: Vec<&Figures> = told.figures.iter().filter(|one| one.point.batch == *batch).collect();
        let size = format!("batch {batch}");
        plots.push(against_workers(told, &of_batch, &format!("Throughput, {size}"), "samples/s", &|one| {
            (one.items_per_second, one.spread.unwrap_or(0.0) * one.items_per_second)
        }));
        plots.push(against_workers(told, &of_batch, &format!("Duration, {size}"), "s", &|one| {
            (one.total, one.spread.unwrap_or(0.0) * one.total)
        }));
    }
    plots.push(best_bars(told));
    if let Some(batch) = batches.last() {
        plots.push(waits(told, *batch));
        let of_batch: Vec<&Figures> = told.figures.iter().filter(|one| one.point.batch == *batch).collect();
        let first = format!("Time to the first batch, batch {batch}");
        plots.push(against_workers(told, &of_batch, &first, "s", &|one| (one.first, 0.0)));
        plots.push(against_workers(told, &of_batch, "Processors in use", "processors", &|one| {
            (one.processors, 0.0)
        }));
        plots.push(against_workers(told, &of_batch, "Memory of all processes", "MB", &|one| {
            (one.memory, 0.0)
        }));
    }
    plots.extend(stages(told));
    plots.extend(timelines(told));
    if batches.len() > 1 {
        for name in told.contestants() {
            plots.push(heat(told, name, &batches));
        }
    }
    plots
}

fn colour(told: &Told, name: &str) -> usize {
    told.contestants().iter().position(|known| *known == name).unwrap_or(0)
}

fn against_workers(
    told: &Told,
    figures: &[&Figures],
    title: &str,
    unit: &str,
    value: &dyn Fn(&Figures) -> (f64, f64),
) -> String {
    let plain =
        |one: &&&Figures| one.point.step == figures.first().map_or("none", |first| first.point.step.as_str());
    let mut series: Vec<Series> = Vec::new();
    for name in told.contestants() {
        let own = figures.iter().filter(plain).filter(|one| one.point.contestant == name);
        let points = own.map(|one| {
            let (middle, around) = value(one);
            (one.point.workers as f64, middle, middle - around, middle + around)
        });
        let points: Vec<_> = points.collect();
        if !points.is_empty() {
            series.push(Series {
                name: told.record.label(name).to_owned(),
                colour: colour(told, name),
                points,
                ideal: false,
            });
        }
    }
    if told.record.job.study == "delay" && unit == "samples/s" {
        series.extend(ideal(figures));
    }
    let frame = Frame { title: title.to_owned(), x: "workers".to_owned(), y: unit.to_owned() };
    plot::lines(&frame, &series)
}

/// Workers × the rate without workers.
fn ideal(figures: &[&Figures]) -> Option<Series> {
    let inline = figures
        .iter()
        .filter(|one| one.point.workers == 0)
        .map(|one| one.items_per_second)
        .reduce(f64::max)?;
    let mut workers: Vec<usize> = figures.iter().map(|one| one.point.workers).collect();
    workers.sort_unstable();
    workers.dedup();
    let points = workers.into_iter().map(|n| {
        let rate = inline * n.max(1) as f64;
        (n as f64, rate, rate, rate)
    });
    Some(Series { name: "ideal".to_owned(), colour: 0, points: points.collect(), ideal: true })
}

fn best_bars(told: &Told) -> String {
    let bars: Vec<Bar> = told
        .contestants()
        .into_iter()
        .filter_map(|name| {
            let own = told.figures.iter().filter(|one| one.point.contestant == name);
            let best = own.max_by(|a, b| a.items_per_second.total_cmp(&b.items_per_second))?;
            let torch = told.figures.iter().filter(|one| one.point.contestant == "torch");
            let torch = torch.map(|one| one.items_per_second).fold(0.0, f64::max);
            let ranked = told.is_ranked(name);
            let more = if torch > 0.0 && name != "torch" && ranked {
                format!(", {:+.0} %", 100.0 * (best.items_per_second / torch - 1.0))
            } else {
                String::new()
            };
            let other = if ranked { "" } else { ", other work" };
            Some(Bar {
                name: told.record.label(name).to_owned(),
                colour: colour(told, name),
                value: best.items_per_second,
                note: format!("{}{more}{other}", short(best.items_per_second)),
            })
        })
        .collect();
    let frame = Frame {
        title: "Samples/s at the best setting of each, against torch's".to_owned(),
        ..Frame::default()
    };
    plot::bars(&frame, &bars)
}

/// The wait for each batch, at the most workers of the grid.
fn waits(told: &Told, batch: usize) -> String {
    let all = told.record.points.iter().filter(|one| one.point.batch == batch && !one.repeats.is_empty());
    // One line for each contestant: of several steps, the first.
    let step = all.clone().next().map_or("", |one| one.point.step.as_str());
    let points = || all.clone().filter(|one| one.point.step == step);
    let workers = points().map(|one| one.point.workers).max().unwrap_or(0);
    let series: Vec<Series> = points()
        .filter(|one| one.point.workers == workers)
        .filter_map(|one| {
            let epoch = one.repeats.last()?.epochs.first()?;
            let points = epoch.waits_ms.iter().enumerate().take(60);
            Some(Series {
                name: told.record.label(&one.point.contestant).to_owned(),
                colour: colour(told, &one.point.contestant),
                points: points.map(|(at, wait)| ((at + 1) as f64, *wait, *wait, *wait)).collect(),
                ideal: false,
            })
        })
        .collect();
    let title = format!("Wait for each batch, {workers} workers, batch {batch}");
    plot::lines(&Frame { title, x: "batch".to_owned(), y: "ms".to_owned() }, &series)
}

/// Every timeline: what each worker loaded when, above the consumer's waits and steps.
fn timelines(told: &Told) -> Vec<String> {
    let with = told.record.points.iter().filter_map(|one| Some((&one.point, one.timeline.as_ref()?)));
    // One scale for all contestants of a step, so that they can be compared by eye.
    let length = |step: &str| {
        let same = with.clone().filter(|(point, _)| point.step == step);
        same.map(|(_, timeline)| timeline.epoch.total_s).fold(0.0, f64::max)
    };
    let draw = |(point, timeline): (&Point, &Timeline)| {
        let mut lanes: Vec<(String, Vec<Span>)> =
            timeline.lanes.iter().enumerate().map(worker_lane).collect();
        lanes.push(("consumer".to_owned(), consumer_lane(timeline)));
        let title = crate::run::describe(told.record.label(&point.contestant), point);
        let frame = Frame { title, x: "s".to_owned(), y: String::new() };
        plot::timeline(&frame, &lanes, length(&point.step))
    };
    with.clone().map(draw).collect()
}

/// A worker's pieces, neighbouring batches in different colours.
fn worker_lane((worker, pieces): (usize, &Vec<(f64, f64, u64, u64)>)) -> (String, Vec<Span>) {
    let span = |(from, to, batch, samples): &(f64, f64, u64, u64)| Span {
        from: *from,
        to: *to,
        colour: 1 + (*batch % 7) as usize,
        name: format!("batch {}, {samples} samples", batch + 1),
    };
    (format!("worker {worker}"), pieces.iter().map(span).collect())
}

fn consumer_lane(timeline: &Timeline) -> Vec<Span> {
    let (mut spans, mut at) = (Vec::new(), 0.0);
    for (batch, wait) in timeline.epoch.waits_ms.iter().enumerate() {
        let waited = at + wait / 1e3;
        let stepped = waited + timeline.epoch.steps_ms.get(batch).copied().unwrap_or(0.0) / 1e3;
        spans.push(Span { from: at, to: waited, colour: 0, name: format!("waits for batch {}", batch + 1) });
        if stepped > waited {
            // In the colour of its batch.
            let name = format!("step {}", batch + 1);
            spans.push(Span { from: waited, to: stepped, colour: 1 + batch % 7, name });
        }
        at = stepped;
    }
    spans
}

/// Where the consumer's time went, for each contestant that has a timeline.
fn stages(told: &Told) -> Option<String> {
    let rows: Vec<(String, Vec<(f64, usize)>)> = told
        .record
        .points
        .iter()
        .filter_map(|one| {
            let found = one.timeline.as_ref()?.stages()?;
            let step = if one.point.step == "none" { String::new() } else { format!(", {}", one.point.step) };
            let name = format!("{}{step}", told.record.label(&one.point.contestant));
            let parts =
                [(found.start, 5), (found.load, 0), (found.hand_over, 1), (found.step, 3), (found.end, 4)];
            Some((name, parts.to_vec()))
        })
        .collect();
    let names = [("start", 5), ("samples", 0), ("collate, hand over", 1), ("step", 3), ("end", 4)];
    let point = told.record.points.iter().find(|one| one.timeline.is_some()).map(|one| &one.point)?;
    let title = format!("The loop's time in s, {} workers, batch {}", point.workers, point.batch);
    let frame = Frame { title, ..Frame::default() };
    (!rows.is_empty()).then(|| plot::stacked(&frame, &names, &rows))
}

fn heat(told: &Told, name: &str, batches: &[usize]) -> String {
    let own: Vec<&Figures> = told.figures.iter().filter(|one| one.point.contestant == name).collect();
    let mut workers: Vec<usize> = own.iter().map(|one| one.point.workers).collect();
    workers.sort_unstable();
    workers.dedup();
    let columns: Vec<String> = workers.iter().map(ToString::to_string).collect();
    let rows: Vec<(String, Vec<Option<f64>>)> = batches
        .iter()
        .map(|batch| {
            let cell = |workers: &usize| {
                let found = own.iter().find(|one| one.point.batch == *batch && one.point.workers == *workers);
                found.map(|one| one.items_per_second)
            };
            (format!("batch {batch}"), workers.iter().map(cell).collect())
        })
        .collect();
    let title = format!("Samples/s, {}", told.record.label(name));
    plot::heat(&Frame { title, x: "workers".to_owned(), y: String::new() }, &columns, &rows)
}

/// Points that several runs have in common, side by side.
fn comparison(html: &mut String, runs: &[Told]) {
    let _ = write!(html, "<h2>Runs side by side</h2><div class=\"wide\"><table><thead><tr><th>point</th>");
    for told in runs {
        let _ = write!(html, "<th>{}, {}</th>", escape(&told.record.job.study), day(told.record.began));
    }
    let _ = write!(html, "</tr></thead><tbody>");
    for one in &runs[0].figures {
        let values: Vec<Option<&Figures>> = runs
            .iter()
            .map(|told| {
                let same = told.record.job.study == runs[0].record.job.study;
                told.figures.iter().find(|other| same && other.point == one.point)
            })
            .collect();
        if values.iter().flatten().count() < 2 {
            continue;
        }
        let name = crate::run::describe(runs[0].record.label(&one.point.contestant), &one.point);
        let _ = write!(html, "<tr><td>{}</td>", escape(&name));
        for value in values {
            let text = value.map_or_else(String::new, |one| {
                format!("{} /s, first {}", short(one.items_per_second), seconds(one.first))
            });
            let _ = write!(html, "<td>{text}</td>");
        }
        let _ = write!(html, "</tr>");
    }
    let _ = write!(html, "</tbody></table></div>");
}

/// A date of seconds since 1970, in the calendar of all days.
pub(crate) fn day(seconds: u64) -> String {
    // Days are counted from the first of March, so that a leap day is the last of its year.
    let days = (seconds / 86_400) as i64 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(951_782_400), "2000-02-29");
        assert_eq!(day(1_794_787_200), "2026-11-16");
    }
}
