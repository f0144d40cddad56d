//! Nested arrays. A member that is itself an array, or a volume behind adapters, is a *branch*. A branch that lacks
//! too many devices is lost. Once all its devices are present again, the branch is re-created empty and the array
//! above rebuilds it, as an administrator would do.

use super::Machine;
use crate::part::Part;
use crate::part_id::PartId;
use crate::request::{NIL, Origin, State};
use iodyno_units::IoError;
use std::collections::BTreeSet;

impl Machine {
    /// Notifies the arrays that a lost device affects: those that have the device as a member, and those with a branch
    /// whose data is inaccessible without the device.
    pub(super) fn notify_of_loss(&mut self, device: PartId) {
        for part in &mut self.parts {
            part.part_lost(&mut self.core, device);
        }
        for (array, branch) in self.branches_of(device) {
            if !self.serves(branch) {
                self.parts[array.index()].part_lost(&mut self.core, branch);
            }
        }
    }

    /// Notifies arrays that a device was replaced. The array of which the device is a member rebuilds it. If a lost branch
    /// now has all its devices again, the branch is re-created and rebuilt.
    pub(super) fn notify_of_replacement(&mut self, device: PartId) {
        for part in &mut self.parts {
            part.part_replaced(&mut self.core, device);
        }
        for (array, branch) in self.branches_of(device) {
            let misses = self.parts[array.index()].as_array().is_some_and(|a| a.misses(branch));
            if misses && self.is_whole(branch) {
                self.make_again(branch);
                self.parts[array.index()].part_replaced(&mut self.core, branch);
            }
        }
    }

    /// Returns the arrays above a device, lowest first, each with its member that contains the device. Excludes
    /// the array of which the device itself is a member.
    fn branches_of(&self, device: PartId) -> Vec<(PartId, PartId)> {
        let mut found = Vec::new();
        let mut below = BTreeSet::from([device]);
        // Parts follow their children.
        for (number, part) in self.system.parts.iter().enumerate() {
            let (id, branch) = (PartId(number as u32), part.children().find(|c| below.contains(c)));
            let Some(branch) = branch else { continue };
            below.insert(id);
            if branch != device && self.parts[number].as_array().is_some() {
                found.push((id, branch));
            }
        }
        found
    }

    /// Returns the components below a component now: the current members of an array, or the children of any
    /// other component.
    fn children_now(&self, part: PartId) -> Vec<PartId> {
        match self.parts[part.index()].as_array() {
            Some(array) => array.members().to_vec(),
            None => self.system.parts[part.index()].children().collect(),
        }
    }

    /// Returns whether all data of a device, array or other component is accessible despite lost devices.
    pub fn serves(&self, part: PartId) -> bool {
        match self.parts[part.index()].as_array() {
            Some(array) => array.serves(|member| self.serves(member)),
            None if self.fault_state_of(part).lost => false,
            None => self.children_now(part).into_iter().all(|child| self.serves(child)),
        }
    }

    /// Returns whether all devices at or below a component are present.
    fn is_whole(&self, part: PartId) -> bool {
        let children = self.children_now(part);
        !self.fault_state_of(part).lost && children.into_iter().all(|child| self.is_whole(child))
    }

    /// Re-creates all arrays at or below a component, without data. Requests of these arrays that are in progress
    /// fail.
    fn make_again(&mut self, branch: PartId) {
        self.end_requests(branch);
        self.parts[branch.index()].make_array_again(&mut self.core);
        for child in self.children_now(branch) {
            self.make_again(child);
        }
    }

    /// Ends all requests of an array: those from hosts and other components fail, and internal ones are
    /// dropped. Operations that they have sent to members continue, but their results are ignored.
    fn end_requests(&mut self, part: PartId) {
        if !matches!(self.parts[part.index()], Part::Array(_)) {
            return;
        }
        let core = &mut self.core;
        let all = 0..core.slab.len() as u32;
        let is_of = |slot: &u32| {
            let request = &core.slab[*slot];
            request.state != State::Free && request.part == part
        };
        let gone: BTreeSet<u32> = all.clone().filter(is_of).collect();
        core.queue.retain(|slot| !gone.contains(&slot));
        for child in all {
            let origin = &mut core.slab[child].origin;
            if matches!(origin, Origin::Parent(parent) if gone.contains(parent)) {
                *origin = Origin::Parent(NIL);
            }
        }
        for slot in gone {
            if core.slab[slot].origin == Origin::Own {
                core.slab.remove(slot);
            } else {
                core.complete(slot, Some(IoError::Gone));
            }
        }
        self.end_children();
    }
}
