//! Terminal text of hand-made runs.

use crate::samples;

use iodyno_measure::{Cell, Histogram, Interval, Level, MessageLog, Verdict};
use iodyno_notebook::{EarlierNotes, Notebook, Outcome, RunHead, WorkloadRecord};
use iodyno_page::terminal::Style;
use iodyno_report::json;
use iodyno_report::terminal::{Before, Detail, Progress, list, progress_line, show, show_after};
use iodyno_units::{OpKind, human};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use unicode_width::UnicodeWidthStr as _;

const fn style(width: usize) -> Style {
    Style { color: false, width, unicode: true }
}

#[test]
fn runs() {
    for (name, run) in samples::all() {
        // A narrow terminal, a wide one, and a pipe.
        for (width, at) in [(80, "80"), (120, "120"), (100, "piped")] {
            let shown = show(&run, Detail::default(), style(width));
            if at != "piped" || ["four_corners", "many_targets", "sweep_of_a_mix"].contains(&name) {
                insta::assert_snapshot!(format!("show_{name}_{at}"), shown);
            }
        }
    }
    let all = Detail { notes: true, all: true };
    insta::assert_snapshot!(
        "show_many_targets_all",
        show(&samples::many_targets(), all, style(100))
    );
    let ascii = Style { color: false, width: 100, unicode: false };
    insta::assert_snapshot!(
        "show_open_loop_ascii",
        show(&samples::open_loop(), Detail::default(), ascii)
    );
    let color = Style { color: true, width: 140, unicode: true };
    let painted =
        show(&samples::several_targets(), Detail::default(), color).replace('\u{1b}', "ESC");
    insta::assert_snapshot!("show_several_targets_color", painted);
}

#[test]
fn lists() {
    let runs: Vec<_> = samples::all().iter().map(|(_, run)| samples::listed(run)).collect();
    for width in [80, 120] {
        insta::assert_snapshot!(format!("list_{width}"), list(&runs, style(width)));
    }
    insta::assert_snapshot!(list(&[], style(80)), @"no runs yet: `iodyno run four-corners` makes one");
}

/// For any run and terminal width, no line is too long, no character moves the cursor, and ASCII mode prints only
/// ASCII.
#[test]
fn nothing_leaves_its_place() {
    for (name, run) in samples::all() {
        for width in [40, 47, 61, 80, 100, 137, 200] {
            for unicode in [true, false] {
                let style = Style { color: false, width, unicode };
                let text =
                    show(&run, Detail::default(), style) + &list(&[samples::listed(&run)], style);
                for line in text.lines() {
                    let is_free = line.starts_with("kept in ");
                    assert!(is_free || line.width() <= width, "{name} at {width}: {line}");
                    assert_eq!(line, line.trim_end(), "{name} at {width}");
                }
                assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{name}: {text:?}");
                assert!(!text.contains(['\u{202e}', '\u{200b}']), "{name}: {text:?}");
                assert!(unicode || text.is_ascii(), "{name}: {text}");
            }
        }
    }
}

/// Column headers of the tables in a text, and whether each cell has its outstanding I/Os and its sparkline.
fn shown_columns(text: &str) -> BTreeSet<String> {
    let is_course = |c: char| ('▁'..='█').contains(&c);
    let mut shown = BTreeSet::new();
    for line in text.lines() {
        let of = if line.contains("IOPS  ") && line.contains("mean") {
            "figures"
        } else if line.starts_with("95 % intervals  ") {
            "intervals"
        } else if line.contains(" to ") && line.contains("IOPS to ") {
            "chart"
        } else {
            if line.contains("OIO ") {
                shown.insert("figures OIO".to_owned());
                shown.extend(line.ends_with(is_course).then(|| "figures over".to_owned()));
            }
            continue;
        };
        shown.extend(line.split_whitespace().map(|head| format!("{of} {head}")));
    }
    shown
}

/// A column that is shown on a terminal is also shown on any wider one, in every layout.
#[test]
fn more_width_never_shows_fewer_columns() {
    let mut seen = BTreeSet::new();
    for (name, run) in samples::all() {
        let mut before = BTreeSet::new();
        for width in (40..=200).step_by(3) {
            let mut now = shown_columns(&show(&run, Detail::default(), style(width)));
            // Heads of one word each; the wide form alone has one over its last column.
            now.remove("figures time");
            let lost: Vec<_> = before.difference(&now).collect();
            assert!(lost.is_empty(), "{name}: {lost:?} at {} and not at {width}", width - 3);
            before = now;
        }
        seen.extend(before);
    }
    for column in ["figures OIO", "figures over", "figures p99.99", "intervals p99", "chart IOPS"] {
        assert!(seen.contains(column), "{column} of {seen:?}");
    }
}

/// The counts of the notes' codes, plus the notes given in words, add up to all notes. Warnings and worse are always
/// given in words.
#[test]
fn the_counts_of_codes_add_up() {
    let counted = |codes: &str| -> usize {
        let counts = codes.split(", ").map(|code| match code.split_once(" ×") {
            Some((_, count)) => count.parse().unwrap(),
            None => 1,
        });
        counts.sum()
    };
    let (mut of_codes, mut of_words) = (0, 0);
    for (name, run) in samples::all() {
        let text = show(&run, Detail::default(), style(2000));
        let is_code = |word: &str| word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let verdicts = run.cells.iter().flat_map(|cell| &cell.verdicts);
        let notes = verdicts.filter(|v| v.level == Level::Note).count();
        let in_words = text.lines().filter(|line| {
            let code = line.strip_prefix("· ").and_then(|line| line.split_once(':'));
            code.is_some_and(|(code, _)| is_code(code))
        });
        let in_words = in_words.count();
        let codes = text.lines().find_map(|line| line.strip_prefix("· notes: "));
        let in_codes = codes.map_or(0, |codes| counted(codes.split(" · ").next().unwrap()));
        assert_eq!(in_codes + in_words, notes, "{name}: {text}");
        of_codes += in_codes;
        of_words += in_words;
        // In words, no note is hidden behind a code.
        let all = show(&run, Detail { notes: true, all: false }, style(2000));
        assert!(!all.contains("--notes"), "{name}: {all}");
        for verdict in run.cells.iter().flat_map(|c| &c.verdicts).filter(|v| v.level == Level::Note)
        {
            assert!(all.contains(&format!("· {}: ", verdict.code)), "{name}: {all}");
        }
        // Warnings and worse are in words without any flag.
        for verdict in run.cells.iter().flat_map(|c| &c.verdicts).filter(|v| v.level > Level::Note)
        {
            assert!(text.contains(&format!("{}: ", verdict.code)), "{name}: {text}");
        }
    }
    assert!(of_codes > 40 && of_words >= 2, "{of_codes} {of_words}");
}

/// Points with overlapping intervals are reported as a tie. Without a latency ceiling, the highest rate is not called
/// the best.
#[test]
fn a_tie_is_called_a_tie() {
    let text = show(&samples::sweep_of_a_mix(), Detail::default(), style(200));
    assert!(
        text.contains("a tie under p99 ≤ 1.00 ms of reads and writes together: depth 16 with"),
        "{text}"
    );
    assert!(text.contains("and depth 64: the 95 % intervals of their IOPS overlap"), "{text}");
    assert_eq!(text.lines().filter(|line| line.ends_with("  tie")).count(), 2, "{text}");
    let mut run = samples::sweep_of_a_mix();
    let plan = run.head.plan.to_string().replace("ceiling = { p99 = \\\"1ms\\\" }", "");
    run.head.plan = serde_json::from_str(&plan).unwrap();
    let text = show(&run, Detail::default(), style(200));
    assert!(
        text.contains("highest IOPS: depth 16 with") && !text.contains("best point under"),
        "{text}"
    );
}

/// Colours change neither characters nor positions.
#[test]
fn colours_are_only_colours() {
    for (name, run) in samples::all() {
        let painted =
            show(&run, Detail::default(), Style { color: true, width: 100, unicode: true });
        let mut bare = String::new();
        for (i, part) in painted.split('\u{1b}').enumerate() {
            let start = if i == 0 { 0 } else { part.find('m').unwrap() + 1 };
            bare.push_str(&part[start..]);
        }
        let bare: Vec<&str> = bare.lines().map(str::trim_end).collect();
        let plain =
            show(&run, Detail::default(), Style { color: false, width: 100, unicode: true });
        assert_eq!(bare, plain.lines().collect::<Vec<_>>(), "{name}");
    }
}

/// The table shows the numbers of the JSON document, and a dash for null.
#[test]
fn the_table_agrees_with_the_json() {
    let keys = ["mean", "p50", "p99", "p99_9", "p99_99", "max"];
    let mut rows_seen = 0;
    let is_of_cells = |name: &str| name != "hostile" && !name.starts_with("sweep");
    for (name, run) in samples::all().into_iter().filter(|(name, _)| is_of_cells(name)) {
        let text = show(&run, Detail { notes: false, all: true }, style(200));
        let heads = text.lines().find(|line| line.contains("throughput")).unwrap();
        let document = json::document(&run, json::Options::default());
        let mut rows = text.lines().skip_while(|l| !l.contains("throughput")).skip(1);
        for cell in document["cells"].as_array().unwrap() {
            let kinds: Vec<_> = OpKind::ALL
                .iter()
                .filter(|k| cell[k.name()]["ops"].as_u64().is_some_and(|n| n > 0))
                .collect();
            if kinds.is_empty() {
                assert!(rows.next().unwrap().contains("nothing"));
            }
            for kind in kinds {
                let object = &cell[kind.name()];
                let mut expected = vec![human::count(object["iops"].as_f64().unwrap())];
                if *kind != OpKind::Flush {
                    expected.push(human::throughput(object["bytes_per_s"].as_f64().unwrap()));
                }
                let time = |latency: &serde_json::Value| {
                    // What no row has is no column.
                    let has_column =
                        |k: &&str| heads.contains(&format!(" {} ", k.replace('_', ".")));
                    let shown = keys.into_iter().filter(has_column);
                    let words = shown.map(|k| latency[k].as_f64().map(human::time_ns));
                    words.map(|w| w.unwrap_or("–".to_owned())).collect::<Vec<_>>()
                };
                expected.extend(time(&object["latency_ns"]));
                let row = rows.next().unwrap();
                assert!(row.contains(kind.name()), "{name}: {row}");
                in_order(row, &expected);
                if object["service_ns"].is_object() {
                    in_order(rows.next().unwrap(), &time(&object["service_ns"]));
                }
                rows_seen += 1;
            }
        }
    }
    assert_eq!(rows_seen, 4 + 3 + 12 + 7 + 3 + 26 + 1);
}

/// Asserts that the row contains the words in this order, regardless of blanks.
fn in_order(row: &str, words: &[String]) {
    let squeezed = |t: &str| t.split_whitespace().collect::<Vec<_>>().join(" ");
    let row = squeezed(row);
    let mut rest = row.as_str();
    for word in words {
        let at = rest.find(word.as_str());
        let at = at.unwrap_or_else(|| panic!("no `{word}` in `{rest}` of `{row}`"));
        rest = &rest[at + word.len()..];
    }
}

#[test]
fn progress() {
    let measuring = Progress {
        cell: "random-write",
        index: 2,
        count: 4,
        phase: "measuring",
        elapsed_ns: 12_300_000_000,
        total_ns: Some(30_000_000_000),
        iops: 84_200.0,
        bytes_per_s: 345e6,
        p50_ns: Some(330_000),
        p99_ns: Some(1_200_000),
        errors: 0,
        ranks: "",
        left_ns: Some(78_000_000_000),
    };
    let on_hosts = Progress { ranks: "16 ranks, slowest 3 on node7 3.1 k", ..measuring };
    let laying_out = Progress {
        cell: "a\u{1b}[2J",
        index: 1,
        count: 1,
        phase: "laying out",
        total_ns: None,
        p50_ns: None,
        p99_ns: None,
        errors: 3,
        left_ns: None,
        ..measuring
    };
    let mut lines = Vec::new();
    for width in [120, 100, 80, 60, 40, 20] {
        lines.push(progress_line(&measuring, style(width)));
        lines.push(progress_line(&on_hosts, style(width)));
        lines.push(progress_line(&laying_out, style(width)));
    }
    insta::assert_snapshot!("progress", lines.join("\n"));
    for width in 1..200 {
        for unicode in [true, false] {
            for progress in [&measuring, &on_hosts, &laying_out] {
                let style = Style { color: false, width, unicode };
                let line = progress_line(progress, style);
                assert!(line.width() <= width.max(2), "{width}: {line}");
                assert!(!line.contains(char::is_control));
            }
        }
    }
}

/// Notes on the machine are shown in full once per machine and kernel, and notes on a target once per target; later
/// runs show codes. `show` always shows the full text.
#[test]
fn notes_of_earlier_runs_are_not_repeated() {
    let note = |code: &str, text: &str| Verdict {
        code: code.to_owned(),
        level: Level::Note,
        text: text.to_owned(),
    };
    let mut run = samples::four_corners();
    run.cells.truncate(1);
    run.head.machine = json!({ "host_name": "a", "kernel": "6.1", "ram_available_bytes": 1 });
    run.cells[0].verdicts = vec![
        note("VIRTUAL_MACHINE", "this machine is virtual"),
        note("MITIGATIONS", "the kernel mitigates 3 flaws"),
        note("SMALL_TARGET", "256 MiB may fit in a cache"),
    ];
    let target = run.head.targets[0].name.clone();
    let notes = |machine: &Value, text: &str, target: &str| {
        let notes = vec![
            note("VIRTUAL_MACHINE", "this machine is virtual"),
            note("MITIGATIONS", text),
            note("SMALL_TARGET", "64 MiB may fit in a cache"),
        ];
        EarlierNotes { machine: machine.clone(), target: target.to_owned(), notes }
    };
    let lines = |earlier: &[EarlierNotes], detail: Detail| -> Vec<String> {
        let text = show_after(&run, &Before::of(&run, earlier), detail, style(100));
        text.lines().filter(|line| line.starts_with('·')).map(str::to_owned).collect()
    };
    let first = [
        "· MITIGATIONS: the kernel mitigates 3 flaws",
        "· SMALL_TARGET: 256 MiB may fit in a cache",
        "· notes: VIRTUAL_MACHINE · see --notes",
    ];
    assert_eq!(lines(&[], Detail::default()), first);
    // Free memory is another in each run.
    let here = json!({ "host_name": "a", "kernel": "6.1", "ram_available_bytes": 2 });
    let same = notes(&here, "the kernel mitigates 3 flaws", &target);
    assert_eq!(
        lines(core::slice::from_ref(&same), Detail::default()),
        ["· notes: SMALL_TARGET · 2 about this machine, as in earlier runs · see --notes"]
    );
    let updated = notes(&here, "the kernel mitigates 4 flaws", "other");
    assert_eq!(
        lines(&[updated], Detail::default()),
        [
            "· MITIGATIONS: the kernel mitigates 3 flaws",
            "· SMALL_TARGET: 256 MiB may fit in a cache",
            "· notes: 1 about this machine, as in earlier runs · see --notes"
        ]
    );
    for other in [json!({ "host_name": "b", "kernel": "6.1" }), json!({ "host_name": "a" })] {
        let elsewhere = notes(&other, "the kernel mitigates 3 flaws", &target);
        assert_eq!(lines(&[elsewhere], Detail::default()), first, "{other}");
    }
    let all = lines(&[same], Detail { notes: true, all: false });
    assert_eq!(all.len(), 3, "{all:?}");
    let shown = show(&run, Detail::default(), style(100));
    assert!(shown.contains("VIRTUAL_MACHINE"), "{shown}");
}

/// The list shows the messages of a message log, not its writes: the mean of the repeats that are not INVALID, and with
/// several targets that of all of them. Other cells of the run stay in the list.
#[test]
fn a_message_log_is_listed_with_its_messages() {
    let cell = |name: &str, target: &str, messages: Option<u64>, level: Level| {
        let mut cell = Cell { window_ns: 2_000_000_000, interval_ns: 1_000_000, ..Cell::default() };
        (cell.key.name, cell.key.target) = (name.to_owned(), target.to_owned());
        cell.key.blocks = vec![(65_536, 1.0)];
        let mut interval = Interval::default();
        interval.class_mut(OpKind::Write).service.record_n(900, 600);
        interval.class_mut(OpKind::Write).bytes = 600 * 65_536;
        cell.series = vec![interval];
        cell.log = messages.map(|messages| {
            let mut persist = Histogram::default();
            persist.record_n(257, messages);
            Box::new(MessageLog { messages, persist, ..MessageLog::default() })
        });
        cell.verdicts = vec![Verdict { code: "A".to_owned(), level, text: String::new() }];
        cell
    };
    let folder = tempfile::tempdir().unwrap();
    let notebook = Notebook::open(&folder.path().join("notebook.sqlite")).unwrap();
    let listed = |name: &str, cells: &[Cell]| {
        let spec = json!({ "log": { "message": 512 } });
        let workloads = vec![WorkloadRecord { name: "log".to_owned(), spec }];
        let head = RunHead { name: name.to_owned(), workloads, ..RunHead::default() };
        let mut writer = notebook.begin(&head).unwrap();
        for (index, cell) in cells.iter().enumerate() {
            writer.finish_cell(index, cell).unwrap();
        }
        writer.finish(&Outcome::Finished, &[]).unwrap();
        let runs = notebook.list().unwrap().into_iter().map(|run| (run, None)).collect::<Vec<_>>();
        list(&runs[runs.len() - 1..], style(200))
    };
    let (all, valid) = ("all (2 targets)", Level::Valid);
    let shown = listed("one", &[cell("batch", "a", Some(200_000), valid)]);
    assert!(shown.contains("  100 k messages/s (persisted in p99 257 ns)"), "{shown}");
    // Its block only limits the size of a write.
    let run = notebook.load(&notebook.list().unwrap()[0].id).unwrap();
    let shown = show(&run, Detail::default(), style(200));
    assert!(shown.contains("chunks of at most 64 KiB"), "{shown}");
    let several = [
        ("each", "a", Some(50_000), valid),
        ("each", "b", Some(150_000), valid),
        ("each", all, Some(200_000), valid),
        ("each", all, Some(100_000), Level::Note),
        ("each", all, Some(9_000_000), Level::Invalid),
        ("scan", "a", None, valid),
        ("scan", all, None, valid),
    ];
    let several = several.into_iter().map(|(name, target, n, level)| cell(name, target, n, level));
    let shown = listed("several", &several.collect::<Vec<_>>());
    assert!(shown.contains("  each 75.0 k messages/s (mean of 2), scan 19.7 MB/s"), "{shown}");
}
