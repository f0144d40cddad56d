//! Programmed data that is not durable yet, in a device with a volatile buffer and power-cut settings. Depending on
//! these settings, data becomes durable, and the map points to it, once its whole atomic block or all earlier data has
//! been programmed.
//!
//! A group is the part of one write within one atomic block. It enters the buffer, and becomes durable, as a whole.
//! Units (4 KiB) are numbered in the order in which the buffer accepts them.

use super::stored_runs::Stored;
use crate::ftl::Page;
use crate::request::NIL;
use std::collections::VecDeque;
use std::ops::Range;

/// A programmed unit that waits to become durable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Programmed {
    pub unit: u64,
    /// The unit's page in the map, and the physical slot into which the unit was programmed. The slot is `NIL` if the
    /// page is not in the map.
    pub host: (Page, u32),
    /// New content of the unit; `None` if the emulation does not store content.
    pub stored: Option<Stored>,
}

#[derive(Clone, Debug)]
struct Group {
    /// Number of the unit after the group.
    end: u64,
    /// Number of units of the group that are not programmed yet.
    left: u32,
    programmed: Vec<Programmed>,
}

/// Groups with units that are not durable yet, in the order of acceptance. The units may be in the buffer, in program
/// operations, or programmed.
#[derive(Clone, Debug)]
pub(super) struct Commits {
    is_ordered: bool,
    /// Size of an atomic block in units, at least 1.
    units: u64,
    groups: VecDeque<Group>,
}

impl Commits {
    pub(super) fn new(is_ordered: bool, units: u64) -> Self {
        Self { is_ordered, units, groups: VecDeque::new() }
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// Records that units of one write have entered the buffer, the first with the number `number`.
    pub(super) fn enter(&mut self, mut number: u64, mut units: Range<u64>) {
        while !units.is_empty() {
            let end = units.end.min((units.start / self.units + 1) * self.units);
            let left = (end - units.start) as u32;
            number += u64::from(left);
            self.groups.push_back(Group { end: number, left, programmed: Vec::new() });
            units.start = end;
        }
    }

    /// Records that the unit with this number is programmed. Adds the units that are durable from now on to `durable`.
    pub(super) fn programmed(
        &mut self,
        number: u64,
        unit: Programmed,
        durable: &mut Vec<Programmed>,
    ) {
        let at = self.groups.partition_point(|group| group.end <= number);
        let group = &mut self.groups[at];
        group.left -= 1;
        group.programmed.push(unit);
        if group.left == 0 && !self.is_ordered {
            durable.append(&mut group.programmed);
        }
        while let Some(first) = self.groups.front_mut()
            && first.left == 0
        {
            durable.append(&mut first.programmed);
            self.groups.pop_front();
        }
    }

    /// Returns whether the unit with this number may become durable now: always if data may become durable in any
    /// order, else only if its group is the oldest.
    pub(super) fn is_next(&self, number: u64) -> bool {
        !self.is_ordered || self.groups.front().is_some_and(|group| number < group.end)
    }

    /// Returns whether a programmed unit of the range is not durable yet.
    pub(super) fn holds_any(&self, units: &Range<u64>) -> bool {
        self.programmed_units().any(|unit| units.contains(&unit))
    }

    /// Programmed units that are not durable yet, with repetitions.
    pub(super) fn programmed_units(&self) -> impl Iterator<Item = u64> {
        self.groups.iter().flat_map(|group| &group.programmed).map(|of| of.unit)
    }

    /// Processes a power failure: forgets all groups. Returns the physical slots of the programmed units, which are
    /// lost.
    pub(super) fn power_off(&mut self) -> impl Iterator<Item = u32> {
        let lost = std::mem::take(&mut self.groups);
        lost.into_iter()
            .flat_map(|group| group.programmed)
            .map(|of| of.host.1)
            .filter(|&s| s != NIL)
    }
}
