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
    /// The figures of its publication, as context: contestant, setting, items per second.
    pub published: &'static [(&'static str, usize, f64)],
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
            ("torch", 0, 88.6),
            ("torch", 1, 80.3),
            ("torch", 2, 146.8),
            ("torch", 3, 204.2),
            ("torch", 4, 243.2),
            ("torch", 5, 275.9),
            ("torch", 6, 309.3),
            ("torch", 7, 308.8),
            ("torch", 8, 331.8),
        ],
        smoke: preset(&[0, 2, 8], &[64], Some(6)),
        default: preset(&[0, 1, 2, 4, 6, 8], &[64], Some(50)),
        full: preset(&[0, 1, 2, 3, 4, 5, 6, 7, 8], &[64], Some(50)),
    },
    Study {
        name: "images",
        about: "photographs, decoded and resized or preprocessed: how long does training wait for each batch?",
        variants: &["jpeg", "train", "tensors", "tensors-pt"],
        published: &[
            ("torch", 1, 278.0),
            ("torch", 2, 487.0),
            ("torch", 4, 884.0),
            ("torch", 8, 1253.0),
            ("torch", 32, 1597.0),
            ("torch", 48, 1415.0),
            ("torch", 64, 1228.0),
        ],
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
        variants: &["read", "open", "resize"],
        published: &[
            ("torch", 0, 797.6),
            ("torch", 2, 1480.5),
            ("torch", 4, 2843.6),
            ("torch", 8, 5177.6),
            ("torch", 16, 7052.9),
            ("torch", 32, 8781.6),
        ],
        smoke: preset(&[0, 2, 4], &[30], Some(40)),
        default: preset(&[0, 1, 2, 4, 8], &[30], None),
        full: preset(&[0, 2, 4, 8, 16, 32], &[30, 60, 96], None),
    },
    Study {
        name: "text",
        about: "reviews that are cut into words and padded: what does handing over small items cost?",
        variants: &["jsonl", "files", "tokens"],
        published: &[],
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
        variants: &["gzip", "raw", "twin"],
        published: &[],
        smoke: preset(&[0, 1, 2], &[1, 2], Some(15)),
        default: preset(&[1, 2, 4], &[1, 2, 4], Some(30)),
        full: preset(&[1, 2, 4, 8], &[1, 2, 4, 8], None),
    },
];

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
