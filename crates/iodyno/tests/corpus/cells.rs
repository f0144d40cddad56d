//! Closed loops against simulated targets, with evidence recorded on real ones.

use crate::simulated::{MS, Service, Simulated, exponential, stall};
use crate::{SetUp, judged};
use iodyno_measure::{
    Cell, Conditions, Coverage, Ended, ErrorKind, Histogram, IoLimit, RunDelay, Storage,
    StorageEnd, Uncached,
};
use iodyno_units::OpKind;

/// 20 000 reads of about 100 µs each on a large disk that had been written over, and nothing wrong.
fn plain() -> Cell {
    with_evidence(loaded(1, 2_000, 0, &|_, draw| exponential(1e5, draw)))
}

/// A closed loop of one worker for `window_ms`. `think_ns`: pause after each operation; `service_ns`: time of each
/// operation.
fn loaded(depth: u32, window_ms: u64, think_ns: u64, service_ns: Service<'_>) -> Cell {
    let target = Simulated { depth, window_ns: window_ms * MS, service_ns, think_ns };
    target.cell(7)
}

fn with_evidence(mut cell: Cell) -> Cell {
    cell.key.threads = 1;
    "uring".clone_into(&mut cell.key.engine);
    cell.key.blocks = vec![(4096, 1.0)];
    cell.resources.cpu_user_ns = vec![cell.window_ns / 20];
    cell.resources.cpu_system_ns = vec![cell.window_ns / 10];
    cell.resources.moved_bytes = cell.total().bytes();
    cell.resources.run_delay = vec![RunDelay { waited_ns: 100 * 20_000, waits: 100 }];
    let e = &mut cell.evidence;
    (e.direct, e.cpus) = (Some(true), 2);
    (e.active_bytes, e.ram_bytes) = (400 << 30, Some(16 << 30));
    (e.written_share, e.generator_ceiling_iops) = (Some(1.0), Some(1e7));
    e.conditions = Some(Conditions {
        governor: Some("performance".to_owned()),
        clock_source: Some("tsc".to_owned()),
        hypervisor: Some(true),
        mitigations: Some(3),
        temperature_c: Some(50.0),
        temperature_warning_c: Some(70.0),
        physical_block_bytes: Some(4096),
        file_system_used: Some(0.5),
        ..Conditions::default()
    });
    e.storage = Some(Storage {
        end: StorageEnd::Device,
        lowest: vec!["sda".to_owned()],
        rotational: Some(false),
        device_bytes: Some(1 << 40),
        device_written_bytes: Some(2 << 40),
        ..Storage::default()
    });
    cell
}

/// A sound cell of as many reads as writes.
pub(crate) fn of_reads_and_writes() -> Cell {
    let mut cell = plain();
    for (at, interval) in cell.series.iter_mut().enumerate() {
        if at % 2 == 1 {
            let reads = interval.classes[OpKind::Read.index()].take();
            interval.classes[OpKind::Write.index()] = reads;
        }
    }
    cell
}

fn of_writes(mut cell: Cell) -> Cell {
    for interval in &mut cell.series {
        let reads = interval.classes[OpKind::Read.index()].take();
        interval.classes[OpKind::Write.index()] = reads;
    }
    cell
}

/// Applies a change to a cell.
fn changed(mut cell: Cell, change: impl FnOnce(&mut Cell)) -> Cell {
    change(&mut cell);
    cell
}

fn around(cell: &mut Cell) -> &mut Conditions {
    cell.evidence.conditions.as_mut().unwrap()
}

/// Makes a worker wait `ms` milliseconds for a processor.
fn starved(cell: &mut Cell, ms: u64) {
    let waits = 100;
    cell.resources.run_delay = vec![RunDelay { waited_ns: ms * MS + waits * 20_000, waits }];
}

/// A cell behind a token bucket that admits `per_interval` operations per 100 ms. Half of the operations wait for
/// tokens.
fn limited(per_interval: u64) -> Cell {
    let mut cell = plain();
    cell.window_ns = 3_000 * MS;
    let mut interval = iodyno_measure::Interval::default();
    let class = interval.class_mut(OpKind::Read);
    class.bytes = per_interval * 4096;
    class.service.record_n(100_000, per_interval / 2);
    class.service.record_n(9_000_000, per_interval - per_interval / 2);
    cell.series = vec![interval; 30];
    balanced(&mut cell);
    cell
}

/// Sets the outstanding operations to those that follow from throughput and latency.
fn balanced(cell: &mut Cell) {
    let sum_ns = cell.total().iter().map(|(_, class)| class.service.sum_ns()).sum();
    cell.resources.outstanding_area_ns = sum_ns;
    (cell.resources.carried_in_ns, cell.resources.carried_out_ns) = (0, 0);
    cell.resources.moved_bytes = cell.total().bytes();
}

/// Converts reads to writes, with a flush after each.
fn flushed(mut cell: Cell) -> Cell {
    cell = of_writes(cell);
    for interval in &mut cell.series {
        let ops = interval.class(OpKind::Write).map_or(0, iodyno_measure::ClassStats::ops);
        interval.class_mut(OpKind::Flush).service.record_n(100_000, ops);
    }
    balanced(&mut cell);
    cell
}

/// An open loop of this rate.
fn open(offered_iops: f64) -> Cell {
    changed(plain(), |c| {
        c.key.offered_iops = Some(offered_iops);
        for interval in &mut c.series {
            let class = interval.class_mut(OpKind::Read);
            class.response = Some(class.service.clone());
        }
    })
}

type Made = (&'static str, Option<&'static str>, fn() -> Cell);

pub(crate) fn all() -> Vec<SetUp> {
    let all = COURSES.iter().chain(MACHINE).chain(STORAGE).chain(HONEST);
    all.map(|&(name, expected, make)| SetUp::new(name, expected, move || Some(judged(&make()))))
        .collect()
}

/// Traps in the course of a cell over its window.
const COURSES: &[Made] = &[
    ("a stall of a second in three", Some("STALL"), || {
        let service = |at, draw: &mut dyn FnMut() -> f64| {
            stall(1_200 * MS, 1_000 * MS, at, exponential(1e5, draw))
        };
        with_evidence(loaded(1, 3_000, 0, &service))
    }),
    ("one flush of 238 ms in a second", Some("STALL"), || {
        let service = |at, draw: &mut dyn FnMut() -> f64| {
            stall(437 * MS, 238 * MS, at, exponential(1e5, draw))
        };
        flushed(with_evidence(loaded(1, 1_000, 0, &service)))
    }),
    ("a burst that ends", Some("TREND"), || {
        let service = |at, draw: &mut dyn FnMut() -> f64| {
            exponential(if at < 3_100 * MS { 1.6e6 } else { 2.9e6 }, draw)
        };
        with_evidence(loaded(16, 5_000, 0, &service))
    }),
    ("a warm-up", Some("TREND"), || {
        let service = |at: u64, draw: &mut dyn FnMut() -> f64| {
            exponential(1e5 * (1.0 + 1.5 * (-(at as f64) / 7e8).exp()), draw)
        };
        with_evidence(loaded(1, 5_000, 0, &service))
    }),
    ("a device that slows down by degrees", Some("TREND"), || {
        let service = |at: u64, draw: &mut dyn FnMut() -> f64| {
            exponential(1e5 * (1.0 + 0.35 * at as f64 / 5e9), draw)
        };
        with_evidence(loaded(1, 5_000, 0, &service))
    }),
    ("four and a half periods of a flusher", Some("PERIODIC"), || {
        let service = |at: u64, draw: &mut dyn FnMut() -> f64| {
            let phase = at as f64 / 1e9 * std::f64::consts::TAU;
            exponential(1e5 / (1.0 + 0.45 * phase.sin()), draw)
        };
        with_evidence(loaded(1, 4_500, 0, &service))
    }),
    ("a window shorter than the latencies", Some("WINDOW_TOO_SHORT"), || {
        let service = |_, draw: &mut dyn FnMut() -> f64| 600 * MS + exponential(2e7, draw);
        with_evidence(loaded(32, 1_000, 0, &service))
    }),
    ("a burst of operations that fills a queue once", Some("FEW_OPERATIONS"), || {
        changed(plain(), |c| (c.ended, c.key.depth) = (Ended::Ops, 100_000))
    }),
    ("a volume of 3000 I/Os a second", Some("LIMITED"), || limited(300)),
    ("a volume of 50 MB a second", Some("LIMITED"), || limited(1221)),
    ("a limit of a control group", Some("LIMITED"), || {
        changed(plain(), |c| {
            around(c).io_limits.push(IoLimit {
                source: "/box/io.max, 8:0 riops".to_owned(),
                is_of_reads: true,
                is_of_bytes: false,
                per_s: 10_300,
            });
        })
    }),
    ("a rate that the target does not sustain", Some("RATE_MISSED"), || open(15_000.0)),
    ("operations that fail", Some("ERRORS"), || {
        changed(plain(), |c| c.series[3].class_mut(OpKind::Read).errors.add(ErrorKind::Io, 5))
    }),
];

/// Traps of the machine that runs the load.
const MACHINE: &[Made] = &[
    ("a closed loop without a processor", Some("STARVED"), || {
        changed(plain(), |c| starved(c, 400))
    }),
    ("an open loop without a processor for 3 %", Some("STARVED"), || {
        changed(open(9_800.0), |c| starved(c, 60))
    }),
    ("too few slots for bursts", Some("LATE_SUBMISSION"), || {
        changed(open(9_800.0), |c| {
            let mut lateness = Histogram::new();
            lateness.record_n(100, 900);
            lateness.record_n(20_000_000, 100);
            c.lateness = Some(lateness);
        })
    }),
    ("a generator at its limit", Some("GENERATOR_BOUND"), || {
        changed(plain(), |c| c.evidence.generator_ceiling_iops = Some(11_000.0))
    }),
    ("io_uring's worker threads", Some("KERNEL_WORKERS"), || {
        changed(plain(), |c| {
            (c.evidence.kernel_workers, c.evidence.kernel_workers_cpu_ns) = (4, 200 * MS);
        })
    }),
    ("a clock that drifts", Some("CLOCK"), || {
        changed(plain(), |c| c.evidence.clock_error_ppm = Some(900.0))
    }),
    ("processors that are too hot", Some("THROTTLED"), || {
        changed(plain(), |c| around(c).processor_throttles = Some(3))
    }),
    ("a machine that swaps", Some("SWAPPING"), || {
        changed(plain(), |c| around(c).swapped_pages = Some(5_000))
    }),
    ("a hypervisor that takes 10 %", Some("STOLEN_CPU"), || {
        changed(plain(), |c| c.evidence.steal_share = Some(0.1))
    }),
    ("a governor that is changed during the cell", Some("CONDITIONS_CHANGED"), || {
        changed(plain(), |c| around(c).changed.push("governor: a, then b".to_owned()))
    }),
];

/// Traps of the storage, and of other programs that use it.
const STORAGE: &[Made] = &[
    ("another program's I/O", Some("FOREIGN_IO"), || {
        changed(plain(), |c| c.evidence.foreign_share = Some(0.3))
    }),
    ("fstrim during the cell", Some("FOREIGN_TRIM"), || {
        changed(plain(), |c| around(c).discarded_bytes = Some(1 << 30))
    }),
    ("a file with holes", Some("NEVER_WRITTEN"), || {
        changed(plain(), |c| c.evidence.written_share = Some(0.4))
    }),
    ("a device that was trimmed", Some("NEVER_WRITTEN"), || {
        changed(plain(), |c| {
            c.evidence.written_share = None;
            (c.evidence.blocks_sampled, c.evidence.blocks_zero) = (64, 60);
        })
    }),
    ("reads of what the run itself trims", Some("READS_OF_TRIMMED"), || {
        changed(plain(), |c| {
            for interval in &mut c.series {
                let class = interval.class_mut(OpKind::Trim);
                class.bytes = 1 << 20;
                class.service.record(1000);
            }
            balanced(c);
        })
    }),
    ("a fill that left a gap", Some("PRECONDITIONING_SHORT"), || {
        changed(of_writes(plain()), |c| {
            let mut coverage = Coverage::new(0, 1000 << 17, 1 << 17);
            coverage.add(0, 900 << 17);
            c.evidence.fill = Some(coverage.proof(1, 900 << 17));
        })
    }),
    ("a new flash drive", Some("UNPRECONDITIONED"), || {
        changed(of_writes(plain()), |c| {
            c.evidence.storage.as_mut().unwrap().device_written_bytes = Some(1 << 30);
        })
    }),
    ("a volatile cache without a flush", Some("VOLATILE_CACHE"), || {
        changed(of_writes(plain()), |c| around(c).write_cache = Some("write back".to_owned()))
    }),
    ("a mapping of a file", Some("PAGE_CACHE"), || {
        changed(plain(), |c| {
            (c.evidence.direct, c.evidence.map_sync) = (Some(false), Some(false));
            "mmap".clone_into(&mut c.key.engine);
        })
    }),
    ("uncached I/O that stayed in the page cache", Some("UNCACHED"), || {
        changed(plain(), |c| {
            c.evidence.direct = Some(false);
            c.evidence.uncached = Some(Uncached {
                bytes: 1 << 30,
                before_bytes: Some(0),
                after_bytes: Some(1 << 29),
                unwritten_bytes: Some(0),
            });
        })
    }),
    ("a drive that is too hot", Some("HOT"), || {
        changed(plain(), |c| around(c).temperature_c = Some(75.0))
    }),
    ("a PCIe link of one lane", Some("LINK_BELOW_CAPABILITY"), || {
        changed(plain(), |c| around(c).link_below = Some("x1, and could at x4".to_owned()))
    }),
    ("md that is resynchronised", Some("RAID_AT_WORK"), || {
        changed(plain(), |c| around(c).raid_at_work.push("md0: resync".to_owned()))
    }),
    ("a full file system", Some("FILE_SYSTEM_FULL"), || {
        changed(plain(), |c| around(c).file_system_used = Some(0.97))
    }),
];

/// Honest cells, with the background activity of a quiet machine.
const HONEST: &[Made] = &[
    ("an SSD at depth 1", None, plain),
    ("an SSD at depth 32", None, || {
        with_evidence(loaded(32, 3_000, 0, &|_, draw| exponential(2e6, draw)))
    }),
    ("an SSD that is always as fast", None, || with_evidence(loaded(1, 3_000, 0, &|_, _| 80_000))),
    ("an SSD with a heavy tail", None, || {
        let service = |_, draw: &mut dyn FnMut() -> f64| {
            let is_slow = draw() < 0.002;
            exponential(if is_slow { 5e6 } else { 8e4 }, draw)
        };
        with_evidence(loaded(1, 3_000, 0, &service))
    }),
    ("a hard disk", None, || {
        with_evidence(loaded(1, 10_000, 0, &|_, draw| 4 * MS + exponential(4e6, draw)))
    }),
    ("a flusher that takes 12 ms each second", None, || {
        let service = |at: u64, draw: &mut dyn FnMut() -> f64| {
            let from_ns = at / (1_000 * MS) * (1_000 * MS) + 500 * MS;
            stall(from_ns, 12 * MS, at, exponential(5e5, draw))
        };
        with_evidence(loaded(4, 10_000, 0, &service))
    }),
    ("one stall of 0.3 s in a minute", None, || {
        let service = |at, draw: &mut dyn FnMut() -> f64| {
            stall(20_000 * MS, 300 * MS, at, exponential(1e6, draw))
        };
        with_evidence(loaded(8, 60_000, 0, &service))
    }),
    ("a load that thinks", None, || {
        with_evidence(loaded(1, 10_000, 9 * MS, &|_, draw| exponential(1e5, draw)))
    }),
    ("a mix of reads and writes", None, of_reads_and_writes),
    ("a write-ahead log through the page cache", None, || {
        changed(flushed(plain()), |c| c.evidence.direct = Some(false))
    }),
    ("an open loop whose rate is met", None, || open(9_800.0)),
    ("a journal's writes beside ours", None, || {
        changed(plain(), |c| c.evidence.foreign_share = Some(0.03))
    }),
    ("2 MiB of discards by a file system", None, || {
        changed(plain(), |c| around(c).discarded_bytes = Some(2 << 20))
    }),
    ("20 000 wake-ups", None, || {
        changed(plain(), |c| {
            c.resources.run_delay = vec![RunDelay { waited_ns: 200 * MS, waits: 20_000 }];
        })
    }),
    ("a limit of a control group far away", None, || {
        changed(plain(), |c| {
            around(c).io_limits.push(IoLimit {
                source: "/box/io.max, 8:0 riops".to_owned(),
                is_of_reads: true,
                is_of_bytes: false,
                per_s: 20_000,
            });
        })
    }),
    ("a round rate without waits", None, || with_evidence(loaded(1, 3_000, 0, &|_, _| 100_000))),
];
