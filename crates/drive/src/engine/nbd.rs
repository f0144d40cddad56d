//! An export of an NBD server: each worker has its own connection, with up to its queue depth of requests in flight.
//! The worker waits in the kernel, as with the engines for files.
//!
//! A broken connection ends the measurement on all targets, but the results are kept. The operations in flight fail as
//! on a removed device. Only the next call of `turn` returns the error.

use super::{About, Engine, Facts, Seat, Wait};
use crate::memory::Buffers;
use iodyno_nbd::client::{self, ClientError, Config, Connection, Uri};
use iodyno_nbd::{CmdFlags, Info, Kind};
use iodyno_units::{Op, OpKind};
use std::io;
use std::time::Duration;

/// Timeout for connecting to the server and negotiating the export, including retries.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An NBD export, as inspected and accepted by the crate `targets`.
#[derive(Clone, Debug)]
pub struct NbdMedium {
    /// URI of the export, by which each worker connects.
    pub uri: Uri,
    /// Length of the addressable part of the export, bytes.
    pub capacity_bytes: u64,
    /// Size of the whole export at inspection, bytes. Connecting fails if the server now reports another size.
    pub size_bytes: u64,
    /// True if the export was read-only at inspection. Connecting fails if this has changed.
    pub read_only: bool,
}

impl NbdMedium {
    /// Connects to the server, and checks that size and access of the export have not changed.
    ///
    /// # Errors
    /// No connection is possible, or the export has changed.
    fn connect(&self, depth: u32) -> io::Result<Connection> {
        let config = Config { depth, timeout: CONNECT_TIMEOUT, ..Config::default() };
        let connection = Connection::connect(&self.uri, &config).map_err(|error| {
            let kind = match &error {
                ClientError::Connect(_, e) | ClientError::Broken(_, e) => e.kind(),
                _ => io::ErrorKind::Other,
            };
            io::Error::new(kind, error)
        })?;
        let Info { size_bytes, read_only, .. } = *connection.info();
        if (size_bytes, read_only) != (self.size_bytes, self.read_only) {
            let access = |read_only| if read_only { "read-only" } else { "writable" };
            return Err(io::Error::other(format!(
                "the export has changed: it had {} bytes ({}), and now has {size_bytes} ({})",
                self.size_bytes,
                access(self.read_only),
                access(read_only)
            )));
        }
        Ok(connection)
    }
}

pub(super) const ABOUT: About = About {
    queues: true,
    is_wakeable: true,
    hint: |error| match error.kind() {
        io::ErrorKind::Other => "",
        _ => {
            "; an earlier connection succeeded: a server that exits after its first client, such as `qemu-nbd` without --persistent, needs an option that keeps it running"
        }
    },
    ..About::new("nbd")
};

/// Runs a worker on an NBD export.
pub(super) fn run(export: &NbdMedium, seat: impl Seat) -> io::Result<()> {
    let buffers = seat.buffers(4096)?;
    let mut engine = NbdEngine::new(export, &buffers)?;
    let facts = Facts::from([("nbd.agreed".to_owned(), engine.agreed())]);
    seat.run(&mut engine, Some(&buffers), facts);
    Ok(())
}

/// The NBD engine of one worker.
#[derive(Debug)]
pub struct NbdEngine<'a> {
    connection: Connection,
    buffers: &'a Buffers,
    /// For each buffer number, the byte count with which its request in flight completes on success; `None` if there
    /// is no request.
    in_flight: Box<[Option<u32>]>,
    /// Why the connection was lost; `None` while it is up.
    lost: Option<io::Error>,
    /// True once all operations that were in flight when the connection was lost have been returned as failed.
    returned: bool,
}

impl<'a> NbdEngine<'a> {
    /// Connects to the export, with a queue depth equal to the number of buffers.
    ///
    /// # Errors
    /// No connection is possible, or the export has changed.
    pub fn new(medium: &NbdMedium, buffers: &'a Buffers) -> io::Result<Self> {
        let slots = buffers.slots();
        let connection = medium.connect(slots)?;
        let in_flight = vec![None; slots as usize].into();
        Ok(Self { connection, buffers, in_flight, lost: None, returned: false })
    }

    /// The options negotiated with the server, as text.
    pub fn agreed(&self) -> String {
        let found = self.connection.found();
        let replies = if found.structured { "structured replies" } else { "simple replies" };
        let tls = if found.secure { ", TLS" } else { "" };
        format!("{replies}{tls}")
    }
}

/// Copies an I/O error, since `io::Error` is not `Clone`.
fn again(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

impl Engine for NbdEngine<'_> {
    #[inline]
    fn queue(&mut self, slot: u32, op: &Op) {
        self.in_flight[slot as usize] = Some(op.len_bytes);
        if self.lost.is_some() {
            return;
        }
        let (kind, carries) = match op.kind {
            OpKind::Read => (Kind::Read, true),
            OpKind::Write => (Kind::Write, true),
            OpKind::Flush => (Kind::Flush, false),
            OpKind::Trim => (Kind::Trim, false),
            OpKind::WriteZeroes => (Kind::WriteZeroes, false),
        };
        let flags = if op.fua { CmdFlags::FUA } else { CmdFlags::NONE };
        let buffer = if carries { self.buffers.slot(slot) } else { std::ptr::null_mut() };
        let (offset, len) =
            if op.kind == OpKind::Flush { (0, 0) } else { (op.offset_bytes, op.len_bytes) };
        // SAFETY: the slot's buffer is as long as the longest operation, and this engine's until the
        // completion is drained; it outlives the engine, and so the connection.
        unsafe { self.connection.queue(slot, kind, flags, offset, len, buffer) };
    }

    fn submit(&mut self) -> io::Result<bool> {
        if self.lost.is_some() {
            return Ok(false);
        }
        match self.connection.send_queued() {
            Ok(()) => Ok(true),
            Err(error) => {
                self.lost = Some(error);
                Ok(false)
            }
        }
    }

    #[inline]
    fn turn(&mut self, wait: Wait) -> io::Result<()> {
        if let Some(lost) = &self.lost {
            // First return the operations in flight: the connection may have been lost in `submit`.
            return if self.returned { Err(again(lost)) } else { Ok(()) };
        }
        let wait = match wait {
            Wait::No => client::Wait::No,
            Wait::One => client::Wait::One,
            Wait::AtMostNs(ns) => client::Wait::AtMost(Duration::from_nanos(ns)),
        };
        if let Err(error) = self.connection.turn(wait) {
            self.lost = Some(error);
        }
        Ok(())
    }

    #[inline]
    fn drain(&mut self, mut done: impl FnMut(u32, i32)) {
        let (connection, in_flight) = (&mut self.connection, &mut self.in_flight);
        connection.drain(|slot, result| {
            let len_bytes = in_flight[slot as usize].take().unwrap_or(0);
            // The protocol's error numbers are those of Linux.
            done(slot, result.map_or_else(|errno| -(errno.code() as i32), |()| len_bytes as i32));
        });
        if self.lost.is_some() && !self.returned {
            self.returned = true;
            for (slot, waits) in (0..).zip(in_flight.iter_mut()) {
                if waits.take().is_some() {
                    done(slot, -libc::ENODEV);
                }
            }
        }
    }

    fn lends_buffers(&self) -> bool {
        false
    }

    fn lost(&self) -> Option<io::Error> {
        self.lost.as_ref().map(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_nbd::client::Address;
    use iodyno_nbd::ram::Ram;
    use iodyno_nbd::{Endpoint, Exports, Server, ServerConfig};
    use std::sync::Arc;

    /// Whichever call notices a lost connection, the operations in flight are returned once, and the next iteration
    /// then returns the error.
    #[test]
    fn in_flight_operations_are_returned_before_the_error() {
        for stamped in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let socket = folder.path().join("nbd.sock");
            let exports = Arc::new(Exports::default());
            exports.insert("", Arc::new(Ram::new(1 << 20).unwrap()));
            let endpoint = Endpoint::Unix(socket.clone());
            let server = Server::start(exports, &[endpoint], ServerConfig::default()).unwrap();
            let (tls_certificates, tls_hostname) = (None, None);
            let address = Address::Unix(socket);
            let uri =
                Uri { address, tls: false, export: String::new(), tls_certificates, tls_hostname };
            let (capacity_bytes, size_bytes) = (1 << 20, 1 << 20);
            let medium = NbdMedium { uri, capacity_bytes, size_bytes, read_only: false };
            let buffers = Buffers::new(4, 4096, 4096).unwrap();
            let mut engine = NbdEngine::new(&medium, &buffers).unwrap();
            server.stop();
            for slot in [1, 3] {
                let op = Op { kind: OpKind::Read, offset_bytes: 0, len_bytes: 4096, ..Op::FLUSH };
                engine.queue(slot, &op);
            }
            if stamped {
                assert!(!engine.submit().unwrap(), "nothing was handed over");
            }
            engine.turn(Wait::One).unwrap();
            let mut given_back = Vec::new();
            engine.drain(|slot, result| given_back.push((slot, result)));
            assert_eq!(given_back, [(1, -libc::ENODEV), (3, -libc::ENODEV)]);
            assert!(engine.lost().is_some());
            engine.turn(Wait::One).unwrap_err();
            engine.drain(|slot, _| panic!("slot {slot} is returned twice"));
        }
    }
}
