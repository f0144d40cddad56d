//! Facts of simulated machines, and properties of every machine.

use super::fake::Tree;
use super::*;

const NVME: &str = "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";

fn nvme() -> Tree {
    let tree = Tree::new();
    tree.disk(NVME, "259:0", 2048);
    tree.partition(&format!("{NVME}/nvme0n1p1"), "259:1", 1);
    let controller = "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0";
    for (file, text) in [
        ("model", "Fast SSD 3000     \n"),
        ("serial", "S4EVNX0R\0\0\n"),
        ("firmware_rev", "3B2Q\n"),
        ("numa_node", "1\n"),
        ("hwmon0/temp1_input", "41850\n"),
        ("hwmon0/temp2_input", "52100\n"),
        ("hwmon0/temp1_max", "81850\n"),
    ] {
        tree.file(&format!("{controller}/{file}"), text);
    }
    std::os::unix::fs::symlink(
        tree.path(controller),
        tree.path(&format!("sys/devices/{NVME}/device")),
    )
    .unwrap();
    for (file, text) in [
        ("current_link_speed", "8.0 GT/s PCIe\n"),
        ("max_link_speed", "16.0 GT/s PCIe\n"),
        ("current_link_width", "4\n"),
        ("max_link_width", "4\n"),
    ] {
        tree.file(&format!("sys/devices/pci0000:00/0000:01:00.0/{file}"), text);
    }
    for (file, text) in [
        ("rotational", "0\n"),
        ("scheduler", "[none] mq-deadline kyber\n"),
        ("nr_requests", "1023\n"),
        ("read_ahead_kb", "128\n"),
        ("max_sectors_kb", "512\n"),
        ("nomerges", "0\n"),
        ("write_cache", "write back\n"),
        ("logical_block_size", "512\n"),
        ("physical_block_size", "4096\n"),
        ("optimal_io_size", "0\n"),
        ("dma_alignment", "3\n"),
        ("discard_max_bytes", "2199023255040\n"),
        ("write_zeroes_max_bytes", "0\n"),
        ("zoned", "none\n"),
        ("dax", "0\n"),
    ] {
        tree.file(&format!("sys/devices/{NVME}/queue/{file}"), text);
    }
    tree.file(&format!("sys/devices/{NVME}/stat"), "10 1 80 5 20 2 160 7 0 9 12 3 0 24 1 4 2\n");
    tree.file(&format!("sys/devices/{NVME}/inflight"), "       2        5\n");
    tree
}

#[test]
fn an_nvme_drive_is_read_whole() {
    let tree = nvme();
    let device = BlockDevice::read(&tree.root(), "259:0".parse().unwrap()).unwrap();
    assert_eq!(device.kernel_name, "nvme0n1");
    assert_eq!(device.size_bytes, Some(1 << 20));
    assert_eq!(device.transport.as_deref(), Some("nvme"));
    assert_eq!(device.model.as_deref(), Some("Fast SSD 3000"));
    assert_eq!(device.serial.as_deref(), Some("S4EVNX0R"));
    assert_eq!(device.firmware.as_deref(), Some("3B2Q"));
    assert_eq!(device.numa_node, Some(1));
    assert_eq!(device.scheduler.as_deref(), Some("none"));
    assert_eq!(device.write_cache.as_deref(), Some("write back"));
    assert_eq!(device.io_optimal_bytes, None);
    assert_eq!(device.dma_alignment_bytes, Some(4));
    assert_eq!(device.discard, Some(true));
    assert_eq!(device.write_zeroes_offload, Some(false));
    assert_eq!(device.vendor, None);
    // The hottest sensor, not a limit.
    assert_eq!(device.temperature_c, Some(52.1));
    let pcie = device.pcie.as_ref().unwrap();
    assert_eq!(pcie.address, "0000:01:00.0");
    assert!(pcie.is_below_capability());
    assert_eq!(device.partitions, ["nvme0n1p1"]);

    // A partition has its own size and its disk's queue.
    let partition = BlockDevice::read(&tree.root(), "259:1".parse().unwrap()).unwrap();
    assert_eq!(partition.partition_of.as_deref(), Some("nvme0n1"));
    assert_eq!(partition.size_bytes, Some(4096 * 512));
    assert_eq!(partition.nr_requests, Some(1023));
    assert_eq!(partition.model, device.model);
}

/// Identities differ between devices; a device whose name holds only for this boot has none.
#[test]
fn lasting_properties_identify_a_device() {
    let tree = nvme();
    let attr = |place: &str, name: &str, text: &str| {
        tree.file(&format!("sys/devices/{place}/{name}"), format!("{text}\n"));
    };
    attr(NVME, "wwid", "eui.0025385b71b0a5f4");
    attr(&format!("{NVME}/nvme0n1p1"), "start", "2048");
    tree.partition(&format!("{NVME}/nvme0n1p2"), "259:2", 2);
    attr(&format!("{NVME}/nvme0n1p2"), "start", "6144");
    tree.file("srv/img", "");
    let looped = |name: &str, dev: &str, file: &str, offset: &str, limit: &str| {
        let place = format!("virtual/block/{name}");
        tree.disk(&place, dev, 8192);
        for (attribute, text) in [("backing_file", file), ("offset", offset), ("sizelimit", limit)]
        {
            attr(&place, &format!("loop/{attribute}"), text);
        }
    };
    looped("loop0", "7:0", "/srv/img", "0", "0");
    looped("loop1", "7:1", "/srv/img", "1048576", "0");
    looped("loop2", "7:2", "/srv/img", "0", "4096");
    looped("loop3", "7:3", "/dev/nvme0n1p2", "0", "0");
    looped("loop4", "7:4", "/srv/gone (deleted)", "0", "0");
    looped("loop5", "7:5", "/dev/sdz", "0", "0");
    tree.partition("virtual/block/loop0/loop0p1", "259:8", 1);
    attr("virtual/block/loop0/loop0p1", "start", "2048");
    for (name, dev, attribute, text) in [
        ("dm-0", "252:0", "dm/uuid", "LVM-GtZ1Oq"),
        ("dm-1", "252:1", "dm/uuid", "CRYPT-LUKS2-0123456789abcdef0123456789abcdef-a"),
        ("dm-2", "252:2", "dm/uuid", "CRYPT-PLAIN-a"),
        ("dm-3", "252:3", "dm/name", "a"),
        ("md0", "9:0", "md/uuid", "1e7a5c9e-0b9f-4f9c-9f0e-2d0f3b1c7a55"),
        ("md1", "9:1", "md/uuid", "00000000-0000-0000-0000-000000000000"),
        ("sdz", "65:144", "size", "8192"),
        ("sdy", "65:128", "serial", "0000000000"),
    ] {
        tree.disk(&format!("virtual/block/{name}"), dev, 8192);
        attr(&format!("virtual/block/{name}"), attribute, text);
    }
    let id = |dev: &str| BlockDevice::read(&tree.root(), dev.parse().unwrap()).unwrap().lasting_id;
    let with =
        ["259:0", "259:1", "259:2", "7:0", "7:1", "7:2", "7:3", "259:8", "252:0", "252:1", "9:0"];
    let known: Vec<String> =
        with.iter().map(|dev| id(dev).unwrap_or_else(|| panic!("{dev} has none"))).collect();
    let different: std::collections::BTreeSet<&String> = known.iter().collect();
    assert_eq!(different.len(), with.len(), "{known:#?}");
    assert_eq!(known[0], "eui.0025385b71b0a5f4");
    assert_eq!(known[2], "eui.0025385b71b0a5f4 partition 2 from sector 6144");
    assert_eq!(known[6], format!("loop at 0 limit 0 on {}", known[2]));
    assert_eq!(known[8], "dm LVM-GtZ1Oq");
    for dev in ["7:4", "7:5", "252:2", "252:3", "9:1", "65:144", "65:128"] {
        assert_eq!(id(dev), None, "{dev}");
    }
    // Another file of the same name is another device.
    std::fs::rename(tree.path("srv/img"), tree.path("srv/old")).unwrap();
    tree.file("srv/img", "");
    assert_ne!(id("7:0").as_ref(), Some(&known[3]));
}

#[test]
fn counters_show_the_io_of_others() {
    let tree = nvme();
    let dev = "259:0".parse().unwrap();
    let before = DiskStats::read(&tree.root(), dev).unwrap();
    assert_eq!(
        before,
        DiskStats {
            reads: 10,
            read_merges: 1,
            read_bytes: 80 * 512,
            read_ms: 5,
            writes: 20,
            write_merges: 2,
            written_bytes: 160 * 512,
            write_ms: 7,
            busy_ms: 9,
            queue_ms: 12,
            discards: 3,
            discarded_bytes: 24 * 512,
            flushes: 4,
            reads_in_flight: 2,
            writes_in_flight: 5,
        }
    );
    tree.file(&format!("sys/devices/{NVME}/inflight"), "0 0\n");
    let quiet = DiskStats::read(&tree.root(), dev).unwrap();
    assert!(quiet.since(&before).is_idle());
    // One flush by another program is enough.
    tree.file(&format!("sys/devices/{NVME}/stat"), "10 1 80 5 20 2 160 7 0 9 12 3 0 24 1 5 2\n");
    let after = DiskStats::read(&tree.root(), dev).unwrap();
    assert!(!after.since(&quiet).is_idle());
    assert_eq!(after.since(&quiet).flushes, 1);
    // A replaced device restarts its counters.
    assert_eq!(before.since(&after).flushes, 0);
}

#[test]
fn a_file_knows_its_file_system_and_survives_the_notebook() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fs::write(&path, vec![7; 100_000]).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let name = TargetName::parse(&format!("{}?size=64KiB", link.display())).unwrap();
    let found = inspect(&name).unwrap();
    assert_eq!((found.kind, found.exists), (Kind::File, true));
    assert_eq!((found.size_bytes, found.whole_bytes), (Some(65_536), Some(100_000)));
    assert_eq!(found.marker, None);
    assert_eq!(found.canonical_path.as_deref().map(Path::new), path.canonicalize().ok().as_deref());
    assert!(found.notes.iter().any(|note| note.contains("symbolic link")), "{:?}", found.notes);
    let fs = found.file_system.as_ref().unwrap();
    assert!(!fs.fs_type.is_empty() && fs.mount_point.is_some() && fs.free_bytes.is_some());
    assert!(dir.path().canonicalize().unwrap().starts_with(fs.mount_point.as_ref().unwrap()));
    let json = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Inspection>(&json).unwrap(), found);
}

#[test]
fn missing_targets_name_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let at = |rest: &str| TargetName::parse(&format!("{}/{rest}", dir.path().display())).unwrap();
    let found = inspect(&at("new?size=1MiB")).unwrap();
    assert_eq!((found.exists, found.size_bytes), (false, Some(1 << 20)));
    // Inspecting created nothing.
    assert_eq!(crate::sysroot::list(dir.path()), [""; 0]);
    std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
    for (name, word) in [
        (at("new"), "?size="),
        (at("no/such/folder?size=1MiB"), "folder"),
        (at("dangling?size=1MiB"), "symbolic link"),
        // A mistyped device must not become a file in memory.
        (TargetName::parse("/proc/nosuchdevice?size=1MiB").unwrap(), "no file can be created on"),
    ] {
        match inspect(&name) {
            Err(error @ TargetError::NotFound { .. }) => {
                assert!(error.to_string().contains(word), "{error}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(crate::sysroot::list(dir.path()), ["dangling"]);
}

#[test]
fn memory_and_character_devices() {
    let tree = Tree::new();
    tree.file("proc/meminfo", "MemAvailable: 1024 kB\n");
    let ram = |size_bytes| inspect_in(&TargetName::Ram { size_bytes }, &tree.root());
    assert_eq!(ram(1 << 20).unwrap().kind, Kind::Ram);
    assert!(matches!(
        ram(2 << 20),
        Err(TargetError::NoSpace { wanted_bytes: 0x0020_0000, free_bytes: 0x0010_0000, .. })
    ));
    let zero = inspect(&TargetName::parse("/dev/zero?size=8GiB").unwrap()).unwrap();
    assert_eq!((zero.kind, zero.size_bytes), (Kind::Char, Some(8 << 30)));
    assert!(zero.is_harmless_char());
    let tty = inspect(&TargetName::parse("/dev/tty").unwrap()).unwrap();
    assert!(tty.kind == Kind::Char && !tty.is_harmless_char());
}
