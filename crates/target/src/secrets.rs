//! Files that hold secrets: tokens and private keys.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Users other than the owner may read or write the file.
const OTHERS: u32 = 0o077;
/// Members of its group may read it.
const GROUP_READS: u32 = 0o040;

/// Where users other than its owner can read or write a secret: what is wrong, and the remedy. As for a
/// database's key, root may leave one to a group.
pub fn shared_secret(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    let allowed = if meta.uid() == 0 { GROUP_READS } else { 0 };
    let is_shared = meta.is_file() && meta.mode() & OTHERS & !allowed != 0;
    let (path, mode) = (path.display(), meta.mode() & 0o777);
    is_shared.then(|| {
        format!("other users can read {path} (mode {mode:04o}); `chmod 600 {path}` keeps it secret")
    })
}
