//! Bursts of flushes, and reads and writes in a ratio, compared with an independent implementation of the rules of
//! sysbench's `fileio`, with workers in any order and completions at any time.

use iodyno_units::OpKind;
use iodyno_workload::{Geometry, Percent, Shared, Spec, Stream};
use proptest::prelude::*;
use std::collections::VecDeque;

fn spec(text: &str) -> Spec {
    Spec::from_toml(&format!("schema = 1\n{text}")).unwrap_or_else(|e| panic!("{text}: {e:?}"))
}

fn streams(spec: &Spec, workers: u32) -> Vec<Stream> {
    let geometry = Geometry { capacity_bytes: 1 << 22, align_bytes: 512, workers };
    let shared = Shared::new(spec, 7, &geometry).unwrap();
    (0..workers).map(|worker| Stream::new(&shared, worker)).collect()
}

/// Independent implementation of the rules, which counts all operations since the start.
#[derive(Default)]
struct Reference {
    issued: u64,
    flushed_of_burst: u64,
    is_dirty: bool,
    reads_done: u64,
    writes_done: u64,
}

impl Reference {
    fn next(&mut self, ratio: f64, every: u64, burst: u64) -> OpKind {
        let reads = (self.reads_done + 1) as f64 / ((self.writes_done + 1) as f64) < ratio;
        if self.is_dirty && self.issued.is_multiple_of(every) {
            self.flushed_of_burst += 1;
            if self.flushed_of_burst == burst {
                self.flushed_of_burst = 0;
                self.is_dirty = false;
            }
            return OpKind::Flush;
        }
        self.issued += 1;
        self.is_dirty |= !reads;
        if reads { OpKind::Read } else { OpKind::Write }
    }

    fn completed(&mut self, kind: OpKind) {
        self.reads_done += u64::from(kind == OpKind::Read);
        self.writes_done += u64::from(kind == OpKind::Write);
    }
}

proptest! {
    #[test]
    fn kinds_follow_the_rules(
        ratio in prop_oneof![Just(1.5), 0.05_f64..20.0],
        every in 1_u64..40,
        burst in 1_u64..10,
        turns in prop::collection::vec((0_usize..3, 0_usize..4), 1..600),
    ) {
        let spec = spec(&format!(
            "mix_order = \"ratio\"\nmix = {{ read = {ratio}, write = 1 }}\n\
             flush = {{ every = {every}, burst = {burst} }}"
        ));
        let mut workers = streams(&spec, 3);
        let mut reference = Reference::default();
        let mut in_flight = VecDeque::new();
        for (worker, completions) in turns {
            let kind = workers[worker].next_op().kind;
            prop_assert_eq!(kind, reference.next(ratio, every, burst));
            in_flight.push_back((worker, kind));
            for _ in 0..completions {
                let Some((worker, kind)) = in_flight.pop_front() else { break };
                workers[worker].completed(kind);
                reference.completed(kind);
            }
        }
    }
}

/// One worker with one operation at a time issues the same kinds of operation as sysbench 1.0.20, observed by strace.
#[test]
fn one_worker_issues_a_fixed_sequence() {
    let spec = spec(
        "mix_order = \"ratio\"\nmix = { read = 1.5, write = 1 }\nflush = { every = 10, burst = 4 }",
    );
    let mut worker = streams(&spec, 1).remove(0);
    let kinds: String = (0..28)
        .map(|_| {
            let kind = worker.next_op().kind;
            worker.completed(kind);
            match kind {
                OpKind::Read => 'r',
                OpKind::Write => 'w',
                _ => 'f',
            }
        })
        .collect();
    assert_eq!(kinds, "rwrwrrwrwrffffrwrwrrwrwrffff");
}

/// A burst requires a write since the last burst. Bursts do not change the shares of a drawn mix.
#[test]
fn bursts_come_between_the_draws_of_a_mix() {
    let spec = spec("mix = { read = 9, write = 1 }\nflush = { every = 3 }");
    assert!(spec.issues(OpKind::Flush));
    let mut worker = streams(&spec, 1).remove(0);
    let (mut is_dirty, mut flushes, mut writes) = (false, 0, 0);
    for i in 0..40_000 {
        match worker.next_op().kind {
            OpKind::Flush => {
                assert!(is_dirty && (i - flushes) % 3 == 0);
                (is_dirty, flushes) = (false, flushes + 1);
            }
            kind => {
                is_dirty |= kind == OpKind::Write;
                writes += u32::from(kind == OpKind::Write);
            }
        }
    }
    let others = f64::from(40_000 - flushes);
    let deviation = (others * 0.1 * 0.9).sqrt();
    assert!((f64::from(writes) - others * 0.1).abs() < 5.0 * deviation, "{writes} of {others}");
    assert!(flushes > 2000, "{flushes}");
}

/// The stored form contains the order of the mix and the bursts of flushes. Flags that contradict these settings
/// replace them.
#[test]
fn stored_and_overridden() {
    let spec = spec(
        "mix_order = \"ratio\"\nmix = { read = 1.5, write = 1 }\nflush = { every = 100, burst = 128 }",
    );
    assert_eq!(Spec::from_toml(&spec.to_toml()), Ok(spec.clone()));
    let reads = spec.clone().with_read_share(Percent::ALL).unwrap();
    assert!(!reads.issues(OpKind::Flush));
    let own = spec.clone().with_flush_every(8).unwrap();
    assert_eq!(own.changes_from(&spec, None, false), ["fsync every 8"]);
}
