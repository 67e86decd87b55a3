//! Where bytes come from: folders and lists of files. Nothing here looks into them.
//!
//! | file | what it is |
//! |---|---|
//! | [`paths`] | many paths in little memory |
//! | [`folder`] | a folder with one folder for each class |
//! | [`read`] | the bytes of a file, into memory that is used again |

pub mod folder;
pub mod paths;
pub mod read;

pub use folder::{Folder, FolderError};
pub use paths::Paths;
pub use read::{Reader, read_into};
