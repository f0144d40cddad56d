//! Operations on arrays: their data between hosts and members' stores, and corrupt data of members.

use super::array_bytes::Operation;
use super::operations::{Inner, NUMBER_MASK, Waiting};
use super::{Payload, Sink};
use crate::store::UNIT_BYTES;
use iodyno_emulate::{Completion, Fault, PartId};
use iodyno_units::{IoError, Op, OpKind};

/// Maximum number of times that a read of an array is repeated. Each repetition reads copies or parity of data that the
/// one before found to be corrupt, so arrays of arrays need more than one.
const REPEATS_MAX: u32 = 8;

impl<S: Sink> Inner<S> {
    /// Marks a member's unit as corrupt: the machine's reads of the unit then fail, and the array recovers it.
    pub(super) fn is_corrupt(&mut self, part: PartId, unit: u64) {
        self.counts[self.volume_of[part.index()]].corruptions_found += 1;
        if part.index() >= self.devices {
            // In the cache of an adapter, anything made of the unit is unreadable as well.
            return;
        }
        let (offset_bytes, len_bytes) = (unit * UNIT_BYTES, UNIT_BYTES);
        let fault = Fault::Latent { part, offset_bytes, len_bytes };
        let at_ns = self.machine.now_ns();
        if let Some(recorder) = &mut self.recorder {
            recorder.fault(at_ns, &fault);
        }
        self.machine.inject(at_ns, fault);
    }

    /// Registers an operation on an array. The machine's content events then move its data to and from the
    /// members.
    pub(super) fn begin_on_array(&mut self, token: u64, op: &Op, payload: &Payload<'_>) {
        let bytes = match (op.kind, payload) {
            (OpKind::Read, _) => vec![0; op.len_bytes as usize],
            (OpKind::Write, Payload::Write(bytes)) => bytes.to_vec(),
            _ => Vec::new(),
        };
        let (offset_bytes, len_bytes) = (op.offset_bytes, u64::from(op.len_bytes));
        let operation = Operation { offset_bytes, bytes, len_bytes, failed: false };
        self.arrays.operations.insert(token, operation);
    }

    /// Repeats a completed read of an array if corrupt data of a member made it fail: the machine knows of it by now, and
    /// recovers the data. Returns the operation if it is not repeated.
    pub(super) fn repeat(
        &mut self,
        done: &Completion,
        mut waiting: Waiting<S>,
    ) -> Option<Waiting<S>> {
        let operation = self.arrays.operations.get_mut(&waiting.token);
        let Some(operation) = operation.filter(|operation| operation.failed) else {
            return Some(waiting);
        };
        if done.failure.is_some() || waiting.failed.is_some() || waiting.repeats == REPEATS_MAX {
            return Some(waiting);
        }
        operation.failed = false;
        waiting.repeats += 1;
        let (worker, volume, op, token) =
            (waiting.worker, waiting.volume, waiting.op, waiting.token);
        self.waiting[(token & NUMBER_MASK) as usize] = Some(waiting);
        let at_ns = done.at_ns.max(self.machine.now_ns());
        self.submitted_ns = self.submitted_ns.max(at_ns);
        if let Some(recorder) = &mut self.recorder {
            recorder.operation(at_ns, worker, volume, &op);
        }
        self.machine.submit(at_ns, worker, volume, &op, token);
        None
    }

    /// Removes a completed operation on an array, and copies the data of a read to its sink. Returns its error,
    /// if any.
    pub(super) fn end_on_array(&mut self, waiting: &mut Waiting<S>) -> Option<IoError> {
        if self.arrays.operations.is_empty() {
            return None;
        }
        let operation = self.arrays.operations.remove(&waiting.token)?;
        if waiting.op.kind == OpKind::Read && !operation.failed {
            let into = waiting.sink.buffer();
            let len = into.len().min(operation.bytes.len());
            into[..len].copy_from_slice(&operation.bytes[..len]);
        }
        let mut failed = operation.failed.then_some(IoError::Io);
        if waiting.op.kind == OpKind::Flush || waiting.op.fua {
            for part in self.machine.system().parts_of(waiting.volume) {
                let Some(store) = self.stores.get_mut(part.index()) else { continue };
                if let Err(error) = store.settle() {
                    failed = Some(IoError::from(&error));
                    self.trouble.get_or_insert_with(|| error.to_string());
                }
            }
        }
        failed
    }
}
