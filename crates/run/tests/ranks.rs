//! Runs with several ranks, which are threads of this process and communicate by channels instead of MPI.

use iodyno_measure::{Cell, ClassStats, Histogram, Interval};
use iodyno_ranks::{Ranks, Timing, Transport as _, in_threads, serve};
use iodyno_run::{Outcome, Process, ResolvedRun, RunError, RunRequest, Watch, execute};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

struct Unwatched;
impl Watch for Unwatched {}

/// Executes the request on `size` ranks, and returns the outcome of each.
fn on_ranks(size: u32, request: &RunRequest) -> Vec<Result<Outcome, RunError>> {
    std::thread::scope(|scope| {
        let of_rank = |mut transport: iodyno_ranks::InThreads| {
            let (stop, request) = (Arc::new(AtomicBool::new(false)), request.clone());
            let (mut ranks, server) =
                Ranks::connected(transport.rank(), size, Timing::default(), Arc::clone(&stop));
            let run = scope.spawn(move || {
                ranks.meet().unwrap();
                let ranks = Arc::new(ranks);
                let process = Process {
                    command: Vec::new(),
                    version: String::new(),
                    notebook: None,
                    resume: None,
                    stop,
                    ranks: Arc::clone(&ranks),
                };
                let outcome = ResolvedRun::new(request, process)
                    .and_then(|run| execute(&run, &mut Unwatched));
                ranks.leave();
                outcome
            });
            scope.spawn(move || {
                serve(&mut transport, server);
                run.join().unwrap()
            })
        };
        let ranks: Vec<_> = in_threads(size).into_iter().map(of_rank).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn request(work: &Value, targets: &[&str]) -> RunRequest {
    let request = json!({
        "name": "over ranks", "work": work, "repeats": 1, "thresholds": [],
        "targets": targets, "folder": "/", "files": {}, "seed": 7, "engine": null,
        "options": { "poll": false, "plain": false }, "system_clock": false,
        "interval_ns": null, "errors_max": 0, "read_only": false, "destroy": [],
    });
    serde_json::from_value(request).unwrap()
}

/// Counts per bucket, summed over several histograms.
fn pooled<'a>(all: impl Iterator<Item = &'a Histogram>) -> BTreeMap<(u64, u64), u64> {
    let mut pool = BTreeMap::new();
    for bucket in all.flat_map(Histogram::buckets) {
        *pool.entry((bucket.low_ns, bucket.width_ns)).or_default() += bucket.count;
    }
    pool
}

/// Bucket of quantile `q` in summed counts, by nearest rank.
fn bucket_of(pool: &BTreeMap<(u64, u64), u64>, q: f64) -> (u64, u64) {
    let sorted: Vec<(u64, u64)> =
        pool.iter().flat_map(|(bucket, n)| std::iter::repeat_n(*bucket, *n as usize)).collect();
    sorted[((q * sorted.len() as f64).ceil() as usize).max(1) - 1]
}

/// In each interval and kind, the bucket counts of the merged cell are the sums over the ranks. Its percentiles are
/// thus those of all operations pooled.
#[test]
fn the_merged_cell_is_all_operations_pooled() {
    let workload = "schema = 1\nthreads = 2\ndepth = 4\nblock = \"4KiB\"\n[mix]\nread = 3\nwrite = 1\n\
        [arrivals]\nkind = \"open\"\nrate = \"60k/s\"\n[limits]\ntime = \"300ms\"\nramp = \"10ms\"";
    let spec: Value = toml::from_str::<toml::Table>(workload).map(|t| json!(t)).unwrap();
    let work = json!({ "cells": [{ "name": "mixed", "spec": spec }] });
    let mut outcomes = on_ranks(3, &request(&work, &["ram:1MiB", "ram:2MiB"]));
    let cells = outcomes.swap_remove(0).unwrap().run.cells;
    let (merged, of_ranks) = cells.split_last().unwrap();
    assert_eq!(of_ranks.len(), 6, "three ranks with two targets");
    let ranks: Vec<u32> =
        of_ranks.iter().map(|cell| cell.evidence.rank.as_ref().unwrap().rank).collect();
    assert_eq!(ranks, [0, 0, 1, 1, 2, 2]);
    let of_kind = |cell: &Cell, kind| cell.total().class(kind).cloned().unwrap();
    for (kind, class) in merged.total().iter() {
        assert!(class.ops() > 10_000, "enough for a p99.9: {kind:?} {}", class.ops());
        let all: Vec<_> = of_ranks.iter().map(|cell| of_kind(cell, kind)).collect();
        assert_eq!(class.ops(), all.iter().map(ClassStats::ops).sum::<u64>());
        assert_eq!(class.bytes, all.iter().map(|class| class.bytes).sum::<u64>());
        let response = |class: &ClassStats| class.response.clone().unwrap();
        let responses: Vec<Histogram> = all.iter().map(response).collect();
        let services = pooled(all.iter().map(|class| &class.service));
        for (pool, merged) in
            [(services, &class.service), (pooled(responses.iter()), &response(class))]
        {
            assert_eq!(pool, pooled([merged].into_iter()));
            for q in [0.5, 0.99, 0.999] {
                let rank = (q * merged.count() as f64).ceil() as u64;
                let found = merged.bucket_of_rank(rank).unwrap();
                assert_eq!(bucket_of(&pool, q), (found.low_ns, found.width_ns), "{kind:?} {q}");
                let (low_ns, width_ns) = bucket_of(&pool, q);
                let shown_ns = merged.supported_quantile_ns(q).unwrap();
                assert!((low_ns..=low_ns + width_ns).contains(&shown_ns), "{kind:?} {q}");
            }
        }
    }
    let longest = of_ranks.iter().map(|cell| cell.series.len()).max().unwrap();
    assert_eq!(merged.series.len(), longest);
    for (index, interval) in merged.series.iter().enumerate() {
        let of = of_ranks.iter().filter_map(|cell| cell.series.get(index));
        assert_eq!(interval.ops(), of.map(Interval::ops).sum::<u64>(), "{index}");
    }
    // The other ranks decide by the same merged cell.
    for outcome in outcomes {
        let theirs = outcome.unwrap().run.cells;
        assert_eq!(theirs.last().unwrap().total(), merged.total());
    }
}

/// If one rank refuses a run, all do, with the exit code of the first.
#[test]
fn ranks_refuse_together() {
    let workload = "schema = 1\n[mix]\nread = 1\n[limits]\ntime = \"50ms\"";
    let spec: Value = toml::from_str::<toml::Table>(workload).map(|t| json!(t)).unwrap();
    let work = json!({ "cells": [{ "name": "read", "spec": spec }] });
    // A file that is not there, and is not to be made.
    for outcome in on_ranks(3, &request(&work, &["/nowhere/to/be/found"])) {
        let error = outcome.unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
    }
}
