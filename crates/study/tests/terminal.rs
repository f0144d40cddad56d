//! Tests the output of a study as text and JSON.

use crate::small;

use iodyno_page::terminal::Style;
use iodyno_study::terminal::show;
use iodyno_study::{Outcome, json};
use small::{near_print, small};

#[test]
fn a_small_study() {
    let study = small();
    let outcome = Outcome::new(&study, &near_print(&study));
    for width in [60, 100] {
        let style = Style { color: false, width, unicode: true };
        insta::assert_snapshot!(format!("small_{width}"), show(&outcome, style));
    }
    let ascii = show(&outcome, Style { color: false, width: 80, unicode: false });
    assert!(ascii.is_ascii(), "{ascii}");
    assert!(ascii.lines().all(|line| line == line.trim_end()));
    for width in 60..120 {
        let text = show(&outcome, Style { color: false, width, unicode: true });
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
    }
}

/// Text from a study file can't move the cursor or reverse the direction of adjacent text.
#[test]
fn texts_of_a_study_can_do_no_harm() {
    let mut study = small();
    study.title = "a\u{1b}[2Jb\u{202e}c".to_owned();
    study.source = "דיסק".to_owned();
    let outcome = Outcome::new(&study, &near_print(&study));
    let text = show(&outcome, Style { color: false, width: 80, unicode: true });
    assert!(
        text.contains(r"a\u{1b}[2Jb\u{202e}c") && text.contains("\u{2068}דיסק\u{2069}"),
        "{text}"
    );
}

/// Colours change neither characters nor positions.
#[test]
fn colours_are_only_colours() {
    let study = small();
    let outcome = Outcome::new(&study, &near_print(&study));
    let painted = show(&outcome, Style { color: true, width: 90, unicode: true });
    let mut bare = String::new();
    for (i, part) in painted.split('\u{1b}').enumerate() {
        let start = if i == 0 { 0 } else { part.find('m').unwrap() + 1 };
        bare.push_str(&part[start..]);
    }
    let bare: Vec<&str> = bare.lines().map(str::trim_end).collect();
    let plain = show(&outcome, Style { color: false, width: 90, unicode: true });
    assert_eq!(bare, plain.lines().collect::<Vec<_>>());
    assert!(painted.contains("\u{1b}[32m") && painted.contains("\u{1b}[33m"));
}

#[test]
fn the_document_is_by_its_schema() {
    let study = small();
    let mut taken = near_print(&study);
    // What the samples do not support is null.
    for t in taken.values_mut() {
        t.latency.percentiles_ns[2] = None;
        t.iops_error = f64::INFINITY;
    }
    let document = json::document(&Outcome::new(&study, &taken));
    let schema = serde_json::from_str(json::SCHEMA_STUDY).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&document).map(|e| format!("{e} at {}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    let empty = serde_json::json!({ "schema": 1 });
    assert!(!validator.is_valid(&empty));
    // A row has the keys of the file of figures first.
    let row = document["rows"][0].as_object().unwrap();
    let keys: Vec<&str> = row.keys().map(String::as_str).take(14).collect();
    let columns = [
        "figure",
        "system",
        "workload",
        "block_bytes",
        "queue_depth",
        "threads",
        "devices",
        "metric",
        "relation",
        "value",
        "resolution",
        "unit",
        "kind",
        "note",
    ];
    assert_eq!(keys, columns);
    assert_eq!(document["curves"].as_array().unwrap().len(), 3 + 3 + 3 + 1);
}
