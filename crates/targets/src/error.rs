//! Errors in naming, inspecting, opening and laying out targets. The kind of error determines the command's exit code.
//!
//! Every message names the problem, the object and the remedy. A [`Refusal`] is one reason not to write; a target can
//! have several, and the message lists all. The `guard` module decides which refusals apply.

use core::fmt;
use std::path::Path;

use iodyno_units::human;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Reason not to write a target, as a stable code for scripts and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The running system is on the target. `--destroy` can't lift this refusal.
    SystemDisk,
    /// The target, a partition of it or a device built on it is mounted. `--destroy` can't lift this refusal.
    Mounted,
    /// The target, a partition of it or a device built on it is swap space. `--destroy` can't lift this refusal.
    Swap,
    /// Another process or the kernel has opened the target exclusively or locked it. `--destroy` can't lift this
    /// refusal.
    Held,
    /// Another device is built on the target: dm, LVM, crypt, multipath, md, bcache, loop.
    Member,
    /// The target contains a partition table.
    PartitionTable,
    /// The target contains the signature of a file system, RAID set, volume manager or the like.
    Signature,
    /// Another run or a message-log server has locked the file. `--destroy` can't lift this refusal.
    Locked,
    /// Another process has the target open for writing.
    OpenElsewhere,
    /// The target is read-only. `--destroy` can't lift this refusal.
    ReadOnly,
    /// The target is a file that iodyno did not create.
    ForeignFile,
    /// The target is a character device other than `/dev/null`, `/dev/zero` and `/dev/full`. `--destroy` can't
    /// lift this refusal.
    CharDevice,
    /// The target is a directory, pipe or socket. `--destroy` can't lift this refusal.
    NotStorage,
    /// The target could not be read, so its content is unknown.
    UnknownContent,
    /// The target contains data that iodyno did not write. An NBD export is refused even if it contains only iodyno's
    /// own data, since another client may use this data.
    HoldsData,
    /// A purge erases the whole target, so `--destroy` must name the target even if it seems empty.
    Purge,
}

impl RefusalCode {
    /// False for refusals that `--destroy` can't lift.
    pub const fn can_be_lifted(self) -> bool {
        !matches!(
            self,
            Self::SystemDisk
                | Self::Mounted
                | Self::Swap
                | Self::Held
                | Self::Locked
                | Self::ReadOnly
                | Self::CharDevice
                | Self::NotStorage
        )
    }
}

/// A reason not to write to a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Reason as a code, stable for scripts.
    pub code: RefusalCode,
    /// The obstacle, such as a mount, as a full sentence.
    pub found: String,
    /// Remedy that removes the obstacle, as a full sentence.
    pub mend: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.found, self.mend)
    }
}

/// Why a target was refused, and names of the target with which `--destroy` would lift the refusals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedTarget {
    pub target: String,
    /// Every reason, the gravest first.
    pub refusals: Vec<Refusal>,
    /// Names of the target: kernel name, path, serial number. Any one of them, given with `--destroy`, lifts the
    /// refusals. Empty if at least one refusal can't be lifted.
    pub confirmed_by: Vec<String>,
    /// Names that the user gave with `--destroy`; none of them is a name of this target.
    pub given: Vec<String>,
}

impl fmt::Display for RefusedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Targets that are not storage, and most character devices, can't be read either.
        let no_use = [RefusalCode::NotStorage, RefusalCode::CharDevice];
        if self.refusals.iter().any(|r| no_use.contains(&r.code)) {
            write!(f, "{} can't be measured:", self.target)?;
        } else {
            write!(f, "refusing to write to {}:", self.target)?;
        }
        for refusal in &self.refusals {
            write!(f, "\n  - {refusal}")?;
        }
        let Some((first, others)) = self.confirmed_by.split_first() else {
            return Ok(());
        };
        if !self.given.is_empty() {
            write!(
                f,
                "\n  `--destroy {}` names a different target.",
                self.given.join("`, `--destroy ")
            )?;
        }
        write!(
            f,
            "\n  If the content is expendable, confirm with the target's own name: `--destroy {first}`"
        )?;
        for other in others {
            write!(f, " or `--destroy {other}`")?;
        }
        f.write_str(".")
    }
}

/// Reason why a target could not be named, inspected, opened, or filled with its initial content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// A target's name is malformed.
    #[error("`{name}` is not a target: {problem}\n  help: {help}")]
    BadName {
        /// Name as the user gave it.
        name: String,
        /// Problem with the name, as a sentence.
        problem: String,
        /// The correct form of the name, as a sentence.
        help: String,
    },
    /// No file or device has this path.
    #[error("{path}: not found\n  help: {help}")]
    NotFound {
        /// Path at which there is no file or device.
        path: String,
        /// Remedy, as a sentence.
        help: String,
    },
    /// The guard refuses to write to the target: data would be lost, or the target can't be written.
    #[error("{0}")]
    Refused(Box<RefusedTarget>),
    /// The target's server does not respond, or responds with invalid data.
    #[error("{target}: {problem}\n  help: {help}")]
    Unreachable {
        /// Name or path of the target.
        target: String,
        /// Problem with the connection, as a clause of the message.
        problem: String,
        /// Remedy, as a sentence.
        help: String,
    },
    /// The operating system denies the operation.
    #[error("{path}: no permission to {op}\n  help: {help}")]
    Permission {
        /// The operation that failed, such as `open it for writing`.
        op: String,
        /// File or device on which the operation failed.
        path: String,
        /// Remedy, such as the missing permission, as a sentence.
        help: String,
    },
    /// Not enough free space for the target.
    #[error(
        "{path}: {} needed, {} free\n  help: {help}",
        human::size(*.wanted_bytes),
        human::size(*.free_bytes)
    )]
    NoSpace {
        /// File, directory or memory without enough free space.
        path: String,
        /// Bytes needed in addition to those already allocated.
        wanted_bytes: u64,
        /// Bytes that are still free in that file system or memory.
        free_bytes: u64,
        /// Remedy, as a sentence.
        help: String,
    },
    /// A failed system call that no other variant covers.
    #[error("{path}: could not {op}: {}", std::io::Error::from_raw_os_error(*.errno))]
    Io {
        /// The operation that failed, such as `open it for writing`.
        op: String,
        /// File or device on which the operation failed.
        path: String,
        /// `errno` of the failed system call.
        errno: i32,
    },
    /// The target does not support a requested feature, such as direct I/O.
    #[error("{path}: {problem}\n  help: {help}")]
    Unsupported {
        /// Name or path of the target.
        path: String,
        /// The unsupported feature, as a clause.
        problem: String,
        /// A supported alternative, as a sentence.
        help: String,
    },
    /// An output file, such as a report, can't be written at this path, or would overwrite something.
    #[error("{path}: {problem}\n  help: {help}")]
    BadOutput {
        /// Path as the user gave it.
        path: String,
        /// Why the path can't be used, as a clause for the message.
        problem: String,
        /// Remedy, as a sentence.
        help: String,
    },
    /// The target is too small to be measured.
    #[error("{path}: a size of {} is too small to measure\n  help: {help}", human::size(*.have_bytes))]
    TooSmall {
        /// Name or path of the target.
        path: String,
        /// Size of the target, bytes.
        have_bytes: u64,
        /// Remedy, as a sentence.
        help: String,
    },
    /// Between inspection and opening, another file or device took over the target's name.
    #[error(
        "{path}: {problem} while it was being opened; nothing was written\n  \
         help: run `iodyno check` on the target, then try again"
    )]
    Changed {
        /// Name or path of the target.
        path: String,
        /// The change, such as `another file or device replaced it`.
        problem: String,
    },
    /// The caller stopped the writing of a new file; the incomplete file was removed.
    #[error("{path}: laying out the file was stopped after {} of {}", human::size(*.done_bytes), human::size(*.total_bytes))]
    Interrupted {
        /// File that was only partly written.
        path: String,
        /// Bytes written before the stop.
        done_bytes: u64,
        /// Bytes to be written in all.
        total_bytes: u64,
    },
}

impl TargetError {
    /// Exit code for the command: 2 for an invalid request, 3 for a refusal to destroy, 4 for a target that failed.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::BadName { .. }
            | Self::NotFound { .. }
            | Self::BadOutput { .. }
            | Self::TooSmall { .. } => 2,
            Self::Refused(_) => 3,
            _ => 4,
        }
    }

    /// Converts the error of a system call: `NotFound` if the file or device does not exist, `Permission` if
    /// access is denied, otherwise `Io`.
    pub(crate) fn from_errno(op: &str, path: &Path, errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        let path = path.display().to_string();
        match errno {
            Errno::NOENT => {
                Self::NotFound { path, help: "check the spelling of the path.".to_owned() }
            }
            Errno::ACCESS | Errno::PERM => Self::Permission {
                op: op.to_owned(),
                help: "run as a user with permission, such as root or a member of the group that \
                       owns the file (`ls -l` shows the group)."
                    .to_owned(),
                path,
            },
            Errno::NXIO | Errno::NODEV => Self::NotFound {
                path,
                help: "the device node exists, but no device answers; check that the device is \
                       connected and its driver is loaded."
                    .to_owned(),
            },
            _ => Self::Io { op: op.to_owned(), path, errno: errno.raw_os_error() },
        }
    }
}

/// Error number of an I/O error; EIO if it has none.
pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_lists_every_reason_and_what_would_lift_it() {
        let refused = RefusedTarget {
            target: "/dev/sdb".to_owned(),
            refusals: vec![
                Refusal {
                    code: RefusalCode::Mounted,
                    found: "Its partition sdb1 is mounted at /srv.".to_owned(),
                    mend: "Unmount it.".to_owned(),
                },
                Refusal {
                    code: RefusalCode::PartitionTable,
                    found: "It has a GPT.".to_owned(),
                    mend: "Choose another device.".to_owned(),
                },
            ],
            confirmed_by: vec!["sdb".to_owned(), "S3R14L".to_owned()],
            given: vec!["sda".to_owned()],
        };
        let error = TargetError::Refused(Box::new(refused));
        assert_eq!(error.exit_code(), 3);
        assert_eq!(
            error.to_string(),
            "refusing to write to /dev/sdb:\n  \
             - Its partition sdb1 is mounted at /srv. Unmount it.\n  \
             - It has a GPT. Choose another device.\n  \
             `--destroy sda` names a different target.\n  \
             If the content is expendable, confirm with the target's own name: `--destroy sdb` or \
             `--destroy S3R14L`."
        );
    }

    /// The message says "can't be measured", rather than "refusing to write", if the target can't be read either.
    #[test]
    fn non_targets_are_not_reported_as_writes() {
        for (code, words) in [
            (RefusalCode::CharDevice, "x can't be measured:"),
            (RefusalCode::NotStorage, "x can't be measured:"),
            (RefusalCode::ReadOnly, "refusing to write to x:"),
        ] {
            let refusal = Refusal { code, found: String::new(), mend: String::new() };
            let refused = RefusedTarget {
                target: "x".to_owned(),
                refusals: vec![refusal],
                confirmed_by: Vec::new(),
                given: Vec::new(),
            };
            assert!(refused.to_string().starts_with(words), "{refused}");
        }
    }

    #[test]
    fn no_space_names_both_sizes() {
        let error = TargetError::NoSpace {
            path: "/mnt/x".to_owned(),
            wanted_bytes: 8 << 30,
            free_bytes: 3 << 20,
            help: "free some space.".to_owned(),
        };
        assert_eq!(error.to_string(), "/mnt/x: 8 GiB needed, 3 MiB free\n  help: free some space.");
    }
}
