//! `log bench` on a file, in memory and in virtual time, and its output.

use crate::place::{Place, cells, codes, number, whole};
use serde_json::Value;

/// Counts of messages, chunks and writes are consistent, whatever the device.
#[test]
fn messages_chunks_and_writes_fit_together() {
    let place = Place::new();
    for on in ["ram:64MiB", "d.img?size=64MiB", "model:exflash-400g"] {
        let document = place.document(&format!(
            "log bench --on {on} --size 1000 --batch 10 --readers 1 --time 300ms --ramp 100ms"
        ));
        let cell = &cells(&document)[0];
        let log = &cell["log"];
        let (messages, chunks) = (whole(&log["messages"]), whole(&log["chunks"]));
        assert!(messages > 100, "{on}: {messages}");
        // But for what ends a segment of 1 MiB, each chunk is full: ten records of 1000 bytes with their headers, in blocks
        // of 4 KiB.
        assert!(messages <= 10 * chunks && 10 * chunks - messages < 2 * chunks / 10, "{on}: {log}");
        let writes = whole(&cell["write"]["ops"]);
        let mean_bytes = whole(&cell["write"]["bytes"]) / writes;
        assert!((12_000..=12_288).contains(&mean_bytes), "{on}: {mean_bytes}");
        // The window cuts groups at both ends.
        assert!(chunks.abs_diff(writes) <= 64, "{on}: {chunks} and {writes}");
        assert!(whole(&log["flushes"]).abs_diff(chunks / 16) <= 8, "{on}");
        assert!(whole(&log["replayed"]) > 0, "{on}");
        assert_eq!(whole(&log["replay_errors"]), 0, "{on}");
        let seconds = number(&cell["seconds"]);
        let per_s = number(&log["messages_per_s"]);
        assert!((per_s * seconds / messages as f64 - 1.0).abs() < 1e-6, "{on}");
        // Little: publishers hold two groups. A stall at the end of the window would not be in the times.
        let held = number(&log["persist_ns"]["mean"]) / 1e9 * per_s;
        let is_emulated = on.starts_with("model:");
        assert!(!is_emulated || (held / 320.0 - 1.0).abs() < 0.02, "{on}: {held} are held");
    }
}

/// If the rate is higher than a disk sustains, publishers wait or drop messages, and the verdict says so. Latency
/// spikes of a flash device have a named cause.
#[test]
fn a_rate_is_met_or_missed_and_spikes_have_causes() {
    let place = Place::new();
    let slow = "log bench --on model:hdd-10k-300g --rate 1M/s --time 2s --interval 100ms";
    let document = place.document(&format!("{slow} --backlog 100k"));
    let log = &cells(&document)[0]["log"];
    assert!(number(&log["blocked_seconds"]) > 1.8, "{log}");
    let document = place.document(&format!("{slow} --backlog 100k --drop"));
    let cell = &cells(&document)[0];
    assert!(whole(&cell["log"]["dropped"]) > 1_000_000, "{}", cell["log"]);
    assert!(whole(&cell["log"]["backlog_max"]) <= 100_000, "{}", cell["log"]);
    assert!(codes(cell).contains(&"RATE_MISSED"), "{:?}", codes(cell));

    // An SSD in its steady state: collections delay writes now and then.
    let document = place.document(
        "log bench --on model:ssd-sata3-mlc-200g?state=random --rate 20k/s --time 20s --interval 100ms --series",
    );
    let cell = &cells(&document)[0];
    let p50 = whole(&cell["log"]["persist_ns"]["p50"]);
    let series = cell["log"]["series"].as_array().unwrap();
    let spikes: Vec<&Value> = series.iter().filter(|i| whole(&i["max_ns"]) > 5 * p50).collect();
    assert!(!spikes.is_empty(), "no spikes above {p50} ns");
    assert!(spikes.iter().any(|spike| spike["cause"].is_string()), "{spikes:?}");
    assert!(codes(cell).contains(&"RATE_MET"), "{:?}", codes(cell));
}

/// A controller that stalls for 60 ms after each 4 MiB: the stalls are reported as the cause, in virtual and in real
/// time.
#[test]
fn stalls_of_a_controller_are_a_cause() {
    let place = Place::new();
    let device =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/devices/ssd-sas12-mlc-800g.toml");
    let device = std::fs::read_to_string(device).unwrap();
    assert!(device.contains("\"256MiB\"") && device.contains("\"11.84ms\""), "its stalls");
    place.write("d.toml", device.replace("256MiB", "4MiB").replace("11.84ms", "60ms"));
    for time in ["model", "live"] {
        let document = place.document(&format!(
            "log bench --on {time}:./d.toml --rate 20k/s --time 3s --interval 100ms --series"
        ));
        let cell = &cells(&document)[0];
        let p50 = whole(&cell["log"]["persist_ns"]["p50"]);
        let series = cell["log"]["series"].as_array().unwrap();
        let spikes: Vec<&Value> = series.iter().filter(|i| whole(&i["max_ns"]) > 5 * p50).collect();
        let stalls = spikes.iter().filter(|spike| {
            let cause = spike["cause"].as_str().unwrap_or_default();
            cause.ends_with("during a stall of the controller")
        });
        let stalls = stalls.count();
        // Some end in the interval after the one in which they begin. In real time this machine may be slower than the device.
        let is_exact = time == "model";
        assert!(stalls >= if is_exact { 5 } else { 1 }, "{time}: {stalls} of {spikes:?}");
        assert!(!is_exact || stalls * 2 >= spikes.len(), "{stalls} of {spikes:?}");
    }
}

/// Each level of durability is a cell, and the text states the price of durability. An impossible load is refused with
/// its key.
#[test]
fn the_price_of_durability_is_printed() {
    let place = Place::new();
    place
        .iodyno("log bench --on null: --durability none --fua")
        .fails(2, &["contrary to --durability none"]);
    let run = place.iodyno(
        "log bench --on model:hdd-10k-300g --durability none,batch,each --time 500ms --ramp 100ms",
    );
    run.succeeds();
    for words in ["The price of durability here: `none`", "`each` persists"] {
        assert!(run.stdout.contains(words), "{}", run.stdout);
    }
    let refused = place.iodyno("log bench --on ram:64MiB --size 1MiB");
    refused.fails(2, &["does not hold one message"]);
}
