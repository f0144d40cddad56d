//! Commands and links of the documentation: each command of the README and of the pages in `docs/`
//! works, and each relative link leads to an existing file, and to a heading where it names one.
//!
//! A block marked `sh` is run, one marked `sh root` is run as root, and one marked `sh manual` is
//! not run: it takes long, or requires something that a test does not have. The commands of a page
//! share a new folder and a new notebook.

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
    let program = Path::new(env!("CARGO_BIN_EXE_iodyno"));
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

/// Pages at a time: most commands wait for storage or for time to pass.
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
    let names = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
    let mut found: Vec<PathBuf> = names.iter().map(|name| root().join(name)).collect();
    let mut folders = vec![root().join("docs")];
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

#[test]
fn links_and_anchors_are_parsed() {
    let line = "see [a](b.md#c), `[x](y)` and ![d](e/f.svg)";
    assert_eq!(links(line), ["b.md#c", "e/f.svg"]);
    let text = "# A page's 1st, `code`\n```sh\n# no heading\n```\n## Twice\n## Twice\n";
    let expected = ["a-pages-1st-code", "twice", "twice-1"];
    assert_eq!(anchors(text).iter().collect::<Vec<_>>(), expected);
}
