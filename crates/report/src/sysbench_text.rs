//! Formats runs as `sysbench fileio … run` of sysbench 1.0 does, for programs that parse its text: one report per cell
//! (measurement).
//!
//! As in sysbench, latencies cover all events (reads, writes and flushes), and with a rate they count from the
//! intended start. sysbench's percentile is the upper bound of one of 1024 buckets; here, it is exact to the width of
//! a histogram bucket. The distribution of events over threads is omitted, since it is not stored.

use iodyno_measure::{Cell, ClassStats, Histogram};
use iodyno_notebook::Run;
use iodyno_units::OpKind;
use iodyno_units::text::clean;
use std::fmt::Write as _;

/// Version of sysbench whose output format is reproduced.
const SYSBENCH_VERSION: &str = "1.0.20";
/// Percentile that sysbench reports by default.
const PERCENTILE: u32 = 95;
const MIB: f64 = 1024.0 * 1024.0;

/// Formats a run like the output of sysbench. Skips fills (sysbench's `prepare`), method steps without I/O,
/// and cells merged over several targets.
pub fn text(run: &Run) -> String {
    let mut out = String::new();
    for cell in run.cells.iter().filter(|cell| !cell.key.is_of_all_targets()) {
        let total = cell.total();
        let is_idle = total.ops() == 0 && total.errors().total() == 0 && cell.key.place.is_some();
        if is_idle || cell.evidence.fill.is_some() {
            continue;
        }
        report(&mut out, run, cell);
    }
    out
}

fn report(out: &mut String, run: &Run, cell: &Cell) {
    let key = &cell.key;
    let _ = write!(
        out,
        "sysbench {SYSBENCH_VERSION} (iodyno {}, run {}, {})\n\n\
         Running the test with following options:\nNumber of threads: {}\n\nBlock size {}B\n\n",
        clean(&run.head.iodyno_version),
        run.id,
        clean(&format!("{} on {}", key.name, key.target)),
        key.threads,
        size(key.block_bytes()),
    );
    let total = cell.total();
    let of =
        |kind| total.class(kind).map_or((0, 0), |stats: &ClassStats| (stats.ops(), stats.bytes));
    let ((reads, read), (writes, written)) = (of(OpKind::Read), of(OpKind::Write));
    let (flushes, _) = of(OpKind::Flush);
    let per_s = |n: u64| cell.per_second(n as f64);
    let _ = write!(
        out,
        "\nFile operations:\n    reads/s:                      {:4.2}\n    writes/s:                     {:4.2}\n    \
         fsyncs/s:                     {:4.2}\n\nThroughput:\n    read, MiB/s:                  {:4.2}\n    \
         written, MiB/s:               {:4.2}\n",
        per_s(reads),
        per_s(writes),
        per_s(flushes),
        per_s(read) / MIB,
        per_s(written) / MIB,
    );
    let events = total.ops();
    let _ = write!(
        out,
        "\nGeneral statistics:\n    total time:                          {:.4}s\n    \
         total number of events:              {events}\n",
        cell.seconds(),
    );
    let mut latency = Histogram::new();
    total.iter().for_each(|(_, stats)| latency.merge(stats.response_time()));
    let ms = |ns: f64| ns / 1e6;
    let whole = |ns: Option<u64>| ms(ns.unwrap_or(0) as f64);
    let sum_ns = latency.sum_ns() as f64;
    let _ = write!(
        out,
        "\nLatency (ms):\n         min: {:39.2}\n         avg: {:39.2}\n         max: {:39.2}\n",
        whole(latency.min_ns()),
        ms(latency.mean_ns().unwrap_or(0.0)),
        whole(latency.max_ns()),
    );
    let _ = match latency.supported_quantile_ns(f64::from(PERCENTILE) / 100.0) {
        Some(ns) => writeln!(out, "        {PERCENTILE:3}th percentile: {:27.2}", ms(ns as f64)),
        None => writeln!(out, "         percentile stats:               disabled"),
    };
    let _ = write!(out, "         sum: {:39.2}\n\n", ms(sum_ns));
    if key.threads == 1 {
        let _ = write!(
            out,
            "Threads fairness:\n    events (avg/stddev):           {:.4}/0.00\n    \
             execution time (avg/stddev):   {:.4}/0.00\n\n",
            events as f64,
            sum_ns / 1e9,
        );
    }
}

/// A size in the largest unit that divides it, as sysbench prints it.
fn size(bytes: u32) -> String {
    match bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}Mi", bytes >> 20),
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{}Ki", bytes >> 10),
        bytes => bytes.to_string(),
    }
}
