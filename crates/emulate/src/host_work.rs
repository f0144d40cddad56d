//! CPU time of the host's software for an operation on a volume: that of the operations that it causes on devices, which
//! the worker's core executes before the operation is submitted. Devices behind RAID adapters cause none, and neither
//! do writes of an array with parity: the array's own processor executes them.

use crate::part_id::PartId;
use crate::server::{PerByte, ticks};
use crate::spec::{Array, Part, PlacedDevice, ReadCache, SECTOR_BYTES, System};
use iodyno_units::{Op, OpKind};

/// CPU cost of an operation on each device: ticks per operation, and per byte of data. Empty if there is none.
#[derive(Clone, Debug)]
pub(crate) struct HostWork(Vec<(u64, PerByte)>);

impl HostWork {
    pub(crate) fn new(system: &System) -> Self {
        let costs = || system.devices().map(PlacedDevice::host_cost);
        if system.adapters.is_some() || costs().all(|cost| cost == (0, 0.0)) {
            return Self(Vec::new());
        }
        Self(costs().map(|(ns, ns_per_byte)| (ticks(ns), PerByte::new(ns_per_byte))).collect())
    }

    /// Returns the time of an operation on a component, in ticks.
    #[inline(always)]
    pub(crate) fn ticks(&self, system: &System, part: PartId, op: &Op) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        self.device(part, op).unwrap_or_else(|| self.below(system, part, op))
    }

    /// Returns the time of an operation on a device; `None` for other components.
    fn device(&self, part: PartId, op: &Op) -> Option<u64> {
        let &(op_ticks, per_byte) = self.0.get(part.index())?;
        let moves_data = matches!(op.kind, OpKind::Read | OpKind::Write);
        Some(op_ticks + if moves_data { per_byte.ticks(op.len_bytes) } else { 0 })
    }

    #[inline(never)]
    fn below(&self, system: &System, part: PartId, op: &Op) -> u64 {
        match &system.parts[part.index()] {
            Part::Array(array) => self.array(system, array, op),
            Part::ReadCache(cache) => self.read_cache(system, cache, op),
            Part::Device(_) | Part::AdapterPath(_) => 0,
            #[cfg(test)]
            Part::Mirror(_) => 0,
        }
    }

    fn array(&self, system: &System, array: &Array, op: &Op) -> u64 {
        let (layout, members) = (&array.layout, &array.members);
        if op.kind == OpKind::Flush {
            return members.iter().map(|&member| self.ticks(system, member, op)).sum();
        }
        if op.kind != OpKind::Read && layout.level().parities() > 0 {
            return 0;
        }
        let copies = if op.kind == OpKind::Read { 1 } else { layout.copies() as u64 };
        let strip_bytes = layout.strip_sectors() * SECTOR_BYTES;
        let end = op.offset_bytes + u64::from(op.len_bytes);
        let (mut at, mut sum) = (op.offset_bytes, 0);
        while at < end.min(layout.sectors() * SECTOR_BYTES) {
            let next = ((at / strip_bytes + 1) * strip_bytes).min(end);
            let place = layout.place(at / SECTOR_BYTES);
            let offset_bytes = place.sector * SECTOR_BYTES + at % SECTOR_BYTES;
            let piece = Op { offset_bytes, len_bytes: (next - at) as u32, ..*op };
            sum += copies * self.ticks(system, members[place.member], &piece);
            at = next;
        }
        sum
    }

    /// A write goes to both devices. A read goes to one of them; the larger cost counts, because a missed read is also
    /// written to the fast device.
    fn read_cache(&self, system: &System, cache: &ReadCache, op: &Op) -> u64 {
        let fast = self.device(cache.fast, op).unwrap_or(0);
        let backing = self.ticks(system, cache.backing, op);
        match op.kind {
            OpKind::Read => fast.max(backing),
            OpKind::Write => fast + backing,
            OpKind::Trim | OpKind::WriteZeroes | OpKind::Flush => backing,
        }
    }
}
