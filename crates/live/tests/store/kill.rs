//! A server killed at any instant leaves in the file what its device would have kept: all acknowledged data with a
//! protected buffer, all flushed data with a volatile one, and every unit whole, with a matching checksum.
//!
//! The test starts itself as a child that writes to a device forever and prints what was acknowledged, kills it at a
//! random moment, and checks the file. For more kills of each kind of device:
//! `IODYNO_STORE_KILLS=1000 cargo test --release -p iodyno-live --features host-faults --test store kill::`.

use crate::rig::{Device, begin, devices};
use iodyno_live::store::{Options, Store};
use iodyno_units::rng::{below, stream};
use iodyno_units::{Op, OpKind};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const UNITS: u64 = 64;
const CAPACITY: u64 = 1 << 30;
/// Environment variable with the device, the round and the file, set for the child process.
const VARIABLE: &str = "IODYNO_TEST_KILLED_STORE";

/// Number of kills of each kind of device.
fn kills() -> u64 {
    std::env::var("IODYNO_STORE_KILLS").map_or(12, |n| n.parse().unwrap())
}

/// The operation that a token determines. The token's high bits are the round.
fn op_of(token: u64) -> Op {
    let mut random = stream(token, "op", 0);
    let offset_bytes = below(&mut random, UNITS) * 4096;
    let len_bytes = 4096 * (1 + below(&mut random, 8.min(UNITS - offset_bytes / 4096)) as u32);
    match below(&mut random, 40) {
        0 => Op::FLUSH,
        1 => Op { offset_bytes, len_bytes, kind: OpKind::WriteZeroes, fua: false },
        n => Op { offset_bytes, len_bytes, kind: OpKind::Write, fua: n == 2 },
    }
}

fn device(name: &str) -> Device {
    devices().into_iter().find(|d| d.name == name).unwrap()
}

/// The child process. Run by the tests of this file, never directly.
#[test]
#[ignore = "the child of another test"]
fn child_that_serves_for_ever() {
    let words = std::env::var(VARIABLE).expect("set by the parent");
    let mut words = words.splitn(3, '/');
    let device = device(words.next().unwrap());
    let round: u64 = words.next().unwrap().parse().unwrap();
    let path = PathBuf::from(words.next().unwrap());
    let mut store = Store::in_file(&path, CAPACITY, device.options()).unwrap();
    let mut m = device.machine(round);
    let worker = m.add_worker(0);
    let mut changes = Vec::new();
    let mut now = 0;
    let mut out = std::io::stderr().lock();
    writeln!(out, "begun").unwrap();
    for token in round << 32.. {
        let op = op_of(token);
        begin(&mut store, token, &op, &token.to_le_bytes().repeat(op.len_bytes as usize / 8));
        m.submit(now, worker, 0, &op, token);
        // Some are in flight at once.
        now += token % 5 * 20_000;
        let mut done = Vec::new();
        while let Some(completion) = m.next_completion(now) {
            m.changes(&mut changes);
            store.changes(&changes);
            changes.clear();
            store.end_write(completion.token).unwrap();
            writeln!(done, "{} {token}.", completion.token).unwrap();
        }
        m.changes(&mut changes);
        store.changes(&changes);
        changes.clear();
        out.write_all(&done).unwrap();
    }
}

/// A child process without a machine, whose long writes take most of its time.
#[test]
#[ignore = "the child of another test"]
fn child_that_writes_for_ever() {
    let words = std::env::var(VARIABLE).expect("set by the parent");
    let mut words = words.splitn(3, '/');
    let round: u64 = words.nth(1).unwrap().parse().unwrap();
    let path = PathBuf::from(words.next().unwrap());
    let store = Store::in_file(&path, CAPACITY, Options::default()).unwrap();
    let mut out = std::io::stderr().lock();
    writeln!(out, "begun").unwrap();
    for n in 0_u64.. {
        let data = (round << 32 | n).to_le_bytes().repeat(131_072);
        store.write_now((n % 4) << 20, &data).unwrap();
        if n % 16 == 9 {
            store.trim_now(1 << 20, 2 << 20).unwrap();
        }
        writeln!(out, "{n}").unwrap();
    }
}

/// After a kill at any point of a long write, every unit has the content of one write, and a matching checksum.
#[test]
fn a_kill_in_a_write_tears_no_unit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut random = stream(1, "tears", 0);
    let mut cut_short = 0;
    for round in 1.. {
        // Whether a kill falls into a write is chance; that one does must be seen.
        if round > 2 * kills() && (cut_short > 0 || round > 20 * kills()) {
            break;
        }
        let (mut child, mut said) = serve("child_that_writes_for_ever", "none", round, &path);
        let _ = said.nth(8 + below(&mut random, 8) as usize);
        std::thread::sleep(Duration::from_micros(below(&mut random, 3_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let store = Store::in_file(&path, CAPACITY, Options::default()).unwrap();
        store.scrub(|unit| panic!("unit {unit} is corrupt")).unwrap();
        let mut all = vec![0; 4 << 20];
        store.read(0, &mut all).unwrap();
        assert!(all.chunks(4096).all(|unit| unit == unit[..8].repeat(512)));
        cut_short += u32::from(all.chunks(1 << 20).any(|w| w[..8] != w[(1 << 20) - 8..]));
    }
    assert!(cut_short > 0, "no write was cut short");
}

/// Content of a unit, and its permitted content after the next kill.
#[derive(Clone, Copy, Default)]
struct Unit {
    held: u64,
}

/// Starts a child process. Returns it and its output once it has begun to write.
fn serve(
    what: &str,
    device: &str,
    round: u64,
    path: &Path,
) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("kill::{what}"), "--ignored", "--nocapture"])
        .env(VARIABLE, format!("{device}/{round}/{}", path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line == "begun"));
    (child, said)
}

/// Kills a server at work again and again. Returns how many acknowledged writes were lost.
fn kill(name: &str, keeps: bool) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut random = stream(1, name, 2);
    let mut units = [Unit::default(); UNITS as usize];
    let mut lost = 0;
    for round in 1..=kills() {
        let (mut child, mut said) = serve("child_that_serves_for_ever", name, round, &path);
        let enough = 50 + below(&mut random, 500) as usize;
        let mut words: Vec<String> = said.by_ref().take(enough).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        // Reading to the end of the pipe gives all output.
        words.extend(said);
        // Token, and the newest that had been begun when its end was reported. Of a line that was cut short
        // nothing is known.
        let ends: Vec<(u64, u64)> = words
            .iter()
            .filter_map(|line| {
                let (token, newest) = line.strip_suffix('.')?.split_once(' ')?;
                Some((token.parse().ok()?, newest.parse().ok()?))
            })
            .collect();
        assert!(ends.len() >= enough.min(50));
        lost += check(&path, name, keeps, &ends, &mut units);
    }
    lost
}

fn check(path: &Path, name: &str, keeps: bool, ends: &[(u64, u64)], units: &mut [Unit]) -> u64 {
    let store = Store::in_file(path, CAPACITY, device(name).options()).unwrap();
    let scrub = store.scrub(|unit| panic!("{name}: unit {unit} is corrupt")).unwrap();
    assert!(scrub.sound_units > 0, "{scrub:?}");
    let mut lost = 0;
    for (number, unit) in (0..).zip(units) {
        let mut bytes = [0; 4096];
        store.read(number * 4096, &mut bytes).unwrap();
        let found = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes.chunks(8).all(|word| word == &bytes[..8]), "{name}: unit {number} is torn");
        let touches = |token: u64| {
            let op = op_of(token);
            let first = op.offset_bytes / 4096;
            op.kind != OpKind::Flush
                && (first..first + u64::from(op.len_bytes) / 4096).contains(&number)
        };
        // The writes of this unit whose end was reported, in the order of ends; and of these the last that is
        // durable for certain.
        let here: Vec<usize> = (0..ends.len()).filter(|&i| touches(ends[i].0)).collect();
        let last_flush = ends.iter().rfind(|e| op_of(e.0).kind == OpKind::Flush);
        let is_durable = |&i: &usize| {
            let op = op_of(ends[i].0);
            let zeroes = op.kind == OpKind::WriteZeroes;
            // It had ended before the flush was begun.
            keeps || op.fua || zeroes || last_flush.is_some_and(|f| ends[i].1 < f.0)
        };
        let durable: Vec<u64> =
            here.iter().copied().filter(|i| is_durable(i)).map(|i| ends[i].0).collect();
        // Older than this it can't be: what was over when a durable one began.
        let ended_before =
            |token: u64, begun: u64| ends.iter().any(|&(t, newest)| t == token && newest < begun);
        let holds_zeroes = found == 0;
        if holds_zeroes {
            // Written so, or never written: then nothing durable may have been.
            let zeroed = |&token: &u64| op_of(token).kind == OpKind::WriteZeroes;
            let first = ends.first().map_or(0, |e| e.0 >> 32 << 32);
            let newest = ends.last().map_or(0, |e| e.1);
            let zeroes: Vec<u64> =
                (first..=newest + 64).filter(|&t| touches(t)).filter(zeroed).collect();
            let could = |z: u64| durable.iter().all(|&d| !ended_before(z, d));
            assert!(
                (unit.held == 0 && durable.is_empty()) || zeroes.into_iter().any(could),
                "{name}: unit {number} holds zeroes; durable: {durable:?}"
            );
        } else if found == unit.held {
            assert!(durable.is_empty(), "{name}: unit {number} holds what was there before");
        } else {
            assert!(touches(found) && op_of(found).kind == OpKind::Write);
            let replaced = durable.iter().find(|&&d| ended_before(found, d));
            assert_eq!(replaced, None, "{name}: unit {number} holds {found}");
        }
        let newest = here.last().map(|&i| ends[i].0);
        lost += u64::from(newest.is_some_and(|n| found != n && found < n && found != 0));
        unit.held = found;
    }
    lost
}

#[test]
fn acknowledged_writes_survive_a_kill_where_the_buffer_is_protected() {
    kill("a protected buffer", true);
}

#[test]
fn flushed_writes_survive_a_kill_where_the_buffer_is_volatile() {
    let lost = kill("a volatile buffer", false);
    assert!(lost > 0, "what was not flushed is lost now and then");
}
