//! A running loader and the iterator over one of its epochs.

use std::time::Duration;

use feedline_core::{
    Cursor, Engine, Error, Gauges, Manifest, Next, Position, State, StateError, Window, Work,
};

use crate::auto::Auto;

/// What a loader needs of an engine, whatever the engine runs.
pub(crate) trait Feed<B>: Send {
    fn begin(&mut self) -> Result<(), Error>;
    fn next(&mut self) -> Next<B>;
    fn next_within(&mut self, limit: Duration) -> Next<B>;
    fn position(&self) -> Position;
    fn restart(&mut self, position: Position) -> Result<(), Error>;
    fn set_workers(&mut self, workers: usize) -> std::io::Result<()>;
    fn set_window(&mut self, window: Window);
    fn workers(&self) -> usize;
    fn gauges(&self) -> Gauges;
    fn failures(&self) -> &Manifest;
}

impl<W: Work> Feed<W::Batch> for Engine<W> {
    fn begin(&mut self) -> Result<(), Error> {
        Self::begin(self)
    }
    fn next(&mut self) -> Next<W::Batch> {
        Self::next(self)
    }
    fn next_within(&mut self, limit: Duration) -> Next<W::Batch> {
        Self::next_within(self, limit)
    }
    fn position(&self) -> Position {
        Self::position(self)
    }
    fn restart(&mut self, position: Position) -> Result<(), Error> {
        Self::restart(self, position)
    }
    fn set_workers(&mut self, workers: usize) -> std::io::Result<()> {
        Self::set_workers(self, workers)
    }
    fn set_window(&mut self, window: Window) {
        Self::set_window(self, window);
    }
    fn workers(&self) -> usize {
        Self::workers(self)
    }
    fn gauges(&self) -> Gauges {
        Self::gauges(self)
    }
    fn failures(&self) -> &Manifest {
        Self::failures(self)
    }
}

/// What makes a saved state belong to a loader.
pub(crate) struct Identity {
    pub(crate) seed: u64,
    pub(crate) len: u64,
    pub(crate) order: String,
    pub(crate) stride: u64,
}

/// Loads batches of type `B`, epoch after epoch. Made by [`crate::Spec::build`]; dropping it ends its workers.
///
/// ```
/// # use feedline::{BoxError, Dataset, SampleRng, Spec};
/// # struct Squares;
/// # impl Dataset for Squares {
/// #     type Sample = u64;
/// #     fn len(&self) -> usize { 100 }
/// #     fn get(&self, index: usize, _: &mut SampleRng) -> Result<u64, BoxError> { Ok(index as u64) }
/// # }
/// let mut loader = Spec::values(Squares).batch_size(8).shuffle(true).workers(2).build()?;
/// for epoch in 0..3 {
///     for batch in loader.epoch() {
///         let batch: Vec<u64> = batch?;
///         // … a training step …
///     }
///     let saved = loader.state().to_json(); // inside an epoch: `epoch.state()`, see `next_epoch`
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Loader<B> {
    feed: Box<dyn Feed<B>>,
    identity: Identity,
    batches: Option<u64>,
    epochs: Option<u64>,
    /// Whether an epoch has been begun and not finished.
    midway: bool,
    /// What changes the number of workers by itself.
    auto: Option<Auto>,
}

impl<B> Loader<B> {
    pub(crate) fn new(
        feed: Box<dyn Feed<B>>,
        identity: Identity,
        batches: Option<u64>,
        epochs: Option<u64>,
        auto: Option<Auto>,
    ) -> Self {
        Self { feed, identity, batches, epochs, midway: false, auto }
    }

    /// The next epoch, as [`Loader::epoch`]; `None` after the number of epochs that was set with
    /// [`crate::Spec::epochs`]. So a training loop that is resumed stops where it would have stopped.
    ///
    /// ```
    /// # use feedline::{BoxError, Dataset, SampleRng, Spec, State};
    /// # struct Squares;
    /// # impl Dataset for Squares {
    /// #     type Sample = u64;
    /// #     fn len(&self) -> usize { 100 }
    /// #     fn get(&self, index: usize, _: &mut SampleRng) -> Result<u64, BoxError> { Ok(index as u64) }
    /// # }
    /// # fn load_checkpoint() -> Option<State> { None }
    /// let spec = Spec::values(Squares).batch_size(8).shuffle(true).epochs(3);
    /// let mut loader = spec.resume(load_checkpoint()).build()?;
    /// while let Some(mut epoch) = loader.next_epoch() {
    ///     while let Some(batch) = epoch.next() {
    ///         let batch = batch?;
    ///         // … a training step …
    ///         let checkpoint = epoch.state().to_json();
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_epoch(&mut self) -> Option<Epoch<'_, B>> {
        let next = self.feed.position().at.epoch + u64::from(self.midway);
        if self.epochs.is_some_and(|epochs| next >= epochs) { None } else { Some(self.epoch()) }
    }

    /// The batches of the next epoch; after [`Loader::restore`], the rest of the epoch of the state.
    ///
    /// An epoch that was left early is given up when the next one is asked for.
    pub fn epoch(&mut self) -> Epoch<'_, B> {
        let begun = self.begin();
        Epoch { left: self.left(), error: begun.err(), loader: self, over: false }
    }

    fn begin(&mut self) -> Result<(), Error> {
        if self.midway {
            let next = Cursor::epoch(self.feed.position().at.epoch + 1);
            self.feed.restart(Position { at: next, delivered: Vec::new() })?;
        }
        self.midway = true;
        self.feed.begin()
    }

    /// Batches left in the epoch, if that is known and nothing is skipped.
    fn left(&self) -> Option<u64> {
        let Position { at, delivered } = self.feed.position();
        let gone = at.batch + delivered.iter().map(|range| range.end - range.start).sum::<u64>();
        self.batches.map(|batches| batches.saturating_sub(gone))
    }

    /// How many batches an epoch has on this rank. Not known for streams and batches of the user's making.
    pub fn batches(&self) -> Option<u64> {
        self.batches
    }

    /// Where the loader is: after the batches delivered so far, whatever has been loaded ahead.
    pub fn state(&self) -> State {
        let Identity { seed, len, order, stride } = &self.identity;
        State::new(*seed, *len, order, *stride, self.feed.position())
    }

    /// Goes to a saved place. The next [`Loader::epoch`] is the rest of that epoch.
    pub fn restore(&mut self, state: &State) -> Result<(), StateError> {
        let Identity { seed, len, order, stride } = &self.identity;
        let position = state.position(*seed, *len, order, *stride)?;
        self.midway = false;
        // In a forked child this fails, and the next epoch says so.
        let _ = self.feed.restart(position);
        Ok(())
    }

    /// Changes the number of worker threads, at any time; nothing is lost, repeated or reordered. On an error
    /// the workers that could be started go on. After [`crate::Spec::auto_workers`], the number no longer changes by
    /// itself.
    pub fn set_workers(&mut self, workers: usize) -> std::io::Result<()> {
        self.auto = None;
        self.feed.set_workers(workers)
    }

    fn tune(&mut self) {
        if let Some(auto) = &mut self.auto {
            auto.tune(&mut *self.feed);
        }
    }

    /// The number of worker threads.
    pub fn workers(&self) -> usize {
        self.feed.workers()
    }

    /// Where the time goes, since the loader was built.
    pub fn gauges(&self) -> Gauges {
        self.feed.gauges()
    }

    /// The samples that could not be loaded, of the batches delivered so far.
    pub fn failures(&self) -> &Manifest {
        self.feed.failures()
    }
}

impl<B> std::fmt::Debug for Loader<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state().to_json();
        f.debug_struct("Loader")
            .field("workers", &self.workers())
            .field("state", &state)
            .finish_non_exhaustive()
    }
}

/// The batches of one epoch.
///
/// An `Err` stands in the place of one batch: the ones after it come as usual, unless
/// [`Error::is_final`] says otherwise, after which the iterator ends.
pub struct Epoch<'a, B> {
    loader: &'a mut Loader<B>,
    left: Option<u64>,
    error: Option<Error>,
    over: bool,
}

impl<B> Epoch<'_, B> {
    /// The next batch if it comes within this time; [`Next::NotYet`] otherwise, with nothing lost.
    pub fn next_within(&mut self, limit: Duration) -> Next<B> {
        if self.over {
            return Next::EndOfEpoch;
        }
        self.loader.tune();
        let next = match self.error.take() {
            Some(error) => Next::Batch(Err(error)),
            None => self.loader.feed.next_within(limit),
        };
        self.note(next)
    }

    /// Where the loader is; see [`Loader::state`].
    pub fn state(&self) -> State {
        self.loader.state()
    }

    /// The samples that could not be loaded; see [`Loader::failures`].
    pub fn failures(&self) -> &Manifest {
        self.loader.failures()
    }

    /// Where the time goes; see [`Loader::gauges`].
    pub fn gauges(&self) -> Gauges {
        self.loader.gauges()
    }

    /// Changes the number of workers; see [`Loader::set_workers`].
    pub fn set_workers(&mut self, workers: usize) -> std::io::Result<()> {
        self.loader.set_workers(workers)
    }

    fn note(&mut self, next: Next<B>) -> Next<B> {
        match &next {
            Next::EndOfEpoch => {
                self.over = true;
                self.loader.midway = false;
            }
            Next::Batch(result) => {
                self.left = self.left.map(|left| left.saturating_sub(1));
                self.over = result.as_ref().is_err_and(Error::is_final);
            }
            Next::NotYet => {}
        }
        next
    }
}

impl<B> Iterator for Epoch<'_, B> {
    type Item = Result<B, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        self.loader.tune();
        let next = match self.error.take() {
            Some(error) => Next::Batch(Err(error)),
            None => self.loader.feed.next(),
        };
        match self.note(next) {
            Next::Batch(result) => Some(result),
            Next::EndOfEpoch | Next::NotYet => None,
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // A batch all of whose samples are skipped is not delivered.
        (0, self.left.map(|left| left as usize))
    }
}

impl<B> std::iter::FusedIterator for Epoch<'_, B> {}
