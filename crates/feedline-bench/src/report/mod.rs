//! The report of one or several runs: a page that opens offline, and the same as Markdown and CSV.

mod html;
mod table;

pub use html::{page, plots};
pub use table::{csv, markdown, rows};

use crate::{
    advice::{Advice, advise},
    record::Record,
    summary::{Figures, figures},
    work::{Work, remark},
};

/// A run with all that is said about it.
pub struct Told {
    /// The run.
    pub record: Record,
    /// Its figures.
    pub figures: Vec<Figures>,
    /// What they say.
    pub advice: Vec<Advice>,
}

impl Told {
    /// Of a record.
    pub fn of(record: Record) -> Self {
        let figures = figures(&record);
        let label = |name: &str| record.label(name).to_owned();
        let (processors, memory) = (record.environment.processors, record.environment.memory_mib as f64);
        let advice = advise(&figures, &label, processors, memory);
        Self { record, figures, advice }
    }

    /// The contestants in the order of the grid.
    pub fn contestants(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for one in &self.record.points {
            if !names.contains(&one.point.contestant.as_str()) {
                names.push(&one.point.contestant);
            }
        }
        names
    }

    /// What has to be known before some contestants are compared with others.
    pub fn remarks(&self) -> Vec<String> {
        self.contestants().into_iter().filter_map(|name| remark(&self.record, name)).collect()
    }

    /// Whether a contestant's figures may be compared with those of others.
    pub fn is_ranked(&self, contestant: &str) -> bool {
        Work::of(&self.record, contestant).is_ranked()
    }

    /// The run in up to three sentences.
    pub fn summary(&self) -> Vec<String> {
        let best = |name: &str| {
            let own = self.figures.iter().filter(|one| one.point.contestant == name && self.is_ranked(name));
            own.max_by(|a, b| a.items_per_second.total_cmp(&b.items_per_second))
        };
        let mut said = Vec::new();
        if let (Some(ours), Some(torch)) = (best("feedline"), best("torch")) {
            let ratio = ours.items_per_second / torch.items_per_second;
            said.push(format!(
                "At the best setting of each, Feedline loads {} samples/s ({} workers) and torch {} ({} workers): {ratio:.2} \
                 times as many.",
                crate::plot::short(ours.items_per_second),
                ours.point.workers,
                crate::plot::short(torch.items_per_second),
                torch.point.workers
            ));
        }
        let ratios: Vec<f64> = self
            .figures
            .iter()
            .filter(|one| one.point.contestant == "feedline")
            .filter_map(|one| one.against)
            .collect();
        if let (Some(low), Some(high)) =
            (ratios.iter().copied().reduce(f64::min), ratios.iter().copied().reduce(f64::max))
        {
            said.push(format!(
                "At equal settings it is {low:.2} to {high:.2} times as fast, start-up included."
            ));
        }
        if let Some(limit) =
            self.advice.iter().rfind(|one| one.contestant == "feedline" && !one.because.is_empty())
        {
            said.push(format!("{} ({})", limit.text, limit.because));
        }
        said
    }
}
