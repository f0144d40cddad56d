//! Root of `/proc` and `/sys`. All inspection goes through a [`SysRoot`], so that a test can build the tree of a
//! machine with other hardware (NVMe, RAID, LVM, multipath) in a temporary folder.
//!
//! A missing or unreadable attribute is `None`, never an error: kernels, containers and devices differ in their
//! attributes. Nothing here writes.

use core::fmt;
use core::str::FromStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Root folder of `proc`, `sys`, `dev` and `etc`: the running system's or a simulated one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysRoot {
    root: PathBuf,
}

impl SysRoot {
    /// Root of the running system, `/`.
    pub fn real() -> Self {
        Self::at("/")
    }

    /// Root of a simulated system in a folder, for tests.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// True for the running system, whose device nodes lead to devices.
    pub fn is_real(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Path of `relative`, such as `sys/class/block`, below the root.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Reads the text of a file below the root, trimmed. `None` if it is absent, unreadable or empty.
    pub fn read(&self, relative: impl AsRef<Path>) -> Option<String> {
        read(&self.path(relative))
    }

    /// Reads a whole number from a file below the root. `None` if the file contains no number.
    pub fn read_u64(&self, relative: impl AsRef<Path>) -> Option<u64> {
        self.read(relative)?.parse().ok()
    }

    /// Names in a folder below the root, sorted; empty if the folder does not exist.
    pub fn list(&self, relative: impl AsRef<Path>) -> Vec<String> {
        list(&self.path(relative))
    }
}

/// Reads the text of a file, trimmed; `None` if it is absent, unreadable or empty.
pub(crate) fn read(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    // Serial numbers and models are padded with spaces, by some firmware with NULs.
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Names in a folder, sorted; empty if it can't be read.
pub(crate) fn list(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Device number, printed as in the kernel: `259:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DevNo {
    /// Major device number, which identifies the driver.
    pub major: u32,
    /// Minor device number, which identifies the device within the driver.
    pub minor: u32,
}

impl DevNo {
    /// Unpacks a device number from `st_dev` or `st_rdev`.
    pub fn from_packed(dev: u64) -> Self {
        Self { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) }
    }
}

impl fmt::Display for DevNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DevNo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (major, minor) = text.split_once(':')?;
            Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
        };
        parse().ok_or_else(|| format!("`{text}` is not a device number such as 259:0"))
    }
}

impl TryFrom<String> for DevNo {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DevNo> for String {
    fn from(dev: DevNo) -> Self {
        dev.to_string()
    }
}
