//! Stored data that volumes lose in spite of their redundancy:
//!
//! - Arrays lose, in a power cut (the write hole), the data of a missing member in rows that were written after the last
//!   flush, because parity may be inconsistent there.
//! - RAID adapters lose the dirty data in a cache of which no adapter has a copy any more.

use iodyno_emulate::PartId;
use iodyno_emulate::spec::Part;
use iodyno_live::frontend::Served;
use iodyno_live::status;
use iodyno_live::store::UNIT_BYTES;
use iodyno_units::human;

/// Numbers of 4 KiB units of stored data that a volume lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostUnits {
    pub(crate) of_arrays: u64,
    pub(crate) of_caches: u64,
}

impl LostUnits {
    pub(crate) fn total(self) -> u64 {
        self.of_arrays + self.of_caches
    }
}

/// Units that each volume has lost since the start.
pub(crate) fn units_by_volume(live: &Served) -> Vec<LostUnits> {
    live.look(|machine, _, _| {
        let of_volume = |volume| {
            let [of_arrays, of_caches] = status::lost_units(machine, volume);
            LostUnits { of_arrays, of_caches }
        };
        (0..machine.volumes()).map(of_volume).collect()
    })
}

/// Units that each volume has lost since it had lost `before`.
pub(crate) fn units_since(live: &Served, before: &[LostUnits]) -> Vec<LostUnits> {
    let since = |(now, before): (LostUnits, &LostUnits)| LostUnits {
        of_arrays: now.of_arrays.saturating_sub(before.of_arrays),
        of_caches: now.of_caches.saturating_sub(before.of_caches),
    };
    units_by_volume(live).into_iter().zip(before).map(since).collect()
}

/// Describes the stored data that volumes lost, one line for each cause.
pub(crate) fn in_words(units: &[LostUnits]) -> Vec<String> {
    let mut lines = Vec::new();
    for (volume, lost) in units.iter().enumerate() {
        let causes = [
            (
                lost.of_arrays,
                "of stored data: a member is missing, and rows of stripes were written after the last flush (write hole)",
            ),
            (
                lost.of_caches,
                "of acknowledged data: it was dirty in a cache of which no adapter has a copy any more",
            ),
        ];
        for (units, cause) in causes.into_iter().filter(|of| of.0 > 0) {
            let size = human::size(units * UNIT_BYTES);
            lines.push(format!(
                "volume {volume} lost {size} {cause}. Reads of it fail until it is rewritten"
            ));
        }
    }
    lines
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
