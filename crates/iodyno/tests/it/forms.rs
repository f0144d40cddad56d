//! The other output forms: tables, CSV, HdrHistogram text, fio's JSON, all with the same numbers;
//! the catalog, completions and man pages; pipes whose reader has exited; colours; the location of
//! the notebook.

use crate::place::{Place, Running, SHORT, cells, names, number, whole};
use iodyno_units::human;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Stdio;

/// Rows of a CSV text by the names of their columns. No field of these tests is quoted.
fn rows(csv: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = lines.next().unwrap();
    lines
        .map(|fields| {
            assert_eq!(fields.len(), heads.len());
            heads.iter().copied().zip(fields).collect()
        })
        .collect()
}

#[track_caller]
fn is_same(field: &str, value: &Value) {
    match value {
        Value::Null => assert_eq!(field, ""),
        Value::String(text) => assert_eq!(field, text),
        // As printed, to the last digit.
        _ => assert_eq!(field.parse::<f64>().unwrap().to_bits(), number(value).to_bits()),
    }
}

#[test]
fn every_form_has_the_same_numbers() {
    let place = Place::new();
    let output =
        place.iodyno("run db-oltp --on ram:8MiB --time 300ms --ramp 0s --interval 50ms -q");
    let table = &output.succeeds().stdout;
    assert_eq!(output.stderr, "");
    let document = place.iodyno("show last --json --series").succeeds().json();
    let export = |form: &str| {
        let output = place.iodyno(&format!("export last --format {form}"));
        output.succeeds();
        output.stdout
    };
    let cell = &cells(&document)[0];

    // `run` prints the same as `show`, and its figures are rounded, not others.
    assert_eq!(&place.iodyno("show last").stdout, table);
    for kind in ["read", "write"] {
        let (figures, latency) = (&cell[kind], &cell[kind]["latency_ns"]);
        for text in [
            human::count(number(&figures["iops"])),
            human::throughput(number(&figures["bytes_per_s"])),
            human::time_ns(number(&latency["mean"])),
            human::time_ns(number(&latency["max"])),
        ] {
            // Numbers and units stand in columns of their own.
            let row = table.lines().find(|line| line.contains(&format!(" {kind} "))).unwrap();
            let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(row.contains(&text), "`{text}` is missing: {row}");
        }
    }
    assert!(table.contains("T4Q32") && table.contains("kept in"));

    let csv = export("csv");
    let rows_of_csv = rows(&csv);
    assert_eq!(rows_of_csv.len(), 2);
    for row in &rows_of_csv {
        let kind = &cell[row["kind"]];
        for key in ["ops", "iops", "bytes", "bytes_per_s", "errors"] {
            is_same(row[key], &kind[key]);
        }
        for (key, value) in kind["latency_ns"].as_object().unwrap() {
            if key == "within" {
                for (of, within) in value.as_object().unwrap() {
                    is_same(row[format!("latency_{of}_low_ns").as_str()], &within["low"]);
                    is_same(row[format!("latency_{of}_high_ns").as_str()], &within["high"]);
                }
                continue;
            }
            is_same(row[format!("latency_{key}_ns").as_str()], value);
        }
        let of_cell =
            ["target", "engine", "threads", "depth", "block_bytes", "seconds", "oio_mean", "level"];
        for key in of_cell {
            is_same(row[key], &cell[key]);
        }
        is_same(row["run"], &document["run"]["id"]);
    }

    // The series by interval adds up, in both forms.
    let csv = export("csv-series");
    let series = cell["series"].as_array().unwrap();
    assert_eq!(series.len(), 6);
    for kind in ["read", "write"] {
        let ops: Vec<u64> = rows(&csv)
            .iter()
            .filter(|row| row["kind"] == kind)
            .map(|row| row["ops"].parse().unwrap())
            .collect();
        let in_json: Vec<u64> = series.iter().map(|i| whole(&i[kind]["ops"])).collect();
        assert_eq!(ops, in_json);
        assert_eq!(ops.iter().sum::<u64>(), whole(&cell[kind]["ops"]));
    }

    // fio has one job a cell; its bandwidth is in KiB/s and in bytes.
    let fio: Value = serde_json::from_str(&export("fio-json")).unwrap();
    assert_eq!(fio["jobs"].as_array().unwrap().len(), 1);
    for kind in ["read", "write"] {
        let (fio, ours) = (&fio["jobs"][0][kind], &cell[kind]);
        assert_eq!(fio["iops"], ours["iops"]);
        assert_eq!(fio["total_ios"], ours["ops"]);
        assert_eq!(fio["io_bytes"], ours["bytes"]);
        assert!((number(&fio["bw_bytes"]) - number(&ours["bytes_per_s"])).abs() <= 1.0);
        assert_eq!(fio["lat_ns"]["max"], ours["latency_ns"]["max"]);
        assert_eq!(fio["clat_ns"]["percentile"]["50.000000"], ours["latency_ns"]["p50"]);
    }

    // sysbench's text has the same figures, rounded.
    let sysbench = export("sysbench");
    for (line, figure) in [
        ("reads/s:", &cell["read"]["iops"]),
        ("writes/s:", &cell["write"]["iops"]),
        ("total time:", &cell["seconds"]),
    ] {
        let shown = sysbench.lines().find_map(|l| l.trim().strip_prefix(line)).unwrap().trim();
        let shown: f64 = shown.trim_end_matches('s').parse().unwrap();
        let ours = figure.as_f64().unwrap();
        assert!((shown - ours).abs() <= 0.005 + ours.abs() * 1e-9, "{line} {shown} {ours}");
    }
    assert!(!sysbench.contains("fairness"), "events of each of several threads are not kept");

    // HdrHistogram's text: one table a kind, which ends with all samples and the maximum in µs.
    let hgrm = export("hgrm");
    for kind in ["read", "write"] {
        let (_, mine) = hgrm.split_once(&format!(": {kind} service time")).unwrap();
        let mine = mine.split("\n\n#").next().unwrap().split("# iodyno").next().unwrap();
        let lines: Vec<Vec<f64>> = mine
            .lines()
            .map(|line| line.split_whitespace().filter_map(|w| w.parse().ok()).collect())
            .filter(|numbers: &Vec<f64>| numbers.len() >= 3)
            .collect();
        assert!(lines.len() > 10 && lines.is_sorted_by_key(|line| (line[1], line[2])), "{mine}");
        let (last, ours) = (lines.last().unwrap(), &cell[kind]);
        assert_eq!((last[1], last[2] as u64), (1.0, whole(&ours["ops"])));
        assert_eq!((last[0] * 1e3).round() as u64, whole(&ours["latency_ns"]["max"]));
    }
}

/// `| head -1`, a closed terminal, a full disk: a measurement does not end because its output can't
/// be written, and nothing panics.
#[test]
fn a_closed_output_is_no_error() {
    let place = Place::new();
    let gone = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    let run = format!("run four-corners --on scratch:8MiB {SHORT}");
    for words in [&run, "ls", "ls --json", "catalog", "catalog oltp1", "--help", "run --help"] {
        let mut command = place.command(words);
        let output = Running::of(command.stdout(gone()).stderr(Stdio::piped())).finish();
        output.succeeds();
    }
    for words in [&run, "run nosuch", "show last --json --nosuch", "run random-read --on nowhere"] {
        let mut command = place.command(words);
        let output = Running::of(command.stdout(Stdio::piped()).stderr(gone())).finish();
        output.exits(if words.starts_with(&run) { 0 } else { 2 });
    }
    let list = place.iodyno("ls --json").succeeds().json();
    let finished = |run: &Value| run["status"] == "finished";
    assert_eq!(list["runs"].as_array().unwrap().iter().filter(|run| finished(run)).count(), 2);
    // Failed output is reported.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = place.command("ls --json");
    let output = Running::of(command.stdout(full).stderr(Stdio::piped())).finish();
    output.exits(4).says(&["standard output", "No space left"]);
}

/// The promised workloads: each can be printed, runs, and can be saved and changed.
#[test]
fn the_catalog_can_be_read_run_and_copied() {
    let place = Place::new();
    let catalog = place.iodyno("catalog --json").succeeds().json();
    let text = place.iodyno("catalog");
    let entries = catalog["entries"].as_array().unwrap();
    // By kind, then by name; a name is of one kind only.
    let keys: Vec<(usize, &str)> = entries
        .iter()
        .map(|e| {
            let kinds = ["workload", "method", "device", "system", "study", "price list"];
            let kind = kinds.iter().position(|&k| e["kind"] == k).unwrap();
            (kind, e["name"].as_str().unwrap())
        })
        .collect();
    assert!(keys.is_sorted());
    let mut names: Vec<&str> = keys.iter().map(|k| k.1).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|w| w[0] != w[1]));
    for name in [
        "random-read",
        "random-write",
        "seq-read",
        "seq-write",
        "oltp1",
        "oltp2",
        "oltp3",
        "oltp-67-33",
        "db-oltp",
        "log-write",
        "log-80-20",
        "four-corners",
    ] {
        assert!(names.contains(&name), "{name}");
    }
    for entry in entries {
        let name = entry["name"].as_str().unwrap();
        assert!(text.succeeds().stdout.contains(entry["about"].as_str().unwrap()), "{name}");
        let one = place.iodyno(&format!("catalog {name} --json")).succeeds().json();
        assert_eq!((&one["name"], &one["about"]), (&entry["name"], &entry["about"]));
        // The text is a file that gives the same workload when it is named by its path.
        let output = place.iodyno(&format!("catalog {name}"));
        assert!(output.succeeds().stdout.contains(one["text"].as_str().unwrap().trim_end()));
        place.write(&format!("my-{name}.toml"), &output.stdout);
        if entry["kind"] == "device" {
            let check = |what: &str| place.iodyno(&format!("check model:{what}"));
            check(name).succeeds();
            check(&format!("my-{name}.toml")).succeeds();
        }
        if entry["kind"] != "workload" {
            continue;
        }
        let words = "--on null:1GiB --ops 300 --ramp 0s --no-notebook";
        let by_name = place.document(&format!("run {name} {words}"));
        let by_path = place.document(&format!("run my-{name}.toml {words}"));
        assert_eq!(by_name["run"]["name"], name);
        assert_eq!(by_path["run"]["name"], format!("my-{name}"));
        for (a, b) in cells(&by_name).iter().zip(cells(&by_path)) {
            for kind in ["read", "write", "flush"] {
                assert_eq!(a[kind]["ops"], b[kind]["ops"], "the same stream: {name}");
            }
            assert_eq!(a["blocks"], b["blocks"]);
        }
    }
    // A near name of any kind is suggested.
    place.iodyno("catalog exflsh-400g").fails(2, &["nothing named", "did you mean `exflash-400g`"]);
    place.iodyno("catalog oltp4").fails(2, &["nothing named `oltp4`", "did you mean `oltp"]);
}

#[test]
fn man_pages_come_from_the_definition_of_the_command_line() {
    let place = Place::new();
    place.iodyno("man pages/here").succeeds();
    let pages = names(&place.path("pages/here"));
    for command in
        ["run", "check", "ls", "show", "export", "study", "catalog", "completions", "man"]
    {
        assert!(pages.contains(&format!("iodyno-{command}.1")), "{pages:?}");
    }
    let page = std::fs::read_to_string(place.path("pages/here/iodyno-run.1")).unwrap();
    // In a man page a minus sign is written `\-`.
    assert!(page.contains("destroy") && page.contains(".TH"), "{page}");
    let page = std::fs::read_to_string(place.path("pages/here/iodyno.1")).unwrap();
    assert!(page.contains("130 interrupted"), "{page}");
    place.write("a-file", "");
    place.iodyno("man a-file/below").fails(2, &["a-file/below"]);
}

/// Every command and flag that the manual promises.
#[test]
fn the_help_lists_commands_and_flags() {
    let place = Place::new();
    let help = place.iodyno("--help").succeeds().stdout.clone();
    for word in [
        "run",
        "check",
        "ls",
        "show",
        "export",
        "study",
        "catalog",
        "--notebook",
        "IODYNO_NOTEBOOK",
    ] {
        assert!(help.contains(word), "{word}");
    }
    for code in
        ["0 done", "1 a fault", "2 bad input", "3 refused", "4 the target", "5 the notebook", "130"]
    {
        assert!(help.contains(code), "{code}");
    }
    let help = place.iodyno("run --help").succeeds().stdout.clone();
    for flag in [
        "--on",
        "--threads",
        "--depth",
        "--block",
        "--time",
        "--ramp",
        "--ops",
        "--bytes",
        "--rate",
        "--seed",
        "--engine",
        "--json",
        "--quiet",
        "--read-only",
        "--destroy",
        "--max-errors",
        "--content",
        "--active",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
    // The short help is short: the exit codes are in the long one.
    let short = place.iodyno("-h").succeeds().stdout.clone();
    assert!(!short.contains("2 bad input") && short.contains("--help"), "{short}");
    let version = place.iodyno("--version").succeeds().stdout.clone();
    assert_eq!(version, format!("iodyno {}\n", env!("CARGO_PKG_VERSION")));
    place.iodyno("").exits(2);
}

/// An empty variable is as none: the notebook is the default one. An empty flag is a mistake.
#[test]
fn an_empty_name_of_a_notebook() {
    let place = Place::new();
    let of_place = |words: &str| {
        let mut command = place.command(words);
        command.env("IODYNO_NOTEBOOK", "").env("XDG_DATA_HOME", place.path("data"));
        Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped())).finish()
    };
    of_place("run random-read --on null: --ops 10 --ramp 0s -q").succeeds();
    assert!(of_place("ls").succeeds().stdout.contains("random-read"));
    assert!(place.path("data/iodyno/notebook.sqlite").exists());
    place.iodyno("ls --notebook=").fails(2, &["--notebook needs the name of a file"]);
    // The remedy for one that can't be written includes none at all.
    place.write("a-file", "");
    let run = "run random-read --on null: --ops 10 --ramp 0s -q";
    place.iodyno(&format!("{run} --notebook a-file/n")).fails(5, &["--no-notebook"]);
}

/// The series is a part of the document: `--series` alone prints it.
#[test]
fn the_series_is_json() {
    let place = Place::new();
    let run =
        place.iodyno("run random-read --on null: --ops 10 --ramp 0s -q --series").succeeds().json();
    assert!(run["cells"][0]["series"].is_object() || run["cells"][0]["series"].is_array(), "{run}");
    let shown = place.iodyno("show last --series").succeeds().json();
    assert_eq!(run["cells"][0]["series"], shown["cells"][0]["series"]);
}

#[test]
fn colours_only_where_they_are_enabled() {
    let place = Place::new();
    let words = "run random-read --on null: --ops 100 --ramp 0s";
    let is_painted = |words: &str| place.iodyno(words).succeeds().stdout.contains('\u{1b}');
    assert!(!is_painted(words), "a pipe");
    assert!(is_painted(&format!("{words} --color always")));
    assert!(is_painted("ls --color always") && !is_painted("ls --color never"));
    assert!(!is_painted("show last --json --color always"), "a document is never painted");
    let output = place.iodyno("run nosuch --color always");
    assert!(output.exits(2).stderr.contains('\u{1b}'));
    let output = place.iodyno("run nosuch");
    assert!(!output.exits(2).stderr.contains('\u{1b}'));
    // A terminal without UTF-8 gets no symbols that it can't display.
    let mut command = place.command("show last");
    let running = Running::of(command.env("LC_ALL", "C").stdout(Stdio::piped()));
    assert!(running.finish().succeeds().stdout.is_ascii());
}

#[test]
fn the_notebook_is_at_the_given_path() {
    let place = Place::new();
    let run = "run random-read --on null: --ops 100 --ramp 0s -q";
    let with = |words: &str, variables: &[(&str, &str)]| {
        let mut command = place.command(words);
        command.env_remove("IODYNO_NOTEBOOK").envs(variables.iter().copied());
        Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped())).finish()
    };
    let (home, data) = (place.path("home"), place.path("data"));
    let (home, data) = (home.to_str().unwrap(), data.to_str().unwrap());
    // Nothing was kept yet: that is no error, and reading creates no file.
    assert!(with("ls", &[("HOME", home)]).succeeds().stdout.contains("no runs yet"));
    assert!(place.names().is_empty());
    with("show last", &[("HOME", home)]).fails(2, &["no notebook yet", "iodyno run four-corners"]);
    with(run, &[("HOME", home)]).succeeds();
    assert!(place.path("home/.local/share/iodyno/notebook.sqlite").is_file());
    with(run, &[("HOME", home), ("XDG_DATA_HOME", data)]).succeeds();
    assert!(place.path("data/iodyno/notebook.sqlite").is_file());
    with(run, &[]).fails(5, &["XDG_DATA_HOME", "HOME", "--notebook"]);
    with(&format!("{run} --notebook deep/down/own"), &[("HOME", home)]).succeeds();
    assert!(place.path("deep/down/own").is_file());
    for file in ["home/.local/share/iodyno/notebook.sqlite", "data/iodyno/notebook.sqlite"] {
        let list = with(&format!("ls --json --notebook {file}"), &[]).succeeds().json();
        assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{file}");
    }
    // The flag has precedence over the variable.
    place.iodyno("ls --json --notebook elsewhere").fails(5, &["no notebook at `elsewhere`"]);
}
