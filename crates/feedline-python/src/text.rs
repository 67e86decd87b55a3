//! Texts, made into batches without Python.

use std::{cell::RefCell, io, path::PathBuf, sync::Arc, time::Duration};

use feedline::text::{
    Arena, Crew, Files, Folder, Hash, Jsonl, Memory, Padding, Paths, RowFailed, Scratch, Shape, Source,
    Table, Text, TextError, Tokenize, Tokens, Vocabulary,
};
use pyo3::{
    buffer::PyBuffer,
    exceptions::{PyIndexError, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError},
    prelude::*,
    types::{PyByteArray, PyList, PyString, PyTuple},
};

use crate::{
    files::{listing, unreadable},
    memory::{Commons, Hold},
};

/// How long to wait for a batch before looking whether Python has a signal to handle.
const LOOK: Duration = Duration::from_millis(50);

/// The classes of a folder of texts, its files, and the class of each.
#[pyfunction]
pub(crate) fn list_texts(py: Python<'_>, root: PathBuf) -> PyResult<(Vec<String>, Vec<PathBuf>, Vec<u32>)> {
    listing(py, py.detach(|| Folder::list_texts(&root)))
}

/// Where texts come from, or numbers that were made of them before.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct Texts(Content);

enum Content {
    Texts(Arc<dyn Source>),
    Tokens(Arc<Tokens>),
}

#[pymethods]
impl Texts {
    /// A file of JSON lines with these fields.
    #[staticmethod]
    fn jsonl(py: Python<'_>, path: PathBuf, text: &str, label: Option<&str>) -> PyResult<Self> {
        Self::opened(py.detach(|| Jsonl::open(&path, text, label)))
    }

    /// A file of comma-separated values with these columns.
    #[staticmethod]
    fn csv(
        py: Python<'_>,
        path: PathBuf,
        text: &str,
        label: Option<&str>,
        delimiter: char,
    ) -> PyResult<Self> {
        let delimiter = u8::try_from(delimiter)
            .map_err(|_| PyValueError::new_err(format!("the delimiter {delimiter:?} is not a byte")))?;
        Self::opened(py.detach(|| Table::open(&path, text, label, delimiter)))
    }

    /// A text in every file. There is one label for each, or none at all.
    #[staticmethod]
    fn files(paths: Vec<PathBuf>, labels: Vec<i64>) -> PyResult<Self> {
        Self::opened(Files::new(paths.into_iter().collect::<Paths>(), labels))
    }

    /// Texts in memory.
    #[staticmethod]
    fn strings(texts: &Bound<'_, PyList>, labels: Vec<i64>) -> PyResult<Self> {
        let texts: Vec<_> = texts.iter().collect();
        let texts = texts.iter().enumerate().map(|(number, text)| {
            let text = text.cast::<PyString>().map_err(|_| {
                let class = text.get_type().name().map(|name| name.to_string()).unwrap_or_default();
                PyTypeError::new_err(format!("text {number} is of type {class}, not str"))
            })?;
            text.to_str().map_err(|error| PyValueError::new_err(format!("text {number}: {error}")))
        });
        let texts = texts.collect::<PyResult<Vec<_>>>()?;
        Self::opened(Arena::new(texts, labels))
    }

    /// Numbers: those of text `i` are `values[offsets[i]:offsets[i + 1]]`.
    #[staticmethod]
    fn tokens(
        py: Python<'_>,
        values: PyBuffer<i64>,
        offsets: PyBuffer<i64>,
        labels: Vec<i64>,
    ) -> PyResult<Self> {
        let offsets = offsets.to_vec(py)?.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
        let offsets = offsets.map_err(|_| PyValueError::new_err("there is an offset below 0"))?;
        let values = values.to_vec(py)?;
        let tokens = py.detach(|| Tokens::new(values, offsets, labels)).map_err(to_python)?;
        Ok(Self(Content::Tokens(Arc::new(tokens))))
    }

    fn __len__(&self) -> usize {
        match &self.0 {
            Content::Texts(source) => source.len(),
            Content::Tokens(tokens) => tokens.len(),
        }
    }
}

impl Texts {
    fn opened(source: Result<impl Source, TextError>) -> PyResult<Self> {
        Ok(Self(Content::Texts(Arc::new(source.map_err(to_python)?))))
    }
}

/// Texts, and how batches are made of them.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct TextRows(Arc<Text>);

#[pymethods]
impl TextRows {
    /// `tokenizer` is `("hash", size)`, `("file", path, special)` or `("json", text, special)`; `width` what rows are
    /// padded to, if not to the longest.
    #[new]
    #[pyo3(signature = (texts, tokenizer, *, most=None, width=None, ragged=false, pad=0, mask=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        texts: &Texts,
        tokenizer: Option<&Bound<'_, PyTuple>>,
        most: Option<usize>,
        width: Option<usize>,
        ragged: bool,
        pad: i64,
        mask: bool,
    ) -> PyResult<Self> {
        let text = match (&texts.0, tokenizer) {
            (Content::Tokens(tokens), None) => Text::tokens(Arc::clone(tokens)),
            (Content::Texts(source), Some(tokenizer)) => {
                Text::shared(Arc::clone(source), made_from(py, tokenizer)?)
            }
            (Content::Tokens(_), Some(_)) => {
                return Err(PyValueError::new_err("these texts are numbers already: they need no tokenizer"));
            }
            (Content::Texts(_), None) => {
                return Err(PyValueError::new_err("say how texts become numbers: use tokenize"));
            }
        };
        let text = match most {
            Some(most) => text.truncate(most).map_err(to_python)?,
            None => text,
        };
        let padding = match (ragged, width) {
            (true, _) => Padding::Ragged,
            (false, Some(width)) => Padding::To(width),
            (false, None) => Padding::Longest,
        };
        Ok(Self(Arc::new(text.pad(padding, pad).mask(mask))))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Whether batches are only gathered.
    #[getter]
    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }

    /// The numbers of one text, and its label.
    fn sample<'py>(&self, py: Python<'py>, index: usize) -> PyResult<(Bound<'py, PyByteArray>, i64)> {
        let (ids, label) = py
            .detach(|| {
                let (mut memory, mut ids) = (Memory::default(), Vec::new());
                let label = self.0.read(index, &mut memory, &mut ids)?;
                Ok((ids, label))
            })
            .map_err(to_python)?;
        Ok((PyByteArray::new(py, bytemuck::cast_slice(&ids)), label))
    }

    /// A batch: its memory, its rows and its width; or the row that failed, and why.
    fn batch<'py>(
        &self,
        py: Python<'py>,
        commons: &Commons,
        indices: Vec<i64>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (text, commons) = (&self.0, &commons.0);
        told(py, py.detach(|| make(text, commons, &indices)))
    }

    /// How many numbers each text has, found out by so many threads.
    fn lengths(&self, py: Python<'_>, threads: usize) -> PyResult<Vec<usize>> {
        py.detach(|| self.0.lengths(threads)).map_err(to_python)
    }
}

/// A tokenizer by its description.
fn made_from(py: Python<'_>, tokenizer: &Bound<'_, PyTuple>) -> PyResult<Box<dyn Tokenize>> {
    let kind: String = tokenizer.get_item(0)?.extract()?;
    if kind == "hash" {
        let size: u32 = tokenizer.get_item(1)?.extract()?;
        if size == 0 {
            return Err(PyValueError::new_err("a hash of 0 numbers has none to give"));
        }
        return Ok(Box::new(Hash::new(size)));
    }
    let special: bool = tokenizer.get_item(2)?.extract()?;
    let vocabulary = if kind == "file" {
        let path: PathBuf = tokenizer.get_item(1)?.extract()?;
        py.detach(|| Vocabulary::open(&path, special)).map_err(to_python)?
    } else {
        let json: String = tokenizer.get_item(1)?.extract()?;
        py.detach(|| Vocabulary::parse(json.as_bytes(), special))
            .map_err(|error| PyValueError::new_err(format!("this is not a tokenizer: {error}")))?
    };
    Ok(Box::new(vocabulary))
}

/// Threads that make batches ahead of the one who takes them.
#[pyclass(frozen, module = "feedline._engine")]
pub(crate) struct TextCrew(Crew<Result<Made, Failed>>);

#[pymethods]
impl TextCrew {
    #[new]
    fn new(rows: &TextRows, commons: &Commons, workers: usize) -> PyResult<Self> {
        let (text, commons) = (Arc::clone(&rows.0), Arc::clone(&commons.0));
        Ok(Self(Crew::start(workers, move |indices| make(&text, &commons, indices))?))
    }

    /// Asks for a batch.
    fn post(&self, indices: Vec<i64>) {
        self.0.post(indices);
    }

    /// The batch that was asked for first, as `TextRows.batch` gives it.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        loop {
            match py.detach(|| self.0.take(LOOK)) {
                Some(Ok(made)) => return told(py, made),
                Some(Err(_)) => {
                    return Err(PyRuntimeError::new_err("the tokenizer panicked at a text of this batch"));
                }
                None if self.0.is_empty() => return Err(PyRuntimeError::new_err("no batch was asked for")),
                None => py.check_signals()?,
            }
        }
    }

    /// Forgets what was asked for.
    fn clear(&self) {
        self.0.clear();
    }

    /// Seconds that the threads have worked, all together, and the batches they have made.
    fn work(&self) -> (f64, u64) {
        let (busy, batches) = self.0.work();
        (busy.as_secs_f64(), batches)
    }
}

/// A batch in memory.
struct Made(Hold, Shape);

/// Why there is none.
enum Failed {
    Row(RowFailed),
    Memory(io::Error),
}

fn make(text: &Text, commons: &Arc<feedline_board::Commons>, indices: &[i64]) -> Result<Made, Failed> {
    thread_local! {
        static SCRATCH: RefCell<Scratch> = RefCell::default();
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let shape = text.gather(indices, scratch).map_err(Failed::Row)?;
        let bytes = shape.len() * size_of::<i64>();
        let extent = commons.take(bytes).map_err(Failed::Memory)?;
        let hold = Hold::new(Arc::clone(commons), extent);
        // SAFETY: the memory is ours, and as long.
        let memory = unsafe { std::slice::from_raw_parts_mut(hold.start(), bytes) };
        // It begins with a page.
        let numbers = bytemuck::cast_slice_mut(memory);
        text.write(scratch, shape, numbers);
        Ok(Made(hold, shape))
    })
}

/// A batch as Python is told of it.
fn told(py: Python<'_>, made: Result<Made, Failed>) -> PyResult<Bound<'_, PyTuple>> {
    match made {
        Ok(Made(hold, shape)) => (hold, shape.rows, shape.width).into_pyobject(py),
        Err(Failed::Row(RowFailed { row, error })) => {
            (row, to_python(error).into_value(py)).into_pyobject(py)
        }
        Err(Failed::Memory(error)) => Err(PyMemoryError::new_err(error.to_string())),
    }
}

fn to_python(error: TextError) -> PyErr {
    match error {
        TextError::NoSuch(..) => PyIndexError::new_err(error.to_string()),
        TextError::Unreadable { path, error } => unreadable(path, &error),
        TextError::Unfit { .. } | TextError::Refused(_) => PyValueError::new_err(error.to_string()),
    }
}
