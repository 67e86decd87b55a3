//! Where bytes come from: folders, lists and tables of files. Nothing here looks into them.
//!
//! | file | what it is |
//! |---|---|
//! | [`paths`] | many paths in little memory |
//! | [`folder`] | a folder with one folder for each class |
//! | [`table`] | a table with a column of paths and one of labels |
//! | [`read`] | the bytes of a file, into memory that is used again |

pub mod folder;
pub mod paths;
pub mod read;
pub mod table;

pub use folder::{Folder, FolderError};
pub use paths::Paths;
pub use read::{Reader, read_into};
pub use table::{FileTable, TableError};
