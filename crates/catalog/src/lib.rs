//! The catalog: the named files that users read and edit (TOML, and CSV for printed figures), embedded
//! in the binary, and the one way in which every such file (named or given by its path) is found,
//! TOML is parsed, and errors are shown with file, line, column and a caret.
//!
//! What the files mean is not known here: a caller brings a type that serde can make, and reports
//! what it finds wrong in the result as a [`Problem`] at a span of the same [`File`].
//!
//! **Invariant:** reads files and nothing else; never writes one, and never prints.

mod file;
mod find;
mod parse;
mod problem;

pub use file::File;
pub use find::{Kind, MAX_FILE_BYTES, find, list};
pub use parse::parse;
pub use problem::Problem;
