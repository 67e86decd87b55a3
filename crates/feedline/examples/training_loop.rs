//! A training loop that can be killed at any time and goes on as if nothing had happened.
//!
//! Every 100 batches it writes a checkpoint: the model, and where the loader is. Started again with the same
//! `--state`, it goes on from there, and the model comes out the same to the last bit, whatever the number of
//! workers. Here the second run dies after 750 batches and is resumed with other workers:
//!
//! ```text
//! $ cargo run -p feedline --example training_loop
//! …
//! checksum c7f7efd8c3e7b1fd
//! $ cargo run -p feedline --example training_loop -- --state run.txt --stop-after 750 --workers 1
//! …
//! stopped after 750 batches, as if killed
//! $ cargo run -p feedline --example training_loop -- --state run.txt --workers 4
//! resuming run.txt in epoch 3
//! …
//! checksum c7f7efd8c3e7b1fd
//! ```
//!
//! The 50 batches since the last checkpoint were done twice, and that is all it cost. (The checksum may be
//! another on a machine whose `exp` rounds differently; the two are equal on each.)
//!
//! The model is a logistic regression that learns to tell two clouds of points apart, small enough not to be
//! in the way. What matters is [`train`] and [`Checkpoint`].

#![allow(clippy::print_stdout)] // An example talks to whoever runs it.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use feedline::{Batch, BoxError, Dataset, Loader, RowError, SampleRng, Spec, SpecError, State};

const EPOCHS: u64 = 10;
const BATCH_SIZE: usize = 64;
const SAVE_EVERY: u64 = 100;

fn main() -> Result<ExitCode, BoxError> {
    let Some(options) = Options::read(std::env::args().skip(1)) else {
        println!("usage: training_loop [--state FILE] [--stop-after BATCHES] [--workers NUMBER]");
        return Ok(ExitCode::FAILURE);
    };
    let resumed = options.state.as_deref().map(Checkpoint::load).transpose()?.flatten();
    if let (Some(path), Some(from)) = (&options.state, &resumed) {
        println!("resuming {} in epoch {}", path.display(), from.epoch);
    }
    match train(&options, resumed)? {
        Some(model) => println!("checksum {:016x}", model.checksum()),
        None => println!("stopped after {} batches, as if killed", options.stop_after),
    }
    Ok(ExitCode::SUCCESS)
}

/// Trains to the end, or until `--stop-after`; then there is no model.
fn train(options: &Options, resumed: Option<Checkpoint>) -> Result<Option<Model>, BoxError> {
    let mut loader = loader(options.workers, resumed.as_ref().map(|from| from.loader.clone()))?;
    let (first, mut model) = resumed.map_or_else(Default::default, |from| (from.epoch, from.model));
    let mut done = 0;
    for epoch in first..EPOCHS {
        let mut loss = None;
        // Not `for batch in loader.epoch()`: that would keep the iterator to itself, and with it the state.
        let mut batches = loader.epoch();
        while let Some(batch) = batches.next() {
            loss = Some(model.learn(&batch?)?);
            done += 1;
            if done == options.stop_after {
                return Ok(None);
            }
            if done % SAVE_EVERY == 0 {
                options.save(epoch, batches.state(), &model)?;
            }
        }
        // Nothing is left of an epoch that was saved after its last batch.
        if let Some(loss) = loss {
            println!("epoch {epoch}: the last batch has a loss of {loss:.4}");
        }
    }
    // Whoever starts a finished run again should get its result and not its last batches.
    options.save(EPOCHS, loader.state(), &model)?;
    Ok(Some(model))
}

/// The loader from the beginning, or from where it was. Only what a state does not depend on may differ.
fn loader(workers: usize, resumed: Option<State>) -> Result<Loader<Batch>, SpecError> {
    let spec =
        Spec::stacked(Clouds).batch_size(BATCH_SIZE).shuffle(true).seed(7).epochs(EPOCHS).workers(workers);
    match resumed {
        Some(state) => spec.resume(state).build(),
        None => spec.build(),
    }
}

/// All that is needed to go on.
struct Checkpoint {
    epoch: u64,
    loader: State,
    model: Model,
}

impl Checkpoint {
    /// Writes a new file and puts it in the place of the old one in a single step, so that whenever the run
    /// is killed there is a whole checkpoint, the old or the new one.
    fn save(&self, path: &Path) -> Result<(), BoxError> {
        let fresh = path.with_added_extension("new");
        let write = || {
            let mut file = File::create(&fresh)?;
            file.write_all(self.to_text().as_bytes())?;
            // Else a power cut could leave the new name without its contents.
            file.sync_all()?;
            fs::rename(&fresh, path)
        };
        write().map_err(|error| format!("the checkpoint {} cannot be saved: {error}", path.display()).into())
    }

    /// The checkpoint of this file; none if there is no such file.
    fn load(path: &Path) -> Result<Option<Self>, BoxError> {
        let read = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => Err(error.into()),
            Ok(text) => Self::from_text(&text),
        };
        // To begin anew would throw away what the user wants to go on with.
        read.map(Some).map_err(|error| format!("{} is no checkpoint: {error}", path.display()).into())
    }

    /// A line each. Rust prints a float with as many digits as it takes to read the same one back.
    fn to_text(&self) -> String {
        let weights: Vec<String> = self.model.weights.iter().map(f32::to_string).collect();
        format!("{}\n{}\n{}\n", self.epoch, self.loader.to_json(), weights.join(" "))
    }

    fn from_text(text: &str) -> Result<Self, BoxError> {
        let [epoch, loader, weights] = text.lines().collect::<Vec<_>>()[..] else {
            return Err("it does not have three lines".into());
        };
        let weights = weights.split(' ').map(str::parse).collect::<Result<Vec<f32>, _>>()?;
        let weights = weights.try_into().map_err(|_| "the model has another size")?;
        Ok(Self { epoch: epoch.parse()?, loader: State::from_json(loader)?, model: Model { weights } })
    }
}

const FEATURES: usize = 8;

/// Two clouds of points around (0.2, …) and (-0.2, …), drawn anew in every epoch: a run that is resumed has
/// to see the same random numbers, not only the same order.
struct Clouds;

impl Dataset for Clouds {
    /// A point, and the sign of its cloud.
    type Sample = ([f32; FEATURES], f32);

    fn len(&self) -> usize {
        12_790
    }

    fn get(&self, index: usize, rng: &mut SampleRng) -> Result<Self::Sample, BoxError> {
        let sign = if index.is_multiple_of(2) { 1.0 } else { -1.0 };
        let point = std::array::from_fn(|_| 0.2 * sign + rng.uniform() as f32 - 0.5);
        Ok((point, sign))
    }
}

/// A logistic regression.
#[derive(Clone, Default)]
struct Model {
    weights: [f32; FEATURES],
}

impl Model {
    const RATE: f32 = 0.1;

    /// One step of gradient descent; gives the mean loss of the batch.
    fn learn(&mut self, batch: &Batch) -> Result<f32, RowError> {
        let (points, signs) = (batch.slice::<f32>("0")?, batch.slice::<f32>("1")?);
        let (mut gradient, mut loss) = ([0.0; FEATURES], 0.0);
        for (point, sign) in points.chunks_exact(FEATURES).zip(signs) {
            let score: f32 = self.weights.iter().zip(point).map(|(weight, x)| weight * x).sum();
            let right = 1.0 / (1.0 + (-sign * score).exp());
            loss -= right.ln();
            for (slope, x) in gradient.iter_mut().zip(point) {
                *slope -= (1.0 - right) * sign * x;
            }
        }
        let share = 1.0 / batch.len() as f32;
        for (weight, slope) in self.weights.iter_mut().zip(gradient) {
            *weight -= Self::RATE * share * slope;
        }
        Ok(share * loss)
    }

    /// Tells models apart that differ in a single bit (FNV-1a).
    fn checksum(&self) -> u64 {
        let bytes = self.weights.iter().flat_map(|weight| weight.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

/// What the user asks for.
struct Options {
    state: Option<PathBuf>,
    stop_after: u64,
    workers: usize,
}

impl Options {
    /// `None` if they make no sense.
    fn read(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self { state: None, stop_after: u64::MAX, workers: 2 };
        while let Some(name) = arguments.next() {
            let value = arguments.next()?;
            match name.as_str() {
                "--state" => options.state = Some(value.into()),
                "--stop-after" => options.stop_after = value.parse().ok()?,
                "--workers" => options.workers = value.parse().ok()?,
                _ => return None,
            }
        }
        Some(options)
    }

    /// Saves a checkpoint if a file for it was given.
    fn save(&self, epoch: u64, loader: State, model: &Model) -> Result<(), BoxError> {
        match &self.state {
            Some(path) => Checkpoint { epoch, loader, model: model.clone() }.save(path),
            None => Ok(()),
        }
    }
}
