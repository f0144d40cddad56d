//! Emulated storage in real time (`live:`): a run's report on it, and the verdict if this machine
//! did not keep the model's times. The tests do not assert that the machine does.

use crate::contract::{RUN_SCHEMA, assert_valid};
use crate::place::{Place, cells, codes, number, whole};
use crate::serve::{Served, URI};
use serde_json::Value;
use std::time::Duration;

/// Checks what a live cell states about late completions. Returns the fraction that was late.
#[track_caller]
fn late_share(cell: &Value) -> f64 {
    let evidence = &cell["evidence"];
    assert_eq!(evidence["emulated_live"], true, "{evidence}");
    assert_ne!(evidence["virtual_time"], true);
    let share = number(&evidence["late_share"]);
    assert!((0.0..=1.0).contains(&share), "{share}");
    let away = number(&evidence["late_away_share"]);
    assert!((0.0..=share).contains(&away), "{away} of {share}");
    let verdicts = cell["verdicts"].as_array().unwrap();
    let emulated = verdicts.iter().find(|v| v["code"] == "EMULATED").expect("it is emulated");
    assert!(emulated["text"].as_str().unwrap().contains("in real time"), "{emulated}");
    let found = codes(cell);
    let late = verdicts.iter().find(|v| v["code"] == "LATE");
    assert_eq!(late.is_some(), share > 0.02, "{share} {found:?}");
    if let Some(late) = late {
        let away = format!(", {:.0} % of these because", away / share * 100.0);
        assert!(late["text"].as_str().unwrap().contains(&away), "{late}: {away}");
    }
    assert!(!(found.contains(&"LATE") && found.contains(&"VALID")), "{found:?}");
    // The lateness, where there are enough completions for it.
    let late = &cell["facts"]["late"];
    assert!(late.as_str().is_none_or(|late| !late.contains("NaN")), "{late}");
    share
}

/// Live volumes store and verify content; their time is that of this machine's clock.
#[test]
fn live_writes_are_read_back() {
    let place = Place::new();
    // (So few blocks that the run has written most of those that it reads.)
    let limits = "--ops 4000 --ramp 0s --threads 2 --depth 4 --active 0..4MiB";
    let words = format!("run db-oltp --on live:exflash-400g --content verifiable {limits}");
    let document = place.document(&words);
    assert_valid(RUN_SCHEMA, &document);
    let target = &document["run"]["targets"][0];
    assert_eq!(target["facts"]["emulated"]["live"], true, "{target}");
    assert_ne!(document["run"]["plan"]["virtual_time"], true);
    let cell = &cells(&document)[0];
    late_share(cell);
    let late = cell["facts"]["late"].as_str().unwrap();
    assert!(late.starts_with("p50 ") && late.ends_with(" after the model"), "{late}");
    assert_eq!(cell["engine"], "live");
    for kind in ["read", "write"] {
        assert_eq!(cell[kind]["errors"], 0, "{cell}");
        assert!(whole(&cell[kind]["ops"]) > 1000, "{cell}");
    }
    assert!(cell["evidence"]["first_corruption"].is_null());
    let verdicts = cell["verdicts"].as_array().unwrap();
    let verified = verdicts.iter().find(|v| v["code"] == "VERIFIED").unwrap();
    let text = verified["text"].as_str().unwrap();
    assert!(text.contains("were intact, written by this cell, and each"), "{text}");
}

/// Arrays keep and verify bytes too; their reads return bytes at completion.
#[test]
fn arrays_are_read_back() {
    let place = Place::new();
    let limits = "--ops 3000 --ramp 0s --threads 2 --depth 4 --active 0..4MiB";
    for array in ["raid5(exflash-400g*3,strip=64KiB)", "raid1(exflash-400g*2)"] {
        let words = format!("run db-oltp --on live:{array} --content verifiable {limits}");
        let document = place.document(&words);
        let cell = &cells(&document)[0];
        for kind in ["read", "write"] {
            assert_eq!(cell[kind]["errors"], 0, "{cell}");
            assert!(whole(&cell[kind]["ops"]) > 700, "{cell}");
        }
        assert!(cell["evidence"]["first_corruption"].is_null(), "{cell}");
        let found = codes(cell);
        assert!(found.contains(&"VERIFIED"), "{array}: {found:?}");
    }
}

/// No read is faster than the model allows, within the histogram's resolution.
#[test]
fn no_live_time_is_shorter_than_the_model_s() {
    let place = Place::new();
    let p50_ns = |speed: &str| {
        let words = "--ops 1000 --ramp 0s --threads 1 --depth 1";
        let document =
            place.document(&format!("run random-read --on {speed}:exflash-400g {words}"));
        let cell = &cells(&document)[0];
        if speed == "live" {
            late_share(cell);
        }
        number(&cell["read"]["latency_ns"]["p50"])
    };
    let (model, live) = (p50_ns("model"), p50_ns("live"));
    assert!(live >= 0.98 * model, "{live} {model}");
}

/// During a wait of 119 µs the thread spins. Completions that are late because the process was stopped are counted as
/// the machine's fault.
#[test]
fn a_preempted_core_is_reported() {
    let place = Place::new();
    let words = "run random-read --on live:exflash-400g --time 1s --ramp 0s --threads 1 --depth 1";
    let mut running = place.start(&format!("{words} --json"));
    while running.is_running() {
        running.signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(20));
        running.signal(libc::SIGCONT);
        std::thread::sleep(Duration::from_millis(2));
    }
    let document = running.finish().json();
    let cell = &cells(&document)[0];
    let late = late_share(cell);
    let away = number(&cell["evidence"]["late_away_share"]);
    assert!(late > 0.0 && away > 0.5 * late, "{away} of {late}");
}

/// The status of a server reports late completions of its preempted poller.
#[test]
fn a_poller_on_a_preempted_core_is_reported() {
    let place = Place::new();
    let mut served = Served::start(&place, "exflash-400g");
    let load = "--time 1s --ramp 0s --threads 1 --depth 8 --no-notebook -q";
    let mut client = place.start(&format!("run random-read --on {URI} {load}"));
    while client.is_running() {
        served.running().signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(20));
        served.running().signal(libc::SIGCONT);
        std::thread::sleep(Duration::from_millis(5));
    }
    client.finish().succeeds();
    let volume = &served.status()["volumes"][0];
    let (late, away) = (whole(&volume["late"]), whole(&volume["late_away"]));
    assert!(0 < away && away <= late, "{volume}");
    let output = place.iodyno("status --control unix:ctl.sock");
    let reads = whole(&volume["operations"]["read"]["operations"]);
    let words = format!("{late} of {reads} completions by more than 10 µs, {away} of these while");
    assert!(output.succeeds().stdout.contains(&words), "{}", output.stdout);
    served.stop();
}

/// If a process is stopped most of the time, most I/Os of its disk complete late.
#[test]
fn a_late_machine_is_reported() {
    let place = Place::new();
    let words =
        "run random-read --on live:hdd-nearline-20t*2 --time 1s --ramp 0s --threads 1 --depth 1";
    let mut running = place.start(&format!("{words} --json"));
    while running.is_running() {
        running.signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(60));
        running.signal(libc::SIGCONT);
        std::thread::sleep(Duration::from_millis(15));
    }
    let document = running.finish().json();
    let cells = cells(&document);
    let shares: Vec<f64> = cells.iter().map(late_share).collect();
    assert!(shares[..2].iter().all(|share| *share > 0.2), "{shares:?}");
    assert!(cells[..2].iter().all(|cell| cell["level"] == "warning"));
    // Nearly all of a disk's time is slept through, and a sleeping worker has no core to lose.
    let away = |cell: &Value| number(&cell["evidence"]["late_away_share"]);
    assert!(cells[..2].iter().zip(&shares).all(|(cell, share)| away(cell) < 0.5 * share));
    // Together they are as late as the worst of them.
    let (each, all) = (&shares[..2], shares[2]);
    assert!(each.contains(&all) && each.iter().all(|share| *share <= all), "{shares:?}");
    let lateness = |cell: &Value| {
        let evidence = &cell["evidence"];
        (evidence["late_share"].clone(), evidence["late_away_share"].clone())
    };
    assert!(
        cells[..2].iter().any(|cell| lateness(cell) == lateness(&cells[2])),
        "of one and the same"
    );
}

/// A volume whose credits run out falls to its base rate in the expected second, in real time.
#[test]
fn a_live_volume_falls_to_its_base_rate() {
    let place = Place::new();
    // 5400 credits last for 2 s at 3000 a second, because 300 accrue; then 300 are served.
    let words = "run random-read --on live:ebs-gp2?size=100GiB&credits=2s --active 0..64MiB --depth 64 --ramp 0s --time 5s --series";
    let document = place.document(words);
    let series = cells(&document)[0]["series"].as_array().unwrap();
    let (mut at_s, mut burst, mut base, mut all) = (0.0, 0, 0, 0);
    for interval in series {
        let ops = whole(&interval["read"]["ops"]);
        at_s += number(&interval["seconds"]);
        burst += if at_s < 1.55 { ops } else { 0 };
        base += if at_s > 3.05 { ops } else { 0 };
        all += ops;
    }
    // A busy machine may serve less than the burst rate; then the credits last longer.
    assert!((2500..=4900).contains(&burst), "{burst} in the first 1.5 s: {series:?}");
    assert!((500..=660).contains(&base), "{base} in the last 2 s: {series:?}");
    let most = 5400 + 300 * 5;
    assert!((most - 300..=most + 64).contains(&all), "{all} of {most}: {series:?}");
}
