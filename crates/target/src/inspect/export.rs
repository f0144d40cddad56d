//! An export of an NBD server, as the server tells of it over a connection of its own, which ends when
//! the inspection does.

use super::extents::Extents;
use super::{Capabilities, Inspection, Kind};
use crate::error::TargetError;
use crate::name::TargetName;
use crate::signature;
use iodyno_nbd::CmdFlags;
use iodyno_nbd::client::{Blocking, ClientError, Uri};
use iodyno_nbd::wire::{STATE_HOLE, STATE_ZERO};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A block status covers so much at a time.
const STATUS_BYTES_MAX: u64 = 1 << 30;
/// No longer is asked what is allocated: a server may take its time for each answer.
const STATUS_TIME_MAX: Duration = Duration::from_secs(2);

/// What a server says of an export, as far as it bears on figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NbdExport {
    /// What the server calls it; empty where it says nothing.
    pub description: String,
    /// It can't be written.
    pub read_only: bool,
    /// It turns.
    pub rotational: bool,
    /// Writes on one connection are seen on the others after a flush.
    pub multi_conn: bool,
    /// It can flush.
    pub flush: bool,
    /// It can write through to the medium.
    pub fua: bool,
    /// The smallest request, bytes.
    pub min_block_bytes: u32,
    /// The preferred one, bytes.
    pub preferred_block_bytes: u32,
    /// The longest read or write, bytes.
    pub max_payload_bytes: u32,
    /// Reads are answered in chunks.
    pub structured_replies: bool,
    /// Over TLS.
    pub tls: bool,
}

pub(super) fn inspect(name: &TargetName, uri: &Uri) -> Result<Inspection, TargetError> {
    let mut server = Blocking::connect(uri).map_err(|e| no_server(uri, &e))?;
    let mut inspection = Inspection::empty(name, Kind::Nbd);
    let info = server.info().clone();
    let found = server.connection().found();
    let (structured_replies, tls) = (found.structured, found.secure);
    let tells_allocation = found.meta_id.is_some();
    inspection.path = Some(uri.to_string());
    inspection.size_bytes = Some(info.size_bytes);
    inspection.whole_bytes = Some(info.size_bytes);
    inspection.alignment.logical_block_bytes = Some(info.min_block_bytes.into());
    inspection.alignment.io_optimal_bytes = Some(info.preferred_block_bytes.into());
    inspection.capabilities =
        Capabilities { trim: Some(info.trim), write_zeroes: Some(info.write_zeroes) };
    let probed = signature::probe(info.size_bytes, &mut |offset, into| server.read(offset, into));
    match probed {
        Ok(content) => inspection.content = Some(content),
        Err(error) => inspection.unreadable = Some(error.to_string()),
    }
    if tells_allocation {
        inspection.extents = allocated(&mut server, info.size_bytes);
    }
    inspection.export = Some(NbdExport {
        description: info.description,
        read_only: info.read_only,
        rotational: info.rotational,
        multi_conn: info.multi_conn,
        flush: info.flush,
        fua: info.fua,
        min_block_bytes: info.min_block_bytes,
        preferred_block_bytes: info.preferred_block_bytes,
        max_payload_bytes: info.max_payload_bytes,
        structured_replies,
        tls,
    });
    Ok(inspection)
}

fn no_server(uri: &Uri, error: &ClientError) -> TargetError {
    TargetError::NoServer { uri: uri.to_string(), problem: error.to_string() }
}

/// Which share of it holds data; None where the server does not say, or not in time.
fn allocated(server: &mut Blocking, size_bytes: u64) -> Option<Extents> {
    let since = Instant::now();
    let (mut at, mut data, mut count) = (0, 0, 0);
    let mut before = None;
    while at < size_bytes {
        let len_bytes = (size_bytes - at).min(STATUS_BYTES_MAX) as u32;
        let extents = server.block_status(at, len_bytes, CmdFlags::NONE).ok()?;
        if extents.is_empty() || since.elapsed() > STATUS_TIME_MAX {
            return None;
        }
        for extent in extents {
            let len_bytes = u64::from(extent.len_bytes).min(size_bytes - at);
            let holds = extent.state & (STATE_HOLE | STATE_ZERO) == 0;
            data += if holds { len_bytes } else { 0 };
            count += u64::from(before.replace(holds) != Some(holds));
            at += len_bytes;
        }
    }
    (size_bytes > 0)
        .then(|| Extents { written_share: data as f64 / size_bytes as f64, count: Some(count) })
}
