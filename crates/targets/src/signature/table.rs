//! Signatures with a magic number at a fixed offset. For file systems with a short magic number, other fields must be
//! plausible too.

use super::SignatureKind::{Cache, Encryption, FileSystem, MessageLog, Raid, Store, Swap, Volume};
use super::{Ends, Found, SignatureKind};

/// Offset, magic number, family and name of a signature.
type Entry = (u64, &'static [u8], SignatureKind, &'static str);

const KIB: u64 = 1024;

#[rustfmt::skip]
pub(super) const TABLE: [Entry; 53] = [
    (0, b"XFSB", FileSystem, "xfs"),
    (64 * KIB + 64, b"_BHRfS_M", FileSystem, "btrfs"),
    (KIB, &[0x10, 0x20, 0xF5, 0xF2], FileSystem, "f2fs"),
    (3, b"NTFS    ", FileSystem, "ntfs"),
    (3, b"EXFAT   ", FileSystem, "exfat"),
    (3, b"ReFS\0\0\0\0", FileSystem, "refs"),
    (3, b"-FVE-FS-", Encryption, "BitLocker"),
    (32 * KIB + 1, b"CD001", FileSystem, "iso9660"),
    (32 * KIB + 1, b"BEA01", FileSystem, "udf"),
    (0, b"hsqs", FileSystem, "squashfs"),
    (0, b"sqsh", FileSystem, "squashfs"),
    (KIB, &[0xE2, 0xE1, 0xF5, 0xE0], FileSystem, "erofs"),
    (0, &[0x45, 0x3D, 0xCD, 0x28], FileSystem, "cramfs"),
    (0, b"-rom1fs-", FileSystem, "romfs"),
    (64 * KIB + 52, b"ReIsErFs", FileSystem, "reiserfs"),
    (64 * KIB + 52, b"ReIsEr2Fs", FileSystem, "reiserfs"),
    (64 * KIB + 52, b"ReIsEr3Fs", FileSystem, "reiserfs"),
    (8 * KIB + 52, b"ReIsErFs", FileSystem, "reiserfs"),
    (64 * KIB, b"ReIsEr4", FileSystem, "reiser4"),
    (32 * KIB, b"JFS1", FileSystem, "jfs"),
    (64 * KIB, &[0x01, 0x16, 0x19, 0x70], FileSystem, "gfs2"),
    (KIB, b"OCFSV2", FileSystem, "ocfs2"),
    (2 * KIB, b"OCFSV2", FileSystem, "ocfs2"),
    (4 * KIB, b"OCFSV2", FileSystem, "ocfs2"),
    (8 * KIB, b"OCFSV2", FileSystem, "ocfs2"),
    (32, b"NXSB", FileSystem, "apfs"),
    (8 * KIB + 1372, &[0x54, 0x19, 0x01, 0x00], FileSystem, "ufs"),
    (8 * KIB + 1372, &[0x19, 0x01, 0x54, 0x19], FileSystem, "ufs"),
    (64 * KIB + 1372, &[0x19, 0x01, 0x54, 0x19], FileSystem, "ufs"),
    (0, b"ZFOS", FileSystem, "zonefs"),
    // UUIDs; the first KiB of both formats are free for a boot loader.
    (4 * KIB + 24, &[0xC6, 0x85, 0x73, 0xF6, 0x66, 0xCE, 0x90, 0xA9, 0xD9, 0x6A, 0x60, 0xCF, 0x80, 0x3D, 0xF7, 0xEF], FileSystem, "bcachefs"),
    (4 * KIB + 24, &[0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA, 0x82, 0x65, 0xF5, 0x7F, 0x48, 0xBA, 0x6D, 0x81], Cache, "bcache"),
    (0, b"LUKS\xBA\xBE", Encryption, "LUKS"),
    // LUKS2 keeps a second header at one of these offsets, depending on the size of the first.
    (16 * KIB, b"SKUL\xBA\xBE", Encryption, "LUKS"),
    (32 * KIB, b"SKUL\xBA\xBE", Encryption, "LUKS"),
    (64 * KIB, b"SKUL\xBA\xBE", Encryption, "LUKS"),
    (128 * KIB, b"SKUL\xBA\xBE", Encryption, "LUKS"),
    (256 * KIB, b"SKUL\xBA\xBE", Encryption, "LUKS"),
    (512 * KIB, b"SKUL\xBA\xBE", Encryption, "LUKS"),
    (0, b"integrt\0", Encryption, "dm-integrity"),
    (0, b"verity\0\0", Encryption, "dm-verity"),
    (0, b"SnAp", Volume, "dm-snapshot"),
    (0, b"dmvdo001", Volume, "VDO"),
    (512 + 4, b"!Stra0tis\x86\xFF\x02^\x41rh", Volume, "Stratis"),
    (1024 * KIB, &[0x0D, 0xD0, 0x01, 0xC0], Volume, "VMFS"),
    (4 * KIB, &[0xFC, 0x4E, 0x2B, 0xA9], Raid, "md 1.2"),
    (0, &[0xFC, 0x4E, 0x2B, 0xA9], Raid, "md 1.1"),
    (32, b"ORCLDISK", Store, "Oracle ASM"),
    (0, b"bluestore block device", Store, "Ceph BlueStore"),
    (0, b"IODYLOG1", MessageLog, "iodyno log"),
    (4 * KIB - 10, b"SWAPSPACE2", Swap, "swap"),
    (4 * KIB - 10, b"SWAP-SPACE", Swap, "swap"),
    (4 * KIB - 10, b"S1SUSPEND\0", Swap, "hibernation image"),
];

/// Memory page sizes above 4 KiB, needed because a swap signature is at the end of the first page.
const LARGER_PAGES: [u64; 4] = [8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB];

pub(super) fn find(ends: &Ends, found: &mut Found) {
    for (offset, magic, kind, name) in TABLE {
        if ends.has(offset, magic) {
            found.add(kind, name, offset);
        }
    }
    for page in LARGER_PAGES {
        if ends.has(page - 10, b"SWAPSPACE2") || ends.has(page - 10, b"SWAP-SPACE") {
            found.add(Swap, "swap", page - 10);
        }
    }
    if let Some(name) = ext(ends) {
        found.add(FileSystem, name, KIB + 56);
    }
    if is_fat(ends) {
        found.add(FileSystem, "vfat", 0);
    }
    if ends.le16(KIB + 6) == Some(0x3434) && ends.le32(KIB) == Some(2) {
        found.add(FileSystem, "nilfs2", KIB + 6);
    }
    let hfs = (ends.be16(KIB), ends.be16(KIB + 2));
    if matches!(hfs, (Some(0x482B), Some(4)) | (Some(0x4858), Some(5))) {
        found.add(FileSystem, "hfsplus", KIB);
    }
    // HFS's volume bitmap starts at sector 3, and allocation blocks are whole sectors.
    if hfs.0 == Some(0x4244)
        && ends.be16(KIB + 14) == Some(3)
        && ends.be32(KIB + 20).is_some_and(|block| block != 0 && block % 512 == 0)
    {
        found.add(FileSystem, "hfs", KIB);
    }
}

/// Detects ext2, ext3 and ext4 by the superblock at 1 KiB. Its magic number has only two bytes, so block
/// size, revision and inode count must also be plausible. Feature flags distinguish the three.
fn ext(ends: &Ends) -> Option<&'static str> {
    const COMPAT_HAS_JOURNAL: u32 = 0x4;
    const INCOMPAT_JOURNAL_DEV: u32 = 0x8;
    /// Incompatible feature flags that ext3 may have: filetype, recover, meta_bg.
    const INCOMPAT_OF_EXT3: u32 = 0x2 | 0x4 | 0x10;
    /// Read-only-compatible feature flags that ext3 may have: sparse_super, large_file, btree_dir.
    const RO_COMPAT_OF_EXT3: u32 = 0x1 | 0x2 | 0x4;
    if ends.le16(KIB + 56)? != 0xEF53 {
        return None;
    }
    let (blocks, log_block_size, revision) =
        (ends.le32(KIB + 4)?, ends.le32(KIB + 24)?, ends.le32(KIB + 76)?);
    if blocks == 0 || log_block_size > 6 || revision > 1 {
        return None;
    }
    let (compat, incompat, ro_compat) =
        (ends.le32(KIB + 92)?, ends.le32(KIB + 96)?, ends.le32(KIB + 100)?);
    Some(if incompat & INCOMPAT_JOURNAL_DEV != 0 {
        "ext journal"
    } else if incompat & !INCOMPAT_OF_EXT3 != 0 || ro_compat & !RO_COMPAT_OF_EXT3 != 0 {
        "ext4"
    } else if compat & COMPAT_HAS_JOURNAL != 0 {
        "ext3"
    } else {
        "ext2"
    })
}

/// Detects a FAT boot sector by its jump, the bytes 55h AAh, and a plausible BIOS parameter block. The words
/// "FAT16" and "FAT32" are optional; some formatters omit them.
fn is_fat(ends: &Ends) -> bool {
    let check = || -> Option<bool> {
        let jump = matches!(ends.u8(0)?, 0xEB | 0xE9);
        let mark = ends.le16(510)? == 0xAA55;
        let sector = ends.le16(11)?;
        let cluster = ends.u8(13)?;
        let (reserved, fats, media) = (ends.le16(14)?, ends.u8(16)?, ends.u8(21)?);
        Some(
            jump && mark
                && matches!(sector, 512 | 1024 | 2048 | 4096)
                && cluster.is_power_of_two()
                && reserved != 0
                && matches!(fats, 1 | 2)
                && (media == 0xF0 || media >= 0xF8),
        )
    };
    check().unwrap_or(false)
}
