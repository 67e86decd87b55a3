//! A table of files: comma-separated values with a column of paths and, mostly, one of labels.

use std::{
    io,
    path::{Path, PathBuf},
};

use csv::{ReaderBuilder, StringRecord, Trim};

use crate::Paths;

/// A table that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {error}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It has no column of a name.
    #[error("{path} has no column {name:?}; there are {there}")]
    NoColumn {
        /// The table.
        path: PathBuf,
        /// What was asked for.
        name: String,
        /// The names that it has.
        there: String,
    },
    /// It has no records.
    #[error("{0} has no files: there is nothing after the names of its columns")]
    Empty(PathBuf),
    /// Something is wrong with a record.
    #[error("{path}, line {line}: {why}")]
    Record {
        /// The table.
        path: PathBuf,
        /// Where the record begins, counted from 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
}

/// Files and their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTable {
    /// The names of the classes, sorted; none if labels are numbers, or there are none.
    pub classes: Vec<String>,
    /// The files, in the order of the table. What is relative begins where the table is.
    pub paths: Paths,
    /// The label of each file; none at all if no column was named.
    pub labels: Vec<i64>,
}

impl FileTable {
    /// Reads a table whose columns have these names. It is split at tabs if its name ends in `.tsv` or `.tab`, at commas
    /// otherwise, unless a delimiter is given.
    pub fn read(
        table: &Path,
        path: &str,
        label: Option<&str>,
        delimiter: Option<u8>,
    ) -> Result<Self, TableError> {
        let at = |line, why| TableError::Record { path: table.into(), line, why };
        let refused = |error: csv::Error| refused(table, error);
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter.unwrap_or_else(|| usual(table)))
            .trim(Trim::Headers)
            // What is missing is said below, with the name of its column.
            .flexible(true)
            .from_path(table)
            .map_err(refused)?;
        let names = reader.headers().map_err(refused)?.clone();
        let column = |name: &str| column(table, &names, name);
        let (path, label) = (column(path)?, label.map(column).transpose()?);
        let folder = table.parent().unwrap_or(Path::new(""));
        let (mut list, mut texts, mut record) = (Self::default(), Vec::new(), StringRecord::new());
        while reader.read_record(&mut record).map_err(refused)? {
            let line = record.position().map_or(0, csv::Position::line);
            let field = |column: usize| match record.get(column).map(str::trim) {
                None => Err(at(line, format!("there is nothing in the column {:?}", &names[column]))),
                Some("") => Err(at(line, format!("the column {:?} is empty", &names[column]))),
                Some(text) => Ok(text),
            };
            list.paths.push(&folder.join(field(path)?));
            if let Some(label) = label {
                texts.push(field(label)?.to_owned());
            }
        }
        if list.paths.is_empty() {
            return Err(TableError::Empty(table.into()));
        }
        (list.classes, list.labels) = labels(texts);
        Ok(list)
    }
}

/// What a table is split at if nobody says.
fn usual(table: &Path) -> u8 {
    let ending = table.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    if matches!(ending.as_deref(), Some("tsv" | "tab")) { b'\t' } else { b',' }
}

fn column(table: &Path, names: &StringRecord, name: &str) -> Result<usize, TableError> {
    names.iter().position(|found| found == name).ok_or_else(|| {
        let there: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
        TableError::NoColumn { path: table.into(), name: name.into(), there: there.join(", ") }
    })
}

fn refused(table: &Path, error: csv::Error) -> TableError {
    let line = error.position().map_or(1, csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(error) => TableError::Unreadable { path: table.into(), error },
        csv::ErrorKind::Utf8 { err, .. } => {
            let why = format!("column {} is not UTF-8", err.field() + 1);
            TableError::Record { path: table.into(), line, why }
        }
        other => TableError::Record { path: table.into(), line, why: format!("{other:?}") },
    }
}

/// Numbers as they are, if all are whole numbers; otherwise the place of each among all names, which are sorted.
fn labels(texts: Vec<String>) -> (Vec<String>, Vec<i64>) {
    if let Ok(numbers) = texts.iter().map(|text| text.parse()).collect() {
        return (Vec::new(), numbers);
    }
    let mut classes = texts.clone();
    classes.sort();
    classes.dedup();
    let labels = texts.iter().map(|text| classes.partition_point(|class| class < text) as i64).collect();
    (classes, labels)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A table in a folder of its own.
    fn written(name: &str, bytes: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    fn read(bytes: impl AsRef<[u8]>) -> Result<FileTable, TableError> {
        let (_folder, path) = written("table.csv", bytes);
        FileTable::read(&path, "file", Some("class"), None)
    }

    #[test]
    fn names_become_sorted_classes_and_paths_begin_where_the_table_is() {
        let (folder, path) =
            written("train.csv", "class, file\ndog,b/1.jpg\ncat,\"a, b.jpg\"\ndog,/elsewhere/2.jpg\n");
        let table = FileTable::read(&path, "file", Some("class"), None).unwrap();
        assert_eq!(table.classes, ["cat", "dog"]);
        assert_eq!(table.labels, [1, 0, 1]);
        let expected =
            [folder.path().join("b/1.jpg"), folder.path().join("a, b.jpg"), "/elsewhere/2.jpg".into()];
        assert_eq!(table.paths.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn numbers_stay_as_they_are() {
        let table = read("\u{feff}file,class\r\nx,7\r\ny,-1\r\n").unwrap();
        assert_eq!((table.classes, table.labels), (vec![], vec![7, -1]));
        let mixed = read("file,class\nx,7\ny,seven\nz,10\n").unwrap();
        assert_eq!(
            (mixed.classes, mixed.labels),
            (vec!["10".into(), "7".into(), "seven".into()], vec![1, 2, 0])
        );
    }

    #[test]
    fn tables_are_split_at_tabs_or_at_what_is_asked_for() {
        for (name, delimiter, between) in
            [("t.tsv", None, '\t'), ("t.TAB", None, '\t'), ("t.csv", Some(b';'), ';'), ("t", None, ',')]
        {
            let (_folder, path) = written(name, format!("file{between}more\nx y{between}1\n"));
            let table = FileTable::read(&path, "file", None, delimiter).unwrap();
            assert_eq!(table.paths.get(0), Some(path.parent().unwrap().join("x y").as_path()), "{name}");
            assert_eq!(table.labels, []);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (bytes, why) in [
            (&b"file,klass\nx,1\n"[..], "has no column \"class\"; there are \"file\", \"klass\""),
            (b"", "has no column \"file\"; there are "),
            (b"file,class\n", "has no files"),
            (b"file,class\nx,1\n,2\n", "line 3: the column \"file\" is empty"),
            (b"file,class\nx,1\ny, \n", "line 3: the column \"class\" is empty"),
            (b"file,class\n\"x\ny\",1\nz\n", "line 4: there is nothing in the column \"class\""),
            (b"file,class\nx,1\nb\xffd,2\n", "line 3: column 1 is not UTF-8"),
            (b"fi\xffle,class\nx,1\n", "line 1: column 1 is not UTF-8"),
        ] {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("table.csv"), "{error}");
        }
        let none = FileTable::read(Path::new("/nowhere/t.csv"), "file", None, None).unwrap_err();
        assert!(matches!(none, TableError::Unreadable { .. }), "{none}");
    }
}
