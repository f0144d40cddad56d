//! A blocking client for tests and tools: one request at a time, with data in slices. Not suited to generate load.

use super::{ClientError, Config, Connection, Uri, Wait};
use crate::wire::{CmdFlags, Errno, Extent, Info, Kind};
use std::io;
use std::time::{Duration, Instant};

/// A synchronous NBD client: each call waits for its reply.
#[derive(Debug)]
pub struct Blocking {
    connection: Connection,
    /// Whether the connection has failed, possibly after sending part of a request.
    broken: bool,
    /// Timeout for a reply; `None`: no timeout.
    timeout: Option<Duration>,
}

/// Converts an error number from the server to an I/O error: NBD uses Linux's numbers.
fn os_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.code() as i32)
}

impl Blocking {
    /// Connects to a server and opens the export. Requests the metadata context `base:allocation`.
    pub fn connect(uri: &Uri) -> Result<Self, ClientError> {
        Self::connect_with(uri, &Config { block_status: true, ..Config::default() })
    }

    /// Connects to a server and opens the export, with the given configuration.
    pub fn connect_with(uri: &Uri, config: &Config) -> Result<Self, ClientError> {
        let connection = Connection::connect(uri, config)?;
        Ok(Self { connection, broken: false, timeout: None })
    }

    /// Sets the timeout for replies. If a reply is late, the call fails with [`io::ErrorKind::TimedOut`], and the
    /// connection becomes unusable.
    #[must_use]
    pub fn with_patience(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The export's size, limits and supported commands.
    pub fn info(&self) -> &Info {
        self.connection.info()
    }

    /// The underlying connection, for requests that this client does not offer.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn call(
        &mut self,
        kind: Kind,
        flags: CmdFlags,
        offset_bytes: u64,
        len_bytes: u32,
        buffer: *mut u8,
    ) -> io::Result<()> {
        if self.broken {
            return Err(io::ErrorKind::NotConnected.into());
        }
        // SAFETY: the buffer is a slice that this function's caller borrows until the return. An
        // early return happens only when the connection is broken, and a broken one is not used
        // again.
        unsafe { self.connection.queue(0, kind, flags, offset_bytes, len_bytes, buffer) };
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut result = None;
        while result.is_none() {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let turned = match left {
                Some(Duration::ZERO) => Err(io::ErrorKind::TimedOut.into()),
                Some(left) => self.connection.turn(Wait::AtMost(left)),
                None => self.connection.turn(Wait::One),
            };
            self.broken = turned.is_err();
            turned?;
            self.connection.drain(|_, r| result = Some(r));
        }
        result.unwrap_or(Ok(())).map_err(os_error)
    }

    /// Fills the buffer with data from the export. Panics if the buffer has 4 GiB or more.
    pub fn read(&mut self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()> {
        let len = u32::try_from(to.len()).expect("a length of 32 bits");
        self.call(Kind::Read, CmdFlags::NONE, offset_bytes, len, to.as_mut_ptr())
    }

    /// Writes the whole buffer to the export. Panics if the buffer has 4 GiB or more.
    pub fn write(&mut self, offset_bytes: u64, from: &[u8], flags: CmdFlags) -> io::Result<()> {
        let len = u32::try_from(from.len()).expect("a length of 32 bits");
        self.call(Kind::Write, flags, offset_bytes, len, from.as_ptr().cast_mut())
    }

    /// Sends a request without data (flush, trim, write-zeroes or cache), and waits for its reply.
    pub fn command(
        &mut self,
        kind: Kind,
        flags: CmdFlags,
        offset_bytes: u64,
        len_bytes: u32,
    ) -> io::Result<()> {
        assert!(!matches!(kind, Kind::Read | Kind::Write), "{} has data", kind.name());
        self.call(kind, flags, offset_bytes, len_bytes, std::ptr::null_mut())
    }

    /// Queries which parts of a range are allocated. The returned extents begin at the range's start, but may end
    /// before the range does.
    pub fn block_status(
        &mut self,
        offset_bytes: u64,
        len_bytes: u32,
        flags: CmdFlags,
    ) -> io::Result<Vec<Extent>> {
        self.command(Kind::BlockStatus, flags, offset_bytes, len_bytes)?;
        let mut extents = Vec::new();
        self.connection.drain_extents(|_, e| extents.push(e));
        Ok(extents)
    }
}
