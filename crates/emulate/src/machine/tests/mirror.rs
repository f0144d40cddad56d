//! A mirror for tests: the simplest component that sends requests to others.

#![expect(clippy::unused_self, reason = "all kinds of parts share this signature")]

use crate::core::Core;
use crate::part_id::PartId;
use crate::request::State;
use crate::usage::{Phase, Resource};
use iodyno_units::{IoError, Op, OpKind};

/// Sends reads to its children in turn, and everything else to all of them.
#[derive(Clone, Debug)]
pub(crate) struct Mirror {
    children: Vec<PartId>,
    turn: usize,
}

impl Mirror {
    pub(crate) fn new(children: Vec<PartId>) -> Self {
        Self { children, turn: 0 }
    }

    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        let request = &mut core.slab[slot];
        if request.state == State::Done {
            let failed = request.failed;
            core.complete(slot, failed.then_some(IoError::Io));
            return;
        }
        let op = Op {
            offset_bytes: request.at,
            len_bytes: request.len,
            kind: request.kind,
            fua: request.fua,
        };
        let token = request.token;
        let to = if op.kind == OpKind::Read {
            let turn = self.turn % self.children.len();
            self.turn += 1;
            &self.children[turn..=turn]
        } else {
            &self.children
        };
        request.pending = to.len() as u32;
        request.state = State::Waiting;
        for &child in to {
            core.ask(child, slot, &op, token);
        }
    }

    pub(crate) fn child_completed(core: &mut Core, parent: u32, failure: Option<IoError>) {
        let request = &mut core.slab[parent];
        request.failed |= failure.is_some();
        request.pending -= 1;
        if request.pending == 0 {
            let end_ns = core.notified_ns(core.now, parent);
            core.at(end_ns, parent, State::Done);
        }
    }

    pub(crate) fn power_off(&mut self, _: &mut Core) {}

    pub(crate) fn keep_content(&mut self) {}

    /// Always `None`: the content is in the children.
    pub(crate) fn unit_value(&self, _: u64) -> Option<u64> {
        None
    }

    pub(crate) fn resources(&self, _: &Core) -> Vec<Resource> {
        Vec::new()
    }

    pub(crate) fn phases(&self) -> Vec<Phase> {
        Vec::new()
    }
}
