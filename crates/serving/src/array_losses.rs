//! Stored data that arrays lose in a power cut (the write hole): the data of a missing member, in rows that were written
//! after the last flush, because parity may be inconsistent there.

use iodyno_emulate::PartId;
use iodyno_emulate::spec::Part;
use iodyno_live::frontend::Served;
use iodyno_live::store::UNIT_BYTES;
use iodyno_units::human;

/// Number of 4 KiB units that the arrays of each volume have lost since the start.
pub(crate) fn units_by_volume(live: &Served) -> Vec<u64> {
    live.look(|machine, _, _| {
        let system = machine.system();
        let of_array = |part| machine.array_state_of(part).map_or(0, |of| of.counts.lost_units);
        let of_volume = |volume| system.parts_of(volume).map(of_array).sum();
        (0..system.volumes.len() as u32).map(of_volume).collect()
    })
}

/// Number of 4 KiB units that the arrays of each volume have lost since there were `before`.
pub(crate) fn units_since(live: &Served, before: &[u64]) -> Vec<u64> {
    let now = units_by_volume(live);
    now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect()
}

/// Describes the stored data that arrays lost in a power cut, by volume.
pub(crate) fn in_words(units: &[u64]) -> Vec<String> {
    let lost = (0..).zip(units).filter(|(_, units)| **units > 0);
    lost.map(|(volume, units): (u32, &u64)| {
        format!(
            "volume {volume} lost {} of stored data: a member is missing, and rows of stripes were written after the last flush (write hole). Reads of it fail until it is rewritten",
            human::size(units * UNIT_BYTES)
        )
    })
    .collect()
}

/// Names the volumes whose arrays will lose stored data when the power returns: a member is missing, and no journal
/// keeps the unflushed writes.
pub(crate) fn at_power_on(live: &Served) -> Vec<String> {
    live.look(|machine, _, _| {
        let system = machine.system();
        let has_hole = |part: PartId| {
            let Part::Array(array) = &system.parts[part.index()] else { return false };
            let lacks = machine.array_state_of(part).is_some_and(|of| !of.missing.is_empty());
            lacks && array.layout.level().parities() > 0 && !array.journal
        };
        let volumes = 0..system.volumes.len() as u32;
        let at_risk = volumes.filter(|&volume| {
            machine.has_unflushed_rows(volume) && system.parts_of(volume).any(has_hole)
        });
        at_risk
            .map(|volume| {
                format!("volume {volume} lacks a member and has unflushed writes (write hole): `power-on` prints what its array lost")
            })
            .collect()
    })
}
