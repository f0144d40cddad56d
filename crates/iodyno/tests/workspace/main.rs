//! Rules of the workspace that no compiler checks: crates import only lower layers, modules of a crate do not
//! import each other in a circle, only `targets` writes files, and a single place reads facts by key.

mod sentences;

mod dependencies;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Layers as in ARCHITECTURE.md.
const LAYERS: &[(&str, u32)] = &[
    ("units", 0),
    ("nbd", 0),
    ("raid", 0),
    ("catalog", 1),
    ("emulate", 2),
    ("measure", 2),
    ("page", 2),
    ("ranks", 2),
    ("workload", 2),
    ("exchange", 3),
    ("live", 3),
    ("method", 3),
    ("msglog", 3),
    ("notebook", 3),
    ("targets", 3),
    ("drive", 4),
    ("logserver", 4),
    ("run", 5),
    ("crashtest", 6),
    ("fit", 6),
    ("report", 6),
    ("serving", 6),
    ("sizing", 6),
    ("study", 6),
    ("python", 7),
    ("web", 7),
    ("iodyno", 8),
    ("mpi", 9),
];

/// Imports that the layers alone would allow and the design forbids.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("targets", &["workload", "measure", "catalog"]),
    ("drive", &["notebook", "catalog", "targets"]),
    ("report", &["workload", "catalog", "targets", "drive", "run"]),
    ("web", &["workload", "catalog", "targets", "drive", "run"]),
    ("method", &["emulate"]),
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
        let ours = ours.filter(|k| k.starts_with("iodyno"));
        let ours: Vec<&str> = ours.map(|k| k.strip_prefix("iodyno-").unwrap_or(k)).collect();
        if name == "bench" {
            assert_eq!(ours, ["raid"], "bench runs the program; it links only arithmetic");
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

/// These crates parse texts with `catalog`, but don't let it find files by name.
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

/// Path of a module, from the crate's root.
type Module = Vec<String>;

/// Names that the code of a module uses: paths from `crate`, `self` and `super` on, and imports by their local names.
#[derive(Default)]
struct Named {
    paths: Vec<Vec<String>>,
    imports: BTreeMap<String, Vec<String>>,
}

impl Named {
    fn of(code: &str) -> Self {
        let code: String = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .fold(String::new(), |all, line| all + line + "\n");
        let tokens = tokens(&code);
        let mut named = Self::default();
        for (at, token) in tokens.iter().enumerate() {
            let is_use = at > 0 && tokens[at - 1] == "use";
            let begins = matches!(*token, "crate" | "self" | "super")
                && tokens.get(at + 1) == Some(&"::")
                && (at == 0 || tokens[at - 1] != "::");
            if is_use || begins {
                named.tree(&tokens, at, &[], is_use);
            }
        }
        named
    }

    /// Collects the paths of the `use` tree or path that begins at token `at`, below `prefix`. Returns the index of the
    /// token after it.
    fn tree(&mut self, tokens: &[&str], mut at: usize, prefix: &[String], is_use: bool) -> usize {
        let mut path = prefix.to_vec();
        let is_name = |t: &str| t.starts_with(|c: char| c.is_alphabetic() || c == '_');
        while let Some(&token) = tokens.get(at) {
            at += 1;
            match token {
                "{" => {
                    while tokens.get(at).is_some_and(|t| *t != "}") {
                        at = self.tree(tokens, at, &path, is_use);
                        at += usize::from(tokens.get(at) == Some(&","));
                    }
                    return at + 1;
                }
                name if is_name(name) => path.push(name.to_owned()),
                _ => return at,
            }
            if tokens.get(at) != Some(&"::") {
                break;
            }
            at += 1;
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if is_use && tokens.get(at) == Some(&"as") {
            (*tokens.get(at + 1).unwrap_or(&"_")).clone_into(&mut name);
            at += 2;
        }
        if is_use {
            self.imports.insert(name, path.clone());
        }
        self.paths.push(path);
        at
    }
}

/// Splits code into names, `::`, and single other characters. Blanks are left out.
fn tokens(code: &str) -> Vec<&str> {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut all = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = if is_of_name(first) {
            rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        all.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    all
}

/// The module that defines what `path` means in `module`; follows imports through other modules.
fn holder(modules: &BTreeMap<Module, Named>, module: &Module, path: &[String]) -> Option<Module> {
    let (mut holder, mut rest) = (module.clone(), path);
    match rest.first()?.as_str() {
        "crate" => (holder, rest) = (Vec::new(), &rest[1..]),
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|p| p == "super") {
                holder.pop();
                rest = &rest[1..];
            }
        }
        child => {
            holder.push(child.to_owned());
            if !modules.contains_key(&holder) {
                return None;
            }
            rest = &rest[1..];
        }
    }
    while let Some(next) = rest.first() {
        holder.push(next.clone());
        if !modules.contains_key(&holder) {
            holder.pop();
            let handed_on = modules.get(&holder).and_then(|named| named.imports.get(next));
            let elsewhere = handed_on.filter(|path| holder != *module || path[..] != *rest);
            return elsewhere
                .and_then(|path| self::holder(modules, &holder, path))
                .or(Some(holder));
        }
        rest = &rest[1..];
    }
    Some(holder)
}

/// The modules of a crate, without tests, each with the names that it uses.
fn modules(src: &Path) -> BTreeMap<Module, Named> {
    let mut files = Vec::new();
    sources(src, &mut files);
    let mut all = BTreeMap::new();
    for file in files {
        let name = file.strip_prefix(src).unwrap().with_extension("");
        let mut module: Module = name.iter().map(|p| p.to_str().unwrap().to_owned()).collect();
        if module.iter().any(|p| p == "tests" || p.ends_with("_tests") || p.starts_with("test_")) {
            continue;
        }
        if ["mod", "lib", "main"].contains(&module.last().unwrap().as_str()) {
            module.pop();
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        all.insert(module, Named::of(code));
    }
    all
}

/// A parent and its child may use each other. Siblings, each with all modules below it, must not import each other in a
/// circle: code that both need belongs in a separate file.
#[test]
fn sibling_modules_import_each_other_in_no_circle() {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let modules = modules(&path.join("src"));
        // By parent: which sibling imports which.
        let mut imports: BTreeMap<Module, BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
        for (module, named) in &modules {
            for of in named.paths.iter().filter_map(|path| holder(&modules, module, path)) {
                let common = module.iter().zip(&of).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(common), of.get(common)) {
                    let siblings = imports.entry(module[..common].to_vec()).or_default();
                    siblings.entry(from).or_default().insert(to.clone());
                }
            }
        }
        for (parent, siblings) in imports {
            let reached = |from: &str| {
                let mut all = BTreeSet::new();
                let mut next = vec![from.to_owned()];
                while let Some(to) = next.pop() {
                    let new = siblings.get(to.as_str()).into_iter().flatten();
                    next.extend(new.filter(|to| all.insert((*to).clone())).cloned());
                }
                all
            };
            let circle: Vec<&str> =
                siblings.keys().copied().filter(|from| reached(from).contains(*from)).collect();
            let parent = parent.join("::");
            if !circle.is_empty() {
                found.push(format!("{name}, in `{parent}`: {circle:?}"));
            }
        }
    }
    assert!(found.is_empty(), "modules import each other in a circle:\n{}", found.join("\n"));
}

/// Crates that call the kernel, C code or instructions of a processor, or share memory with them.
const UNSAFE: &[(&str, &str)] = &[
    ("bench", "io_uring, mapped memory"),
    ("drive", "io_uring, libaio, mapped memory"),
    ("emulate", "a hint to the processor's cache"),
    ("iodyno", "signals, the terminal's size"),
    ("live", "FUSE, ublk, mapped memory"),
    ("logserver", "mapped memory, limits of the allocator"),
    ("mpi", "MPI"),
    ("nbd", "sockets, memory shared between connections"),
    ("raid", "vector instructions"),
    ("ranks", "a clock"),
    ("run", "affinity, the page cache"),
    ("targets", "ioctl"),
];

#[test]
fn crates_without_unsafe_code_forbid_it() {
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let of_crate = ["src/lib.rs", "src/main.rs"].map(|file| path.join(file));
        let of_crate = of_crate.iter().find(|file| file.exists()).unwrap();
        let forbids = fs::read_to_string(of_crate).unwrap().contains("#![forbid(unsafe_code)]");
        let mut files = Vec::new();
        sources(&path.join("src"), &mut files);
        let is_code = |line: &str| !line.trim_start().starts_with("//");
        let uses = |line: &str| is_code(line) && tokens(line).contains(&"unsafe");
        let has_unsafe =
            files.iter().any(|file| fs::read_to_string(file).unwrap().lines().any(uses));
        let is_listed = UNSAFE.iter().any(|(listed, _)| *listed == name);
        assert_eq!(is_listed, !forbids, "{name}: list it here, or forbid unsafe code");
        assert_eq!(is_listed, has_unsafe, "{name} is listed, and has no unsafe code");
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

/// Places outside `targets` that may write files, each with the reason. `targets` guards all other writes.
const WRITERS: &[(&str, &str)] = &[
    ("bench/", "a tool for developers, which writes into folders that it is given"),
    ("catalog/build.rs", "writes what is compiled in"),
    ("crashtest/src/sqlite.rs", "a database in a folder of `crashtest`, which is in memory"),
    ("notebook/src/schema.rs", "SQLite opens by path; `targets` and `look` check it before"),
    ("notebook/src/portable.rs", "in memory"),
    ("notebook/src/tables.rs", "in memory"),
    ("iodyno/src/ranks.rs", "a rank's own new folder of its own name, and its notebook there"),
    ("nbd/src/server/listen.rs", "its own socket, by inode, and one that nothing listens on"),
    ("live/src/data_log.rs", "a new file only, never one that is there"),
    ("live/src/record.rs", "a new file only, never one that is there"),
    (
        "live/src/store/",
        "images and sums: plain files only, by descriptor; `live` can't import `targets`",
    ),
    (
        "live/src/served/array_folder.rs",
        "its own folder: a new file, which takes the place of its own array.json alone",
    ),
    ("live/src/frontend/ublk/", "the kernel's own devices, which it makes for this server"),
    ("run/src/trace_writer.rs", "a new file, which `targets` makes and removes"),
    ("run/src/persist.rs", "a new folder for a run that the notebook could not take"),
    ("serving/src/transport_calibration", "a new folder for one socket; the user's cache folder"),
    (
        "iodyno/src/private_folder.rs",
        "a new folder of its own name, with sockets and a mount; those of this user's dead processes",
    ),
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
fn only_targets_writes_files() {
    let mut used = std::collections::BTreeSet::new();
    for (name, code) in code().iter().filter(|(name, _)| !name.starts_with("targets/")) {
        for (number, line) in code.lines().enumerate() {
            if line.trim_start().starts_with("//") || !WRITING.iter().any(|w| line.contains(w)) {
                continue;
            }
            let listed = WRITERS.iter().find(|(place, _)| name.starts_with(place));
            let Some((place, _)) = listed else {
                panic!("{name}:{}: only `targets` writes files: {}", number + 1, line.trim());
            };
            used.insert(*place);
        }
    }
    let idle: Vec<_> = WRITERS.iter().filter(|(place, _)| !used.contains(place)).collect();
    assert!(idle.is_empty(), "listed, and not needed: {idle:?}");
}

/// Calls that open a file for reading.
const READING: &[&str] = &["File::open(", "fs::read(", "read_to_string("];

/// Code that reads files which no user names, or checks them itself: `(place, why)`.
const READERS: &[(&str, &str)] = &[
    ("bench/", "its own files"),
    ("crashtest/src/leftover.rs", "/proc"),
    ("drive/src/", "/proc and /sys"),
    ("serving/src/volumes.rs", "/proc/meminfo"),
    ("live/src/frontend/fuse/mount_point.rs", "/proc"),
    ("live/src/store/base.rs", "an image or backing file, which is checked to be a regular file"),
    ("live/src/store/image.rs", "an image, which is checked to be a regular file"),
    ("mpi/src/program.rs", "its own program"),
    ("notebook/src/process.rs", "/proc"),
    ("notebook/src/schema.rs", "a notebook, which is checked to be a regular file"),
    ("ranks/src/ranks.rs", "/proc"),
    ("run/src/foreign_activity.rs", "/proc"),
    ("run/src/processors.rs", "/sys"),
    ("targets/src/", "targets; /proc and /sys"),
];

/// A file that a user, or another file, names can be a device without an end or a pipe without a writer.
#[test]
fn named_files_are_read_in_one_place() {
    let mut used = std::collections::BTreeSet::new();
    for (name, code) in code() {
        for (number, line) in code.lines().enumerate() {
            if line.trim_start().starts_with("//") || !READING.iter().any(|r| line.contains(r)) {
                continue;
            }
            let listed = READERS.iter().find(|(place, _)| name.starts_with(place));
            let Some((place, _)) = listed else {
                panic!(
                    "{name}:{}: `catalog::input` reads files that are named: {}",
                    number + 1,
                    line.trim()
                );
            };
            used.insert(*place);
        }
    }
    let idle: Vec<_> = READERS.iter().filter(|(place, _)| !used.contains(place)).collect();
    assert!(idle.is_empty(), "listed, and not needed: {idle:?}");
}

/// Expressions that read one fact of a cell, a target or the machine.
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

/// Facts are for display. Data that code needs is evidence, or a field of a description.
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
