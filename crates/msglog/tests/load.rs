//! The load of a log on a disk whose writes and flushes take known times: rates and latencies have closed forms, and
//! recovery can open the log that was written.

use crate::common;

use common::disk::Disk;
use iodyno_measure::MessageLog;
use iodyno_msglog::recovery::recover;
use iodyno_msglog::{LoadOfTarget, LoadShape, LogSource, Storage as _};
use iodyno_units::{Op, OpKind};
use iodyno_workload::{Next, Outcome, Source as _, Spec};
use std::collections::BTreeMap;

const WRITE_NS: u64 = 100_000;
const FLUSH_NS: u64 = 300_000;
const SECOND_NS: u64 = 1_000_000_000;

/// An operation in flight: its worker, the operation, its token and its bytes.
type InFlight = (usize, Op, u64, Vec<u8>);

/// Runs the load for two seconds, of which the second one is measured. Returns the results and the disk.
fn run(keys: &str, depth: u32, readers: u32) -> (MessageLog, Disk) {
    run_for(SECOND_NS, keys, depth, readers)
}

/// Runs the load for twice `time_ns`, of which the second half is measured.
fn run_for(time_ns: u64, keys: &str, depth: u32, readers: u32) -> (MessageLog, Disk) {
    let text = format!("schema = 1\ndepth = {depth}\nlog = {{ readers = {readers}{keys} }}");
    let spec = Spec::from_toml(&text).unwrap();
    let capacity_bytes = 16 << 20;
    let shape = LoadShape {
        start_bytes: 0,
        end_bytes: capacity_bytes,
        chunk_bytes: spec.max_data_bytes(),
        align_bytes: spec.align_bytes(),
        depth,
        ramp_ns: time_ns,
        time_ns: Some(time_ns),
        interval_ns: time_ns / 10,
        returns_bytes: true,
        seed: 7,
    };
    let shared = LoadOfTarget::new(spec.log().unwrap(), shape).unwrap();
    let disk = Disk::new(capacity_bytes as usize);
    let mut workers: Vec<LogSource> =
        (0..spec.threads()).map(|worker| LogSource::new(&shared, worker)).collect();
    for worker in &mut workers {
        worker.start(0);
    }
    // In flight: end, worker, and what it is.
    let mut in_flight: BTreeMap<(u64, u64), InFlight> = BTreeMap::new();
    let (mut now_ns, mut number) = (0, 0);
    let mut again_ns: Vec<u64> = vec![0; workers.len()];
    while now_ns < 2 * time_ns {
        for (i, worker) in workers.iter_mut().enumerate() {
            loop {
                let busy = in_flight.values().filter(|it| it.0 == i).count();
                if busy >= depth as usize {
                    again_ns[i] = u64::MAX;
                    break;
                }
                match worker.next(now_ns, depth as usize - busy) {
                    Next::Issue(issue) => {
                        let mut bytes = vec![0; issue.op.len_bytes as usize];
                        let takes_ns = match issue.op.kind {
                            OpKind::Flush => FLUSH_NS,
                            OpKind::Write => {
                                worker.fill(&issue.op, issue.token, &mut bytes);
                                WRITE_NS
                            }
                            _ => 50_000,
                        };
                        number += 1;
                        in_flight
                            .insert((now_ns + takes_ns, number), (i, issue.op, issue.token, bytes));
                    }
                    Next::WaitUntil(ns) => {
                        assert!(ns > now_ns, "a wait until {ns} at {now_ns}");
                        again_ns[i] = ns;
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        let ended = in_flight.first_key_value().map(|((at, _), _)| *at);
        let asked = again_ns.iter().copied().min().unwrap_or(u64::MAX);
        now_ns = ended.unwrap_or(u64::MAX).min(asked);
        while let Some(entry) = in_flight.first_entry().filter(|entry| entry.key().0 <= now_ns) {
            let (i, op, token, mut bytes) = entry.remove();
            match op.kind {
                OpKind::Write => disk.write_at(op.offset_bytes, &bytes).unwrap(),
                OpKind::Read => {
                    disk.read_at(op.offset_bytes, &mut bytes).unwrap();
                    assert!(workers[i].check(&op, &bytes), "a replay read what is no chunk");
                }
                _ => {}
            }
            workers[i].completed(&op, token, Outcome::Succeeded, now_ns);
        }
    }
    for worker in &mut workers {
        worker.end(2 * time_ns);
    }
    disk.flush().unwrap();
    (shared.outcome(), disk)
}

fn close(ours: f64, expected: f64, within: f64) {
    assert!((ours / expected - 1.0).abs() <= within, "{ours} is not {expected}");
}

#[test]
fn rates_and_times_have_closed_forms() {
    // One message at a time: a write and a flush each.
    let (log, _) = run(", durability = \"each\"", 1, 0);
    close(log.messages as f64, 1e9 / (WRITE_NS + FLUSH_NS) as f64, 0.01);

    // By a low rate each message finds an idle log.
    let (log, _) = run(", rate = \"1k/s\"", 1, 0);
    assert_eq!(log.messages, 1000);
    assert_eq!((log.persist.min_ns(), log.persist.max_ns()), (Some(400_000), Some(400_000)));

    // Groups: at most `commit` chunks of `batch` messages to a flush.
    let (log, _) = run(", batch = 10, commit = 4", 1, 0);
    close(log.messages as f64, 40e9 / (4 * WRITE_NS + FLUSH_NS) as f64, 0.01);
    assert_eq!(log.chunks, 4 * log.flushes);
    // Little: publishers always hold two groups.
    let held = log.persist.mean_ns().unwrap() * log.messages as f64 / 1e9;
    close(held, 80.0, 0.02);

    // Without durability, and with durable writes, nothing is flushed.
    for keys in [", batch = 10, durability = \"none\"", ", batch = 10, fua = true"] {
        let (log, _) = run(keys, 1, 0);
        close(log.messages as f64, 10e9 / WRITE_NS as f64, 0.01);
        assert_eq!(log.flushes, 0, "{keys}");
    }

    // Several writes at once, and a flush for all of them.
    let (log, _) = run(", batch = 10, commit = 4", 4, 0);
    assert!(log.messages as f64 > 40e9 / (WRITE_NS + FLUSH_NS) as f64 * 0.99, "{}", log.messages);
}

#[test]
fn publishers_wait_or_drop_when_the_log_is_slower() {
    let capacity_per_s = 40e9 / (4 * WRITE_NS + FLUSH_NS) as f64;
    let rate = 2.0 * capacity_per_s;
    let keys = format!(", batch = 10, commit = 4, rate = \"{rate}/s\", backlog = 1000");
    let (log, _) = run(&keys, 1, 0);
    close(log.messages as f64, capacity_per_s, 0.01);
    assert!(log.blocked_ns > 19 * SECOND_NS / 10, "{}", log.blocked_ns);
    // Over two seconds as many are late as came too much.
    close(log.backlog_end as f64, 2.0 * (rate - capacity_per_s), 0.02);

    let (log, _) = run(&format!("{keys}, when_full = \"drop\""), 1, 0);
    close(log.messages as f64, capacity_per_s, 0.01);
    close(log.dropped as f64, 2.0 * (rate - capacity_per_s), 0.02);
    assert!(log.backlog_max <= 1000, "{}", log.backlog_max);
    assert_eq!(log.blocked_ns, 0);
}

#[test]
fn what_the_load_writes_is_a_log_that_replays_and_recovery_read() {
    for (keys, depth) in [
        ("", 1),
        (", batch = 7", 3),
        (", message = 3000", 2),
        (", rate = \"50k/s\", publishers = 5", 1),
        (", durability = \"none\", message = 60000", 4),
    ] {
        let (log, disk) = run_for(SECOND_NS / 20, keys, depth, 2);
        assert_eq!(log.replay_errors, 0, "{keys}");
        assert!(log.replayed > 0 && log.messages > 0, "{keys}");
        let mut sequences: BTreeMap<u64, u64> = BTreeMap::new();
        let mut next = None;
        let found = recover(&disk, |chunk| {
            for (number, message) in chunk.messages() {
                assert_eq!(next.unwrap_or(number), number, "{keys}");
                next = Some(number + 1);
                let last = sequences.insert(message.publisher, message.sequence);
                assert!(last.is_none_or(|last| last + 1 == message.sequence), "{keys}");
            }
        });
        let found = found.unwrap();
        assert!(found.damages.is_empty(), "{keys}: {:?}", found.damages);
        assert!(found.tail.next_message > log.messages, "{keys}");
        let publishers = if keys.contains("publishers") { 5 } else { 1 };
        assert_eq!(sequences.len(), publishers, "{keys}");
    }
}
