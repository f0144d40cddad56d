//! Files that hold secrets: tokens and private keys.

use crate::remark;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Users other than the owner may read or write the file.
const OTHERS: u32 = 0o077;
/// Members of its group may read it.
const GROUP_READS: u32 = 0o040;

/// Warns where other users can read a secret. As for a database's key, root may leave one to a group.
pub(crate) fn warn_if_shared(flag: &str, path: &Path) {
    let Ok(meta) = std::fs::metadata(path) else { return };
    let allowed = if meta.uid() == 0 { GROUP_READS } else { 0 };
    if meta.is_file() && meta.mode() & OTHERS & !allowed != 0 {
        let (path, mode) = (path.display(), meta.mode() & 0o777);
        remark(
            "warning",
            &format!(
                "{flag}: other users can read {path} (mode {mode:04o}); `chmod 600 {path}` keeps it secret"
            ),
        );
    }
}
