//! An NBD export as a log's storage: one connection for the writer, and one for all readers if the server promises
//! consistency between connections.

use super::aligned::{ALIGN_BYTES, AlignedBuffer};
use super::{OpenStorage, PAGE_BYTES, Purpose};
use iodyno_msglog::Storage;
use iodyno_msglog::storage::Buffer;
use iodyno_nbd::client::{Blocking, Uri};
use iodyno_nbd::{CmdFlags, Kind};
use iodyno_targets::{
    SysRoot, TargetError, TargetName, check_writable, confirm, inspect, with_log_kept,
};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Timeout of an NBD request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Storage on an NBD export. Each request has a timeout of one minute.
#[derive(Debug)]
pub struct NbdStorage {
    writer: Mutex<Blocking>,
    /// Separate connection for reads; `None`: reads and writes share one connection.
    reader: Option<Mutex<Blocking>>,
    capacity_bytes: u64,
    flushes: bool,
}

impl NbdStorage {
    /// Connects to an NBD export. Reads get a second connection if the server announces multi-connection consistency.
    ///
    /// # Errors
    /// The server can't be reached, or refuses.
    pub fn connect(uri: &Uri) -> io::Result<Self> {
        let connect = || {
            let connection = Blocking::connect(uri).map_err(io::Error::other)?;
            Ok::<_, io::Error>(connection.with_patience(PATIENCE))
        };
        let writer = connect()?;
        let reader = if writer.info().multi_conn { Some(Mutex::new(connect()?)) } else { None };
        let (capacity_bytes, flushes) = (writer.info().size_bytes, writer.info().flush);
        Ok(Self { writer: Mutex::new(writer), reader, capacity_bytes, flushes })
    }
}

fn held(connection: &Mutex<Blocking>) -> MutexGuard<'_, Blocking> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storage for NbdStorage {
    fn read_at(&self, offset_bytes: u64, to: &mut [u8]) -> io::Result<()> {
        if offset_bytes + to.len() as u64 > self.capacity_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        held(self.reader.as_ref().unwrap_or(&self.writer)).read(offset_bytes, to)
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        held(&self.writer).write(offset_bytes, bytes, CmdFlags::NONE)
    }

    fn flush(&self) -> io::Result<()> {
        if !self.flushes {
            return Ok(());
        }
        held(&self.writer).command(Kind::Flush, CmdFlags::NONE, 0, 0)
    }

    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn buffer(&self, bytes: usize) -> Box<dyn Buffer> {
        Box::new(AlignedBuffer::new(bytes, ALIGN_BYTES))
    }
}

pub(super) fn open(
    name: &TargetName,
    uri: &Uri,
    purpose: &Purpose,
) -> Result<OpenStorage, TargetError> {
    let inspection = inspect(name)?;
    let writable = || check_writable(&inspection, &SysRoot::real());
    let lifted = match purpose {
        Purpose::Read => Vec::new(),
        Purpose::Serve(given) => {
            confirm(&inspection, with_log_kept(&inspection, writable()), given)?
        }
        Purpose::Create(given) => confirm(&inspection, writable(), given)?,
    };
    let block = inspection.nbd.as_ref().map_or(0, |export| export.min_block_bytes.into());
    let storage = NbdStorage::connect(uri).map_err(|error| TargetError::Unsupported {
        path: name.to_string(),
        problem: format!("{error}."),
        help: "check that the server is running and has this export.".to_owned(),
    })?;
    let words = if storage.flushes {
        "an NBD export, made durable by NBD flushes".to_owned()
    } else {
        "an NBD export without flush support: persisted messages may be only in the server's memory"
            .to_owned()
    };
    Ok(OpenStorage {
        storage: Arc::new(storage),
        block_bytes: PAGE_BYTES.max(block).min(64 << 10) as u32,
        words,
        lifted: lifted.iter().map(ToString::to_string).collect(),
        made_here: false,
    })
}
