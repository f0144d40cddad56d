//! Commands and links in the documentation: each command in the README and in `docs/` works, and
//! each relative link leads to an existing file, and to an existing heading if it names one.
//!
//! A block marked `sh` is run, one marked `sh root` is run as root, and one marked `sh manual` is
//! not run, because it takes long or requires something that a test does not have. The commands of
//! a page share a new folder and a new notebook.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

const BLOCKS: [&str; 3] = ["sh", "sh root", "sh manual"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages whose commands are run: those in `docs/` and the README, which is the last.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect();
    pages.sort();
    pages.push(root().join("README.md"));
    pages
}

/// A command line and its exit code.
type Line = (String, i32);

/// Every command of a page's blocks marked `block`. A comment `# exit N` gives the exit code.
fn commands(page: &Path, block: &str) -> Vec<Line> {
    let mut commands = Vec::new();
    let mut inside = None;
    for line in fs::read_to_string(page).unwrap().lines() {
        if let Some(info) = line.strip_prefix("```") {
            let known = !info.starts_with("sh") || BLOCKS.contains(&info);
            assert!(known, "{}: a block is marked `{info}`", page.display());
            inside = if inside.is_some() { None } else { Some(info.to_owned()) };
        } else if inside.as_deref() == Some(block) && !line.trim().is_empty() {
            let (command, comment) = line.split_once(" # ").unwrap_or((line, ""));
            let code = comment.trim().strip_prefix("exit ").map_or(0, |c| c.parse().unwrap());
            commands.push((command.trim().to_owned(), code));
        }
    }
    commands
}

/// Runs commands in a new folder, in order.
fn run(page: &Path, commands: &[Line]) {
    let folder = tempfile::tempdir().unwrap();
    let output = tempfile::tempdir().unwrap();
    // `./test` names the program that it built as README says: what users run, and faster than the one of the tests.
    let program = std::env::var("IODYNO_RELEASE")
        .map_or_else(|_| PathBuf::from(env!("CARGO_BIN_EXE_iodyno")), PathBuf::from);
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    for (command, code) in commands {
        // In the checkout, cargo builds and runs the program; here it is built already.
        let line = command.replace("cargo run --release --", "iodyno");
        // Files rather than pipes: a server that runs in the background keeps its output open.
        let errors = output.path().join("errors");
        let status = Command::new("bash")
            .args(["-c", &line])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("XDG_DATA_HOME", folder.path().join("data"))
            .env_remove("IODYNO_NOTEBOOK")
            .stdout(File::create(output.path().join("output")).unwrap())
            .stderr(File::create(&errors).unwrap())
            .status()
            .unwrap();
        let errors = fs::read(errors).unwrap();
        let errors = String::from_utf8_lossy(&errors);
        assert_eq!(status.code(), Some(*code), "{}: `{command}`: {errors}", page.display());
    }
}

/// Number of pages whose commands run at the same time. Most commands wait for storage or sleep.
const PAGES_AT_ONCE: usize = 3;

#[test]
fn commands_of_every_page_work() {
    let mut done = BTreeSet::from([("./test".to_owned(), 0)]);
    let mut work = Vec::new();
    for page in pages() {
        let mut lines = commands(&page, "sh");
        if page.ends_with("README.md") {
            // Its examples are those of the pages that it links to.
            lines.retain(|line| !done.contains(line));
        }
        done.extend(lines.clone());
        work.push((page, lines));
    }
    let count: usize = work.iter().map(|(_, lines)| lines.len()).sum();
    assert!(count > 40, "{count} commands were found");
    // Long pages first, so that the threads end together.
    work.sort_by_key(|(_, lines)| lines.len());
    let work = Mutex::new(work);
    std::thread::scope(|scope| {
        for _ in 0..PAGES_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = work.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some((page, lines)) = next else { break };
                    run(&page, &lines);
                }
            });
        }
    });
}

/// Commands that create the inputs of the examples in the README's table.
const BEFORE_THE_TABLE: &[&str] = &[
    "iodyno run seq-write --content verifiable --on 'verified.bin?size=64MiB' --time 300ms",
    "iodyno run random-read --on 'data.bin?size=64MiB' --time 100ms --repeat 4 --name before",
    "iodyno run random-read --on 'data.bin?size=64MiB' --time 100ms --repeat 4 --name after",
    "printf '[a]\nrw=randread\nsize=1m\n' > job.fio",
    "printf 'fio version 2 iolog\nx add\nx open\nx read 0 4096\nx close\n' > trace",
];

/// Placeholders in the table, each with the text that this test runs instead.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("--verify-only --on FILE", "--verify-only --on verified.bin"),
    ("log bench --on log.bin?size=1GiB", "log bench --time 300ms --on 'log.bin?size=256MiB'"),
    ("data.bin?size=1GiB", "'data.bin?size=64MiB' --time 300ms"),
    ("--on FILE", "--on data.bin --time 300ms"),
    ("/dev/nvme0n1", "model:ssd-sata3-mlc-200g"),
    ("/dev/sdb", "data.bin"),
    ("replay TRACE --on TARGET", "replay trace --on data.bin"),
    ("study lenovo-exflash", "study lenovo-exflash --quick --report"),
    // A port that is free, whatever else runs here.
    ("iodyno web", "iodyno web --listen 0 & sleep 1; kill $!"),
    ("--nbd unix:flash.sock", "--nbd unix:flash.sock & sleep 1; kill $!"),
];
/// Examples that this test can't run: one takes minutes, one needs several hosts, one is run by `clients/python/test`.
const NOT_HERE: &[&str] = &["iodyno size", "iodyno-mpi", "clients/python/build-wheel"];

#[test]
fn examples_in_the_table_of_the_readme_work() {
    let page = root().join("README.md");
    let text = fs::read_to_string(&page).unwrap();
    let table = text.split("## What it does").nth(1).unwrap();
    let examples = table.lines().filter_map(|line| {
        let cell = line.strip_prefix('|')?.split('|').nth(1)?.trim();
        cell.strip_prefix('`')?.strip_suffix('`').map(str::to_owned)
    });
    let mut lines: Vec<Line> =
        BEFORE_THE_TABLE.iter().map(|line| ((*line).to_owned(), 0)).collect();
    let before = lines.len();
    let of_pages: BTreeSet<Line> = pages().iter().flat_map(|page| commands(page, "sh")).collect();
    let mut run_there = 0;
    for mut example in examples.filter(|e| !NOT_HERE.iter().any(|not| e.starts_with(not))) {
        for (placeholder, here) in PLACEHOLDERS {
            if example.contains(placeholder) {
                example = example.replace(placeholder, here);
                break;
            }
        }
        let line = (example, 0);
        if of_pages.contains(&line) {
            run_there += 1;
        } else {
            lines.push(line);
        }
    }
    assert!(lines.len() + run_there >= before + 12, "{lines:?}");
    run(&page, &lines);
}

#[test]
#[ignore = "needs root and loop devices"]
fn commands_of_every_page_for_root_work() {
    let mut count = 0;
    for page in pages() {
        let lines = commands(&page, "sh root");
        run(&page, &lines);
        count += lines.len();
    }
    assert!(count > 0, "no page has a `sh root` block");
}

/// The documents whose links are checked.
fn documents() -> Vec<PathBuf> {
    let names = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "bench/README.md",
    ];
    let mut found: Vec<PathBuf> = names.iter().map(|name| root().join(name)).collect();
    let mut folders = vec![root().join("docs"), root().join("catalog")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The lines outside of blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    })
}

/// The targets of a line's links; code in backquotes has none.
fn links(line: &str) -> Vec<String> {
    let text: String = line.split('`').step_by(2).collect();
    let after = text.split("](").skip(1);
    after.filter_map(|rest| rest.split_once(')')).map(|(link, _)| link.to_owned()).collect()
}

/// The anchors of a document's headings, as GitHub generates them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let anchor = kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>();
            let before = times.entry(anchor.clone()).or_default();
            *before += 1;
            if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
        })
        .collect()
}

#[test]
fn relative_links_are_valid() {
    let mut wrong = Vec::new();
    let mut reached = BTreeSet::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for (number, line) in prose(&text) {
            for link in links(line).iter().filter(|link| !link.contains("://")) {
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = match path {
                    "" => document.clone(),
                    _ => document.parent().unwrap().join(path),
                };
                let found = target.canonicalize().is_ok_and(|target| {
                    let holds = anchor.is_empty()
                        || fs::read_to_string(&target)
                            .is_ok_and(|text| anchors(&text).contains(anchor));
                    if target != document {
                        reached.insert(target);
                    }
                    holds
                });
                if !found {
                    wrong.push(format!("{}:{number}: {link}", document.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
    let unreached: Vec<_> =
        documents().into_iter().filter(|document| !reached.contains(document)).collect();
    assert!(unreached.is_empty(), "no other document has a link to {unreached:?}");
}

/// Targets of a document's links, without anchors.
fn link_paths(document: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(document).unwrap();
    let all = prose(&text).flat_map(|(_, line)| links(line)).collect::<Vec<_>>();
    all.iter().map(|link| link.split('#').next().unwrap().to_owned()).collect()
}

#[test]
fn index_lists_every_page_and_schema() {
    let docs = root().join("docs");
    let listed = link_paths(&docs.join("README.md"));
    let mut missing = Vec::new();
    for folder in ["", "formats/", "schema/"] {
        for entry in fs::read_dir(docs.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_page = [".md", ".schema.json"].iter().any(|end| name.ends_with(end));
            let path = format!("{folder}{name}");
            if is_page && path != "README.md" && !listed.contains(&path) {
                missing.push(path);
            }
        }
    }
    assert!(missing.is_empty(), "docs/README.md has no link to {missing:?}");
}

#[test]
fn architecture_lists_every_crate() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | `"));
    let listed: BTreeSet<&str> = rows.filter_map(|(_, rest)| rest.split('`').next()).collect();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(listed.contains(name.as_str()), "{name} is not in ARCHITECTURE.md's table");
    }
}

/// Limits that keep the first pages short enough to be read.
#[test]
fn first_pages_are_short() {
    let bytes = |name: &str| fs::metadata(root().join(name)).unwrap().len();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 150, "README.md has over 150 lines");
    assert!(bytes("ARCHITECTURE.md") <= 16 << 10, "ARCHITECTURE.md has over 16 KiB");
    assert!(bytes("docs/pictures/report.png") <= 150_000, "report.png has over 150 kB");
}

#[test]
fn links_and_anchors_are_parsed() {
    let line = "see [a](b.md#c), `[x](y)` and ![d](e/f.svg)";
    assert_eq!(links(line), ["b.md#c", "e/f.svg"]);
    let text = "# A page's 1st, `code`\n```sh\n# no heading\n```\n## Twice\n## Twice\n";
    let expected = ["a-pages-1st-code", "twice", "twice-1"];
    assert_eq!(anchors(text).iter().collect::<Vec<_>>(), expected);
}
