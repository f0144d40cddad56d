//! Partition tables: GPT at both ends of the device, MBR, and the labels of other systems.

use super::SignatureKind::PartitionTable;
use super::{Ends, Found};

/// Formats whose first sector ends with 55h AAh like a partition table, but is not a partition table.
const BOOT_SECTORS: [&str; 5] = ["vfat", "ntfs", "exfat", "refs", "BitLocker"];

/// Searches for partition tables. Returns true for a boot sector without partitions.
pub(super) fn find(ends: &Ends, found: &mut Found) -> bool {
    let boot_sector_of_a_file_system = found.has_named(&BOOT_SECTORS);
    // The header is in the second logical sector, whose size is unknown here.
    for sector in [512, 4096] {
        if ends.has(sector, b"EFI PART") {
            found.add(PartitionTable, "GPT", sector);
        }
        if let Some(last) = ends.size.checked_sub(sector)
            && last > sector
            && ends.has(last, b"EFI PART")
        {
            found.add(PartitionTable, "GPT backup", last);
        }
    }
    other_labels(ends, found);
    if boot_sector_of_a_file_system || ends.le16(510) != Some(0xAA55) {
        return false;
    }
    match mbr_partitions(ends) {
        // Random bytes before the mark, or a boot loader with another format's label.
        None => false,
        Some(0) => true,
        Some(_) if found.has_named(&["GPT"]) => false,
        Some(_) => {
            found.add(PartitionTable, "MBR", 510);
            false
        }
    }
}

/// Number of used entries in an MBR's partition table; `None` if an entry is invalid. The table's four entries of 16
/// bytes start at offset 446: boot flag at 0, type at 4, first sector at 8, sector count at 12.
fn mbr_partitions(ends: &Ends) -> Option<usize> {
    let mut used = 0;
    for entry in (0..4).map(|i| 446 + 16 * i) {
        let (flag, kind) = (ends.u8(entry)?, ends.u8(entry + 4)?);
        let (first, sectors) = (ends.le32(entry + 8)?, ends.le32(entry + 12)?);
        if !matches!(flag, 0 | 0x80) {
            return None;
        }
        if kind != 0 && sectors != 0 && first != 0 {
            used += 1;
        }
    }
    Some(used)
}

/// Searches for disk labels of Apple, Sun, SGI, BSD and Amiga, as in Linux's `block/partitions`.
fn other_labels(ends: &Ends, found: &mut Found) {
    if ends.has(0, b"ER") && ends.has(512, b"PM\0\0") {
        found.add(PartitionTable, "Apple partition map", 0);
    }
    // The 16-bit words of Sun's label, including the checksum, XOR to 0.
    if ends.be16(508) == Some(0xDABE) {
        let words = (0..256).filter_map(|i| ends.be16(i * 2));
        if words.fold(0, |sum, word| sum ^ word) == 0 {
            found.add(PartitionTable, "Sun label", 508);
        }
    }
    if ends.be32(0) == Some(0x0BE5_A941) {
        found.add(PartitionTable, "SGI label", 0);
    }
    // BSD's magic number is at the start and again 132 bytes later.
    for label in [0, 64, 512] {
        if ends.le32(label) == Some(0x8256_4557) && ends.le32(label + 132) == Some(0x8256_4557) {
            found.add(PartitionTable, "BSD label", label);
        }
    }
    if (0..16).any(|sector| ends.has(sector * 512, b"RDSK")) {
        found.add(PartitionTable, "Amiga label", 0);
    }
}
