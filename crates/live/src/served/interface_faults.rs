//! Faults at the interfaces of a machine's volumes: injects and clears them, and applies them to requests.

use super::operations::Inner;
use super::{Live, Payload, Sink, deliver};
use crate::counts::Looks;
use crate::interface_fault::{Action, Injected, InterfaceFault, Met, misdirected};
use iodyno_units::{IoError, Op, OpKind};

impl<S: Sink> Live<S> {
    /// Injects a fault at a volume's interface now. Its duration and delays are in simulated time.
    pub fn add_interface_fault(&self, volume: u32, fault: InterfaceFault) {
        let mut completed = Vec::new();
        let mut inner = self.lock();
        // A machine that lags has not reached the time of the clock.
        let now_ns = self.now_ns();
        self.advance(&mut inner, now_ns, Looks::default(), &mut completed);
        // Not earlier than the last input in the record.
        let at_ns = self.input_ns(&inner, now_ns);
        inner.interface_faults[volume as usize].add(at_ns, fault);
        if let Some(recorder) = &mut inner.recorder {
            recorder.interface_fault(at_ns, volume, &fault);
        }
        self.plan(&mut inner);
        drop(inner);
        deliver(completed);
    }

    /// Ends the delays of a kind of operation at a volume's interface; `None`: all of its delays.
    pub fn end_interface_delays(&self, volume: u32, kind: Option<OpKind>) {
        self.lock().interface_faults[volume as usize].end_delays(kind);
    }

    /// Ends all faults at a volume's interface, and sends the replies that they hold back.
    pub fn clear_interface_faults(&self, volume: u32) {
        let mut inner = self.lock();
        inner.interface_faults[volume as usize].clear();
        inner.held.release(|reply| reply.0 == volume);
        self.plan(&mut inner);
    }

    /// The faults at a volume's interface, including those that are over.
    pub fn interface_faults(&self, volume: u32) -> Vec<Injected> {
        let mut inner = self.lock();
        // A machine that lags has not reached the time of the clock.
        let next_ns = inner.machine.next_event().unwrap_or(u64::MAX);
        let now_ns = self.machine_ns(self.now_ns()).min(next_ns);
        inner.interface_faults[volume as usize].listed(now_ns).to_vec()
    }
}

impl<S: Sink> Inner<S> {
    /// Applies the interface fault that affects a request, if any. The fault fails the request, changes `op`, or sets
    /// `instead`: the bytes to store in place of the write's data. Returns a fault that must be applied at completion.
    /// `size_bytes` is the volume's size.
    pub(super) fn meets_fault(
        &mut self,
        now_ns: u64,
        (volume, size_bytes): (u32, u64),
        op: &mut Op,
        payload: &Payload<'_>,
        instead: &mut Option<Vec<u8>>,
    ) -> Result<Option<Met>, IoError> {
        if self.interface_faults[volume as usize].is_empty() {
            return Ok(None);
        }
        let root = self.root(volume);
        let store = self.stores.get(root).filter(|_| root < self.devices);
        let read = |at, into: &mut [u8]| store.is_some_and(|store| store.read(at, into).is_ok());
        let met = self.interface_faults[volume as usize].judge(now_ns, op, read);
        let Some(met) = met else { return Ok(None) };
        match met.action {
            Action::Fail(error) => return Err(error),
            Action::Lose => *instead = self.stored_instead(volume, op, payload, 0),
            Action::Tear { kept_bytes } => {
                *instead = self.stored_instead(volume, op, payload, kept_bytes);
            }
            Action::Misdirect { by_bytes } => {
                op.offset_bytes = misdirected(op, by_bytes, size_bytes);
            }
            Action::Flip | Action::Stale | Action::Delay { .. } | Action::Hang { .. } => {
                return Ok(Some(met));
            }
        }
        Ok(None)
    }

    /// Bytes that a lost or torn write stores: the first `kept_bytes` of its own data, then the volume's present
    /// content. `None` if that content is unknown, because the volume is not a single device or can't be read. The
    /// write's own data is then stored in full.
    fn stored_instead(
        &mut self,
        volume: u32,
        op: &Op,
        payload: &Payload<'_>,
        kept_bytes: u32,
    ) -> Option<Vec<u8>> {
        let root = self.root(volume);
        let Payload::Write(written) = payload else { return None };
        let store = self.stores.get_mut(root).filter(|_| root < self.devices)?;
        let mut bytes = vec![0; written.len()];
        store.read(op.offset_bytes, &mut bytes).ok()?;
        let kept = written.len().min(kept_bytes as usize);
        bytes[..kept].copy_from_slice(&written[..kept]);
        Some(bytes)
    }
}
