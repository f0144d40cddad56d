//! A block device in sysfs: identity, queue settings, position in the machine, and counters. A report must disclose
//! these facts; `None` means unknown.
//!
//! A partition has no queue or model of its own, so those of its disk are used. Sizes in sysfs are in sectors of 512
//! bytes, whatever the device's block size.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::topology::BlockNode;
use crate::sysroot::{self, DevNo, SysRoot};

/// PCIe link of a device: present speed and width, and the maximum of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieLink {
    /// Bus address, such as `0000:3b:00.0`.
    pub address: String,
    /// Present speed, such as `16.0 GT/s PCIe`.
    pub current_speed: Option<String>,
    /// Highest link speed that the device supports, such as `16.0 GT/s PCIe`.
    pub max_speed: Option<String>,
    /// Present number of lanes.
    pub current_width: Option<u64>,
    /// Highest number of lanes that the device supports.
    pub max_width: Option<u64>,
}

impl PcieLink {
    /// True when the link runs slower or narrower than the device can.
    pub fn is_below_capability(&self) -> bool {
        let speed = |text: &Option<String>| -> Option<f64> {
            text.as_ref()?.split_whitespace().next()?.parse().ok()
        };
        let speeds = (speed(&self.current_speed), speed(&self.max_speed));
        let slower = matches!(speeds, (Some(now), Some(max)) if now < max);
        let narrower =
            matches!((self.current_width, self.max_width), (Some(now), Some(max)) if now < max);
        slower || narrower
    }
}

/// Snapshot of a device's I/O counters, from `/sys/class/block/NAME/stat` and `inflight`. The difference
/// between two snapshots, minus iodyno's own I/O, is I/O by others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStats {
    /// Reads completed, after merging.
    pub reads: u64,
    /// Reads that the kernel merged with other reads before issuing them.
    #[serde(default)]
    pub read_merges: u64,
    /// Total bytes read from the device.
    pub read_bytes: u64,
    /// Time spent on reads, ms, summed over reads.
    pub read_ms: u64,
    /// Writes completed, after merging.
    pub writes: u64,
    /// Writes that the kernel merged with other writes before issuing them.
    #[serde(default)]
    pub write_merges: u64,
    /// Bytes written; before Linux 4.18 discarded bytes too.
    pub written_bytes: u64,
    /// Time spent on writes, ms, summed over writes.
    pub write_ms: u64,
    /// Time with at least one I/O in flight, ms.
    pub busy_ms: u64,
    /// Time in flight, ms, summed over all I/Os.
    #[serde(default)]
    pub queue_ms: u64,
    /// Discards completed; 0 before Linux 4.18.
    pub discards: u64,
    /// Bytes discarded; 0 before Linux 4.18.
    pub discarded_bytes: u64,
    /// Flushes completed; 0 before Linux 5.5.
    pub flushes: u64,
    /// Reads in flight when the counters were read.
    pub reads_in_flight: u64,
    /// Writes in flight when the counters were read.
    pub writes_in_flight: u64,
}

impl DiskStats {
    /// Reads the counters of a device; `None` if the device is gone or has no counters.
    pub fn read(root: &SysRoot, dev: DevNo) -> Option<Self> {
        BlockNode::by_number(root, dev).and_then(|node| Self::of(&node))
    }

    fn of(node: &BlockNode) -> Option<Self> {
        let text = node.attr("stat")?;
        let fields: Vec<u64> =
            text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        // Kernels before 4.18 have no discards, before 5.5 no flushes.
        let field = |i: usize| fields.get(i).copied().unwrap_or(0);
        if fields.len() < 11 {
            return None;
        }
        let inflight = node.attr("inflight").unwrap_or_default();
        let mut inflight = inflight.split_whitespace().map(|n| n.parse().unwrap_or(0));
        Some(Self {
            reads: field(0),
            read_merges: field(1),
            read_bytes: field(2) * 512,
            read_ms: field(3),
            writes: field(4),
            write_merges: field(5),
            written_bytes: field(6) * 512,
            write_ms: field(7),
            busy_ms: field(9),
            queue_ms: field(10),
            discards: field(11),
            discarded_bytes: field(13) * 512,
            flushes: field(15),
            reads_in_flight: inflight.next().unwrap_or(0),
            writes_in_flight: inflight.next().unwrap_or(0),
        })
    }

    /// Change of each counter since an earlier snapshot. In-flight counts are copied from the later snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut delta = *self;
        for (now, then) in [
            (&mut delta.reads, earlier.reads),
            (&mut delta.read_merges, earlier.read_merges),
            (&mut delta.read_bytes, earlier.read_bytes),
            (&mut delta.read_ms, earlier.read_ms),
            (&mut delta.writes, earlier.writes),
            (&mut delta.write_merges, earlier.write_merges),
            (&mut delta.written_bytes, earlier.written_bytes),
            (&mut delta.write_ms, earlier.write_ms),
            (&mut delta.busy_ms, earlier.busy_ms),
            (&mut delta.queue_ms, earlier.queue_ms),
            (&mut delta.discards, earlier.discards),
            (&mut delta.discarded_bytes, earlier.discarded_bytes),
            (&mut delta.flushes, earlier.flushes),
        ] {
            // The counters wrap, and restart when a device is replaced.
            *now = now.saturating_sub(then);
        }
        delta
    }

    /// True if nothing was read, written, discarded or flushed, and nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.reads + self.writes + self.discards + self.flushes == 0
            && self.reads_in_flight + self.writes_in_flight == 0
    }
}

/// A block device's attributes in sysfs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// The kernel's name: `nvme0n1`, `sda2`, `dm-0`.
    pub kernel_name: String,
    /// Device number, such as `259:0`.
    pub dev: DevNo,
    /// Kernel name of the partition's disk; `None` if the device is not a partition.
    pub partition_of: Option<String>,
    /// Capacity of the device or partition, bytes.
    pub size_bytes: Option<u64>,
    /// Bus or driver, derived from name and position in sysfs: nvme, scsi, virtio, loop, zram, dm, md, …
    pub transport: Option<String>,
    /// Model, as the device reports it.
    pub model: Option<String>,
    /// Vendor, as the device reports it.
    pub vendor: Option<String>,
    /// Serial number, as the device reports it.
    pub serial: Option<String>,
    /// World-wide identifier, such as `eui.0025385b71b01234` or `naa.5000c500a1b2c3d4`.
    pub wwid: Option<String>,
    /// Identity that survives a reboot, unlike the kernel name. `None` if the device has none.
    pub lasting_id: Option<String>,
    /// Firmware revision, as the device reports it.
    pub firmware: Option<String>,
    /// True for a rotating disk, as the kernel's driver reports it.
    pub rotational: Option<bool>,
    /// True if the medium can be removed, as from a card reader.
    pub removable: Option<bool>,
    /// True if the kernel refuses writes to the device.
    pub read_only: Option<bool>,
    /// Logical block size, bytes: the smallest possible I/O.
    pub logical_block_bytes: Option<u64>,
    /// Physical block size, bytes: the smallest write without read-modify-write.
    pub physical_block_bytes: Option<u64>,
    /// Smallest preferred I/O size, bytes.
    pub io_min_bytes: Option<u64>,
    /// Preferred I/O size for throughput, bytes; `None` if the device reports none.
    pub io_optimal_bytes: Option<u64>,
    /// Required alignment of a buffer's address for DMA, bytes.
    pub dma_alignment_bytes: Option<u64>,
    /// I/O scheduler in use, such as `mq-deadline`.
    pub scheduler: Option<String>,
    /// Capacity of the scheduler's queue, in requests.
    pub nr_requests: Option<u64>,
    /// Read-ahead of buffered reads, KiB.
    pub read_ahead_kib: Option<u64>,
    /// Largest request that the kernel makes, KiB.
    pub max_sectors_kib: Option<u64>,
    /// Largest request that the hardware accepts, KiB.
    pub max_hw_sectors_kib: Option<u64>,
    /// Extent of merging by the scheduler. 0: all requests; 1: only simple merges; 2: none.
    pub nomerges: Option<u64>,
    /// CPU that handles a completion. 0: any; 1: one in the submitter's group of CPUs; 2: the submitting CPU.
    pub rq_affinity: Option<u64>,
    /// True if polling for completions is enabled.
    pub io_poll: Option<bool>,
    /// Target latency of write-back throttling, µs; 0 means off.
    pub wbt_lat_usec: Option<u64>,
    /// How the kernel treats the device's write cache: `write back` (volatile, flushes are needed) or `write through`.
    pub write_cache: Option<String>,
    /// True if the kernel sends forced unit access (FUA) writes to the device (`queue/fua`).
    pub fua: Option<bool>,
    /// True if the kernel passes discards to the device (`queue/discard_max_bytes` is not 0).
    pub discard: Option<bool>,
    /// True if the device can write zeroes itself, without a data transfer.
    pub write_zeroes_offload: Option<bool>,
    /// Zone model: `none`, `host-aware` or `host-managed`.
    pub zoned: Option<String>,
    /// True if direct access by load and store (DAX) is supported.
    pub dax: Option<bool>,
    /// NUMA node that the device is attached to.
    pub numa_node: Option<u64>,
    /// Link of the nearest PCIe function above the device; `None` if there is none.
    pub pcie: Option<PcieLink>,
    /// Temperature of the hottest sensor, in degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Warning threshold of the sensor that is hottest now, in degrees Celsius.
    #[serde(default)]
    pub temperature_warning_c: Option<f64>,
    /// Kernel names of the devices built on this one.
    pub holders: Vec<String>,
    /// Kernel names of the devices that this one is built on.
    pub slaves: Vec<String>,
    /// Kernel names of the device's partitions.
    pub partitions: Vec<String>,
    /// Path of the file or device that stores the data of a loop device.
    pub loop_backing_file: Option<String>,
    /// True if the loop device bypasses the page cache of its backing file.
    pub loop_direct: Option<bool>,
    /// Name and uuid of a device-mapper device, joined by a space.
    pub device_mapper: Option<String>,
    /// Level and state of a RAID set, joined by a space.
    pub raid: Option<String>,
    pub zram_algorithm: Option<String>,
    /// I/O counters at the time of inspection.
    pub stats: Option<DiskStats>,
}

/// Returns the choice that a sysfs list shows in brackets: `[none] mq-deadline` gives `none`.
fn selected(text: &str) -> String {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text, |(chosen, _)| chosen).to_owned()
}

/// Bus or driver of the disk, from its position in the device tree or from its name.
fn transport(disk: &BlockNode) -> Option<String> {
    const BY_NAME: [(&str, &str); 11] = [
        ("nvme", "nvme"),
        ("loop", "loop"),
        ("zram", "zram"),
        ("dm-", "dm"),
        ("md", "md"),
        ("nbd", "nbd"),
        ("ram", "ram"),
        ("pmem", "pmem"),
        ("mmcblk", "mmc"),
        ("nullb", "null_blk"),
        ("ublkb", "ublk"),
    ];
    let path = disk.dir.to_string_lossy();
    for (part, name) in [("/usb", "usb"), ("/ata", "ata"), ("/virtio", "virtio")] {
        if path.contains(part) {
            return Some(name.to_owned());
        }
    }
    let by_name = BY_NAME.iter().find(|(prefix, _)| disk.name.starts_with(prefix));
    let scsi = disk.dir.join("device/scsi_device").exists() || disk.name.starts_with("sd");
    by_name.map(|(_, name)| (*name).to_owned()).or_else(|| scsi.then(|| "scsi".to_owned()))
}

/// PCIe link of the disk's nearest ancestor in the device tree that is a PCIe function.
fn pcie(disk: &BlockNode) -> Option<PcieLink> {
    let device = disk.dir.join("device").canonicalize().ok()?;
    let dir = device.ancestors().find(|dir| dir.join("current_link_speed").exists())?;
    let text =
        |name: &str| sysroot::read(&dir.join(name)).filter(|text| !text.starts_with("Unknown"));
    let width =
        |name: &str| text(name)?.parse().ok().filter(|&lanes: &u64| lanes != 0 && lanes != 255);
    Some(PcieLink {
        address: dir.file_name()?.to_string_lossy().into_owned(),
        current_speed: text("current_link_speed"),
        max_speed: text("max_link_speed"),
        current_width: width("current_link_width"),
        max_width: width("max_link_width"),
    })
}

/// Temperature of the drive's hottest hwmon sensor, and the warning temperature of the same sensor, °C.
fn temperature_c(disk: &BlockNode) -> Option<(f64, Option<f64>)> {
    let device = disk.dir.join("device");
    let folders = [device.clone(), device.join("hwmon"), device.join("device/hwmon")];
    let degrees = |path: PathBuf| Some(sysroot::read(&path)?.parse::<f64>().ok()? / 1000.0);
    let mut hottest: Option<(f64, Option<f64>)> = None;
    for folder in folders {
        for name in sysroot::list(&folder).iter().filter(|name| name.starts_with("hwmon")) {
            let sensors = folder.join(name);
            for file in sysroot::list(&sensors) {
                let sensor = file.strip_suffix("_input").filter(|name| name.starts_with("temp"));
                if let Some(sensor) = sensor
                    && let Some(now) = degrees(sensors.join(&file))
                    && hottest.is_none_or(|(most, _)| now > most)
                {
                    hottest = Some((now, degrees(sensors.join(format!("{sensor}_max")))));
                }
            }
        }
    }
    hottest
}

fn names(nodes: Vec<BlockNode>) -> Vec<String> {
    nodes.into_iter().map(|node| node.name).collect()
}

fn joined(parts: [Option<String>; 2]) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

impl BlockDevice {
    /// Reads the attributes of the device with this device number from sysfs.
    pub fn read(root: &SysRoot, dev: DevNo) -> Option<Self> {
        BlockNode::by_number(root, dev).map(|node| Self::of(root, &node))
    }

    pub(crate) fn of(root: &SysRoot, node: &BlockNode) -> Self {
        let whole = node.whole_disk();
        let disk = whole.as_ref().unwrap_or(node);
        let first = |paths: &[&str]| paths.iter().find_map(|path| disk.attr(path));
        let flag = |path: &str| disk.attr_u64(path).map(|n| n != 0);
        let nonzero = |path: &str| disk.attr_u64(path).filter(|&n| n != 0);
        let temperature = temperature_c(disk);
        let dma = disk.attr_u64("queue/dma_alignment").and_then(|mask| mask.checked_add(1));
        Self {
            kernel_name: node.name.clone(),
            dev: node.dev,
            partition_of: whole.as_ref().map(|disk| disk.name.clone()),
            size_bytes: node.attr_u64("size").map(|sectors| sectors * 512),
            transport: transport(disk),
            model: first(&["device/model", "device/name"]),
            vendor: first(&["device/vendor"]).filter(|vendor| !vendor.starts_with("0x")),
            serial: first(&["serial", "device/serial"])
                .or_else(|| super::lasting::scsi_serial(disk)),
            wwid: first(&["wwid", "device/wwid"]),
            lasting_id: super::lasting::lasting_id(root, node),
            firmware: first(&["device/firmware_rev", "device/rev", "device/fwrev"]),
            rotational: flag("queue/rotational"),
            removable: flag("removable"),
            read_only: node.attr_u64("ro").map(|n| n != 0),
            logical_block_bytes: nonzero("queue/logical_block_size"),
            physical_block_bytes: nonzero("queue/physical_block_size"),
            io_min_bytes: nonzero("queue/minimum_io_size"),
            io_optimal_bytes: nonzero("queue/optimal_io_size"),
            dma_alignment_bytes: dma,
            scheduler: disk.attr("queue/scheduler").map(|text| selected(&text)),
            nr_requests: disk.attr_u64("queue/nr_requests"),
            read_ahead_kib: disk.attr_u64("queue/read_ahead_kb"),
            max_sectors_kib: disk.attr_u64("queue/max_sectors_kb"),
            max_hw_sectors_kib: disk.attr_u64("queue/max_hw_sectors_kb"),
            nomerges: disk.attr_u64("queue/nomerges"),
            rq_affinity: disk.attr_u64("queue/rq_affinity"),
            io_poll: flag("queue/io_poll"),
            wbt_lat_usec: disk.attr_u64("queue/wbt_lat_usec"),
            write_cache: disk.attr("queue/write_cache"),
            fua: flag("queue/fua"),
            discard: flag("queue/discard_max_bytes"),
            write_zeroes_offload: flag("queue/write_zeroes_max_bytes"),
            zoned: disk.attr("queue/zoned"),
            dax: flag("queue/dax"),
            numa_node: first(&["device/numa_node", "device/device/numa_node"])
                .and_then(|n| n.parse().ok()),
            pcie: pcie(disk),
            temperature_c: temperature.map(|(now, _)| now),
            temperature_warning_c: temperature.and_then(|(_, limit)| limit),
            holders: names(node.holders(root)),
            slaves: names(node.slaves(root)),
            partitions: names(node.partitions()),
            loop_backing_file: disk.attr("loop/backing_file"),
            loop_direct: flag("loop/dio"),
            device_mapper: joined([disk.attr("dm/name"), disk.attr("dm/uuid")]),
            raid: joined([disk.attr("md/level"), disk.attr("md/array_state")]),
            zram_algorithm: disk.attr("comp_algorithm").map(|text| selected(&text)),
            stats: DiskStats::of(node),
        }
    }

    /// Path of the device node, such as `/dev/nvme0n1`.
    pub fn node_path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/{}", self.kernel_name.replace('!', "/")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_below_capability_is_seen() {
        let link = |speed: &str, width| PcieLink {
            current_speed: Some(speed.to_owned()),
            max_speed: Some("16.0 GT/s PCIe".to_owned()),
            current_width: Some(width),
            max_width: Some(4),
            ..PcieLink::default()
        };
        assert!(!link("16.0 GT/s PCIe", 4).is_below_capability());
        // As text, "8.0" is above "16.0".
        assert!(link("8.0 GT/s PCIe", 4).is_below_capability());
        assert!(link("16.0 GT/s PCIe", 2).is_below_capability());
        assert!(!PcieLink::default().is_below_capability());
    }

    #[test]
    fn the_choice_in_brackets() {
        assert_eq!(selected("[none] mq-deadline kyber"), "none");
        assert_eq!(selected("none [mq-deadline]"), "mq-deadline");
        assert_eq!(selected("none"), "none");
    }
}
