//! Preconditioning of an earlier run is reused only on request, and only if the target has not been
//! written since. Uses loop devices, whose writes the kernel counts.

use crate::contract::{RUN_SCHEMA, assert_valid};
use crate::disks::{Loop, MIB, Mount, alone, blank, run};
use crate::place::{Place, whole};
use serde_json::Value;

const METHOD: &str = "schema = 1
[[stages]]
do = \"purge\"
[[stages]]
do = \"fill\"
block = \"128KiB\"
passes = 1
[[stages]]
name = \"reads\"
read = \"100%\"
do = \"cells\"
block = \"4KiB\"
time = \"50ms\"
";

fn fill(document: &Value) -> &Value {
    let cells = document["cells"].as_array().unwrap();
    cells.iter().find(|cell| cell["name"] == "fill").unwrap()
}

fn was_reused(document: &Value) -> bool {
    let reused = fill(document)["facts"]["reused"].is_string();
    let wrote = fill(document)["write"]["bytes"].as_u64().unwrap_or(0) > 0;
    assert_ne!(reused, wrote, "{document:#}");
    reused
}

#[test]
#[ignore = "needs root and loop devices"]
fn a_fill_is_reused_until_another_write() {
    let _alone = alone();
    let place = Place::new();
    let memory = Mount::at(place.path("memory"), &["-t", "tmpfs", "-o", "size=96m", "tmpfs"]);
    let disk = Loop::on(&blank(memory.0.join("image"), 48 * MIB), &["--direct-io=on"]);
    place.write("m.toml", METHOD);
    let on = format!("--on {0} --destroy {0}", disk.node);
    let document = |words: &str| {
        let document = place.document(words);
        assert_valid(RUN_SCHEMA, &document);
        document
    };
    // Nothing to reuse yet, and it reports that.
    let first = document(&format!("run ./m.toml {on} --reuse"));
    assert!(!was_reused(&first));
    let facts = &first["cells"][0]["facts"];
    assert!(facts["not reused"].as_str().unwrap().contains("no finished run"), "{facts}");
    assert_eq!(whole(&fill(&first)["write"]["bytes"]), 48 * MIB);
    // Again: never without the flag, but a note says that it could be.
    let output = place.iodyno(&format!("run ./m.toml {on}"));
    assert!(output.succeeds().stderr.contains("could be reused with --reuse"), "{output:?}");
    assert!(!was_reused(&place.iodyno("show last --json").succeeds().json()));
    let second = document(&format!("run ./m.toml {on} --reuse"));
    assert!(was_reused(&second));
    let purge = &second["cells"][0];
    assert!(
        purge["facts"]["reused"].as_str().unwrap().contains("left the target purged, then filled")
    );
    assert!(purge["facts"]["purge"].is_null(), "nothing was purged: {purge}");
    assert_eq!(second["findings"]["deviations"], serde_json::json!([]));
    // The run did not change it, so it stays reusable; of a standard's test it is a deviation.
    place.write("s.toml", format!("standard = \"a test\"\nreuse = true\n{METHOD}"));
    let third = document(&format!("run ./s.toml {on}"));
    assert!(was_reused(&third));
    let deviations = third["findings"]["deviations"].to_string();
    assert!(deviations.contains("preconditioning were reused"), "{deviations}");
    // Another process writes 4 KiB.
    run("dd", &["if=/dev/zero", &format!("of={}", disk.node), "bs=4k", "count=1", "conv=fsync"]);
    let fourth = document(&format!("run ./m.toml {on} --reuse"));
    assert!(!was_reused(&fourth));
    let why = fourth["cells"][0]["facts"]["not reused"].as_str().unwrap();
    assert!(
        why.contains("written or discarded since the earlier run, according to the kernel's count"),
        "{why}"
    );
}
