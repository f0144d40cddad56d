//! Files that wrap other content: disk images of hypervisors, compressed files and archives. Their bytes are not those
//! of the disk or file within.

use super::SignatureKind::{Archive, DiskImage};
use super::{Ends, Found, SignatureKind};

/// Formats of disk images and archives: offset, magic number, family and name of each. Taken from the formats' own
/// sources (QEMU's `block/`, VirtualBox's `VDICore.h`).
#[rustfmt::skip]
const TABLE: [(u64, &[u8], SignatureKind, &str); 27] = [
    (0, b"QFI\xFB", DiskImage, "qcow2"),
    (0, b"QED\0", DiskImage, "qed"),
    (0, b"KDMV", DiskImage, "vmdk"),
    (0, b"COWD", DiskImage, "vmdk"),
    (0, b"# Disk DescriptorFile", DiskImage, "vmdk"),
    (0, b"vhdxfile", DiskImage, "vhdx"),
    (0, b"conectix", DiskImage, "vhd"),
    (0x40, &[0x7F, 0x10, 0xDA, 0xBE], DiskImage, "vdi"),
    (0, b"WithoutFreeSpace", DiskImage, "parallels"),
    (0, b"WithouFreSpacExt", DiskImage, "parallels"),
    (0, b"Bochs Virtual HD Image", DiskImage, "bochs"),
    (0, b"EVF\x09\x0D\x0A\xFF\0", DiskImage, "EWF"),
    (0, &[0x3A, 0xFF, 0x26, 0xED], DiskImage, "Android sparse image"),
    (0, b"partclone-image", DiskImage, "partclone"),
    (0, &[0x1F, 0x8B, 0x08], Archive, "gzip"),
    (0, b"\xFD7zXZ\0", Archive, "xz"),
    (0, &[0x28, 0xB5, 0x2F, 0xFD], Archive, "zstd"),
    (0, &[0x04, 0x22, 0x4D, 0x18], Archive, "lz4"),
    (0, b"LZIP\x01", Archive, "lzip"),
    (0, b"\x89LZO\0\x0D\x0A\x1A\x0A", Archive, "lzop"),
    (0, b"7z\xBC\xAF\x27\x1C", Archive, "7z"),
    (0, b"PK\x03\x04", Archive, "zip"),
    (0, b"MSWIM\0\0\0", Archive, "wim"),
    (257, b"ustar\0", Archive, "tar"),
    (257, b"ustar ", Archive, "tar"),
    (0, b"Rar!\x1A\x07", Archive, "rar"),
    (0, b"xar!", Archive, "xar"),
];

/// Magic number of a bzip2 block: the digits of pi.
const BZIP2_BLOCK: &[u8] = &[0x31, 0x41, 0x59, 0x26, 0x53, 0x59];

pub(super) fn find(ends: &Ends, found: &mut Found) {
    for (offset, magic, kind, name) in TABLE {
        if ends.has(offset, magic) {
            found.add(kind, name, offset);
        }
    }
    if ends.has(0, b"BZh") && ends.has(4, BZIP2_BLOCK) {
        found.add(Archive, "bzip2", 0);
    }
    // A fixed VHD is a raw disk plus a footer, one byte shorter in early versions.
    for footer in [512, 511] {
        if let Some(offset) = ends.size.checked_sub(footer) {
            if ends.has(offset, b"conectix") {
                found.add(DiskImage, "vhd", offset);
            }
            if ends.has(offset, b"koly") {
                found.add(DiskImage, "dmg", offset);
            }
        }
    }
}
