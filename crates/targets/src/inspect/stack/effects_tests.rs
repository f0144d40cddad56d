//! Effects of layers in recorded trees.

use super::tests::{SDA, SDB, machine, mapped, mounts, of, raid};
use crate::inspect::fake::Tree;
use crate::inspect::topology::{self, BlockNode};

/// Findings as text: layers with drivers, and effects with amounts.
fn effects(tree: &Tree, target: &str) -> Vec<String> {
    let one = |of: super::LayerEffect| {
        let effect = serde_json::to_value(of.effect).unwrap();
        let amount = of.amount.map_or(String::new(), |amount| format!(" {amount}"));
        format!("{} {}: {}{amount}", of.layer, of.driver, effect.as_str().unwrap())
    };
    of(tree, target).effects.into_iter().map(one).collect()
}

/// A device-mapper device on sdb with this table and status, as `dmsetup` prints them.
fn table(tree: &Tree, table: &str, status: &str) {
    mapped(tree, "dm-0", "252:0", &[SDB]);
    tree.file("sys/devices/virtual/block/dm-0/dm/table", table);
    tree.file("sys/devices/virtual/block/dm-0/dm/status", status);
}

#[test]
fn device_mapper_targets_have_effects_by_type() {
    for (of_table, status, expected) in [
        ("0 8192 linear 8:16 0", "0 8192 linear", None),
        ("0 8192 striped 2 128 8:0 0 8:16 0", "0 8192 striped 2 8:0 8:16 1 AA", None),
        ("0 8192 delay 8:16 0 5", "0 8192 delay", Some("delay: delays 5 ms")),
        (
            "0 8192 delay 8:16 0 1 8:16 0 20",
            "0 8192 delay",
            Some("delay: delays 1 ms a read, 20 ms a write"),
        ),
        ("0 8192 delay 8:16 0 0", "0 8192 delay", None),
        ("0 8192 flakey 8:16 0 5 1 0", "0 8192 flakey", Some("flakey: fails for 1 s of every 6 s")),
        ("0 8192 flakey 8:16 0 5 0 0", "0 8192 flakey", None),
        ("0 8192 error", "0 8192 error", Some("error: fails")),
        ("0 8192 dust 8:16 0 512", "0 8192 dust 8:16 bypass quiet", None),
        (
            "0 8192 dust 8:16 0 512",
            "0 8192 dust 8:16 fail_read_on_bad_block quiet",
            Some("dust: fails"),
        ),
        (
            "0 8192 cache 8:0 8:1 8:16 128 1 writeback smq 0",
            "0 8192 cache 8 27/4096 128 0/64 1 2 3 4 0 0 0 1 writeback 2 migration_threshold 2048 smq 0 rw -",
            Some("cache: caches"),
        ),
        (
            "0 8192 cache 8:0 8:1 8:16 128 1 passthrough smq 0",
            "0 8192 cache 8 27/4096 128 0/64 1 2 3 4 0 0 0 1 passthrough 2 migration_threshold 2048 smq 0 rw -",
            None,
        ),
        (
            "0 8192 writecache s 8:16 8:0 4096 0",
            "0 8192 writecache 0 100 100 0",
            Some("writecache: caches_writes"),
        ),
        ("0 8192 thin 252:3 1", "0 8192 thin 1024 2047", Some("thin: allocates")),
        (
            "0 8192 crypt aes-xts-plain64 :64:logon:x 0 8:16 0",
            "0 8192 crypt",
            Some("crypt: encrypts"),
        ),
        (
            "0 8192 snapshot 8:16 8:0 P 8",
            "0 8192 snapshot 16/8192 16",
            Some("snapshot: copies_on_write"),
        ),
        (
            "0 8192 snapshot-origin 8:16",
            "0 8192 snapshot-origin",
            Some("snapshot-origin: copies_on_write"),
        ),
        ("0 8192 log-writes 8:16 8:0", "0 8192 log-writes 0", Some("log-writes: records_writes")),
        (
            "0 8192 verity 1 8:16 8:0 4096 4096 1 1 sha256 a b",
            "0 8192 verity V",
            Some("verity: verifies"),
        ),
        (
            "0 8192 raid raid1 3 0 region_size 1024 2 8:0 8:16 8:1 8:2",
            "0 8192 raid raid1 2 AA 8192/8192 idle 0 0 -",
            None,
        ),
        (
            "0 8192 raid raid1 3 0 region_size 1024 2 8:0 8:16 8:1 8:2",
            "0 8192 raid raid1 2 AD 8192/8192 idle 0 0 -",
            Some("raid: degraded 1 of 2 members"),
        ),
        (
            "0 8192 raid raid5_ls 3 128 region_size 1024 3 8:0 8:16 8:1 8:2 8:3 8:4",
            "0 8192 raid raid5_ls 3 aaa 100/8192 resync 0 0 -",
            Some("raid: resyncs resync"),
        ),
        (
            "0 8192 mirror core 1 1024 2 8:0 0 8:16 0",
            "0 8192 mirror 2 8:0 8:16 8/8 1 AD 1 core",
            Some("mirror: degraded 1 of 2 members"),
        ),
        (
            "0 8192 mirror core 1 1024 2 8:0 0 8:16 0",
            "0 8192 mirror 2 8:0 8:16 8/8 1 AA 1 core",
            None,
        ),
        ("0 8192 novel 8:16 0", "0 8192 novel", None),
        ("0 8192 delay", "", Some("delay: delays")),
        ("0 8192 mirror", "0 8192 mirror 99999999999999999999", None),
        ("0 8192 raid", "0 8192 raid raid1", None),
    ] {
        let tree = machine();
        table(&tree, of_table, status);
        let expected: Vec<String> = expected.iter().map(|text| format!("dm-0 {text}")).collect();
        assert_eq!(effects(&tree, "dm-0"), expected, "{of_table}");
        let name = of(&tree, "dm-0").layers[0].name.clone();
        let driver = of_table.split(' ').nth(2).unwrap();
        assert_eq!(name, format!("dm-0 (vg-lv: {driver})"));
    }
}

/// Without the driver's answer, uuids give the type: cryptsetup's, and those of LVM's hidden devices.
#[test]
fn uuids_tell_the_kind_where_tables_are_not_shown() {
    for (own, below, expected) in [
        ("CRYPT-LUKS2-0123456789abcdef0123456789abcdef-home", "", Some("crypt: encrypts")),
        ("CRYPT-VERITY-01-root", "", Some("verity: verifies")),
        ("LVM-aaaa", "LVM-bbbb-tpool", Some("thin: allocates")),
        ("LVM-aaaa-pool", "LVM-bbbb-tpool", None),
        ("LVM-aaaa", "LVM-bbbb-cpool", Some("cache: caches")),
        ("LVM-aaaa", "LVM-bbbb-cow", Some("snapshot: copies_on_write")),
        ("LVM-aaaa", "LVM-bbbb-real", Some("snapshot-origin: copies_on_write")),
        ("LVM-aaaa", "", None),
        ("mpath-3600", "", None),
    ] {
        let tree = machine();
        mapped(&tree, "dm-1", "252:1", &[SDB]);
        mapped(&tree, "dm-0", "252:0", &["virtual/block/dm-1"]);
        tree.file("sys/devices/virtual/block/dm-0/dm/uuid", own);
        tree.file("sys/devices/virtual/block/dm-1/dm/uuid", below);
        let expected: Vec<String> = expected.iter().map(|text| format!("dm-0 {text}")).collect();
        assert_eq!(effects(&tree, "dm-0"), expected, "{own} on {below}");
    }
}

/// A failed member takes no I/O, so it is not among the devices at the bottom.
#[test]
fn a_failed_member_is_named_and_not_listed() {
    let tree = machine();
    raid(&tree, &[SDA, SDB]);
    let set = |file: &str, text: &str| {
        tree.file(&format!("sys/devices/virtual/block/md0/md/{file}"), text);
    };
    for (file, text) in [("level", "raid1"), ("degraded", "0"), ("raid_disks", "2")] {
        set(file, text);
    }
    for member in ["sda", "sdb"] {
        set(&format!("dev-{member}/state"), "in_sync");
        set(&format!("dev-{member}/slot"), "0");
    }
    let bottom = || -> Vec<String> {
        of(&tree, "md0").lowest.into_iter().map(|lowest| lowest.name).collect()
    };
    let physical = || -> Vec<String> {
        let node = BlockNode::by_name(&tree.root(), "md0").unwrap();
        topology::physical(&tree.root(), &node).into_iter().map(|node| node.name).collect()
    };
    assert_eq!((effects(&tree, "md0"), bottom()), (vec![], vec!["sda".into(), "sdb".into()]));
    set("degraded", "1");
    set("dev-sdb/state", "faulty");
    set("dev-sdb/slot", "none");
    assert_eq!(effects(&tree, "md0"), ["md0 raid1: degraded 1 of 2 members"]);
    assert_eq!((bottom(), physical()), (vec!["sda".into()], vec!["sda".into()]));
    // A member that is being rebuilt has a slot.
    set("dev-sdb/state", "spare");
    set("dev-sdb/slot", "1");
    assert_eq!(bottom(), ["sda", "sdb"]);
    set("journal_mode", "write-through [write-back]");
    assert_eq!(effects(&tree, "md0").len(), 2);
}

#[test]
fn caches_of_bcache_answer_while_attached() {
    for (state, mode, count) in [
        ("clean", "writethrough [writeback] writearound none", 1),
        ("clean", "writethrough writeback writearound [none]", 0),
        ("no cache", "[writethrough] writeback writearound none", 0),
    ] {
        let tree = machine();
        let place = "virtual/block/bcache0";
        tree.disk(place, "251:0", 8192);
        tree.stack(place, SDB);
        tree.file(&format!("sys/devices/{place}/bcache/state"), state);
        tree.file(&format!("sys/devices/{place}/bcache/cache_mode"), mode);
        assert_eq!(effects(&tree, "bcache0").len(), count, "{state}, {mode}");
    }
}

/// Since Linux 6.15 direct writes to btrfs files with checksums pass through the page cache.
#[test]
fn btrfs_buffers_writes_of_files_with_checksums() {
    for (release, options, buffers) in [
        ("6.15.0-rc2", "rw,space_cache=v2", true),
        ("7.0", "rw", true),
        ("6.14.11", "rw", false),
        ("6.18.44-fc", "rw,nodatasum", false),
        ("6.18.44-fc", "rw,nodatasum,nodatacow", false),
    ] {
        let tree = machine();
        tree.file("proc/sys/kernel/osrelease", release);
        mounts(&tree, &[("8:16", "/b", "btrfs", "/dev/sdb", options)]);
        let expected: &[&str] = if buffers { &["btrfs at /b btrfs: buffers_writes"] } else { &[] };
        assert_eq!(effects(&tree, "/b/t"), expected, "{release} {options}");
    }
}
