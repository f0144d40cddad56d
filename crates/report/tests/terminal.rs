//! What people see.

mod samples;

use iodyno_page::terminal::Style;
use iodyno_report::json;
use iodyno_report::terminal::{Progress, list, progress_line, show};
use iodyno_units::{OpKind, human};
use unicode_width::UnicodeWidthStr as _;

const fn style(width: usize) -> Style {
    Style { color: false, width, unicode: true }
}

#[test]
fn runs() {
    for (name, run) in samples::all() {
        for width in [60, 120] {
            insta::assert_snapshot!(format!("show_{name}_{width}"), show(&run, style(width)));
        }
    }
    let ascii = Style { color: false, width: 100, unicode: false };
    insta::assert_snapshot!("show_open_loop_ascii", show(&samples::open_loop(), ascii));
    let color = Style { color: true, width: 140, unicode: true };
    let painted = show(&samples::several_targets(), color).replace('\u{1b}', "ESC");
    insta::assert_snapshot!("show_several_targets_color", painted);
}

#[test]
fn lists() {
    let runs: Vec<_> = samples::all().iter().map(|(_, run)| samples::listed(run)).collect();
    for width in [60, 120] {
        insta::assert_snapshot!(format!("list_{width}"), list(&runs, style(width)));
    }
    insta::assert_snapshot!(list(&[], style(80)), @"no runs yet: `iodyno run four-corners` makes one");
}

/// Whatever a run holds, and however narrow the terminal: no line is too long, no character moves
/// the cursor, and ASCII is ASCII.
#[test]
fn nothing_leaves_its_place() {
    for (name, run) in samples::all() {
        for width in [40, 47, 61, 80, 100, 137, 200] {
            for unicode in [true, false] {
                let style = Style { color: false, width, unicode };
                let text = show(&run, style) + &list(&[samples::listed(&run)], style);
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

/// Colours change no character and no place.
#[test]
fn colours_are_only_colours() {
    for (name, run) in samples::all() {
        let painted = show(&run, Style { color: true, width: 100, unicode: true });
        let mut bare = String::new();
        for (i, part) in painted.split('\u{1b}').enumerate() {
            let start = if i == 0 { 0 } else { part.find('m').unwrap() + 1 };
            bare.push_str(&part[start..]);
        }
        let bare: Vec<&str> = bare.lines().map(str::trim_end).collect();
        let plain = show(&run, Style { color: false, width: 100, unicode: true });
        assert_eq!(bare, plain.lines().collect::<Vec<_>>(), "{name}");
    }
}

/// The table shows the numbers of the JSON document, and a dash where it has null.
#[test]
fn the_table_agrees_with_the_json() {
    let keys = ["mean", "p50", "p99", "p99_9", "p99_99", "max"];
    let mut rows_seen = 0;
    for (name, run) in samples::all().into_iter().filter(|(name, _)| *name != "hostile") {
        let text = show(&run, style(200));
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
                    let words = keys.map(|k| latency[k].as_f64().map(human::time_ns));
                    words.map(|w| w.unwrap_or("–".to_owned()))
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
    assert_eq!(rows_seen, 4 + 3 + 12 + 3 + 1);
}

/// Whether the words stand in the row in this order, whatever blanks align them.
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
        left_ns: Some(78_000_000_000),
    };
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
        lines.push(progress_line(&laying_out, style(width)));
    }
    insta::assert_snapshot!("progress", lines.join("\n"));
    for width in 1..200 {
        for unicode in [true, false] {
            for progress in [&measuring, &laying_out] {
                let style = Style { color: false, width, unicode };
                let line = progress_line(progress, style);
                assert!(line.width() <= width.max(2), "{width}: {line}");
                assert!(!line.contains(char::is_control));
            }
        }
    }
}
