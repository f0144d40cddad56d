//! An export of an NBD server: each worker has a connection of its own, with its whole depth in flight
//! on it. The connection sends and receives in the worker's own thread.

use super::{Engine, Wait};
use crate::memory::Buffers;
use iodyno_nbd::client::{ClientError, Config, Connection, Uri, Wait as Turn};
use iodyno_nbd::{CmdFlags, Errno, Kind};
use iodyno_units::{Op, OpKind};
use std::io;
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct NbdEngine<'a> {
    connection: Connection,
    buffers: &'a Buffers,
    lens_bytes: Vec<u32>,
    /// What was refused without being sent: slot, and the negative error number.
    refused: Vec<(u32, i32)>,
}

impl<'a> NbdEngine<'a> {
    /// Connects.
    ///
    /// # Errors
    /// Nobody serves such an export there.
    pub fn new(uri: &Uri, buffers: &'a Buffers) -> Result<Self, ClientError> {
        let config = Config { depth: buffers.slots(), ..Config::default() };
        let connection = Connection::connect(uri, &config)?;
        let slots = buffers.slots() as usize;
        let refused = Vec::with_capacity(slots);
        Ok(Self { connection, buffers, lens_bytes: vec![0; slots], refused })
    }

    /// Whether the server can do it; one that can't would take it for a mistake.
    fn serves(&self, kind: Kind) -> bool {
        let info = self.connection.info();
        match kind {
            Kind::Flush => info.flush,
            Kind::Trim => info.trim,
            Kind::WriteZeroes => info.write_zeroes,
            _ => true,
        }
    }
}

impl Engine for NbdEngine<'_> {
    fn queue(&mut self, slot: u32, op: &Op) {
        let kind = match op.kind {
            OpKind::Read => Kind::Read,
            OpKind::Write => Kind::Write,
            OpKind::Flush => Kind::Flush,
            OpKind::Trim => Kind::Trim,
            OpKind::WriteZeroes => Kind::WriteZeroes,
        };
        if !self.serves(kind) || (op.fua && !self.connection.info().fua) {
            self.refused.push((slot, -libc::EOPNOTSUPP));
            return;
        }
        self.lens_bytes[slot as usize] = op.len_bytes;
        let flags = if op.fua { CmdFlags::FUA } else { CmdFlags::NONE };
        let buffer = self.buffers.slot(slot);
        // SAFETY: the slot is this engine's until its completion is drained, and the buffers outlive it.
        unsafe {
            self.connection.queue(slot, kind, flags, op.offset_bytes, op.len_bytes, buffer);
        }
    }

    fn turn(&mut self, wait: Wait) -> io::Result<()> {
        let turn = match wait {
            Wait::One if self.refused.is_empty() => Turn::One,
            Wait::AtMostNs(ns) if self.refused.is_empty() => Turn::AtMost(Duration::from_nanos(ns)),
            _ => Turn::No,
        };
        self.connection.turn(turn)
    }

    fn drain(&mut self, mut done: impl FnMut(u32, i32)) {
        let lens_bytes = &self.lens_bytes;
        self.connection.drain(|slot, result| match result {
            Ok(()) => done(slot, lens_bytes[slot as usize] as i32),
            Err(errno) => done(slot, -number(errno)),
        });
        self.refused.drain(..).for_each(|(slot, result)| done(slot, result));
    }
}

/// As Linux numbers it.
fn number(errno: Errno) -> i32 {
    errno.code() as i32
}
