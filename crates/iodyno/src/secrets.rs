//! Warns about files that contain secrets but are readable by other users.

use crate::console::remark;
use std::path::Path;

/// Warns if other users can read a file that contains a secret. The warning names `flag`, which gave the path.
pub(crate) fn warn_if_shared(flag: &str, path: &Path) {
    if let Some(problem) = iodyno_targets::shared_secret(path) {
        remark("warning", &format!("{flag}: {problem}"));
    }
}
