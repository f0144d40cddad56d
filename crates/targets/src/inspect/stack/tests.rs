//! Stacks of simulated machines: the storage at the bottom of each, page caches above it, and the counted bytes.

use super::walk::Walk;
use super::{Counted, End, Stack};
use crate::inspect::fake::Tree;
use std::path::Path;

pub(super) const SDA: &str = "pci0000:00/0000:00:1f.2/ata1/host0/block/sda";
pub(super) const SDB: &str = "pci0000:00/0000:00:1f.2/ata2/host1/block/sdb";

/// A machine with two disks; the first is mounted as `/`.
pub(super) fn machine() -> Tree {
    let tree = Tree::new();
    for (place, dev) in [(SDA, "8:0"), (SDB, "8:16")] {
        tree.disk(place, dev, 1 << 20);
        tree.file(&format!("sys/devices/{place}/queue/rotational"), "0\n");
        moved(&tree, place, 1000, 1000);
    }
    tree.partition(&format!("{SDA}/sda1"), "8:1", 1);
    moved(&tree, &format!("{SDA}/sda1"), 600, 600);
    mounts(&tree, &[]);
    tree
}

/// Sets the counters of a device, in sectors.
fn moved(tree: &Tree, place: &str, read: u64, written: u64) {
    let (reads, writes) = (read.min(9), written.min(9));
    let text = format!("{reads} 0 {read} 0 {writes} 0 {written} 0 0 0 0 0 0 0 0 0 0\n");
    tree.file(&format!("sys/devices/{place}/stat"), text);
}

/// A mount: device number, mount point, type, source and options of the file system.
pub(super) type Line<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str);

/// Mounts `/` on sda1, plus `more`.
pub(super) fn mounts(tree: &Tree, more: &[Line<'_>]) {
    let first = ("8:1", "/", "ext4", "/dev/sda1", "rw");
    let all = std::iter::once(&first).chain(more).enumerate();
    let line = |(i, (dev, point, fs_type, source, options)): (usize, &Line<'_>)| {
        format!("{} 20 {dev} / {point} rw - {fs_type} {source} {options}\n", i + 20)
    };
    tree.file("proc/self/mountinfo", all.map(line).collect::<String>());
}

fn looped(tree: &Tree, number: u32, file: &str, dio: u32) {
    let place = format!("virtual/block/loop{number}");
    tree.disk(&place, &format!("7:{number}"), 1 << 20);
    tree.file(&format!("sys/devices/{place}/loop/backing_file"), format!("{file}\n"));
    tree.file(&format!("sys/devices/{place}/loop/dio"), format!("{dio}\n"));
}

pub(super) fn of(tree: &Tree, target: &str) -> Stack {
    Stack::recorded(&tree.root(), target)
}

/// Findings on a stack as text: the kind of storage, page caches above it, devices at the bottom, whether the machine's
/// other disks count too, and whether some bytes can't be counted.
fn findings(tree: &Tree, target: &str) -> String {
    let stack = of(tree, target);
    let end = serde_json::to_value(stack.end).unwrap();
    let mut words = vec![end.as_str().unwrap().to_owned()];
    words.extend(stack.lowest.iter().map(|lowest| lowest.name.clone()));
    if stack.anywhere {
        words.push("anywhere".to_owned());
    }
    if !stack.page_cache.is_empty() {
        words.push(format!("cached {}", stack.page_cache.len()));
    }
    if stack.uncounted {
        words.push("uncounted".to_owned());
    }
    words.join(" ")
}

/// A stack that may be misjudged: name, change to the machine's tree, target, expected findings.
type Trap = (&'static str, fn(&Tree), &'static str, &'static str);

/// Stacks that may be misjudged, as changes to a recorded tree, because a test machine's kernel may lack some of them.
/// A measurement is honest only if the findings contain `device` and not `cached`.
const TRAPS: &[Trap] = &[
    ("a disk", |_| {}, "sdb", "device sdb"),
    ("a partition counts for itself", |_| {}, "sda1", "device sda1"),
    ("a file on a disk", |_| {}, "/home/t", "device sda1"),
    ("tmpfs", |t| mounts(t, &[("0:30", "/tmp", "tmpfs", "tmpfs", "rw")]), "/tmp/t", "memory"),
    ("ramfs", |t| mounts(t, &[("0:30", "/r", "ramfs", "none", "rw")]), "/r/t", "memory"),
    ("a loop device with direct I/O", |t| looped(t, 0, "/img", 1), "loop0", "device sda1"),
    ("a loop device without", |t| looped(t, 0, "/img", 0), "loop0", "device sda1 cached 1"),
    ("a loop device on a device", |t| looped(t, 0, "/dev/sdb", 1), "loop0", "device sdb"),
    (
        "loop devices on each other",
        |t| {
            looped(t, 0, "/img", 0);
            looped(t, 1, "/dev/loop0", 1);
            looped(t, 2, "/dev/loop1", 0);
        },
        "loop2",
        "device sda1 cached 2",
    ),
    (
        "a loop device on tmpfs",
        |t| {
            mounts(t, &[("0:30", "/tmp", "tmpfs", "tmpfs", "rw")]);
            looped(t, 0, "/tmp/img", 1);
        },
        "loop0",
        "memory",
    ),
    ("a loop device whose file is gone", |t| looped(t, 0, "", 1), "loop0", "served anywhere"),
    (
        "a loop device below itself",
        |t| {
            looped(t, 0, "/dev/loop1", 1);
            looped(t, 1, "/dev/loop0", 1);
        },
        "loop0",
        "unknown",
    ),
    ("brd", |t| t.disk("virtual/block/ram0", "1:0", 8192), "ram0", "memory"),
    ("zram", |t| t.disk("virtual/block/zram0", "253:0", 8192), "zram0", "memory"),
    (
        "a file system on zram",
        |t| {
            t.disk("virtual/block/zram0", "253:0", 8192);
            mounts(t, &[("253:0", "/z", "ext4", "/dev/zram0", "rw")]);
        },
        "/z/t",
        "memory",
    ),
    ("null_blk", |t| t.disk("virtual/block/nullb0", "252:0", 8192), "nullb0", "memory"),
    (
        "scsi_debug",
        |t| {
            t.disk("pseudo_0/adapter0/host9/block/sdc", "8:32", 8192);
            t.file("sys/devices/pseudo_0/adapter0/host9/block/sdc/device/model", "scsi_debug\n");
        },
        "sdc",
        "memory",
    ),
    ("LVM on a disk", |t| mapped(t, "dm-0", "252:0", &[SDB]), "dm-0", "device sdb"),
    (
        "LVM on a RAM disk",
        |t| {
            t.disk("virtual/block/ram0", "1:0", 8192);
            mapped(t, "dm-0", "252:0", &["virtual/block/ram0"]);
        },
        "dm-0",
        "memory",
    ),
    ("dm-zero", |t| mapped(t, "dm-0", "252:0", &[]), "dm-0", "served anywhere"),
    ("a RAID set of disks", |t| raid(t, &[SDA, SDB]), "md0", "device sda sdb"),
    (
        "a RAID set with a member of memory",
        |t| {
            t.disk("virtual/block/ram0", "1:0", 8192);
            raid(t, &[SDB, "virtual/block/ram0"]);
        },
        "md0",
        "memory sdb",
    ),
    (
        "a RAID set of cached loop devices",
        |t| {
            looped(t, 0, "/a", 0);
            looped(t, 1, "/b", 0);
            raid(t, &["virtual/block/loop0", "virtual/block/loop1"]);
        },
        "md0",
        "device sda1 cached 2",
    ),
    (
        "btrfs on two devices",
        |t| {
            mounts(t, &[("0:40", "/b", "btrfs", "/dev/sda", "rw")]);
            let dir = "sys/fs/btrfs/0a/devices";
            t.file(&format!("{dir}/sda/dev"), "8:0\n");
            t.file(&format!("{dir}/sdb/dev"), "8:16\n");
        },
        "/b/t",
        "device sda sdb",
    ),
    (
        "ZFS, which has a cache of its own",
        |t| mounts(t, &[("0:40", "/z", "zfs", "pool/a", "rw")]),
        "/z/t",
        "served anywhere",
    ),
    (
        "overlay on tmpfs",
        |t| {
            let options = "rw,lowerdir=/l,upperdir=/up/u,workdir=/up/w";
            mounts(
                t,
                &[("0:30", "/up", "tmpfs", "t", "rw"), ("0:41", "/o", "overlay", "o", options)],
            );
            t.file("up/u/sub/t", "");
        },
        "/o/sub/t",
        "memory",
    ),
    (
        "overlay on tmpfs, a file of the layer below",
        |t| {
            let options = "rw,lowerdir=/l,upperdir=/up/u,workdir=/up/w";
            mounts(
                t,
                &[("0:30", "/up", "tmpfs", "t", "rw"), ("0:41", "/o", "overlay", "o", options)],
            );
            t.file("up/u/other", "");
            t.file("l/t", "");
        },
        "/o/t",
        "device sda1",
    ),
    (
        "a container's overlay, whose folders can't be seen from within",
        |t| mounts(t, &[("0:41", "/o", "overlay", "o", "rw,lowerdir=/x/l,upperdir=/x/u")]),
        "/o/t",
        "served anywhere",
    ),
    (
        "FUSE",
        |t| mounts(t, &[("0:42", "/f", "fuse.sshfs", "a:/", "rw")]),
        "/f/t",
        "served anywhere",
    ),
    (
        "NFS of another machine",
        |t| mounts(t, &[("0:43", "/n", "nfs4", "filer:/x", "rw,vers=4.2,addr=192.0.2.7")]),
        "/n/t",
        "remote",
    ),
    (
        "NFS of this machine",
        |t| mounts(t, &[("0:43", "/n", "nfs4", "localhost:/x", "rw,addr=127.0.0.1")]),
        "/n/t",
        "served anywhere",
    ),
    (
        "NFS of this machine by IPv6",
        |t| mounts(t, &[("0:43", "/n", "nfs", "[::1]:/x", "rw")]),
        "/n/t",
        "served anywhere",
    ),
    (
        "the hypervisor's files",
        |t| mounts(t, &[("0:44", "/h", "virtiofs", "tag", "rw")]),
        "/h/t",
        "remote",
    ),
    (
        "nbd of the kernel",
        |t| t.disk("virtual/block/nbd0", "43:0", 8192),
        "nbd0",
        "served anywhere",
    ),
    ("ublk", |t| t.disk("virtual/block/ublkb0", "259:9", 8192), "ublkb0", "served anywhere"),
    (
        "a target of the kernel's own, over a loopback",
        |t| {
            t.disk("pseudo_1/host8/block/sdd", "8:48", 8192);
            t.file("sys/devices/pseudo_1/host8/block/sdd/device/vendor", "LIO-ORG\n");
        },
        "sdd",
        "served anywhere",
    ),
    (
        "a target of another machine, over an adapter",
        |t| {
            let place = "pci0000:00/0000:00:03.0/host8/block/sdd";
            t.disk(place, "8:48", 8192);
            t.file(&format!("sys/devices/{place}/device/vendor"), "LIO-ORG\n");
        },
        "sdd",
        "device sdd",
    ),
    ("a head of NVMe paths", |t| head(t, "pcie"), "nvme0n1p1", "device nvme0n1p1"),
    (
        "a head of paths to the kernel's own NVMe target",
        |t| head(t, "loop"),
        "nvme0n1",
        "served anywhere",
    ),
    (
        "a cache of persistent memory above a disk",
        |t| {
            t.disk(PMEM, "259:20", 8192);
            mapped(t, "dm-0", "252:0", &[SDB, PMEM]);
        },
        "dm-0",
        "device sdb uncounted",
    ),
    (
        "a partition of persistent memory",
        |t| {
            t.disk(PMEM, "259:20", 8192);
            t.partition(&format!("{PMEM}/pmem0p1"), "259:21", 1);
        },
        "pmem0p1",
        "device uncounted",
    ),
    (
        "ext4 that journals its data",
        |t| mounts(t, &[("8:16", "/j", "ext4", "/dev/sdb", "rw,data=journal")]),
        "/j/t",
        "device sdb cached 1",
    ),
    (
        "overlay with a word for each layer",
        |t| {
            let options = "rw,lowerdir+=/l1,lowerdir+=/up/l\\0402,upperdir=/up/u,workdir=/up/w";
            mounts(
                t,
                &[("0:30", "/up", "tmpfs", "t", "rw"), ("0:41", "/o", "overlay", "o", options)],
            );
            t.file("l1/other", "");
            t.file("up/l 2/t", "");
        },
        "/o/t",
        "memory",
    ),
    (
        "overlay whose data have other names",
        |t| {
            mounts(t, &[("0:41", "/o", "overlay", "o", "rw,lowerdir+=/l1,datadir+=/l2")]);
            t.file("l1/t", "");
        },
        "/o/t",
        "served anywhere",
    ),
    (
        "a driver that is not known",
        |t| t.disk("virtual/block/magic0", "251:0", 8192),
        "magic0",
        "served anywhere",
    ),
];

const PMEM: &str = "LNXSYSTM:00/ACPI0012:00/ndbus0/region0/namespace0.0/block/pmem0";
const SUBSYSTEM: &str = "virtual/nvme-subsystem/nvme-subsys0";

/// Adds an NVMe namespace under native multipath, with a partition: the head, its controller, and the hidden path.
fn head(tree: &Tree, transport: &str) {
    let place = format!("{SUBSYSTEM}/nvme0n1");
    tree.disk(&place, "259:0", 8192);
    tree.partition(&format!("{place}/nvme0n1p1"), "259:1", 1);
    tree.file(&format!("sys/devices/{place}/device/nvme0/transport"), format!("{transport}\n"));
    let path = "pci0000:00/0000:00:04.0/nvme/nvme0/nvme0c0n1";
    tree.disk(path, "259:2", 8192);
    tree.file(&format!("sys/devices/{path}/hidden"), "1\n");
    moved(tree, path, 9000, 9000);
    moved(tree, &place, 0, 0);
    moved(tree, &format!("{place}/nvme0n1p1"), 0, 0);
}

pub(super) fn mapped(tree: &Tree, name: &str, dev: &str, members: &[&str]) {
    let place = format!("virtual/block/{name}");
    tree.disk(&place, dev, 8192);
    tree.file(&format!("sys/devices/{place}/dm/name"), "vg-lv\n");
    for member in members {
        tree.stack(&place, member);
    }
}

pub(super) fn raid(tree: &Tree, members: &[&str]) {
    tree.disk("virtual/block/md0", "9:0", 8192);
    tree.file("sys/devices/virtual/block/md0/md/level", "raid0\n");
    for member in members {
        tree.stack("virtual/block/md0", member);
    }
}

#[test]
fn every_stack_ends_in_what_stores_its_bytes() {
    for (name, change, target, expected) in TRAPS {
        let tree = machine();
        change(&tree);
        assert_eq!(findings(&tree, target), *expected, "{name}");
    }
}

/// Layers are listed in order, together with the disks that also count a device's I/O.
#[test]
fn layers_are_listed_from_the_top() {
    let tree = machine();
    looped(&tree, 0, "/img", 0);
    raid(&tree, &["virtual/block/loop0", SDB]);
    tree.partition("virtual/block/md0/md0p1", "259:1", 1);
    let stack = of(&tree, "md0p1");
    let names: Vec<&str> = stack.layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(names, ["md0p1", "md0 (raid0)", "loop0", "ext4 at /", "sda1", "sda", "sdb"]);
    for dev in ["259:1", "9:0", "7:0", "8:0", "8:1", "8:16"] {
        assert!(stack.passes(dev.parse().unwrap()), "{dev}");
    }
    assert!(!stack.passes("8:32".parse().unwrap()));
    assert!(stack.page_cache[0].contains("losetup --direct-io=on /dev/loop0"));
}

/// Bytes are summed over the devices at the bottom; for a server, over all disks and the network.
#[test]
fn bytes_are_counted_at_the_bottom() {
    let tree = machine();
    raid(&tree, &[SDA, SDB]);
    looped(&tree, 0, "/img", 1);
    tree.disk("virtual/block/nbd0", "43:0", 8192);
    tree.disk("virtual/block/zram0", "253:0", 8192);
    moved(&tree, "virtual/block/nbd0", 7777, 0);
    moved(&tree, "virtual/block/zram0", 7777, 0);
    let net = |bytes: u64| {
        let text = format!(
            "Inter-|   Receive\n face |bytes packets\n    lo: 999999 1 0 0 0 0 0 0 999999 1\n  eth0: {bytes} 1 0 0 0 0 0 0 {} 1\n",
            2 * bytes
        );
        tree.file("proc/self/net/dev", text);
    };
    net(0);
    let count = |target: &str| of(&tree, target).count(&tree.root());
    let sectors = |read: u64, written: u64| {
        Some(Counted { read_bytes: read * 512, written_bytes: written * 512 })
    };
    // Counters of the partition, not of its disk.
    let before = count("loop0").unwrap();
    assert_eq!(Some(before), sectors(600, 600));
    assert_eq!(count("md0"), sectors(2000, 2000));
    assert_eq!(count("nbd0"), sectors(2000, 2000), "its own counters are no device's");
    assert_eq!(count("zram0"), None);
    moved(&tree, &format!("{SDA}/sda1"), 700, 601);
    assert_eq!(count("loop0").map(|now| now.since(&before)), sectors(100, 1));
    net(512);
    assert_eq!(count("nbd0"), sectors(2001, 2002));
    // Bytes that a network adapter moves past the kernel are unknown.
    tree.file("sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    assert_eq!((count("nbd0"), count("md0")), (None, sectors(2000, 2000)));
    // Counters that are switched off show nothing.
    tree.file(&format!("sys/devices/{SDA}/queue/iostats"), "0\n");
    assert_eq!((count("loop0"), count("md0")), (None, None));
    // A disk whose counters are all zero can't be counted either.
    let tree = machine();
    tree.file(&format!("sys/devices/{SDB}/stat"), "0 0 0 0 0 0 0 0 0 0 0\n");
    assert_eq!(of(&tree, "sdb").count(&tree.root()), None);
}

/// The kernel counts all I/O of a multipath head on the head's disk. Before Linux 6.2, it did not count this I/O.
#[test]
fn a_multipath_head_is_counted_whole() {
    let tree = machine();
    head(&tree, "pcie");
    tree.disk("virtual/block/nbd0", "43:0", 8192);
    let count = |target: &str| of(&tree, target).count(&tree.root());
    let sectors = |n: u64| Some(Counted { read_bytes: n * 512, written_bytes: n * 512 });
    assert_eq!((count("nvme0n1p1"), count("nvme0n1"), count("nbd0")), (None, None, None));
    moved(&tree, &format!("{SUBSYSTEM}/nvme0n1"), 500, 500);
    assert_eq!(count("nvme0n1p1"), sectors(500));
    assert_eq!(count("nvme0n1"), sectors(500));
    // The path is hidden: its bytes belong to the head.
    assert_eq!(count("nbd0"), sectors(2500));
    // A partition with zero counters on a disk in use: either unused, or its driver counts only under the disk.
    moved(&tree, &format!("{SDA}/sda1"), 0, 0);
    assert_eq!((count("sda1"), count("sda")), (None, sectors(1000)));
    // A drive without a medium hides no bytes.
    tree.disk("pci0000:00/0000:00:1f.2/ata3/host2/block/sr0", "11:0", 8192);
    tree.file("sys/devices/pci0000:00/0000:00:1f.2/ata3/host2/block/sr0/removable", "1\n");
    moved(&tree, "pci0000:00/0000:00:1f.2/ata3/host2/block/sr0", 0, 0);
    assert_eq!(count("nbd0"), sectors(2500));
}

/// For a disk that the kernel's own SCSI or NVMe target serves, the bytes of all physical disks are counted. Counters
/// of served disks and of test devices are left out.
#[test]
fn served_disks_are_not_counted_on_themselves() {
    let tree = machine();
    let lio = "pseudo_1/host8/block/sdd";
    tree.disk(lio, "8:48", 8192);
    tree.file(&format!("sys/devices/{lio}/device/vendor"), "LIO-ORG\n");
    let test = "pseudo_0/adapter0/host9/block/sdc";
    tree.disk(test, "8:32", 8192);
    tree.file(&format!("sys/devices/{test}/device/model"), "scsi_debug\n");
    head(&tree, "loop");
    for place in [lio, test, &format!("{SUBSYSTEM}/nvme0n1")] {
        moved(&tree, place, 7777, 7777);
    }
    let disks = Some(Counted { read_bytes: 2000 * 512, written_bytes: 2000 * 512 });
    for target in ["sdd", "nvme0n1"] {
        assert_eq!(of(&tree, target).count(&tree.root()), disks, "{target}");
    }
}

/// A target that lies partly on an unknown device, or on one without counters, is not counted.
#[test]
fn stacks_that_are_known_in_part_are_not_counted() {
    let tree = machine();
    tree.disk(PMEM, "259:20", 8192);
    mapped(&tree, "dm-0", "252:0", &[SDB, PMEM]);
    assert_eq!(of(&tree, "dm-0").count(&tree.root()), None);
    // f2fs names only its first device; sdb has 512 MiB.
    mounts(&tree, &[("8:16", "/f", "f2fs", "/dev/sdb", "rw")]);
    let root = tree.root();
    for (total_mib, is_counted) in [(510, true), (1020, false)] {
        let mount = crate::inspect::mounts::mounts(&root).pop().unwrap();
        let mut fs = crate::inspect::file_system::of_mount(&root, mount);
        fs.total_bytes = Some(total_mib << 20);
        let mut walk = Walk::new(&root);
        walk.on(Path::new("/f/t"), &fs, 0);
        assert_eq!(walk.stack.count(&root).is_some(), is_counted, "{total_mib} MiB");
    }
}

/// A server that reports emulation is trusted; a server on this machine is counted; a remote one is unknown.
#[test]
fn servers_are_distinguished() {
    let tree = machine();
    for (uri, says, end) in [
        ("nbd+unix:///?socket=/run/s", "", End::Served),
        ("nbd://127.0.0.1:10809/a", "disk", End::Served),
        ("nbd://192.0.2.7/a", "", End::Remote),
        ("nbd+unix:///?socket=/run/s", "exflash in system, emulated by iodyno", End::Emulated),
    ] {
        let root = tree.root();
        let mut walk = Walk::new(&root);
        walk.server(&uri.parse().unwrap(), says);
        assert_eq!((walk.stack.end, walk.stack.anywhere), (end, end == End::Served), "{uri}");
    }
}
