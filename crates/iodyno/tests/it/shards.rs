//! `--shard` and `merge`: a sweep measured by independent processes equals the run of a single process.

use crate::place::{Place, cells};
use serde_json::Value;

const SWEEP: &str = "run random-read --on model:ssd-sata3-mlc-200g --vary depth=1,2,4,8,16 --vary block=4KiB,16KiB,64KiB --time 10ms --seed 5";

/// The cells of a document, without the time that their simulation took.
fn figures(document: &Value) -> Vec<Value> {
    let without = |cell: &Value| {
        let mut cell = cell.clone();
        let facts = cell["facts"].as_object_mut().unwrap();
        facts.retain(|name, _| !name.contains("simul"));
        cell
    };
    cells(document).iter().map(without).collect()
}

/// Merged shards equal one run, for any number of shards and any order of their notebooks.
#[test]
fn shards_that_are_merged_equal_one_run() {
    let place = Place::new();
    let whole = place.document(&format!("{SWEEP} --no-notebook"));
    for of in [2, 4] {
        for shard in (1..=of).rev() {
            let notebook = place.path(&format!("{of}-{shard}.sqlite"));
            let line = format!("{SWEEP} --shard {shard}/{of} --notebook {}", notebook.display());
            place.iodyno(&line).succeeds();
        }
        let notebooks: Vec<String> = (1..=of).map(|shard| format!("{of}-{shard}.sqlite")).collect();
        // One that is missing is named.
        let others = notebooks[1..].join(" ");
        place.iodyno(&format!("merge {others}")).fails(2, &["missing", &format!("1/{of}")]);
        place.iodyno(&format!("merge {}", notebooks.join(" "))).succeeds();
        let merged = place.iodyno("show last --json").succeeds().json();
        assert_eq!(figures(&merged), figures(&whole), "{of} shards");
        assert_eq!(merged["findings"], whole["findings"], "{of} shards");
        // Again, in another order: the same run.
        let again = notebooks.iter().rev().map(String::as_str).collect::<Vec<_>>().join(" ");
        place.iodyno(&format!("merge {again}")).succeeds().says(&["exists already"]);
        assert_eq!(place.iodyno("show last --json").succeeds().json()["run"], merged["run"]);
        let runs = place.iodyno("ls --json").succeeds().json();
        assert_eq!(runs["runs"].as_array().unwrap().len(), of / 2, "{runs}");
        // It began when its first shard began, not when it was merged.
        let first = place.iodyno(&format!("show last --json --notebook {of}-{of}.sqlite"));
        assert_eq!(merged["run"]["started"], first.succeeds().json()["run"]["started"]);
    }
}

/// Notebooks that were not written by this program: numbers out of range, another run's cells, too many or too few
/// cells, real targets, a shard that occurs twice, and texts that would move the cursor.
#[test]
fn shards_that_do_not_fit_are_refused() {
    let place = Place::new();
    for shard in [1, 2] {
        let notebook = place.path(&format!("{shard}.sqlite"));
        let line = format!("{SWEEP} --shard {shard}/2 --notebook {}", notebook.display());
        place.iodyno(&line).succeeds();
    }
    let changed = |change: &str| {
        std::fs::copy(place.path("2.sqlite"), place.path("evil.sqlite")).unwrap();
        let db = rusqlite::Connection::open(place.path("evil.sqlite")).unwrap();
        assert!(db.execute(change, []).unwrap() > 0, "{change}");
        drop(db);
        let output = place.iodyno("merge 1.sqlite evil.sqlite");
        assert!(!place.notebook().exists(), "{change}: nothing is kept");
        let said = output.stdout.clone() + &output.stderr;
        assert!(!said.contains('\u{1b}') && !said.contains("panicked"), "{change}: {said}");
        output
    };
    let set = |path: &str, value: &str| {
        format!("UPDATE runs SET plan = json_set(plan, '$.request.{path}', json('{value}'))")
    };
    for (change, words) in [
        (set("shard", "{\"number\":2,\"of\":4000000000}"), "missing: 2/2"),
        (set("shard", "{\"number\":0,\"of\":0}"), "missing: 2/2"),
        (set("shard", "{\"number\":1,\"of\":2}"), "are the same shard"),
        (set("seed", "6"), "missing: 2/2"),
        (set("targets", "[\"/dev/sda\"]"), "missing: 2/2"),
        ("UPDATE runs SET name = char(27) || '[2J', status = 'crashed'".to_owned(), "not finished"),
        ("DELETE FROM cells WHERE position = 3".to_owned(), "cell 4"),
        ("UPDATE cells SET position = 99 WHERE position = 3".to_owned(), "cell 4"),
        ("UPDATE cells SET cell = json_set(cell, '$.key.place.index', 0)".to_owned(), "cell 1"),
        ("UPDATE cells SET cell = '[' || cell || ']'".to_owned(), ""),
        ("UPDATE runs SET iodyno_version = char(27) || '[2J'".to_owned(), "missing: 2/2"),
    ] {
        let output = changed(&change);
        assert!(matches!(output.code, Some(2 | 5)), "{change}: {output:?}");
        assert!(output.stderr.contains(words), "{change}: {output:?}");
    }
    // Both of a kind that has no shards.
    for path in ["1.sqlite", "2.sqlite"] {
        let db = rusqlite::Connection::open(place.path(path)).unwrap();
        db.execute(&set("targets", "[\"/dev/sda\"]"), []).unwrap();
    }
    place.iodyno("merge 1.sqlite 2.sqlite").fails(2, &["not emulated"]);
}
