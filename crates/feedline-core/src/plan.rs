//! Which samples make up which batch: the sampler's order cut into shards and batches.
//!
//! A [`Plan`] is a cursor that walks through batches and epochs without end. It decides nothing about
//! workers, and its place is three integers, so it can be put anywhere at once.

use serde::{Deserialize, Serialize};

use crate::{Arrangement, Sampler, sync::Arc};

/// A place between two batches: everything before it has been drawn, nothing after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Batches of this epoch, on this rank, before this place.
    pub batch: u64,
    /// What this epoch has used before this place, over all ranks: samples, or batches of a [`BatchList`].
    /// It says where to go on when the batch size or the number of ranks has changed.
    pub used: u64,
}

impl Cursor {
    /// The beginning of an epoch.
    pub fn epoch(epoch: u64) -> Self {
        Self { epoch, ..Self::default() }
    }
}

/// What a plan gave when asked for the next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// A batch.
    Batch,
    /// The epoch has no more batches; the plan stands at the beginning of the next.
    EndOfEpoch,
}

/// A batch that cannot be loaded because of what the sampler asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The sampler named a sample that the dataset does not have.
    #[error(
        "the sampler asked for sample {index} in batch {batch} of epoch {epoch}, but the dataset has {len} samples; \
         check the sampler's indices"
    )]
    OutOfRange {
        /// The index.
        index: usize,
        /// The length of the dataset.
        len: usize,
        /// The epoch.
        epoch: u64,
        /// The batch in the epoch.
        batch: u64,
    },
}

/// The samples that may stand in for one that failed: an order and its length.
pub type Spare = (Arrangement, usize);

/// Walks through the batches of epoch after epoch.
pub trait Plan: Send + 'static {
    /// Puts the samples of the next batch into `indices`, which is empty, and moves past it. An error is of
    /// this batch alone: the plan has moved past it too.
    fn draw(&mut self, indices: &mut Vec<usize>) -> Result<Draw, PlanError>;

    /// Where the plan stands.
    fn cursor(&self) -> Cursor;

    /// Moves the plan.
    fn seek(&mut self, to: Cursor);

    /// What may stand in for a failed sample of the batch drawn last.
    fn spare(&self) -> Option<Spare>;

    /// How many batches an epoch has, if that can be known.
    fn batches(&self) -> Option<u64>;
}

/// One of several ranks that share every epoch. Ranks get disjoint samples, together all of them, and all the
/// same number: what does not divide evenly is either repeated or left out.
///
/// ```
/// use feedline_core::Shard;
/// assert!(Shard::new(1, 4).is_ok());
/// assert_eq!(
///     Shard::new(4, 4).unwrap_err().to_string(),
///     "rank 4 of 4 does not exist; ranks are 0 to 3"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    rank: usize,
    world: usize,
    uneven: Uneven,
}

/// What happens to samples that cannot be dealt out evenly to the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uneven {
    /// The first few samples of the epoch are used again, so that nothing is left out.
    #[default]
    Repeat,
    /// The last few samples of the epoch are left out, so that nothing is used twice.
    Drop,
}

/// A shard that cannot exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// The rank is not below the number of ranks.
    #[error("rank {rank} of {world} does not exist; ranks are 0 to {}", world - 1)]
    NoSuchRank {
        /// The rank.
        rank: usize,
        /// The number of ranks.
        world: usize,
    },
    /// There are no ranks.
    #[error("the number of ranks is 0; a single process is rank 0 of 1")]
    NoRanks,
}

impl Shard {
    /// Rank `rank` of `world`.
    pub fn new(rank: usize, world: usize) -> Result<Self, ShardError> {
        match world {
            0 => Err(ShardError::NoRanks),
            _ if rank >= world => Err(ShardError::NoSuchRank { rank, world }),
            _ => Ok(Self { rank, world, uneven: Uneven::default() }),
        }
    }

    /// The only rank.
    pub fn whole() -> Self {
        Self { rank: 0, world: 1, uneven: Uneven::default() }
    }

    /// Says what happens to samples that cannot be dealt out evenly.
    #[must_use]
    pub fn uneven(self, uneven: Uneven) -> Self {
        Self { uneven, ..self }
    }

    /// This rank.
    pub fn rank(self) -> usize {
        self.rank
    }

    /// The number of ranks.
    pub fn world(self) -> usize {
        self.world
    }

    /// How many of `left` things each rank gets.
    fn share(self, left: usize) -> usize {
        match self.uneven {
            Uneven::Repeat => left.div_ceil(self.world),
            Uneven::Drop => left / self.world,
        }
    }

    /// The places of this rank's next `count` things when `used` of `len` are gone; past the end it starts over.
    fn places(self, used: u64, count: usize, len: usize) -> impl Iterator<Item = usize> {
        let start = used as usize + self.rank;
        (0..count).map(move |n| (start + n * self.world) % len)
    }
}

/// Batches of one size, cut from a sampler's order.
pub struct Sampled {
    sampler: Arc<dyn Sampler>,
    /// The length of the dataset: no index may reach it.
    len: usize,
    batch_size: usize,
    drop_last: bool,
    shard: Shard,
    seed: u64,
    at: Cursor,
    /// The order of the epoch it was last asked for.
    arranged: Option<(u64, Arrangement)>,
}

impl Sampled {
    /// Cuts the order of `sampler` into batches of `batch_size` for one shard. `len` is the length of the
    /// dataset.
    pub fn new(
        sampler: Arc<dyn Sampler>,
        len: usize,
        batch_size: usize,
        drop_last: bool,
        shard: Shard,
        seed: u64,
    ) -> Self {
        Self { sampler, len, batch_size, drop_last, shard, seed, at: Cursor::default(), arranged: None }
    }

    fn arrangement(&mut self) -> &Arrangement {
        let epoch = self.at.epoch;
        if self.arranged.as_ref().is_none_or(|(of, _)| *of != epoch) {
            self.arranged = Some((epoch, self.sampler.arrange(self.seed, epoch)));
        }
        &self.arranged.as_ref().expect("was set just above").1
    }

    /// The rows of the next batch; 0 at the end of the epoch.
    fn rows(&self, used: u64) -> usize {
        let left = self.shard.share(self.sampler.len().saturating_sub(used as usize));
        if self.drop_last && left < self.batch_size { 0 } else { left.min(self.batch_size) }
    }
}

impl Plan for Sampled {
    fn draw(&mut self, indices: &mut Vec<usize>) -> Result<Draw, PlanError> {
        let (at, rows, positions) = (self.at, self.rows(self.at.used), self.sampler.len());
        if rows == 0 {
            self.at = Cursor::epoch(at.epoch + 1);
            return Ok(Draw::EndOfEpoch);
        }
        let (shard, len) = (self.shard, self.len);
        let arrangement = self.arrangement();
        indices.extend(shard.places(at.used, rows, positions).map(|place| arrangement(place)));
        self.at.batch += 1;
        self.at.used += (rows * shard.world) as u64;
        check(indices, len, at)
    }

    fn cursor(&self) -> Cursor {
        self.at
    }

    fn seek(&mut self, to: Cursor) {
        self.at = to;
    }

    fn spare(&self) -> Option<Spare> {
        self.arranged.as_ref().map(|(_, order)| (Arc::clone(order), self.sampler.len()))
    }

    fn batches(&self) -> Option<u64> {
        let share = self.shard.share(self.sampler.len()) as u64;
        let size = self.batch_size as u64;
        Some(if self.drop_last { share / size } else { share.div_ceil(size) })
    }
}

/// The batches of one epoch, made by the user.
pub type MakeBatches = dyn Fn(u64, u64) -> Vec<Vec<usize>> + Send + Sync;

/// Batches made by the user for each (seed, epoch): of any size, in any order.
pub struct BatchList {
    make: Arc<MakeBatches>,
    len: usize,
    shard: Shard,
    seed: u64,
    at: Cursor,
    /// The batches of the epoch it was last asked for, one after the other, and where each ends.
    made: Option<(u64, Arc<[usize]>, Vec<usize>)>,
}

impl BatchList {
    /// The batches that `make` gives for (seed, epoch), dealt out to the ranks one by one. `len` is the length
    /// of the dataset.
    pub fn new(make: Arc<MakeBatches>, len: usize, shard: Shard, seed: u64) -> Self {
        Self { make, len, shard, seed, at: Cursor::default(), made: None }
    }

    fn batches_of_epoch(&mut self) -> (&[usize], &[usize]) {
        let epoch = self.at.epoch;
        if self.made.as_ref().is_none_or(|(of, ..)| *of != epoch) {
            let batches = (self.make)(self.seed, epoch);
            let ends = batches.iter().scan(0, |end, batch| {
                *end += batch.len();
                Some(*end)
            });
            self.made = Some((epoch, batches.concat().into(), ends.collect()));
        }
        let (_, samples, ends) = self.made.as_ref().expect("was set just above");
        (samples, ends)
    }
}

impl Plan for BatchList {
    fn draw(&mut self, indices: &mut Vec<usize>) -> Result<Draw, PlanError> {
        let (at, shard) = (self.at, self.shard);
        let (samples, ends) = self.batches_of_epoch();
        if shard.share(ends.len().saturating_sub(at.used as usize)) == 0 {
            self.at = Cursor::epoch(at.epoch + 1);
            return Ok(Draw::EndOfEpoch);
        }
        for place in shard.places(at.used, 1, ends.len()) {
            let start = if place == 0 { 0 } else { ends[place - 1] };
            indices.extend_from_slice(&samples[start..ends[place]]);
        }
        self.at.batch += 1;
        self.at.used += shard.world as u64;
        check(indices, self.len, at)
    }

    fn cursor(&self) -> Cursor {
        self.at
    }

    fn seek(&mut self, to: Cursor) {
        self.at = to;
    }

    fn spare(&self) -> Option<Spare> {
        let samples = Arc::clone(&self.made.as_ref()?.1);
        let len = samples.len();
        Some((Arc::new(move |place| samples[place]), len))
    }

    fn batches(&self) -> Option<u64> {
        None
    }
}

fn check(indices: &[usize], len: usize, at: Cursor) -> Result<Draw, PlanError> {
    match indices.iter().find(|index| **index >= len) {
        Some(index) => Err(PlanError::OutOfRange { index: *index, len, epoch: at.epoch, batch: at.batch }),
        None => Ok(Draw::Batch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sequential, Shuffle};
    use proptest::prelude::*;

    fn plan(len: usize, batch_size: usize, drop_last: bool, shard: Shard) -> Sampled {
        Sampled::new(Arc::new(Shuffle(len)), len, batch_size, drop_last, shard, 11)
    }

    /// The batches from where the plan stands to the end of its epoch.
    fn rest(plan: &mut dyn Plan) -> Vec<Vec<usize>> {
        let mut batches = Vec::new();
        loop {
            let mut indices = Vec::new();
            match plan.draw(&mut indices).unwrap() {
                Draw::Batch => batches.push(indices),
                Draw::EndOfEpoch => return batches,
            }
        }
    }

    #[test]
    fn epochs_follow_each_other_and_are_shuffled_anew() {
        let mut plan = plan(10, 4, false, Shard::whole());
        let (first, second) = (rest(&mut plan), rest(&mut plan));
        assert_eq!(first.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
        assert_ne!(first, second);
        assert_eq!(plan.cursor(), Cursor::epoch(2));
    }

    #[test]
    fn an_index_outside_the_dataset_is_an_error_of_its_batch_alone() {
        let mut plan = Sampled::new(Arc::new(Sequential(4)), 3, 2, false, Shard::whole(), 0);
        assert_eq!(plan.draw(&mut Vec::new()), Ok(Draw::Batch));
        let error = PlanError::OutOfRange { index: 3, len: 3, epoch: 0, batch: 1 };
        assert_eq!(plan.draw(&mut Vec::new()), Err(error));
        assert_eq!(plan.draw(&mut Vec::new()), Ok(Draw::EndOfEpoch));
    }

    #[test]
    fn batches_of_the_user_are_dealt_out_to_the_ranks() {
        let make = |_: u64, epoch: u64| vec![vec![0], vec![1, 2], vec![epoch as usize]];
        let shard = Shard::new(1, 2).unwrap();
        let mut plan = BatchList::new(Arc::new(make), 9, shard, 0);
        assert_eq!(rest(&mut plan), [vec![1, 2], vec![0]]);
        plan.draw(&mut Vec::new()).unwrap();
        let (spare, len) = plan.spare().unwrap();
        assert_eq!((0..len).map(|place| spare(place)).collect::<Vec<_>>(), [0, 1, 2, 1]);
    }

    proptest! {
        #[test]
        fn shards_are_of_equal_length_disjoint_and_complete(
            len in 1usize..300, world in 1usize..9, batch_size in 1usize..20, drop: bool,
        ) {
            let uneven = if drop { Uneven::Drop } else { Uneven::Repeat };
            let shards: Vec<Vec<usize>> = (0..world)
                .map(|rank| Shard::new(rank, world).unwrap().uneven(uneven))
                .map(|shard| rest(&mut plan(len, batch_size, false, shard)).concat())
                .collect();
            prop_assert!(shards.iter().all(|shard| shard.len() == shards[0].len()));
            let mut all = shards.concat();
            all.sort_unstable();
            let (total, extra) = (all.len(), all.len().saturating_sub(len));
            all.dedup();
            if drop {
                prop_assert!(all.len() == total && len - total < world);
            } else {
                prop_assert!(all.len() == len && extra < world);
            }
        }

        #[test]
        fn every_place_can_be_gone_back_to(
            len in 1usize..200, batch_size in 1usize..20, world in 1usize..4, drop_last: bool,
        ) {
            let mut whole = plan(len, batch_size, drop_last, Shard::new(world - 1, world).unwrap());
            let batches = rest(&mut whole);
            prop_assert_eq!(batches.len() as u64, whole.batches().unwrap());
            whole.seek(Cursor::default());
            for done in 0..=batches.len() {
                let mut other = plan(len, batch_size, drop_last, Shard::new(world - 1, world).unwrap());
                other.seek(whole.cursor());
                prop_assert_eq!(&rest(&mut other)[..], &batches[done..]);
                whole.draw(&mut Vec::new()).unwrap();
            }
        }

        #[test]
        fn an_epoch_goes_on_with_another_batch_size_and_number_of_ranks(
            len in 1usize..200, before in 1usize..4, after in 1usize..4, batches in 0usize..5,
        ) {
            let mut seen = Vec::new();
            let mut at = Cursor::default();
            for rank in 0..before {
                let mut plan = plan(len, 7, false, Shard::new(rank, before).unwrap());
                for _ in 0..batches {
                    if plan.cursor().epoch == 0 {
                        plan.draw(&mut seen).unwrap();
                    }
                }
                at = plan.cursor();
            }
            if at.epoch == 0 {
                for rank in 0..after {
                    let mut plan = plan(len, 5, false, Shard::new(rank, after).unwrap());
                    plan.seek(at);
                    seen.extend(rest(&mut plan).concat());
                }
            }
            seen.sort_unstable();
            prop_assert!(seen.len() < len + before + after);
            seen.dedup();
            prop_assert_eq!(seen, (0..len).collect::<Vec<_>>());
        }
    }
}
