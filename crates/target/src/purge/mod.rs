//! Purging: bringing a target back to the state "as if it had never been written", by its best method, and
//! proving afterwards as far as possible that it worked.
//!
//! The methods, in order of preference, are those of [`Method`]. The ones that a target has form a
//! [`PurgePlan`], which a command prints before anything happens. A purge is a write and more: the write guard
//! is checked first, a device must be named even where it seems empty, and one that is in use is refused
//! whatever was named.
//!
//! "Not possible" is an outcome with a reason, so that a method can go on and disclose it. The result is
//! checked: a pattern is written to sampled blocks before, and must be gone after. A write of zeroes is no
//! purge (a flash device keeps them as data) and is not among the methods; nor is `nvme format` with SES=0,
//! which by its contract erases nothing. A zoned device is not discarded: its write pointers would stay, and it
//! would not be as if it had never been written.
//!
//! Here are the types. Commands on the wire are in `nvme` and `ata`, as pure functions; the choice is in
//! `choose`; the sequence in `carry_out`; the proof in `erase_check`.

mod ata;
mod carry_out;
mod choose;
mod discard;
mod erase_check;
mod nvme;

use core::fmt;
use core::ops::ControlFlow;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::guard::Confirm;
use crate::health::Health;

pub use carry_out::{purge, purge_opened};
pub use choose::{Choice, PurgePlan, plan};

/// A way to purge, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// NVMe Sanitize, block erase: every block of the medium, also those out of reach of the host.
    NvmeSanitizeBlock,
    /// NVMe Sanitize, crypto erase: the key is changed, and all data encrypted with it is lost.
    NvmeSanitizeCrypto,
    /// NVMe Format with SES=1, user data erase.
    NvmeFormat,
    /// NVMe Format with SES=2, cryptographic erase.
    NvmeFormatCrypto,
    /// ATA Security Erase Unit, normal mode.
    AtaErase,
    /// ATA Security Erase Unit, enhanced mode.
    AtaEraseEnhanced,
    /// Discard of the whole range: `BLKDISCARD`, holes in a file, NBD's TRIM. A hint to a device.
    Discard,
    /// Memory, and files that are created for one run: each run has them anew.
    Anew,
}

impl Method {
    /// All of them, best first.
    pub const ALL: [Self; 8] = [
        Self::NvmeSanitizeBlock,
        Self::NvmeSanitizeCrypto,
        Self::NvmeFormat,
        Self::NvmeFormatCrypto,
        Self::AtaErase,
        Self::AtaEraseEnhanced,
        Self::Discard,
        Self::Anew,
    ];

    /// Its name on the command line and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NvmeSanitizeBlock => "nvme-sanitize-block",
            Self::NvmeSanitizeCrypto => "nvme-sanitize-crypto",
            Self::NvmeFormat => "nvme-format",
            Self::NvmeFormatCrypto => "nvme-format-crypto",
            Self::AtaErase => "ata-erase",
            Self::AtaEraseEnhanced => "ata-erase-enhanced",
            Self::Discard => "discard",
            Self::Anew => "anew",
        }
    }

    /// True for commands that erase a whole device, whatever part of it was named.
    pub const fn is_whole_device(self) -> bool {
        !matches!(self, Self::Discard | Self::Anew)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|method| method.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|method| method.name()).collect();
            format!("there is no purge method `{text}`; take one of {}", names.join(", "))
        })
    }
}

/// The outcome of a purge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "why")]
pub enum PurgeOutcome {
    /// The target reports that it is done.
    Purged,
    /// The target has no method, or not the requested one. Nothing was erased.
    NotPossible(String),
    /// It began and did not end well.
    Failed(String),
}

/// Whether the old content is gone, by reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verified {
    /// None of the sampled blocks holds what was written to it before, and most took a pattern.
    Yes,
    /// At least one does.
    No,
    /// It could not be sampled, or in too few places.
    Unknown,
}

/// A purge, for the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PurgeRecord {
    /// The target's canonical name.
    pub target: String,
    /// The method used; `None` where none was possible.
    pub method: Option<Method>,
    /// The outcome.
    pub outcome: PurgeOutcome,
    /// Time from the first command to the last answer, ns; the proof is not in it.
    pub duration_ns: u64,
    /// Whether the old content is gone.
    pub verified: Verified,
    /// The findings, in sentences.
    pub evidence: Vec<String>,
    /// The methods that were considered, best first.
    pub considered: Vec<Choice>,
    /// Refusals that `--destroy` lifted, as sentences.
    pub lifted: Vec<String>,
    /// The device's own log before, where it keeps one.
    pub health_before: Option<Health>,
    /// And after.
    pub health_after: Option<Health>,
}

impl PurgeRecord {
    /// True when it was purged and nothing contradicts that.
    pub fn is_purged(&self) -> bool {
        self.outcome == PurgeOutcome::Purged && self.verified != Verified::No
    }
}

/// Options of a purge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeOptions {
    /// The method; the best that the target has where absent.
    pub method: Option<Method>,
    /// Names given by `--destroy`.
    pub confirm: Confirm,
}

/// Receives the progress of a purge: a share from 0 to 1, where the device reports it. Breaking off ends a
/// discard between two pieces; a device that erases itself goes on, and is only no longer waited for.
pub type Progress<'a> = dyn FnMut(Option<f64>) -> ControlFlow<()> + 'a;

/// Why a method did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Setback {
    /// The target does not support it, or refused it before anything was erased: the next may work.
    Refused(String),
    /// It began and failed, or was broken off.
    Failed(String),
}

/// The findings of a method that worked, in sentences.
type Carried = Result<Vec<String>, Setback>;

const STOPPED: &str = "it was broken off; what the device has begun, it ends by itself.";
