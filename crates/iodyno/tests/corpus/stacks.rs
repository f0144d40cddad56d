//! Stacks as recorded trees of `/proc` and `/sys`. A cell of reads and writes runs on each: all of its bytes reach
//! the devices, or none if memory answers and only the byte count can tell.

use crate::{Found, SetUp, cells, judged};
use iodyno_measure::Reached;
use iodyno_run::storage_of;
use iodyno_targets::{Stack, SysRoot};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tempfile::TempDir;

/// A machine with two disks, sda and sdb, and a partition sda1 that is mounted as `/`.
pub(crate) struct Tree(TempDir);

const DISKS: &str = "pci0000:00/0000:00:1f.2/ata1/host0/block";

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (name, dev) in [("sda", "8:0"), ("sdb", "8:16")] {
            tree.device(&format!("{DISKS}/{name}"), dev);
        }
        tree.device(&format!("{DISKS}/sda/sda1"), "8:1");
        tree.file(&format!("sys/devices/{DISKS}/sda/sda1/partition"), "1");
        tree.file("proc/sys/kernel/osrelease", "6.18.1");
        tree.mounted("", "");
        tree
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, to: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.path(to), path).unwrap();
    }

    /// Adds a block device with the number `dev` below `/sys/devices`.
    fn device(&self, place: &str, dev: &str) {
        let dir = format!("sys/devices/{place}");
        for (file, text) in [("dev", dev), ("size", "8192"), ("queue/rotational", "0")] {
            self.file(&format!("{dir}/{file}"), text);
        }
        let name = place.rsplit('/').next().unwrap();
        self.link(&format!("sys/class/block/{name}"), &dir);
        self.link(&format!("sys/dev/block/{dev}"), &dir);
    }

    fn virtual_device(&self, name: &str, dev: &str) {
        self.device(&format!("virtual/block/{name}"), dev);
    }

    /// Adds a virtual device on top of other devices.
    fn on(&self, name: &str, dev: &str, below: &[&str]) {
        self.virtual_device(name, dev);
        for lower in below {
            let to = fs::canonicalize(self.path(&format!("sys/class/block/{lower}"))).unwrap();
            let at = self.path(&format!("sys/devices/virtual/block/{name}/slaves/{lower}"));
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            symlink(to, at).unwrap();
        }
    }

    fn attr(&self, name: &str, file: &str, text: &str) {
        self.file(&format!("sys/devices/virtual/block/{name}/{file}"), text);
    }

    fn looped(&self, number: u32, file: &str, direct: u32) {
        let name = format!("loop{number}");
        self.virtual_device(&name, &format!("7:{number}"));
        self.attr(&name, "loop/backing_file", file);
        self.attr(&name, "loop/dio", &direct.to_string());
    }

    /// Sets the mounts: `/`, and `/m` on the device `dev` unless it is empty. `what`: `TYPE SOURCE OPTIONS`.
    fn mounted(&self, dev: &str, what: &str) {
        let root = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
        let more =
            if dev.is_empty() { String::new() } else { format!("21 20 {dev} / /m rw - {what}\n") };
        self.file("proc/self/mountinfo", &format!("{root}{more}"));
    }

    /// Adds dm-0 on both disks, with a table and a status as `dmsetup` prints them.
    fn mapped(&self, table: &str, status: &str) {
        self.on("dm-0", "252:0", &["sda", "sdb"]);
        self.attr("dm-0", "dm/name", "vg-lv");
        self.attr("dm-0", "dm/table", &format!("0 8192 {table}"));
        self.attr("dm-0", "dm/status", &format!("0 8192 {status}"));
    }

    /// Adds the array md0 on the devices `below`, with more files in its folder `md`.
    fn raid(&self, level: &str, below: &[&str], files: &[(&str, &str)]) {
        self.on("md0", "9:0", below);
        self.attr("md0", "md/level", level);
        for (file, text) in files {
            self.attr("md0", &format!("md/{file}"), text);
        }
    }
}

/// Verdicts of a cell on this stack. `by_count`: none of the cell's bytes reached a device.
fn verdicts(tree: &Tree, target: &str, by_count: bool) -> Found {
    let stack = Stack::recorded(&SysRoot::at(tree.0.path()), target);
    let mut cell = cells::of_reads_and_writes();
    let total = cell.total();
    let bytes = total.bytes() / 2;
    let device_bytes = if by_count { 0 } else { bytes };
    let mut storage = storage_of(&stack);
    storage.reached = Some(Reached {
        issued_read_bytes: bytes,
        device_read_bytes: device_bytes,
        issued_written_bytes: bytes,
        device_written_bytes: device_bytes,
    });
    cell.evidence.storage = Some(storage);
    judged(&cell)
}

/// Name of the set-up, change to the tree, target, and expected verdict. `+` before the target: none of the bytes reach
/// a device.
type Recorded = (&'static str, fn(&Tree), &'static str, Option<&'static str>);

pub(crate) fn all() -> Vec<SetUp> {
    let all = MEMORY.iter().chain(LAYERS).chain(HONEST);
    let of = |&(name, change, target, expected): &Recorded| {
        SetUp::new(name, expected, move || {
            let tree = Tree::new();
            change(&tree);
            let by_count = target.starts_with('+');
            Some(verdicts(&tree, target.trim_start_matches('+'), by_count))
        })
    };
    all.map(of).collect()
}

/// Stacks in which memory serves the I/O of a device.
const MEMORY: &[Recorded] = &[
    ("ramfs", |t| t.mounted("0:30", "ramfs none rw"), "/m/t", Some("MEMORY")),
    ("a loop device without direct I/O", |t| t.looped(0, "/img", 0), "loop0", Some("PAGE_CACHE")),
    (
        "a direct loop device on a cached one",
        |t| {
            t.looped(0, "/img", 0);
            t.looped(1, "/dev/loop0", 1);
        },
        "loop1",
        Some("PAGE_CACHE"),
    ),
    (
        "a loop device on tmpfs",
        |t| {
            t.mounted("0:30", "tmpfs tmpfs rw");
            t.looped(0, "/m/img", 1);
        },
        "loop0",
        Some("MEMORY"),
    ),
    ("brd", |t| t.virtual_device("ram0", "1:0"), "ram0", Some("MEMORY")),
    ("zram", |t| t.virtual_device("zram0", "253:0"), "zram0", Some("MEMORY")),
    ("null_blk", |t| t.virtual_device("nullb0", "251:0"), "nullb0", Some("MEMORY")),
    (
        "scsi_debug",
        |t| {
            t.device("pseudo_0/adapter0/host9/block/sdc", "8:32");
            t.file("sys/devices/pseudo_0/adapter0/host9/block/sdc/device/model", "scsi_debug");
        },
        "sdc",
        Some("MEMORY"),
    ),
    (
        "LVM on a RAM disk",
        |t| {
            t.virtual_device("ram0", "1:0");
            t.on("dm-0", "252:0", &["ram0"]);
        },
        "dm-0",
        Some("MEMORY"),
    ),
    (
        "a RAID set with a member of memory",
        |t| {
            t.virtual_device("ram0", "1:0");
            t.raid("raid0", &["sda", "ram0"], &[]);
        },
        "md0",
        Some("MEMORY"),
    ),
    (
        "a RAID set of cached loop devices",
        |t| {
            t.looped(0, "/a", 0);
            t.looped(1, "/b", 0);
            t.raid("raid0", &["loop0", "loop1"], &[]);
        },
        "md0",
        Some("PAGE_CACHE"),
    ),
    (
        "overlay on tmpfs",
        |t| {
            let mounts = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 0:30 / /up rw - tmpfs t rw\n\
                22 20 0:41 / /o rw - overlay o rw,lowerdir=/l,upperdir=/up/u,workdir=/up/w\n";
            t.file("proc/self/mountinfo", mounts);
            t.file("up/u/t", "");
        },
        "/o/t",
        Some("MEMORY"),
    ),
    (
        "ext4 that journals its data",
        |t| t.mounted("8:16", "ext4 /dev/sdb rw,data=journal"),
        "/m/t",
        Some("PAGE_CACHE"),
    ),
    (
        "nbd of the kernel to a server with a page cache",
        |t| t.virtual_device("nbd0", "43:0"),
        "+nbd0",
        Some("PAGE_CACHE"),
    ),
    (
        "FUSE with a server that caches",
        |t| t.mounted("0:42", "fuse.sshfs a:/ rw"),
        "+/m/t",
        Some("PAGE_CACHE"),
    ),
    (
        "NFS of this machine",
        |t| t.mounted("0:43", "nfs4 localhost:/x rw,addr=127.0.0.1"),
        "+/m/t",
        Some("PAGE_CACHE"),
    ),
    ("ZFS and its cache", |t| t.mounted("0:40", "zfs pool/a rw"), "+/m/t", Some("PAGE_CACHE")),
    ("dm-zero", |t| t.virtual_device("dm-3", "252:3"), "+dm-3", Some("PAGE_CACHE")),
    (
        "a file system that compresses what is written",
        |t| t.mounted("8:16", "btrfs /dev/sdb rw,nodatacow,compress=zstd"),
        "+/m/t",
        Some("PAGE_CACHE"),
    ),
];

/// Stacks with a layer that changes the figures.
const LAYERS: &[Recorded] = &[
    ("dm-delay", |t| t.mapped("delay 8:16 0 5", "delay"), "dm-0", Some("LAYER")),
    ("dm-flakey", |t| t.mapped("flakey 8:16 0 5 1 0", "flakey"), "dm-0", Some("LAYER")),
    (
        "dm-dust with bad blocks",
        |t| t.mapped("dust 8:16 0 512", "dust 8:16 fail_read_on_bad_block quiet"),
        "dm-0",
        Some("LAYER"),
    ),
    (
        "dm-cache",
        |t| {
            t.mapped(
                "cache 8:0 8:1 8:16 128 1 writeback smq 0",
                "cache 8 27/4096 128 0/64 1 2 3 4 0 0 0 1 writeback 0 smq 0 rw -",
            );
        },
        "dm-0",
        Some("LAYER"),
    ),
    (
        "dm-writecache",
        |t| t.mapped("writecache s 8:16 8:0 4096 0", "writecache 0 100 100 0"),
        "dm-0",
        Some("LAYER"),
    ),
    (
        "an LVM volume with a snapshot",
        |t| t.mapped("snapshot-origin 8:16", "snapshot-origin"),
        "dm-0",
        Some("LAYER"),
    ),
    ("dm-log-writes", |t| t.mapped("log-writes 8:16 8:0", "log-writes 0"), "dm-0", Some("LAYER")),
    (
        "dm-clone that still copies",
        |t| t.mapped("clone 8:0 8:1 8:16 8", "clone 8 3/4096 8 1/1024 0 0 0 rw"),
        "dm-0",
        Some("LAYER"),
    ),
    (
        "bcache",
        |t| {
            t.on("bcache0", "254:0", &["sda", "sdb"]);
            t.attr("bcache0", "bcache/state", "clean");
            t.attr("bcache0", "bcache/cache_mode", "writethrough [writeback] writearound none");
        },
        "bcache0",
        Some("LAYER"),
    ),
    (
        "RAID 5 with a write-back journal",
        |t| {
            let mode = ("journal_mode", "write-through [write-back]");
            t.raid("raid5", &["sda", "sdb"], &[("degraded", "0"), mode]);
        },
        "md0",
        Some("LAYER"),
    ),
    (
        "RAID 1 with a failed member",
        |t| {
            let failed = [("degraded", "1"), ("raid_disks", "2"), ("dev-sdb/state", "faulty")];
            t.raid("raid1", &["sda", "sdb"], &failed);
        },
        "md0",
        Some("RAID_DEGRADED"),
    ),
    (
        "dm-raid with a failed member",
        |t| t.mapped("raid raid1 2 0 8:0 8:16", "raid raid1 2 AD 8192/8192 idle 0 0 -"),
        "dm-0",
        Some("RAID_DEGRADED"),
    ),
    (
        "dm-raid that is synchronised",
        |t| t.mapped("raid raid5_ls 3 128 8:0", "raid raid5_ls 3 aaa 100/8192 resync 0 0 -"),
        "dm-0",
        Some("LAYER"),
    ),
    (
        "btrfs with checksums",
        |t| t.mounted("8:16", "btrfs /dev/sdb rw"),
        "/m/t",
        Some("CHECKSUMMED"),
    ),
];

const HONEST: &[Recorded] = &[
    ("a disk", |_| {}, "sdb", None),
    ("a partition", |_| {}, "sda1", None),
    ("a file on ext4", |_| {}, "/home/t", None),
    ("a file on XFS", |t| t.mounted("8:16", "xfs /dev/sdb rw"), "/m/t", None),
    ("btrfs NOCOW", |t| t.mounted("8:16", "btrfs /dev/sdb rw,nodatacow"), "/m/t", None),
    ("a loop device with direct I/O", |t| t.looped(0, "/img", 1), "loop0", None),
    ("a direct loop device on a disk", |t| t.looped(0, "/dev/sdb", 1), "loop0", None),
    ("dm-linear", |t| t.mapped("linear 8:16 0", "linear"), "dm-0", None),
    ("dm-striped", |t| t.mapped("striped 2 128 8:0 0 8:16 0", "striped 2 8:0"), "dm-0", None),
    ("LUKS", |t| t.mapped("crypt aes-xts-plain64 :64:k 0 8:16 0", "crypt"), "dm-0", None),
    ("LVM thin", |t| t.mapped("thin 252:3 1", "thin 1024 2047"), "dm-0", None),
    ("multipath", |t| t.mapped("multipath 0 0 1 1", "multipath 2 0 0 0 1 1 A"), "dm-0", None),
    ("dm-integrity", |t| t.mapped("integrity 8:16 0 32 J 0", "integrity 0 1 -"), "dm-0", None),
    ("dm-delay of 0 ms", |t| t.mapped("delay 8:16 0 0", "delay"), "dm-0", None),
    ("dm-flakey that is never down", |t| t.mapped("flakey 8:16 0 5 0", "flakey"), "dm-0", None),
    (
        "dm-raid, healthy",
        |t| t.mapped("raid raid1 2 0 8:0 8:16", "raid raid1 2 AA 8192/8192 idle 0 0 -"),
        "dm-0",
        None,
    ),
    ("RAID 0", |t| t.raid("raid0", &["sda", "sdb"], &[]), "md0", None),
    ("RAID 1, healthy", |t| t.raid("raid1", &["sda", "sdb"], &[("degraded", "0")]), "md0", None),
    (
        "RAID 5 with a spare",
        |t| {
            let spare = [("degraded", "0"), ("dev-sdb/state", "spare"), ("dev-sdb/slot", "none")];
            t.raid("raid5", &["sda", "sdb"], &spare);
        },
        "md0",
        None,
    ),
    (
        "bcache without a cache",
        |t| {
            t.on("bcache0", "254:0", &["sdb"]);
            t.attr("bcache0", "bcache/state", "no cache");
        },
        "bcache0",
        None,
    ),
    (
        "overlay on a disk",
        |t| {
            t.mounted("0:41", "overlay o rw,lowerdir=/l,upperdir=/u,workdir=/w");
            t.file("u/t", "");
        },
        "/m/t",
        None,
    ),
    ("nbd of the kernel to a direct server", |t| t.virtual_device("nbd0", "43:0"), "nbd0", None),
    ("FUSE with a direct server", |t| t.mounted("0:42", "fuse.x a rw"), "/m/t", None),
    (
        "NFS of another machine",
        |t| t.mounted("0:43", "nfs4 filer:/x rw,addr=192.0.2.7"),
        "/m/t",
        None,
    ),
    ("the hypervisor's files", |t| t.mounted("0:44", "virtiofs tag rw"), "/m/t", None),
];
