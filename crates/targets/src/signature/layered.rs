//! Signatures of devices that belong to a layer below a file system: LVM, md, ZFS, DRBD, firmware RAID. Several formats
//! have their label at the end of the device, at an offset that depends on the device's size.

use super::SignatureKind::{Raid, Volume};
use super::{Ends, Found};

const MD_MAGIC: u32 = 0xA92B_4EFC;

pub(super) fn find(ends: &Ends, found: &mut Found) {
    lvm(ends, found);
    md(ends, found);
    zfs(ends, found);
    drbd(ends, found);
    firmware_raid(ends, found);
}

/// Searches for an LVM label, which is in one of the first four sectors and states its type (LVM2's
/// `label.h`).
fn lvm(ends: &Ends, found: &mut Found) {
    for sector in 0..4 {
        let offset = sector * 512;
        if ends.has(offset, b"LABELONE") && ends.has(offset + 24, b"LVM2 001") {
            found.add(Volume, "LVM2", offset);
        }
    }
}

/// Searches for md superblocks at the end of the device. Version 0.90 is in the last whole 64 KiB block, in
/// the byte order of the machine that made it. Version 1.0 is 8 to 12 KiB before the end, at a multiple of 4
/// KiB. Versions 1.1 and 1.2, at the start, are found elsewhere.
fn md(ends: &Ends, found: &mut Found) {
    if let Some(offset) = (ends.size / 65_536 * 65_536).checked_sub(65_536)
        && (ends.le32(offset) == Some(MD_MAGIC) || ends.be32(offset) == Some(MD_MAGIC))
    {
        found.add(Raid, "md 0.90", offset);
    }
    if let Some(sectors) = (ends.size / 512).checked_sub(16) {
        let offset = sectors / 8 * 8 * 512;
        if ends.le32(offset) == Some(MD_MAGIC) && ends.le32(offset + 4) == Some(1) {
            found.add(Raid, "md 1.0", offset);
        }
    }
}

/// Searches for ZFS. It has four labels of 256 KiB, two at each end. Each contains an XDR list at 16 KiB
/// whose first key is `version`, and from 128 KiB a ring of uberblocks, spaced by 1 KiB or a larger power of
/// two.
fn zfs(ends: &Ends, found: &mut Found) {
    const LABEL: u64 = 256 * 1024;
    const UBERBLOCK: u64 = 0x00BA_B10C;
    let aligned = ends.size / LABEL * LABEL;
    let starts = [Some(0), Some(LABEL), aligned.checked_sub(2 * LABEL), aligned.checked_sub(LABEL)];
    for start in starts.into_iter().flatten() {
        let list = start + 16 * 1024;
        let is_list = ends.get(list, 2).is_some_and(|head| head[0] == 1)
            && ends.has(list + 20, b"\0\0\0\x07version\0");
        let is_uberblock = |slot: u64| {
            let magic = ends.get(start + LABEL / 2 + slot * 1024, 8);
            magic == Some(&UBERBLOCK.to_le_bytes()) || magic == Some(&UBERBLOCK.to_be_bytes())
        };
        if is_list || (0..128).any(is_uberblock) {
            found.add(Volume, "ZFS", start);
        }
    }
}

/// Searches for DRBD's internal metadata: a superblock in the last 4 KiB, with its magic number at offset 60.
fn drbd(ends: &Ends, found: &mut Found) {
    if let Some(start) = (ends.size / 4096 * 4096).checked_sub(4096)
        && matches!(ends.be32(start + 60), Some(0x8374_026B..=0x8374_026D))
    {
        found.add(Raid, "DRBD", start + 60);
    }
}

/// Searches for RAID metadata of mainboards and adapters: SNIA's DDF in the last sector, Intel's in the
/// sector before.
fn firmware_raid(ends: &Ends, found: &mut Found) {
    for sector in [512, 4096] {
        if let Some(last) = ends.size.checked_sub(sector) {
            if ends.be32(last) == Some(0xDE11_DE11) {
                found.add(Raid, "DDF", last);
            }
            if let Some(before) = last.checked_sub(sector)
                && ends.has(before, b"Intel Raid ISM Cfg Sig. ")
            {
                found.add(Raid, "Intel RAID", before);
            }
        }
    }
}
