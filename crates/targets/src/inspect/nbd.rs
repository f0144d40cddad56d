//! Inspection of an NBD export: the server's description, and the export's content.
//!
//! One connection queries the server's description and the allocation (`base:allocation`, if the server has it), and
//! reads samples of the content. Both ends of the export are always read. Random samples are taken from the ranges that
//! the server does not report as zeroes. An export counts as empty if each sampled sector is all zeroes, or all ones as
//! in erased flash. The [`guard`](crate::guard) decides whether the export may be written.

use std::io;
use std::time::{Duration, Instant};

use iodyno_nbd::CmdFlags;
use iodyno_nbd::client::{Address, Blocking, ClientError, Config, Uri, list};
use iodyno_nbd::wire::{DialError, STATE_HOLE, STATE_ZERO};
use serde::{Deserialize, Serialize};

use super::{Alignment, Capabilities, Extents, Inspection, Kind};
use crate::blank::{self, Depth};
use crate::error::TargetError;
use crate::name::{SIZE_STEP_BYTES, TargetName};
use crate::secrets::shared_secret;
use crate::signature;

/// Timeout for connecting to the server, and for each request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the block status of the whole export. When it expires, allocation is unknown.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of one block status request: a multiple of every minimum block size that NBD permits, at most 64 KiB.
const STATUS_BYTES: u64 = (1 << 32) - (64 << 10);
/// Maximum number of extents to read from an export; beyond it, allocation is unknown.
const EXTENTS_MAX: u64 = 1 << 20;

/// An NBD server's description of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools)] // Each is a flag of the protocol.
pub struct NbdExport {
    /// The server's address: the path of a socket, or host and port.
    pub address: String,
    /// Name of the export; empty for the default export.
    pub export: String,
    /// The server's human-readable description of the export.
    pub description: String,
    /// Size of the export as the server reports it, bytes.
    pub size_bytes: u64,
    /// Smallest request that the server accepts, bytes.
    pub min_block_bytes: u32,
    /// Request granularity that the server prefers, bytes.
    pub preferred_block_bytes: u32,
    /// Maximum length of a read or write, bytes: the server's limit, or 32 MiB if the server states none.
    pub max_payload_bytes: u32,
    /// True if the connection is encrypted with TLS.
    pub tls: bool,
    /// True if the server sends read data in chunks (structured replies).
    pub structured_replies: bool,
    /// True if the server reports which ranges are allocated or zero (block status).
    pub block_status: bool,
    /// True if the server refuses writes to the export.
    pub read_only: bool,
    /// True if the server declares that seeks cost time, as on a hard disk.
    pub rotational: bool,
    pub flush: bool,
    /// True if the server supports FUA on single writes.
    pub fua: bool,
    pub trim: bool,
    pub write_zeroes: bool,
    /// True if a flush on one connection covers the writes on all connections.
    pub multi_conn: bool,
    /// True if a sampled sector is neither all zeroes nor all ones (as in erased flash); `None` if the export could not
    /// be sampled.
    pub holds_data: Option<bool>,
}

/// Inspects an NBD export: connects to its server and reads its properties and content.
pub(super) fn export(name: &TargetName, uri: &Uri) -> Result<Inspection, TargetError> {
    let config =
        Config { depth: 1, block_status: true, timeout: REQUEST_TIMEOUT, ..Config::default() };
    let client = Blocking::connect_with(uri, &config).map_err(|e| failure(name, uri, &e))?;
    let mut client = client.with_patience(REQUEST_TIMEOUT);
    let found = client.connection().found().clone();
    let info = found.info;
    let step = SIZE_STEP_BYTES.max(info.min_block_bytes.into());
    let size_bytes = info.size_bytes / step * step;
    if size_bytes == 0 {
        return Err(TargetError::Unsupported {
            path: name.to_string(),
            problem: format!(
                "the export has {} bytes, so nothing can be measured.",
                info.size_bytes
            ),
            help: "name an export with a capacity.".to_owned(),
        });
    }
    let mut inspection = Inspection::empty(name, Kind::Nbd);
    inspection.size_bytes = Some(size_bytes);
    inspection.whole_bytes = Some(info.size_bytes);
    inspection.alignment = Alignment {
        logical_block_bytes: Some(info.min_block_bytes.into()),
        io_optimal_bytes: Some(info.preferred_block_bytes.into()),
        ..Alignment::default()
    };
    inspection.capabilities =
        Capabilities { trim: Some(info.trim), write_zeroes: Some(info.write_zeroes) };

    let status = match found.meta_id.map(|_| allocation(&mut client, size_bytes)) {
        Some(Err(e)) if e.kind() == io::ErrorKind::TimedOut => return Err(silent(name)),
        Some(status) => status.ok().flatten(),
        None => None,
    };
    inspection.extents = status.as_ref().map(|status| Extents {
        written_share: status.written_bytes as f64 / size_bytes as f64,
        count: Some(status.extents),
    });
    let mut reader = ExportReader { client: &mut client, step, most: info.max_payload_bytes };
    let whole = [(0, size_bytes)];
    let data = status.as_ref().map_or(&whole[..], |status| &status.data);
    look_at_content(&mut inspection, name, size_bytes, data, &mut reader)?;
    let holds_data = inspection.sampled.as_ref().map(|found| found.own + found.foreign > 0);
    if holds_data == Some(true)
        && inspection.content.as_ref().is_some_and(|content| content.signatures.is_empty())
    {
        inspection.note("The export is not all zeroes, and its content is of an unknown kind.");
    }
    let key = uri.tls_certificates.as_ref().map(|folder| folder.join("client-key.pem"));
    if let Some(problem) = key.and_then(|key| shared_secret(&key)) {
        inspection.note(format!("tls-certificates: {problem}."));
    }
    inspection.nbd = Some(NbdExport {
        address: uri.address.to_string(),
        export: uri.export.clone(),
        description: info.description,
        size_bytes: info.size_bytes,
        min_block_bytes: info.min_block_bytes,
        preferred_block_bytes: info.preferred_block_bytes,
        max_payload_bytes: info.max_payload_bytes,
        tls: found.secure,
        structured_replies: found.structured,
        block_status: found.meta_id.is_some(),
        read_only: info.read_only,
        rotational: info.rotational,
        flush: info.flush,
        fua: info.fua,
        trim: info.trim,
        write_zeroes: info.write_zeroes,
        multi_conn: info.multi_conn,
        holds_data,
    });
    Ok(inspection)
}

/// Searches the export for signatures, and samples the ranges in `data`, given as start and length.
fn look_at_content(
    inspection: &mut Inspection,
    name: &TargetName,
    size_bytes: u64,
    data: &[(u64, u64)],
    reader: &mut ExportReader<'_>,
) -> Result<(), TargetError> {
    let mut read = |at: u64, to: &mut [u8]| reader.read(at, to);
    match signature::probe(size_bytes, &mut read) {
        Ok(content) => {
            inspection.content = Some(content);
            match blank::sample(size_bytes, data, Depth::REMOTE, blank::any_seed(), &mut read) {
                Ok(found) => inspection.sampled = Some(found),
                // An export that could not be sampled may hold anything, but is not known to hold data.
                Err(error) => inspection.unreadable = Some(error.to_string()),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(silent(name)),
        Err(error) => inspection.unreadable = Some(error.to_string()),
    }
    Ok(())
}

/// Allocation of an NBD export according to its block status.
struct Allocation {
    /// Allocated bytes that the server does not report as zeroes.
    written_bytes: u64,
    extents: u64,
    /// Ranges that the server does not report as zeroes: start and length of each, bytes.
    data: Vec<(u64, u64)>,
}

/// Queries the block status of the whole export; `None` if a limit stopped it before the end.
fn allocation(client: &mut Blocking, size_bytes: u64) -> io::Result<Option<Allocation>> {
    let deadline = Instant::now() + STATUS_TIMEOUT;
    let mut found = Allocation { written_bytes: 0, extents: 0, data: Vec::new() };
    let mut at = 0;
    while at < size_bytes {
        let len = (size_bytes - at).min(STATUS_BYTES) as u32;
        let extents = client.block_status(at, len, CmdFlags::NONE)?;
        for extent in &extents {
            // The last extent may extend beyond the request.
            let bytes = u64::from(extent.len_bytes).min(size_bytes - at);
            if extent.state & (STATE_HOLE | STATE_ZERO) == 0 {
                found.written_bytes += bytes;
            }
            if extent.state & STATE_ZERO == 0 {
                match found.data.last_mut() {
                    Some((start, len)) if *start + *len == at => *len += bytes,
                    _ => found.data.push((at, bytes)),
                }
            }
            found.extents += 1;
            at += bytes;
        }
        if extents.is_empty() || found.extents > EXTENTS_MAX || Instant::now() > deadline {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

/// Reader of an NBD export that splits reads to fit the server's limits.
struct ExportReader<'a> {
    client: &'a mut Blocking,
    /// Unit of offsets and lengths, bytes: both must be multiples of it.
    step: u64,
    /// Maximum bytes of one read.
    most: u32,
}

impl ExportReader<'_> {
    fn read(&mut self, mut at: u64, to: &mut [u8]) -> io::Result<()> {
        let most = (u64::from(self.most) / self.step * self.step).max(self.step) as usize;
        for piece in to.chunks_mut(most) {
            self.client.read(at, piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}

/// Converts an error of the NBD client to a `TargetError` with advice.
fn failure(name: &TargetName, uri: &Uri, error: &ClientError) -> TargetError {
    let target = name.to_string();
    let problem = format!("{error}.");
    let bad = |problem, help: &str| TargetError::BadName {
        name: name.to_string(),
        problem,
        help: help.to_owned(),
    };
    let unreachable = |help: &str| TargetError::Unreachable {
        target: target.clone(),
        problem: problem.clone(),
        help: help.to_owned(),
    };
    match error {
        ClientError::Connect(path, e)
            if e.kind() == io::ErrorKind::NotFound && matches!(uri.address, Address::Unix(_)) =>
        {
            TargetError::NotFound {
                path: path.clone(),
                help: "the server's socket does not exist; start the NBD server, or check the \
                       spelling."
                    .to_owned(),
            }
        }
        ClientError::Connect(..) => {
            unreachable("check that the server is running, and that the address is correct.")
        }
        ClientError::Dial(_, DialError::Refused { .. }) => match offered(uri) {
            Some(names) => bad(problem, &format!("the server exports {names}.")),
            None => {
                bad(problem, "ask the administrator of the server for the names of its exports.")
            }
        },
        ClientError::Uri(_)
        | ClientError::Tls(_)
        | ClientError::NoCertificates
        | ClientError::Dial(_, DialError::NoTls | DialError::Name) => {
            bad(problem, "the TLS options are tls-certificates=FOLDER and tls-hostname=NAME.")
        }
        ClientError::Dial(..) | ClientError::Broken(..) | ClientError::NoMultiConn(_) => {
            unreachable("see the server's own log.")
        }
    }
}

/// Error if the server completed the NBD negotiation but then did not respond to a request.
fn silent(name: &TargetName) -> TargetError {
    TargetError::Unreachable {
        target: name.to_string(),
        problem: format!(
            "the server accepted the export, but its first reply timed out after {} s.",
            REQUEST_TIMEOUT.as_secs()
        ),
        help: "see the server's own log.".to_owned(),
    }
}

/// Names of the exports that the server lists, as text for a message.
fn offered(uri: &Uri) -> Option<String> {
    const SHOWN: usize = 8;
    let config = Config { timeout: REQUEST_TIMEOUT, ..Config::default() };
    let exports = list(uri, &config).ok().filter(|exports| !exports.is_empty())?;
    let quoted = |(name, _): &(String, String)| match name.as_str() {
        "" => "the default export (no name)".to_owned(),
        name => format!("`{name}`"),
    };
    let mut names: Vec<String> = exports.iter().take(SHOWN).map(quoted).collect();
    if exports.len() > SHOWN {
        names.push(format!("{} more", exports.len() - SHOWN));
    }
    Some(names.join(", "))
}
