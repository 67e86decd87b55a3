//! How many workers there should be: a pure function of what was seen.
//!
//! The aim: the consumer never waits, at the least expense. Once in a while the tuner is told what happened since it last
//! decided, and says how many workers there should be from now on.
//!
//! ```text
//! consumer waits? ── no ──► more than needed, for a while? ─► fewer, unless that was too few before
//!        │
//!       yes ─► fewer than the consumer needs and the processors can run? ─► as many, at most twice as many as now
//!        │                                                                   (four or eight times, if samples mostly wait)
//!        │
//!       no ──► where would the rate stop to grow, by what was tried? ─► try that; stay with the fewest that are as good as the best
//! ```
//!
//! Processors that are all in use are not given more workers: how long samples wait cannot be seen then, because they also
//! wait for a processor. Rates are compared with those of the times beside them: a machine that gets slower does so for all
//! numbers of workers.
//!
//! What it has learned holds as long as samples cost what they did, with as many workers, and the consumer takes what it took;
//! then it forgets, and begins anew from where it is. It does not wander: a number of workers that was tried is not
//! tried again before that, but to be stayed with.

use std::{collections::BTreeMap, time::Duration};

/// The consumer may wait for this share of its time; one that waits for more than the second needs more workers.
const IDLE: (f64, f64) = (0.01, 0.02);

/// A rate this much below another is as good.
const AS_GOOD: f64 = 0.98;

/// Costs and demands that differ by this factor are others.
const OTHER: f64 = 1.5;

/// A rate that falls by this factor is another, if nothing was changed; but it may be only the machine's. So every time that
/// this was believed, it must last twice as long to be believed again, up to so many doublings.
const OTHER_RATE: f64 = 1.1;
const ALARMS: u32 = 4;

/// So often in a row a worker must be too many before it leaves, and things be others before they are believed to be.
const PATIENCE: u32 = 3;

/// A worker fewer than seem to be needed is tried after so many times that; after every try that made the consumer
/// wait, four times as many, up to so often. Tries are what the consumer waits for when all is well.
const BLIND: u32 = 2;
const RARER: u32 = 4;
const FAILURES: u32 = 4;

/// Fewer than this share of the processors' time that samples need could not make them, so they are not tried.
const AT_LEAST: f64 = 0.95;

/// Of what more workers could bring at best, this share must have come for still more to be tried; and where nearly all
/// has come, the rate still grows.
const GAIN: (f64, f64) = (0.25, 0.9);

/// A sample mostly waits if it needs a processor for less than this share of its time. Then many workers cost little, and
/// it costs much to have too few.
const WAITS: f64 = 0.25;

/// What a consumer takes beyond the average, so that it does not wait now and then.
const MARGIN: f64 = 1.1;

/// What happened since the last decision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// How long that was.
    pub elapsed: Duration,
    /// Samples that the consumer was given.
    pub rows: f64,
    /// How long it had none to work with.
    pub waited: Duration,
    /// How long a worker takes for a sample.
    pub row: Duration,
    /// How much of that a processor is needed.
    pub processor: Duration,
    /// Bytes that a worker more may have to hold.
    pub bytes_per_worker: u64,
}

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Processors that may be used, of which a quota may leave a part.
    pub processors: f64,
    /// Bytes that workers may hold together.
    pub bytes: u64,
    /// The most workers, whatever happens.
    pub workers: usize,
}

/// Decides how many workers there should be.
#[derive(Clone, Debug)]
pub struct Tuner {
    workers: usize,
    /// What was seen with how many workers.
    tried: BTreeMap<usize, Tried>,
    /// With fewer, the consumer waited; with how many it last did not.
    least: usize,
    content: Option<usize>,
    /// How often it did not wait by chance.
    chances: u32,
    /// How often fewer were tried and made it wait.
    failures: u32,
    /// How often it was believed that things are other for nothing but the rate.
    alarms: u32,
    /// What a sample costs without others in its way, and what the consumer would take; `None` before anything was seen.
    known: Option<Known>,
    /// How often in a row there were too many workers, and everything was other than known, and the rate
    /// lower.
    spare: u32,
    other: u32,
    slower: u32,
    /// How often in a row nothing was changed.
    stayed: u32,
}

#[derive(Clone, Copy, Debug)]
struct Tried {
    rate: f64,
    /// The rate that it should not fall below without a reason: what it was first, or has been since.
    usual: f64,
    row: f64,
    processor: f64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    row: f64,
    processor: f64,
    demand: f64,
    processors: f64,
}

impl Tuner {
    /// Begins with so many workers.
    pub fn new(workers: usize) -> Self {
        let workers = workers.max(1);
        Self {
            workers,
            tried: BTreeMap::new(),
            least: 1,
            content: None,
            chances: 0,
            failures: 0,
            alarms: 0,
            known: None,
            spare: 0,
            other: 0,
            slower: 0,
            stayed: 0,
        }
    }

    /// How many there should be.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Whether it has found a number to stay with, and is not about to try another.
    pub fn is_settled(&self) -> bool {
        self.known.is_some() && self.other == 0 && self.stayed >= PATIENCE
    }

    /// How many there should be after this was seen with [`Tuner::workers`].
    pub fn decide(&mut self, seen: &Seen, limits: &Limits) -> usize {
        let before = self.workers;
        self.change(seen, limits);
        self.stayed = if self.workers == before { self.stayed.saturating_add(1) } else { 0 };
        self.workers
    }

    fn change(&mut self, seen: &Seen, limits: &Limits) {
        let (elapsed, waited) = (seen.elapsed.as_secs_f64(), seen.waited.as_secs_f64());
        if elapsed <= 0.0 || seen.rows < 1.0 || seen.row.is_zero() {
            return; // nothing was seen
        }
        let rate = seen.rows / elapsed;
        // The rate of a consumer that never waits. One that does nothing else would take any.
        let demand = seen.rows / (elapsed - waited).max(1e-3 * elapsed);
        if self.is_other(seen, demand, limits) {
            let mut anew = Self::new(self.workers);
            if self.other < PATIENCE {
                // Samples still cost what they do with nobody in their way.
                anew.known = self.known;
                anew.alarms = (self.alarms + 1).min(ALARMS);
                anew.failures = self.failures;
            }
            *self = anew;
        }
        if self.other > 0 || (1..PATIENCE).contains(&self.slower) {
            // Until it is sure; but memory does not wait.
            self.workers = self.workers.min(held(seen, limits));
            return;
        }
        let known = self.learn(seen, demand, limits);
        let (row, processor) = (seen.row.as_secs_f64(), seen.processor.as_secs_f64());
        self.note(Tried { rate, usual: rate, row, processor });
        // So many would use all processors, if so many use what they do now.
        let full = self.workers as f64 * limits.processors / (rate * processor).max(1e-9);
        let most = most(seen, &known, limits).min(self.workers.max(full.ceil() as usize));
        let needed = (known.demand * known.row * MARGIN).ceil().clamp(1.0, most as f64) as usize;
        let idle = waited / elapsed;
        self.workers = if self.workers > most {
            most
        } else if idle <= IDLE.0 {
            self.fewer(needed, (AT_LEAST * known.demand * known.processor).ceil() as usize)
        } else if idle <= IDLE.1 {
            self.workers
        } else {
            self.spare = 0;
            match self.content {
                Some(content) if content > self.workers => {
                    self.failures = (self.failures + 1).min(FAILURES);
                    // What is between is not worth another try.
                    let near = content - self.workers <= small(content);
                    self.least = self.least.max(if near { content } else { (self.workers + 1).min(needed) });
                }
                // It was by chance, then, that it did not wait with so many.
                Some(_) => (self.content, self.least, self.chances) = (None, 1, self.chances + 1),
                None => {}
            }
            let growth = match known.processor / known.row {
                share if share < WAITS / 5.0 => 8,
                share if share < WAITS => 4,
                _ => 2,
            };
            self.more(needed, most, growth).min(most)
        };
    }

    /// The consumer does not wait: fewer, if they have been enough for a while. Where workers are in each other's
    /// way, samples seem to need more of them than they do; so after a longer while fewer are tried all the same, unless
    /// they could not do it with a processor each.
    fn fewer(&mut self, needed: usize, fewest: usize) -> usize {
        self.content = Some(self.workers);
        self.spare = self.spare.saturating_add(1);
        let (enough, patience) = if needed < self.workers {
            (needed.max(self.workers.div_ceil(2)), PATIENCE)
        } else if self.chances < PATIENCE {
            (self.workers.saturating_sub(small(self.workers)).max(1), BLIND * PATIENCE)
        } else {
            return self.workers;
        };
        let enough = enough.max(self.least).max(fewest);
        if enough >= self.workers || self.spare < patience * RARER.pow(self.failures) {
            return self.workers;
        }
        self.spare = 0;
        enough
    }

    /// The consumer waits: more, or the fewest that are as good as the best.
    fn more(&self, needed: usize, most: usize, growth: usize) -> usize {
        let largest = self.tried.keys().next_back().copied().unwrap_or(self.workers);
        if needed > self.workers && largest <= self.workers && self.gain(self.workers) > GAIN.0 {
            return needed.min(growth * self.workers);
        }
        let best = self.best();
        let below = self.tried.range(..best).next_back().map_or(0, |(workers, _)| *workers);
        let above = self.tried.range(best + 1..).next().map(|(workers, _)| *workers);
        let gap = small(best);
        // If none fewer were tried, those that were tried beyond show whether the rate still grew there.
        let grew = self.gain(if below == 0 { above.unwrap_or(best) } else { best });
        let rate = |workers| self.tried.get(&workers).map_or(0.0, |tried: &Tried| tried.rate);
        // Fewer could not have that rate if each had a processor all the time.
        let fewest =
            (AS_GOOD * rate(best) * self.known.map_or(0.0, |known| known.processor) - 0.1).ceil() as usize;
        if grew < GAIN.1 && best - below > gap && best > self.least.max(fewest) {
            // It grew up to somewhere between the two, and then no more.
            let knee = if below == 0 { best as f64 / 2.0 } else { below as f64 * rate(best) / rate(below) };
            return (knee.ceil() as usize).clamp(below + 1, best - 1).max(self.least).max(fewest);
        }
        match above {
            Some(above) if above - best > gap && self.gain(best) > 2.0 * GAIN.0 => best.midpoint(above),
            None if most > best && self.gain(best) > GAIN.0 => (best + gap).min(most),
            _ => best,
        }
    }

    /// How much of what is to be had at best so many workers brought, beside the next fewer that were tried; 1 if there
    /// are none.
    fn gain(&self, workers: usize) -> f64 {
        let (Some(tried), Some((fewer, before))) =
            (self.tried.get(&workers), self.tried.range(..workers).next_back())
        else {
            return 1.0;
        };
        (tried.rate / before.rate - 1.0) / (workers as f64 / *fewer as f64 - 1.0)
    }

    /// Keeps what was seen. What was tried before moves along: rates of another minute are not to be compared with.
    fn note(&mut self, seen: Tried) {
        let Some(tried) = self.tried.get_mut(&self.workers) else {
            self.tried.insert(self.workers, seen);
            return;
        };
        let moved = f64::midpoint(1.0, seen.rate / tried.rate);
        tried.usual += (seen.rate - tried.usual).max(0.0) / 4.0;
        tried.row += (seen.row - tried.row) / 2.0;
        tried.processor += (seen.processor - tried.processor) / 2.0;
        self.tried.values_mut().for_each(|tried| tried.rate *= moved);
    }

    /// The fewest that reach what the best do.
    fn best(&self) -> usize {
        let top = self.tried.values().map(|tried| tried.rate).fold(0.0, f64::max);
        let mut enough = self.tried.range(self.least..);
        let good = enough.find(|(_, tried)| tried.rate >= AS_GOOD * top);
        good.map_or(self.workers, |(workers, _)| *workers)
    }

    /// Whether what was known no longer holds, several times in a row.
    fn is_other(&mut self, seen: &Seen, demand: f64, limits: &Limits) -> bool {
        let Some(known) = self.known else { return false };
        let apart = |one: f64, other: f64| one > OTHER * other || other > OTHER * one;
        let tried = self.tried.get(&self.workers);
        // With another number of workers, others may be in the way of a sample.
        let costs = tried.is_some_and(|tried| {
            let (row, processor) = (seen.row.as_secs_f64(), seen.processor.as_secs_f64());
            apart(row, tried.row) || (processor - tried.processor).abs() > (OTHER - 1.0) * tried.row
        });
        // Of a consumer that waits, the rate is what loading makes it.
        let waits = seen.waited.as_secs_f64() > IDLE.1 * seen.elapsed.as_secs_f64();
        let slower = waits
            && tried.is_some_and(|tried| seen.rows / seen.elapsed.as_secs_f64() * OTHER_RATE < tried.usual);
        // Beyond what could ever be loaded, it does not matter how much would be taken.
        let takes =
            apart(demand, known.demand) && demand.min(known.demand) * known.row < 4.0 * self.workers as f64;
        let other = costs || takes || apart(limits.processors, known.processors);
        self.other = if other { self.other + 1 } else { 0 };
        self.slower = if other || slower { self.slower + 1 } else { 0 };
        self.other >= PATIENCE || self.slower >= PATIENCE << self.alarms
    }

    /// Samples cost what the cheapest do: the rest of their time, others were in their way.
    fn learn(&mut self, seen: &Seen, demand: f64, limits: &Limits) -> Known {
        let (row, processor) = (seen.row.as_secs_f64(), seen.processor.as_secs_f64());
        let known = self.known.unwrap_or(Known { row, processor, demand, processors: limits.processors });
        let near = |old: f64, new: f64| old + (new - old) / 4.0;
        let known = Known {
            row: if row < known.row { near(known.row, row) } else { known.row },
            processor: near(known.processor, processor).min(row),
            demand: near(known.demand, demand),
            processors: limits.processors,
        };
        self.known = Some(known);
        known
    }
}

/// So many workers more or less do not matter.
fn small(workers: usize) -> usize {
    1 + workers / 16
}

/// How many workers the processors and the memory allow.
fn most(seen: &Seen, known: &Known, limits: &Limits) -> usize {
    let share = (known.processor / known.row).clamp(1e-3, 1.0);
    let running = (limits.processors / share * MARGIN).ceil() as usize;
    running.min(held(seen, limits)).min(limits.workers).max(1)
}

/// How many the memory allows.
fn held(seen: &Seen, limits: &Limits) -> usize {
    let workers = limits.bytes.checked_div(seen.bytes_per_worker).unwrap_or(u64::MAX);
    usize::try_from(workers).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A pipeline that is computed and not run.
    #[derive(Clone, Copy, Debug)]
    struct Pipeline {
        /// Seconds of a processor, and of waiting, for a sample.
        processor: f64,
        waiting: f64,
        /// Seconds that the consumer is busy with a sample.
        step: f64,
        processors: f64,
        /// What storage gives at most.
        storage: f64,
    }

    impl Pipeline {
        /// Samples per second that so many workers could load. Each beyond the processors is a little in the way.
        fn capacity(&self, workers: usize) -> f64 {
            let beyond = (workers as f64 * self.processor / (self.processor + self.waiting)
                - self.processors)
                .max(0.0);
            let processors = self.processors / self.processor.max(1e-12) / (1.0 + 0.01 * beyond);
            (workers as f64 / (self.processor + self.waiting)).min(processors).min(self.storage)
        }

        fn rate(&self, workers: usize) -> f64 {
            self.capacity(workers).min(1.0 / self.step)
        }

        /// The best rate, and the fewest workers that come near it.
        fn best(&self, most: usize) -> (f64, usize) {
            let top = (1..=most).map(|workers| self.rate(workers)).fold(0.0, f64::max);
            let fewest = (1..=most).find(|workers| self.rate(*workers) >= AS_GOOD * top).unwrap_or(most);
            (top, fewest)
        }

        fn seen(&self, workers: usize, noise: f64) -> Seen {
            let (capacity, rate) = (self.capacity(workers), self.rate(workers) * noise);
            let elapsed = 20.0 / rate;
            let busy = workers as f64 / capacity;
            let alone = self.processor + self.waiting;
            // Workers that are not needed rest, and are not in each other's way.
            let row = if rate < 0.9 * capacity { alone } else { busy };
            // With enough workers it is the consumer's own pace that varies.
            let idle = if capacity < 1.0 / self.step { (1.0 - rate * self.step).max(0.0) } else { 0.0 };
            Seen {
                elapsed: Duration::from_secs_f64(elapsed),
                rows: rate * elapsed,
                waited: Duration::from_secs_f64(elapsed * idle),
                row: Duration::from_secs_f64(row),
                processor: Duration::from_secs_f64(self.processor),
                bytes_per_worker: 1 << 20,
            }
        }
    }

    const LIMITS: Limits = Limits { processors: 2.0, bytes: 1 << 30, workers: 256 };

    /// The numbers of workers after each of so many decisions.
    fn run(tuner: &mut Tuner, pipeline: &Pipeline, decisions: usize, limits: &Limits) -> Vec<usize> {
        (0..decisions)
            .map(|number| {
                let noise = 1.0 + 0.01 * ((number * 7919 % 5) as f64 - 2.0) / 2.0;
                tuner.decide(&pipeline.seen(tuner.workers(), noise), limits)
            })
            .collect()
    }

    fn limits(pipeline: &Pipeline) -> Limits {
        Limits { processors: pipeline.processors, ..LIMITS }
    }

    #[test]
    fn what_needs_the_processors_gets_as_many_workers_as_there_are() {
        let pipeline =
            Pipeline { processor: 0.01, waiting: 0.0, step: 1e-6, processors: 8.0, storage: f64::INFINITY };
        let workers = run(&mut Tuner::new(1), &pipeline, 20, &limits(&pipeline));
        assert!((7..=9).contains(&workers[19]), "{workers:?}");
    }

    #[test]
    fn what_waits_gets_as_many_as_the_consumer_needs() {
        let pipeline = Pipeline {
            processor: 1e-4,
            waiting: 0.05,
            step: 0.002,
            processors: 64.0,
            storage: f64::INFINITY,
        };
        let workers = run(&mut Tuner::new(1), &pipeline, 20, &limits(&pipeline));
        // 25, and perhaps a margin.
        assert!((25..=29).contains(&workers[19]), "{workers:?}");
    }

    #[test]
    fn slow_storage_is_found_on_a_large_machine() {
        let pipeline =
            Pipeline { processor: 0.001, waiting: 0.08, step: 1e-6, processors: 64.0, storage: 400.0 };
        let workers = run(&mut Tuner::new(2), &pipeline, 20, &limits(&pipeline));
        assert!(pipeline.rate(workers[19]) >= 0.95 * 400.0, "{workers:?}");
    }

    #[test]
    fn a_consumer_that_is_slow_keeps_one_worker() {
        let pipeline =
            Pipeline { processor: 0.001, waiting: 0.0, step: 0.1, processors: 2.0, storage: f64::INFINITY };
        let workers = run(&mut Tuner::new(8), &pipeline, 40, &limits(&pipeline));
        assert_eq!(workers[39], 1, "{workers:?}");
    }

    #[test]
    fn memory_is_a_limit() {
        let pipeline =
            Pipeline { processor: 0.0, waiting: 0.1, step: 1e-6, processors: 2.0, storage: f64::INFINITY };
        let mut tuner = Tuner::new(1);
        let tight = Limits { bytes: 10 << 20, ..LIMITS };
        assert!(run(&mut tuner, &pipeline, 30, &tight).iter().all(|workers| *workers <= 10));
        let tighter = Limits { bytes: 3 << 20, ..LIMITS };
        assert!(run(&mut tuner, &pipeline, 1, &tighter)[0] <= 3);
    }

    #[test]
    fn a_try_that_cannot_do_is_not_made() {
        // Two workers are busy for nine tenths of the time with what needs a processor: one could not do it.
        let pipeline = Pipeline {
            processor: 5e-4,
            waiting: 0.0,
            step: 2.75e-4,
            processors: 2.0,
            storage: f64::INFINITY,
        };
        let workers = run(&mut Tuner::new(2), &pipeline, 2000, &limits(&pipeline));
        assert!(workers.iter().all(|workers| *workers >= 2), "{workers:?}");
    }

    #[test]
    fn tries_of_fewer_get_rarer() {
        // 58 are needed, and only waiting shows that 54 are not enough.
        let pipeline = Pipeline {
            processor: 1e-6,
            waiting: 0.01,
            step: 0.01 / 58.0,
            processors: 2.0,
            storage: f64::INFINITY,
        };
        let mut tuner = Tuner::new(58);
        let workers = run(&mut tuner, &pipeline, 4000, &limits(&pipeline));
        let short = |part: &[usize]| part.iter().filter(|workers| **workers < 58).count();
        assert!(short(&workers[..400]) <= 4, "{workers:?}");
        assert!(short(&workers[400..]) <= 6, "{workers:?}");
    }

    /// Threads that all want to run Python: no number of them makes more than one does, and each seems to wait.
    fn python(workers: usize, noise: f64) -> Seen {
        let rate = noise * if workers == 1 { 2000.0 } else { 1900.0 };
        let row = Duration::from_secs_f64(workers as f64 / rate);
        Seen {
            elapsed: Duration::from_millis(100),
            rows: rate / 10.0,
            waited: Duration::from_millis(99),
            row,
            processor: Duration::from_secs_f64(1.0 / 2000.0).min(row),
            bytes_per_worker: 1 << 20,
        }
    }

    #[test]
    fn nothing_seen_changes_nothing() {
        let mut tuner = Tuner::new(3);
        assert_eq!(tuner.decide(&Seen::default(), &LIMITS), 3);
    }

    /// Any pipeline: from microseconds to a second, of processors or waiting, with and without a step.
    fn pipelines() -> impl Strategy<Value = Pipeline> {
        (-5.0..-1.0f64, 0.0..1.0f64, -6.0..-1.0f64, 1..65u32, prop::option::of(1.5..4.0f64)).prop_map(
            |(cost, share, step, processors, storage)| {
                let cost = 10f64.powf(cost);
                Pipeline {
                    processor: cost * share,
                    waiting: cost * (1.0 - share),
                    step: 10f64.powf(step),
                    processors: f64::from(processors),
                    storage: storage.map_or(f64::INFINITY, |power| 10f64.powf(power)),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn slow_storage_is_found_within_twenty_decisions_by_64_processors(
            processor in 1e-4..2e-3f64, waiting in 0.02..0.3f64, storage in 50.0..2000.0f64, begin in 1usize..65,
        ) {
            let pipeline = Pipeline { processor, waiting, step: 1e-6, processors: 64.0, storage };
            let workers = run(&mut Tuner::new(begin), &pipeline, 40, &limits(&pipeline));
            let (top, _) = pipeline.best(LIMITS.workers);
            for number in &workers[20..] {
                prop_assert!(pipeline.rate(*number) >= 0.95 * top, "{:?}: {} of {}", workers, pipeline.rate(*number), top);
            }
        }

        #[test]
        fn threads_that_wait_for_each_other_settle(noise in prop::collection::vec(0.9..1.11f64, 300), slow in 1usize..20) {
            let (mut tuner, mut level) = (Tuner::new(2), 1.0);
            let workers: Vec<usize> = (0..300)
                .map(|number| {
                    // The machine's own changes last for a while.
                    if number % slow == 0 {
                        level = noise[number];
                    }
                    tuner.decide(&python(tuner.workers(), level * noise[number]), &LIMITS)
                })
                .collect();
            let changes = workers[100..].windows(2).filter(|pair| pair[0] != pair[1]).count();
            prop_assert!(changes <= 12, "{:?}", workers);
        }

        #[test]
        fn any_pipeline_is_tuned_and_stays_so(pipeline in pipelines(), begin in 1usize..16) {
            let limits = limits(&pipeline);
            let mut tuner = Tuner::new(begin);
            let workers = run(&mut tuner, &pipeline, 160, &limits);
            // Soon nearly as good as can be, and in the end with no more than it takes.
            let (top, fewest) = pipeline.best(limits.workers);
            let soon: f64 = workers[20..40].iter().map(|workers| pipeline.rate(*workers)).sum::<f64>() / 20.0;
            prop_assert!(soon >= 0.95 * top, "{:?}: {} of {}", workers, soon, top);
            prop_assert!(pipeline.rate(workers[159]) >= 0.95 * top, "{:?}: {} of {}", workers, pipeline.rate(workers[159]), top);
            prop_assert!(workers[159] <= 4 + fewest + fewest / 4, "{:?}: {} would do", workers, fewest);
            let late = &workers[150..];
            prop_assert!(late.iter().max().unwrap() - late.iter().min().unwrap() <= 1, "{:?}", workers);
        }

        #[test]
        fn changes_are_followed(before in pipelines(), factor in prop::sample::select(vec![0.2, 5.0]), of_step in any::<bool>()) {
            let mut after = before;
            if of_step {
                after.step *= factor;
            } else {
                after.processor *= factor;
                after.waiting *= factor;
            }
            let limits = limits(&before);
            let mut tuner = Tuner::new(2);
            run(&mut tuner, &before, 60, &limits);
            let workers = run(&mut tuner, &after, 60, &limits);
            let (top, _) = after.best(limits.workers);
            prop_assert!(after.rate(workers[59]) >= 0.9 * top, "{:?}: {} of {}", workers, after.rate(workers[59]), top);
        }
    }
}
