//! Batches drawn from the plan ahead of their turn.
//!
//! Sampler and plan may be the user's own and may be slow, so they are asked without the engine's lock: a
//! worker takes the whole [`Draft`] away, draws a few batches, and brings it back. Drawn batches are lists of
//! numbers; they take no room until they are begun.

use std::{collections::VecDeque, time::Duration};

use crate::{Cursor, Draw, Plan, PlanError, schedule::Ticket, sync::now};

/// How many batches are drawn at once: fewer if that takes longer than [`LONGEST`]. Many, because while one
/// worker draws, the others may have nothing to do.
const MOST: usize = 64;

/// No batch should wait long for others to be drawn.
const LONGEST: Duration = Duration::from_micros(20);

/// A batch, or the end of an epoch, as the plan gave it. An error is of that batch alone.
pub(crate) type Drawn = (Ticket, Result<Draw, PlanError>);

pub(crate) struct Draft {
    plan: Box<dyn Plan>,
    drawn: VecDeque<Drawn>,
    /// Index lists to be used.
    lists: Vec<Vec<usize>>,
    /// Whether samples that fail are replaced.
    replaces: bool,
}

impl Draft {
    pub(crate) fn new(plan: Box<dyn Plan>, replaces: bool) -> Self {
        Self { plan, drawn: VecDeque::new(), lists: Vec::new(), replaces }
    }

    /// The next batch to be begun.
    pub(crate) fn front(&self) -> Option<&Drawn> {
        self.drawn.front()
    }

    pub(crate) fn pop(&mut self) -> Option<Drawn> {
        self.drawn.pop_front()
    }

    /// The epoch of the next batch to be drawn.
    pub(crate) fn epoch(&self) -> u64 {
        self.plan.cursor().epoch
    }

    /// Where lists to be used can be put, and how many are wanted.
    pub(crate) fn lists(&mut self) -> (&mut Vec<Vec<usize>>, usize) {
        (&mut self.lists, MOST)
    }

    /// Draws at least one batch, none of an epoch after `last`.
    pub(crate) fn draw(&mut self, last: u64) {
        let start = now();
        while self.drawn.len() < MOST && self.epoch() <= last {
            self.draw_one();
            if now() - start > LONGEST {
                return;
            }
        }
    }

    fn draw_one(&mut self) {
        let mut indices = self.lists.pop().unwrap_or_default();
        let before = self.plan.cursor();
        let drawn = self.plan.draw(&mut indices);
        let after = self.plan.cursor();
        let spare = if self.replaces { self.plan.spare() } else { None };
        self.drawn.push_back((Ticket { before, after, indices, spare, discard: false }, drawn));
    }

    /// Forgets what was drawn, and goes elsewhere.
    pub(crate) fn seek(&mut self, to: Cursor) {
        self.drawn.clear();
        self.plan.seek(to);
    }
}
