//! Workloads on zoned devices: writes must go through the zones in order.

use crate::plan::{DriveError, TargetPlan};
use iodyno_emulate::Machine;
use iodyno_units::OpKind;
use iodyno_workload::{Pattern, Spec, size_text};

/// Checks that a workload writes to a zoned volume only in the order of its zones.
///
/// # Errors
/// [`DriveError::DoesNotFit`] with the address pattern to use.
pub(super) fn check(
    machine: &Machine,
    volume: u32,
    spec: &Spec,
    at: &TargetPlan,
) -> Result<(), DriveError> {
    let Some(zones) = machine.zones(volume) else { return Ok(()) };
    let [first, second, ..] = zones.as_slice() else { return Ok(()) };
    let (size, capacity) = (second.start_bytes - first.start_bytes, first.capacity_bytes);
    let in_order = |pattern: &Pattern| {
        matches!(pattern, Pattern::Zones { zone_bytes, capacity_bytes, .. }
            if *zone_bytes == size && capacity_bytes.unwrap_or(size) == capacity)
    };
    let fits = !spec.issues(OpKind::WriteZeroes)
        && !spec.addresses(OpKind::Write).is_empty()
        && spec.addresses(OpKind::Write).iter().all(|address| in_order(&address.pattern));
    if fits || !(spec.issues(OpKind::Write) || spec.issues(OpKind::WriteZeroes)) {
        return Ok(());
    }
    Err(DriveError::DoesNotFit {
        target: at.name.clone(),
        why: format!(
            "its zones must be written in order: give writes the addresses {{ pattern = \"zones\", zone = \"{}\", capacity = \"{}\", open = 1, trim = true }}",
            size_text(size),
            size_text(capacity)
        ),
    })
}
