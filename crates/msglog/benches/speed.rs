//! Speed of a log on one core, in messages per second: appending, sealing and recycling, with the copy to the target's
//! memory. Also the cost of a snapshot of its values. Printed, not asserted: `cargo bench -p iodyno-msglog`.

use iodyno_msglog::log::Tail;
use iodyno_msglog::{Action, CommitRule, Layout, Log, LogOptions, Message, MessageKind, State};
use iodyno_units::rng::{below, stream};
use std::time::Instant;

const MESSAGES: u64 = 4_000_000;

fn messages_a_second(keeps_state: bool, key_of: impl Fn(u64) -> [u8; 8], has_key: bool) -> f64 {
    let (chunk_bytes, segment_bytes) = (64 << 10, 8 << 20);
    let layout = Layout::new(1, (64 << 10) + 16 * segment_bytes, segment_bytes, chunk_bytes, 4096);
    let layout = layout.unwrap();
    let options = LogOptions {
        commit: CommitRule { depth: 4, ..CommitRule::DEFAULT },
        keeps_state,
        ..LogOptions::default()
    };
    let mut log = Log::new(layout, options, Tail::empty(), State::default());
    let mut target = vec![0_u8; layout.capacity_bytes as usize];
    let mut buffer = || vec![0_u8; chunk_bytes as usize];
    let body = [7_u8; 512];
    let began = Instant::now();
    let mut appended = 0;
    while appended < MESSAGES {
        let key = key_of(appended);
        let key: &[u8] = if has_key { &key } else { &[] };
        let message = Message {
            kind: MessageKind::Publish,
            publisher: 0,
            sequence: 0,
            time_ns: appended,
            topic: "orders",
            key,
            body: &body,
        };
        if log.append(&message, &mut buffer).is_ok() {
            appended += 1;
            continue;
        }
        while let Some(action) = log.next_action() {
            match action {
                Action::Write { chunk, offset_bytes, len_bytes, buffer } => {
                    target[offset_bytes as usize..][..len_bytes]
                        .copy_from_slice(&buffer[..len_bytes]);
                    drop(buffer);
                    log.written(chunk, true);
                }
                Action::Flush => log.flushed(true),
            }
            while let Some(chunk) = log.next_persisted() {
                log.recycle(chunk.buffer);
            }
        }
    }
    MESSAGES as f64 / began.elapsed().as_secs_f64()
}

fn rates_of_512_byte_messages() {
    let none = |_| [0; 8];
    println!("no state, no key   {:>10.0} messages/s", messages_a_second(false, none, false));
    println!("state, no key      {:>10.0} messages/s", messages_a_second(true, none, false));
    let key = |i: u64| (i % 1000).to_le_bytes();
    println!("state, 1,000 keys  {:>10.0} messages/s", messages_a_second(true, key, true));
}

/// Applies one message per key.
fn apply(state: &mut State, keys: impl Iterator<Item = u64>) -> f64 {
    let body = [7_u8; 100];
    let began = Instant::now();
    for (key, number) in keys.zip(1..) {
        let key = key.to_be_bytes();
        let message = Message {
            kind: MessageKind::Publish,
            publisher: 0,
            sequence: 0,
            time_ns: 0,
            topic: "orders",
            key: &key,
            body: &body,
        };
        state.apply(&message, number, 0);
    }
    began.elapsed().as_secs_f64()
}

fn a_snapshot_of_a_million_values() {
    const VALUES: u64 = 1_000_000;
    let rng = &mut stream(1, "keys", 0);
    let mut keys: Vec<u64> = (0..VALUES).map(|key| key * 7).collect();
    for i in 0..keys.len() {
        keys.swap(i, below(rng, VALUES) as usize);
    }
    let mut state = State::default();
    apply(&mut state, keys.iter().copied());
    for round in 1..=5 {
        let alone_s = apply(&mut state, keys.iter().copied());
        // As `Snapshot::take` of the server does, with the log's lock held; in a thread that did not make the values: the
        // allocator of the one that did may clean up first.
        let take = || {
            let began = Instant::now();
            let snapshot: Vec<_> = state.leaves("orders").cloned().collect();
            (snapshot, began.elapsed().as_secs_f64())
        };
        let taken = std::thread::scope(|scope| scope.spawn(take).join());
        let (snapshot, taken_s) = taken.unwrap();
        let shared_s = apply(&mut state, keys.iter().copied());
        println!(
            "round {round}: {} leaves in {:.2} ms; a million changes take {:.0} ms, and {:.0} ms while a snapshot is held",
            snapshot.len(),
            taken_s * 1e3,
            alone_s * 1e3,
            shared_s * 1e3
        );
    }
}

fn main() {
    rates_of_512_byte_messages();
    a_snapshot_of_a_million_values();
}
