//! Patterns of sentences that need a second reading, in sources and documents.
//!
//! Each pattern has a ceiling: the number of lines that still had it when the ceiling was last lowered.

use crate::{root, sources};
use std::path::PathBuf;

/// A pattern, its ceiling, and what to write instead.
type Pattern = (&'static str, usize, &'static str);

/// Words, anywhere in a comment, a message or a document.
const WORDS: &[Pattern] = &[
    ("so many", 0, "N, the number of"),
    ("so long ", 0, "for N seconds, the length of"),
    ("manieth", 0, "sequence number"),
    (" goes with ", 0, "requires"),
    ("for want of", 0, "the reason: too narrow, too few"),
    ("as it always was", 0, "a no-op"),
    ("for ever ", 0, "forever, or sustained"),
    ("eanwhile", 0, "while, during, since"),
    ("is of one", 3, "takes one, has one"),
    (" survive whole", 0, "atomic writes"),
];

/// Beginnings of a doc comment.
const BEGINNINGS: &[Pattern] = &[
    ("Of ", 2, "a noun phrase"),
    ("Those ", 0, "the noun"),
    ("The same", 9, "the noun, and what differs"),
    ("It ", 17, "the noun"),
    ("What is ", 0, "the noun: `Dirty data`, `Contents of`"),
];

/// Maximum number of doc comments that say nothing beyond the declaration of their item.
const REPETITIONS: usize = 16;
/// Words that add nothing to a name.
const EMPTY_WORDS: &[&str] = &[
    "a", "all", "an", "and", "as", "at", "by", "creates", "each", "for", "from", "gets", "has",
    "in", "is", "it", "its", "of", "on", "one", "or", "returns", "sets", "that", "the", "this",
    "to", "type", "whether", "which", "with",
];

fn documents() -> Vec<PathBuf> {
    let in_folder = |folder: &str| std::fs::read_dir(root().join(folder)).unwrap();
    let folders = ["", "catalog", "catalog/studies", "docs", "docs/formats"];
    let all = folders.into_iter().flat_map(in_folder);
    let paths = all.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Lines of a file with their numbers. For sources, only lines that a person reads: comments and texts.
fn lines(text: &str, is_source: bool) -> impl Iterator<Item = (usize, &str)> {
    let is_read = move |line: &str| !is_source || line.contains("//") || line.contains('"');
    (1..).zip(text.lines()).filter(move |(_, line)| is_read(line))
}

/// The first lines of all doc comments.
fn beginnings(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_inside = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let comment = line.trim_start().strip_prefix("/// ");
        let begins = comment.is_some() && !is_inside;
        is_inside = line.trim_start().starts_with("///");
        comment.filter(|_| begins).map(|words| (number, words))
    })
}

/// Words of a text in lower case without a plural s. `parse_size` and `ParseSize` have two words each.
fn stems(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    for c in text.chars() {
        if c.is_uppercase() {
            spaced.push(' ');
        }
        spaced.push(if c.is_alphabetic() { c.to_ascii_lowercase() } else { ' ' });
    }
    spaced.split_whitespace().map(|word| word.trim_end_matches('s').to_owned()).collect()
}

/// Doc comments of one line without a number whose words are all in the line that declares the item.
fn repetitions(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let is_doc = |line: &str| line.starts_with("///");
    let is_repetition = |&(index, line): &(usize, &str)| {
        let is_alone = index == 0 || !is_doc(lines[index - 1]);
        let next = lines[index + 1..].iter().find(|next| !next.starts_with("#["));
        let is_short = is_doc(line) && is_alone && !line.contains(|c: char| c.is_ascii_digit());
        // A quote begins the text of an attribute.
        let is_item = |item: &&&str| is_short && !is_doc(item) && !item.starts_with('"');
        let Some(item) = next.filter(is_item) else { return false };
        let known = stems(item);
        let empty: Vec<String> = EMPTY_WORDS.iter().flat_map(|word| stems(word)).collect();
        stems(line).iter().all(|word| empty.contains(word) || known.contains(word))
    };
    let numbered = lines.iter().copied().enumerate();
    numbered.filter(is_repetition).map(|(index, line)| (index + 1, line)).collect()
}

#[test]
fn doc_comments_do_not_repeat_names() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    files.retain(|path| !path.components().any(|part| part.as_os_str() == "tests"));
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let all = repetitions(&text);
        found.extend(all.iter().map(|(n, line)| format!("{}:{n}: {line}", file.display())));
    }
    let all = found.join("\n  ");
    assert!(found.len() <= REPETITIONS, "{} of at most {REPETITIONS}:\n  {all}", found.len());
}

#[test]
fn sentences_read_at_once() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let this = PathBuf::from(file!());
    files.retain(|path| !path.ends_with(this.file_name().unwrap()));
    let sources = files.len();
    files.extend(documents());
    let texts: Vec<String> = files.iter().map(|f| std::fs::read_to_string(f).unwrap()).collect();
    let mut problems = Vec::new();
    let mut judge = |pattern: &Pattern, found: &[String]| {
        let (words, ceiling, instead) = pattern;
        if found.len() > *ceiling {
            let all = found.join("\n  ");
            let count = found.len();
            problems.push(format!(
                "`{words}`: {count} lines, at most {ceiling}; write {instead}:\n  {all}"
            ));
        }
    };
    let all = || files.iter().zip(&texts).enumerate();
    for pattern in WORDS {
        let mut found = Vec::new();
        for (index, (file, text)) in all() {
            let has = lines(text, index < sources).filter(|(_, line)| line.contains(pattern.0));
            found.extend(
                has.map(|(number, line)| format!("{}:{number}: {}", file.display(), line.trim())),
            );
        }
        judge(pattern, &found);
    }
    for pattern in BEGINNINGS {
        let mut found = Vec::new();
        for (_, (file, text)) in all().take(sources) {
            let has = beginnings(text).filter(|(_, words)| words.starts_with(pattern.0));
            found
                .extend(has.map(|(number, words)| format!("{}:{number}: {words}", file.display())));
        }
        judge(pattern, &found);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
