//! The seeds pass their targets: those of NBD, exchanges captured between real programs, however they are cut; and of the
//! other targets each is taken. A few mutations of each are played too; long runs are by the fuzzers.

use iodyno_fuzz::{exchange, fault_words, log_recovery, nbd, notebook, stable};
use std::fs;
use std::path::Path;

fn seeds(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(folder);
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn captured_clients() {
    let live = nbd::Live::new();
    let seeds = seeds("nbd_server");
    assert!(seeds.len() > 10);
    for bytes in &seeds {
        for choice in 0..=u8::MAX {
            nbd::server(&[&[choice], &bytes[1..]].concat());
        }
        live.play(&bytes[1..]);
    }
    live.still_serves();
}

#[test]
fn captured_servers() {
    let seeds = seeds("nbd_client");
    assert!(seeds.len() > 10);
    for bytes in &seeds {
        for choice in 0..=u8::MAX {
            nbd::client(&[&[choice], &bytes[1..]].concat());
        }
    }
}

/// Each seed is taken, and mutations are taken and refused.
fn check(folder: &str, mutations: u64, function: fn(&[u8]) -> bool) {
    let seeds = seeds(folder);
    for (number, bytes) in seeds.iter().enumerate() {
        assert!(function(bytes), "seed {number} of {folder}: {}", bytes.escape_ascii());
    }
    let taken = (0..mutations).filter(|&case| function(&stable::mutation(&seeds, 1, case))).count();
    let taken = taken as u64;
    assert!(taken > 0 && taken < mutations, "{folder}: {taken} of {mutations} are taken");
}

#[test]
fn foreign_workloads() {
    check("exchange", 500, exchange::workload);
}

#[test]
fn traces() {
    check("trace", 500, exchange::trace);
}

#[test]
fn words_of_faults() {
    check("fault_words", 2000, fault_words::parse);
}

#[test]
fn damaged_logs() {
    check("log_recovery", 200, log_recovery::recover);
}

#[test]
fn imported_runs() {
    check("notebook", 200, notebook::import);
}
