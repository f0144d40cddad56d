//! Names, inspects and guards real targets. No other crate of the workspace opens a target for writing.
//!
//! The steps, in order: [`TargetName::parse`], [`inspect`](inspect()), [`check_writable`], [`open`](open()),
//! [`lay_out`](lay_out()). A command can stop after any step (`iodyno check` stops after the third). The result of each
//! step is plain data, which is stored in the notebook (the database of runs).
//!
//! In addition, [`purge`] erases a target. [`writes_seen`] takes a fingerprint of a target's write counters and file
//! times. The fingerprint shows a later run whether another program has written to the target since.
//!
//! **Invariants**
//!
//! - Only `open` and `scratch` open a target for writing.
//! - Only `--destroy` with the target's own name overrides a refusal to write. Nothing overrides a refusal to purge a
//!   target in use.
//! - Only `ioctl` has unsafe code.
//! - `/proc` and `/sys` are read through a [`SysRoot`], so that tests can simulate other machines.

mod aligned;
mod blank;
mod conditions;
mod error;
mod guard;
mod health;
mod inspect;
mod io_limits;
mod ioctl;
mod lay_out;
mod machine;
mod marker;
mod name;
mod open;
pub mod output;
pub mod purge;
mod scratch;
mod secrets;
mod signature;
mod sysroot;
mod writes;

pub use blank::{Foreign, Sampled};
pub use conditions::{DeviceState, MachineState, raid_at_work};
pub use error::{Refusal, RefusalCode, RefusedTarget, TargetError};
pub use guard::{Confirm, check_confirmed, check_writable, confirm, with_log_kept};
pub use health::{Health, health};
pub use inspect::stack::{Counted, Effect, End, Layer, LayerEffect, LayerKind, Lowest, Stack};
pub use inspect::{
    Alignment, BlockDevice, Capabilities, DiskStats, Extents, FileAcrossHosts, FileSystem,
    Identity, Inspection, Kind, NbdExport, NvmeGeneric, PcieLink, inspect, inspect_from,
    inspect_in, used_share,
};
pub use io_limits::{IoLimit, io_limits};
pub use lay_out::{lay_out, make_anew};
pub use machine::{CgroupLimits, MachineFacts, memory_available_bytes};
pub use marker::Marker;
pub use name::{
    ARRAY_DEPTH_MAX, ArrayName, Direct, MODEL_COUNT_MAX, ModelName, NULL_DEFAULT_BYTES,
    SIZE_STEP_BYTES, TargetName,
};
pub use open::{
    Access, LayOut, NvmePassthrough, OpenOptions, Opened, OpenedBy, open, open_inspected,
};
pub use secrets::shared_secret;
pub use signature::{Content, Signature, SignatureKind, probe};
pub use sysroot::{DevNo, SysRoot};
pub use writes::{DeviceWrites, FileState, WritesSeen, WrittenSince, unwritten_since, writes_seen};
