//! Tests rounds, threads, optima and long cells: closed forms for a RAM disk, and rules on synthetic cells.

use crate::small;

use iodyno_emulate::spec::Written;
use iodyno_ranks::Ranks;
use iodyno_study::{CellKey, Metric, Optimum, Options, Outcome, Study, Taken, run};
use iodyno_units::Precondition;
use small::{HEADER, cell, taken};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

const STUDY: &str = r#"schema = 1
kind = "study"
title = "Threads"
source = "nowhere"
published = "figures.csv"
method = "pts"

[[systems]]
name = "ram"
host = "rtp"
device = "ramdisk-ddr3-16g"

[[workloads]]
name = "randwrite"
read = "0%"
addresses = "random"
ops = 2000
long_ops = 120_000
ramp = "100us"

[[workloads]]
name = "randread"
read = "100%"
addresses = "random"
ops = 2000
long_ops = 4000
ramp = "100us"

[[panels]]
figure = "map"
title = "by threads and depth"
workloads = ["randwrite", "randread"]
block = ["8KiB"]
threads = [1, 2, 8, 16, 32]
depth = [1, 4]
devices = [1]
metrics = ["iops", "latency_mean", "latency_p99.99"]

[[panels]]
figure = "best"
title = "optimum"
workloads = ["randwrite"]
block = ["8KiB"]
threads = [1, 2, 8, 16, 32]
depth = [1, 4]
devices = [1]
optimum_within = "5ms"
metrics = ["iops", "latency_mean", "latency_p99.99", "oio", "oio_threads", "oio_queue_depth"]

[[panels]]
figure = "both"
title = "together"
workloads = ["randwrite", "randread"]
block = ["8KiB"]
threads = [1, 2, 8, 16, 32]
depth = [1, 4]
devices = [1]
optimum_within = "5ms"
together = true
metrics = ["iops_low", "iops_high", "latency_mean"]
"#;

const FIGURES: &str = "best,ram,randwrite,8192,,,1,oio,=,16,,1,table,\n";

fn study(text: &str, figures: &str) -> Study {
    small::study(text, &format!("{HEADER}{figures}")).unwrap_or_else(|problem| panic!("{problem}"))
}

fn ours(
    outcome: &Outcome<'_>,
    figure: &str,
    workload: &str,
    demand: Option<(u32, u32)>,
    metric: Metric,
) -> Option<f64> {
    let at = outcome.study.rows.iter().position(|row| {
        let key = &row.key;
        (key.figure.as_str(), key.workload.as_str()) == (figure, workload)
            && row.metric == Some(metric)
            && (key.threads, key.queue_depth) == (demand.map(|d| d.0), demand.map(|d| d.1))
    });
    outcome.rows[at.unwrap_or_else(|| panic!("{figure} {workload} {metric:?}"))].ours
}

/// The rate scales with threads up to the number of cores, and does not depend on depth. The optimum is therefore one
/// operation per core. Only a long cell supports the 99.99th percentile there.
#[test]
fn a_ram_disk_scales_with_threads() {
    let study = study(STUDY, FIGURES);
    let options = Options { threads: 1, ..Options::FULL };
    let outcome = run(&study, &options, &Ranks::alone(), &AtomicBool::new(false), &|_| {}).unwrap();
    let map = |threads, depth| {
        ours(&outcome, "map", "randwrite", Some((threads, depth)), Metric::Iops).unwrap()
    };
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.01, "{a} for {b}");
    let one = map(1, 1);
    for (threads, cores) in [(1, 1), (2, 2), (8, 8), (16, 16), (32, 16)] {
        for depth in [1, 4] {
            near(map(threads, depth), f64::from(cores) * one);
        }
    }
    let best = |metric| ours(&outcome, "best", "randwrite", None, metric);
    let demand = [Metric::OioBest, Metric::ThreadsBest, Metric::DepthBest];
    assert_eq!(demand.map(best), [Some(16.0), Some(16.0), Some(1.0)]);
    near(best(Metric::Iops).unwrap(), 16.0 * one);
    let short = ours(&outcome, "map", "randwrite", Some((16, 1)), Metric::LatencyP9999);
    assert!(short.is_none() && best(Metric::LatencyP9999).is_some());
    let both = |metric| ours(&outcome, "both", "randwrite/randread", None, metric).unwrap();
    assert!(both(Metric::IopsLow) <= both(Metric::IopsHigh));
    near(both(Metric::IopsHigh), 16.0 * one);
    assert!(outcome.rows.iter().all(|row| row.steady == Some(true)));
    let (cells, steady) = outcome.in_rounds;
    assert_eq!((cells, steady, outcome.rounds_max), (outcome.cells, cells, 5));
}

/// From synthetic cells, finds the fewest outstanding operations with a rate close to the maximum within the latency
/// ceiling. If no cell is within the ceiling, finds the fewest of all.
#[test]
fn the_optimum_is_the_fewest_outstanding() {
    let study = study(STUDY, FIGURES);
    let row = study.rows.iter().find(|row| row.key.metric == "oio").unwrap();
    let all = row.recipe.cells();
    let find = |ceiling_ns, rule: &dyn Fn(&CellKey) -> (f64, f64)| {
        let taken: BTreeMap<CellKey, Taken> =
            all.iter().map(|key| (*key, cell(key, rule(key).0, rule(key).1))).collect();
        let found = Optimum { cells: all.clone(), ceiling_ns }.find(&taken);
        (found.threads, found.depth)
    };
    let oio = |key: &CellKey| f64::from(key.oio());
    // 8 × 4 and 32 × 1 are within 2 % of the largest rate and as many outstanding: the faster one.
    let saturating = |key: &CellKey| match key.oio() {
        32 => (98.4 + 0.01 * f64::from(key.threads), 10.0),
        oio => (f64::from(oio).min(100.0), 10.0),
    };
    assert_eq!(find(5000, &saturating), (32, 1));
    assert_eq!(find(5000, &|key| (oio(key), 10.0)), (32, 4));
    // Latency bounds it, though there is more to be had.
    assert_eq!(find(5000, &|key| (oio(key), 320.0 * oio(key))), (2, 4));
    assert_eq!(find(1, &|key| (oio(key), 10.0)), (1, 1));
}

/// The lowest and the highest of two workloads, and the mean of the rest.
#[test]
fn workloads_together() {
    let study = study(STUDY, FIGURES);
    let taken = taken(&study, |key| {
        cell(key, 100.0 * (1.0 + key.workload as f64), 1000.0 * (1.0 + key.workload as f64))
    });
    let outcome = Outcome::new(&study, &taken);
    let both = |metric| ours(&outcome, "both", "randwrite/randread", None, metric);
    let found = [Metric::IopsLow, Metric::IopsHigh, Metric::LatencyMean].map(both);
    assert_eq!(found, [Some(100.0), Some(200.0), Some(1.5)]);
}

/// A drive with housekeeping stalls has one stall in every round of a long cell. A fresh drive is faster than one in
/// the steady state.
#[test]
fn long_cells_hold_what_is_rare() {
    let text = r#"schema = 1
kind = "study"
title = "Stalls"
source = "nowhere"
published = "figures.csv"
method = "pts"
systems = [{ name = "ssd", host = "rtp", device = "ssd-sata3-mlc-200g", ramp = "300ms" }]
workloads = [{ name = "randwrite", read = "0%", addresses = "random", ops = 500, ramp = "1ms" }]

[[panels]]
figure = "long"
title = "one at a time"
workloads = ["randwrite"]
block = ["4KiB"]
threads = [1]
depth = [1]
devices = [1]
long = true
metrics = ["latency_mean", "latency_max"]

[[panels]]
figure = "short"
title = "the same"
workloads = ["randwrite"]
block = ["4KiB"]
threads = [1]
depth = [1]
devices = [1]
metrics = ["latency_max"]

[[panels]]
figure = "rates"
title = "fresh and steady"
workloads = ["randwrite"]
block = ["4KiB"]
threads = [4]
depth = [32]
devices = [1]
metrics = ["iops_fob", "iops_steady"]
"#;
    let figures = "long,ssd,randwrite,4096,1,1,1,latency_max,=,11.95,,ms,table,\n";
    let study = study(text, figures);
    let options = Options { threads: 1, ..Options::QUICK };
    let outcome = run(&study, &options, &Ranks::alone(), &AtomicBool::new(false), &|_| {}).unwrap();
    let max =
        |figure| ours(&outcome, figure, "randwrite", Some((1, 1)), Metric::LatencyMax).unwrap();
    assert!(max("long") > 11.0, "{} ms", max("long"));
    assert!(max("short") < 11_000.0, "{} us", max("short"));
    let rate = |metric| ours(&outcome, "rates", "randwrite", Some((4, 32)), metric).unwrap();
    let before = |before| {
        let of_long = study.rows[0].at.unwrap();
        study.workloads[0].written(&CellKey { before, ..of_long })
    };
    let all = [Precondition::Workload, Precondition::Fresh, Precondition::Sequential].map(before);
    let own = Written::Random { block_bytes: 4096 };
    assert_eq!(all, [own, Written::Fresh, Written::Sequential]);
    let (fresh, steady) = (rate(Metric::IopsFresh), rate(Metric::IopsSteady));
    assert!(fresh > 1.2 * steady, "{fresh} {steady}");
}
