//! The application workloads of the catalog, compared with the study that names them: table 1 of Lenovo Press
//! REDP-5188. It states qualities rather than figures. The tests derive the qualities of each workload from its
//! operations.

use iodyno_units::OpKind;
use iodyno_workload::{ArrivalKind, Geometry, Shared, Spec, Stream};
use std::fs;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Binds {
    Iops,
    Bandwidth,
}
use Binds::{Bandwidth, Iops};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Issues {
    Reads,
    Writes,
    Both,
}
use Issues::{Both, Reads, Writes};

/// A row of the table: workload, limiting quantity, whether latency matters, kinds of operation, random addresses.
#[derive(Clone, Copy, Debug)]
struct Row {
    workload: &'static str,
    binds: Binds,
    latency: bool,
    issues: Issues,
    random: bool,
}

const fn row(
    workload: &'static str,
    binds: Binds,
    latency: bool,
    issues: Issues,
    random: bool,
) -> Row {
    Row { workload, binds, latency, issues, random }
}

/// Table 1, as printed.
const TABLE: [Row; 9] = [
    row("oltp-67-33-4k", Iops, true, Both, true),
    row("data-warehouse", Bandwidth, true, Reads, true),
    row("file-server", Bandwidth, false, Reads, true),
    row("email", Iops, true, Both, true),
    row("medical-imaging", Bandwidth, true, Reads, true),
    row("video-on-demand", Bandwidth, true, Reads, true),
    row("web-server", Iops, true, Reads, true),
    row("web-20", Iops, true, Both, true),
    row("archive", Bandwidth, false, Writes, false),
];

/// Minimum fraction of the operations, and of the bytes, for a workload to have a quality.
const MOST: f64 = 0.75;
/// Block size from which bandwidth is more relevant than IOPS, as in reports, bytes.
const LARGE_BYTES: u32 = 64 << 10;
/// Maximum number of outstanding I/Os of a workload whose latency matters (our choice: that of random-read).
const OUTSTANDING_MAX: u32 = 32;

/// Shares of the operations and bytes that a workload issues.
#[derive(Debug)]
struct Counted {
    reads_of_ops: f64,
    reads_of_bytes: f64,
    random_of_ops: f64,
    large_of_ops: f64,
    large_of_bytes: f64,
    outstanding: u32,
}

fn counted(spec: &Spec) -> Counted {
    let geometry = Geometry { capacity_bytes: 64 << 30, align_bytes: 4096, workers: 1 };
    let shared = Shared::new(spec, 1, &geometry).unwrap();
    let mut stream = Stream::new(&shared, 0);
    let ops: Vec<_> = (0..20_000).map(|_| stream.next_op()).collect();
    let of_ops = |n: usize| n as f64 / ops.len() as f64;
    let sum = |of: &dyn Fn(OpKind, u32) -> bool| -> f64 {
        ops.iter().filter(|op| of(op.kind, op.len_bytes)).map(|op| f64::from(op.len_bytes)).sum()
    };
    let bytes = sum(&|_, _| true);
    let follows = |pair: &&[_]| {
        let [a, b]: &[iodyno_units::Op] = pair else { return false };
        a.offset_bytes + u64::from(a.len_bytes) == b.offset_bytes
    };
    Counted {
        reads_of_ops: of_ops(ops.iter().filter(|op| op.kind == OpKind::Read).count()),
        reads_of_bytes: sum(&|kind, _| kind == OpKind::Read) / bytes,
        random_of_ops: 1.0 - of_ops(ops.windows(2).filter(follows).count()),
        large_of_ops: of_ops(ops.iter().filter(|op| op.len_bytes >= LARGE_BYTES).count()),
        large_of_bytes: sum(&|_, len| len >= LARGE_BYTES) / bytes,
        outstanding: spec.threads() * spec.depth(),
    }
}

/// Whether a workload has the qualities of a row. IOPS are the limit if most operations are small; bandwidth is the
/// limit if at least half of the bytes are in large operations.
fn has(counted: &Counted, row: &Row) -> bool {
    let issues = if counted.reads_of_ops.min(counted.reads_of_bytes) >= MOST {
        Reads
    } else if counted.reads_of_ops.max(counted.reads_of_bytes) <= 1.0 - MOST {
        Writes
    } else {
        Both
    };
    let binds = match row.binds {
        Iops => 1.0 - counted.large_of_ops >= MOST,
        Bandwidth => counted.large_of_bytes >= 0.5,
    };
    binds
        && issues == row.issues
        && (counted.random_of_ops >= MOST) == row.random
        && (!row.latency || counted.outstanding <= OUTSTANDING_MAX)
}

fn spec(name: &str) -> Spec {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/workloads");
    let text = fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
    Spec::from_toml(&text).unwrap_or_else(|errors| panic!("{name}: {errors:?}"))
}

/// Each workload has the qualities of its own row, and does not match any row with other qualities.
#[test]
fn each_application_has_the_qualities_that_the_study_prints() {
    for own in &TABLE {
        let spec = spec(own.workload);
        assert_eq!(spec.remarks(), [""; 0], "{own:?}");
        assert!(spec.source().is_some_and(|s| s.starts_with("Lenovo Press REDP-5188")), "{own:?}");
        assert!(matches!(spec.arrivals(), ArrivalKind::Closed { .. }), "{own:?}");
        let counted = counted(&spec);
        for other in &TABLE {
            let same = own.binds == other.binds
                && (own.latency || !other.latency)
                && own.issues == other.issues
                && own.random == other.random;
            assert_eq!(has(&counted, other), same, "{counted:?}\n{own:?}\n{other:?}");
        }
    }
}

/// `redo-log` flushes after every write, as a log on a device with a volatile cache must.
#[test]
fn a_redo_log_flushes_each_write() {
    let spec = spec("redo-log");
    assert_eq!((spec.flush_every(), spec.threads() * spec.depth()), (1, 1));
    let geometry = Geometry { capacity_bytes: 64 << 30, align_bytes: 4096, workers: 1 };
    let shared = Shared::new(&spec, 1, &geometry).unwrap();
    let mut stream = Stream::new(&shared, 0);
    for n in 0..1000 {
        let [write, flush] = [stream.next_op(), stream.next_op()];
        assert_eq!((write.kind, write.offset_bytes), (OpKind::Write, n * 8192));
        assert_eq!(flush.kind, OpKind::Flush);
    }
}
