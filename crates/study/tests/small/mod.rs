//! A study of two RAM disks, small enough for debug builds, and synthetic results of cells.
#![allow(dead_code, reason = "each test file uses its own part")]

use iodyno_catalog::Problem;
use iodyno_measure::Latency;
use iodyno_study::{CellKey, Study, Taken, Wanted, load};
use std::collections::BTreeMap;
use std::fs;

pub(crate) const STUDY: &str = r#"schema = 1
kind = "study"
title = "Two RAM disks"
source = "nowhere"
published = "figures.csv"

[[systems]]
name = "ram"
host = "rtp"
device = "ramdisk-ddr3-16g"

[[workloads]]
name = "randread"
read = "100%"
addresses = "random"
ops = 2000
ramp = "1ms"

[[workloads]]
name = "randwrite"
read = "0%"
addresses = "random"
ops = 2000
ramp = "1ms"

[[workloads]]
name = "mixed"
read = "67%"
addresses = "random"
ops = 2000
ramp = "1ms"

[[panels]]
figure = "Table 1"
title = "rates"
workloads = ["randread", "randwrite", "mixed"]
block = ["4KiB"]
depth = [1, 2, 4]
devices = [1, 2]
metrics = ["iops_max"]

[[panels]]
figure = "Table 2"
title = "latencies"
workloads = ["randread", "randwrite", "mixed"]
block = ["4KiB"]
depth = [1]
devices = [1, 2]
metrics = ["latency_mean"]

[[panels]]
figure = "Figure 3"
title = "with think time"
workloads = ["randwrite"]
block = ["4KiB"]
depth = [1]
devices = [1]
think = ["0us", "16us"]
metrics = ["latency_mean", "latency_vs_no_thinktime", "iops_vs_no_thinktime"]

[[panels]]
figure = "Figure 4"
title = "over depth"
workloads = ["randread"]
block = ["4KiB"]
depth = [1, 2, 4]
devices = [1]
metrics = ["iops", "knee_queue_depth", "queue_depth_at_95pct_of_max"]

[[panels]]
figure = "Figure 5"
title = "without depth 1"
workloads = ["randread"]
block = ["4KiB"]
depth = [2, 4]
devices = [1]
metrics = ["knee_queue_depth"]

[[inputs]]
figure = "prose"
system = "rtp"
workload = "any"
metric = "unbalanced_memory_slowdown"

[[basis]]
is = "fitted"
by = ["memory.read"]
figure = "Table 1"
workload = "randread"
devices = 1

[[basis]]
is = "fitted"
by = ["memory.io"]
figure = "Table 2"
workload = "randread"
devices = 1

[[basis]]
is = "fitted"
by = ["memory.write"]
figure = "Table 2"
workload = "randwrite"
devices = 1
"#;

pub(crate) const HEADER: &str = "figure,system,workload,block_bytes,queue_depth,threads,devices,metric,\
relation,value,resolution,unit,kind,note\n";

/// Published values, among them a bound, a flagged value, and one without a resolution.
pub(crate) const FIGURES: &str = "\
Table 1,ram,randread,4096,,,1,iops_max,=,200000,500,1/s,table,
Table 1,ram,randread,4096,,,2,iops_max,=,400000,500,1/s,table,
Table 1,ram,randwrite,4096,,,1,iops_max,=,100000,500,1/s,table,
Table 1,ram,mixed,4096,,,1,iops_max,~,150000,,1/s,prose,
Table 1,ram,mixed,4096,,,2,iops_max,>=,300000,,1/s,prose,\"over 300 000, says the text\"
Table 2,ram,randread,4096,1,,1,latency_mean,=,4.5,0.05,us,table,
Table 2,ram,randwrite,4096,1,,1,latency_mean,=,0.0052,0.00005,ms,table,
Table 2,ram,randwrite,4096,1,,2,latency_mean,=,999,0.5,us,table,printed so; implausible
Table 2,ram,mixed,4096,1,,1,latency_mean,=,77,0.5,us,table,printed so; beyond belief
Figure 3,ram,randwrite+thinktime16us,4096,1,,1,latency_vs_no_thinktime,~,0.5,,ratio,prose,
Figure 4,ram,randread,4096,,,1,knee_queue_depth,~,1,,1,prose,
prose,rtp,any,,,,,unbalanced_memory_slowdown,>=,0.25,,ratio,prose,
";

/// Builds a study from the text of its file and of its published values.
pub(crate) fn study(study: &str, figures: &str) -> Result<Study, Problem> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.toml");
    fs::write(&path, study).unwrap();
    fs::write(folder.path().join("figures.csv"), figures).unwrap();
    load(path.to_str().unwrap())
}

/// The unchanged small study.
pub(crate) fn small() -> Study {
    study(STUDY, &format!("{HEADER}{FIGURES}")).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Results of all cells of a study, computed by `rule`.
pub(crate) fn taken(study: &Study, rule: impl Fn(&CellKey) -> Taken) -> BTreeMap<CellKey, Taken> {
    let cells = study.rows.iter().flat_map(|row| row.recipe.cells());
    let mut taken: BTreeMap<_, _> = cells.map(|cell| (cell, rule(&cell))).collect();
    let long = |row: &Wanted| row.recipe.long_cells(&taken);
    let long: Vec<CellKey> = study.rows.iter().flat_map(long).collect();
    taken.extend(long.into_iter().map(|cell| (cell, rule(&cell))));
    taken
}

/// Results of a cell with this rate and latency.
pub(crate) fn cell(key: &CellKey, iops: f64, mean_ns: f64) -> Taken {
    let times = |n: f64| Some((n * mean_ns) as u64);
    let latency = Latency {
        percentiles_ns: [None, None, times(2.0), times(3.0), times(4.0), times(5.0)],
        max_ns: times(6.0),
        ..Latency::default()
    };
    Taken {
        iops,
        write_amplification: 1.0,
        bytes_per_s: iops * f64::from(key.block_bytes),
        mean_ns,
        latency,
        kinds_bytes_per_s: (0.0, 0.0),
        reads: (0.0, 0.0),
        writes: (0.0, 0.0),
        peak_bytes_per_s: 0.0,
        lowest_iops: 0.0,
        variation: 0.0,
        quartiles_ns: (0.0, 0.0),
        least_ns: 0.0,
        over_time: None,
        stationary: None,
        rounds: None,
        iops_error: 0.002,
        mean_error: 0.001,
        simulated: 1000,
    }
}

/// Results of the small study that are close to its published values.
pub(crate) fn near_print(study: &Study) -> BTreeMap<CellKey, Taken> {
    taken(study, |key| {
        let devices = f64::from(key.devices);
        let depth = f64::from(key.depth);
        let (rate, latency) = match key.workload {
            0 => (200_400.0 * depth / (depth + 0.1) * devices, 4500.0 * depth),
            1 if key.think_ns > 0 => (40_000.0, 2600.0),
            1 => (90_000.0 * devices, 5200.0),
            _ => (152_000.0 * devices, 4700.0),
        };
        cell(key, rate, latency)
    })
}
