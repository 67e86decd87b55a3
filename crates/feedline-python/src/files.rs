//! Images and tensors in files, made into rows without Python.

use std::{io, path::PathBuf, sync::Arc};

use feedline::{
    cells::{Cells, CellsError, Extents, Steps},
    files::{FileError, FileTable, Folder, FolderError, Kept, Listed, TableError},
    images::{
        Arrangement, Decode, Filter, Images, Like, MeanStd, Numbers, Pipeline, Refused, Transform, Unit,
        transform::{
            CentreCrop, ColourJitter, Flip, Grayscale, Pad, RandomCrop, RandomResizedCrop, ResizeShort,
            ResizeTo, Upright, Way,
        },
    },
    tensors::Tensors,
};
use feedline_core::{DType, Key, Purpose};
use pyo3::{
    exceptions::{PyFileNotFoundError, PyIndexError, PyIsADirectoryError, PyOSError, PyValueError},
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyByteArray, PyTuple},
};

/// The classes of a folder, its files, and the class of each.
#[pyfunction]
pub(crate) fn list_folder(py: Python<'_>, root: PathBuf) -> PyResult<(Vec<String>, Vec<PathBuf>, Vec<u32>)> {
    listing(py, py.detach(|| Folder::list(&root)))
}

/// The classes of a table of files (none if labels are numbers), its files, and the label of each.
#[pyfunction]
pub(crate) fn list_table(
    py: Python<'_>,
    table: PathBuf,
    path: &str,
    label: Option<&str>,
    delimiter: Option<char>,
) -> PyResult<(Vec<String>, Vec<PathBuf>, Vec<i64>)> {
    let delimiter = delimiter.map(u8::try_from).transpose();
    let delimiter = delimiter.map_err(|_| PyValueError::new_err("a delimiter is one byte"))?;
    let read = py.detach(|| FileTable::read(&table, path, label, delimiter));
    let FileTable { classes, paths, labels } = read.map_err(|error| match error {
        TableError::Unreadable { path, error } => unreadable(path, &error),
        other => PyValueError::new_err(other.to_string()),
    })?;
    Ok((classes, paths.iter().map(PathBuf::from).collect(), labels))
}

/// What was listed, or the error that Python has for it.
pub(crate) fn listing(
    py: Python<'_>,
    listed: Result<Folder, FolderError>,
) -> PyResult<(Vec<String>, Vec<PathBuf>, Vec<u32>)> {
    let Folder { classes, paths, labels } = listed.map_err(|error| match error {
        FolderError::Unreadable { error, path } => {
            let text = format!("{} cannot be listed: {error}", path.display());
            // The type says what kind of trouble it is.
            match PyErr::from(error) {
                kind if kind.is_instance_of::<PyFileNotFoundError>(py) => PyFileNotFoundError::new_err(text),
                _ => PyOSError::new_err(text),
            }
        }
        other => PyFileNotFoundError::new_err(other.to_string()),
    })?;
    Ok((classes, paths.iter().map(PathBuf::from).collect(), labels))
}

/// Files that become rows of one shape, each with a label.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct FileRows(pub(crate) Box<dyn feedline::files::FileRows>);

#[pymethods]
impl FileRows {
    /// Images. `steps` are tuples, each with its name first. There is one label for each path, or none at all; of so many
    /// classes, it is a row with a number for each.
    #[staticmethod]
    #[pyo3(signature = (paths, labels, steps, classes=None))]
    fn images(
        paths: Origin,
        labels: Vec<i64>,
        steps: Vec<Bound<'_, PyTuple>>,
        classes: Option<usize>,
    ) -> PyResult<Self> {
        let (files, (pipeline, cache)) = (listed(paths, labels, classes)?, pipeline(&steps)?);
        let mut images = Images::new(files, pipeline);
        if let Some((most_bytes, path)) = cache {
            images = images.cached(most_bytes, path.as_deref())?;
        }
        Ok(Self(Box::new(images)))
    }

    /// Arrays, all like that of the first file. Of files with several, `name` says which.
    #[staticmethod]
    #[pyo3(signature = (paths, labels, name, classes=None))]
    fn tensors(
        paths: Origin,
        labels: Vec<i64>,
        name: Option<String>,
        classes: Option<usize>,
    ) -> PyResult<Self> {
        let tensors = Tensors::files(listed(paths, labels, classes)?, name);
        Ok(Self(Box::new(tensors.map_err(to_python)?)))
    }

    /// Images of many channels, all like the first.
    #[staticmethod]
    #[pyo3(signature = (paths, labels, steps, classes=None))]
    fn cells(
        paths: Origin,
        labels: Vec<i64>,
        steps: Vec<Bound<'_, PyTuple>>,
        classes: Option<usize>,
    ) -> PyResult<Self> {
        let files = listed(paths, labels, classes)?;
        if let [only] = steps.as_slice()
            && argument::<String>(only, 0)? == "extents"
        {
            return Ok(Self(Box::new(Extents::new(files))));
        }
        match Cells::new(files, cell_steps(&steps)?) {
            Ok(cells) => Ok(Self(Box::new(cells))),
            Err(CellsError::File(error)) => Err(to_python(error)),
            Err(error @ CellsError::Steps(_)) => Err(PyValueError::new_err(error.to_string())),
        }
    }

    fn __len__(&self) -> usize {
        self.0.files().len()
    }

    /// The extents of a row.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape())
    }

    /// The type of its numbers.
    #[getter]
    fn dtype(&self) -> &'static str {
        numpy_name(self.0.dtype())
    }

    /// Whether it differs from epoch to epoch.
    #[getter]
    fn is_random(&self) -> bool {
        self.0.is_random()
    }

    /// How many numbers a label has, if it is a row of them.
    #[getter]
    fn classes(&self) -> Option<usize> {
        self.0.files().classes()
    }

    /// The label of a file.
    fn label(&self, index: usize) -> PyResult<i64> {
        self.0.files().label(index).map_err(to_python)
    }

    /// One row.
    fn read<'py>(
        &self,
        py: Python<'py>,
        index: usize,
        seed: u64,
        epoch: u64,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let bytes = self.0.row_bytes();
        // As numbers of eight bytes, so that any number may begin where the row does.
        let mut row = vec![0u64; bytes.div_ceil(8)];
        let made = py.detach(|| {
            let row = &mut bytemuck::cast_slice_mut(&mut row)[..bytes];
            self.0.write_row(index, &mut Key::new(seed, epoch, Purpose::Sample).rng(index as u64), row)
        });
        made.map_err(to_python)?;
        Ok(PyByteArray::new(py, &bytemuck::cast_slice(&row)[..bytes]))
    }
}

/// A type by numpy's name.
pub(crate) fn numpy_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "uint8",
        DType::U16 => "uint16",
        DType::U32 => "uint32",
        DType::U64 => "uint64",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::F16 => "float16",
        DType::Bf16 => "bfloat16",
        DType::F32 => "float32",
        DType::F64 => "float64",
    }
}

/// Rows of files and their labels, as two columns of a batch's memory.
pub(crate) struct FileColumns<'a> {
    files: &'a dyn feedline::files::FileRows,
    start: usize,
    offsets: [usize; 2],
    key: Key,
}

impl FileRows {
    /// The columns of a batch of so many rows, which begins at `start`. Random numbers are those of (seed, epoch, index).
    /// `None` if the columns are those of other samples.
    pub(crate) fn columns(
        &self,
        start: *mut u8,
        offsets: &[usize],
        rows: usize,
        (seed, epoch): (u64, u64),
    ) -> Option<FileColumns<'_>> {
        let [begin, labels, end, ..] = *offsets else { return None };
        let label_bytes = self.0.files().label_bytes();
        let fits = begin + self.0.row_bytes() * rows <= labels && labels + label_bytes * rows <= end;
        let key = Key::new(seed, epoch, Purpose::Sample);
        fits.then_some(FileColumns { files: &*self.0, start: start as usize, offsets: [begin, labels], key })
    }
}

impl FileColumns<'_> {
    /// Writes a row; whether it could be made.
    ///
    /// # Safety
    /// The memory has the rows that were said, and nobody else writes or reads this one.
    pub(crate) unsafe fn write(&self, index: usize, row: usize) -> bool {
        let (width, [begin, labels]) = (self.files.row_bytes(), self.offsets);
        let place = (self.start + begin + row * width) as *mut u8;
        // SAFETY: the columns are as long as all rows, and this row is ours, as the caller says.
        let bytes = unsafe { std::slice::from_raw_parts_mut(place, width) };
        if self.files.write_row(index, &mut self.key.rng(index as u64), bytes).is_err() {
            return false;
        }
        let files = self.files.files();
        let place = (self.start + labels + row * files.label_bytes()) as *mut u8;
        // SAFETY: as above.
        let label = unsafe { std::slice::from_raw_parts_mut(place, files.label_bytes()) };
        files.write_label(index, label).is_ok()
    }
}

/// Bytes in memory, or names of files.
#[derive(FromPyObject)]
enum Origin {
    Memory(Vec<PyBackedBytes>),
    Files(Vec<PathBuf>),
}

fn listed(origin: Origin, labels: Vec<i64>, classes: Option<usize>) -> PyResult<Listed> {
    let listed = match origin {
        Origin::Files(paths) => Listed::new(paths.into_iter().collect(), labels),
        Origin::Memory(files) => {
            Listed::memory(files.into_iter().map(|file| -> Kept { Box::new(file) }).collect(), labels)
        }
    };
    let listed = listed.and_then(|listed| match classes {
        None => Ok(listed),
        Some(classes) => listed.one_hot(classes),
    });
    listed.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The steps of cells by their names.
fn cell_steps(given: &[Bound<'_, PyTuple>]) -> PyResult<Steps> {
    let mut steps = Steps::default();
    for step in given {
        let name: String = step.get_item(0)?.extract()?;
        match name.as_str() {
            "channels" => steps.channels = Some(argument(step, 1)?),
            "resize" => {
                let size = (argument(step, 1)?, argument(step, 2)?);
                steps.resize = Some((size, filter(&argument::<String>(step, 3)?)?));
            }
            "centre_crop" => steps.crop = Some((argument(step, 1)?, argument(step, 2)?)),
            "mirror" => steps.flips.0 = argument(step, 1)?,
            "flip" => steps.flips.1 = argument(step, 1)?,
            "float" => steps.floats = true,
            "normalise" => {
                steps.normalise = Some(MeanStd { mean: argument(step, 1)?, std: argument(step, 2)? });
            }
            _ => return Err(PyValueError::new_err(format!("there is no step {name:?}"))),
        }
    }
    Ok(steps)
}

pub(crate) fn to_python(error: FileError) -> PyErr {
    match error {
        FileError::NoSuch(..) => PyIndexError::new_err(error.to_string()),
        FileError::Unreadable { path, error } => unreadable(path, &error),
        FileError::Unfit { .. } => PyValueError::new_err(error.to_string()),
    }
}

pub(crate) fn unreadable(path: PathBuf, error: &io::Error) -> PyErr {
    // With its number, Python knows which kind of OSError it is.
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, text, path)),
        None if error.kind() == io::ErrorKind::IsADirectory => {
            PyIsADirectoryError::new_err(format!("{}: {text}", path.display()))
        }
        None => PyOSError::new_err(format!("{}: {text}", path.display())),
    }
}

/// The bytes of a cache, and the file it is, if it is one.
type CacheIn = (u64, Option<PathBuf>);

/// Steps by their names.
fn pipeline(steps: &[Bound<'_, PyTuple>]) -> PyResult<(Pipeline, Option<CacheIn>)> {
    let (mut transforms, mut numbers) = (Vec::<Arc<dyn Transform>>::new(), Numbers::Bytes);
    let (mut arrangement, mut cache, mut cast) = (Arrangement::Planes, None, None);
    let mut decode = Decode::Exact;
    for step in steps {
        let name: String = step.get_item(0)?.extract()?;
        match name.as_str() {
            "float" => numbers = Numbers::Floats(unit(&argument::<String>(step, 1)?)?, Vec::new()),
            "normalise" => {
                let (mean, std) = (argument(step, 1)?, argument(step, 2)?);
                match &mut numbers {
                    Numbers::Floats(_, shifts) => shifts.push(MeanStd { mean, std }),
                    Numbers::Bytes => return Err(PyValueError::new_err("bytes cannot be normalised")),
                }
            }
            "cache" => cache = Some((transforms.len(), (argument(step, 1)?, argument(step, 2)?))),
            "fast" => decode = Decode::Fast,
            "cast" => cast = Some(float_type(&argument::<String>(step, 1)?)?),
            "channels_last" => arrangement = Arrangement::Pixels,
            _ => transforms.push(transform(&name, step)?),
        }
    }
    let refused = |error: Refused| PyValueError::new_err(error.to_string());
    let mut pipeline = Pipeline::new(transforms, numbers, arrangement).map_err(refused)?.decoding(decode);
    if let Some(dtype) = cast {
        pipeline = pipeline.cast(dtype).map_err(refused)?;
    }
    match cache {
        None => Ok((pipeline, None)),
        Some((behind, cache)) => Ok((pipeline.keeping(behind).map_err(refused)?, Some(cache))),
    }
}

fn transform(name: &str, step: &Bound<'_, PyTuple>) -> PyResult<Arc<dyn Transform>> {
    let size = || -> PyResult<(usize, usize)> { Ok((argument(step, 1)?, argument(step, 2)?)) };
    Ok(match name {
        "resize_short" => Arc::new(ResizeShort {
            side: argument(step, 1)?,
            longest: argument(step, 2)?,
            filter: filter(&argument::<String>(step, 3)?)?,
            like: like(&argument::<String>(step, 4)?)?,
        }),
        "resize_to" => Arc::new(ResizeTo {
            size: size()?,
            filter: filter(&argument::<String>(step, 3)?)?,
            like: like(&argument::<String>(step, 4)?)?,
        }),
        "centre_crop" => Arc::new(CentreCrop { size: size()? }),
        "random_crop" => {
            let sides: Option<[usize; 4]> = argument(step, 3)?;
            let (fill, if_needed): ([u8; 3], bool) = (argument(step, 4)?, argument(step, 5)?);
            Arc::new(RandomCrop {
                size: size()?,
                pad: sides.map(|sides| Pad { sides, fill }),
                if_needed: if_needed.then_some(fill),
            })
        }
        "random_resized_crop" => Arc::new(RandomResizedCrop {
            size: size()?,
            scale: argument(step, 3)?,
            ratio: argument(step, 4)?,
            filter: filter(&argument::<String>(step, 5)?)?,
            like: like(&argument::<String>(step, 6)?)?,
        }),
        "upright" => Arc::new(Upright),
        "mirror" => Arc::new(Flip { way: Way::Mirror, probability: argument(step, 1)? }),
        "flip" => Arc::new(Flip { way: Way::UpsideDown, probability: argument(step, 1)? }),
        "pad" => Arc::new(Pad { sides: argument(step, 1)?, fill: argument(step, 2)? }),
        "grayscale" => Arc::new(Grayscale {
            channels: argument(step, 1)?,
            probability: argument(step, 2)?,
            like: like(&argument::<String>(step, 3)?)?,
        }),
        "colour_jitter" => Arc::new(ColourJitter {
            brightness: argument(step, 1)?,
            contrast: argument(step, 2)?,
            saturation: argument(step, 3)?,
            hue: argument(step, 4)?,
        }),
        _ => return Err(PyValueError::new_err(format!("there is no step {name:?}"))),
    })
}

fn argument<'py, T>(step: &Bound<'py, PyTuple>, at: usize) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    step.get_item(at)?.extract().map_err(Into::into)
}

fn filter(name: &str) -> PyResult<Filter> {
    match name {
        "nearest" => Ok(Filter::Nearest),
        "bilinear" => Ok(Filter::Bilinear),
        "bicubic" => Ok(Filter::Bicubic),
        _ => Err(PyValueError::new_err(format!(
            "there is no filter {name:?}; there are 'nearest', 'bilinear', 'bicubic'"
        ))),
    }
}

fn like(name: &str) -> PyResult<Like> {
    match name {
        "pillow" => Ok(Like::Pillow),
        "pillow < 13" => Ok(Like::OlderPillow),
        "torchvision" => Ok(Like::Torchvision),
        _ => Err(PyValueError::new_err(format!(
            "like {name:?}: there are 'pillow', 'pillow < 13' and 'torchvision'"
        ))),
    }
}

fn float_type(name: &str) -> PyResult<DType> {
    match name {
        "float16" => Ok(DType::F16),
        "bfloat16" => Ok(DType::Bf16),
        "float32" => Ok(DType::F32),
        "float64" => Ok(DType::F64),
        _ => Err(PyValueError::new_err(format!(
            "there is no cast to {name:?}; there are 'float16', 'bfloat16', 'float32' and 'float64'"
        ))),
    }
}

fn unit(name: &str) -> PyResult<Unit> {
    match name {
        "divided" => Ok(Unit::Divided),
        "multiplied" => Ok(Unit::Multiplied),
        "not" => Ok(Unit::Not),
        _ => Err(PyValueError::new_err(format!("there is no scale {name:?}"))),
    }
}
