//! What a study measures unless it is told otherwise: the published grids, and smaller ones that take minutes.

use crate::request::{Job, Point};

/// The values that each setting takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The contestants, the reference first.
    pub contestants: Vec<String>,
    /// Workers.
    pub workers: Vec<usize>,
    /// Samples in a batch.
    pub batch: Vec<usize>,
    /// Batches ahead for each worker.
    pub prefetch: Vec<Option<usize>>,
    /// Page locks.
    pub pin: Vec<bool>,
    /// What the consumer does with a batch.
    pub step: Vec<String>,
}

/// A study: what it is about, and its grids.
pub struct Study {
    /// Its name.
    pub name: &'static str,
    /// What it asks.
    pub about: &'static str,
    /// Its variants, the first of which is the default.
    pub variants: &'static [&'static str],
    /// The figures of its publication, as context: workers and torch's samples per second, and how they were taken.
    pub published: &'static [(usize, f64)],
    /// See `published`.
    pub published_as: &'static str,
    /// Its grids by scale.
    smoke: Preset,
    default: Preset,
    full: Preset,
}

struct Preset {
    workers: &'static [usize],
    batch: &'static [usize],
    batches: Option<usize>,
    step: &'static [&'static str],
    pin: &'static [bool],
}

const fn preset(workers: &'static [usize], batch: &'static [usize], batches: Option<usize>) -> Preset {
    Preset { workers, batch, batches, step: &["none"], pin: &[false] }
}

/// The five studies.
pub const STUDIES: [Study; 5] = [
    Study {
        name: "delay",
        about: "samples that wait 10 ms, as for a disk: do n workers hide it n times as well?",
        variants: &["image", "small"],
        published: &[
            (0, 88.6),
            (1, 80.3),
            (2, 146.8),
            (3, 204.2),
            (4, 243.2),
            (5, 275.9),
            (6, 309.3),
            (7, 308.8),
            (8, 331.8),
        ],
        published_as: "batch 64, 50 batches",
        smoke: preset(&[0, 2, 8], &[64], Some(6)),
        default: preset(&[0, 1, 2, 4, 6, 8], &[64], Some(50)),
        full: preset(&[0, 1, 2, 3, 4, 5, 6, 7, 8], &[64], Some(50)),
    },
    Study {
        name: "images",
        about: "photographs, decoded and resized or preprocessed: how long does training wait for each batch?",
        variants: &["jpeg", "train", "tensors", "tensors-pt"],
        published: &[
            (1, 278.0),
            (2, 487.0),
            (4, 884.0),
            (8, 1253.0),
            (32, 1597.0),
            (48, 1415.0),
            (64, 1228.0),
        ],
        published_as: "JPEGs, batch 256, no step; later batches",
        smoke: preset(&[0, 2, 4], &[64], Some(6)),
        default: preset(&[1, 2, 4, 8], &[32, 256], Some(11)),
        full: Preset {
            workers: &[1, 2, 4, 8, 32, 48, 64],
            batch: &[32, 128, 256, 512, 1024],
            batches: Some(11),
            step: &["none", "2s"],
            pin: &[false],
        },
    },
    Study {
        name: "cells",
        about: "small microscope images of five channels, one file each: what do many files cost?",
        variants: &["read", "open", "resize", "pages"],
        published: &[(0, 797.6), (2, 1480.5), (4, 2843.6), (8, 5177.6), (16, 7052.9), (32, 8781.6)],
        published_as: "89,572 files read, batch 30; DALI with 7 threads and a V100 needed 3.98 s for an epoch where torch \
                       with 8 workers needed 8.2 s",
        smoke: preset(&[0, 2, 4], &[30], Some(40)),
        default: preset(&[0, 1, 2, 4, 8], &[30], None),
        full: preset(&[0, 2, 4, 8, 16, 32], &[30, 60, 96], None),
    },
    Study {
        name: "text",
        about: "reviews that are cut into words and padded: what does handing over small items cost?",
        variants: &["jsonl", "files", "tokens", "pieces"],
        published: &[],
        published_as: "fastest at batch 128 with one worker and page-locked memory",
        smoke: preset(&[0, 1, 2], &[128], None),
        default: preset(&[0, 1, 2, 4], &[16, 128, 512], None),
        full: Preset {
            workers: &[0, 1, 2, 4, 8],
            batch: &[16, 32, 64, 128, 256, 512],
            batches: None,
            step: &["none"],
            pin: &[false, true],
        },
    },
    Study {
        name: "volumes",
        about: "medical volumes, 15 samples of each patient: how often is a patient loaded anew?",
        variants: &["gzip", "raw", "twin", "maps", "read"],
        published: &[],
        published_as: "whole batches in turn, with one patient cached by each worker, load 57 patients 456 times with 8 \
                       workers at batch 1",
        smoke: preset(&[0, 1, 2], &[1, 2], Some(15)),
        default: preset(&[1, 2, 4], &[1, 2, 4], Some(30)),
        full: preset(&[1, 2, 4, 8], &[1, 2, 4, 8], None),
    },
];

/// A study that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("there is no study {0:?}; there are {names}; a dataset of your own is module:name", names = names())]
pub struct NoStudy(pub String);

fn names() -> String {
    STUDIES.map(|study| study.name).join(", ")
}

impl Study {
    /// A study by its name.
    pub fn find(name: &str) -> Option<&'static Self> {
        STUDIES.iter().find(|study| study.name == name)
    }

    /// The job and the grid of a scale.
    pub fn preset(&self, scale: &str) -> (Job, Grid) {
        let preset = match scale {
            "smoke" => &self.smoke,
            "full" => &self.full,
            _ => &self.default,
        };
        let job = Job {
            study: self.name.to_owned(),
            variant: self.variants[0].to_owned(),
            scale: scale.to_owned(),
            batches: preset.batches,
            epochs: 1,
            shuffle: false,
            data: None,
        };
        let grid = Grid {
            contestants: vec!["torch".to_owned(), "feedline".to_owned()],
            workers: preset.workers.to_vec(),
            batch: preset.batch.to_vec(),
            prefetch: vec![None],
            pin: preset.pin.to_vec(),
            step: preset.step.iter().map(|step| (*step).to_owned()).collect(),
        };
        (job, grid)
    }
}

impl Grid {
    /// All points, contestants side by side: what slows the machine for minutes slows all of them.
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for step in &self.step {
            for pin in &self.pin {
                for prefetch in &self.prefetch {
                    for batch in &self.batch {
                        for workers in &self.workers {
                            points.extend(self.contestants.iter().map(|contestant| Point {
                                contestant: contestant.clone(),
                                workers: *workers,
                                batch: *batch,
                                prefetch: *prefetch,
                                pin: *pin,
                                step: step.clone(),
                            }));
                        }
                    }
                }
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_every_combination_once_with_contestants_side_by_side() {
        let (_, mut grid) = Study::find("text").unwrap().preset("full");
        grid.prefetch = vec![None, Some(4)];
        let points = grid.points();
        assert_eq!(points.len(), 2 * 5 * 6 * 2 * 2);
        assert!(points.chunks(2).all(|pair| pair[0].of("feedline") == pair[1]));
        let mut distinct = points.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), points.len());
    }

    #[test]
    fn every_study_has_its_presets() {
        for study in &STUDIES {
            for scale in ["smoke", "default", "full"] {
                let (job, grid) = study.preset(scale);
                assert_eq!((job.study.as_str(), job.scale.as_str()), (study.name, scale));
                assert!(!grid.points().is_empty());
            }
        }
        assert!(Study::find("dealy").is_none());
    }
}
