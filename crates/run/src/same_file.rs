//! Decides whether two paths lead to the same file, also before it exists.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Whether both paths lead to the same file: one inode, or, if there is no file yet, one name in the same folder.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    match [a, b].map(Path::metadata) {
        [Ok(a), Ok(b)] => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => a == b || place(a).is_some_and(|a| Some(a) == place(b)),
    }
}

/// Path of a file that need not exist, without symbolic links and relative parts in its folder.
fn place(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
    Some(folder.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_other_spellings_are_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        std::fs::write(at("file"), "x").unwrap();
        std::fs::hard_link(at("file"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        for (a, b, is_same) in [
            ("file", "hard", true),
            ("file", "link", true),
            ("file", "sub/../file", true),
            ("new", "sub/../new", true),
            ("new", "other", false),
            ("new", "sub/new", false),
            ("file", "new", false),
        ] {
            assert_eq!(is_same_file(&at(a), &at(b)), is_same, "{a} {b}");
        }
    }
}
