//! Detection of external limits: recorded cells behind real limiters, recorded cells on honest storage, and random
//! rates.

use iodyno_measure::verdict::{judge, limit_seen};
use iodyno_measure::{Cell, Interval, IoLimit, Place, Role};
use iodyno_units::OpKind;

/// A recorded cell: number and latencies of the operations in each interval of 100 ms.
struct Recorded {
    depth: u32,
    block_bytes: u64,
    fastest_ns: u64,
    mean_ns: u64,
    ops: &'static [u64],
}

impl Recorded {
    fn cell(&self) -> Cell {
        cell(self.depth, self.block_bytes, [self.fastest_ns, self.mean_ns], self.ops)
    }
}

fn cell(depth: u32, block_bytes: u64, [fastest_ns, mean_ns]: [u64; 2], ops: &[u64]) -> Cell {
    let interval = |n: &u64| {
        let mut interval = Interval::default();
        let class = interval.class_mut(OpKind::Read);
        class.bytes = n * block_bytes;
        class.service.record(fastest_ns);
        class.service.record_n(mean_ns, n - 1);
        interval
    };
    let mut cell = Cell { series: ops.iter().map(interval).collect(), ..Cell::default() };
    (cell.interval_ns, cell.window_ns) = (100_000_000, ops.len() as u64 * 100_000_000);
    (cell.key.depth, cell.key.blocks) = (depth, vec![(block_bytes as u32, 1.0)]);
    cell.resources.outstanding_area_ns = u128::from(depth) * u128::from(cell.window_ns);
    cell
}

/// Cells recorded on a busy machine: behind QEMU's throttle at 2000 operations/s, behind nbdkit's rate filter at 100
/// MiB/s and at 10 MiB/s, in a control group limited to 3000 reads/s whose limit was not read, and behind QEMU's
/// throttle after its burst ended.
const LIMITED: [(&str, Recorded); 5] = [
    (
        "2.00 k/s",
        Recorded {
            depth: 32,
            block_bytes: 4096,
            fastest_ns: 4_330_331,
            mean_ns: 15_991_317,
            ops: &[
                198, 200, 200, 201, 198, 199, 199, 189, 214, 197, 201, 201, 202, 198, 202, 195,
                202, 203, 191, 209, 199, 201, 199, 200, 199, 199, 202, 199, 201, 200,
            ],
        },
    ),
    (
        "100 MiB/s",
        Recorded {
            depth: 32,
            block_bytes: 65_536,
            fastest_ns: 10_200_827,
            mean_ns: 19_991_407,
            ops: &[
                160, 160, 161, 160, 160, 158, 161, 160, 159, 161, 160, 159, 161, 159, 160, 160,
                160, 161, 160, 161, 159, 160, 159, 160, 162, 160, 158, 161, 159, 161,
            ],
        },
    ),
    (
        "9.99 MiB/s",
        Recorded {
            depth: 32,
            block_bytes: 4096,
            fastest_ns: 1_714_718,
            mean_ns: 12_496_158,
            ops: &[
                253, 255, 259, 255, 257, 254, 258, 254, 257, 256, 256, 255, 256, 256, 255, 253,
                258, 255, 257, 258, 255, 258, 254, 255, 257, 255, 256, 254, 256, 258,
            ],
        },
    ),
    (
        "3.00 k/s",
        Recorded {
            depth: 1,
            block_bytes: 4096,
            fastest_ns: 19_769,
            mean_ns: 323_659,
            ops: &[
                299, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300,
                300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300,
            ],
        },
    ),
    (
        "2.00 k/s",
        Recorded {
            depth: 8,
            block_bytes: 4096,
            fastest_ns: 16_980,
            mean_ns: 1_577_377,
            ops: &[
                2116, 2003, 1954, 1995, 2059, 215, 199, 200, 201, 199, 201, 198, 200, 200, 200,
                201, 196, 205, 198, 202, 196, 203, 200, 200, 199, 200, 201, 199, 201, 200,
            ],
        },
    ),
];

/// Cells without a limit: a file on a disk, an NBD server, random writes on an SSD whose buffer drains evenly, and
/// reads at a link's rate of exactly 1.5 GB/s. The last two are from models.
const HONEST: [Recorded; 4] = [
    Recorded {
        depth: 32,
        block_bytes: 4096,
        fastest_ns: 22_048,
        mean_ns: 394_351,
        ops: &[
            10341, 10237, 8488, 8640, 8449, 7584, 5875, 6624, 7044, 5280, 3955, 9120, 11009, 6688,
            5996, 6481, 8088, 10755, 9059, 9184, 8833, 8224, 8549, 8101, 6766, 3711, 3258, 8264,
            9978, 2394,
        ],
    },
    Recorded {
        depth: 8,
        block_bytes: 4096,
        fastest_ns: 11_233,
        mean_ns: 197_374,
        ops: &[
            3074, 2886, 3340, 2707, 2906, 3554, 2726, 3608, 3804, 2867, 3029, 2625, 3615, 3308,
            2682, 3239, 3409, 2838, 13019, 2663, 3637, 3698, 2880, 3797, 3074, 2746, 3916, 3104,
            12586, 7176,
        ],
    },
    Recorded {
        depth: 32,
        block_bytes: 4096,
        fastest_ns: 168_780,
        mean_ns: 1_022_910,
        ops: &[
            3140, 3128, 3116, 3120, 3116, 3100, 3088, 3108, 3116, 3128, 3140, 3124, 3120, 3120,
            3116, 3103, 3081, 3112, 3120, 3136, 3140, 3120, 3124, 3120, 3104, 3092, 3100, 3120,
            3120, 3140, 3136, 3120, 3120, 3116, 3112, 3088, 3108, 3120, 3128, 3144, 3132, 3124,
            3124, 3120, 3104, 3092, 3108, 3128, 3136, 3144,
        ],
    },
    Recorded {
        depth: 8,
        block_bytes: 131_072,
        fastest_ns: 677_942,
        mean_ns: 677_943,
        ops: &[
            1145, 1144, 1145, 1144, 1145, 1144, 1144, 1145, 1144, 1145, 1144, 1144, 1145, 1144,
            1145, 1144, 1144, 1145, 1144, 1145,
        ],
    },
];

#[test]
fn limiters_are_recognised_and_honest_storage_is_not() {
    for (rate, recorded) in &LIMITED {
        let cell = recorded.cell();
        let seen = limit_seen(&cell).unwrap_or_else(|| panic!("{rate} at {}", recorded.depth));
        assert!(!seen.is_read && seen.words.starts_with(rate), "{rate}: {}", seen.words);
        assert!(judge(&cell).iter().any(|v| v.code == "LIMITED"));
    }
    for recorded in &HONEST {
        assert_eq!(limit_seen(&recorded.cell()), None, "{:?}", recorded.ops);
    }
}

/// If all operations wait alike, only the rate itself is evidence. Even rates are mistaken for a limit no more often
/// than documented.
#[test]
fn even_rates_are_taken_for_limits_by_chance_as_seldom_as_is_said() {
    for (wait, at_most) in [(2, 0.008), (8, 0.02)] {
        let trials = 1_500_u64;
        let found = (0..trials).filter(|i| {
            // Over a decade, evenly on a logarithmic scale.
            let per_interval = 5_000.0 * 10_f64.powf(*i as f64 / trials as f64);
            let upto = |n: u64| (per_interval * n as f64) as u64;
            let ops: Vec<u64> = (0..10).map(|n| upto(n + 1) - upto(n)).collect();
            limit_seen(&cell(32, 4096, [1_000_000, wait * 1_000_000], &ops)).is_some()
        });
        let share = found.count() as f64 / trials as f64;
        assert!(share < 1.2 * at_most && share > at_most / 10.0, "{wait}: {share}");
    }
}

/// A cloud volume counts an operation of 768 KiB as three of 256 KiB.
#[test]
fn large_operations_are_counted_in_parts() {
    let ops = [167, 167, 166].repeat(20);
    let seen = limit_seen(&cell(32, 768 << 10, [10_000_000, 19_200_000], &ops)).unwrap();
    assert!(seen.words.starts_with("5.00 k IOPS of up to 256 KiB each"), "{}", seen.words);
}

/// An open loop that meets its schedule is limited by the schedule; one that misses it ran into another limit. In a
/// step of a method, a limit read from the kernel has a verdict of its own; an inferred limit has none.
#[test]
fn who_says_that_there_is_a_limit() {
    let mut cell = LIMITED[0].1.cell();
    let has_verdict = |cell: &Cell| judge(cell).iter().any(|v| v.code == "LIMITED");
    cell.key.offered_iops = Some(2_000.0);
    assert!(limit_seen(&cell).is_none() && !has_verdict(&cell));
    cell.key.offered_iops = Some(4_000.0);
    assert!(limit_seen(&cell).is_some() && !has_verdict(&cell));
    cell.key.offered_iops = None;
    cell.key.place = Some(Place { role: Role::Measure, ..Place::default() });
    assert!(limit_seen(&cell).is_some() && !has_verdict(&cell));
    let limit = IoLimit {
        source: "/box/io.max, 8:0 riops".into(),
        is_of_reads: true,
        is_of_bytes: false,
        per_s: 2_000,
    };
    cell.evidence.conditions.get_or_insert_default().io_limits.push(limit);
    let seen = limit_seen(&cell).unwrap();
    assert!(seen.is_read && seen.words.contains("/box/io.max") && has_verdict(&cell), "{seen:?}");
    cell.evidence.conditions = None;
    cell.evidence.virtual_time = true;
    assert_eq!(limit_seen(&cell), None, "an emulated device has no limit but its own");
}
