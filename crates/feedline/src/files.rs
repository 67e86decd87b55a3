//! Files that become rows of one shape, each with a label.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use feedline_core::{BoxError, DType, Field, Layout, LayoutError, RowMut, SampleRng};
pub use feedline_source::{FileTable, Folder, FolderError, Paths, Reader, TableError};

use crate::Rows;

/// Why there is no row of a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no such sample.
    #[error("there is no sample {0}: there are {1}")]
    NoSuch(usize, usize),
    /// It cannot be read.
    #[error("{path} cannot be read: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It is not what it should be.
    #[error("{path}: {error}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: BoxError,
    },
}

/// Bytes that somebody keeps.
pub type Kept = Box<dyn AsRef<[u8]> + Send + Sync>;

/// Files, each with a label. They may also be in memory.
#[derive(Clone, Debug)]
pub struct Listed {
    origin: Origin,
    labels: Vec<i64>,
    classes: Option<usize>,
}

#[derive(Clone)]
enum Origin {
    Files(Paths),
    Memory(Arc<[Kept]>),
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(paths) => paths.fmt(f),
            Self::Memory(files) => write!(f, "{} files in memory", files.len()),
        }
    }
}

impl Origin {
    fn len(&self) -> usize {
        match self {
            Self::Files(paths) => paths.len(),
            Self::Memory(files) => files.len(),
        }
    }
}

/// Where a file is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    File(&'a Path),
    Memory(usize, &'a [u8]),
}

impl<'a> Place<'a> {
    /// Its bytes; those of a file lie in the reader's memory.
    pub(crate) fn read<'b>(self, reader: &'b mut Reader) -> Result<&'b [u8], FileError>
    where
        'a: 'b,
    {
        match self {
            Self::File(path) => {
                reader.read(path).map_err(|error| FileError::Unreadable { path: path.into(), error })
            }
            Self::Memory(_, bytes) => Ok(bytes),
        }
    }

    /// What is said of it if something is wrong.
    pub(crate) fn name(self) -> PathBuf {
        match self {
            Self::File(path) => path.into(),
            Self::Memory(index, _) => format!("<bytes of sample {index}>").into(),
        }
    }
}

/// Labels that are not one for each file, or not of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// There are more, or fewer.
    #[error("there are {labels} labels for {files} files: give one for each, or none")]
    Count {
        /// Labels.
        labels: usize,
        /// Files.
        files: usize,
    },
    /// One is not between 0 and the number of classes.
    #[error("the label {label} is not one of {classes} classes, which count from 0")]
    NoClass {
        /// The label.
        label: i64,
        /// How many there are.
        classes: usize,
    },
}

impl Listed {
    /// As many labels as files; or none, and each has the label 0.
    pub fn new(paths: Paths, labels: Vec<i64>) -> Result<Self, LabelError> {
        Self::of(Origin::Files(paths), labels)
    }

    /// Files that are in memory already.
    pub fn memory(files: Vec<Kept>, labels: Vec<i64>) -> Result<Self, LabelError> {
        Self::of(Origin::Memory(files.into()), labels)
    }

    fn of(origin: Origin, mut labels: Vec<i64>) -> Result<Self, LabelError> {
        if labels.is_empty() {
            labels = vec![0; origin.len()];
        }
        if labels.len() != origin.len() {
            return Err(LabelError::Count { labels: labels.len(), files: origin.len() });
        }
        Ok(Self { origin, labels, classes: None })
    }

    /// A folder with one folder for each class.
    pub fn folder(root: impl AsRef<Path>) -> Result<Self, FolderError> {
        let Folder { paths, labels, .. } = Folder::list(root.as_ref())?;
        let labels = labels.into_iter().map(i64::from).collect();
        Ok(Self { origin: Origin::Files(paths), labels, classes: None })
    }

    /// A table (CSV, or TSV by its name) with a column of paths, relative to where it is, and perhaps one of labels: whole
    /// numbers, or the names of classes, which are sorted.
    pub fn table(table: impl AsRef<Path>, path: &str, label: Option<&str>) -> Result<Self, TableError> {
        Ok(FileTable::read(table.as_ref(), path, label, None)?.into())
    }

    /// Labels as rows of f32: 1 at the class, 0 elsewhere.
    pub fn one_hot(mut self, classes: usize) -> Result<Self, LabelError> {
        let is_class = |label: i64| usize::try_from(label).is_ok_and(|label| label < classes);
        if let Some(label) = self.labels.iter().copied().find(|label| !is_class(*label)) {
            return Err(LabelError::NoClass { label, classes });
        }
        self.classes = Some(classes);
        Ok(self)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Where one of the files is.
    pub(crate) fn place(&self, index: usize) -> Result<Place<'_>, FileError> {
        let place = match &self.origin {
            Origin::Files(paths) => paths.get(index).map(Place::File),
            Origin::Memory(files) => files.get(index).map(|file| Place::Memory(index, (**file).as_ref())),
        };
        place.ok_or(FileError::NoSuch(index, self.len()))
    }

    /// Its label.
    pub fn label(&self, index: usize) -> Result<i64, FileError> {
        self.labels.get(index).copied().ok_or(FileError::NoSuch(index, self.len()))
    }

    /// How many classes there are, if each label is a row with one number for each.
    pub fn classes(&self) -> Option<usize> {
        self.classes
    }

    /// Bytes of a label.
    pub fn label_bytes(&self) -> usize {
        self.classes.map_or(size_of::<i64>(), |classes| size_of::<f32>() * classes)
    }

    /// Writes a label, which has so many bytes.
    pub fn write_label(&self, index: usize, out: &mut [u8]) -> Result<(), FileError> {
        let label = self.label(index)?;
        if self.classes.is_none() {
            out.copy_from_slice(&label.to_ne_bytes());
            return Ok(());
        }
        for (class, number) in (0..).zip(out.as_chunks_mut().0) {
            *number = f32::from(u8::from(class == label)).to_ne_bytes();
        }
        Ok(())
    }
}

impl From<FileTable> for Listed {
    fn from(table: FileTable) -> Self {
        let FileTable { paths, mut labels, .. } = table;
        labels.resize(paths.len(), 0);
        Self { origin: Origin::Files(paths), labels, classes: None }
    }
}

/// Files that become rows of one shape, each with a label. They can be loaded as any [`Rows`].
pub trait FileRows: Send + Sync + 'static {
    /// What the field is called, beside `"label"`.
    fn field(&self) -> &'static str;

    /// The files.
    fn files(&self) -> &Listed;

    /// The type of a row's numbers.
    fn dtype(&self) -> DType;

    /// The extents of a row.
    fn shape(&self) -> &[usize];

    /// Whether random numbers are drawn.
    fn is_random(&self) -> bool {
        false
    }

    /// Writes the row of a file, which has as many bytes as the shape says.
    fn write_row(&self, index: usize, rng: &mut SampleRng, row: &mut [u8]) -> Result<(), FileError>;

    /// Bytes of a row.
    fn row_bytes(&self) -> usize {
        self.shape().iter().product::<usize>() * self.dtype().size()
    }
}

impl<T: FileRows> Rows for T {
    fn layout(&self) -> Result<Layout, LayoutError> {
        let label = match self.files().classes() {
            None => Field::fixed::<i64>("label", []),
            Some(classes) => Field::dynamic("label", DType::F32, [classes]),
        };
        Layout::new([Field::dynamic(self.field(), self.dtype(), self.shape()), label])
    }

    fn len(&self) -> usize {
        self.files().len()
    }

    fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        self.write_row(index, rng, row.bytes_mut(0)?)?;
        self.files().write_label(index, row.bytes_mut(1)?)?;
        Ok(())
    }
}

/// What workers keep from file to file, while none uses it.
#[derive(Debug, Default)]
pub(crate) struct Desks<T>(Mutex<Vec<T>>);

impl<T: Default> Desks<T> {
    /// Calls back with one.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let desks = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = desks().pop();
        let mut desk = taken.unwrap_or_default();
        let result = work(&mut desk);
        desks().push(desk);
        result
    }
}
