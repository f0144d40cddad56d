//! Purging: erases a target by its best method, so that it behaves as if never written, and verifies the result as far
//! as possible.
//!
//! [`Method`] lists the methods in order of preference. The methods that suit a target form a [`PurgePlan`], which a
//! command prints before anything happens. The conditions are stricter than for a write: `--destroy` must name a device
//! even if it seems empty, and a device in use is always refused.
//!
//! An impossible purge is an outcome, not an error, so that a measurement can continue and disclose the reason. To
//! check the result, a pattern is written to sampled blocks before the purge, and must be gone afterwards. Writing
//! zeroes is not a purge (flash keeps them as data), nor is `nvme format` with SES=0, which by its contract erases
//! nothing. Zoned devices are not discarded: their write pointers would stay.
//!
//! This module holds the types. The NVMe and ATA commands are in `nvme` and `ata`, the choice of a method in `choose`,
//! the sequence in `carry_out`, the sampled blocks in `erase_check`.

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

/// Purge methods, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// NVMe Sanitize, block erase: erases every block of the medium, including blocks that the host can't access.
    NvmeSanitizeBlock,
    /// NVMe Sanitize, crypto erase: changes the encryption key, so that all data becomes unreadable.
    NvmeSanitizeCrypto,
    /// NVMe Format with SES=1, user data erase.
    NvmeFormat,
    /// NVMe Format with SES=2, cryptographic erase.
    NvmeFormatCrypto,
    /// ATA Security Erase Unit, normal mode.
    AtaErase,
    /// ATA Security Erase Unit, enhanced mode.
    AtaEraseEnhanced,
    /// Discard of the whole range by `BLKDISCARD`, by punching holes in a file, or by NBD's TRIM. Only a hint to
    /// the device.
    Discard,
    /// No command, because memory and scratch files are created anew for each run.
    Anew,
}

impl Method {
    /// All methods, best first.
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

    /// Name of the method on the command line and in records.
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

    /// True for commands that erase a whole device even if the target is only a part of it.
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
            format!("there is no purge method `{text}`; use one of {}", names.join(", "))
        })
    }
}

/// Outcome of a purge as the target reports it. [`Verified`] tells whether the old data is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "why")]
pub enum PurgeOutcome {
    /// The target reports success.
    Purged,
    /// Nothing was erased: the target supports no purge method, or not the requested one. Contains the reason.
    NotPossible(String),
    /// The purge began but failed. Contains the reason.
    Failed(String),
}

/// Result of checking sampled blocks after a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verified {
    /// Before the purge, a pattern was written to most of the sampled blocks; none contains its pattern any more.
    Yes,
    /// At least one sampled block still contains its pattern.
    No,
    /// Too few blocks could be sampled to tell.
    Unknown,
}

/// Record of a purge: method, outcome and verification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PurgeRecord {
    /// Name of the target, in canonical form.
    pub target: String,
    /// Method used; `None` if none was possible.
    pub method: Option<Method>,
    /// Whether the purge succeeded according to the target, failed, or was impossible.
    pub outcome: PurgeOutcome,
    /// Time from the first purge command to the last reply, ns. Excludes writing and checking the sampled blocks.
    pub duration_ns: u64,
    /// Whether the sampled blocks show that the data is gone.
    pub verified: Verified,
    /// Observations that support outcome and verification, as sentences.
    pub evidence: Vec<String>,
    /// Methods considered, best first.
    pub considered: Vec<Choice>,
    /// Refusals to purge that `--destroy` overrode, as sentences.
    pub lifted: Vec<String>,
    /// The device's health report before the purge; `None` if unavailable.
    pub health_before: Option<Health>,
    /// The device's health report after the purge; `None` if unavailable.
    pub health_after: Option<Health>,
}

impl PurgeRecord {
    /// True if the target reports success and no sampled block contradicts it.
    pub fn is_purged(&self) -> bool {
        self.outcome == PurgeOutcome::Purged && self.verified != Verified::No
    }
}

/// Choice of the purge method, and the user's permission to purge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeOptions {
    /// Purge method to use; `None`: the best that the target supports.
    pub method: Option<Method>,
    /// Names of the targets that may be purged, from `--destroy`.
    pub confirm: Confirm,
}

/// Callback for the progress of a purge: a fraction from 0 to 1, or `None` if the device reports none.
/// `Break` stops a discard before its next part. A device that is erasing itself continues, unobserved.
pub type Progress<'a> = dyn FnMut(Option<f64>) -> ControlFlow<()> + 'a;

/// Failure of a purge method, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Setback {
    /// The target does not support the method, or refused it before erasing anything. Another method may work.
    Refused(String),
    /// The method began and failed, or was interrupted.
    Failed(String),
}

/// Result of a purge method: observations as sentences, or the failure.
type Carried = Result<Vec<String>, Setback>;

const STOPPED: &str = "the purge was stopped; an erase that has begun continues in the device.";
