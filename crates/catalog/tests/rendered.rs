//! What a user sees of a wrong file, to the letter.

use core::fmt;
use std::fs;
use std::io::Write as _;

use iodyno_catalog::{File, Kind, MAX_FILE_BYTES, Problem, find, list, parse};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_spanned::Spanned;

/// A stand-in for a room's own file type.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    schema: u32,
    threads: Option<Spanned<u32>>,
    block: Option<Size>,
    name: Option<String>,
    ratio: Option<f64>,
    flag: Option<bool>,
    mode: Option<Mode>,
    part: Option<Part>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    only: u8,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    SlowStart,
    Full,
}

#[derive(Debug)]
struct Size(u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as `\"4KiB\"`")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                iodyno_units::parse_size(text).map(Size).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

fn file(text: &str) -> File {
    File { origin: "my/load.toml".to_owned(), name: "load".to_owned(), text: text.into() }
}

fn told(text: &str) -> String {
    parse::<Sample>(&file(text)).expect_err(text).to_string()
}

#[test]
fn a_right_file_is_parsed() {
    let text = "schema = 1\nthreads = 3\nblock = \"4k\"\nname = \"x\"\nratio = 1\nflag = true\n\
                mode = \"slow-start\"\npart = { only = 4 }";
    let sample: Sample = parse(&file(text)).unwrap();
    assert_eq!((sample.schema, sample.threads.map(|t| t.span())), (1, Some(21..22)));
    assert_eq!((sample.block.unwrap().0, sample.name.as_deref()), (4096, Some("x")));
    assert_eq!((sample.ratio, sample.flag), (Some(1.0), Some(true)));
    assert!(matches!(sample.mode, Some(Mode::SlowStart)));
    let full: Sample = parse(&file("schema = 1\nmode = \"full\"")).unwrap();
    assert!(matches!(full.mode, Some(Mode::Full)));
    assert_eq!(sample.part.unwrap().only, 4);
}

#[test]
fn an_unknown_key_is_told_the_nearest_one() {
    let expected = "\
error: unknown key `thread`
 --> my/load.toml:2:1
  |
2 | thread = 4
  | ^^^^^^
  |
  = help: did you mean `threads`? the keys here are `schema`, `threads`, `block`, `name`, `ratio`, `flag`, `mode`, `part`";
    assert_eq!(told("schema = 1\nthread = 4\n"), expected);
    let expected = "\
error: unknown key `size`
 --> my/load.toml:3:1
  |
3 | size = 4
  | ^^^^
  |
  = help: the only key here is `only`";
    assert_eq!(told("schema = 1\n[part]\nsize = 4\n"), expected);
}

#[test]
fn a_wrong_unit_has_its_caret_on_the_value() {
    let expected = "\
error: `4kb` is not a size: write a number with B, KiB, MiB, GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000) or k, M, G, T (1024, as fio has it)
 --> my/load.toml:2:9
  |
2 | block = \"4kb\"   # not so
  |         ^^^^^";
    assert_eq!(told("schema = 1\nblock = \"4kb\"   # not so"), expected);
}

#[test]
fn a_wrong_type_is_named_in_words() {
    let expected = "\
error: expected a whole number, 0 or above
 --> my/load.toml:2:11
  |
2 | threads = \"four\"
  |           ^^^^^^ this is the text \"four\"";
    assert_eq!(told("schema = 1\nthreads = \"four\""), expected);
    for (line, message) in [
        ("threads = -1", "expected a whole number, 0 or above"),
        ("threads = 4_294_967_296", "expected a whole number, 0 or above"),
        ("block = 4.5", "expected a size such as `\"4KiB\"`"),
        ("name = 1", "expected a text in quotes"),
        ("ratio = true", "expected a number"),
        ("flag = []", "expected `true` or `false`"),
        ("part = 3", "expected a table"),
        ("mode = \"fulll\"", "unknown name `fulll`"),
    ] {
        let problem = parse::<Sample>(&file(&format!("schema = 1\n{line}"))).unwrap_err();
        assert_eq!(problem.message(), message, "{line}");
        assert_eq!(problem.line_column().unwrap().0, 2, "{line}");
    }
    let found = |line: &str| {
        told(&format!("schema = 1\n{line}")).lines().nth(4).unwrap_or_default().trim().to_owned()
    };
    assert_eq!(found("name = { a = 1 }"), "|        ^^^^^^^^^ this is a table");
    assert_eq!(found("block = 4.5"), "|         ^^^ this is the number `4.5`");
    assert_eq!(found("ratio = [1]"), "|         ^^^ this is an array");
}

#[test]
fn a_missing_key_is_named() {
    let expected = "\
error: the key `only` is missing
 --> my/load.toml:2:1
  |
2 | [part]
  | ^^^^^^";
    assert_eq!(told("schema = 1\n[part]"), expected);
    assert!(told("").starts_with("error: the key `schema` is missing\n --> my/load.toml:1:1"));
}

#[test]
fn a_syntax_error_is_at_its_place() {
    let expected = "\
error: key with no value, expected `=`
 --> my/load.toml:3:6
  |
3 | depth
  |      ^";
    assert_eq!(told("schema = 1\n\ndepth\n"), expected);
    assert!(told("schema = 1\nschema = 2").contains("duplicate key"));
    assert!(told("schema = 1\nname = \"a\nflag = true").contains("2:10"));
}

/// What another room finds wrong: with a place, or two, after characters of several bytes.
#[test]
fn a_rule_of_another_room_is_drawn_at_its_span() {
    let text = "about = \"µs\"\nthink = \"1 µs\"  # the think time\nrate = 5\n";
    let file = file(text);
    let (think, rate) = (text.find("\"1").unwrap(), text.find('5').unwrap());
    let problem = Problem::at(&file, think..think + 7, "think time in an open loop", None)
        .with_label("leave this out")
        .also(rate..rate + 1, "for there is a rate")
        .with_help("a closed loop may think");
    let expected = "\
error: think time in an open loop
 --> my/load.toml:2:9
  |
2 | think = \"1 µs\"  # the think time
  |         ^^^^^^ leave this out
3 | rate = 5
  |        - for there is a rate
  |
  = help: a closed loop may think";
    assert_eq!(problem.to_string(), expected);
    assert_eq!(problem.line_column(), Some((2, 9)));
    assert!(problem.render(true).contains("\u{1b}["));
    assert!(!problem.render(false).contains('\u{1b}'));
    // A span that is beyond the text, or cuts a character, must not panic while an error is told.
    let backwards = core::ops::Range { start: 5, end: 3 };
    for span in [10..11, 1000..2000, backwards, text.len()..text.len()] {
        let _ = Problem::at(&file, span, "somewhere", None).to_string();
    }
}

#[test]
fn names_and_paths_are_found_or_refused_with_help() {
    let read = find(Kind::Workload, "random-read").unwrap();
    assert_eq!(read.origin, "catalog:workloads/random-read.toml");
    assert_eq!((read.name.as_str(), read.text.starts_with("schema = 1")), ("random-read", true));
    let expected = "\
error: there is no workload named `random-raed`
--> catalog:workloads
 = help: did you mean `random-read`? `iodyno catalog` lists them; a workload file of your own is given by a path that contains `/` or ends in `.toml`";
    assert_eq!(find(Kind::Workload, "random-raed").unwrap_err().to_string(), expected);
    assert!(find(Kind::Method, "random-read").is_err(), "each kind has names of its own");

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("own.toml"), "schema = 1").unwrap();
    let own = find(Kind::Workload, &path("own.toml")).unwrap();
    assert_eq!((own.name.as_str(), &*own.text), ("own", "schema = 1"));
    assert_eq!(own.origin, path("own.toml"));

    let told = |path: &str| find(Kind::Workload, path).unwrap_err().to_string();
    let missing = "\
error: there is no such file
--> no/where.toml
 = help: give the path of a workload file, or a name that `iodyno catalog` lists";
    assert_eq!(told("no/where.toml"), missing);
    assert!(told("missing.toml").starts_with("error: there is no such file"));
    assert!(told(&format!("{}/", path(""))).starts_with("error: this is a folder, not a file"));

    fs::write(path("own.csv"), "figure").unwrap();
    assert_eq!(find(Kind::Published, &path("own.csv")).unwrap().name, "own");
    assert!(
        find(Kind::Published, "own.toml").is_err_and(|p| p.message().contains("no publication"))
    );

    fs::write(path("latin.toml"), b"schema = 1\nabout = \"caf\xE9\"").unwrap();
    let latin = told(&path("latin.toml"));
    assert!(
        latin
            .starts_with("error: the file is not UTF-8 text: byte 23 (line 2) begins no character"),
        "{latin}"
    );

    let mut large = fs::File::create(path("large.toml")).unwrap();
    large.write_all(&vec![b'#'; MAX_FILE_BYTES as usize]).unwrap();
    assert!(find(Kind::Workload, &path("large.toml")).is_ok(), "exactly the limit");
    large.write_all(b"#").unwrap();
    let large = told(&path("large.toml"));
    assert!(large.starts_with("error: the file is larger than 1 MiB, the most that is read"));
    // Without an end at all.
    assert_eq!(told("/dev/zero").lines().next(), large.lines().next());
}

/// What is embedded is what lies in the folder, sorted, and every name can be found.
#[test]
fn the_catalog_holds_the_folder() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/workloads");
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    let listed: Vec<&str> = list(Kind::Workload).map(|(name, _)| name).collect();
    assert_eq!(listed, names);
    for kind in Kind::ALL {
        for (name, text) in list(kind) {
            assert_eq!(&*find(kind, name).unwrap().text, text);
            assert!(
                name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_')),
                "{name}: a name must not look like a path"
            );
        }
    }
}
