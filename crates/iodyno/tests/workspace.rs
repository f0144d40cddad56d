//! Rules of the workspace that no compiler checks: crates import lower layers only, and only `target`
//! writes files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Layers as in ARCHITECTURE.md.
const LAYERS: &[(&str, u32)] = &[
    ("units", 0),
    ("nbd", 0),
    ("catalog", 1),
    ("emulate", 1),
    ("measure", 1),
    ("page", 1),
    ("workload", 1),
    ("live", 2),
    ("method", 2),
    ("notebook", 2),
    ("target", 2),
    ("drive", 3),
    ("run", 4),
    ("report", 5),
    ("study", 5),
    ("iodyno", 6),
];

/// Imports that the layers alone would allow and the design forbids.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("target", &["workload", "measure", "catalog"]),
    ("drive", &["notebook", "catalog", "target"]),
    ("report", &["workload", "catalog", "target", "drive", "run"]),
    ("method", &["catalog", "emulate"]),
    ("run", &["catalog"]),
];

#[test]
fn crates_import_lower_layers_only() {
    let layers: BTreeMap<&str, u32> = LAYERS.iter().copied().collect();
    let mut seen = 0;
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path().join("Cargo.toml");
        let manifest = fs::read_to_string(&path).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let name = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let ours = manifest["dependencies"].as_table().unwrap().keys();
        let ours: Vec<&str> = ours.filter_map(|k| k.strip_prefix("iodyno-")).collect();
        if name == "bench" {
            assert!(ours.is_empty(), "bench runs the program; it links nothing of it");
            continue;
        }
        let layer = *layers.get(name.as_str()).unwrap_or_else(|| panic!("{name} has no layer"));
        for dependency in ours {
            assert!(
                layers[dependency] < layer,
                "{name} imports {dependency}, which is not below it"
            );
            let forbidden = FORBIDDEN.iter().any(|(n, f)| *n == name && f.contains(&dependency));
            assert!(!forbidden, "{name} must not import {dependency}");
        }
        seen += 1;
    }
    assert_eq!(seen, LAYERS.len());
}

/// Calls that create, write, truncate, rename or remove files.
const WRITING: &[&str] = &[
    "File::create",
    "OpenOptions::new",
    "File::options",
    "fs::write(",
    "fs::copy(",
    "fs::rename(",
    "fs::hard_link(",
    "remove_file(",
    "remove_dir",
    "create_dir",
    "DirBuilder",
    ".set_len(",
    "Connection::open",
    "OFlags::RDWR",
    "OFlags::WRONLY",
    "libc::open",
];

/// The places outside `target`, which guards all other writes, where these are allowed, with reasons.
const WRITERS: &[(&str, &str)] = &[
    ("bench/", "a tool for developers, which writes into folders that it is given"),
    ("catalog/build.rs", "writes what is compiled in"),
    ("notebook/src/schema.rs", "SQLite opens by path; `target` and `look` check it before"),
    ("notebook/src/portable.rs", "in memory"),
    ("notebook/src/untrusted.rs", "in memory"),
    ("nbd/src/server/listen.rs", "its own socket, by inode, and one that nothing listens on"),
    ("live/src/record.rs", "a new file only, never one that is there"),
    (
        "live/src/store/",
        "images and sums: plain files only, by descriptor; `live` can't import `target`",
    ),
    ("live/src/frontend/ublk/", "the kernel's own devices, which it makes for this server"),
    ("run/src/persist.rs", "a new folder for a run that the notebook could not take"),
    ("iodyno/src/serve/transport_calibration.rs", "a new folder for one socket"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn only_target_writes_files() {
    let crates = root().join("crates");
    let mut all = Vec::new();
    sources(&crates, &mut all);
    let mut used = std::collections::BTreeSet::new();
    for path in all {
        let name = path.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
        let is_test = ["/tests/", "/tests.rs", "_tests.rs", "/examples/", "/benches/"];
        if name.starts_with("target/") || is_test.iter().any(|part| name.contains(part)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // Tests within a module are at its end.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            if line.trim_start().starts_with("//") || !WRITING.iter().any(|w| line.contains(w)) {
                continue;
            }
            let listed = WRITERS.iter().find(|(place, _)| name.starts_with(place));
            let Some((place, _)) = listed else {
                panic!("{name}:{}: only `target` writes files: {}", number + 1, line.trim());
            };
            used.insert(*place);
        }
    }
    let idle: Vec<_> = WRITERS.iter().filter(|(place, _)| !used.contains(place)).collect();
    assert!(idle.is_empty(), "listed, and not needed: {idle:?}");
}
