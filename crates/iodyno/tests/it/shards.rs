//! `--shard` and `merge`: a sweep that processes which know nothing of each other measured is the run of one.

use crate::place::{Place, cells};
use serde_json::Value;

const SWEEP: &str = "run random-read --on model:ssd-sata3-mlc-200g --vary depth=1,2,4,8,16 --vary block=4KiB,16KiB,64KiB --time 10ms --seed 5";

/// The cells, without how long they took to simulate.
fn figures(document: &Value) -> Vec<Value> {
    let without = |cell: &Value| {
        let mut cell = cell.clone();
        let facts = cell["facts"].as_object_mut().unwrap();
        facts.retain(|name, _| !name.contains("simul"));
        cell
    };
    cells(document).iter().map(without).collect()
}

/// However many there are, and in whatever order they are named.
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
    }
}
