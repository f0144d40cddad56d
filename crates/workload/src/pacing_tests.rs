//! Paces of closed and open loops, pauses, flushes that are waited for, and flows.

use super::*;

/// Number of completions by `until_ns` on a simulated device that takes 100 ns per operation.
fn completions_in(pacing: &mut Pacing, depth: usize, until_ns: u64) -> u64 {
    let (mut now, mut done) = (0, 0);
    let mut flying: VecDeque<u64> = VecDeque::new();
    loop {
        match pacing.step(now, depth - flying.len()) {
            Step::Issue(_) => {
                flying.push_back(now + 100);
                continue;
            }
            Step::WaitUntil(t) => now = flying.front().map_or(t, |&f| f.min(t)),
            Step::WaitCompletion => now = flying[0],
            Step::Done => return done,
        }
        if now > until_ns {
            return done;
        }
        while flying.front().is_some_and(|&f| f <= now) {
            flying.pop_front();
            pacing.completed(OpKind::Read, now);
            done += 1;
        }
    }
}

/// Final operations begin once earlier operations have completed, are issued one after the other, and are
/// followed by `Done`.
#[test]
fn what_ends_it_comes_one_by_one() {
    let mut pacing = Pacing::closed(4, 0, false);
    assert_eq!((pacing.step(0, 4), pacing.step(0, 3)), (Step::Issue(None), Step::Issue(None)));
    pacing.close(4, 2);
    assert_eq!(
        (pacing.step(1, 2), pacing.step(2, 3)),
        (Step::WaitCompletion, Step::WaitCompletion)
    );
    assert_eq!((pacing.step(3, 4), pacing.step(4, 3)), (Step::Issue(None), Step::WaitCompletion));
    assert_eq!((pacing.step(5, 4), pacing.step(6, 4)), (Step::Issue(None), Step::Done));
}

#[test]
fn closed_loops_have_their_closed_form() {
    // depth / (service + think), Little's law for a closed system.
    assert_eq!(completions_in(&mut Pacing::closed(4, 0, false), 4, 10_000), 400);
    assert_eq!(completions_in(&mut Pacing::closed(4, 300, false), 4, 10_000), 4 * 25);
    assert_eq!(completions_in(&mut Pacing::closed(4, 300, true), 4, 10_000), 4 * 25);
}

/// A slow operation delays only the next operation in its own slot, or, with `think_drains`, all slots.
#[test]
fn think_time_drains_only_when_configured() {
    let mut own = Pacing::closed(2, 50, false);
    let mut drained = Pacing::closed(2, 50, true);
    for pacing in [&mut own, &mut drained] {
        assert_eq!(pacing.step(0, 2), Step::Issue(None));
        assert_eq!(pacing.step(0, 1), Step::Issue(None));
        pacing.completed(OpKind::Read, 10);
    }
    assert_eq!(own.step(60, 1), Step::Issue(None));
    assert_eq!(drained.step(60, 1), Step::WaitCompletion);
    drained.completed(OpKind::Read, 1000);
    assert_eq!(drained.step(1001, 2), Step::WaitUntil(1050));
}

/// A full queue is refilled when it has drained to `refill_at`, not earlier.
#[test]
fn a_full_queue_is_filled_again_at_its_mark() {
    let spec = Spec::from_toml(
        "schema = 1\ndepth = 4\nmix = { read = 1 }\narrivals = { kind = \"closed\", refill_at = 1 }",
    );
    let mut pacing = Pacing::new(&spec.unwrap(), 1, WorkerIndex::ALONE, 4);
    let mut issued = Vec::new();
    let mut in_flight = 0;
    for _ in 0..9 {
        let before = in_flight;
        while pacing.step(0, 4 - in_flight) == Step::Issue(None) {
            in_flight += 1;
        }
        issued.push(in_flight - before);
        pacing.completed(OpKind::Read, 0);
        in_flight -= 1;
    }
    assert_eq!(issued, [4, 0, 0, 3, 0, 0, 3, 0, 0]);
}

/// While a flush is in flight, nothing is issued, in a closed loop and in an open one. Other completions change
/// nothing.
#[test]
fn a_worker_waits_for_its_flush() {
    for arrivals in
        ["kind = \"closed\"", "kind = \"open\", rate = \"1M/s\", process = \"constant\""]
    {
        let of = |waits: bool| {
            let spec = Spec::from_toml(&format!(
                "schema = 1\ndepth = 4\nmix = {{ write = 1 }}\narrivals = {{ {arrivals} }}\n\
                 write = {{ flush_every = 8, flush_waits = {waits} }}"
            ));
            Pacing::new(&spec.unwrap(), 1, WorkerIndex::ALONE, 4)
        };
        for waits in [true, false] {
            let mut pacing = of(waits);
            for kind in [OpKind::Write, OpKind::Flush] {
                assert!(matches!(pacing.step(10_000, 4), Step::Issue(_)));
                pacing.issued(kind);
            }
            pacing.completed(OpKind::Write, 10_000);
            assert_eq!(pacing.step(10_000, 3) == Step::WaitCompletion, waits);
            pacing.completed(OpKind::Flush, 10_000);
            assert!(matches!(pacing.step(10_000, 4), Step::Issue(_)));
        }
    }
}

/// Workers with weights issue operations in proportion to the weights, however fast each one could be.
#[test]
fn flows_keep_their_proportion() {
    let flow = Arc::default();
    let of = |weight| {
        let mut pacing = Pacing::closed(8, 0, false);
        pacing.join(&flow, weight);
        pacing
    };
    let (mut one, mut eight) = (of(1), of(8));
    let mut counts = [0_u32; 2];
    for _ in 0..100_000 {
        for (pacing, count) in [&mut one, &mut eight].into_iter().zip(&mut counts) {
            *count += u32::from(pacing.step(0, 8) == Step::Issue(None));
        }
    }
    let ratio = f64::from(counts[1]) / f64::from(counts[0]);
    assert!((ratio - 8.0).abs() < 0.05, "{counts:?}");
}

/// A worker may lead by a few operations, so that two workers in a flow do not wait for each other at every
/// operation.
#[test]
fn a_flow_does_not_go_in_lockstep() {
    let flow = Arc::default();
    let of = |weight| {
        let mut pacing = Pacing::closed(8, 0, false);
        pacing.join(&flow, weight);
        pacing
    };
    let (mut one, mut two) = (of(1), of(2));
    let issues = |pacing: &mut Pacing, most: u32| {
        (0..most).filter(|_| matches!(pacing.step(0, 8), Step::Issue(_))).count() as u64
    };
    // A short run keeps its proportion: at first nobody leads.
    let mut all = (issues(&mut one, 1000), issues(&mut two, 1000));
    assert!(all.0 <= 2 && all.1 <= 4, "{all:?} at first");
    // Each has the processor in turn, for as long as it can use it.
    for _ in 0..10_000 {
        all.0 += issues(&mut one, 1000);
        all.1 += issues(&mut two, 1000);
    }
    assert!(all.0 > 40 * 10_000, "{all:?} in 10000 turns");
    assert!((all.1 as f64 / all.0 as f64 - 2.0).abs() < 0.01, "{all:?}");
}

/// An open loop issues the operations that were due during a pause immediately after it, unless the pause
/// shifts the schedule.
#[test]
fn an_open_loop_pauses() {
    let of = |more: &str, until_ns| {
        let spec = Spec::from_toml(&format!(
            "schema = 1\nmix = {{ read = 1 }}\narrivals = {{ kind = \"open\", rate = 1000, \
             process = \"constant\", think_time = \"100ms\"{more} }}"
        ));
        let mut pacing = Pacing::new(&spec.unwrap(), 1, WorkerIndex::ALONE, 4);
        pacing.start(0);
        completions_in(&mut pacing, 4, until_ns)
    };
    let second = 1_000_000_000;
    // 20 in 20 ms; after each pause of 100 ms the next 20, which are due by then.
    let behind = of(", think_after = 20", 10 * second);
    assert!(behind.abs_diff(20 * 100) <= 20, "{behind}");
    let stopped = of(", think_after = 20, think_shifts = true", 12 * second);
    assert!(stopped.abs_diff(20 * 100) <= 40, "{stopped}");
    // A batch is what is due within 50 ms.
    let timed = of(", think_after_time = \"50ms\", think_shifts = true", 15 * second);
    assert!(timed.abs_diff(50 * 100) <= 200, "{timed}");
}

/// A backlog of billions of operations at an unreachable rate is estimated quickly and accurately enough.
#[test]
fn a_long_backlog_is_counted_by_its_gaps() {
    for process in ["poisson", "constant"] {
        let spec = Spec::from_toml(&format!(
            "schema = 1\nmix = {{ read = 1 }}\n\
             arrivals = {{ kind = \"open\", rate = \"1000M/s\", process = \"{process}\" }}"
        ));
        let mut pacing = Pacing::new(&spec.unwrap(), 1, WorkerIndex::ALONE, 1);
        pacing.start(5_000);
        let backlog = pacing.backlog(10_000_005_000) as f64;
        assert!((backlog / 1e10 - 1.0).abs() < 0.01, "{process}: {backlog}");
    }
}
