//! The house rules that no compiler checks: crates import downward only, and the README's commands
//! work.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Floors as ARCHITECTURE.md has them.
const FLOORS: &[(&str, u32)] = &[
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

/// What the floors alone would allow and the design does not.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("target", &["workload", "measure", "catalog"]),
    ("drive", &["notebook", "catalog", "target"]),
    ("report", &["workload", "catalog", "target", "drive", "run"]),
    ("method", &["catalog", "emulate"]),
    ("run", &["catalog"]),
];

#[test]
fn crates_import_downward_only() {
    let floors: BTreeMap<&str, u32> = FLOORS.iter().copied().collect();
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
        let floor = *floors.get(name.as_str()).unwrap_or_else(|| panic!("{name} has no floor"));
        for dependency in ours {
            assert!(
                floors[dependency] < floor,
                "{name} imports {dependency}, which is not below it"
            );
            let forbidden = FORBIDDEN.iter().any(|(n, f)| *n == name && f.contains(&dependency));
            assert!(!forbidden, "{name} must not import {dependency}");
        }
        seen += 1;
    }
    assert_eq!(seen, FLOORS.len());
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
    ("notebook/src/strict.rs", "in memory"),
    ("nbd/src/server/listen.rs", "its own socket, by inode, and one that nothing listens on"),
    ("live/src/record.rs", "a new file only, never one that is there"),
    (
        "live/src/store/",
        "images and sums: plain files only, by descriptor; `live` can't import `target`",
    ),
    ("live/src/door/ublk/", "the kernel's own devices, which it makes for this server"),
    ("run/src/keeper.rs", "a new folder for a run that the notebook could not take"),
    ("iodyno/src/serve/floor.rs", "a new folder for one socket"),
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

/// Every command of the README's blocks marked `block`. A comment `# exit N` gives the exit code.
fn readme_commands(block: &str) -> Vec<(String, i32)> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut commands = Vec::new();
    let mut inside = false;
    for line in readme.lines() {
        if let Some(info) = line.strip_prefix("```") {
            inside = info == block;
        } else if inside && !line.trim().is_empty() {
            let (command, comment) = line.split_once(" # ").unwrap_or((line, ""));
            let code = comment.trim().strip_prefix("exit ").map_or(0, |c| c.parse().unwrap());
            commands.push((command.trim().to_owned(), code));
        }
    }
    commands
}

/// Runs them in a new folder, one after the other.
fn run_readme(block: &str) {
    let commands = readme_commands(block);
    assert!(!commands.is_empty(), "the README has no `{block}` block");
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_iodyno"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    for (command, code) in commands {
        if command == "./test" {
            continue;
        }
        // From the checkout it is cargo that runs the program; here it is built already.
        let command = command.replace("cargo run --release --", "iodyno");
        let output = Command::new("bash")
            .args(["-c", &command])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("XDG_DATA_HOME", folder.path().join("data"))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "`{command}`: {errors}");
    }
}

#[test]
fn the_readmes_commands_work() {
    run_readme("sh");
}

#[test]
#[ignore = "needs root and loop devices"]
fn the_readmes_commands_for_root_work() {
    run_readme("sh root");
}
