//! How coarsely a cell's machine is simulated: large I/Os on a part of the channels, so that one of 1 MiB costs no
//! more than one of 256 KiB.
//!
//! Only where a plan allows it, and only for a workload that fits the coarse form: reads and writes whose lengths and
//! offsets are multiples of its units, each address as likely as any other or in order.

use crate::plan::CellPlan;
use iodyno_emulate::System;
use iodyno_measure::Coarse;
use iodyno_units::OpKind;
use iodyno_workload::{Pattern, Spec};

/// An I/O stays at least so large for what simulates it: it still covers several channels and dies.
const PART_BYTES_MIN: u32 = 256 << 10;

/// The grain for this plan's own machine; 1: the whole of every device.
pub(super) fn of(plan: &CellPlan<'_>, system: &System) -> u32 {
    let allowed = match plan.coarse {
        Coarse::Never => false,
        Coarse::Alike => !mixed(plan.spec),
        Coarse::All => true,
    };
    if !allowed || !fits(plan.spec) {
        return 1;
    }
    let blocks = plan.spec.kinds().flat_map(|(kind, _)| plan.spec.blocks(kind));
    let block_bytes = blocks.map(|block| block.bytes).min().unwrap_or(0);
    let most = (block_bytes / PART_BYTES_MIN).min(system.grain_max(plan.spec.align_bytes())).max(1);
    1 << most.ilog2()
}

/// Whether all channels are used alike, and nothing is issued that the coarse form is not for.
fn fits(spec: &Spec) -> bool {
    let alike = |kind| {
        spec.addresses(kind).iter().all(|address| {
            matches!(address.pattern, Pattern::Uniform { .. } | Pattern::Sequential { .. })
        })
    };
    spec.flush_every() == 0
        && spec.fua().fraction() == 0.0
        && spec.kinds().all(|(kind, _)| matches!(kind, OpKind::Read | OpKind::Write) && alike(kind))
}

fn mixed(spec: &Spec) -> bool {
    spec.kinds().count() > 1
}

/// The same in words, and how well it does.
pub(super) fn told(plan: &CellPlan<'_>, grain: u32) -> String {
    let good_for = if mixed(plan.spec) {
        "where reads wait for programs good to 20 % in rates and 40 % in latencies, elsewhere to 2 and 10 %, percentiles to 40 %"
    } else if plan.spec.issues(OpKind::Write) {
        "rate and mean latency are good to 1 or 2 %, percentiles to 10 %"
    } else {
        "all do alike"
    };
    format!("one channel of {grain}: {good_for}")
}
