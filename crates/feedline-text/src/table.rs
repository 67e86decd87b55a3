//! A file of comma-separated values, of which one column is the text and one the label.
//!
//! When it is opened, the places of the records are noted, eight bytes for each; a record is parsed when it is asked
//! for.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use csv::{ByteRecord, ReaderBuilder};
use csv_core::ReadRecordResult;

use crate::{Memory, Place, Source, TextError, bytes::Bytes, source::utf8};

/// A file of comma-separated values; its first record has the names of the columns.
#[derive(Debug)]
pub struct Table {
    path: PathBuf,
    bytes: Bytes,
    starts: Vec<u64>,
    delimiter: u8,
    text: (usize, String),
    label: Option<(usize, String)>,
}

impl Table {
    /// Opens a file whose columns have these names. Without a label, each is 0.
    pub fn open(path: &Path, text: &str, label: Option<&str>, delimiter: u8) -> Result<Self, TextError> {
        let bytes = Bytes::open(path).map_err(TextError::unreadable(path))?;
        Self::new(path, bytes, text, label, delimiter)
    }

    /// The same for bytes that are there already; the path is for messages.
    pub fn held(
        path: &Path,
        bytes: Vec<u8>,
        text: &str,
        label: Option<&str>,
        delimiter: u8,
    ) -> Result<Self, TextError> {
        Self::new(path, Bytes::Held(bytes), text, label, delimiter)
    }

    fn new(
        path: &Path,
        bytes: Bytes,
        text: &str,
        label: Option<&str>,
        delimiter: u8,
    ) -> Result<Self, TextError> {
        let unfit = |why: String| TextError::Unfit { place: Place::File(path.into()), why };
        let (names, starts) = index(&bytes, delimiter).map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) => TextError::Unreadable { path: path.into(), error },
            other => unfit(format!("{other:?}")),
        })?;
        let column = |name: &str| {
            let at = names.iter().position(|found| found == name.as_bytes());
            let there = || -> Vec<_> {
                names.iter().map(|name| format!("{:?}", String::from_utf8_lossy(name))).collect()
            };
            let missing = || match there().join(", ") {
                none if none.is_empty() => unfit(format!("it has no column {name:?}: it is empty")),
                there => unfit(format!("it has no column {name:?}; there are {there}")),
            };
            at.map(|at| (at, name.to_owned())).ok_or_else(missing)
        };
        let (text, label) = (column(text)?, label.map(column).transpose()?);
        if starts.is_empty() {
            return Err(unfit("it has no records after the names of its columns".into()));
        }
        Ok(Self { path: path.into(), bytes, starts, delimiter, text, label })
    }
}

/// What splits records into fields, with the memory it needs.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    /// With the delimiter it was made for: its tables take longer to make than a record to split.
    parser: Option<(u8, Box<csv_core::Reader>)>,
    fields: Vec<u8>,
    ends: Vec<usize>,
}

impl Splitter {
    /// The fields of a record: how many there are.
    fn split(&mut self, record: &[u8], delimiter: u8) -> usize {
        let Self { parser, fields, ends } = self;
        let (_, parser) = match parser {
            Some(known) if known.0 == delimiter => known,
            other => other
                .insert((delimiter, Box::new(csv_core::ReaderBuilder::new().delimiter(delimiter).build()))),
        };
        parser.reset();
        fields.resize(fields.len().max(record.len()), 0);
        ends.resize(ends.len().max(16), 0);
        let (mut from, mut to, mut count) = (0, 0, 0);
        loop {
            // With nothing left to read, it takes that for the end.
            let (result, read, wrote, ended) =
                parser.read_record(&record[from..], &mut fields[to..], &mut ends[count..]);
            (from, to, count) = (from + read, to + wrote, count + ended);
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => fields.resize(2 * fields.len() + 1, 0),
                ReadRecordResult::OutputEndsFull => ends.resize(2 * ends.len(), 0),
                ReadRecordResult::Record | ReadRecordResult::End => return count,
            }
        }
    }

    /// One of the fields.
    fn field(&self, at: usize) -> &[u8] {
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.fields[begin..self.ends[at]]
    }
}

/// The names of the columns, and where each record begins.
fn index(bytes: &Bytes, delimiter: u8) -> csv::Result<(ByteRecord, Vec<u64>)> {
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        // What is wrong with a record is said when it is asked for.
        .flexible(true)
        .buffer_capacity(1 << 16)
        .from_reader(bytes.reader());
    let names = reader.byte_headers()?.clone();
    let (mut starts, mut record) = (Vec::new(), ByteRecord::new());
    while reader.read_byte_record(&mut record)? {
        starts.push(record.position().map_or(0, csv::Position::byte));
    }
    Ok((names, starts))
}

impl Source for Table {
    fn len(&self) -> usize {
        self.starts.len()
    }

    fn read<'a>(&'a self, index: usize, memory: &'a mut Memory) -> Result<(Cow<'a, str>, i64), TextError> {
        let end = self.starts.get(index + 1).copied().unwrap_or(self.bytes.len());
        let Memory { bytes, splitter } = memory;
        let record = self.bytes.get(self.starts[index]..end, bytes);
        let record = record.map_err(TextError::unreadable(&self.path))?;
        let count = splitter.split(record, self.delimiter);
        let unfit = |why| TextError::Unfit { place: self.place(index), why };
        let field = |(at, name): &(usize, String)| {
            if *at >= count {
                let why = format!("it has {count} columns, and {name:?} would be number {}", at + 1);
                return Err(unfit(why));
            }
            utf8(splitter.field(*at)).map_err(unfit)
        };
        let label = self.label.as_ref().map_or(Ok(0), |column| {
            let said = field(column)?;
            said.trim().parse().map_err(|_| unfit(format!("{:?} is {said:?}, not a whole number", column.1)))
        })?;
        Ok((Cow::Borrowed(field(&self.text)?), label))
    }

    fn place(&self, index: usize) -> Place {
        // The end of the line before may be counted to this record.
        let (mut start, mut memory) = (self.starts[index], Vec::new());
        while start < self.bytes.len() {
            match self.bytes.get(start..start + 1, &mut memory) {
                Ok([b'\n' | b'\r']) => start += 1,
                _ => break,
            }
        }
        Place::Line(self.path.clone(), self.bytes.line(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<Table, TextError> {
        Table::held(Path::new("a.csv"), text.into(), "text", Some("label"), b',')
    }

    #[test]
    fn records_are_parsed_one_by_one() {
        for end in ["\n", "\r\n"] {
            let lines =
                ["\u{feff}id,text,label", "1,plain,4", "", "2,\"two\nlines, \"\"quoted\"\"\",-5", "3,,6"];
            let table = open(&lines.join(end)).unwrap();
            let mut memory = Memory::default();
            assert_eq!(table.len(), 3);
            assert_eq!(table.read(0, &mut memory).unwrap(), ("plain".into(), 4));
            assert_eq!(table.read(1, &mut memory).unwrap(), ("two\nlines, \"quoted\"".into(), -5));
            assert_eq!(table.read(2, &mut memory).unwrap(), ("".into(), 6));
            let places: Vec<_> = (0..3).map(|index| table.place(index).to_string()).collect();
            assert_eq!(places, ["a.csv, line 2", "a.csv, line 4", "a.csv, line 6"]);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (record, expected) in [
            ("one", "it has 1 columns, and \"label\" would be number 2"),
            ("one,two", "\"label\" is \"two\", not a whole number"),
            ("one,", "\"label\" is \"\", not a whole number"),
        ] {
            let table = open(&format!("text,label\nfine,0\n{record}\n")).unwrap();
            let error = table.read(1, &mut Memory::default()).unwrap_err().to_string();
            assert!(error.starts_with("a.csv, line 3: ") && error.contains(expected), "{error}");
        }
        let error = open("a,label\n1,2\n").unwrap_err().to_string();
        assert_eq!(error, "a.csv: it has no column \"text\"; there are \"a\", \"label\"");
        assert!(open("text,label\n").unwrap_err().to_string().contains("no records"));
        assert_eq!(open("").unwrap_err().to_string(), "a.csv: it has no column \"text\": it is empty");
        let table =
            Table::held(Path::new("a.csv"), b"text\nfine\n\xff\n".to_vec(), "text", None, b',').unwrap();
        let error = table.read(1, &mut Memory::default()).unwrap_err().to_string();
        assert_eq!(error, "a.csv, line 3: it is not UTF-8: byte 1 of it cannot be read");
    }
}
