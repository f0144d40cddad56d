//! The guard on simulated machines: a disk in use through its partitions, LVM, RAID, encryption, multipath.

use super::*;
use crate::inspect::fake::Tree;
use crate::inspect::topology;
use crate::inspect::{BlockDevice, Identity, inspect};
use crate::marker::Marker;
use crate::name::TargetName;
use crate::signature::{Signature, SignatureKind};
use crate::sysroot::DevNo;

const SDA: &str = "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda";
const NVME: &str = "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";

/// A blank block device with this number, as an inspection would describe it.
fn block(tree: &Tree, dev: &str) -> Inspection {
    let dev: DevNo = dev.parse().unwrap();
    let mut inspection = inspect(&TargetName::Null { size_bytes: 512 }).unwrap();
    inspection.kind = Kind::Block;
    inspection.device = BlockDevice::read(&tree.root(), dev);
    let node = inspection.device.as_ref().unwrap().node_path();
    inspection.path = Some("/dev/disk/by-id/some-name".to_owned());
    inspection.canonical_path = Some(node.to_string_lossy().into_owned());
    inspection.identity =
        Some(Identity { dev: DevNo { major: 0, minor: 6 }, inode: 1, device: Some(dev) });
    inspection.content = Some(Content { starts_with_zeroes: true, ..Content::default() });
    inspection.sampled = Some(Sampled { whole: true, ..Sampled::default() });
    inspection
}

fn refusals(tree: &Tree, dev: &str) -> Vec<(RefusalCode, String)> {
    let found = check_writable(&block(tree, dev), &tree.root());
    found.into_iter().map(|refusal| (refusal.code, refusal.found)).collect()
}

fn codes(tree: &Tree, dev: &str) -> Vec<RefusalCode> {
    refusals(tree, dev).into_iter().map(|(code, _)| code).collect()
}

fn partitioned() -> Tree {
    let tree = Tree::new();
    tree.disk(SDA, "8:0", 8192);
    tree.partition(&format!("{SDA}/sda1"), "8:1", 1);
    tree.partition(&format!("{SDA}/sda2"), "8:2", 2);
    tree
}

#[test]
fn a_blank_idle_disk_is_allowed() {
    assert_eq!(refusals(&partitioned(), "8:0"), []);
}

#[test]
fn a_disk_whose_partition_is_mounted() {
    let tree = partitioned();
    // By number: the name in the mount table is an alias.
    tree.mounts(&[("8:2", "/srv/data", "ext4", "/dev/disk/by-label/data")]);
    let found = refusals(&tree, "8:0");
    assert_eq!(
        found,
        [(RefusalCode::Mounted, "Its partition sda2 is mounted at /srv/data.".to_owned())]
    );
    // The sibling shares no data with the mounted partition.
    assert_eq!(codes(&tree, "8:1"), []);
    assert_eq!(codes(&tree, "8:2"), [RefusalCode::Mounted]);
}

#[test]
fn a_partition_of_a_disk_that_is_used_whole() {
    let tree = partitioned();
    tree.mounts(&[("8:0", "/srv", "ext4", "/dev/sda")]);
    let found = refusals(&tree, "8:1");
    assert_eq!(
        found,
        [(RefusalCode::Mounted, "Its whole disk sda is mounted at /srv.".to_owned())]
    );
}

/// The root file system of a container is not that of the machine.
#[test]
fn a_mount_in_another_namespace_is_no_less_a_mount() {
    let tree = partitioned();
    tree.mounts(&[("8:2", "/srv", "ext4", "/dev/sda2")]);
    tree.file(
        "proc/77/mountinfo",
        "90 1 8:1 / / rw - ext4 /dev/x rw\n91 1 8:2 / /m rw - ext4 - rw\n",
    );
    tree.file("proc/77/comm", "postgres\n");
    let text = "Its partition sda1 is mounted at / in another mount namespace, that of postgres (process 77).";
    assert_eq!(refusals(&tree, "8:0")[0], (RefusalCode::Mounted, text.to_owned()));
    assert_eq!(refusals(&tree, "8:2")[0].1, "It is mounted at /srv.");
}

#[test]
fn the_system_disk_can_t_be_confirmed_away() {
    let tree = partitioned();
    tree.mounts(&[("8:1", "/", "ext4", "/dev/root"), ("8:1", "/mnt/bind", "ext4", "/dev/root")]);
    let inspection = block(&tree, "8:0");
    let found = check_writable(&inspection, &tree.root());
    assert_eq!(found[0].code, RefusalCode::SystemDisk);
    let named = Confirm(vec!["sda".to_owned(), "/dev/sda".to_owned()]);
    let Err(TargetError::Refused(refused)) = confirm(&inspection, found, &named) else { panic!() };
    assert_eq!(refused.confirmed_by, [""; 0]);
}

#[test]
fn swap_by_node_name_and_through_a_partition() {
    let tree = partitioned();
    tree.swaps(&["/dev/sda1", "/var/swap\\040file"]);
    assert_eq!(
        refusals(&tree, "8:0"),
        [(RefusalCode::Swap, "Its partition sda1 is in use as swap space.".to_owned())]
    );
    assert_eq!(codes(&tree, "8:1"), [RefusalCode::Swap]);
    assert_eq!(codes(&tree, "8:2"), []);
}

#[test]
fn lvm_on_a_partition_is_found_from_the_disk() {
    let tree = partitioned();
    tree.disk("virtual/block/dm-0", "252:0", 4096);
    tree.file("sys/devices/virtual/block/dm-0/dm/uuid", "LVM-abcdef\n");
    tree.file("sys/devices/virtual/block/dm-0/dm/name", "vg0-home\n");
    tree.stack("virtual/block/dm-0", &format!("{SDA}/sda2"));
    tree.mounts(&[("252:0", "/home", "xfs", "/dev/mapper/vg0-home")]);
    let found = refusals(&tree, "8:0");
    let volume = "the LVM volume vg0-home (dm-0)";
    let mounted = format!("A device on top of it ({volume}, on sda2) is mounted at /home.");
    let member = format!("Its partition sda2 is in use by {volume}, mounted at /home.");
    assert_eq!(found, [(RefusalCode::Mounted, mounted), (RefusalCode::Member, member)]);
    assert_eq!(codes(&tree, "8:2"), [RefusalCode::Mounted, RefusalCode::Member]);
    assert_eq!(codes(&tree, "8:1"), []);
    // The volume itself is mounted, but member of nothing.
    assert_eq!(codes(&tree, "252:0"), [RefusalCode::Mounted]);
}

#[test]
fn encryption_on_a_raid_set_on_two_disks() {
    let tree = Tree::new();
    tree.disk(NVME, "259:0", 8192);
    tree.partition(&format!("{NVME}/nvme0n1p1"), "259:1", 1);
    tree.disk("virtual/block/sdx", "8:16", 8192);
    tree.disk("virtual/block/md127", "9:127", 8192);
    tree.file("sys/devices/virtual/block/md127/md/level", "raid1\n");
    tree.disk("virtual/block/dm-3", "252:3", 8192);
    tree.file("sys/devices/virtual/block/dm-3/dm/uuid", "CRYPT-LUKS2-1234-luks\n");
    tree.file("sys/devices/virtual/block/dm-3/dm/name", "luks\n");
    tree.stack("virtual/block/md127", &format!("{NVME}/nvme0n1p1"));
    tree.stack("virtual/block/md127", "virtual/block/sdx");
    tree.stack("virtual/block/dm-3", "virtual/block/md127");
    tree.swaps(&["/dev/dm-3"]);
    for disk in ["259:0", "259:1", "8:16"] {
        let found = refusals(&tree, disk);
        let codes: Vec<_> = found.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [RefusalCode::Swap, RefusalCode::Member, RefusalCode::Member], "{disk}");
        assert!(found[0].1.contains("the encrypted volume luks (dm-3), on md127"), "{found:?}");
        assert!(found[1].1.contains("in use by the RAID set md127 (raid1)"), "{found:?}");
    }
    // Downwards: the bottom of the encrypted volume is both disks.
    let device = BlockNode::by_number(&tree.root(), "252:3".parse().unwrap()).unwrap();
    let bottom: Vec<_> =
        topology::physical(&tree.root(), &device).into_iter().map(|node| node.name).collect();
    assert_eq!(bottom, ["nvme0n1", "sdx"]);
}

#[test]
fn multipath_paths_are_members_and_its_partitions_count() {
    let tree = partitioned();
    tree.disk("virtual/block/sdb", "8:32", 8192);
    for (name, number, uuid, mapped) in [
        ("dm-5", "252:5", "mpath-3600508b", "mpatha"),
        ("dm-6", "252:6", "part1-mpath-3600508b", "mpatha-part1"),
    ] {
        tree.disk(&format!("virtual/block/{name}"), number, 8192);
        tree.file(&format!("sys/devices/virtual/block/{name}/dm/uuid"), uuid);
        tree.file(&format!("sys/devices/virtual/block/{name}/dm/name"), mapped);
    }
    tree.stack("virtual/block/dm-5", "virtual/block/sdb");
    tree.stack("virtual/block/dm-5", SDA);
    tree.stack("virtual/block/dm-6", "virtual/block/dm-5");
    let found = refusals(&tree, "8:32");
    assert!(found.iter().all(|(code, _)| *code == RefusalCode::Member), "{found:?}");
    assert!(found[0].1.contains("in use by the multipath device mpatha (dm-5)"), "{found:?}");
    assert!(found[1].1.contains("the mapped partition mpatha-part1 (dm-6)"), "{found:?}");
    tree.mounts(&[("252:6", "/data", "ext4", "/dev/mapper/mpatha-part1")]);
    assert_eq!(codes(&tree, "252:5"), [RefusalCode::Mounted, RefusalCode::Member]);
}

#[test]
fn every_member_of_a_mounted_btrfs_counts() {
    let tree = partitioned();
    tree.disk("virtual/block/sdb", "8:32", 8192);
    // mountinfo shows an anonymous number and one member.
    tree.mounts(&[("0:45", "/pool", "btrfs", "/dev/sda1")]);
    for name in ["sda1", "sdb"] {
        tree.file(&format!("sys/fs/btrfs/1234-5678/devices/{name}"), "");
    }
    assert_eq!(
        refusals(&tree, "8:0"),
        [(RefusalCode::Mounted, "Its partition sda1 is mounted at /pool.".to_owned())]
    );
    assert_eq!(
        refusals(&tree, "8:32"),
        [(
            RefusalCode::Mounted,
            "It belongs to a mounted file system (btrfs 1234-5678).".to_owned()
        )]
    );
}

#[test]
fn a_loop_device_on_a_device_that_is_in_use() {
    let tree = partitioned();
    tree.disk("virtual/block/loop3", "7:3", 8192);
    tree.file("sys/devices/virtual/block/loop3/loop/backing_file", "/dev/sda1\n");
    // The partition carries the loop device.
    assert_eq!(
        refusals(&tree, "8:1"),
        [(RefusalCode::Member, "It is in use by the loop device loop3.".to_owned())]
    );
    assert_eq!(codes(&tree, "7:3"), []);
}

/// A loop device lies on the target. If a device built on that loop device is mounted, the target counts as mounted,
/// and no name lifts the refusal.
#[test]
fn devices_on_a_loop_device_are_in_use() {
    type Change = fn(&Tree);
    const LOOP: &str = "virtual/block/loop3";
    let tree = || {
        let tree = partitioned();
        for (name, dev, file) in [("loop3", "7:3", "/dev/sda1"), ("loop4", "7:4", "/dev/loop3")] {
            tree.disk(&format!("virtual/block/{name}"), dev, 8192);
            tree.file(
                &format!("sys/devices/virtual/block/{name}/loop/backing_file"),
                format!("{file}\n"),
            );
        }
        tree.partition(&format!("{LOOP}/loop3p1"), "259:3", 1);
        tree.disk("virtual/block/dm-0", "252:0", 4096);
        tree.file("sys/devices/virtual/block/dm-0/dm/uuid", "CRYPT-LUKS2-1234-luks\n");
        tree.stack("virtual/block/dm-0", "virtual/block/loop4");
        tree
    };
    let idle = [RefusalCode::Member; 3];
    assert_eq!(codes(&tree(), "8:1"), idle);
    let cases: [(&str, Change, RefusalCode); 6] = [
        ("its partition", |t| t.mounts(&[("259:3", "/m", "ext4", "-")]), RefusalCode::Mounted),
        ("a loop device on it", |t| t.mounts(&[("7:4", "/m", "xfs", "-")]), RefusalCode::Mounted),
        ("LUKS", |t| t.mounts(&[("252:0", "/m", "xfs", "-")]), RefusalCode::Mounted),
        (
            "btrfs, by an anonymous number",
            |t| t.mounts(&[("0:45", "/m", "btrfs", "/dev/loop4")]),
            RefusalCode::Mounted,
        ),
        ("swap", |t| t.swaps(&["/dev/loop4"]), RefusalCode::Swap),
        ("the system", |t| t.mounts(&[("7:4", "/usr", "erofs", "-")]), RefusalCode::SystemDisk),
    ];
    for (what, change, code) in cases {
        let tree = tree();
        change(&tree);
        // The partition that carries it, the disk around that, and a loop device in between.
        for dev in ["8:1", "8:0", "7:3"] {
            let inspection = block(&tree, dev);
            let found = check_writable(&inspection, &tree.root());
            assert_eq!(found[0].code, code, "{what} on {dev}: {found:?}");
            let name = inspection.device.as_ref().unwrap().kernel_name.clone();
            assert!(confirm(&inspection, found, &Confirm(vec![name])).is_err(), "{what} on {dev}");
        }
        assert_eq!(codes(&tree, "8:2"), [], "{what}");
    }
    let tree = tree();
    tree.mounts(&[("7:4", "/m", "xfs", "-")]);
    let found = refusals(&tree, "8:1");
    assert_eq!(
        found[0].1,
        "A device on top of it (the loop device loop4, on loop3) is mounted at /m."
    );
    assert_eq!(found[1].1, "It is in use by the loop device loop3.");
    // The other users of the partition count, the target itself does not.
    assert_eq!(codes(&tree, "252:0"), []);
    tree.mounts(&[("8:1", "/m", "ext4", "-")]);
    let found = refusals(&tree, "7:4");
    let text = "Its blocks are stored in /dev/loop3. For that file: Its blocks are stored in /dev/sda1. For \
                that file: It is mounted at /m.";
    assert_eq!(found[0], (RefusalCode::Mounted, text.to_owned()));
}

#[test]
fn a_loop_device_on_a_swap_file() {
    let tree = partitioned();
    tree.disk("virtual/block/loop3", "7:3", 8192);
    tree.file("sys/devices/virtual/block/loop3/loop/backing_file", "/swapfile\n");
    tree.file("swapfile", "");
    assert_eq!(codes(&tree, "7:3"), []);
    tree.swaps(&["/swapfile"]);
    assert_eq!(codes(&tree, "7:3"), [RefusalCode::Swap]);
}

#[test]
fn content_and_read_only_devices() {
    let tree = partitioned();
    let mut inspection = block(&tree, "8:0");
    let signature = |kind, name: &str| Signature { kind, name: name.to_owned(), offset_bytes: 512 };
    inspection.content.as_mut().unwrap().signatures = vec![
        signature(SignatureKind::FileSystem, "xfs"),
        signature(SignatureKind::PartitionTable, "GPT"),
    ];
    let found = check_writable(&inspection, &tree.root());
    assert_eq!(found[0].code, RefusalCode::PartitionTable);
    assert_eq!(found[1].found, "It holds a file system (xfs, found at byte 512).");

    inspection.content = None;
    inspection.unreadable = Some("Permission denied".to_owned());
    let found = check_writable(&inspection, &tree.root());
    assert_eq!(found[0].code, RefusalCode::UnknownContent);
    assert!(found[0].found.contains("Permission denied"));

    tree.file(&format!("sys/devices/{SDA}/ro"), "1\n");
    assert_eq!(codes(&tree, "8:0"), [RefusalCode::ReadOnly]);

    // Not in /sys at all: its use is unknown.
    inspection.identity.as_mut().unwrap().device = Some(DevNo { major: 99, minor: 0 });
    let found = check_writable(&inspection, &tree.root());
    assert_eq!(found.last().unwrap().code, RefusalCode::UnknownContent);
}

/// Failed reads of an export prove nothing about its content.
#[test]
fn an_export_that_could_not_be_sampled() {
    let mut inspection = inspect(&TargetName::Null { size_bytes: 512 }).unwrap();
    inspection.kind = Kind::Nbd;
    inspection.content = Some(Content { starts_with_zeroes: true, ..Content::default() });
    inspection.unreadable = Some("Input/output error".to_owned());
    let found = check_writable(&inspection, &Tree::new().root());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].code, RefusalCode::UnknownContent);
    assert!(
        found[0].found.contains("could not be read") && found[0].found.contains("Input/output")
    );
}

#[test]
fn only_the_device_s_own_names_confirm() {
    let tree = partitioned();
    tree.disk("virtual/block/dm-0", "252:0", 8192);
    tree.stack("virtual/block/dm-0", &format!("{SDA}/sda2"));
    tree.file(
        "sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda/serial",
        " S3R14L  \n",
    );
    let disk = block(&tree, "8:0");
    let partition = block(&tree, "8:2");
    let lifts = |inspection: &Inspection, name: &str| {
        let found = check_writable(inspection, &tree.root());
        assert!(!found.is_empty());
        confirm(inspection, found, &Confirm(vec!["unrelated".to_owned(), name.to_owned()])).is_ok()
    };
    for name in ["sda", "/dev/sda", "S3R14L", "/dev/disk/by-id/some-name"] {
        assert!(lifts(&disk, name), "{name}");
    }
    for name in ["", "sd", "sda1", "sdaa", "SDA", "s3r14l", "S3R14", "/dev/sda ", "yes"] {
        assert!(!lifts(&disk, name), "{name}");
    }
    // No name lifts mounts or swap space, since unmounting is easy.
    tree.mounts(&[("8:1", "/srv", "ext4", "/dev/sda1")]);
    assert!(!lifts(&disk, "sda") && !lifts(&block(&tree, "8:1"), "sda1"));
    tree.mounts(&[]);
    // A name that fits no target is an error, whether or not anything was refused.
    let both = [&disk, &partition];
    let given = |names: &[&str]| {
        let names = Confirm(names.iter().map(|&name| name.to_owned()).collect());
        check_confirmed(&both, &names).map_err(|error| (error.exit_code(), error.to_string()))
    };
    assert_eq!(given(&[]), Ok(()));
    assert_eq!(given(&["sda2", "S3R14L"]), Ok(()));
    let (code, text) = given(&["sda2", "sdb"]).unwrap_err();
    assert!(code == 2 && text.contains("`sdb`") && text.contains("sda, sda2"), "{text}");
    // A disk's serial number does not single out one of its partitions.
    assert!(lifts(&partition, "sda2") && !lifts(&partition, "S3R14L") && !lifts(&partition, "sda"));

    let found = check_writable(&disk, &tree.root());
    let error = confirm(&disk, found, &Confirm(vec!["sdb".to_owned()])).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    let text = error.to_string();
    for part in [
        "sda2 is in use by dm-0",
        "Stop dm-0 first",
        "`--destroy sdb` names a different target",
        "--destroy sda",
        "--destroy S3R14L",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn unreadable_targets_may_hold_anything() {
    let tree = Tree::new();
    let mut file = inspect(&TargetName::Null { size_bytes: 4096 }).unwrap();
    (file.kind, file.exists) = (Kind::File, true);
    (file.whole_bytes, file.marker) = (Some(4096), Some(Marker::LaidOut(4096)));
    file.content = Some(Content { starts_with_zeroes: true, ..Content::default() });
    file.sampled = Some(Sampled { whole: true, ..Sampled::default() });
    let codes = |inspection: &Inspection| -> Vec<RefusalCode> {
        check_writable(inspection, &tree.root()).iter().map(|refusal| refusal.code).collect()
    };
    assert_eq!(codes(&file), []);
    // The mark of a file that iodyno made proves nothing about its present content.
    (file.content, file.sampled) = (None, None);
    assert_eq!(codes(&file), [RefusalCode::UnknownContent]);

    // An export whose signatures were read but that could not be sampled is refused as well.
    let mut export = file;
    export.kind = Kind::Nbd;
    assert_eq!(codes(&export), [RefusalCode::UnknownContent]);
    export.content = Some(Content { starts_with_zeroes: true, ..Content::default() });
    assert_eq!(codes(&export), [RefusalCode::UnknownContent]);
}

/// A purge requires the name of the device or export even if the samples found it blank, because it also erases data
/// that they missed.
#[test]
fn a_device_or_an_export_is_purged_by_its_name_alone() {
    let disk = block(&partitioned(), "8:0");
    let mut export = inspect(&TargetName::Null { size_bytes: 4096 }).unwrap();
    export.kind = Kind::Nbd;
    export.name = TargetName::parse("nbd://localhost/disk").unwrap();
    for (target, name) in [(disk, "sda"), (export, "nbd://localhost/disk")] {
        for given in [vec![], vec!["disk".to_owned()]] {
            let refused = allow_purge(&target, Vec::new(), &Confirm(given));
            assert!(matches!(refused, Err(TargetError::Refused(_))), "{name}");
        }
        let lifted = allow_purge(&target, Vec::new(), &Confirm(vec![name.to_owned()])).unwrap();
        assert_eq!(lifted[0].code, RefusalCode::Purge);
    }
}

/// If a device holds data, the advice before a purge is to name the device, not to choose another one.
#[test]
fn a_purge_has_remedies_of_its_own() {
    let tree = partitioned();
    let mut disk = block(&tree, "8:0");
    let name = "ext4".to_owned();
    disk.content.as_mut().unwrap().signatures =
        vec![Signature { kind: SignatureKind::FileSystem, name, offset_bytes: 1024 }];
    let text = |result: Result<Vec<Refusal>, TargetError>| result.unwrap_err().to_string();
    let found = check_writable(&disk, &tree.root());
    let write = text(confirm(&disk, found.clone(), &Confirm::default()));
    assert!(write.contains("Choose a target that is empty."), "{write}");
    let purge = text(allow_purge(&disk, found, &Confirm::default()));
    assert!(!purge.contains("Choose") && !purge.contains("--read-only"), "{purge}");
    let said =
        "It holds a file system (ext4, found at byte 1024). The purge would erase this data.";
    assert!(purge.contains(said) && purge.contains("`--destroy sda`"), "{purge}");
}

/// A drive without a medium, zram without a size and an empty export: nothing could be written.
#[test]
fn targets_without_capacity_are_not_writable() {
    let tree = partitioned();
    let disk = Inspection { whole_bytes: Some(0), ..block(&tree, "8:0") };
    let export = Inspection { kind: Kind::Nbd, ..disk.clone() };
    for (target, remedy) in [(disk, "Insert a medium"), (export, "Have the server")] {
        let found = check_writable(&target, &tree.root());
        assert_eq!(found[0].code, RefusalCode::ReadOnly, "{found:?}");
        assert_eq!(found[0].found, "It has no capacity.");
        assert!(found[0].mend.starts_with(remedy), "{found:?}");
    }
}

/// A read beyond the end of a file would have to extend it first.
#[test]
fn a_file_that_would_have_to_grow() {
    let tree = Tree::new();
    let mut file = inspect(&TargetName::Null { size_bytes: 4096 }).unwrap();
    (file.kind, file.exists, file.whole_bytes) = (Kind::File, true, Some(16 << 20));
    file.content = Some(Content::default());
    let text = |size_bytes| {
        let file = Inspection { size_bytes: Some(size_bytes), ..file.clone() };
        check_writable(&file, &tree.root())[0].to_string()
    };
    let grown = text(4 << 30);
    let said =
        "The file has 16 MiB, and would have to grow to the requested 4 GiB. Leave the size out";
    assert!(grown.contains(said), "{grown}");
    assert!(!text(16 << 20).contains("grow"));
}
