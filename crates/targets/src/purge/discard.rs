//! Discards a block device, a file's blocks or an NBD export. Works in pieces, in order to report progress, and to stop
//! after a piece.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use iodyno_nbd::client::Blocking;
use iodyno_nbd::{CmdFlags, Kind as Request};
use iodyno_units::human;

use super::{Carried, Progress, Setback};
use crate::inspect::{self, Kind};
use crate::ioctl;
use crate::open::Opened;

/// Maximum length of one discard, bytes: far larger than an erase block, far smaller than a device.
const PIECE_BYTES: u64 = 1 << 30;

/// Discards the first `range_bytes` of an open file or device.
pub(super) fn opened(opened: &Opened, range_bytes: u64, progress: &mut Progress<'_>) -> Carried {
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let log = if opened.inspection.kind == Kind::Block {
        "the kernel's log (`dmesg`)"
    } else {
        "whether its file system is sound and writable"
    };
    in_pieces(range_bytes, "discard", log, progress, |at, len| {
        let done = if opened.inspection.kind == Kind::Block {
            ioctl::block_discard(&opened.fd, at, len)
        } else {
            fallocate(&opened.fd, punch, at, len)
        };
        done.map_err(|errno: Errno| (errno.to_string(), errno == Errno::OPNOTSUPP))
    })?;
    let mut words = vec![format!("Discards of {} were completed.", human::size(range_bytes))];
    if opened.inspection.kind == Kind::File
        && let Some(extents) = inspect::extents_of(&opened.fd, range_bytes)
    {
        words.push(format!(
            "The file system reports that {:.1} % of the range is still allocated.",
            100.0 * extents.written_share
        ));
    }
    Ok(words)
}

/// Discards a whole NBD export.
pub(super) fn export(
    client: &mut Blocking,
    range_bytes: u64,
    progress: &mut Progress<'_>,
) -> Carried {
    let log = "the server's log, and whether it may write to its storage";
    in_pieces(range_bytes, "trim", log, progress, |at, len| {
        client
            .command(Request::Trim, CmdFlags::NONE, at, len as u32)
            .map_err(|error| (error.to_string(), error.raw_os_error() == Some(libc::EOPNOTSUPP)))
    })?;
    Ok(vec![format!("Trims of {} were completed.", human::size(range_bytes))])
}

/// Discards a range in parts of 1 GiB. `one` discards one part; its error states the reason, and whether discards are
/// unsupported. `what` names the operation and `log` says where to look for the cause of a failure, for messages.
fn in_pieces(
    range_bytes: u64,
    what: &str,
    log: &str,
    progress: &mut Progress<'_>,
    mut one: impl FnMut(u64, u64) -> Result<(), (String, bool)>,
) -> Result<(), Setback> {
    let mut at = 0;
    while at < range_bytes {
        let len = PIECE_BYTES.min(range_bytes - at);
        match one(at, len) {
            Ok(()) => {}
            Err((why, true)) if at == 0 => {
                return Err(Setback::Refused(format!("it does not support {what} ({why}).")));
            }
            Err((why, _)) => {
                return Err(Setback::Failed(format!(
                    "a {what} at byte {at} failed ({why}), and nothing from that byte on was \
                     erased: check {log}, then purge again."
                )));
            }
        }
        at += len;
        if progress(Some(at as f64 / range_bytes as f64)).is_break() && at < range_bytes {
            return Err(Setback::Failed(format!(
                "the purge was stopped after {} of {}.",
                human::size(at),
                human::size(range_bytes)
            )));
        }
    }
    Ok(())
}
