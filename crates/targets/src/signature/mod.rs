//! Signatures in a device's or file's content: file systems, RAID and volume-manager members, encryption, swap,
//! partition tables, disk images and archives.
//!
//! Everything is decided from two windows at the start and end of the content, so that a probe takes two reads. Offsets
//! and magic numbers are from each format's own sources; most are also in file(1) and libblkid. Content without a
//! signature may still be data, such as a database on a raw device; [`blank`](crate::blank) takes samples to find such
//! data.
//!
//! The guard decides whether a signature forbids writing.

mod container;
mod disk;
mod layered;
mod table;

use std::io;

use serde::{Deserialize, Serialize};

/// Bytes read at the start of a target. The farthest magic number is that of VMFS, at 1 MiB.
const HEAD_BYTES: u64 = (1 << 20) + (64 << 10);
/// Bytes read at the end of a target. Must include ZFS's last labels, in the last 768 KiB.
const TAIL_BYTES: u64 = 1 << 20;
/// Bytes at the start of a target that are checked to be all zero.
const BLANK_BYTES: usize = 1 << 20;
/// Reads start at multiples of this, the largest logical block size, as O_DIRECT requires.
const STEP_BYTES: u64 = 64 << 10;

/// Kind of content that a signature identifies, such as a file system or swap space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureKind {
    /// Partition table or disk label, such as MBR or GPT.
    PartitionTable,
    /// Superblock of a file system, such as ext4, XFS or FAT.
    FileSystem,
    /// Member of a RAID set, such as md, DDF or Intel RAID.
    Raid,
    /// Member of a volume group or storage pool.
    Volume,
    /// Encrypted volume, such as LUKS or BitLocker.
    Encryption,
    /// Swap space of Linux, or a hibernation image in swap space.
    Swap,
    /// Backing or cache device of a block cache.
    Cache,
    /// Storage of a database or an object store.
    Store,
    /// Message log of iodyno.
    MessageLog,
    /// Disk image in a hypervisor's format.
    DiskImage,
    /// Compressed file or archive.
    Archive,
}

impl SignatureKind {
    /// Name of the kind with its article, for use in a sentence.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::PartitionTable => "a partition table",
            Self::FileSystem => "a file system",
            Self::Raid => "a RAID member",
            Self::Volume => "a member of a volume group or pool",
            Self::Encryption => "an encrypted volume",
            Self::Swap => "swap space",
            Self::Cache => "a cache",
            Self::Store => "a data store",
            Self::MessageLog => "a message log",
            Self::DiskImage => "a disk image that is not raw",
            Self::Archive => "a compressed file or an archive",
        }
    }
}

/// A signature found on a target, such as that of a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Type of content, such as a file system.
    pub kind: SignatureKind,
    /// Name of the format: `ext4`, `LVM2`, `GPT`, …
    pub name: String,
    /// Offset of the signature's magic number, bytes.
    pub offset_bytes: u64,
}

/// Signatures found near the start and the end of a target's content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Every signature found, in order of offset.
    pub signatures: Vec<Signature>,
    /// True if the first 1 MiB contains only zeroes.
    pub starts_with_zeroes: bool,
    /// True if there is a boot sector without partitions. This causes a note, but does not forbid writing.
    pub empty_boot_sector: bool,
}

impl Content {
    /// Signature of a disk image (other than raw) or an archive, which wraps other content; `None` if there is
    /// none.
    pub fn container(&self) -> Option<&Signature> {
        let wraps = [SignatureKind::DiskImage, SignatureKind::Archive];
        self.signatures.iter().find(|signature| wraps.contains(&signature.kind))
    }
}

/// The bytes at the start and at the end of a target.
struct Ends {
    size: u64,
    head: Vec<u8>,
    tail_start: u64,
    tail: Vec<u8>,
}

impl Ends {
    /// Returns `len` bytes at `offset`; `None` if they were not read.
    fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let slice = |window: &'_ [u8], start: u64| -> Option<core::ops::Range<usize>> {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            let to = from.checked_add(len)?;
            (to <= window.len()).then_some(from..to)
        };
        if let Some(range) = slice(&self.head, 0) {
            return self.head.get(range);
        }
        self.tail.get(slice(&self.tail, self.tail_start)?)
    }

    fn has(&self, offset: u64, magic: &[u8]) -> bool {
        self.get(offset, magic.len()) == Some(magic)
    }

    fn u8(&self, offset: u64) -> Option<u8> {
        self.get(offset, 1).map(|bytes| bytes[0])
    }

    fn le16(&self, offset: u64) -> Option<u16> {
        Some(u16::from_le_bytes(self.get(offset, 2)?.try_into().ok()?))
    }

    fn le32(&self, offset: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.get(offset, 4)?.try_into().ok()?))
    }

    fn be16(&self, offset: u64) -> Option<u16> {
        Some(u16::from_be_bytes(self.get(offset, 2)?.try_into().ok()?))
    }

    fn be32(&self, offset: u64) -> Option<u32> {
        Some(u32::from_be_bytes(self.get(offset, 4)?.try_into().ok()?))
    }
}

/// Signatures found so far, each format and name once.
#[derive(Default)]
struct Found(Vec<Signature>);

impl Found {
    fn add(&mut self, kind: SignatureKind, name: impl Into<String>, offset_bytes: u64) {
        let name = name.into();
        // A format with several copies of its label is listed once.
        if !self.0.iter().any(|found| found.kind == kind && found.name == name) {
            self.0.push(Signature { kind, name, offset_bytes });
        }
    }

    fn has_named(&self, names: &[&str]) -> bool {
        self.0.iter().any(|found| names.contains(&found.name.as_str()))
    }
}

/// Searches a target of `size_bytes` for signatures. `read` fills a buffer from an offset. Offsets and
/// lengths are multiples of 64 KiB, except that the last read ends at the target's end.
///
/// # Errors
/// The error of `read`.
pub fn probe(
    size_bytes: u64,
    read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Content> {
    let mut head = vec![0; size_bytes.min(HEAD_BYTES) as usize];
    read(0, &mut head)?;
    let tail_start =
        (size_bytes.saturating_sub(TAIL_BYTES) / STEP_BYTES * STEP_BYTES).max(head.len() as u64);
    let mut tail = vec![0; (size_bytes - tail_start) as usize];
    if !tail.is_empty() {
        read(tail_start, &mut tail)?;
    }
    let starts_with_zeroes = head[..head.len().min(BLANK_BYTES)].iter().all(|&byte| byte == 0);
    let ends = Ends { size: size_bytes, head, tail_start, tail };
    let mut found = Found::default();
    table::find(&ends, &mut found);
    layered::find(&ends, &mut found);
    container::find(&ends, &mut found);
    let empty_boot_sector = disk::find(&ends, &mut found);
    let mut signatures = found.0;
    signatures.sort_by_key(|signature| signature.offset_bytes);
    Ok(Content { signatures, starts_with_zeroes, empty_boot_sector })
}

#[cfg(test)]
mod tests;
