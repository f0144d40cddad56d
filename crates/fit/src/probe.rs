//! Workloads that a fit measures, by family of devices. Most are measured to estimate the parameters; the held-out ones
//! only score the result.

use iodyno_emulate::spec::Kind;
use iodyno_units::{OpKind, Precondition};
use iodyno_workload::Spec;

/// Device families that a fit supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Solid-state drive.
    Flash,
    /// Rotating disk.
    Disk,
    /// Network volume or virtual disk, described by latencies and limits.
    Volume,
    /// RAM used as a block device.
    Memory,
}

impl Family {
    pub const ALL: [Self; 4] = [Self::Flash, Self::Disk, Self::Volume, Self::Memory];

    /// Name of the family in device files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flash => "flash",
            Self::Disk => "disk",
            Self::Volume => "volume",
            Self::Memory => "memory",
        }
    }

    /// Devices of the catalog that a fit starts from unless the user names one. Each has a different structure; the
    /// fit keeps the one that agrees best.
    pub const fn devices(self) -> &'static [&'static str] {
        match self {
            Self::Flash => &["nvme-tlc-3840g"],
            Self::Disk => &["hdd-nearline-20t"],
            Self::Volume => &["virtual-disk", "virtual-disk-thread"],
            Self::Memory => &["ramdisk-ddr3-16g", "ram-in-process"],
        }
    }

    /// Family to which an emulated device of this kind belongs.
    pub const fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Flash(_) => Self::Flash,
            Kind::Disk(_) => Self::Disk,
            Kind::Volume(_) => Self::Volume,
            Kind::Memory(_) => Self::Memory,
        }
    }
}

/// A workload to measure for a fit.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Name of the workload. It begins with [`HELD_OUT`] if the workload only scores the fit.
    pub name: String,
    /// Workload to measure.
    pub spec: Spec,
}

impl Probe {
    /// Fraction of the workload's operations that are writes, 0 to 1.
    pub fn write_share(&self) -> f64 {
        let of = |kind: Option<OpKind>| {
            let kinds = self.spec.kinds().filter(|it| kind.is_none_or(|kind| it.0 == kind));
            kinds.map(|it| it.1).sum::<f64>()
        };
        of(Some(OpKind::Write)) / of(None)
    }
}

/// Prefix of the names of held-out cells. The fit does not use their results; they test the fitted device.
pub const HELD_OUT: &str = "held-out-";

/// Abbreviated workload: name, threads, depth, block size, reads in percent, and further lines of a workload file.
type Short = (&'static str, u32, u32, &'static str, u32, &'static str);

/// Reads at several depths and sizes.
const READS: &[Short] = &[
    ("read-4k-q1", 1, 1, "4KiB", 100, ""),
    ("read-4k-q4", 1, 4, "4KiB", 100, ""),
    ("read-4k-q16", 1, 16, "4KiB", 100, ""),
    ("read-4k-q64", 1, 64, "4KiB", 100, ""),
    ("read-64k-q1", 1, 1, "64KiB", 100, ""),
    ("read-128k-q16", 1, 16, "128KiB", 100, ""),
    ("seq-read-1m-q8", 1, 8, "1MiB", 100, "[all]\naddresses = \"sequential\""),
];
/// Deep queues, for devices with parallelism.
const DEEP: &[Short] = &[
    ("read-4k-q256", 4, 64, "4KiB", 100, ""),
    ("write-4k-q64", 1, 64, "4KiB", 0, ""),
    ("mix-70-4k-q32", 1, 32, "4KiB", 70, ""),
];
/// Cells with two threads, or with large blocks, for devices such as RAM disks, where the core that issues an operation
/// also copies its data.
const THREADS: &[Short] = &[
    ("read-4k-t2", 2, 1, "4KiB", 100, ""),
    ("read-1m-q1", 1, 1, "1MiB", 100, ""),
    ("write-1m-q1", 1, 1, "1MiB", 0, ""),
];
/// Writes whose time a cache does not hide for long: large sequential ones, and flushed ones.
const DURABLE: &[Short] = &[
    ("seq-write-1m-q8", 1, 8, "1MiB", 0, "[all]\naddresses = \"sequential\""),
    ("fsync-4k-q1", 1, 1, "4KiB", 0, "[write]\nflush_every = 1"),
];
/// Writes at several depths and sizes.
const WRITES: &[Short] = &[
    ("write-4k-q1", 1, 1, "4KiB", 0, ""),
    ("write-4k-q16", 1, 16, "4KiB", 0, ""),
    ("write-64k-q1", 1, 1, "64KiB", 0, ""),
    ("mix-70-4k-q16", 1, 16, "4KiB", 70, ""),
];
/// Reads and writes that show the mechanics of a disk. Accesses to a few tracks show the rotation, those to wider
/// ranges the seek curve, and sequential reads at different radii the zones.
const DISK: &[Short] = &[
    ("read-near", 1, 1, "4KiB", 100, "active = \"50%..50.02%\""),
    ("read-1pc", 1, 1, "4KiB", 100, "active = \"50%..51%\""),
    ("read-third", 1, 1, "4KiB", 100, "active = \"0%..33%\""),
    (
        "read-inner-seq",
        1,
        4,
        "1MiB",
        100,
        "active = \"98%..100%\"\n[all]\naddresses = \"sequential\"",
    ),
    (
        "read-middle-seq",
        1,
        4,
        "1MiB",
        100,
        "active = \"50%..52%\"\n[all]\naddresses = \"sequential\"",
    ),
    // Flushed writes show seek and settling. Cached writes show how the cache is emptied, which is not fitted.
    ("fsync-near", 1, 1, "4KiB", 0, "active = \"50%..50.02%\"\n[write]\nflush_every = 1"),
];
/// Held-out workloads: other sizes, skew, mixed sizes, bursts.
const HELD: &[Short] = &[
    ("read-8k-q8", 1, 8, "8KiB", 100, ""),
    ("read-32k-q4", 1, 4, "32KiB", 100, ""),
    ("write-16k-q4", 1, 4, "16KiB", 0, ""),
    ("mix-50-16k-q8", 1, 8, "16KiB", 50, ""),
    (
        "mix-67-8k-zipf-q24",
        1,
        24,
        "8KiB",
        67,
        "[all]\naddresses = { pattern = \"zipf\", theta = 0.8 }",
    ),
    (
        "mix-70-4k-bursts",
        4,
        4,
        "4KiB",
        70,
        "[arrivals]\nkind = \"closed\"\nthink_time = \"2ms\"\nthink_drains = true",
    ),
];

/// Prefix of the names of cells in the steady state of random writes. Comes after [`HELD_OUT`], if the cell is held
/// out.
const STEADY: &str = "steady-";
/// Name of the workload that brings a device to its steady state. The fit does not use the results of this workload.
pub const CONDITIONING: &str = "conditioning";
/// Cells in the steady state of random writes, with the prefix of their names: fitted, and held out.
const STEADY_CELLS: &[(Short, &str)] = &[
    (("write-4k-q256", 4, 64, "4KiB", 0, ""), ""),
    (("mix-70-4k-q32", 1, 32, "4KiB", 70, ""), ""),
    (("mix-50-8k-q16", 1, 16, "8KiB", 50, ""), HELD_OUT),
];
/// Length of a steady cell's window, as a multiple of other cells' windows. It is longer because garbage collection and
/// host writes alternate slowly.
const STEADY_TIMES: u64 = 5;
/// Number of times that conditioning overwrites the device: two, as in the SNIA's specification.
const CONDITIONING_PASSES: u64 = 2;

/// State of the emulated device before it runs the workload called `name`. [`Precondition::Workload`]: the target's name
/// gives the state (`?state=`).
pub fn precondition(name: &str) -> Precondition {
    let name = name.strip_prefix(HELD_OUT).unwrap_or(name);
    if name.starts_with(STEADY) {
        return Precondition::Random { block_bytes: Some(4096) };
    }
    Precondition::Workload
}

/// Returns the probes for the steady state of random writes. The first overwrites a device of `capacity_bytes` twice at
/// random to reach the steady state. Each of the others is measured for five times `time_ns`.
pub fn steady_probes(capacity_bytes: u64, time_ns: u64) -> Vec<Probe> {
    let write = spec(&(CONDITIONING, 1, 64, "4KiB", 0, ""), 0, time_ns);
    let bytes = capacity_bytes * CONDITIONING_PASSES;
    let write = write.with_bytes(bytes).and_then(Spec::without_time);
    let first = match write {
        Ok(spec) => Probe { name: CONDITIONING.to_owned(), spec },
        Err(why) => unreachable!("{CONDITIONING}: {why}"),
    };
    let of = |(short, prefix): &(Short, &str)| Probe {
        name: format!("{prefix}{STEADY}{}", short.0),
        spec: spec(short, time_ns / 5, time_ns * STEADY_TIMES),
    };
    std::iter::once(first).chain(STEADY_CELLS.iter().map(of)).collect()
}

/// Returns the probes for a family of devices. Each is measured for `time_ns` after a ramp. The ramp is a fifth of
/// `time_ns`, but half of `time_ns` on a disk, whose cache fills slowly. With `is_read_only`, probes with writes are
/// left out.
pub fn probes(family: Family, time_ns: u64, is_read_only: bool) -> Vec<Probe> {
    let parts: &[&[Short]] = match family {
        Family::Flash | Family::Volume => &[READS, DEEP, WRITES, DURABLE],
        Family::Disk => &[READS, DISK, DURABLE],
        Family::Memory => &[READS, THREADS, WRITES, DURABLE],
    };
    let ramp_ns = time_ns / if family == Family::Disk { 2 } else { 5 };
    let fitted = parts.iter().flat_map(|part| part.iter()).map(|short| (short, ""));
    let all = fitted.chain(HELD.iter().map(|short| (short, HELD_OUT)));
    let all = all.filter(|(short, _)| !is_read_only || short.4 == 100);
    let mut cells: Vec<Probe> = all
        .map(|(short, prefix)| Probe {
            name: format!("{prefix}{}", short.0),
            spec: spec(short, ramp_ns, time_ns),
        })
        .collect();
    // Reads come first, so that they find the target as it was laid out.
    cells.sort_by_key(|probe| probe.spec.kinds().any(|(kind, _)| kind != OpKind::Read));
    cells
}

/// Limits the amount that all probes together write to `bytes`, not counting their ramps. All probes with writes get
/// equal shares.
pub fn limit_writes(probes: &mut [Probe], bytes: u64) {
    let cells = probes.iter().filter(|probe| probe.write_share() > 0.0).count();
    for probe in probes {
        let share = probe.write_share();
        if share == 0.0 {
            continue;
        }
        let of_cell = bytes as f64 / cells as f64 / share;
        // At least one operation, as a limit has to allow.
        let least =
            probe.spec.blocks(OpKind::Write).iter().map(|block| block.bytes).max().unwrap_or(1);
        match probe.spec.clone().with_bytes((of_cell as u64).max(least.into())) {
            Ok(spec) => probe.spec = spec,
            Err(why) => unreachable!("{}: {why}", probe.name),
        }
    }
}

fn spec(short: &Short, ramp_ns: u64, time_ns: u64) -> Spec {
    let (name, threads, depth, block, reads, more) = short;
    let mix = match reads {
        100 => "read = 100".to_owned(),
        0 => "write = 100".to_owned(),
        reads => format!("read = {reads}, write = {}", 100 - reads),
    };
    // Keys of the top level come before the first table.
    let (top, tables) =
        more.split_at(if more.starts_with('[') { 0 } else { more.find('[').unwrap_or(more.len()) });
    let text = format!(
        "schema = 1\nthreads = {threads}\ndepth = {depth}\nblock = \"{block}\"\nmix = {{ {mix} }}\n{top}\n{tables}\n[limits]\ntime = \"{time_ns}ns\"\nramp = \"{ramp_ns}ns\"
"
    );
    match Spec::from_toml(&text) {
        Ok(spec) => spec,
        Err(errors) => unreachable!("{name}: {errors:?}"),
    }
}
