//! Finding the best setting in a given time: many are tried briefly, the best of them longer.
//!
//! A pure search: it says which setting to measure for how long, and is told what was found. Where settings are so close
//! that the time did not suffice to tell them apart, it says so, and prefers the one with fewer workers.

use crate::{median, request::Point};

/// What is to be as good as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Samples per second.
    Throughput,
    /// The time to the first batch.
    FirstBatch,
    /// Memory, among settings that are nearly as fast as the fastest.
    Memory,
    /// The largest loss against the best setting of each step, over several steps.
    Regret,
}

/// What a brief measurement gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trial {
    /// Samples per second once batches come.
    pub rate: f64,
    /// Seconds to the first batch.
    pub first: f64,
    /// The most memory, in MB.
    pub memory: f64,
}

/// A setting and what is known of it, for each step.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The setting; its step is that of the first.
    pub point: Point,
    trials: Vec<Vec<Trial>>,
    /// Why it is out.
    pub out: Option<String>,
}

impl Candidate {
    fn figure(&self, step: usize, figure: impl Fn(&Trial) -> f64) -> f64 {
        median(&self.trials[step].iter().map(figure).collect::<Vec<_>>())
    }

    /// Samples per second with the first step.
    pub fn rate(&self) -> f64 {
        self.figure(0, |trial| trial.rate)
    }

    /// Seconds to the first batch.
    pub fn first(&self) -> f64 {
        self.figure(0, |trial| trial.first)
    }

    /// The most memory in MB.
    pub fn memory(&self) -> f64 {
        self.trials.iter().flatten().map(|trial| trial.memory).fold(0.0, f64::max)
    }

    /// Half the range of the rates, as a share of their median; of a single one, nothing is known.
    fn spread(&self) -> f64 {
        let rates: Vec<f64> = self.trials[0].iter().map(|trial| trial.rate).collect();
        if rates.len() < 2 { 0.1 } else { crate::row::spread(&rates) }
    }
}

/// The search.
pub struct Search {
    /// All settings.
    pub candidates: Vec<Candidate>,
    steps: Vec<String>,
    objective: Objective,
    memory: Option<f64>,
    seconds: f64,
}

/// Rounds of the search, and the share of the candidates that each leaves.
const ROUNDS: usize = 3;
const LEAVES: f64 = 0.4;
/// Settings that differ by less are equally good.
const EQUAL: f64 = 0.02;

impl Search {
    /// A search among some settings, for some steps of training, within some seconds of measuring.
    pub fn new(
        points: Vec<Point>,
        steps: Vec<String>,
        objective: Objective,
        seconds: f64,
        memory: Option<f64>,
    ) -> Self {
        let trials = vec![Vec::new(); steps.len()];
        let candidates =
            points.into_iter().map(|point| Candidate { point, trials: trials.clone(), out: None }).collect();
        Self { candidates, steps, objective, memory, seconds }
    }

    /// Searches. `measure` is given a setting and the seconds it may take; what it cannot measure is out.
    pub fn run<E: std::fmt::Display>(
        &mut self,
        measure: &mut dyn FnMut(&Point, f64) -> Result<Trial, E>,
        give_up: &dyn Fn(&E) -> bool,
    ) -> Result<(), E> {
        let mut left: Vec<usize> = (0..self.candidates.len()).collect();
        for round in 0..ROUNDS {
            let each = self.seconds / ROUNDS as f64 / (left.len() * self.steps.len()).max(1) as f64;
            // The last round is measured in two halves, in turns, so that there is a spread.
            let times = if round + 1 == ROUNDS { 2 } else { 1 };
            for _ in 0..times {
                for at in &left {
                    for step in 0..self.steps.len() {
                        self.one(*at, step, each / f64::from(times), measure, give_up)?;
                    }
                }
            }
            left.retain(|at| self.candidates[*at].out.is_none());
            let scores = self.scores();
            left.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            let keep = ((left.len() as f64 * LEAVES).ceil() as usize).max(2);
            left.truncate(keep);
        }
        Ok(())
    }

    fn one<E: std::fmt::Display>(
        &mut self,
        at: usize,
        step: usize,
        seconds: f64,
        measure: &mut dyn FnMut(&Point, f64) -> Result<Trial, E>,
        give_up: &dyn Fn(&E) -> bool,
    ) -> Result<(), E> {
        let candidate = &mut self.candidates[at];
        if candidate.out.is_some() {
            return Ok(());
        }
        let point = Point { step: self.steps[step].clone(), ..candidate.point.clone() };
        match measure(&point, seconds) {
            Ok(trial) => candidate.trials[step].push(trial),
            Err(error) if give_up(&error) => return Err(error),
            Err(error) => candidate.out = Some(error.to_string()),
        }
        if let Some(limit) = self.memory.filter(|limit| candidate.memory() > *limit) {
            candidate.out = Some(format!("{:.0} MB are more than {limit:.0}", candidate.memory()));
        }
        Ok(())
    }

    /// How good each candidate is; the more the better. Those that are out are worth nothing.
    fn scores(&self) -> Vec<f64> {
        let best = |step: usize| {
            self.candidates
                .iter()
                .map(|one| one.figure(step, |trial| trial.rate))
                .fold(f64::MIN_POSITIVE, f64::max)
        };
        let bests: Vec<f64> = (0..self.steps.len()).map(best).collect();
        let score = |one: &Candidate| match self.objective {
            _ if one.out.is_some() || one.trials.iter().any(Vec::is_empty) => 0.0,
            Objective::Throughput => one.rate() / bests[0],
            Objective::FirstBatch => 1.0 / one.first().max(1e-9),
            Objective::Memory if one.rate() < 0.95 * bests[0] => 1e-6 * one.rate() / bests[0],
            Objective::Memory => 1.0 / one.memory().max(1.0),
            Objective::Regret => {
                let share = |step: usize| one.figure(step, |trial| trial.rate) / bests[step];
                (0..self.steps.len()).map(share).fold(f64::MAX, f64::min)
            }
        };
        self.candidates.iter().map(score).collect()
    }

    /// The best first. Of those that are equally good, the one with fewer workers.
    pub fn ranked(&self) -> Vec<&Candidate> {
        let scores = self.scores();
        let mut order: Vec<usize> = (0..self.candidates.len()).filter(|at| scores[*at] > 0.0).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        if let Some(first) = order.first().copied() {
            let equal = |at: &usize| {
                scores[*at] >= (1.0 - EQUAL) * scores[first] && self.measured(*at) == self.measured(first)
            };
            let least =
                order.iter().copied().filter(equal).min_by_key(|at| self.candidates[*at].point.workers);
            if let Some(least) = least {
                order.retain(|at| *at != least);
                order.insert(0, least);
            }
        }
        order.into_iter().map(|at| &self.candidates[at]).collect()
    }

    fn measured(&self, at: usize) -> usize {
        self.candidates[at].trials[0].len()
    }

    /// How sure it is that the first of [`Search::ranked`] is better than the second.
    pub fn certainty(&self) -> Certainty {
        let ranked = self.ranked();
        let [first, second, ..] = ranked.as_slice() else { return Certainty::Only };
        let apart = (first.rate() - second.rate()).abs() / first.rate().max(f64::MIN_POSITIVE);
        let spread = first.spread() + second.spread();
        match apart {
            apart if apart > 2.0 * spread => Certainty::Sure(apart),
            apart if apart > spread => Certainty::Likely(apart),
            apart => Certainty::Open(apart),
        }
    }
}

impl Certainty {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Only => "only",
            Self::Sure(_) => "sure",
            Self::Likely(_) => "likely",
            Self::Open(_) => "open",
        }
    }

    /// How far the next best is behind, if there is one.
    pub fn apart(self) -> Option<f64> {
        match self {
            Self::Only => None,
            Self::Sure(apart) | Self::Likely(apart) | Self::Open(apart) => Some(apart),
        }
    }
}

/// How sure a recommendation is: how far the next best is behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Certainty {
    /// There is no other.
    Only,
    /// By much more than measurements differ.
    Sure(f64),
    /// By more than they differ.
    Likely(f64),
    /// By less: they are equally good.
    Open(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Point> {
        let point = |contestant: &str, workers| Point {
            contestant: contestant.to_owned(),
            workers,
            batch: 64,
            prefetch: None,
            pin: false,
            step: "none".to_owned(),
        };
        let all = [0, 1, 2, 4, 8].map(|workers| point("feedline", workers));
        all.into_iter().chain([2, 4, 8, 16].map(|workers| point("threads", workers))).collect()
    }

    /// Samples that wait and compute on two processors, measured with some noise that a seed decides.
    fn rate(point: &Point, wait: f64, compute: f64) -> f64 {
        let lanes = point.workers.max(1) as f64;
        let processors = if point.contestant == "threads" { 1.0 } else { 2.0 };
        1.0 / ((wait + compute) / lanes).max(compute / processors)
    }

    fn tuned(wait: f64, compute: f64, noise: f64, seconds: f64, memory: Option<f64>) -> (Search, f64) {
        let mut search =
            Search::new(points(), vec!["none".to_owned()], Objective::Throughput, seconds, memory);
        let (mut spent, mut seed) = (0.0, 7u64);
        let mut measure = |point: &Point, seconds: f64| -> Result<Trial, String> {
            spent += seconds;
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let error = 1.0 + noise * ((seed >> 33) as f64 / f64::from(1u32 << 31) * 2.0 - 1.0);
            let memory = 100.0 * (1 + point.workers) as f64;
            Ok(Trial { rate: rate(point, wait, compute) * error, first: 0.1, memory })
        };
        search.run(&mut measure, &|_| false).unwrap();
        (search, spent)
    }

    #[test]
    fn the_best_of_the_grid_is_found_in_the_time_that_is_given() {
        for (wait, compute) in [(10e-3, 0.1e-3), (0.0, 3e-3), (1e-3, 1e-3), (0.0, 5e-6), (50e-3, 0.0)] {
            let (search, spent) = tuned(wait, compute, 0.02, 30.0, None);
            assert!(spent <= 30.0 + 1e-6, "{spent} s");
            let best = points().iter().map(|point| rate(point, wait, compute)).fold(0.0, f64::max);
            let found = rate(&search.ranked()[0].point, wait, compute);
            assert!(found >= 0.95 * best, "{:?} for {wait} {compute}", search.ranked()[0].point);
        }
    }

    #[test]
    fn of_equally_good_settings_the_one_with_fewer_workers_is_recommended() {
        let (search, _) = tuned(0.0, 3e-3, 0.0, 30.0, None);
        assert_eq!(search.ranked()[0].point.workers, 2);
        assert!(matches!(search.certainty(), Certainty::Open(_)));
    }

    #[test]
    fn what_needs_too_much_memory_is_out() {
        let (search, _) = tuned(10e-3, 0.0, 0.0, 30.0, Some(550.0));
        assert!(search.ranked().iter().all(|one| one.point.workers <= 4));
        assert_eq!(search.ranked()[0].point.workers, 4);
    }

    #[test]
    fn what_cannot_be_measured_is_out_and_what_ends_the_search_ends_it() {
        let mut search = Search::new(points(), vec!["none".to_owned()], Objective::Throughput, 10.0, None);
        let mut measure = |point: &Point, _: f64| {
            if point.workers > 2 {
                Err("too many")
            } else {
                Ok(Trial { rate: 10.0, first: 0.1, memory: 1.0 })
            }
        };
        search.run(&mut measure, &|_| false).unwrap();
        assert!(search.ranked().iter().all(|one| one.point.workers <= 2));
        let mut search = Search::new(points(), vec!["none".to_owned()], Objective::Throughput, 10.0, None);
        assert_eq!(search.run(&mut measure, &|_| true), Err("too many"));
    }

    #[test]
    fn regret_prefers_what_is_never_bad() {
        let steps = vec!["none".to_owned(), "20ms".to_owned()];
        let mut search = Search::new(points(), steps, Objective::Regret, 30.0, None);
        let mut measure = |point: &Point, _: f64| -> Result<Trial, String> {
            let rate = match (point.workers, point.step.as_str()) {
                (8, "none") => 100.0,
                (8, _) => 20.0,
                (4, _) => 60.0,
                _ => 10.0,
            };
            Ok(Trial { rate, first: 0.1, memory: 1.0 })
        };
        search.run(&mut measure, &|_| false).unwrap();
        assert_eq!(search.ranked()[0].point.workers, 4);
    }
}
