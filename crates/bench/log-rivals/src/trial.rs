//! Runs one contender with one batch size in its own process: a warm-up, the measurement, then a check that the
//! reopened store holds all acknowledged messages.

use crate::contender::BODY_BYTES;
use crate::{Options, Outcome, by_name};
use iodyno_units::rng::random_words;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Line written to standard error before the measurement, to find its start in a trace of system calls.
pub(crate) const MARK_BEGIN: &str = "log-rivals: begins";
pub(crate) const MARK_END: &str = "log-rivals: ends";

const WARM_UP: Duration = Duration::from_millis(200);
/// Size of the pool of random bytes from which messages are taken.
const POOL_BYTES: usize = 4 << 20;
const SEED: u64 = 22;

/// Counts and latencies of one trial.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Number of messages acknowledged in the measured window.
    pub(crate) messages: u64,
    pub(crate) seconds: f64,
    /// Latency of each batch in order, ns: from the call to the acknowledgement.
    pub(crate) latencies_ns: Vec<u64>,
    /// Number of flushes that the disk completed in the measured window, including those of other programs;
    /// `None` if the disk is unknown.
    pub(crate) disk_flushes: Option<u64>,
}

impl Trial {
    pub(crate) fn rate(&self) -> f64 {
        self.messages as f64 / self.seconds
    }
}

/// Builds the command line that runs one trial in a process of its own.
pub(crate) fn command(options: &Options, name: &str, batch: usize, rule: &str) -> Outcome<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["trial", name, &batch.to_string(), rule, &options.nats]);
    command.arg(&options.dir);
    Ok(command)
}

/// Runs a trial's process and parses its output.
pub(crate) fn run(mut command: Command) -> Outcome<Trial> {
    let output = command.output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} ended with {}: {errors}", output.status).into());
    }
    let line: Value = serde_json::from_slice(&output.stdout)?;
    let latencies = line["latencies_ns"].as_array().ok_or("no latencies")?;
    Ok(Trial {
        messages: line["messages"].as_u64().ok_or("no messages")?,
        seconds: line["seconds"].as_f64().ok_or("no seconds")?,
        latencies_ns: latencies.iter().filter_map(Value::as_u64).collect(),
        disk_flushes: line["disk_flushes"].as_u64(),
    })
}

/// Runs one trial. Arguments: `NAME BATCH RULE NATS DIR`. `RULE` is a measuring time after a warm-up, such as
/// `2.5s`, or a number of batches, such as `300`.
pub(crate) fn main(args: &[String]) -> Outcome<()> {
    let [name, batch, rule, nats, dir] = args else {
        return Err("trial NAME BATCH SECONDSs|COMMITS NATS DIR".into());
    };
    let batch: usize = batch.parse()?;
    let dir = Path::new(dir);
    fs::create_dir_all(dir)?;
    by_name::remove_stores(dir);
    let mut contender = by_name::open(name, dir, nats, batch)?;
    let (warm_up, time, commits) = match rule.strip_suffix('s') {
        Some(seconds) => (WARM_UP, Duration::from_secs_f64(seconds.parse()?), u64::MAX),
        None => (Duration::ZERO, Duration::MAX, rule.parse()?),
    };
    let mut pool = vec![0; POOL_BYTES + BODY_BYTES];
    random_words(&mut pool, SEED);
    let mut next = 1;
    let mut bodies = Vec::with_capacity(batch);
    let mut commit = || {
        bodies.clear();
        bodies.extend((next..).take(batch).map(|number| body(&pool, number)));
        let start = Instant::now();
        contender.commit(next, &bodies)?;
        next += batch as u64;
        Outcome::Ok(start.elapsed().as_nanos() as u64)
    };
    let start = Instant::now();
    while start.elapsed() < warm_up {
        commit()?;
    }
    let mut latencies_ns = Vec::new();
    mark(MARK_BEGIN)?;
    let before = disk_flushes(dir);
    let start = Instant::now();
    while start.elapsed() < time && (latencies_ns.len() as u64) < commits {
        latencies_ns.push(commit()?);
    }
    let seconds = start.elapsed().as_secs_f64();
    let after = disk_flushes(dir);
    mark(MARK_END)?;

    let stored = next - 1;
    let held = contender.reopen()?;
    if held.messages != stored {
        let found = held.messages;
        return Err(format!("{name} acknowledged {stored} messages, but holds {found}").into());
    }
    if held.last != body(&pool, stored) {
        return Err(format!("the last message that {name} holds has the wrong content").into());
    }
    by_name::remove_stores(dir);
    let disk_flushes = before.zip(after).map(|(before, after)| after - before);
    let messages = latencies_ns.len() * batch;
    let line = json!({
        "messages": messages, "seconds": seconds, "disk_flushes": disk_flushes,
        "latencies_ns": latencies_ns,
    });
    println!("{line}");
    Ok(())
}

fn body(pool: &[u8], number: u64) -> &[u8] {
    &pool[(number as usize * 72) % POOL_BYTES..][..BODY_BYTES]
}

fn mark(text: &str) -> Outcome<()> {
    Ok(std::io::stderr().write_all(format!("{text}\n").as_bytes())?)
}

/// Number of flushes that the disk of a folder has completed since the disk was attached; `None` without a block
/// device.
fn disk_flushes(dir: &Path) -> Option<u64> {
    let device = fs::metadata(dir).ok()?.dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    stat.split_whitespace().nth(15)?.parse().ok()
}
