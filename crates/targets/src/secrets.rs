//! Checks the permissions of files that hold secrets: tokens and private keys.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Mode bits that give access to anyone but the owner.
const OTHERS: u32 = 0o077;
/// Mode bit that lets the file's group read it.
const GROUP_READS: u32 = 0o040;

/// Returns a warning with advice if users other than the owner can read or write a file with a secret. Root's
/// files may also be readable by their group, as is usual for a database's key.
pub fn shared_secret(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    let allowed = if meta.uid() == 0 { GROUP_READS } else { 0 };
    let is_shared = meta.is_file() && meta.mode() & OTHERS & !allowed != 0;
    let (path, mode) = (path.display(), meta.mode() & 0o777);
    is_shared.then(|| {
        format!("other users can read {path} (mode {mode:04o}); `chmod 600 {path}` keeps it secret")
    })
}
