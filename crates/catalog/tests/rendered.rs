//! The exact rendering of errors in files, and access to values by their paths.

use std::fs;
use std::io::Write as _;

use iodyno_catalog::{
    COUNT, File, Key, Kind, MAX_FILE_BYTES, Problem, Reader, Record, ValueType, find, list,
};

/// A stand-in for a crate's own schema.
const SAMPLE: &[Key] = &[
    Key::optional("schema", ValueType::Header),
    Key::optional("threads", ValueType::Count(0, 99)),
    Key::optional("block", ValueType::TablesOrFirst(BLOCK)).such_as("\"4KiB\""),
    Key::optional("name", ValueType::Text),
    Key::optional("ratio", ValueType::Number(0.0, 10.0)),
    Key::optional("flag", ValueType::Flag),
    Key::optional("mode", ValueType::Word(&["slow-start", "full"])),
    Key::optional("depth", ValueType::OneOrMany(&ValueType::Scalar)),
    Key::optional("share", ValueType::Percent),
    Key::optional("rate", ValueType::Rate),
    Key::optional("part", ValueType::Table(PART)),
    Key::optional("parts", ValueType::Tables(PARTS)),
    Key::optional("ceiling", ValueType::Map(&ValueType::Time(0, u64::MAX))),
    Key::optional("steps", ValueType::List(&COUNT)),
    Key::optional("inner", ValueType::Record(PART)),
];
const BLOCK: &[Key] =
    &[Key::required("size", ValueType::Bytes), Key::required("share", ValueType::Share(1.0))];
const PART: &[Key] = &[Key::required("part.only", COUNT)];
const PARTS: &[Key] = &[
    Key::required("do", ValueType::Kind(&["wait", "fill", "look"], "a part that does")),
    Key::required("time", ValueType::Time(1, 1_000_000_000)).only(&["wait"]),
    Key::optional("passes", ValueType::Count(1, 3)).only(&["wait", "fill"]),
];

fn file(text: &str) -> File {
    File {
        origin: "my/load.toml".to_owned(),
        name: "load".to_owned(),
        text: text.into(),
        is_named_by_file: false,
    }
}

fn read(text: &str) -> Result<Record, Problem> {
    let file = file(text);
    let mut reader = Reader::default();
    let record = reader.file(text, None, SAMPLE);
    reader.finish().map_err(|errors| Problem::of(&file, &errors))?;
    Ok(record.expect("no error"))
}

fn rendered(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

#[test]
fn a_right_file_is_read() {
    let text = "schema = 1\nthreads = 3\nblock = \"4k\"\nname = \"x\"\nratio = 1\nflag = true\n\
                mode = \"slow-start\"\npart = { only = 4 }\ndepth = [1, \"2\"]\nshare = \"5%\"\n\
                rate = \"2k/s\"\nceiling = { p99 = \"1ms\" }\nsteps = [1, 2]\ninner = { only = 1 }\n\
                [[parts]]\ndo = \"fill\"\n[[parts]]\ndo = \"wait\"\ntime = \"1s\"";
    let it = read(text).unwrap();
    assert_eq!((it.whole("threads"), it.place("threads")), (Some(3), 21..22));
    assert_eq!((it.text("name"), it.word("mode")), (Some("x"), Some("slow-start")));
    assert_eq!((it.real("ratio"), it.flag("flag")), (Some(1.0), Some(true)));
    assert_eq!((it.real("share"), it.real("rate")), (Some(0.05), Some(2000.0)));
    assert_eq!((it.whole("part.only"), it.whole("nothing")), (Some(4), None));
    let blocks: Vec<_> = it.records("block").map(|block| block.whole("size")).collect();
    assert_eq!(blocks, [Some(4096)]);
    let depths: Vec<_> = it.items("depth").iter().filter_map(|depth| depth.text()).collect();
    assert_eq!((depths, it.get("depth").unwrap().is_array()), (vec!["1", "2"], true));
    assert!(!read("schema = 1\ndepth = 4").unwrap().get("depth").unwrap().is_array());
    let (name, p99) = &it.get("ceiling").unwrap().map()[0];
    assert_eq!((name.as_str(), p99.whole()), ("p99", Some(1_000_000)));
    assert_eq!(it.items("steps").iter().filter_map(iodyno_catalog::Entry::whole).sum::<u64>(), 3);
    let inner = it.get("inner").unwrap().record().unwrap();
    assert_eq!(inner.whole("part.only"), Some(1));
    assert_eq!(it.records("parts").map(|part| part.whole("time")).collect::<Vec<_>>().len(), 2);
    // A place is that of the key, or else of what is around it.
    let under = |path: &str| &text[it.place(path)];
    assert_eq!((under("parts[1].time"), under("parts[1].passes")), ("\"1s\"", "[[parts]]"));
    assert_eq!(
        (under("block[0].size"), under("depth[1]"), under("part.x.y")),
        ("\"4k\"", "\"2\"", "{ only = 4 }")
    );
}

/// All errors are reported at once, in the order of the file.
#[test]
fn all_errors_are_reported_at_once() {
    let expected = "\
error: `threads` must be from 0 to 99
 --> my/load.toml:2:11
  |
2 | threads = 100
  |           ^^^
3 | thread = 4
  | ------ unknown key `thread`
4 | [[parts]]
5 | do = \"wait\"
  |      ------ the key `time` is missing
  |
  = help: did you mean `threads`? the keys here are `schema`, `threads`, `block`, `name`, `ratio`, `flag`, `mode`, `depth`, `share`, `rate`, `part`, `parts`, `ceiling`, `steps`, `inner`
  = help: for example `time = \"80us\"`";
    assert_eq!(
        rendered("schema = 1\nthreads = 100\nthread = 4\n[[parts]]\ndo = \"wait\"\n"),
        expected
    );
}

#[test]
fn an_unknown_key_is_told_the_nearest_one() {
    let expected = "\
error: unknown key `passe`
 --> my/load.toml:4:1
  |
4 | passe = 4
  | ^^^^^
  |
  = help: did you mean `passes`? the keys here are `do`, `passes`";
    assert_eq!(rendered("schema = 1\n[[parts]]\ndo = \"fill\"\npasse = 4\n"), expected);
    let expected = "\
error: unknown key `size`
 --> my/load.toml:4:1
  |
4 | size = 4
  | ^^^^
  |
  = help: the only key here is `only`";
    assert_eq!(rendered("schema = 1\n[part]\nonly = 3\nsize = 4\n"), expected);
}

#[test]
fn a_key_of_another_kind_is_told_where_it_belongs() {
    let expected = "\
error: `passes` has no effect for a part that does `look`
 --> my/load.toml:4:10
  |
4 | passes = 1
  |          ^
  |
  = help: the key applies only to `wait` and `fill`; leave the key out";
    assert_eq!(rendered("schema = 1\n[[parts]]\ndo = \"look\"\npasses = 1\n"), expected);
}

#[test]
fn a_wrong_unit_has_its_caret_on_the_value() {
    let expected = "\
error: `block`: `4kb` is not a size: use a number with B, KiB, MiB, GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000) or k, M, G, T (1024, as fio has it)
 --> my/load.toml:2:9
  |
2 | block = \"4kb\"   # not so
  |         ^^^^^";
    assert_eq!(rendered("schema = 1\nblock = \"4kb\"   # not so"), expected);
}

#[test]
fn a_wrong_type_is_named_in_words() {
    let expected = "\
error: `threads` must be a whole number, not the text \"four\"
 --> my/load.toml:2:11
  |
2 | threads = \"four\"
  |           ^^^^^^
  |
  = help: use a value such as `16`";
    assert_eq!(rendered("schema = 1\nthreads = \"four\""), expected);
    for (line, message) in [
        ("threads = -1", "`threads` must be from 0 to 99"),
        ("threads = 99_999_999_999_999_999_999", "`threads` must be from 0 to 99"),
        (
            "block = 4.5",
            "`block` must be a size, a table, or an array of tables, not the number 4.5",
        ),
        ("block = [4]", "each item of `block` must be a table, not the integer 4"),
        ("name = { a = 1 }", "`name` must be a text in quotes, not a table"),
        ("ratio = true", "`ratio` must be a number, not the boolean true"),
        ("ratio = 11", "`ratio` must be from 0 to 10"),
        ("flag = []", "`flag` must be `true` or `false`, not an array"),
        ("part = 3", "`part` must be a table, not the integer 3"),
        ("mode = \"fulll\"", "`mode` must be one of `\"slow-start\"`, `\"full\"`"),
        (
            "mode = 1979-05-27",
            "`mode` must be one of `\"slow-start\"`, `\"full\"`, not the date 1979-05-27",
        ),
        ("share = 0.5", "`share` must be a percentage with a % sign, not the number 0.5"),
        ("steps = [1, -1]", "`steps` must be a whole number, 0 or above"),
        ("parts = [{ do = \"weit\" }]", "`do` must be one of `\"wait\"`, `\"fill\"`, `\"look\"`"),
    ] {
        let problem = read(&format!("schema = 1\n{line}")).unwrap_err();
        assert_eq!(problem.message(), message, "{line}");
        assert_eq!(problem.line_column().unwrap().0, 2, "{line}");
    }
}

#[test]
fn a_missing_key_is_named() {
    let expected = "\
error: the key `only` is missing
 --> my/load.toml:2:1
  |
2 | [part]
  | ^^^^^^
  |
  = help: for example `only = 16`";
    assert_eq!(rendered("schema = 1\n[part]"), expected);
    assert!(rendered("").starts_with("error: the key `schema` is missing\n --> my/load.toml:1:1"));
    assert!(rendered("schema = 2").starts_with("error: this file has schema 2"));
}

/// In every file of the catalog, each value can be read and replaced by its path, and nothing else changes.
#[test]
fn values_are_had_and_replaced_by_their_paths() {
    fn leaves(path: &str, value: &toml::Value, all: &mut Vec<String>) {
        match value {
            // The value alone of one that has a source.
            toml::Value::Table(table) if table.contains_key("is") && table.contains_key("from") => {
                all.push(path.to_owned());
            }
            toml::Value::Table(table) => {
                let dot = if path.is_empty() { "" } else { "." };
                table.iter().for_each(|(key, it)| leaves(&format!("{path}{dot}{key}"), it, all));
            }
            toml::Value::Array(items) => {
                let items = items.iter().enumerate();
                items.for_each(|(i, it)| leaves(&format!("{path}[{i}]"), it, all));
            }
            _ => all.push(path.to_owned()),
        }
    }
    let mut count = 0;
    for kind in Kind::ALL.into_iter().filter(|kind| kind.suffix() == "toml") {
        for (name, text) in list(kind) {
            let (document, mut paths) = (file(text), Vec::new());
            leaves("", &toml::Value::Table(text.parse().unwrap()), &mut paths);
            let every = paths.len().div_ceil(4);
            for path in paths.into_iter().step_by(every) {
                let value = document.get(&path).unwrap_or_else(|| panic!("{name}: {path}"));
                assert_eq!(&*document.set(&path, value).unwrap().text, text, "{name}: {path}");
                let changed = document.set(&path, "12.5 GB/s").unwrap();
                assert_eq!(changed.get(&path), Some("\"12.5 GB/s\""), "{name}: {path}");
                assert_eq!(&*changed.set(&path, value).unwrap().text, text, "{name}: {path}");
                count += 1;
            }
        }
    }
    assert!(count > 200, "{count}");
}

#[test]
fn a_key_that_is_not_there_is_added_to_its_table() {
    let text = "a = 1\n[b] # here\nc = { d = 2 }\ne = {}\nf.g = 3\n[[h]]\n[[h]]\ni = 4\n";
    let document = file(text);
    for (path, value) in [
        ("z", "5"),
        ("b.z", "x y"),
        ("b.c.z", "true"),
        ("b.e.z", "[1, 2]"),
        ("h[1].z", "5"),
        ("new.table.z", "5"),
        ("b.new.z", "5"),
    ] {
        let changed = document.set(path, value).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(changed.get(path).map(|it| it.trim_matches('"')), Some(value), "{changed:?}");
        assert_eq!((changed.get("h[1].i"), changed.get("b.f.g")), (Some("4"), Some("3")));
    }
    for path in ["a.z", "h[2].z", "h[0", "h[x]", "a[0]", "", "b..z", ".", "µ["] {
        assert!(document.set(path, "5").is_err(), "{path}");
        assert_eq!(document.get(path), None, "{path}");
    }
}

#[test]
fn a_syntax_error_is_at_its_place() {
    let expected = "\
error: key with no value, expected `=`
 --> my/load.toml:3:6
  |
3 | depth
  |      ^";
    assert_eq!(rendered("schema = 1\n\ndepth\n"), expected);
    assert!(rendered("schema = 1\nschema = 2").contains("duplicate key"));
    assert!(rendered("schema = 1\nname = \"a\nflag = true").contains("2:10"));
}

/// Errors that another crate finds, with one or two positions, after characters of several bytes.
#[test]
fn a_rule_of_another_crate_is_drawn_at_its_span() {
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
    // A span that is beyond the text, or cuts a character, must not panic while an error is rendered.
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
 = help: did you mean `random-read`? `iodyno catalog` lists the names; to use your own workload file, give a path that contains `/` or ends in `.toml`";
    assert_eq!(find(Kind::Workload, "random-raed").unwrap_err().to_string(), expected);
    assert!(find(Kind::Method, "random-read").is_err(), "each kind has names of its own");

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("own.toml"), "schema = 1").unwrap();
    let own = find(Kind::Workload, &path("own.toml")).unwrap();
    assert_eq!((own.name.as_str(), &*own.text), ("own", "schema = 1"));
    assert_eq!(own.origin, path("own.toml"));

    let rendered = |path: &str| find(Kind::Workload, path).unwrap_err().to_string();
    let missing = "\
error: there is no such file
--> no/where.toml
 = help: give the path of a workload file, or a name that `iodyno catalog` lists";
    assert_eq!(rendered("no/where.toml"), missing);
    assert!(rendered("missing.toml").starts_with("error: there is no such file"));
    assert!(rendered(&format!("{}/", path(""))).starts_with("error: this is a folder, not a file"));

    fs::write(path("own.csv"), "figure").unwrap();
    assert_eq!(find(Kind::Published, &path("own.csv")).unwrap().name, "own");
    assert!(
        find(Kind::Published, "own.toml").is_err_and(|p| p.message().contains("no publication"))
    );

    fs::write(path("latin.toml"), b"schema = 1\nabout = \"caf\xE9\"").unwrap();
    let latin = rendered(&path("latin.toml"));
    assert!(
        latin
            .starts_with("error: the file is not UTF-8 text: byte 23 (line 2) is not the start of a valid character"),
        "{latin}"
    );

    let mut large = fs::File::create(path("large.toml")).unwrap();
    large.write_all(&vec![b'#'; MAX_FILE_BYTES as usize]).unwrap();
    assert!(find(Kind::Workload, &path("large.toml")).is_ok(), "exactly the limit");
    large.write_all(b"#").unwrap();
    let large = rendered(&path("large.toml"));
    assert!(large.starts_with("error: the file is larger than the limit of 1 MiB"));
    // Without an end at all.
    assert!(rendered("/dev/zero").starts_with("error: this is a device, not a file"));
}

/// The embedded names are those of the files in the folder, sorted, and every name can be found.
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
