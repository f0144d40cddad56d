//! Rules of the workspace that no compiler checks: crates import lower layers only, only `target` writes files,
//! and no code but one reads a fact by its key.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Layers as ARCHITECTURE.md has them.
const LAYERS: &[(&str, u32)] = &[
    ("units", 0),
    ("nbd", 0),
    ("catalog", 1),
    ("emulate", 2),
    ("measure", 2),
    ("page", 2),
    ("workload", 2),
    ("live", 3),
    ("method", 3),
    ("notebook", 3),
    ("target", 3),
    ("drive", 4),
    ("run", 5),
    ("report", 6),
    ("study", 6),
    ("iodyno", 7),
];

/// What the layers alone would allow and the design does not.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("target", &["workload", "measure", "catalog"]),
    ("drive", &["notebook", "catalog", "target"]),
    ("report", &["workload", "catalog", "target", "drive", "run"]),
    ("method", &["emulate"]),
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

/// What these import of `catalog` reads texts that others found: they open no file.
#[test]
fn emulate_workload_and_method_find_no_files() {
    let mut all = Vec::new();
    for name in ["emulate", "workload", "method"] {
        sources(&root().join("crates").join(name).join("src"), &mut all);
    }
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        for part in text.split("iodyno_catalog::").skip(1) {
            let named = part.split([';', '(']).next().unwrap();
            let finds = |word: &str| matches!(word, "find" | "list" | "*");
            let found = named.split(|c: char| !c.is_alphanumeric() && c != '*').any(finds);
            assert!(!found, "{}: {named}", path.display());
        }
    }
}

/// Calls that make, write, cut, rename or remove files.
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

/// Where these may stand outside `target`, which guards all else that is written, and why.
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

/// The code of all crates, without its tests, by the path of its file.
fn code() -> Vec<(String, String)> {
    let crates = root().join("crates");
    let mut all = Vec::new();
    sources(&crates, &mut all);
    let code = all.iter().filter_map(|path| {
        let name = path.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
        let is_test = ["/tests/", "/tests.rs", "_tests.rs", "/examples/", "/benches/"];
        if is_test.iter().any(|part| name.contains(part)) {
            return None;
        }
        let text = fs::read_to_string(path).unwrap();
        // Tests within a module are at its end.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        Some((name, code.to_owned()))
    });
    code.collect()
}

#[test]
fn only_target_writes_files() {
    let mut used = std::collections::BTreeSet::new();
    for (name, code) in code().iter().filter(|(name, _)| !name.starts_with("target/")) {
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

/// What reads one fact of a cell, a target or the machine.
const READS_OF_FACTS: &[&str] = &[
    "facts[\"",
    "facts.get(\"",
    "facts.contains_key(\"",
    "facts.remove(\"",
    "facts.pointer(\"",
    "health_before[\"",
    "health_after[\"",
    "machine[\"",
];

/// Facts are for people: what code needs is evidence, or a field of a description.
#[test]
fn code_reads_facts_in_one_place() {
    let mut readers = Vec::new();
    for (name, code) in code() {
        let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
        let code = lines.collect::<String>();
        for (at, read) in READS_OF_FACTS.iter().flat_map(|read| code.match_indices(read)) {
            let (_, rest) = code[at + read.len()..].split_once('"').unwrap();
            let is_written = rest.starts_with("] =") && !rest.starts_with("] ==");
            readers.extend((!is_written).then(|| name.clone()));
        }
    }
    readers.dedup();
    assert_eq!(readers, ["notebook/src/facts.rs"]);
}
