//! Plain memory into whose requests and replies faults can be injected.

use crate::interface::{Disk, Interface};
use iodyno_live::frontend::nbd::operation;
use iodyno_nbd::ram::Ram;
use iodyno_nbd::{Export, Info, Io, Peer, Place, Session};
use iodyno_units::{IoError, Op, OpKind};
use std::io;
use std::sync::Arc;

/// A RAM disk whose requests may meet faults.
pub(super) struct Faulty {
    pub(super) disk: Ram,
    pub(super) faults: Arc<Interface>,
}

impl Disk for Ram {
    fn size_bytes(&self) -> u64 {
        self.info().size_bytes
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), IoError> {
        Self::read(self, at, into);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), IoError> {
        Self::write(self, at, bytes);
        Ok(())
    }

    fn perform(&self, op: &Op) -> Result<(), IoError> {
        if matches!(op.kind, OpKind::Trim | OpKind::WriteZeroes) {
            self.discard(op.offset_bytes, u64::from(op.len_bytes), op.kind == OpKind::Trim);
        }
        Ok(())
    }
}

impl Export for Faulty {
    fn info(&self) -> Info {
        self.disk.info()
    }

    fn open(&self, peer: &Peer) -> io::Result<Box<dyn Session>> {
        let (disk, faults) = (self.disk.clone(), Arc::clone(&self.faults));
        Ok(Box::new(Client { usual: disk.open(peer)?, disk, faults }))
    }
}

struct Client {
    /// Session of the RAM disk itself, for requests that no fault affects.
    usual: Box<dyn Session>,
    disk: Ram,
    faults: Arc<Interface>,
}

impl Session for Client {
    fn submit(&mut self, io: Io<'_>) {
        // The payload of a write that began before the fault may be in the memory already.
        let op = operation(io.command()).filter(|_| !io.placed());
        match op.and_then(|op| Some((op, self.faults.judge(&self.disk, &op)?))) {
            Some((op, met)) => self.faults.serve(&self.disk, &op, &met, io),
            None => self.usual.submit(io),
        }
    }

    fn place(&mut self, offset_bytes: u64, len_bytes: u32) -> Option<Place> {
        if self.faults.is_empty() { self.usual.place(offset_bytes, len_bytes) } else { None }
    }

    fn broken_off(&mut self, offset_bytes: u64, len_bytes: u32) {
        self.usual.broken_off(offset_bytes, len_bytes);
    }
}
