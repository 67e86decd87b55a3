//! Advice: what the figures of a run say, in sentences, each with the numbers behind it.
//!
//! A pure function of the figures. It speaks of one contestant at a time, because what limits one loader need not
//! limit another on the same data.

use crate::{
    plot::short,
    summary::{FOREIGN, Figures},
};

/// What limits a loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// The training step takes longer than loading: nothing is to be gained.
    Consumer,
    /// Samples wait, for a disk or a network.
    Waiting,
    /// Samples compute, and all processors are busy.
    Computing,
    /// Bringing finished samples from the workers to the consumer costs more than making them.
    HandOver,
    /// Starting workers takes a large part of so short an epoch.
    StartUp,
    /// The figures do not say.
    Unclear,
}

/// A sentence, and what it is built on.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Whom it is about.
    pub contestant: String,
    /// The sentence.
    pub text: String,
    /// The numbers.
    pub because: String,
}

/// What a setting must gain to be worth more workers.
const WORTH: f64 = 1.05;

/// What limits a contestant at its best setting.
pub fn bottleneck(own: &[&Figures], processors: f64) -> (Bottleneck, String) {
    let Some(best) = fastest(own) else { return (Bottleneck::Unclear, String::new()) };
    let inline = own.iter().find(|one| one.point.workers == 0 && same_batch(one, best));
    let steps = best.point.step != "none";
    if steps && best.idle < 0.05 {
        return (Bottleneck::Consumer, format!("the consumer waits {:.0} % of the time", 100.0 * best.idle));
    }
    let per_item = |one: &Figures| one.processors / one.items_per_second;
    let with_workers: Vec<&&Figures> =
        own.iter().filter(|one| one.point.workers > 0 && same_batch(one, best)).collect();
    if let (Some(inline), Some(workers)) = (inline, fastest_of(&with_workers)) {
        let dearer = per_item(workers) / per_item(inline);
        if workers.items_per_second < WORTH * inline.items_per_second
            && dearer > 1.4
            && inline.processors > 0.6
        {
            let why = format!(
                "with {} workers a sample costs {dearer:.1} times the processor time that it costs without, and {} \
                 samples/s become {}",
                workers.point.workers,
                short(inline.items_per_second),
                short(workers.items_per_second)
            );
            return (Bottleneck::HandOver, why);
        }
    }
    if let Some((one, lost)) = inline.and_then(|inline| start_up(inline, &with_workers, processors))
        && one.total - lost < 0.7 * best.total
    {
        let (workers, share) = (one.point.workers, 100.0 * lost / one.total);
        let why = format!(
            "with {workers} workers, {share:.0} % of {} s passed before they loaded",
            short(one.total)
        );
        return (Bottleneck::StartUp, why);
    }
    if best.processors > 0.8 * processors {
        let why = format!("{:.1} of {processors:.0} processors are busy", best.processors);
        return (Bottleneck::Computing, why);
    }
    if best.foreign > FOREIGN {
        // Whoever waits may have waited for a processor.
        return (Bottleneck::Unclear, format!("others used {:.0} % of the processors", 100.0 * best.foreign));
    }
    let each = best.processors / best.point.workers.max(1) as f64;
    if each < 0.5 {
        let who = match best.point.workers {
            0 => "the consumer keeps".to_owned(),
            1 => "one worker keeps".to_owned(),
            workers => format!("{workers} workers keep"),
        };
        let why = format!("{who} {:.1} processors busy; the rest of the time is waiting", best.processors);
        return (Bottleneck::Waiting, why);
    }
    (Bottleneck::Unclear, format!("{:.1} of {processors:.0} processors are busy", best.processors))
}

/// The setting with workers that would be fastest if they were there already, and the seconds it lost at first: until the
/// first batch, except for the time that one worker needs to make it.
fn start_up<'a>(
    inline: &Figures,
    with_workers: &[&&'a Figures],
    processors: f64,
) -> Option<(&'a Figures, f64)> {
    let lost = |one: &Figures| {
        let crowded = if inline.processors > 0.6 { one.point.workers as f64 / processors } else { 1.0 };
        let alone = one.point.batch as f64 / inline.items_per_second;
        (one.first - alone * crowded.max(1.0)).max(0.0)
    };
    let all = with_workers.iter().map(|one| (**one, lost(one)));
    all.min_by(|(a, lost_a), (b, lost_b)| (a.total - lost_a).total_cmp(&(b.total - lost_b)))
}

fn same_batch(one: &Figures, other: &Figures) -> bool {
    let settings = |figures: &Figures| (figures.point.batch, figures.point.pin, figures.point.step.clone());
    settings(one) == settings(other)
}

fn fastest<'a>(own: &[&'a Figures]) -> Option<&'a Figures> {
    own.iter().copied().max_by(|a, b| a.items_per_second.total_cmp(&b.items_per_second))
}

fn fastest_of<'a>(own: &[&&'a Figures]) -> Option<&'a Figures> {
    own.iter().map(|one| **one).max_by(|a, b| a.items_per_second.total_cmp(&b.items_per_second))
}

/// The smallest number of workers after which more gain little, at the batch size of the best setting.
pub fn knee<'a>(own: &[&'a Figures]) -> Option<&'a Figures> {
    let best = fastest(own)?;
    let mut same: Vec<&Figures> = own.iter().copied().filter(|one| same_batch(one, best)).collect();
    same.sort_by_key(|one| one.point.workers);
    same.into_iter().find(|one| one.items_per_second * WORTH >= best.items_per_second)
}

/// All that can be said about a run.
pub fn advise(
    figures: &[Figures],
    label: &dyn Fn(&str) -> String,
    processors: usize,
    memory_mb: f64,
) -> Vec<Advice> {
    let mut advice = Vec::new();
    let mut names: Vec<&str> = figures.iter().map(|one| one.point.contestant.as_str()).collect();
    names.dedup();
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        // Nothing can be said about a loader that does nothing.
        if seen.contains(&name) || name == "null" {
            continue;
        }
        seen.push(name);
        let own: Vec<&Figures> = figures.iter().filter(|one| one.point.contestant == name).collect();
        let mut say = |who: &str, text: String, because: String| {
            let text = format!("{who}: {text}");
            advice.push(Advice { contestant: name.to_owned(), text, because });
        };
        let mut steps: Vec<&str> = own.iter().map(|one| one.point.step.as_str()).collect();
        steps.dedup();
        for step in &steps {
            // Another step is another model: what is best for one need not be for the other.
            let of_step: Vec<&Figures> = own.iter().copied().filter(|one| one.point.step == *step).collect();
            let who = if steps.len() > 1 { format!("{}, step {step}", label(name)) } else { label(name) };
            about(&of_step, processors as f64, memory_mb, &mut |text, because| say(&who, text, because));
        }
    }
    advice
}

fn about(own: &[&Figures], processors: f64, memory_mb: f64, say: &mut dyn FnMut(String, String)) {
    let (Some(best), Some(knee)) = (fastest(own), knee(own)) else { return };
    let setting =
        |one: &Figures| format!("num_workers={}, batch_size={}", one.point.workers, one.point.batch);
    let rate = |one: &Figures| format!("{} samples/s", short(one.items_per_second));
    if own.len() > 1 {
        let slowest = own.iter().map(|one| one.items_per_second).fold(f64::MAX, f64::min);
        let gain = best.items_per_second / slowest;
        let text = format!("fastest with {}, {gain:.1} times the slowest setting.", setting(best));
        let spread = best.spread.map_or_else(String::new, |spread| format!(" ± {:.0} %", 100.0 * spread));
        say(text, format!("{}{spread}", rate(best)));
    }
    if knee.point.workers < best.point.workers {
        let text = format!("{} workers are nearly as fast as {}.", knee.point.workers, best.point.workers);
        say(text, format!("{} against {}", rate(knee), rate(best)));
    }
    let at = |workers: usize| own.iter().find(|one| one.point.workers == workers && same_batch(one, best));
    if let (Some(none), Some(one)) = (at(0), at(1))
        && one.items_per_second < 0.97 * none.items_per_second
    {
        let text = "never use exactly one worker here: none at all is faster.".to_owned();
        say(text, format!("{} with one, {} without", rate(one), rate(none)));
    }
    let most = own.iter().filter(|one| same_batch(one, best)).max_by_key(|one| one.point.workers);
    if let Some(most) = most.filter(|most| most.items_per_second * WORTH < best.items_per_second) {
        let text = format!("{} workers are slower than {}.", most.point.workers, best.point.workers);
        say(text, format!("{} against {}", rate(most), rate(best)));
    }
    let earliest = own.iter().map(|one| one.first).fold(f64::MAX, f64::min);
    if best.first > 0.5 && best.first > 2.0 * earliest {
        let text = "its fastest setting keeps training waiting for the first batch.".to_owned();
        say(text, format!("{} s; {} s at the earliest", short(best.first), short(earliest)));
    }
    if memory_mb > 0.0 && best.memory > 0.7 * memory_mb {
        let text = "its fastest setting takes most of this machine's memory; mind the model.".to_owned();
        say(text, format!("{} of {} MB", short(best.memory), short(memory_mb)));
    }
    if best.point.step != "none" && best.idle >= 0.05 {
        let text = format!(
            "with a step of {}, a loader that costs nothing would make the loop {:.2} times as fast, and none can do more.",
            best.point.step.trim_start_matches("cpu:"),
            1.0 / (1.0 - best.idle).max(0.01)
        );
        say(text, format!("the loop waits {:.0} % of the time with {}", 100.0 * best.idle, setting(best)));
    }
    let (bottleneck, because) = bottleneck(own, processors);
    let text = match bottleneck {
        Bottleneck::Consumer => "loading keeps up; only a faster step would make training faster.",
        Bottleneck::Waiting => {
            "samples wait for storage; more workers help, also more than there are processors."
        }
        Bottleneck::Computing => {
            "the processors are the limit; only cheaper samples or more processors help."
        }
        Bottleneck::HandOver => {
            "handing samples over costs more than making them; load without workers or in threads."
        }
        Bottleneck::StartUp => {
            "starting workers takes much of this short epoch; keep them (persistent_workers=True)."
        }
        Bottleneck::Unclear => return,
    };
    say(text.to_owned(), because);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Point;

    /// A loader with a known cause: samples wait and compute for so long, hand-over costs so much each, workers take
    /// so long to start, and the machine has two processors.
    struct Made {
        wait: f64,
        compute: f64,
        hand_over: f64,
        start: f64,
        step: f64,
        items: f64,
    }

    const PLAIN: Made =
        Made { wait: 0.0, compute: 0.0, hand_over: 0.0, start: 0.02, step: 0.0, items: 10_000.0 };

    impl Made {
        fn at(&self, workers: usize) -> Figures {
            let lanes = workers.max(1) as f64;
            let hand_over = if workers > 0 { self.hand_over } else { 0.0 };
            let cpu = self.compute + hand_over;
            let start = if workers > 0 { self.start * lanes } else { 0.0 };
            let each = ((self.wait + cpu) / lanes).max(cpu / 2.0);
            let loading = each * self.items;
            let total = start + if workers == 0 { loading + self.step } else { loading.max(self.step) };
            Figures {
                point: Point {
                    contestant: "torch".to_owned(),
                    workers,
                    batch: 64,
                    prefetch: None,
                    pin: false,
                    step: if self.step > 0.0 { "1ms".to_owned() } else { "none".to_owned() },
                },
                repeats: 3,
                items_per_second: self.items / total,
                spread: Some(0.02),
                mb_per_second: 1.0,
                total,
                first: start + 64.0 * each * lanes,
                wait: 1.0,
                wait_p99: 2.0,
                idle: if self.step > 0.0 { 1.0 - self.step / total } else { 1.0 },
                processors: cpu * self.items / total,
                memory: 500.0,
                foreign: 0.0,
                against: None,
            }
        }

        fn limit(&self) -> Bottleneck {
            let figures: Vec<Figures> = [0, 1, 2, 4, 8].map(|workers| self.at(workers)).into();
            bottleneck(&figures.iter().collect::<Vec<_>>(), 2.0).0
        }
    }

    #[test]
    fn a_single_cause_is_found() {
        for (made, expected) in [
            (Made { wait: 10e-3, ..PLAIN }, Bottleneck::Waiting),
            (Made { wait: 10e-3, compute: 0.2e-3, ..PLAIN }, Bottleneck::Waiting),
            (Made { wait: 100e-3, compute: 1e-3, items: 2000.0, ..PLAIN }, Bottleneck::Waiting),
            (Made { compute: 3e-3, ..PLAIN }, Bottleneck::Computing),
            (Made { compute: 3e-3, wait: 0.5e-3, ..PLAIN }, Bottleneck::Computing),
            (Made { compute: 20e-3, items: 1000.0, ..PLAIN }, Bottleneck::Computing),
            (Made { compute: 2e-6, hand_over: 10e-6, items: 1e6, ..PLAIN }, Bottleneck::HandOver),
            (Made { compute: 100e-6, hand_over: 150e-6, items: 1e5, ..PLAIN }, Bottleneck::HandOver),
            (Made { wait: 10e-3, start: 1.0, items: 400.0, ..PLAIN }, Bottleneck::StartUp),
            (Made { wait: 5e-3, start: 2.0, items: 1000.0, ..PLAIN }, Bottleneck::StartUp),
            (Made { compute: 0.1e-3, step: 20.0, ..PLAIN }, Bottleneck::Consumer),
            (Made { wait: 1e-3, compute: 0.1e-3, step: 30.0, ..PLAIN }, Bottleneck::Consumer),
        ] {
            assert_eq!(made.limit(), expected, "wait {} compute {}", made.wait, made.compute);
        }
    }

    #[test]
    fn whoever_shares_the_processors_with_others_is_not_said_to_wait_for_storage() {
        let mut figures = Made { wait: 10e-3, ..PLAIN }.at(2);
        assert_eq!(bottleneck(&[&figures], 2.0).0, Bottleneck::Waiting);
        figures.foreign = 0.5;
        assert_eq!(bottleneck(&[&figures], 2.0).0, Bottleneck::Unclear);
    }

    #[test]
    fn one_worker_that_is_slower_than_none_is_pointed_out() {
        let made = Made { compute: 1e-3, hand_over: 0.5e-3, ..PLAIN };
        let figures: Vec<Figures> = [0, 1, 2].map(|workers| made.at(workers)).into();
        let advice = advise(&figures, &str::to_owned, 2, 8000.0);
        assert!(advice.iter().any(|one| one.text.contains("never use exactly one worker")), "{advice:?}");
    }

    #[test]
    fn what_a_loader_can_gain_at_most_is_said_where_there_is_a_step() {
        let made = Made { compute: 2e-3, step: 5.0, ..PLAIN };
        let figures = [made.at(2)];
        let advice = advise(&figures, &str::to_owned, 2, 8000.0);
        // Ten seconds of loading beside five of steps.
        assert!(advice.iter().any(|one| one.text.contains("2.01 times as fast")), "{advice:?}");
    }

    #[test]
    fn the_knee_is_the_fewest_workers_that_are_nearly_as_fast() {
        let made = Made { compute: 3e-3, ..PLAIN };
        let figures: Vec<Figures> = [0, 1, 2, 4, 8].map(|workers| made.at(workers)).into();
        assert_eq!(knee(&figures.iter().collect::<Vec<_>>()).unwrap().point.workers, 2);
        assert!(knee(&[]).is_none());
    }
}
