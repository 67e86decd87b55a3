//! A folder with one folder for each class, in the order in which torchvision's `ImageFolder` has it.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use crate::Paths;

/// The endings of files that are images.
pub const IMAGES: [&str; 9] = ["jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp"];

/// The endings of files that are texts.
pub const TEXTS: [&str; 1] = ["txt"];

/// Folders in folders, no more than this: a link may lead back to where it is.
const DEEPEST: usize = 32;

/// A folder that cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It, or one inside, cannot be read.
    #[error("{path} cannot be listed: {error}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There are no folders in it.
    #[error(
        "{0} has no folders inside: there should be one for each class. For files without classes, use a list of them"
    )]
    NoClasses(PathBuf),
    /// Classes have no files.
    #[error("{path} has no {what} for {}: they should end in .{}", names.join(", "), endings.join(", ."))]
    Empty {
        /// The folder.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// How its name should end.
        endings: &'static [&'static str],
        /// Its classes without files.
        names: Vec<String>,
    },
    /// Too many folders inside each other.
    #[error("{0} lies {DEEPEST} folders deep: is there a link that leads back?")]
    TooDeep(PathBuf),
}

/// Files and their classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder {
    /// The names of the classes.
    pub classes: Vec<String>,
    /// The files of the first class, of the second, and so on.
    pub paths: Paths,
    /// The class of each file.
    pub labels: Vec<u32>,
}

impl Folder {
    /// Lists a folder of images.
    pub fn list(root: &Path) -> Result<Self, FolderError> {
        Self::list_files(root, "image", &IMAGES)
    }

    /// Lists a folder of texts.
    pub fn list_texts(root: &Path) -> Result<Self, FolderError> {
        Self::list_files(root, "text", &TEXTS)
    }

    fn list_files(
        root: &Path,
        what: &'static str,
        endings: &'static [&'static str],
    ) -> Result<Self, FolderError> {
        let mut classes: Vec<OsString> =
            entries(root)?.into_iter().filter(|(_, is_dir)| *is_dir).map(|(name, _)| name).collect();
        classes.sort();
        if classes.is_empty() {
            return Err(FolderError::NoClasses(root.into()));
        }
        let (mut list, mut empty) = (Self::default(), Vec::new());
        for (label, class) in classes.iter().enumerate() {
            let before = list.paths.len();
            list.add(&root.join(class), endings)?;
            list.labels.resize(list.paths.len(), label as u32);
            list.classes.push(class.to_string_lossy().into_owned());
            if list.paths.len() == before {
                empty.push(class.to_string_lossy().into_owned());
            }
        }
        if !empty.is_empty() {
            return Err(FolderError::Empty { path: root.into(), what, endings, names: empty });
        }
        Ok(list)
    }

    /// All files of a class, folder by folder.
    fn add(&mut self, class: &Path, endings: &[&str]) -> Result<(), FolderError> {
        let mut folders = vec![(class.to_path_buf(), 0)];
        let mut found: Vec<(PathBuf, Vec<OsString>)> = Vec::new();
        while let Some((folder, depth)) = folders.pop() {
            if depth == DEEPEST {
                return Err(FolderError::TooDeep(folder));
            }
            let mut files = Vec::new();
            for (name, is_dir) in entries(&folder)? {
                if is_dir {
                    folders.push((folder.join(name), depth + 1));
                } else if ends_in(Path::new(&name), endings) {
                    files.push(name);
                }
            }
            files.sort();
            found.push((folder, files));
        }
        // By the text of the path, as Python sorts them, not by its parts.
        found.sort_by(|one, other| one.0.as_os_str().cmp(other.0.as_os_str()));
        for (folder, files) in found {
            for file in files {
                self.paths.push(&folder.join(file));
            }
        }
        Ok(())
    }
}

/// The names in a folder, and whether each is a folder or leads to one.
fn entries(folder: &Path) -> Result<Vec<(OsString, bool)>, FolderError> {
    let unreadable = |error| FolderError::Unreadable { path: folder.into(), error };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let kind = entry.file_type().map_err(unreadable)?;
        let is_dir = kind.is_dir() || (kind.is_symlink() && entry.path().is_dir());
        names.push((entry.file_name(), is_dir));
    }
    Ok(names)
}

fn ends_in(name: &Path, endings: &[&str]) -> bool {
    let ending = name.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| endings.contains(&ending.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, []).unwrap();
    }

    #[test]
    fn files_come_by_class_and_name() {
        let root = tempfile::tempdir().unwrap();
        for name in ["b/2.JPG", "b/10.png", "a/z/1.jpg", "a/1.txt", "a/9.webp", "a/z-/0.jpg", "top.jpg"] {
            write(root.path(), name);
        }
        let folder = Folder::list(root.path()).unwrap();
        let names: Vec<_> = folder.paths.iter().map(|path| path.strip_prefix(root.path()).unwrap()).collect();
        assert_eq!(names, ["a/9.webp", "a/z/1.jpg", "a/z-/0.jpg", "b/10.png", "b/2.JPG"].map(Path::new));
        assert_eq!(folder.classes, ["a", "b"]);
        assert_eq!(folder.labels, [0, 0, 0, 1, 1]);
        let error = Folder::list_texts(root.path()).unwrap_err().to_string();
        assert!(error.contains("no text for b: they should end in .txt"), "{error}");
        write(root.path(), "b/1.txt");
        assert_eq!(Folder::list_texts(root.path()).unwrap().labels, [0, 1]);
    }

    #[test]
    fn what_is_missing_is_said() {
        let root = tempfile::tempdir().unwrap();
        assert!(matches!(Folder::list(root.path()), Err(FolderError::NoClasses(_))));
        write(root.path(), "a/1.jpg");
        write(root.path(), "b/notes.txt");
        let error = Folder::list(root.path()).unwrap_err().to_string();
        assert!(error.contains("no image for b") && error.contains(".jpg"), "{error}");
        assert!(matches!(Folder::list(&root.path().join("none")), Err(FolderError::Unreadable { .. })));
    }

    #[test]
    fn a_link_that_leads_back_is_found() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "a/1.jpg");
        std::os::unix::fs::symlink(root.path().join("a"), root.path().join("a/again")).unwrap();
        let error = Folder::list(root.path()).unwrap_err();
        assert!(matches!(error, FolderError::TooDeep(_)), "{error}");
    }
}
