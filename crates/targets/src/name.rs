//! Parser and printer of target names, independent of whether the target exists.
//!
//! ```text
//! null:[SIZE]                          completes immediately, moves no bytes
//! ram:SIZE                             memory of this process
//! PATH[?size=SIZE&direct=no]           a file, a block device, or a character device
//! scratch:[SIZE][@DIR][?direct=no]     a file that iodyno makes and removes
//! model:DEVICE[*N][@SYSTEM][?OPTIONS]  emulated storage in virtual time, see [`ModelName`]
//! model:raid5(DEVICE*N)[*M][@SYSTEM]   an array of N devices, M such arrays, see [`ArrayName`]
//! model:raid1(raid0(DEVICE*N)*2)       an array of arrays
//! live:DEVICE[*N][@SYSTEM][?OPTIONS]   the same in real time
//! nbd://HOST[:PORT]/EXPORT             an export of an NBD server; nbds:// over TLS
//! nbd+unix:///EXPORT?socket=PATH       the same by a unix socket; nbds+unix:// over TLS
//! ```
//!
//! Options follow the last `?`. A path that contains `?` needs one more at its end: `odd?name?`. A path that
//! begins like a scheme needs a leading `./`. [`TargetName`]'s `Display` prints the canonical form, which
//! parses back to the same name.

mod array;
mod model;

use core::fmt;
use core::str::FromStr;
use std::path::{Path, PathBuf};

use iodyno_nbd::client::{Address, Uri};
use iodyno_units::human::exact_size;
use iodyno_units::parse_size;
use serde::{Deserialize, Serialize};

use crate::error::TargetError;

pub use array::{ARRAY_DEPTH_MAX, ArrayName};
pub use model::ModelName;

/// Default size of a `null:` target: 1 TiB.
pub const NULL_DEFAULT_BYTES: u64 = 1 << 40;

/// Maximum number of devices in one emulated target.
pub const MODEL_COUNT_MAX: u32 = 1024;

/// Smallest sector size, bytes. Every size of a target must be a multiple of it.
pub const SIZE_STEP_BYTES: u64 = 512;

/// Schemes reserved for later versions. A name with such a scheme is an error, not a path.
const RESERVED_SCHEMES: [&str; 1] = ["pcie"];
/// Schemes of NBD targets, whose names are URIs as in libnbd and QEMU.
const NBD_SCHEMES: [&str; 4] = ["nbd", "nbds", "nbd+unix", "nbds+unix"];

const FORMS: &str = "use null:, ram:4GiB, scratch:, model:exflash-400g, nbd://host/export or a path, such as /dev/nvme0n1 or disk.img?size=8GiB.";

const NBD_FORMS: &str = "use nbd://host/export, nbd://host:10809/, nbd+unix:///export?socket=/run/nbd.sock, or nbds: in place of nbd: for TLS.";

/// Whether I/O on a target bypasses the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direct {
    /// Bypass the page cache if the target allows it; otherwise use it and report this.
    #[default]
    Auto,
    /// Bypass the page cache; an error if the target does not allow it.
    Require,
    /// Use the page cache.
    Off,
    /// Use the page cache but leave no pages in it (`RWF_DONTCACHE`); an error if unsupported.
    Uncached,
}

/// A target, as named by the user.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TargetName {
    /// A target that completes every operation immediately, for measuring the maximum rate of the load generator
    /// itself.
    Null {
        /// Size that the target reports, bytes.
        size_bytes: u64,
    },
    /// Memory of this process.
    Ram {
        /// Amount of memory, bytes.
        size_bytes: u64,
    },
    /// A file, a block device or a character device.
    Path {
        /// Path as the user gave it; may be relative.
        path: PathBuf,
        /// Bytes to use, or the size of a file to create; `None`: the whole target.
        size_bytes: Option<u64>,
        /// Whether I/O on the target uses or bypasses the page cache.
        direct: Direct,
    },
    /// A file that iodyno creates for one run and then removes.
    Scratch {
        /// Size, bytes; `None`: 1 GiB, or less if space is short.
        size_bytes: Option<u64>,
        /// Directory of the file; `None`: the current directory.
        dir: Option<PathBuf>,
        /// Whether I/O on the target uses or bypasses the page cache.
        direct: Direct,
    },
    /// Emulated storage, in virtual or in real time.
    Model(ModelName),
    /// An export of an NBD server.
    Nbd(Uri),
}

/// Options of a target's name, which follow a `?`.
#[derive(Default)]
struct Options {
    size_bytes: Option<u64>,
    direct: Direct,
}

fn bad<T>(
    name: &str,
    problem: impl Into<String>,
    help: impl Into<String>,
) -> Result<T, TargetError> {
    Err(TargetError::BadName { name: name.to_owned(), problem: problem.into(), help: help.into() })
}

fn size(name: &str, text: &str) -> Result<u64, TargetError> {
    match parse_size(text) {
        Err(error) => bad(name, "its size is not valid.", format!("{error}.")),
        Ok(0) => bad(name, "a size of 0 leaves nothing to measure.", "use a size such as 4GiB."),
        Ok(bytes) if bytes % SIZE_STEP_BYTES != 0 => bad(
            name,
            format!(
                "{bytes} bytes is not a multiple of {SIZE_STEP_BYTES} bytes, the smallest sector size."
            ),
            format!("use {}.", exact_size(bytes.next_multiple_of(SIZE_STEP_BYTES))),
        ),
        Ok(bytes) => Ok(bytes),
    }
}

/// Splits a name after its scheme, a lowercase word before a colon. `None` if it has no scheme.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_word = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '+');
    is_word.then_some((scheme, rest))
}

/// Fails if the query of a name contains an option more than once.
fn once_each(name: &str, query: &str) -> Result<(), TargetError> {
    let mut seen = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let key = pair.split_once('=').map_or(pair, |(key, _)| key);
        if seen.contains(&key) {
            return bad(name, format!("`{key}` is given twice."), "give it once.");
        }
        seen.push(key);
    }
    Ok(())
}

fn split_options<'a>(name: &str, text: &'a str) -> Result<(&'a str, Options), TargetError> {
    let mut options = Options::default();
    let Some((body, query)) = text.rsplit_once('?') else {
        return Ok((text, options));
    };
    once_each(name, query)?;
    let mut uncached = false;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("uncached", "yes")) => uncached = true,
            Some(("uncached", "no")) => {}
            Some(("uncached", value)) => {
                return bad(
                    name,
                    format!("`uncached={value}` is not a valid option."),
                    "use uncached=yes for buffered I/O that leaves nothing in the page cache.",
                );
            }
            Some(("size", value)) => options.size_bytes = Some(size(name, value)?),
            Some(("direct", "auto")) => options.direct = Direct::Auto,
            Some(("direct", "yes")) => options.direct = Direct::Require,
            Some(("direct", "no")) => options.direct = Direct::Off,
            Some(("direct", value)) => {
                return bad(
                    name,
                    format!("`direct={value}` is not a valid option."),
                    "use direct=no to go through the page cache, direct=yes to require \
                     bypassing it, or direct=auto.",
                );
            }
            _ => {
                let key = pair.split_once('=').map_or(pair, |(key, _)| key);
                return bad(
                    name,
                    format!("`{key}` is not an option of a target."),
                    "after `?` give size=8GiB, direct=no, uncached=yes or several joined by `&`; \
                     if the `?` is part of the path, end the name with another `?`.",
                );
            }
        }
    }
    if uncached && options.direct == Direct::Require {
        return bad(
            name,
            "direct=yes and uncached=yes exclude each other: uncached I/O goes through the page cache.",
            "leave direct=yes or uncached=yes out.",
        );
    }
    if uncached {
        options.direct = Direct::Uncached;
    }
    Ok((body, options))
}

impl TargetName {
    /// Resolves relative paths against `folder`, for use by a process in another directory. Does not change the
    /// path of a file that describes an emulated device.
    #[must_use]
    pub fn under(&self, folder: &Path) -> Self {
        let mut name = self.clone();
        match &mut name {
            Self::Path { path, .. } => *path = folder.join(&*path),
            Self::Scratch { dir, .. } if !folder.as_os_str().is_empty() => {
                *dir = Some(folder.join(dir.as_deref().unwrap_or(Path::new(""))));
            }
            Self::Nbd(uri) => {
                if let Address::Unix(path) = &mut uri.address {
                    *path = folder.join(&*path);
                }
            }
            Self::Scratch { .. } | Self::Null { .. } | Self::Ram { .. } | Self::Model(_) => {}
        }
        name
    }

    /// Parses a target's name.
    ///
    /// # Errors
    /// [`TargetError::BadName`] for an unknown scheme, option or size, and for the schemes reserved for later
    /// versions.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        match split_scheme(text) {
            Some((scheme @ ("null" | "ram"), rest)) if rest.contains('?') => {
                let size = rest.rsplit_once("size=").map_or("", |(_, size)| size);
                let size = if parse_size(size).is_ok() { size } else { "4GiB" };
                bad(
                    text,
                    format!("`{scheme}:` takes its size after the colon, and has no options."),
                    format!("use {scheme}:{size}."),
                )
            }
            Some(("null", "")) => Ok(Self::Null { size_bytes: NULL_DEFAULT_BYTES }),
            Some(("null", rest)) => Ok(Self::Null { size_bytes: size(text, rest)? }),
            Some(("ram", "")) => bad(text, "the amount of memory is missing.", "use ram:4GiB."),
            Some(("ram", rest)) => Ok(Self::Ram { size_bytes: size(text, rest)? }),
            Some(("scratch", rest)) => Self::parse_scratch(text, rest),
            Some(("model", rest)) => ModelName::parse(text, rest, false).map(Self::Model),
            Some(("live", rest)) => ModelName::parse(text, rest, true).map(Self::Model),
            Some((scheme, rest)) if NBD_SCHEMES.contains(&scheme) => {
                once_each(text, rest.split_once('?').map_or("", |(_, query)| query))?;
                match text.parse() {
                    Ok(uri) => Ok(Self::Nbd(uri)),
                    Err(error) => bad(text, format!("{error}."), NBD_FORMS),
                }
            }
            Some((scheme, _)) if RESERVED_SCHEMES.contains(&scheme) => bad(
                text,
                format!("this version has no `{scheme}:` targets."),
                format!("{FORMS} For a file with that name, use ./{text}"),
            ),
            Some((scheme, _)) => bad(
                text,
                format!("there is no kind of target called `{scheme}:`."),
                format!("{FORMS} For a file with that name, use ./{text}"),
            ),
            None => {
                let (path, options) = split_options(text, text)?;
                if path.is_empty() {
                    return bad(text, "the path is missing.", FORMS);
                }
                if path.contains('\0') {
                    return bad(text, "a path can't contain a NUL character.", FORMS);
                }
                Ok(Self::Path {
                    path: PathBuf::from(path),
                    size_bytes: options.size_bytes,
                    direct: options.direct,
                })
            }
        }
    }

    fn parse_scratch(text: &str, rest: &str) -> Result<Self, TargetError> {
        let (body, options) = split_options(text, rest)?;
        if options.size_bytes.is_some() {
            return bad(
                text,
                "the size of a scratch file must follow the colon.",
                "use scratch:2GiB.",
            );
        }
        let (size_part, dir) = match body.split_once('@') {
            Some((size_part, dir)) => (size_part, Some(dir)),
            None => (body, None),
        };
        if dir == Some("") || dir.is_some_and(|dir| dir.contains('\0')) {
            return bad(
                text,
                "no directory follows the `@`.",
                "use scratch:2GiB@/mnt/disk, or scratch: for the current directory.",
            );
        }
        Ok(Self::Scratch {
            size_bytes: if size_part.is_empty() { None } else { Some(size(text, size_part)?) },
            dir: dir.map(PathBuf::from),
            direct: options.direct,
        })
    }
}

fn write_options(
    f: &mut fmt::Formatter<'_>,
    size_bytes: Option<u64>,
    direct: Direct,
    always: bool,
) -> fmt::Result {
    let mut parts = Vec::new();
    if let Some(bytes) = size_bytes {
        parts.push(format!("size={}", exact_size(bytes)));
    }
    match direct {
        Direct::Auto => {}
        Direct::Require => parts.push("direct=yes".to_owned()),
        Direct::Off => parts.push("direct=no".to_owned()),
        Direct::Uncached => parts.push("uncached=yes".to_owned()),
    }
    if always || !parts.is_empty() {
        write!(f, "?{}", parts.join("&"))?;
    }
    Ok(())
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null { size_bytes: NULL_DEFAULT_BYTES } => f.write_str("null:"),
            Self::Null { size_bytes } => write!(f, "null:{}", exact_size(*size_bytes)),
            Self::Ram { size_bytes } => write!(f, "ram:{}", exact_size(*size_bytes)),
            Self::Path { path, size_bytes, direct } => {
                let path = path.to_string_lossy();
                if split_scheme(&path).is_some() {
                    f.write_str("./")?;
                }
                f.write_str(&path)?;
                write_options(f, *size_bytes, *direct, path.contains('?'))
            }
            Self::Scratch { size_bytes, dir, direct } => {
                f.write_str("scratch:")?;
                if let Some(bytes) = size_bytes {
                    f.write_str(&exact_size(*bytes))?;
                }
                let dir = dir.as_ref().map(|dir| dir.to_string_lossy());
                if let Some(dir) = &dir {
                    write!(f, "@{dir}")?;
                }
                write_options(f, None, *direct, dir.is_some_and(|dir| dir.contains('?')))
            }
            Self::Model(model) => model.fmt(f),
            Self::Nbd(uri) => uri.fmt(f),
        }
    }
}

impl FromStr for TargetName {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for TargetName {
    type Error = TargetError;

    fn try_from(text: String) -> Result<Self, TargetError> {
        Self::parse(&text)
    }
}

impl From<TargetName> for String {
    fn from(name: TargetName) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
mod tests;
