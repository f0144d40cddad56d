//! Plain memory with faults at its interface.

use iodyno_live::frontend::nbd::{failed, operation};
use iodyno_live::interface_fault::{Action, SharedFaults, flip, misdirected};
use iodyno_nbd::ram::Ram;
use iodyno_nbd::{Answer, Export, Info, Io, Peer, Place, Session};
use std::io;
use std::sync::Arc;

/// A RAM disk whose requests may meet faults.
pub(super) struct Faulty {
    pub(super) disk: Ram,
    pub(super) faults: Arc<SharedFaults>,
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
    /// Session without faults.
    usual: Box<dyn Session>,
    disk: Ram,
    faults: Arc<SharedFaults>,
}

impl Session for Client {
    fn submit(&mut self, io: Io<'_>) {
        // The payload of a write that began before the fault may be in the memory already.
        let op = operation(io.command()).filter(|_| !io.placed());
        let Some((op, action)) = op.and_then(|op| Some((op, self.faults.judge(&op)?))) else {
            return self.usual.submit(io);
        };
        let data = io.data();
        match action {
            Action::Fail(error) => return io.answer(&failed(error)),
            Action::Lose => {}
            Action::Tear { kept_bytes } => {
                self.disk.write(op.offset_bytes, &data[..data.len().min(kept_bytes as usize)]);
            }
            Action::Misdirect { by_bytes } => {
                let size_bytes = self.disk.info().size_bytes;
                self.disk.write(misdirected(&op, by_bytes, size_bytes), data);
            }
            Action::Flip => {
                let mut bytes = vec![0; op.len_bytes as usize];
                self.disk.read(op.offset_bytes, &mut bytes);
                flip(&mut bytes);
                return io.answer(&Answer::Data(&bytes));
            }
        }
        io.answer(&Answer::Done);
    }

    fn place(&mut self, offset_bytes: u64, len_bytes: u32) -> Option<Place> {
        if self.faults.is_empty() { self.usual.place(offset_bytes, len_bytes) } else { None }
    }

    fn broken_off(&mut self, offset_bytes: u64, len_bytes: u32) {
        self.usual.broken_off(offset_bytes, len_bytes);
    }
}
