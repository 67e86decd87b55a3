//! Whether contestants do the same work: whoever delivers something else is shown, but not ranked, and it is said why.

use crate::record::Record;

/// Batches may differ by so much on average, after normalising, and still count as the same work: decoders round
/// differently.
pub const CLOSE: f64 = 0.08;

/// The contestant that loads nothing. Its batches are right, and it made none of them.
const NOTHING: &str = "null";

/// What a contestant's first batch showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// The same batch, bit by bit.
    Same,
    /// One that differs by so much on average.
    Close(f64),
    /// One of the same shape; samples are random.
    Alike,
    /// Something else: other values, another order, or another shape.
    Other,
    /// None was made.
    Nothing,
    /// It was not looked at.
    Unknown,
}

impl Work {
    /// Of a contestant of a run.
    pub fn of(record: &Record, contestant: &str) -> Self {
        match record.contestants.get(contestant).and_then(|entry| entry.check.as_ref()) {
            _ if contestant == NOTHING => Self::Nothing,
            None => Self::Unknown,
            Some(check) if check.same => Self::Same,
            Some(check) if check.random => Self::Alike,
            Some(check) => match check.difference {
                Some(difference) if difference <= CLOSE => Self::Close(difference),
                _ => Self::Other,
            },
        }
    }

    /// Whether its figures may be compared with those of others.
    pub fn is_ranked(self) -> bool {
        !matches!(self, Self::Other | Self::Nothing)
    }

    /// What was seen of its first batch.
    pub fn seen(self) -> String {
        match self {
            Self::Same => "first batch equal to the reference".to_owned(),
            Self::Close(by) => format!("first batch {by:.2} away from the reference on average"),
            Self::Alike => "first batch of the same shape as the reference; samples are random".to_owned(),
            Self::Other => "another first batch than the reference".to_owned(),
            Self::Nothing => "nothing is loaded".to_owned(),
            Self::Unknown => "first batch not compared".to_owned(),
        }
    }
}

/// What a reader has to know before he compares a contestant with others; none if there is nothing.
pub fn remark(record: &Record, contestant: &str) -> Option<String> {
    let entry = record.contestants.get(contestant).filter(|entry| entry.absent.is_none())?;
    let (label, differs, work) = (&entry.label, &entry.differs, Work::of(record, contestant));
    let its = match work {
        Work::Close(_) | Work::Other => Some(work.seen()),
        _ => None,
    };
    let said: Vec<String> = (!differs.is_empty()).then(|| differs.clone()).into_iter().chain(its).collect();
    match (work.is_ranked(), said.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("{label}: {}", said.join("; "))),
        (false, _) => Some(format!("{label} is not ranked: {}", said.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{record::Entry, request::Job, runner::Check};

    fn record(name: &str, check: Option<Check>, differs: &str) -> Record {
        let mut record = Record::new(vec![], Job::default(), 1, vec![]);
        let entry =
            Entry { label: "FFCV".to_owned(), check, differs: differs.to_owned(), ..Entry::default() };
        record.contestants.insert(name.to_owned(), entry);
        record
    }

    fn differing(difference: Option<f64>) -> Check {
        Check { difference, ..Check::default() }
    }

    #[test]
    fn a_contestant_that_does_other_work_is_not_ranked_and_it_is_said_why() {
        for (name, check, differs, ranked, said) in [
            ("ffcv", Some(Check { same: true, ..Check::default() }), "", true, None),
            ("ffcv", Some(differing(Some(0.05))), "", true, Some("FFCV: first batch 0.05 away")),
            (
                "ffcv",
                Some(differing(Some(0.05))),
                "encodes anew",
                true,
                Some("FFCV: encodes anew; first batch 0.05"),
            ),
            (
                "ffcv",
                Some(differing(Some(1.2))),
                "cuts",
                false,
                Some("FFCV is not ranked: cuts; another first batch"),
            ),
            ("ffcv", Some(differing(None)), "", false, Some("FFCV is not ranked: another first batch")),
            ("ffcv", Some(Check { random: true, ..Check::default() }), "", true, None),
            ("ffcv", None, "", true, None),
            (
                "null",
                Some(Check { same: true, ..Check::default() }),
                "loads nothing",
                false,
                Some("FFCV is not ranked: loads nothing"),
            ),
        ] {
            let record = record(name, check, differs);
            assert_eq!(Work::of(&record, name).is_ranked(), ranked);
            let remark = remark(&record, name);
            assert_eq!(remark.is_some(), said.is_some(), "{remark:?}");
            assert!(remark.unwrap_or_default().starts_with(said.unwrap_or_default()), "{said:?}");
        }
    }
}
