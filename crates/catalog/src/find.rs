//! File lookup, by a name in the embedded catalog or by a path.

use std::path::Path;
use std::sync::Arc;

use iodyno_units::nearest;

use crate::file::File;
use crate::input::{self, InputError};
use crate::problem::Problem;

/// Maximum size of a workload, method, device or other catalog file, bytes. These files are written by hand, so a
/// larger one is a mistake.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// Folder, name and text of each embedded catalog file, sorted by name within a folder.
static EMBEDDED: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Type of a catalog file. Each type has its own folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A workload: description of the I/O to issue.
    Workload,
    /// A method: an ordered plan of measurements.
    Method,
    /// The model of one emulated drive.
    Device,
    /// The model of an emulated host with its adapters, arrays and devices.
    System,
    /// A published study, reproduced on emulated systems.
    Study,
    /// Figures of a publication, as CSV.
    Published,
    /// An example price list of cloud volumes.
    Prices,
}

impl Kind {
    /// All types, in the order in which the catalog lists them.
    pub const ALL: [Self; 7] = [
        Self::Workload,
        Self::Method,
        Self::Device,
        Self::System,
        Self::Study,
        Self::Published,
        Self::Prices,
    ];

    /// Folder of `catalog/` that contains files of this type.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Workload => "workloads",
            Self::Method => "methods",
            Self::Device => "devices",
            Self::System => "systems",
            Self::Study => "studies",
            Self::Published => "published",
            Self::Prices => "prices",
        }
    }

    /// File name suffix of this type, without the dot.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Published => "csv",
            _ => "toml",
        }
    }

    /// Noun for a file of this type in messages; also the value of its key `kind`.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::Method => "method",
            Self::Device => "device",
            Self::System => "system",
            Self::Study => "study",
            Self::Published => "publication",
            Self::Prices => "price list",
        }
    }
}

/// Prefix of [`File::origin`] for embedded files.
const EMBEDDED_ORIGIN: &str = "catalog:";

impl File {
    /// Creates a file that is not in the catalog. Its name is the last part of the path, without the suffix of its
    /// type.
    pub fn at_path(kind: Kind, path: &str, text: impl Into<Arc<str>>) -> Self {
        let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path);
        let stem = name.strip_suffix(kind.suffix()).and_then(|name| name.strip_suffix('.'));
        let name = stem.filter(|name| !name.is_empty()).unwrap_or(name).to_owned();
        Self { origin: path.to_owned(), name, text: text.into(), is_named_by_file: false }
    }

    /// Whether the file is embedded in the catalog.
    pub fn is_in_catalog(&self) -> bool {
        self.origin.starts_with(EMBEDDED_ORIGIN)
    }
}

/// Embedded files of a type, as pairs of name and text, sorted by name.
pub fn list(kind: Kind) -> impl Iterator<Item = (&'static str, &'static str)> {
    EMBEDDED
        .iter()
        .filter(move |(folder, _, _)| *folder == kind.folder())
        .map(|&(_, name, text)| (name, text))
}

/// Finds a file by catalog name or by path. Text that contains `/` or ends in `.toml` (for
/// [`Kind::Published`], `.csv`) is a path.
///
/// # Errors
/// The name is unknown (the error suggests a similar one), or the file cannot be read, is larger than
/// [`MAX_FILE_BYTES`] or is not UTF-8.
pub fn find(kind: Kind, name_or_path: &str) -> Result<File, Problem> {
    let has_suffix = Path::new(name_or_path).extension().is_some_and(|s| s == kind.suffix());
    if has_suffix || name_or_path.contains('/') {
        return read(kind, name_or_path);
    }
    if let Some((name, text)) = list(kind).find(|(name, _)| *name == name_or_path) {
        return Ok(File {
            origin: format!("{EMBEDDED_ORIGIN}{}/{name}.{}", kind.folder(), kind.suffix()),
            name: name.to_owned(),
            text: text.into(),
            is_named_by_file: false,
        });
    }
    let noun = kind.noun();
    let guess = nearest(name_or_path, list(kind).map(|(name, _)| name))
        .map(|name| format!("did you mean `{name}`? "))
        .unwrap_or_default();
    Err(Problem::new(
        format!("{EMBEDDED_ORIGIN}{}", kind.folder()),
        format!("there is no {noun} named `{name_or_path}`"),
    )
    .with_help(format!(
        "{guess}`iodyno catalog` lists the names; to use your own {noun} file, give a path that \
         contains `/` or ends in `.{}`",
        kind.suffix()
    )))
}

fn read(kind: Kind, path: &str) -> Result<File, Problem> {
    let noun = kind.noun();
    let text = input::read_regular_text(Path::new(path), MAX_FILE_BYTES).map_err(|error| {
        let problem = Problem::new(path.to_owned(), error.to_string());
        match error {
            InputError::Io(_) if error.is_missing() => problem.with_help(format!(
                "give the path of a {noun} file, or a name that `iodyno catalog` lists"
            )),
            InputError::Io(_) => problem,
            InputError::Kind("a folder") => {
                problem.with_help(format!("give the path of a {noun} file in this folder"))
            }
            InputError::Kind(_) | InputError::NoWriter => problem
                .with_help(format!("give the path of a {noun} file; it must be a regular file")),
            InputError::TooLarge(_) => {
                problem.with_help(format!("a {noun} file is a short text; check the path"))
            }
            InputError::NotText { .. } => problem.with_help(match kind {
                Kind::Published => {
                    "published figures must be CSV in UTF-8; save the file in that format"
                        .to_owned()
                }
                _ => format!("a {noun} file must be TOML in UTF-8; save the file in that format"),
            }),
        }
    })?;
    Ok(File::at_path(kind, path, text))
}
