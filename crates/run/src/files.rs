//! Stores the texts of files that a request names by path rather than from the catalog. The files are read at the time
//! of the request. A resumed run uses these texts, even if the files have changed.

use iodyno_catalog::{File, Kind, Problem, find};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Texts of files, keyed by the path as written by the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Files(BTreeMap<String, String>);

impl Files {
    /// Finds a file by its name in the catalog, or by its path relative to the process's working directory.
    /// Repeated calls read a path only once.
    ///
    /// # Errors
    /// The errors of [`iodyno_catalog::find`].
    pub fn find(&mut self, kind: Kind, name_or_path: &str) -> Result<File, Problem> {
        if let Some(text) = self.0.get(name_or_path) {
            return Ok(File::at_path(kind, name_or_path, text.as_str()));
        }
        let file = find(kind, name_or_path)?;
        if !file.is_in_catalog() {
            self.0.insert(name_or_path.to_owned(), file.text.to_string());
        }
        Ok(file)
    }
}
