//! The rules for the load of a message log. `rules.rs` has the rules for other workloads.

use crate::faults::Faults;
use crate::log_load::WhenFull;
use crate::spec::{ArrivalKind, Content, MAX_THREADS, Percent, Spec};

const MAX_MESSAGE_BYTES: u64 = 8 << 20;
/// Maximum backlog of unpersisted messages, in messages.
const MAX_BACKLOG: u64 = 1 << 32;
/// Maximum number of chunks between two flushes.
const MAX_COMMIT_CHUNKS: u64 = 65_536;
/// Maximum number of the log's writes in flight.
const MAX_DEPTH: u32 = 64;
/// Overhead of a chunk that contains a single message, bytes.
const RECORD_BYTES: u64 = 128;

/// Adds a fault for each rule of `[log]` that the specification breaks.
pub(crate) fn check(spec: &Spec, faults: &mut Faults) {
    let Some(log) = &spec.log else { return };
    faults.whole("log.message", "a message's size", log.message_bytes.into(), MAX_MESSAGE_BYTES);
    faults.whole("log.publishers", "the number of publishers", log.publishers.into(), 1 << 20);
    faults.whole("log.commit", "the number of chunks", log.commit_chunks.into(), MAX_COMMIT_CHUNKS);
    faults.whole("log.replay", "the number of chunks", log.replay_chunks.into(), 1 << 30);
    if let Some(backlog) = log.backlog {
        faults.whole("log.backlog", "the number of messages", backlog, MAX_BACKLOG);
    }
    if let Some(batch) = log.batch {
        faults.whole("log.batch", "the number of messages", batch.into(), 1 << 30);
    }
    if log.rate_per_s.is_some_and(|rate| !(0.001..=1e9).contains(&rate)) {
        faults.add("log.rate", "a rate of messages must be from 0.001/s to 10^9/s", "");
    }
    if log.rate_per_s.is_none() && log.when_full == WhenFull::Drop {
        let help = "give a `rate`, or leave `when_full` out";
        faults.add("log.when_full", "messages can only be dropped if there is a rate", help);
    }
    if log.readers >= MAX_THREADS {
        faults.add(
            "log.readers",
            format!("at most {} replays can run at the same time", MAX_THREADS - 1),
            "",
        );
    } else if spec.threads != log.threads() {
        let message = format!(
            "`threads` is {}, but the log needs {}: one for the writer, and one for each replay (`log.readers` is {})",
            spec.threads,
            log.threads(),
            log.readers
        );
        faults.add("threads", message, "leave `threads` out, and change `log.readers`");
    }
    if spec.mix.iter().zip(log.mix()).any(|(ours, issued)| ours.total_cmp(&issued).is_ne()) {
        let help = "leave `mix` out: the log decides what is issued";
        faults.add("mix", "the mix differs from what the log issues", help);
    }
    if spec.depth > MAX_DEPTH {
        faults.add("depth", format!("a log must have at most {MAX_DEPTH} writes in flight"), "");
    }
    match spec.block.as_slice() {
        [block] => {
            let needed_bytes = u64::from(log.message_bytes) + RECORD_BYTES;
            let is_chunk = (4096..=16 << 20).contains(&block.bytes);
            if !is_chunk {
                faults.add("block", "a chunk of a log must be from 4 KiB to 16 MiB", "");
            } else if needed_bytes > u64::from(block.bytes) {
                let message = format!("a chunk of {} bytes does not hold one message", block.bytes);
                faults.add("log.message", message, "make `block` larger or `message` smaller");
            }
        }
        _ => faults.add("block", "the chunks of a log must all have one size", ""),
    }
    let without = [
        ("file_set", spec.file_set.is_some()),
        ("flush", spec.flush_bursts.is_some()),
        ("write.flush_every", spec.flush_every > 0),
        ("write.flush_at_end", spec.flush_at_end > 0),
        ("write.fua", spec.fua != Percent::ZERO),
        ("write.read_back", spec.read_back > 0),
        ("worker_step", spec.worker_step_bytes.is_some()),
        ("arrivals", !matches!(spec.arrivals, ArrivalKind::Closed { think_time_ns: 0, .. })),
        ("content", spec.content != Content::Incompressible),
        ("limits.passes", spec.limits.passes.is_some()),
    ];
    for (key, _) in without.into_iter().filter(|(_, given)| *given) {
        faults.add(key, format!("`{key}` has no effect on a log"), "remove it");
    }
}
