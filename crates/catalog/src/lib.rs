//! The catalog: named TOML files, and CSV files of published figures, embedded in the binary. Also the reader of such
//! files, from the catalog or from users: it finds a file by its name or path, parses TOML, checks it against a schema,
//! and shows errors with file, line, column and a caret. [`input`] reads all other files that a user names.
//!
//! A schema is a list of [`Key`]s, defined by the crate that owns the format: workloads, methods, devices, systems
//! and studies. A [`Reader`] returns a [`Record`] of values and all errors. Relations between values, and their
//! meaning, are outside this crate.
//!
//! **Invariant:** it only reads files; it never writes or prints.

#![forbid(unsafe_code)]

mod document;
mod error;
mod file;
mod find;
pub mod input;
mod problem;
mod reader;
mod record;
mod schema;
mod source;

pub use error::{Fault, FileError};
pub use file::File;
pub use find::{Kind, MAX_FILE_BYTES, find, list};
pub use problem::Problem;
pub use reader::{Reader, SCHEMA};
pub use record::{Entry, Record};
pub use schema::{COUNT, Key, NUMBER, TIME, ValueType, parameters};
pub use source::{Parameter, Source, count_by_source};
