//! Oracles: the formatters themselves if installed, bytes made by hand from each format's
//! description otherwise, and random bytes, in which nothing may be found.

use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use iodyno_units::rng;

fn probe_file(path: &Path) -> Content {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    probe(size, &mut |offset, buf| file.read_exact_at(buf, offset)).unwrap()
}

fn probe_bytes(size: u64, parts: &[(u64, &[u8])]) -> Content {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(size).unwrap();
    for (offset, bytes) in parts {
        file.as_file().write_all_at(bytes, *offset).unwrap();
    }
    probe_file(file.path())
}

fn names(content: &Content) -> Vec<&str> {
    content.signatures.iter().map(|signature| signature.name.as_str()).collect()
}

/// Runs a formatter on a fresh sparse image of 512 MiB; false if it is not installed.
fn format(image: &Path, program: &str, args: &[&str], input: &str) -> bool {
    File::create(image).unwrap().set_len(512 << 20).unwrap();
    let mut command = Command::new(program);
    for arg in args {
        command.arg(if *arg == "IMAGE" { image.as_os_str() } else { arg.as_ref() });
    }
    // A user's PATH often lacks the formatters' folders.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        println!("skipped: {program} is not installed");
        return false;
    };
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    true
}

/// Images are created by the format's own program if it is installed, and otherwise composed by hand.
#[test]
fn disk_images_and_archives_are_not_raw() {
    let dir = tempfile::tempdir().unwrap();
    for format in ["qcow2", "qcow", "qed", "vmdk", "vdi", "vhdx", "vpc", "parallels", "raw"] {
        let image = dir.path().join(format);
        let mut command = Command::new("qemu-img");
        command.args(["create", "-q", "-f", format]).arg(&image).arg("4M");
        match command.output() {
            Ok(output) if output.status.success() => {}
            _ => {
                println!("skipped: qemu-img makes no {format}");
                continue;
            }
        }
        let content = probe_file(&image);
        let kind = content.container().map(|signature| signature.kind);
        assert_eq!(kind, (format != "raw").then_some(SignatureKind::DiskImage), "{format}");
    }
    // The footer is neither at the start nor on a sector border.
    for footer in [512, 511] {
        let content = probe_bytes((8 << 20) + 512, &[((8 << 20) + 512 - footer, b"conectix")]);
        assert_eq!(names(&content), ["vhd"]);
    }
    for (program, name) in [("gzip", "gzip"), ("xz", "xz"), ("bzip2", "bzip2"), ("zstd", "zstd")] {
        let file = dir.path().join(name);
        std::fs::write(&file, [7; 9000]).unwrap();
        let output = Command::new(program).arg("-c").arg(&file).output();
        let Ok(output) = output else {
            println!("skipped: {program} is not installed");
            continue;
        };
        let content = probe_bytes(1 << 20, &[(0, &output.stdout)]);
        assert_eq!(content.container().unwrap().name, name);
    }
    // An ISO image is raw.
    assert!(probe_bytes(1 << 20, &[((32 << 10) + 1, b"CD001")]).container().is_none());
}

#[test]
fn signatures_of_real_formatters_are_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let cases: &[(&str, &[&str], &str, &[&str])] = &[
        ("mkfs.ext4", &["-qF", "IMAGE"], "", &["ext4"]),
        ("mkfs.ext3", &["-qF", "IMAGE"], "", &["ext3"]),
        ("mkfs.ext2", &["-qF", "IMAGE"], "", &["ext2"]),
        ("mkswap", &["IMAGE"], "", &["swap"]),
        ("mkfs.xfs", &["-q", "IMAGE"], "", &["xfs"]),
        ("mkfs.btrfs", &["-q", "IMAGE"], "", &["btrfs"]),
        ("mkfs.f2fs", &["-q", "IMAGE"], "", &["f2fs"]),
        ("mkfs.vfat", &["-F", "32", "IMAGE"], "", &["vfat"]),
        ("mkfs.vfat", &["-F", "16", "IMAGE"], "", &["vfat"]),
        ("mkfs.exfat", &["IMAGE"], "", &["exfat"]),
        ("mkfs.ntfs", &["-qFf", "IMAGE"], "", &["ntfs"]),
        ("mkfs.nilfs2", &["-q", "IMAGE"], "", &["nilfs2"]),
        ("mkfs.jfs", &["-q", "IMAGE"], "", &["jfs"]),
        ("mkfs.reiserfs", &["-qff", "IMAGE"], "", &["reiserfs"]),
        ("mkfs.udf", &["IMAGE"], "", &["udf"]),
        ("make-bcache", &["-B", "IMAGE"], "", &["bcache"]),
        (
            "cryptsetup",
            &["luksFormat", "-q", "--type", "luks1", "--pbkdf-force-iterations", "1000", "IMAGE"],
            "secret",
            &["LUKS"],
        ),
        (
            "cryptsetup",
            &[
                "luksFormat",
                "-q",
                "--type",
                "luks2",
                "--pbkdf",
                "pbkdf2",
                "--pbkdf-force-iterations",
                "1000",
                "IMAGE",
            ],
            "secret",
            &["LUKS"],
        ),
        ("sfdisk", &["-q", "IMAGE"], "label: gpt\n,10M\n,\n", &["GPT", "GPT backup"]),
        ("sfdisk", &["-q", "IMAGE"], "label: dos\n,10M\n,\n", &["MBR"]),
        ("sfdisk", &["-q", "IMAGE"], "label: dos\n", &[]),
        ("sfdisk", &["-q", "IMAGE"], "label: sun\n", &["Sun label"]),
        ("sfdisk", &["-q", "IMAGE"], "label: sgi\n", &["SGI label"]),
    ];
    for (program, args, input, expected) in cases {
        if format(&image, program, args, input) {
            let content = probe_file(&image);
            assert_eq!(names(&content), *expected, "{program} {args:?}");
        }
    }
    // sfdisk's last table without partitions gives a remark.
    if format(&image, "sfdisk", &["-q", "IMAGE"], "label: dos\n") {
        assert!(probe_file(&image).empty_boot_sector);
    }
    // The labels at the end survive the loss of the first megabyte.
    if format(&image, "sfdisk", &["-q", "IMAGE"], "label: gpt\n,10M\n") {
        let file = File::options().write(true).open(&image).unwrap();
        file.write_all_at(&vec![0; 1 << 20], 0).unwrap();
        assert_eq!(names(&probe_file(&image)), ["GPT backup"]);
    }
}

#[test]
fn labels_at_the_end_are_found_by_the_size() {
    let md = 0xA92B_4EFC_u32.to_le_bytes();
    let md_v1 = [md, 1_u32.to_le_bytes()].concat();
    // Not a multiple of 64 KiB, so that each format's rounding matters.
    let size = (300 << 20) + 5 * 4096 + 512;
    let last_64k = size / 65_536 * 65_536 - 65_536;
    let md_1_0 = (size / 512 - 16) / 8 * 8 * 512;
    let label = size / 262_144 * 262_144 - 262_144;
    let uberblock = 0x00BA_B10C_u64.to_le_bytes();
    let drbd = size / 4096 * 4096 - 4096 + 60;
    for (offset, bytes, name) in [
        (last_64k, &md[..], "md 0.90"),
        (last_64k, &0xA92B_4EFC_u32.to_be_bytes()[..], "md 0.90"),
        (md_1_0, &md_v1[..], "md 1.0"),
        (4096, &md_v1[..], "md 1.2"),
        (0, &md_v1[..], "md 1.1"),
        (label + 131_072 + 4096, &uberblock[..], "ZFS"),
        (label - 262_144 + 131_072, &0x00BA_B10C_u64.to_be_bytes()[..], "ZFS"),
        (262_144 + 131_072 + 1024, &uberblock[..], "ZFS"),
        (16_384, b"\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\0\0\x24\0\0\0\x20\0\0\0\x07version\0", "ZFS"),
        (drbd, &0x8374_026D_u32.to_be_bytes()[..], "DRBD"),
        (size - 512, &0xDE11_DE11_u32.to_be_bytes()[..], "DDF"),
        (size - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00", "Intel RAID"),
        (size - 512, b"EFI PART", "GPT backup"),
    ] {
        let content = probe_bytes(size, &[(offset, bytes)]);
        assert_eq!(names(&content), [name], "at {offset}");
    }
}

#[test]
fn labels_at_the_start() {
    let size = 64 << 20;
    let lvm = [b"LABELONE".as_slice(), &[0; 16], b"LVM2 001"].concat();
    for (offset, bytes, name) in [
        (512, &lvm[..], "LVM2"),
        (3 * 512, &lvm[..], "LVM2"),
        (4096, b"EFI PART", "GPT"),
        (1 << 20, &[0x0D, 0xD0, 0x01, 0xC0], "VMFS"),
        (65_536 - 10, b"SWAPSPACE2", "swap"),
        (32_769, b"CD001", "iso9660"),
        (1024, b"H+\0\x04", "hfsplus"),
    ] {
        assert_eq!(names(&probe_bytes(size, &[(offset, bytes)])), [name], "at {offset}");
    }
    // The magic alone, without the other fields, must not count.
    for (offset, bytes) in
        [(512, &b"LABELONE"[..]), (1080, &[0x53, 0xEF]), (1024, b"H+"), (1030, &[0x34, 0x34])]
    {
        assert_eq!(names(&probe_bytes(size, &[(offset, bytes)])), [""; 0], "at {offset}");
    }
}

#[test]
fn a_boot_sector_counts_by_its_partitions() {
    let size = 64 << 20;
    let mut sector = [0_u8; 512];
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    let bare = probe_bytes(size, &[(0, &sector)]);
    assert!(bare.empty_boot_sector && bare.signatures.is_empty() && !bare.starts_with_zeroes);

    // Third entry: type 83h, first sector 2048, 4096 sectors.
    sector[446 + 32 + 4] = 0x83;
    sector[446 + 32 + 9] = 8;
    sector[446 + 32 + 13] = 16;
    let table = probe_bytes(size, &[(0, &sector)]);
    assert_eq!(names(&table), ["MBR"]);
    assert!(!table.empty_boot_sector);

    // A protective MBR whose GPT was wiped still shows that the disk was partitioned.
    sector[446 + 32 + 4] = 0xEE;
    assert_eq!(names(&probe_bytes(size, &[(0, &sector)])), ["MBR"]);
    assert_eq!(names(&probe_bytes(size, &[(0, &sector), (512, b"EFI PART")])), ["GPT"]);

    // An invalid boot flag: these are not partition entries.
    sector[446] = 0x17;
    assert!(probe_bytes(size, &[(0, &sector)]).signatures.is_empty());
}

#[test]
fn every_magic_of_the_table_lies_inside_the_window() {
    for (offset, magic, _, name) in table::TABLE {
        assert!(offset + magic.len() as u64 <= HEAD_BYTES, "{name}");
        // Also if the image is only just large enough.
        let content = probe_bytes(offset + magic.len() as u64, &[(offset, magic)]);
        assert!(names(&content).contains(&name), "{name}");
    }
}

#[test]
fn nothing_is_found_in_nothing_or_in_noise() {
    for size in [0, 1, 511, 4096, 1 << 20, (1 << 20) + 4096, 3 << 20] {
        let content = probe_bytes(size, &[]);
        assert!(content.signatures.is_empty() && content.starts_with_zeroes, "{size}");
    }
    // iodyno itself writes random data, and must not refuse its own files. A longer search would
    // meet two-byte magics by chance; forty megabytes from fixed seeds do not.
    let mut noise = vec![0; 4 << 20];
    for seed in 0..10 {
        let mut stream = rng::stream(seed, "content", 0);
        for word in noise.chunks_exact_mut(8) {
            word.copy_from_slice(&rng::below(&mut stream, u64::MAX).to_le_bytes());
        }
        let content = probe_bytes(noise.len() as u64, &[(0, &noise)]);
        assert!(content.signatures.is_empty() && !content.starts_with_zeroes, "{content:?}");
    }
}
