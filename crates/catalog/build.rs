//! Lists the files of the `catalog` folder at the workspace root, so that the crate can embed them:
//! writes one Rust expression, a slice of `(folder, name, text)` in the order of the names.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Catalog folders with the suffixes of their files. Must agree with `Kind::folder` and `Kind::suffix`.
const FOLDERS: [(&str, &str); 7] = [
    ("workloads", "toml"),
    ("methods", "toml"),
    ("devices", "toml"),
    ("systems", "toml"),
    ("studies", "toml"),
    ("published", "csv"),
    ("prices", "toml"),
];

fn main() -> io::Result<()> {
    let root =
        Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../catalog");
    let root = root.canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let mut list = String::from("&[\n");
    for (folder, suffix) in FOLDERS {
        let path = root.join(folder);
        if !path.is_dir() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", path.display());
        let entries: Vec<PathBuf> =
            fs::read_dir(&path)?.map(|entry| entry.map(|e| e.path())).collect::<io::Result<_>>()?;
        let mut named: Vec<(&str, &PathBuf)> = entries
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == suffix))
            .map(|path| (path.file_stem().and_then(|s| s.to_str()).expect("a UTF-8 name"), path))
            .collect();
        // Sort by name, not by file name: `oltp1` precedes `oltp1-large`, although `.` sorts after `-`.
        named.sort_unstable();
        for (name, path) in named {
            let path = path.to_str().expect("a UTF-8 path");
            writeln!(list, "    ({folder:?}, {name:?}, include_str!({path:?})),")
                .expect("a String");
        }
    }
    list.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("embedded.rs");
    fs::write(out, list)
}
