//! Fingerprint of all writes to a target, taken after iodyno's last write. It shows a later run whether another program
//! has written since then. Preconditioning takes hours, and stays valid only if no other program has written.
//!
//! For a device, the fingerprint has two counters. The kernel's counter of sectors written and discarded is exact but
//! restarts at boot. The device's own counter survives a restart but is coarse. A partition shares its flash with the
//! rest of its disk, so the disk's counters are used. For a file, the fingerprint has inode, size and times. File
//! systems and volume managers always write a little to the devices below, so writes of a small fraction of the
//! target's size are tolerated there.
//!
//! A target whose writes are unknown counts as written. Two kinds of writes go undetected: writes to a file within the
//! resolution of its timestamps (a few milliseconds) and, after a restart, writes of less than two units of a device's
//! counter.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use iodyno_units::human;
use serde::{Deserialize, Serialize};

use crate::health::health;
use crate::inspect::topology::BlockNode;
use crate::inspect::{BlockDevice, DiskStats, Identity, Inspection, Kind};
use crate::sysroot::{self, DevNo, SysRoot};

/// Upper limit of writes by other programs to devices below a target, as a fraction of the target's size.
const BELOW_SHARE_MAX: f64 = 0.01;
/// Resolution of the devices' own write counters: 1000 blocks of 512 bytes.
const DEVICE_UNIT_BYTES: u64 = 512_000;

/// Write counters of one device at one point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceWrites {
    /// Kernel name of the whole disk.
    pub kernel_name: String,
    /// Device number, such as `259:0`.
    pub dev: DevNo,
    /// World-wide name or serial number, which survives a restart; `None` if the device has neither.
    pub identity: Option<String>,
    /// The kernel's sequence number of the disk (`diskseq`). A disk gets a new number whenever it is attached.
    pub attachment: Option<u64>,
    /// Capacity of the device, bytes. Another capacity means another device.
    pub size_bytes: Option<u64>,
    /// Bytes written and discarded since attachment, from the kernel's counter; `None` if the kernel has none.
    pub kernel_bytes: Option<u64>,
    /// Bytes written over the device's life, from the device's own counter; `None` if it has none.
    pub device_bytes: Option<u64>,
}

/// Size and times of a file, which show whether it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Device and inode number, which show whether the file was replaced.
    pub identity: Identity,
    /// Length of the file when the fingerprint was taken, bytes.
    pub size_bytes: u64,
    /// Time of the last change of the content, ns since 1970.
    pub modified_ns: i64,
    /// Time of the last change of content or metadata, ns since 1970.
    pub changed_ns: i64,
}

/// Fingerprint of a target at one point in time: write counters and file times that reveal later writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WritesSeen {
    /// Size of the target when the fingerprint was taken, bytes.
    pub size_bytes: u64,
    /// The kernel's random identifier of this boot.
    pub boot_id: Option<String>,
    /// Size and times of the target's file; `None` for a device.
    pub file: Option<FileState>,
    /// Write counters of the target's device; `None` for a file.
    pub device: Option<DeviceWrites>,
    /// Write counters of the devices below the target.
    pub below: Vec<DeviceWrites>,
}

/// Reason why a target may have been written since its fingerprint was recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrittenSince {
    /// The target was replaced, resized or moved to other devices. Contains the difference as a clause.
    #[error("it is not the same target as before: {0}")]
    Other(String),
    /// Another program wrote or discarded data.
    #[error("{who}: {} were written or discarded since the earlier run, according to {by}", human::size(*.bytes))]
    Written {
        /// Name of the device that was written.
        who: String,
        /// Bytes written or discarded since the fingerprint was recorded.
        bytes: u64,
        /// Name of the counter that shows the writes.
        by: &'static str,
    },
    /// The file's size, modification time or change time differs.
    #[error("the file has changed since the earlier run")]
    FileChanged,
    /// No counter can show whether data was written.
    #[error(
        "{who}: it is not known whether the device was written to since the earlier run: {why}"
    )]
    Unknown {
        /// Name of the device whose writes are not known.
        who: String,
        /// Reason why no counter can show the writes.
        why: &'static str,
    },
}

/// Records the present fingerprint of a target. `None` if its writes are not counted: memory, scratch files,
/// character devices, emulated storage, NBD exports.
pub fn writes_seen(inspection: &Inspection) -> Option<WritesSeen> {
    writes_seen_in(inspection, &SysRoot::real())
}

fn writes_seen_in(inspection: &Inspection, root: &SysRoot) -> Option<WritesSeen> {
    let is_kept = inspection.exists && !inspection.is_scratch();
    if !is_kept || !matches!(inspection.kind, Kind::File | Kind::Block) {
        return None;
    }
    let direct = inspection.device.as_ref().and_then(|device| disk_of(root, device));
    let own = direct.clone().filter(|_| inspection.kind == Kind::Block);
    let file = if inspection.kind == Kind::File {
        Some(file_state(Path::new(inspection.canonical_path.as_deref()?))?)
    } else {
        // A device that is not in /sys has no counter.
        own.as_ref()?;
        None
    };
    let mut below: Vec<BlockNode> = Vec::new();
    let physical = inspection.physical.iter().filter_map(|device| disk_of(root, device));
    for node in direct.into_iter().chain(physical) {
        let known = own.iter().chain(&below).any(|other| other.dev == node.dev);
        if !known {
            below.push(node);
        }
    }
    Some(WritesSeen {
        size_bytes: inspection.size_bytes.or(inspection.whole_bytes)?,
        boot_id: sysroot::read(&root.path("proc/sys/kernel/random/boot_id")),
        file,
        device: own.map(|node| device_writes(root, &node)),
        below: below.iter().map(|node| device_writes(root, node)).collect(),
    })
}

/// The whole disk that a device or partition belongs to.
fn disk_of(root: &SysRoot, device: &BlockDevice) -> Option<BlockNode> {
    let node = BlockNode::by_number(root, device.dev)?;
    Some(node.whole_disk().unwrap_or(node))
}

fn file_state(path: &Path) -> Option<FileState> {
    let meta = fs::metadata(path).ok()?;
    let ns = |seconds: i64, ns: i64| seconds.checked_mul(1_000_000_000)?.checked_add(ns);
    Some(FileState {
        identity: Identity::of(&meta),
        size_bytes: meta.len(),
        modified_ns: ns(meta.mtime(), meta.mtime_nsec())?,
        changed_ns: ns(meta.ctime(), meta.ctime_nsec())?,
    })
}

fn device_writes(root: &SysRoot, node: &BlockNode) -> DeviceWrites {
    let device = BlockDevice::of(root, node);
    let counts = node.attr("queue/iostats").is_none_or(|flag| flag != "0");
    let stats = DiskStats::read(root, node.dev).filter(|_| counts);
    // A counter of zero after iodyno's own writes counts nothing: bio-based drivers of older kernels have such
    // counters.
    let kernel = stats.map(|stats| stats.written_bytes + stats.discarded_bytes);
    let log = if root.is_real() { health(&device).ok() } else { None };
    DeviceWrites {
        dev: node.dev,
        identity: device.wwid.or(device.serial),
        attachment: node.attr_u64("diskseq"),
        size_bytes: device.size_bytes,
        kernel_bytes: kernel.filter(|&bytes| bytes > 0),
        device_bytes: log.and_then(|log| log.data_written_bytes),
        kernel_name: device.kernel_name,
    }
}

/// Checks that nothing was written to a target between two fingerprints.
///
/// # Errors
/// The reason why writes can't be excluded.
pub fn unwritten_since(before: &WritesSeen, now: &WritesSeen) -> Result<(), WrittenSince> {
    if before.size_bytes != now.size_bytes {
        return Err(WrittenSince::Other(format!(
            "its size was {}, and is now {}",
            human::size(before.size_bytes),
            human::size(now.size_bytes)
        )));
    }
    match (&before.file, &now.file) {
        (None, None) => {}
        (Some(a), Some(b)) if a.identity == b.identity => {
            if a != b {
                return Err(WrittenSince::FileChanged);
            }
        }
        _ => return Err(WrittenSince::Other("another file replaced it".to_owned())),
    }
    let same_boot = before.boot_id.is_some() && before.boot_id == now.boot_id;
    match (&before.device, &now.device) {
        (None, None) => {}
        (Some(a), Some(b)) => same(a, b, same_boot, 0)?,
        _ => {
            return Err(WrittenSince::Other(
                "it was a file and is now a device, or the reverse".to_owned(),
            ));
        }
    }
    if before.below.len() != now.below.len() {
        return Err(WrittenSince::Other("it is now stored on different devices".to_owned()));
    }
    let spare = (now.size_bytes as f64 * BELOW_SHARE_MAX) as u64;
    for (a, b) in before.below.iter().zip(&now.below) {
        same(a, b, same_boot, spare)?;
    }
    Ok(())
}

/// Checks that at most `spare_bytes` were written to a device between two readings of its counters.
fn same(
    before: &DeviceWrites,
    now: &DeviceWrites,
    same_boot: bool,
    spare_bytes: u64,
) -> Result<(), WrittenSince> {
    let who = &now.kernel_name;
    let unknown = |why| Err(WrittenSince::Unknown { who: who.clone(), why });
    let other = |what: &str| Err(WrittenSince::Other(format!("{who} {what}")));
    if before.size_bytes != now.size_bytes || before.identity != now.identity {
        return other("is another device");
    }
    if same_boot && (before.dev != now.dev || before.attachment != now.attachment) {
        return other("was attached again");
    }
    let mut judged = false;
    if same_boot && let (Some(a), Some(b)) = (before.kernel_bytes, now.kernel_bytes) {
        if b < a {
            return other("had its write counter reset");
        }
        written(who, b - a, spare_bytes, "the kernel's count")?;
        judged = true;
    }
    if let (Some(a), Some(b)) = (before.device_bytes, now.device_bytes)
        && now.identity.is_some()
    {
        if b < a {
            return other("had its write counter reset");
        }
        let unit = DEVICE_UNIT_BYTES.max(spare_bytes);
        written(who, b - a, unit, "the device's own count")?;
        judged = true;
    }
    match (judged, same_boot) {
        (true, _) => Ok(()),
        (false, true) => unknown("neither the kernel nor the device counts writes"),
        (false, false) => {
            unknown("the machine was restarted, and the device has no write counter of its own")
        }
    }
}

fn written(who: &str, bytes: u64, spare_bytes: u64, by: &'static str) -> Result<(), WrittenSince> {
    if bytes <= spare_bytes {
        return Ok(());
    }
    Err(WrittenSince::Written { who: who.to_owned(), bytes, by })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::fake::Tree;
    use crate::inspect::inspect;
    use crate::name::TargetName;
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    const NVME: &str = "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1";

    /// Fingerprint of a simulated disk: `written` sectors written, 8 discarded, on a machine with boot id `boot`.
    fn disk(boot: &str, written: u64, attachment: u64) -> WritesSeen {
        let tree = Tree::new();
        tree.disk(NVME, "259:0", 8192);
        tree.partition(&format!("{NVME}/nvme0n1p1"), "259:1", 1);
        tree.file("proc/sys/kernel/random/boot_id", format!("{boot}\n"));
        tree.file(&format!("sys/devices/{NVME}/diskseq"), format!("{attachment}\n"));
        let stat = format!("0 0 0 0 2 0 {written} 7 0 9 12 3 0 8 1 4 2\n");
        tree.file(&format!("sys/devices/{NVME}/stat"), stat);
        let mut inspection = inspect(&TargetName::Null { size_bytes: 1 << 20 }).unwrap();
        inspection.kind = Kind::Block;
        // The target is a partition, judged by its disk.
        inspection.device = BlockDevice::read(&tree.root(), "259:1".parse().unwrap());
        inspection.physical =
            BlockDevice::read(&tree.root(), "259:0".parse().unwrap()).into_iter().collect();
        writes_seen_in(&inspection, &tree.root()).unwrap()
    }

    #[test]
    fn the_kernel_s_count_is_exact_while_the_machine_runs() {
        let before = disk("one", 80, 5);
        let device = before.device.as_ref().unwrap();
        assert_eq!((device.kernel_name.as_str(), device.kernel_bytes), ("nvme0n1", Some(88 * 512)));
        assert!(before.below.is_empty(), "the disk itself is not below itself");
        assert_eq!(unwritten_since(&before, &before), Ok(()));
        let json = serde_json::to_value(&before).unwrap();
        assert_eq!(serde_json::from_value::<WritesSeen>(json).unwrap(), before);
        let why = unwritten_since(&before, &disk("one", 81, 5)).unwrap_err();
        assert_eq!(
            why.to_string(),
            "nvme0n1: 512 B were written or discarded since the earlier run, according to the kernel's count"
        );
        let is_other = |now| matches!(unwritten_since(&before, &now), Err(WrittenSince::Other(_)));
        assert!(is_other(disk("one", 80, 6)), "attached anew");
        assert!(is_other(disk("one", 79, 5)), "began anew");
        let mut grown = before.clone();
        grown.size_bytes += 512;
        assert!(is_other(grown));
        let mut uncounted = disk("one", 80, 5);
        uncounted.device.as_mut().unwrap().kernel_bytes = None;
        let why = unwritten_since(&before, &uncounted);
        assert!(matches!(why, Err(WrittenSince::Unknown { .. })), "{why:?}");
    }

    #[test]
    fn after_a_restart_only_the_device_s_own_count_is_left() {
        let of = |boot, identity: Option<&str>, bytes| {
            // The kernel's count is equal by coincidence.
            let mut seen = disk(boot, 80, 5);
            let device = seen.device.as_mut().unwrap();
            device.identity = identity.map(str::to_owned);
            device.device_bytes = bytes;
            seen
        };
        let before = of("one", Some("S1"), Some(9_000_000));
        let judge = |now| unwritten_since(&before, &now);
        assert_eq!(judge(of("two", Some("S1"), Some(9_000_000))), Ok(()));
        assert_eq!(judge(of("two", Some("S1"), Some(9_512_000))), Ok(()), "one unit is rounding");
        let why = judge(of("two", Some("S1"), Some(10_024_000)));
        assert!(matches!(why, Err(WrittenSince::Written { by: "the device's own count", .. })));
        assert!(matches!(judge(of("two", Some("S1"), None)), Err(WrittenSince::Unknown { .. })));
        assert!(matches!(
            judge(of("two", Some("S2"), Some(9_000_000))),
            Err(WrittenSince::Other(_))
        ));
        // Within one boot, writes to another namespace show in the device's counter.
        let why = judge(of("one", Some("S1"), Some(99_000_000)));
        assert!(matches!(why, Err(WrittenSince::Written { .. })), "{why:?}");
        // An unknown boot id never counts as the same boot.
        let mut nameless = before.clone();
        nameless.boot_id = None;
        nameless.device.as_mut().unwrap().device_bytes = None;
        let why = unwritten_since(&nameless, &nameless);
        assert!(matches!(why, Err(WrittenSince::Unknown { .. })), "{why:?}");
    }

    #[test]
    fn below_the_target_a_little_is_tolerated() {
        let of = |kernel_bytes| {
            let mut seen = disk("one", 80, 5);
            let mut device = seen.device.take().unwrap();
            device.kernel_bytes = Some(kernel_bytes);
            seen.below = vec![device];
            seen
        };
        let judge = |bytes: u64| unwritten_since(&of(1000), &of(1000 + bytes));
        assert_eq!([judge(0), judge((1 << 20) / 100)], [Ok(()), Ok(())]);
        assert!(matches!(judge((1 << 20) / 100 + 1), Err(WrittenSince::Written { .. })));
        let mut moved = of(1000);
        moved.below.clear();
        assert!(matches!(unwritten_since(&of(1000), &moved), Err(WrittenSince::Other(_))));
    }

    #[test]
    fn a_file_that_was_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        fs::write(&path, vec![1; 1 << 16]).unwrap();
        let seen = || {
            let name = TargetName::parse(path.to_str().unwrap()).unwrap();
            let mut seen = writes_seen(&inspect(&name).unwrap()).unwrap();
            // Other programs write to the device below this folder.
            seen.below.clear();
            seen
        };
        let before = seen();
        assert_eq!(unwritten_since(&before, &seen()), Ok(()));
        fs::read(&path).unwrap();
        drop(File::options().write(true).open(&path).unwrap());
        assert_eq!(unwritten_since(&before, &seen()), Ok(()), "read and opened, not written");
        // One byte of the same value, later than the step of the file's timestamps.
        std::thread::sleep(std::time::Duration::from_millis(20));
        File::options().write(true).open(&path).unwrap().write_all_at(&[1], 7).unwrap();
        assert_eq!(unwritten_since(&before, &seen()), Err(WrittenSince::FileChanged));
        let before = seen();
        fs::rename(&path, dir.path().join("old")).unwrap();
        fs::copy(dir.path().join("old"), &path).unwrap();
        assert!(matches!(unwritten_since(&before, &seen()), Err(WrittenSince::Other(_))));
    }

    #[test]
    fn uncounted_targets_have_no_fingerprint() {
        for name in ["ram:1MiB", "null:", "scratch:64MiB", "/dev/zero?size=1MiB"] {
            let inspection = inspect(&TargetName::parse(name).unwrap()).unwrap();
            assert_eq!(writes_seen(&inspection), None, "{name}");
        }
    }
}
