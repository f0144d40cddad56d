//! A machine driven by the tests' own clock: compensation of the transport, and the thread that delivers completions.

use crate::common;

use common::{flash, system};
use iodyno_emulate::Machine;
use iodyno_emulate::spec::{Attach, Kind, Written};
use iodyno_live::poller::Lead;
use iodyno_live::record::Recorder;
use iodyno_live::served::{Client, Live, Options, Payload, Sink};
use iodyno_live::transport::Transport;
use iodyno_units::{IoError, Op, OpKind};
use std::cell::Cell;
use std::sync::Arc;

struct Discard;

impl Sink for Discard {
    fn done(self, result: Result<(), IoError>) {
        result.expect("a read of an idle device");
    }
}

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

fn pass(ns: u64) {
    NOW_NS.set(NOW_NS.get() + ns);
}

/// A preconditioned flash device at half a millisecond of its time, on a host that needs `host_ns` to issue an
/// operation.
fn live(transport: Option<Transport>, host_ns: u64) -> Arc<Live<Discard>> {
    let written = Written::Random { block_bytes: 4096 };
    let mut flash = flash();
    if let Attach::Link { host_ns: cost_ns, .. } = &mut flash.attach {
        *cost_ns = host_ns;
    }
    let mut machine = Machine::new(&system(Kind::Flash(Box::new(flash)), written, 1), 1).unwrap();
    machine.add_worker(0);
    let options = Options { transport, ..Options::default() };
    NOW_NS.set(1_000_000);
    let live = Live::new(machine, Vec::new(), &options, || NOW_NS.get());
    pass(500_000);
    Arc::new(live)
}

const READ: Op = Op { offset_bytes: 0, len_bytes: 4096, kind: OpKind::Read, fua: false };

fn reads(live: &Live<Discard>) -> u64 {
    live.look(|_, _, counts| counts[0].operations[OpKind::Read.index()])
}

/// A read is delivered on time, whether its request finds the thread awake or asleep.
#[test]
fn the_transport_is_compensated() {
    let at = |transport: Option<Transport>, woken: bool| {
        let live = live(transport, 0);
        let before_ns = if woken { live.waking_ns() } else { 0 };
        live.submit_of(
            Client { attached: None, waited_ns: before_ns },
            0,
            0,
            &READ,
            Payload::None,
            Discard,
        );
        let since_ns = NOW_NS.get();
        while reads(&live) == 0 {
            pass(100);
        }
        NOW_NS.get() - since_ns
    };
    let model_ns = at(None, false);
    assert!(model_ns > 15_000, "{model_ns}");
    let transport = Transport { round_trip_ns: 3_000, taking_ns: 2_000, waking_ns: 8_000 };
    assert_eq!(at(None, true), model_ns, "nothing is known, nothing is taken off");
    assert_eq!(at(Some(transport), false), model_ns - 3_000);
    assert_eq!(at(Some(transport), true), model_ns - 11_000);
    assert_eq!(
        at(Some(Transport { waking_ns: 10_000_000, ..transport }), true),
        0,
        "but not before it"
    );
}

/// One thread at a time leads: while its client waits for an answer that is due soon, and until the client has been
/// silent for a while.
#[test]
fn the_leading_thread_delivers_what_is_due_and_leaves() {
    if !Lead::<Discard>::is_possible() {
        return;
    }
    let live = live(None, 0);
    let (mut one, mut other) = (Lead::new(Arc::clone(&live)), Lead::new(Arc::clone(&live)));
    assert!(!one.poll(true), "nothing is due");
    live.submit(0, 0, &READ, Payload::None, Discard);
    assert!(!one.poll(false), "it is another's concern");
    assert!(one.poll(true));
    assert!(!other.poll(true), "one leads");
    while reads(&live) == 0 {
        assert!(one.poll(true));
        pass(1_000);
    }
    // Its client takes its time: the thread does not wait for it.
    assert!(!one.poll(false));
    for _ in 0..2 {
        live.submit(0, 0, &READ, Payload::None, Discard);
        one.request_submitted();
        assert!(one.poll(true));
        let due_ns = live.next_ns();
        while live.next_ns() == due_ns || live.next_ns() < u64::MAX {
            pass(1_000);
            assert!(one.poll(true));
        }
        pass(20_000);
    }
    // It sent again at once the last time.
    one.request_submitted();
    assert!(one.poll(false) && !other.poll(true));
    pass(100_000);
    assert!(!one.poll(false));
    live.submit(0, 0, &READ, Payload::None, Discard);
    assert!(other.poll(true), "the lead was left");
    drop(other);
    assert!(one.poll(true), "and again");
    pass(1_000_000);
    assert!(one.poll(true) && one.poll(false));
    pass(1_000_000);
    assert!(!one.poll(false));
    one.request_submitted();
    assert!(!one.poll(false), "it had been silent for long");
}

/// A request that waited is submitted as of its arrival, but never before an earlier submission, because a record of it
/// could not be replayed.
#[test]
fn submissions_stay_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let transport = Transport { round_trip_ns: 3_000, taking_ns: 2_000, waking_ns: 8_000 };
    let live = live(Some(transport), 5_000);
    live.record(Recorder::create(&path, &serde_json::json!({})).unwrap());
    for before_ns in [8_000, 0, 8_000] {
        live.submit_of(
            Client { attached: None, waited_ns: before_ns },
            0,
            0,
            &READ,
            Payload::None,
            Discard,
        );
        pass(1_000);
    }
    live.end(|_| 0).unwrap();
    let record = std::fs::read_to_string(&path).unwrap();
    let at = |line: &str| line.strip_prefix("o ")?.split(' ').next()?.parse::<u64>().ok();
    let times: Vec<u64> = record.lines().filter_map(at).collect();
    assert_eq!(times[..3], [492_000, 501_000, 501_000]);
}
