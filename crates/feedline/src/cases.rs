//! Cases of medicine: several volumes under one number, read once, and made into several samples.
//!
//! ```no_run
//! use feedline::{
//!     Grouped, Spec,
//!     cases::Cases,
//!     voxels::{Distance, Spacing},
//! };
//!
//! let patients = Cases::folder("patients", &[("ct", "ct.nrrd"), ("mask", "seg*.nii.gz")])?.keep(1 << 30);
//! // Fifteen samples of each: the distances from one slice of its mask after the other.
//! let samples = patients.samples(15, |case, part, _rng| {
//!     let mask = case.volume("mask")?.voxels::<u8>()?;
//!     let plane = mask.plane();
//!     let mut outside = vec![1; mask.values().len()];
//!     for (outside, inside) in outside[part * plane..].iter_mut().zip(&mask.values()[part * plane..][..plane]) {
//!         *outside = u8::from(*inside == 0);
//!     }
//!     let outside = feedline::voxels::Voxels::new(&outside, mask.extents()).expect("as many as in the mask");
//!     let mut distances = vec![0f32; mask.values().len()];
//!     Distance::default().write(outside, Spacing::new([1.0, 1.0, 3.0])?, 1, &mut distances);
//!     Ok(distances)
//! });
//! // The samples of a case near each other: each case is read once in an epoch.
//! let order = Grouped::new(samples.groups()).mixing(4);
//! let mut loader = Spec::values(samples).sampler(order).batch_size(2).workers(8).build()?;
//! for batch in loader.epoch() {
//!     let maps: Vec<Vec<f32>> = batch?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use feedline_core::{BoxError, DType, Element, SampleRng};
use feedline_media::voxels::{Spacing, Voxels};

use crate::{
    Dataset, GroupCounts, Groups,
    files::{Desks, FileError},
    volumes::{Header, Scratch, VolumeFile},
};

/// What is kept of cases, unless it is said: 1 GiB.
pub const MOST_BYTES: u64 = 1 << 30;

/// Cases that cannot be listed or used.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The folder cannot be listed.
    #[error("{path} cannot be listed: {error}")]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// There are no folders in it.
    #[error("there are no folders in {0}, one for each case")]
    Empty(PathBuf),
    /// A pattern does not name one file.
    #[error("{pattern:?} should be one file in {folder}: there are {found}")]
    NotOne {
        /// The pattern.
        pattern: String,
        /// The folder of the case.
        folder: PathBuf,
        /// How many there are.
        found: usize,
    },
    /// There is no volume of this name.
    #[error("case {case} has no volume {name:?}; it has {has}")]
    NoVolume {
        /// The number of the case.
        case: usize,
        /// What was asked for.
        name: String,
        /// What there is.
        has: String,
    },
    /// Its numbers are of another type.
    #[error("{path} has numbers of type {found}, not {asked}")]
    OtherType {
        /// The file.
        path: PathBuf,
        /// Their type.
        found: DType,
        /// What was asked for.
        asked: DType,
    },
    /// It has not three axes.
    #[error("{path} has {found} axes, not three")]
    NotThree {
        /// The file.
        path: PathBuf,
        /// How many it has.
        found: usize,
    },
}

/// A volume that was read, with its numbers as they are stored.
#[derive(Clone, Debug)]
pub struct Volume {
    path: PathBuf,
    header: Header,
    // As numbers of eight bytes, so that any number may begin where they do.
    numbers: Vec<u64>,
}

impl Volume {
    /// What its file says of it.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its numbers: z, y, x, the slowest axis first.
    pub fn voxels<T: Element>(&self) -> Result<Voxels<'_, T>, CaseError> {
        if self.header.dtype != T::DTYPE {
            let (path, found) = (self.path.clone(), self.header.dtype);
            return Err(CaseError::OtherType { path, found, asked: T::DTYPE });
        }
        let bytes = &bytemuck::cast_slice::<u64, u8>(&self.numbers)[..self.header.bytes()];
        let values = bytemuck::checked::cast_slice(bytes);
        let extents: Result<[usize; 3], _> =
            self.header.shape.iter().rev().copied().collect::<Vec<_>>().try_into();
        let voxels = extents.ok().and_then(|extents| Voxels::new(values, extents));
        voxels.ok_or_else(|| CaseError::NotThree { path: self.path.clone(), found: self.header.shape.len() })
    }

    /// How far its voxels are apart along z, y, x, if the file says so.
    pub fn spacing(&self) -> Option<Spacing> {
        let [x, y, z] = self.header.spacing_3d()?;
        Spacing::new([z, y, x]).ok()
    }
}

/// The volumes of a case, by their names.
#[derive(Clone, Debug)]
pub struct Case {
    number: usize,
    volumes: Vec<(Arc<str>, Volume)>,
}

impl Case {
    /// Its number.
    pub fn number(&self) -> usize {
        self.number
    }

    /// One of its volumes.
    pub fn volume(&self, name: &str) -> Result<&Volume, CaseError> {
        let found = self.volumes.iter().find(|(own, _)| **own == *name);
        found.map(|(_, volume)| volume).ok_or_else(|| {
            let has = self.volumes.iter().map(|(own, _)| format!("{own:?}")).collect::<Vec<_>>().join(", ");
            CaseError::NoVolume { case: self.number, name: name.into(), has }
        })
    }
}

/// The files of one case, and how many bytes its volumes take, once they have been looked at.
struct Files {
    volumes: Vec<(Arc<str>, PathBuf)>,
    bytes: OnceLock<u64>,
}

/// Cases that are read when they are needed, and kept while there is room.
pub struct Cases {
    files: Vec<Files>,
    allow_outside: bool,
    groups: Groups<usize, Case>,
    desks: Desks<Scratch>,
}

impl Cases {
    /// For each case, the files of its volumes by name: NRRD or NIfTI.
    pub fn new<C, N, P>(cases: C) -> Self
    where
        C: IntoIterator<Item: IntoIterator<Item = (N, P)>>,
        N: Into<Arc<str>>,
        P: Into<PathBuf>,
    {
        let files = cases.into_iter().map(|volumes| {
            let volumes = volumes.into_iter().map(|(name, path)| (name.into(), path.into())).collect();
            Files { volumes, bytes: OnceLock::new() }
        });
        Self {
            files: files.collect(),
            allow_outside: false,
            groups: Groups::new(MOST_BYTES),
            desks: Desks::default(),
        }
    }

    /// A folder with one folder for each case. Of each volume, the name, and what its files are called, with `*` for what
    /// differs from case to case.
    pub fn folder(root: impl AsRef<Path>, volumes: &[(&str, &str)]) -> Result<Self, CaseError> {
        let root = root.as_ref();
        let folders: Vec<PathBuf> = entries(root)?.into_iter().filter(|path| path.is_dir()).collect();
        if folders.is_empty() {
            return Err(CaseError::Empty(root.into()));
        }
        let cases = folders.iter().map(|folder| {
            let files = entries(folder)?;
            let named = volumes.iter().map(|(name, pattern)| Ok((*name, only(folder, &files, pattern)?)));
            named.collect::<Result<Vec<_>, _>>()
        });
        Ok(Self::new(cases.collect::<Result<Vec<_>, _>>()?))
    }

    /// Keeps so many bytes of volumes.
    #[must_use]
    pub fn keep(self, most_bytes: u64) -> Self {
        Self { groups: Groups::new(most_bytes), ..self }
    }

    /// Lets NRRD headers name files with their numbers that are not in their folder.
    #[must_use]
    pub fn allow_outside(self) -> Self {
        Self { allow_outside: true, ..self }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// How often cases were read, and how many bytes are kept.
    pub fn counts(&self) -> GroupCounts {
        self.groups.counts()
    }

    /// A case, read if it is not there.
    pub fn get(&self, number: usize) -> Result<Arc<Case>, FileError> {
        let files = self.files.get(number).ok_or(FileError::NoSuch(number, self.len()))?;
        let size = self.size(files)?;
        self.groups.get(number, size, || self.read(number, files))
    }

    /// How many bytes the volumes of a case take.
    fn size(&self, files: &Files) -> Result<u64, FileError> {
        if let Some(bytes) = files.bytes.get() {
            return Ok(*bytes);
        }
        let sizes = files.volumes.iter().map(|(_, path)| {
            VolumeFile::open(path, self.allow_outside).map(|file| file.header().bytes() as u64)
        });
        let bytes = sizes.sum::<Result<u64, _>>()?;
        Ok(*files.bytes.get_or_init(|| bytes))
    }

    fn read(&self, number: usize, files: &Files) -> Result<Case, FileError> {
        let volumes = files.volumes.iter().map(|(name, path)| {
            let file = VolumeFile::open(path, self.allow_outside)?;
            let bytes = file.header().bytes();
            let mut numbers = vec![0u64; bytes.div_ceil(8)];
            let row = &mut bytemuck::cast_slice_mut(&mut numbers)[..bytes];
            self.desks.with(|scratch| file.read_into(scratch, row))?;
            Ok((Arc::clone(name), Volume { path: path.clone(), header: file.header().clone(), numbers }))
        });
        Ok(Case { number, volumes: volumes.collect::<Result<_, FileError>>()? })
    }

    /// So many samples of each case, made by a function of the case, the number of the sample within it, and random numbers.
    pub fn samples<S, F>(self, per_case: usize, make: F) -> CaseSamples<F>
    where
        S: Send + 'static,
        F: Fn(&Case, usize, &mut SampleRng) -> Result<S, BoxError> + Send + Sync + 'static,
    {
        CaseSamples { cases: Arc::new(self), per_case, make }
    }
}

/// The samples of cases: a [`Dataset`].
pub struct CaseSamples<F> {
    cases: Arc<Cases>,
    per_case: usize,
    make: F,
}

impl<F> CaseSamples<F> {
    /// The number of the case that each sample is of, for [`crate::Grouped`].
    pub fn groups(&self) -> impl Iterator<Item = usize> + use<F> {
        let per_case = self.per_case;
        (0..self.cases.len() * per_case).map(move |sample| sample / per_case)
    }

    /// The cases.
    pub fn cases(&self) -> &Arc<Cases> {
        &self.cases
    }
}

impl<S, F> Dataset for CaseSamples<F>
where
    S: Send + 'static,
    F: Fn(&Case, usize, &mut SampleRng) -> Result<S, BoxError> + Send + Sync + 'static,
{
    type Sample = S;

    fn len(&self) -> usize {
        self.cases.len() * self.per_case
    }

    fn get(&self, index: usize, rng: &mut SampleRng) -> Result<S, BoxError> {
        let case = self.cases.get(index / self.per_case)?;
        (self.make)(&case, index % self.per_case, rng)
    }
}

/// What is in a folder, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, CaseError> {
    let listed = fs::read_dir(folder).and_then(|entries| {
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    });
    listed.map_err(|error| CaseError::Unreadable { path: folder.into(), error })
}

/// The one file that is meant.
fn only(folder: &Path, files: &[PathBuf], pattern: &str) -> Result<PathBuf, CaseError> {
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found = files.iter().filter(|path| fits(pattern, &name(path)));
    match (found.next(), found.count()) {
        (Some(path), 0) => Ok(path.clone()),
        (first, more) => {
            let found = usize::from(first.is_some()) + more;
            Err(CaseError::NotOne { pattern: pattern.into(), folder: folder.into(), found })
        }
    }
}

/// Whether a name is what a pattern says, in which `*` is anything.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    name.strip_prefix(before).is_some_and(|rest| {
        (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| fits(after, &rest[at..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_anything() {
        for (pattern, name) in
            [("*", ""), ("ct.nrrd", "ct.nrrd"), ("seg*.nii.gz", "seg-7.nii.gz"), ("*a*b", "xaybab")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("ct", "ct.nrrd"), ("seg*.nii.gz", "seg.nii"), ("*a*b", "ba"), ("a*a", "a")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }
}
