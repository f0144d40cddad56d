//! Invalid input: the error, its position, and its remedy; exit code 2, nothing on standard output,
//! and nothing measured, created or stored.

use crate::place::{Place, SHORT};

/// A valid file except for a test's change.
const GOOD: &str = "schema = 1\nabout = \"a test\"\nblock = \"4KiB\"\ndepth = 4\n\n[mix]\nread = 70\nwrite = 30\n\n[all]\naddresses = \"uniform\"\n\n[limits]\nops = 100\n";

/// Asserts that the error shows the position: file, line and column, the line itself, and a caret below it.
#[track_caller]
fn is_drawn(place: &Place, text: &str, at: &str, words: &[&str]) {
    place.write("w.toml", text);
    let output = place.iodyno("run ./w.toml --on scratch:64MiB");
    output.fails(2, words);
    output.says(&[&format!("--> ./w.toml:{at}\n"), " | "]);
    let line: usize = at.split(':').next().unwrap().parse().unwrap();
    let source = text.lines().nth(line - 1).unwrap();
    output.says(&[source.trim()]);
    let column: usize = at.split(':').nth(1).unwrap().parse().unwrap();
    let (_, drawn) = output.stderr.split_once(&format!("| {source}\n")).unwrap();
    let carets = drawn.lines().next().unwrap();
    let start = carets.find('|').unwrap() + 2;
    assert_eq!(carets.find('^'), Some(start + column - 1), "{}", output.stderr);
    assert!(!place.notebook().exists(), "nothing was kept");
}

#[test]
fn errors_of_a_workload_file_are_reported_at_their_position() {
    let place = Place::new();
    place.write("w.toml", GOOD);
    place.iodyno("run ./w.toml --on null: --no-notebook -q").succeeds();
    for (from, to, at, words) in [
        // Unknown keys, with the nearest known one.
        ("depth = 4", "deph = 4", "4:1", &["deph", "depth"][..]),
        ("write = 30", "writes = 30", "8:1", &["writes", "write"]),
        ("[limits]", "[limit]", "13:2", &["limit"]),
        // Wrong units and kinds.
        ("\"4KiB\"", "\"4KiX\"", "3:9", &["4KiX", "KiB"]),
        ("\"4KiB\"", "\"4s\"", "3:9", &["4s"]),
        ("\"4KiB\"", "true", "3:9", &["size"]),
        ("ops = 100", "time = \"5 lightyears\"", "14:8", &["lightyears", "ns, us, ms, s"]),
        ("ops = 100", "time = 5", "14:8", &["10s"]),
        ("depth = 4", "depth = \"deep\"", "4:9", &["whole number"]),
        ("depth = 4", "depth = -4", "4:9", &["-4"]),
        ("depth = 4", "depth = 0", "4:9", &["1 to 65536"]),
        ("\"uniform\"", "\"unifrom\"", "11:13", &["unifrom", "uniform"]),
        ("schema = 1", "schema = 2", "1:10", &["2"]),
        // Exclusive keys.
        ("[limits]", "[trim]\nblock = \"8KiB\"\n[limits]", "13:1", &["[trim]", "no effect"]),
        ("\"uniform\"", "\"recently-trimmed\"", "11:13", &["recently-trimmed"]),
        ("\"4KiB\"", "\"4KiB\"\nalign = \"8KiB\"", "3:9", &["alignment", "align = \"4KiB\""]),
        ("\"4KiB\"", "\"1000\"", "3:9", &["multiple of 512 B"]),
        ("depth = 4", "active = \"50%..10%\"", "4:10", &["active range is empty"]),
        (
            "\"uniform\"",
            "{ pattern = \"hot-spots\", spots = [{ share = 1, range = \"90%\" }] }",
            "11:46",
            &["90%", "100%"],
        ),
        (
            "[limits]",
            "[arrivals]\nkind = \"open\"\nrate = 5\nthink_time = \"1s\"\n[limits]",
            "16:14",
            &["think"],
        ),
    ] {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD);
        is_drawn(&place, &text, at, words);
    }
    // Not TOML at all.
    is_drawn(&place, "schema = 1\nblock = = 4\n", "2:9", &[]);
    is_drawn(&place, "schema = 1\nblock = \"4KiB\n", "2:14", &[]);
    // A duplicate key.
    let twice = GOOD.replacen("depth = 4", "depth = 4\ndepth = 8", 1);
    is_drawn(&place, &twice, "5:1", &["depth"]);
}

#[test]
fn errors_of_a_group_are_reported_at_their_position() {
    let place = Place::new();
    let group = |members: &str| format!("schema = 1\ngroup = [{members}]\n");
    let unknown = &["no workload named `random-raed`", "iodyno catalog"][..];
    is_drawn(&place, &group("\"random-read\", \"random-raed\""), "2:25", unknown);
    is_drawn(&place, &group(""), "2:9", &["members"]);
    is_drawn(&place, &group("\"seq-read\", \"seq-read\""), "2:22", &["already"]);
    is_drawn(&place, &group("\"four-corners\""), "2:10", &["four-corners"]);
    is_drawn(&place, &(group("\"seq-read\"") + "depth = 4\n"), "3:9", &["depth", "group"]);
}

#[test]
fn other_files_are_not_taken_for_workload_files() {
    let place = Place::new();
    std::fs::create_dir(place.path("folder.toml")).unwrap();
    place.write("huge.toml", vec![b'#'; (1 << 20) + 1]);
    place.write("binary.toml", [b'a', b'\n', 0xFF, 0xFE]);
    place.write("empty.toml", "");
    for (file, words) in [
        ("missing.toml", &["no such file", "iodyno catalog"][..]),
        ("./missing", &["no such file"]),
        ("folder.toml", &["folder"]),
        ("huge.toml", &["larger than the limit of 1 MiB"]),
        ("binary.toml", &["UTF-8", "line 2"]),
        ("empty.toml", &["schema"]),
    ] {
        let output = place.iodyno(&format!("run {file} --on scratch:64MiB"));
        output.fails(2, words).says(&[file, "-->"]);
    }
    place
        .iodyno("run nosuch")
        .fails(2, &["no workload or method named `nosuch`", "iodyno catalog"]);
    place.iodyno("run random-raed").fails(2, &["did you mean `random-read`"]);
    assert!(!place.notebook().exists());
}

#[test]
fn invalid_flags_are_refused() {
    let place = Place::new();
    for (flags, words) in [
        ("--depth 0", &["--depth", "from 1 to 65536"][..]),
        ("--depth=-1", &["--depth", "from 1 to 65536"]),
        ("--depth deep", &["--depth", "deep"]),
        ("--threads 1025", &["--threads", "from 1 to 1024"]),
        ("--threads=-1", &["--threads", "from 1 to 1024"]),
        ("--interval 500us", &["--interval must be from 1 ms", "500 µs"]),
        ("--time 1000000d", &["too long: at most 365d"]),
        ("--block 4KiX", &["--block", "4KiX"]),
        ("--block 5000", &["multiple of 512 B"]),
        ("--block 128MiB", &["64 MiB"]),
        ("--block 4KiB:60,4KiB:40", &["4 KiB", "already"]),
        ("--time 0s", &["time must be above 0"]),
        ("--time 10", &["--time", "no unit of time", "5s"]),
        ("--time 366d", &["too long: at most 365d"]),
        ("--ramp 1x", &["--ramp", "1x"]),
        ("--ops 0", &["0 operations"]),
        ("--rate 0", &["--rate", "50k/s"]),
        ("--rate fast", &["--rate", "fast"]),
        ("--constant", &["--rate"]),
        ("--active 50%..10%", &["active"]),
        ("--content random", &["--content", "random"]),
        ("--engine iouring", &["iouring", "uring, libaio, psync or mmap"]),
        ("--seed -1", &["-1"]),
        ("--nosuch", &["--nosuch"]),
        ("--engine psync --depth 8", &["one I/O at a time", "--depth 1 --threads 8", "libaio"]),
        ("--engine psync --threads 2", &["--depth 1 --threads 64"]),
        ("--engine psync --threads 64", &["`--depth 1` with at most 1024 --threads", "libaio"]),
        ("--engine mmap --depth 2", &["mmap", "--depth 1 --threads 2"]),
        ("--engine ram", &["ram", "scratch:64MiB", "--engine"]),
        ("--active 1GiB..2GiB", &["scratch:64MiB", "2 GiB", "64 MiB"]),
        ("--active 0..2KiB", &["active range"]),
    ] {
        let output = place.iodyno(&format!("run random-read --on scratch:64MiB --json {flags}"));
        output.fails(2, words);
    }
    for words in
        ["run", "run random-read four-corners", "export last", "export last --format xml", "lst"]
    {
        let output = place.iodyno(words);
        output.exits(2);
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    for (target, engine) in [("null:", "uring"), ("ram:1MiB", "psync"), ("null:", "ram")] {
        let output =
            place.iodyno(&format!("run random-read --on {target} --engine {engine} --depth 1"));
        output.fails(2, &[engine, target]);
    }
    // All errors are reported before anything is laid out or kept.
    assert!(!place.notebook().exists());
    assert!(place.names().is_empty());
}

#[test]
fn invalid_targets_are_refused() {
    let place = Place::new();
    place.write("data", vec![1; 1 << 20]);
    std::os::unix::fs::symlink("data", place.path("link")).unwrap();
    std::fs::hard_link(place.path("data"), place.path("twin")).unwrap();
    for (targets, words) in [
        ("--on nul:", &["nul:", "null:"][..]),
        ("--on ram:", &["ram:4GiB"]),
        ("--on ram:lots", &["lots"]),
        ("--on ram:1000", &["1KiB"]),
        ("--on null:?size=4KiB", &["use null:4KiB"]),
        ("--on pcie:x", &["this version has no `pcie:` targets"]),
        ("--on nbd:///disk", &["names no host", "nbd://host/export"]),
        ("--on live:exflash-401g", &["exflash-401g", "exflash-400g"]),
        ("--on data?sise=1MiB", &["sise", "size=8GiB"]),
        ("--on missing", &["missing", "not found", "missing?size=8GiB"]),
        ("--on missing/below?size=1MiB", &["missing"]),
        // One target under several names.
        ("--on data --on ./data", &["same target", "--threads"]),
        ("--on data --on link", &["same target"]),
        ("--on data --on twin", &["same target"]),
        ("--on new?size=1MiB --on ./new?size=1MiB", &["same target"]),
        // More than its size.
        ("--on data --active 2MiB", &["data", "2 MiB", "1 MiB"]),
    ] {
        let output = place.iodyno(&format!("run random-read {targets} {SHORT} --json"));
        output.fails(2, words);
    }
    assert!(!place.notebook().exists());
    assert_eq!(place.names(), ["data", "link", "twin"]);
    // `ram:` and `null:` targets may be repeated.
    place
        .iodyno("run random-read --on ram:1MiB --on ram:1MiB --on null: --on null: --ops 9 -q")
        .succeeds();
}

/// A run is refused if its results could not be stored: nothing is measured, created or destroyed.
#[test]
fn a_notebook_that_can_t_be_used_ends_the_run_before_it_begins() {
    let place = Place::new();
    let text = place.write("text", "these are the only copy of somebody's notes\n");
    let data = place.write("data", vec![7; 1 << 20]);
    std::fs::create_dir(place.path("folder")).unwrap();
    let foreign = sqlite_file();
    place.write("foreign", &foreign);
    // As after a failed disk: it has the file type of a notebook, and its first page is empty.
    let damaged = [&foreign[..100], &[0; 4096 - 100][..]].concat();
    place.write("damaged", &damaged);
    for (notebook, words) in [
        ("text", &["text", "not an iodyno notebook", "--notebook"][..]),
        ("foreign", &["foreign", "another program", "--notebook"]),
        ("damaged", &["damaged"]),
        ("folder", &["folder", "directory"]),
        ("text/below", &["text/below", "--notebook"]),
        ("/proc/nowhere/notebook", &["/proc/nowhere/notebook"]),
    ] {
        let words_of_run =
            format!("run random-write --on new?size=64MiB --on data --destroy data {SHORT}");
        let output = place.iodyno(&format!("{words_of_run} --json -q --notebook {notebook}"));
        output.fails(5, words);
        for reader in ["ls", "show last", "export last --format csv"] {
            place.iodyno(&format!("{reader} --notebook {notebook}")).exits(5);
        }
    }
    assert_eq!(std::fs::read(text).unwrap(), b"these are the only copy of somebody's notes\n");
    assert!(std::fs::read(place.path("foreign")).unwrap() == foreign);
    assert!(std::fs::read(place.path("damaged")).unwrap() == damaged);
    assert!(std::fs::read(data).unwrap() == vec![7; 1 << 20], "nothing was written");
    assert_eq!(place.names(), ["damaged", "data", "folder", "foreign", "text"]);
}

/// An SQLite file without tables that another program made: one page of 4096 bytes, in the format
/// of <https://sqlite.org/fileformat2.html>.
fn sqlite_file() -> Vec<u8> {
    let mut file = vec![0; 4096];
    file[..16].copy_from_slice(b"SQLite format 3\0");
    file[16..24].copy_from_slice(&[0x10, 0, 1, 1, 0, 64, 32, 32]);
    // Changes so far, pages, schema format, text encoding, the application, and the change at which
    // the number of pages was right.
    for (at, number) in [(24, 1), (28, 1), (44, 4), (56, 1), (68, 0x1234_5678), (92, 1_u32)] {
        file[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
    // A leaf without cells, whose content begins at the end of the page.
    file[100] = 0x0D;
    file[105] = 0x10;
    file
}
