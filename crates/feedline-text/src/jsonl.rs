//! A file with a JSON object in every line, of which one field is the text and one the label.
//!
//! When it is opened, the places of the lines are noted, eight bytes for each; a line is parsed when it is asked for.
//! Only the two fields are looked at, and of the others no more than it takes to pass over them.

use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Unexpected, Visitor};

use crate::{Memory, Place, Source, TextError, bytes::Bytes};

/// What some programs begin a file with.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A file of JSON lines.
#[derive(Debug)]
pub struct Jsonl {
    path: PathBuf,
    bytes: Bytes,
    starts: Vec<u64>,
    text: String,
    label: Option<String>,
}

impl Jsonl {
    /// Opens a file whose lines have these fields. Without a label, each is 0. Empty lines are passed over.
    pub fn open(path: &Path, text: &str, label: Option<&str>) -> Result<Self, TextError> {
        let bytes = Bytes::open(path).map_err(TextError::unreadable(path))?;
        Self::new(path, bytes, text, label)
    }

    /// The same for bytes that are there already; the path is for messages.
    pub fn held(path: &Path, bytes: Vec<u8>, text: &str, label: Option<&str>) -> Result<Self, TextError> {
        Self::new(path, Bytes::Held(bytes), text, label)
    }

    fn new(path: &Path, bytes: Bytes, text: &str, label: Option<&str>) -> Result<Self, TextError> {
        let starts = starts(&bytes).map_err(TextError::unreadable(path))?;
        if starts.is_empty() {
            return Err(TextError::Unfit { place: Place::File(path.into()), why: "it has no lines".into() });
        }
        Ok(Self { path: path.into(), bytes, starts, text: text.into(), label: label.map(Into::into) })
    }

    fn line<'a>(&'a self, index: usize, memory: &'a mut Vec<u8>) -> Result<&'a [u8], TextError> {
        let end = self.starts.get(index + 1).copied().unwrap_or(self.bytes.len());
        let line = self.bytes.get(self.starts[index]..end, memory);
        line.map_err(TextError::unreadable(&self.path))
    }
}

/// Where lines begin that have something in them.
fn starts(bytes: &Bytes) -> std::io::Result<Vec<u64>> {
    let mut starts = Vec::new();
    // The line that goes on from piece to piece: where it began, and whether anything was in it.
    let (mut start, mut full) = (0, false);
    bytes.pieces(|at, mut piece| {
        let mut place = at;
        if at == 0 && piece.starts_with(MARK) {
            piece = &piece[MARK.len()..];
            place += MARK.len() as u64;
            start = place;
        }
        let mut begin = 0;
        for end in memchr::memchr_iter(b'\n', piece) {
            if full || has_something(&piece[begin..end]) {
                starts.push(start);
            }
            begin = end + 1;
            (start, full) = (place + begin as u64, false);
        }
        full |= has_something(&piece[begin..]);
    })?;
    if full {
        starts.push(start);
    }
    Ok(starts)
}

fn has_something(line: &[u8]) -> bool {
    line.iter().any(|byte| !byte.is_ascii_whitespace())
}

impl Source for Jsonl {
    fn len(&self) -> usize {
        self.starts.len()
    }

    fn read<'a>(&'a self, index: usize, memory: &'a mut Memory) -> Result<(Cow<'a, str>, i64), TextError> {
        let line = self.line(index, &mut memory.bytes)?;
        parse(line, &self.text, self.label.as_deref())
            .map_err(|why| TextError::Unfit { place: self.place(index), why })
    }

    fn place(&self, index: usize) -> Place {
        Place::Line(self.path.clone(), self.bytes.line(self.starts[index]))
    }
}

/// The text and the label of a line, or what is wrong with it.
pub fn parse<'a>(line: &'a [u8], text: &str, label: Option<&str>) -> Result<(Cow<'a, str>, i64), String> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let wanted = Wanted { text, label };
    let found =
        wanted.deserialize(&mut json).and_then(|found| json.end().map(|()| found)).map_err(|error| {
            // The line that it names is always the first.
            let said = error.to_string();
            let place = format!(" at line {} column {}", error.line(), error.column());
            let what = if error.is_data() { "" } else { "it is not JSON: " };
            format!("{what}{} (column {})", said.strip_suffix(&place).unwrap_or(&said), error.column())
        })?;
    let text = found.text.ok_or_else(|| format!("it has no field {text:?}"))?;
    match (label, found.label) {
        (Some(label), None) => Err(format!("it has no field {label:?}")),
        (_, label) => Ok((text, label.unwrap_or_default())),
    }
}

/// The fields to look for.
#[derive(Clone, Copy)]
struct Wanted<'w> {
    text: &'w str,
    label: Option<&'w str>,
}

#[derive(Default)]
struct Found<'a> {
    text: Option<Cow<'a, str>>,
    label: Option<i64>,
}

impl<'a> DeserializeSeed<'a> for Wanted<'_> {
    type Value = Found<'a>;

    fn deserialize<D: Deserializer<'a>>(self, line: D) -> Result<Found<'a>, D::Error> {
        line.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Wanted<'_> {
    type Value = Found<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with a field {:?}", self.text)
    }

    fn visit_map<M: MapAccess<'a>>(self, mut fields: M) -> Result<Found<'a>, M::Error> {
        let mut found = Found::default();
        while let Some(name) = fields.next_key_seed(Name(self))? {
            match name {
                // Of two with one name the last counts, as for Python.
                Field::Text => found.text = Some(fields.next_value_seed(TextValue(self.text))?),
                Field::Label => found.label = Some(fields.next_value_seed(LabelValue(self.label))?),
                Field::Both => {
                    let why = format!("the field {:?} cannot be the text and the label", self.text);
                    return Err(M::Error::custom(why));
                }
                Field::Other => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

enum Field {
    Text,
    Label,
    Both,
    Other,
}

/// A field's name.
struct Name<'w>(Wanted<'w>);

impl<'a> DeserializeSeed<'a> for Name<'_> {
    type Value = Field;

    fn deserialize<D: Deserializer<'a>>(self, name: D) -> Result<Field, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Field, E> {
        Ok(match (name == self.0.text, Some(name) == self.0.label) {
            (true, true) => Field::Both,
            (true, false) => Field::Text,
            (false, true) => Field::Label,
            (false, false) => Field::Other,
        })
    }
}

struct TextValue<'w>(&'w str);

impl<'a> DeserializeSeed<'a> for TextValue<'_> {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, value: D) -> Result<Cow<'a, str>, D::Error> {
        // Of whatever type, so that the error says which it is.
        value.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for TextValue<'_> {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string as {:?}", self.0)
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

struct LabelValue<'w>(Option<&'w str>);

impl<'a> DeserializeSeed<'a> for LabelValue<'_> {
    type Value = i64;

    fn deserialize<D: Deserializer<'a>>(self, value: D) -> Result<i64, D::Error> {
        value.deserialize_any(self)
    }
}

impl Visitor<'_> for LabelValue<'_> {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number as {:?}", self.0.unwrap_or_default())
    }

    fn visit_bool<E>(self, label: bool) -> Result<i64, E> {
        Ok(i64::from(label))
    }

    fn visit_i64<E>(self, label: i64) -> Result<i64, E> {
        Ok(label)
    }

    fn visit_u64<E: serde::de::Error>(self, label: u64) -> Result<i64, E> {
        i64::try_from(label).map_err(|_| E::invalid_value(Unexpected::Unsigned(label), &self))
    }

    fn visit_f64<E: serde::de::Error>(self, label: f64) -> Result<i64, E> {
        let whole = label as i64;
        if whole as f64 == label { Ok(whole) } else { Err(E::invalid_value(Unexpected::Float(label), &self)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<Jsonl, TextError> {
        Jsonl::held(Path::new("a.jsonl"), text.into(), "text", Some("label"))
    }

    #[test]
    fn lines_are_found_whatever_is_between_them() {
        let jsonl = open(
            "\u{feff}{\"text\": \"a\", \"label\": 1}\r\n\n  \n{\"label\": 2, \"text\": \"b\\n\\u00e4\"}",
        )
        .unwrap();
        assert_eq!(jsonl.len(), 2);
        let mut memory = Memory::default();
        assert_eq!(jsonl.read(0, &mut memory).unwrap(), ("a".into(), 1));
        assert_eq!(jsonl.read(1, &mut memory).unwrap(), ("b\nä".into(), 2));
        assert_eq!(jsonl.place(1).to_string(), "a.jsonl, line 4");
    }

    #[test]
    fn lines_that_go_from_piece_to_piece_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.jsonl");
        let long = "word ".repeat(100_000);
        let lines = [0, 1, 2, 3, 4, 5, 6]
            .map(|label| format!("{{\"text\":\"{long}\",\"label\":{label}}}\n"))
            .concat();
        std::fs::write(&path, &lines).unwrap();
        let on_disk = Bytes::OnDisk(std::fs::File::open(&path).unwrap(), lines.len() as u64);
        let jsonl = Jsonl::new(&path, on_disk, "text", Some("label")).unwrap();
        let mut memory = Memory::default();
        for index in 0..7 {
            assert_eq!(jsonl.read(index, &mut memory).unwrap(), (long.as_str().into(), index as i64));
        }
        assert_eq!(jsonl.len(), 7);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (line, expected) in [
            ("text", "it is not JSON: expected"),
            ("{\"text\": \"a\", \"label\": 1} x", "it is not JSON: trailing characters"),
            ("[1]", "expected an object with a field \"text\""),
            ("{\"text\": 3, \"label\": 1}", "integer `3`, expected a string as \"text\""),
            ("{\"label\": 1}", "it has no field \"text\""),
            ("{\"text\": \"a\"}", "it has no field \"label\""),
            ("{\"text\": \"a\", \"label\": \"x\"}", "string \"x\", expected a whole number as \"label\""),
            ("{\"text\": \"a\", \"label\": 1.5}", "expected a whole number"),
            ("{\"text\": \"\\ud800\", \"label\": 1}", "it is not JSON"),
        ] {
            let jsonl = open(&format!("{{\"text\": \"fine\", \"label\": 0}}\n{line}\n")).unwrap();
            let error = jsonl.read(1, &mut Memory::default()).unwrap_err().to_string();
            assert!(error.starts_with("a.jsonl, line 2: ") && error.contains(expected), "{error}");
        }
        assert_eq!(open(" \n\n").unwrap_err().to_string(), "a.jsonl: it has no lines");
    }
}
