//! What is measured: a job, which stays the same in a run, and points, which are compared.

use serde::{Deserialize, Serialize};

use crate::gpu::Gpus;

/// A study and the size of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The study.
    pub study: String,
    /// Which of its variants; empty for the first.
    pub variant: String,
    /// How much data is generated: `smoke`, `default` or `full`.
    pub scale: String,
    /// Batches of an epoch; all of the data if there is none.
    pub batches: Option<usize>,
    /// Epochs of a measurement.
    pub epochs: usize,
    /// Whether the order is random.
    pub shuffle: bool,
    /// A folder, or for `own` a `module:function`, in place of generated data.
    pub data: Option<String>,
}

impl Job {
    /// The study and its variant, or the user's own dataset, as it was asked for.
    pub fn name(&self) -> String {
        match (&self.data, self.variant.as_str()) {
            (Some(data), "") => data.clone(),
            (_, "") => self.study.clone(),
            (_, variant) => format!("{} {variant}", self.study),
        }
    }
}

/// A contestant and its settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    /// Who loads.
    pub contestant: String,
    /// Its workers; 0 is inline.
    pub workers: usize,
    /// Samples in a batch.
    pub batch: usize,
    /// Batches ahead for each worker; the loader's default if there is none.
    pub prefetch: Option<usize>,
    /// Whether memory is page-locked.
    pub pin: bool,
    /// What the consumer does with a batch: `none`, `20ms`, `cpu:20ms`.
    pub step: String,
}

impl Point {
    /// The same settings of another contestant.
    #[must_use]
    pub fn of(&self, contestant: &str) -> Self {
        Self { contestant: contestant.to_owned(), ..self.clone() }
    }
}

/// What a fresh process is asked.
#[derive(Clone, Debug, Serialize)]
pub struct Request<'a> {
    /// The job.
    #[serde(flatten)]
    pub job: &'a Job,
    /// The point.
    #[serde(flatten)]
    pub point: &'a Point,
    /// Where generated data is kept.
    pub cache: &'a str,
    /// `measure`, `timeline`, `keep` or `check`.
    pub mode: &'a str,
    /// The file of the first batch, for the latter two.
    pub reference: Option<&'a str>,
    /// End an epoch after so many seconds.
    pub seconds: Option<f64>,
    /// Let somebody look at the process before a loader is let go.
    pub looks: bool,
}

/// What one measurement gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// One after the other.
    pub epochs: Vec<Epoch>,
    /// What the process and its workers used.
    pub used: Used,
    /// From the first epoch's beginning to the last one's end.
    pub seconds: f64,
    /// When it began, in seconds since 1970.
    #[serde(default)]
    pub began: f64,
    /// Processor time of the process from its beginning, imports included.
    #[serde(default)]
    pub process_cpu_s: f64,
    /// The memory of the process and its workers.
    #[serde(default)]
    pub memory: Memory,
    /// The share of the processors that others used meanwhile.
    #[serde(default)]
    pub foreign: f64,
}

/// What the consumer saw of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// From asking for the loader to the end of its workers.
    pub total_s: f64,
    /// To its iterator.
    pub started_s: f64,
    /// To the first batch.
    pub first_s: f64,
    /// Samples.
    pub items: u64,
    /// Bytes of the batches.
    pub bytes: u64,
    /// How long each batch was waited for.
    pub waits_ms: Vec<f64>,
    /// How long each step took.
    #[serde(default)]
    pub steps_ms: Vec<f64>,
}

/// Who was at what when, in one epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// What the consumer saw; its waits and steps follow one another.
    pub epoch: Epoch,
    /// For each worker: begin and end in seconds, number of the batch, samples. Empty if it is not known.
    pub lanes: Vec<Vec<(f64, f64, u64, u64)>>,
}

/// Where the consumer's time went, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stages {
    /// Until a first sample was begun.
    pub start: f64,
    /// Waiting for samples to be loaded.
    pub load: f64,
    /// Waiting for a batch of which all samples were loaded: collation and hand-over.
    pub hand_over: f64,
    /// Steps.
    pub step: f64,
    /// From the last batch to the end of the workers.
    pub end: f64,
}

impl Timeline {
    /// Where the consumer's time went; none if it is not known what workers did.
    pub fn stages(&self) -> Option<Stages> {
        let first = self.lanes.iter().flatten().map(|piece| piece.0).reduce(f64::min)?;
        let loaded = |batch: usize| {
            let pieces = self.lanes.iter().flatten().filter(|piece| piece.2 == batch as u64);
            pieces.map(|piece| piece.1).fold(0.0, f64::max)
        };
        let (mut stages, mut now) = (Stages::default(), 0.0);
        for (batch, wait) in self.epoch.waits_ms.iter().enumerate() {
            let had = now + wait / 1e3;
            // Each border lies between asking and having, whatever clocks say.
            let began = first.clamp(now, had);
            let ready = loaded(batch).clamp(began, had);
            stages.start += began - now;
            stages.load += ready - began;
            stages.hand_over += had - ready;
            let step = self.epoch.steps_ms.get(batch).copied().unwrap_or(0.0) / 1e3;
            stages.step += step;
            now = had + step;
        }
        stages.end = (self.epoch.total_s - now).max(0.0);
        Some(stages)
    }
}

/// What a process tree used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Processor time.
    pub cpu_s: f64,
    /// Context switches.
    pub switches: f64,
    /// Read from disks, not from memory.
    pub read_mb: f64,
    /// Page faults.
    pub faults: f64,
}

/// Proportional set sizes of a process tree: shared pages count once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The largest that was seen while loaders loaded, or had given their last batch.
    pub peak_mb: f64,
    /// The median of all looks.
    pub median_mb: f64,
    /// The share of a processor that looking took while the clock ran.
    #[serde(default)]
    pub monitor: f64,
    /// Accelerators, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
}

impl Measurement {
    /// Samples per second over all epochs, start-up included.
    pub fn items_per_second(&self) -> f64 {
        let seconds: f64 = self.epochs.iter().map(|epoch| epoch.total_s).sum();
        if seconds > 0.0 { self.items() as f64 / seconds } else { 0.0 }
    }

    /// Samples per second of the first epoch from the moment its workers were started. The time of the first batch
    /// counts: batches that were made side by side with it come as if they had cost nothing.
    pub fn running_rate(&self) -> f64 {
        let Some(epoch) = self.epochs.first() else { return 0.0 };
        let waited: f64 = epoch.waits_ms.iter().chain(&epoch.steps_ms).sum::<f64>() / 1e3;
        let seconds = waited - epoch.started_s;
        if seconds > 0.0 { epoch.items as f64 / seconds } else { 0.0 }
    }

    /// Samples of all epochs.
    pub fn items(&self) -> u64 {
        self.epochs.iter().map(|epoch| epoch.items).sum()
    }

    /// Seconds to the first batch of the first epoch.
    pub fn first_batch(&self) -> f64 {
        self.epochs.first().map_or(0.0, |epoch| epoch.first_s)
    }

    /// The waits for all batches but the first of each epoch, in milliseconds.
    pub fn later_waits(&self) -> Vec<f64> {
        self.epochs.iter().flat_map(|epoch| epoch.waits_ms.iter().skip(1).copied()).collect()
    }

    /// The share of the time that the consumer waited.
    pub fn idle(&self) -> f64 {
        let waited: f64 = self.epochs.iter().flat_map(|epoch| &epoch.waits_ms).sum();
        let total: f64 = self.epochs.iter().map(|epoch| epoch.total_s).sum();
        if total > 0.0 { (waited / 1e3 / total).min(1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_consumer_s_time_is_cut_where_samples_begin_and_end() {
        let epoch = Epoch {
            total_s: 1.5,
            waits_ms: vec![500.0, 200.0, 10.0],
            steps_ms: vec![100.0, 100.0, 100.0],
            ..Epoch::default()
        };
        // Two workers; the second batch is loaded before it is asked for, the third as well.
        let lanes =
            vec![vec![(0.2, 0.4, 0, 4), (0.4, 0.7, 1, 4)], vec![(0.25, 0.45, 0, 4), (0.5, 0.8, 2, 8)]];
        let stages = Timeline { epoch: epoch.clone(), lanes }.stages().unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b} {stages:?}");
        close(stages.start, 0.2);
        close(stages.load, 0.25 + 0.1);
        close(stages.hand_over, 0.05 + 0.1 + 0.01);
        close(stages.step, 0.3);
        close(stages.end, 0.49);
        assert_eq!(Timeline { epoch, lanes: vec![] }.stages(), None);
    }
}
