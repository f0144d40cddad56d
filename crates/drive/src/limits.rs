//! Divides the limits of a cell among the workers of a target.

use crate::in_flight::Share;
use crate::worker::Limits;
use iodyno_units::OpKind;
use iodyno_workload::{self as workload, CellSpec, Shared, WorkerIndex};

/// Limits of worker `number` of a target. Operations and bytes are divided among the target's workers in all
/// processes.
pub(crate) fn limits(cell: &CellSpec, shared: &Shared, number: u32) -> Limits {
    let limits = cell.spec.limits();
    let of_all = cell.part.over_all(number, cell.spec.threads());
    let of_range = cell.part.over_range(number, cell.spec.threads());
    let within = |ops: Option<u64>, bytes: Option<u64>| {
        let ops_max = ops.unwrap_or(u64::MAX);
        let workload::Limits { ramp_ns, ramp_counts, time_ns, start_after_ns, .. } = limits;
        let share = Share { ops_max, bytes_max: bytes.unwrap_or(u64::MAX), ramp_counts };
        Limits { ramp_ns, time_ns, share, start_after_ns }
    };
    if let Some(passes) = cell.fill_passes {
        // In whole blocks, so that the workers together end exactly with a pass.
        let block_bytes = u64::from(cell.spec.max_data_bytes()).max(1);
        let blocks = shared.active_bytes().1 / block_bytes * u64::from(passes);
        let blocks = of_range.share_of(blocks);
        // In a verification pass, a block that can't be read counts, too: it is not read again.
        let reads = !cell.spec.issues(OpKind::Write);
        let (ops, bytes) =
            if reads { (Some(blocks), None) } else { (None, Some(blocks * block_bytes)) };
        return within(ops, bytes);
    }
    // Passes cover whole blocks of the largest size.
    let kinds = cell.spec.kinds().flat_map(|(kind, _)| cell.spec.blocks(kind));
    let sizes: Vec<u64> = kinds.map(|block| u64::from(block.bytes).max(1)).collect();
    let block_bytes = sizes.iter().copied().max().unwrap_or(1);
    let pass_bytes = shared.active_bytes().1 / block_bytes * block_bytes;
    let passes_bytes = limits.passes.map(|passes| ((passes * pass_bytes as f64) as u64).max(1));
    // A worker ends with a whole block. With a single size, whole blocks are divided, so that the workers together
    // exceed the limit by less than a block; otherwise each worker may.
    let is_stream = cell.replay.is_none() && cell.spec.log().is_none();
    let is_single = is_stream && sizes.iter().all(|bytes| *bytes == block_bytes);
    let part_bytes = if is_single { block_bytes } else { 1 };
    let of_bytes = |total: Option<u64>, worker: WorkerIndex| {
        total.map(|n| worker.share_of(n.div_ceil(part_bytes)).saturating_mul(part_bytes))
    };
    let bytes = of_bytes(limits.bytes, of_all).into_iter();
    let bytes = bytes.chain(of_bytes(passes_bytes, of_range)).min();
    within(limits.ops.map(|ops| of_all.share_of(ops)), bytes)
}
