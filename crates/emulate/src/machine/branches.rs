//! Arrays below arrays: a member of an array that is an array itself, or a volume behind adapters, is a *branch*. It is
//! lost with the devices that it can't do without. When all its devices are there again it is made anew, and the array
//! above rebuilds it: what an administrator would do.

use super::Machine;
use crate::part::Part;
use crate::part_id::PartId;
use crate::request::{NIL, Origin, State};
use iodyno_units::IoError;
use std::collections::BTreeSet;

impl Machine {
    /// A device is lost: arrays notice at once that they lack it, or the branch that lacks it.
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

    /// Another device is in the place of one: arrays rebuild it, or the branch that it completes.
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

    /// The arrays above a device, each with its member towards the device, from the lowest. (Not the array whose member
    /// the device is.)
    fn branches_of(&self, device: PartId) -> Vec<(PartId, PartId)> {
        let mut found = Vec::new();
        let mut below = BTreeSet::from([device]);
        // Every part comes after its children.
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

    /// The parts to which a part sends its requests now.
    fn children_now(&self, part: PartId) -> Vec<PartId> {
        match self.parts[part.index()].as_array() {
            Some(array) => array.members().to_vec(),
            None => self.system.parts[part.index()].children().collect(),
        }
    }

    /// Whether all data of a part can be had, as far as members are lost.
    pub fn serves(&self, part: PartId) -> bool {
        match self.parts[part.index()].as_array() {
            Some(array) => array.serves(|member| self.serves(member)),
            None if self.fault_state_of(part).lost => false,
            None => self.children_now(part).into_iter().all(|child| self.serves(child)),
        }
    }

    /// Whether all devices of a branch are there.
    fn is_whole(&self, part: PartId) -> bool {
        let children = self.children_now(part);
        !self.fault_state_of(part).lost && children.into_iter().all(|child| self.is_whole(child))
    }

    /// All arrays of a branch are made again: what was asked of them fails, and they hold nothing.
    fn make_again(&mut self, branch: PartId) {
        self.end_requests(branch);
        self.parts[branch.index()].make_array_again(&mut self.core);
        for child in self.children_now(branch) {
            self.make_again(child);
        }
    }

    /// What was asked of an array fails; what it asked for itself ends unheeded.
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
