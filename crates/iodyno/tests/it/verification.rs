//! Verification of content that other runs wrote: each kind of corruption is found and counted across runs,
//! unverified content is reported, and a pass over a whole target shows the effect of a crash or a power cut.

use crate::contract::{RUN_SCHEMA, assert_valid};
use crate::place::{Place, cells, codes, whole};
use crate::serve::{Served, URI, flash};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

const UNIT: usize = 4096;
const UNITS: usize = 1024;

/// Findings in the only cell of a run, by the run's exit code.
#[track_caller]
fn verified(place: &Place, words: &str, exit: i32) -> (Value, Value) {
    let output = place.iodyno(&format!("{words} --json --quiet"));
    let document = output.exits(exit).json();
    assert_valid(RUN_SCHEMA, &document);
    let cell = cells(&document)[0].clone();
    (cell["evidence"]["verification"].clone(), cell)
}

fn changed(a: &[u8], b: &[u8]) -> Vec<usize> {
    let differs = |unit: &usize| a[unit * UNIT..][..UNIT] != b[unit * UNIT..][..UNIT];
    (0..UNITS).filter(differs).collect()
}

/// Whether a pass has no findings. Notes on other programs' activity and on a full disk are not findings.
fn is_sound(said: &[&str]) -> bool {
    let of_the_machine =
        |code: &str| code.starts_with("FOREIGN_") || matches!(code, "FILE_SYSTEM_FULL" | "STARVED");
    said.iter().any(|code| *code == "VALID" || of_the_machine(code))
}

/// A run on a part of a file reads and keeps the map of the earlier writes to the rest.
#[test]
fn a_run_on_a_part_of_a_file_keeps_the_map_of_the_rest() {
    let place = Place::new();
    let write = "run random-write --content verifiable --ramp 0s --ops 300";
    place.document(&format!("{write} --on f?size=4MiB"));
    place.document(&format!("{write} --on ./f?size=16KiB"));
    let mut image = fs::read(place.path("f")).unwrap();
    image[1000 * UNIT..][..UNIT].fill(0);
    fs::write(place.path("f"), image).unwrap();
    let (found, _) = verified(&place, "run --verify-only --on ./f", 4);
    assert_eq!((whole(&found["checked"]), whole(&found["current"])), (1024, 1023), "{found}");
    assert_eq!(found["found"]["zeroed"]["units"], 1, "{found}");
}

/// Ten blocks of each kind of damage, in a file that earlier runs wrote.
#[test]
fn damage_between_runs_is_found_by_kind() {
    let place = Place::new();
    let write = "run random-write --content verifiable --ramp 0s --ops 3000";
    place.document(&format!("{write} --on f?size=4MiB"));
    let old = fs::read(place.path("f")).unwrap();
    place.document(&format!("{write} --on ./f"));
    let sound = fs::read(place.path("f")).unwrap();
    let pass = "run --verify-only --on ./f";
    let (found, cell) = verified(&place, pass, 0);
    assert_eq!((whole(&found["checked"]), whole(&found["current"])), (1024, 1024), "{found}");
    assert_eq!((&found["found"], &found["kept_map"]), (&json!({}), &json!("whole")));
    assert_eq!(found["read_share"], 1.0);
    assert!(found["writers"].as_array().unwrap().len() <= 2, "only the runs: {found}");
    let said = codes(&cell);
    assert!(is_sound(&said) && said.contains(&"VERIFIED"), "{said:?}");

    let mut image = sound.clone();
    let mut random = 1_u64;
    let mut noise = |bytes: &mut [u8]| {
        for byte in bytes {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (random >> 56) as u8;
        }
    };
    let unit = |n: usize| n * UNIT..(n + 1) * UNIT;
    let rewritten: Vec<usize> = changed(&old, &sound).into_iter().filter(|&n| n >= 600).collect();
    for i in 0..10 {
        image[unit(i)].fill(0);
        noise(&mut image[unit(100 + i)]);
        // Written for the place five blocks further, and for the next one and shifted by a sector.
        image[unit(200 + i)].copy_from_slice(&sound[unit(205 + i)]);
        let shifted = (300 + i) * UNIT + 512;
        image[unit(300 + i)].copy_from_slice(&sound[shifted..shifted + UNIT]);
        noise(&mut image[unit(400 + i)][1024..]);
        image[unit(500 + i)][2048..].fill(0);
        image[unit(rewritten[i])].copy_from_slice(&old[unit(rewritten[i])]);
        let torn = rewritten[10 + i] * UNIT;
        image[torn..torn + 1536].copy_from_slice(&old[torn..torn + 1536]);
    }
    fs::write(place.path("f"), &image).unwrap();
    let (found, cell) = verified(&place, pass, 4);
    let count = |name: &str| whole(&found["found"][name]["units"]);
    for (name, units) in [
        ("zeroed", 10),
        ("foreign", 10),
        ("misdirected", 20),
        ("damaged", 10),
        ("torn", 20),
        ("stale", 10),
    ] {
        assert_eq!(count(name), units, "{name}: {found}");
        assert_eq!(found["found"][name]["reads"], units, "a pass reads each block once");
    }
    let places: Vec<u64> = (0..4).map(|i| (100 + i) * 4096).collect();
    assert_eq!(found["found"]["foreign"]["first_bytes"], json!(places));
    assert_eq!(whole(&found["current"]), 1024 - 80);
    assert!(codes(&cell).contains(&"WRONG_CONTENT"), "{cell}");
    assert_eq!((&cell["level"], &cell["ended"]), (&json!("invalid"), &json!("ops")));
    let output = place.iodyno(&format!("{pass} -q"));
    // Lines break where the terminal ends.
    let shown = output.exits(4).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["WRONG_CONTENT", "10 zeroed (at byte 0, 4096, 8192, 12288 …)", "first at byte"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }

    // A workload that reads finds the same, and is not VALID.
    let read = "run random-read --content verifiable --on ./f --ramp 0s --ops 4000";
    let (met, cell) = verified(&place, &format!("{read} --max-errors 100000"), 4);
    for (name, _) in met["found"].as_object().unwrap() {
        assert!(count(name) >= whole(&met["found"][name]["units"]), "{met}");
    }
    assert!(whole(&met["found"]["zeroed"]["reads"]) > 0, "{met}");
    let corrupt = whole(&cell["read"]["errors_by_kind"]["corrupt"]);
    assert_eq!(whole(&met["checked"]) - whole(&met["current"]), corrupt, "{met}");
    assert_eq!(cell["level"], "invalid");

    // Without the notebook's map, blocks without a mark can't be called corrupt, and for whole ones
    // it is unknown whether they are the latest.
    let (found, cell) = verified(&place, &format!("{pass} --no-notebook"), 4);
    assert_eq!(whole(&found["unverified"]), 20, "{found}");
    assert_eq!((&found["current"], &found["kept_map"]), (&json!(0), &json!("none")));
    assert_eq!(found["found"].as_object().unwrap().len(), 3, "{found}");
    assert!(codes(&cell).contains(&"UNVERIFIED_READS"));
    fs::write(place.path("f"), &sound).unwrap();
    verified(&place, pass, 0);
}

/// Content that no verified run wrote: nothing is corrupt, and the unverified share is reported.
#[test]
fn unverified_content_is_reported() {
    let place = Place::new();
    let write = "run random-write --on f?size=4MiB --ramp 0s --ops 64";
    place.document(&format!("{write} --content verifiable"));
    // Another run writes other content: the map of the first one is dropped.
    place.document(write);
    let read = "run random-read --content verifiable --on ./f --ramp 0s --ops 2000";
    let (found, cell) = verified(&place, read, 0);
    let unverified = whole(&found["unverified"]);
    assert!((1..500).contains(&unverified), "64 of 1024 blocks, as far as they were met: {found}");
    assert_eq!(whole(&found["whole"]) + unverified, 2000);
    let warning = cell["verdicts"].as_array().unwrap().iter();
    let warning = warning.clone().find(|v| v["code"] == "UNVERIFIED_READS").unwrap();
    let text = warning["text"].as_str().unwrap();
    assert!(text.contains(&format!("{unverified} of 2000")), "{text}");
    assert_eq!(cell["level"], "warning");
    // All of a new file that this run lays out itself is verified.
    let words = "run random-read --content verifiable --on scratch:4MiB --ramp 0s --ops 2000";
    let (found, _) = verified(&place, words, 0);
    assert_eq!((whole(&found["current"]), whole(&found["checked"])), (2000, 2000), "{found}");
    for words in ["", "--on null:", "--on scratch:4MiB", "--on ram:4MiB"] {
        let output = place.iodyno(&format!("run --verify-only {words}"));
        output.fails(2, &["has no earlier content"]);
    }
    place.iodyno("run --verify-only random-read --on ./f").fails(2, &["cannot be used with"]);
}

/// A run that was killed left writes that are newer than its map. They are not called corrupt.
#[test]
fn a_killed_run_left_no_map_of_its_writes() {
    let place = Place::new();
    let words = "run random-write --content verifiable --on f?size=4MiB --ramp 0s --time 1m -q";
    let mut running = place.start(words);
    place.wait_for_cells(&mut running, 1);
    std::thread::sleep(Duration::from_millis(100));
    running.signal(libc::SIGKILL);
    running.finish();
    let (found, cell) = verified(&place, "run --verify-only --on ./f", 0);
    assert_eq!(found["kept_map"], "unfinished");
    assert_eq!(whole(&found["whole"]) + whole(&found["current"]), 1024, "{found}");
    assert!(whole(&found["whole"]) > 0, "{found}");
    let said = codes(&cell);
    assert!(is_sound(&said), "{cell}");
    assert!(!said.contains(&"UNVERIFIED_READS"), "{cell}");
}

/// A served device with a volatile cache loses its power: flushed data are there, unflushed ones
/// may be older, and the pass distinguishes them.
#[test]
fn a_power_cut_loses_only_unflushed_writes() {
    let place = Place::new();
    flash(&place, "device.toml", false, 0);
    let server = Served::start(&place, "./device.toml --no-floor --dilate 100");
    let write =
        format!("--content verifiable --on {URI} --destroy {URI} --active 0..4MiB --ramp 0s -q");
    let pass = format!("run --verify-only --on {URI} --active 0..4MiB");
    place.iodyno(&format!("run seq-write {write} --ops 32 --block 128KiB")).succeeds();
    server.fault("power-cut");
    let (found, _) = verified(&place, &pass, 0);
    assert_eq!(whole(&found["current"]), 1024, "the run ended with a flush: {found}");
    let mut taken = 0;
    for _ in 0..4 {
        let words = format!("run random-write {write} --time 1m --max-errors 0 --block 4KiB");
        let writes = || whole(&server.status()["volumes"][0]["operations"]["write"]["operations"]);
        let before = writes();
        let mut running = place.start(&words);
        running.wait_until("it writes", || writes() > before + 32);
        // Operations in flight fail, so that the run detects the cut, and ends.
        server.fault("hang");
        std::thread::sleep(Duration::from_millis(20));
        server.fault("power-cut");
        server.fault("clear");
        running.finish().exits(4);
        let (found, cell) = verified(&place, &pass, 0);
        // Absent if this cut took nothing.
        let unflushed = found["found"]["unflushed"]["units"].as_u64().unwrap_or(0);
        assert_eq!(codes(&cell).contains(&"UNFLUSHED_LOST"), unflushed > 0, "{cell}");
        taken += unflushed;
    }
    assert!(taken > 0, "four power cuts took nothing");
    server.stop();
}

/// If iodyno itself lays a file out again, writes of earlier runs are no longer expected in it.
#[test]
fn a_file_that_is_laid_out_again_has_no_map() {
    let place = Place::new();
    let write = "run random-write --content verifiable --on f?size=4MiB --ops 512 --ramp 0s -q";
    place.iodyno(write).succeeds();
    fs::remove_file(place.path("f")).unwrap();
    place.iodyno("run random-read --on f?size=4MiB --ops 64 --ramp 0s -q").succeeds();
    let (found, cell) = verified(&place, "run --verify-only --on f", 0);
    assert_eq!(found["kept_map"], "none", "{found}");
    assert!(!codes(&cell).contains(&"WRONG_CONTENT"), "{cell}");
}

/// A pass continues to its end whatever fails, and then reports the failure.
#[test]
fn a_pass_over_a_failing_target_fails() {
    let place = Place::new();
    flash(&place, "device.toml", false, 0);
    let server = Served::start(&place, "./device.toml --no-floor");
    let words = format!("--on {URI} --destroy {URI} --active 0..1MiB --ramp 0s -q --no-notebook");
    place.iodyno(&format!("run seq-write {words} --ops 8 --block 128KiB")).succeeds();
    server.fault("latent 0..+64KiB");
    let pass = format!("run --verify-only --on {URI} --active 0..1MiB --no-notebook");
    let (_, cell) = verified(&place, &pass, 4);
    assert!(codes(&cell).contains(&"ERRORS"), "{cell}");
    server.stop();
}
