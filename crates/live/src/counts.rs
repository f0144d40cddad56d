//! What a served volume did, for status and metrics.

use iodyno_measure::Histogram;
use iodyno_units::OpKind;

/// A completion that comes later than this is late, ns.
pub const LATE_NS: u64 = 10_000;

/// See the module. Times are the model's, but for lateness.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Operations that succeeded, by kind.
    pub operations: [u64; OpKind::COUNT],
    /// Bytes of them.
    pub bytes: [u64; OpKind::COUNT],
    /// Operations that failed.
    pub errors: [u64; OpKind::COUNT],
    /// From submission to completion, ns of the model's time.
    pub latency: [Histogram; OpKind::COUNT],
    /// How much later than the model said completions were handed out, ns of real time.
    pub lateness: Histogram,
    /// Completions that came more than [`LATE_NS`] late.
    pub late: u64,
    /// Units whose sum was wrong when they were read.
    pub corruptions_found: u64,
    /// Bytes that could not be kept: the backing file or memory is full, or fails.
    pub backing_errors: u64,
}

impl Counts {
    pub(crate) fn completed(
        &mut self,
        kind: OpKind,
        len_bytes: u32,
        latency_ns: u64,
        late_ns: u64,
        failed: bool,
    ) {
        let kind = kind.index();
        self.lateness.record(late_ns);
        self.late += u64::from(late_ns > LATE_NS);
        if failed {
            self.errors[kind] += 1;
            return;
        }
        self.operations[kind] += 1;
        self.bytes[kind] += u64::from(len_bytes);
        self.latency[kind].record(latency_ns);
    }
}
