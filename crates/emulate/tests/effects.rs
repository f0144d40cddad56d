//! Every parameter has an effect. A parameter without an effect is a defect, because device files must state a value
//! and a source for it in vain. Every key of the schema has a case that changes only its value, in the text of a
//! catalog file, and checks a result visible to users: the duration of I/Os, the data that survive a power cut or a
//! damaged page, the predicted endurance, the capacity, or a refusal by a named rule.
//!
//! The keys come from the schema, so that a new key without a case fails. Keys shared by flash DIMMs and by drives
//! behind a link have a case for each.

use crate::common_effects as effects;
use crate::load;

use std::collections::BTreeSet;

use effects::Effect::{
    Capacity, Endurance, Faster, Kept, Lost, RecoveredLater, Refused, Service, Slower, Unrecovered,
};
use effects::{Case, failures};
use iodyno_emulate::describe;
use load::{Files, Load, Ops, SMALL};

const READ: Load = Load::new(Ops::Reads);
const WRITE: Load = Load::new(Ops::Writes);
const DEEP_READS: Load = READ.deep(64).count(3000);
const DEEP_WRITES: Load = WRITE.deep(64).count(20_000);
/// Writes to a quarter of a small device, whose other data stays mixed with the written data.
const WRITES_OF_PART: Load = WRITE.deep(64).within(20 << 20).count(100_000);
/// Sequential writes to nearly all of a small, fresh device.
const FILL: Load = DEEP_WRITES.in_order_from(0).fresh();
const LARGE_READS: Load = READ.deep(8).blocks(128 << 10);
const LARGE_WRITES: Load = WRITE.deep(8).blocks(128 << 10);
const SPLIT_READS: Load = READ.blocks(16 << 10).deep(512).count(3000);
const READS_OF_MIX: Load = Load::new(Ops::ReadsOfMix).deep(16).count(20_000);
const NONE: &[(&str, &str)] = &[];
const ACTIVE: &[(&str, &str)] = &[("power.active_w", "5")];
const IN_BAY: &[(&str, &str)] = &[("bay.kind", "\"memory-slot\""), ("bay.hot_swap", "false")];

/// Cases of a flash DIMM.
const DIMM: &[Case] = &[
    ("bay.kind", "\"sas\"", NONE, Service),
    ("bay.hot_swap", "true", NONE, Service),
    ("power.idle_w", "77", ACTIVE, Service),
    ("power.active_w", "78", NONE, Service),
    ("capacity", "\"380.928GB\"", NONE, Capacity),
    ("capacity", "\"380.928GB\"", NONE, Faster(DEEP_WRITES)),
    (
        "memory_channel.devices_per_thread",
        "1",
        &[("host.sockets", "1")],
        Faster(LARGE_READS.devices(2)),
    ),
    ("memory_channel.command", "\"8us\"", NONE, Slower(READ)),
    ("memory_channel.read_copy", "\"0.5 GB/s\"", NONE, Slower(READ)),
    ("memory_channel.write_copy", "\"0.5 GB/s\"", NONE, Slower(WRITE)),
    ("memory_channel.poll", "\"20us\"", NONE, Slower(READ)),
    ("memory_channel.poll", "\"30us\"", NONE, Refused("poll", 1)),
    ("memory_channel.poll_crowded", "\"90us\"", NONE, Slower(READ.workers(15))),
    ("controller.read_command", "\"1us\"", NONE, Refused("commands-by-thread", 1)),
    ("controller.read_latency", "\"50us\"", NONE, Slower(READ)),
    ("controller.write_command", "\"1us\"", NONE, Refused("commands-by-thread", 1)),
    ("controller.copy", "\"1us\"", NONE, Refused("commands-by-thread", 1)),
    ("controller.turn", "\"1us\"", NONE, Refused("commands-by-thread", 1)),
    ("controller.read_contexts", "4", NONE, Slower(DEEP_READS)),
    ("controller.lanes", "4", NONE, Slower(SPLIT_READS)),
    ("controller.page_split", "\"100%\"", NONE, Slower(SPLIT_READS)),
    ("nand.channels", "8", OPEN, Slower(LARGE_READS)),
    ("nand.dies_per_channel", "2", NONE, Slower(DEEP_WRITES)),
    ("nand.planes", "2", NONE, Faster(DEEP_WRITES)),
    ("nand.page", "\"16KiB\"", NONE, Faster(DEEP_WRITES)),
    ("nand.pages_per_block", "4096", NONE, Slower(DEEP_WRITES)),
    ("nand.raw", "\"640GiB\"", NONE, Faster(DEEP_WRITES)),
    ("nand.read", "\"200us\"", NONE, Slower(READ)),
    ("nand.program_fast", "\"1600us\"", NONE, Slower(DEEP_WRITES)),
    ("nand.program_slow", "\"8ms\"", NONE, Slower(DEEP_WRITES)),
    ("nand.erase", "\"100ms\"", SMALL, Slower(DEEP_WRITES)),
    ("nand.channel_rate", "\"40 MB/s\"", NONE, Slower(READ)),
    ("nand.programs_max", "16", NONE, Slower(DEEP_WRITES)),
    ("nand.suspend", "\"10us\"", NONE, Faster(READS_OF_MIX)),
    ("nand.reads_first", "true", OPEN, Faster(READS_OF_MIX.deep(256))),
    ("nand.parity_stripe", "0", NONE, Unrecovered),
    ("nand.parity_stripe", "127", NONE, RecoveredLater),
    ("slc.size", "\"1MiB\"", SLC, Slower(DEEP_WRITES.fresh())),
    ("slc.program", "\"3ms\"", SLC, Slower(DEEP_WRITES.fresh())),
    ("slc.read", "\"1ms\"", LARGE_SLC, Slower(READ)),
    ("folding.bits", "5", SMALL_FOLDING, Slower(FILL)),
    ("folding.program", "\"90ms\"", FOLDING, Slower(DEEP_WRITES.fresh())),
    ("folding.share", "\"90%\"", FOLDING, Slower(DEEP_WRITES.fresh())),
    ("folding.pause", "\"0ns\"", FOLDING, Faster(DEEP_WRITES.fresh())),
    ("variation.page_types", "1", VARIATION, Faster(READ.blocks(32 << 10))),
    ("variation.spread", "\"1us\"", VARIATION, Faster(READ.blocks(32 << 10))),
    ("variation.retried", "\"50%\"", VARIATION, Slower(READ)),
    ("variation.retry", "\"1ms\"", VARIATION, Slower(READ)),
    ("variation.suspend", "\"1ms\"", SUSPENDED, Slower(READS_OF_MIX)),
    ("variation.suspend_share", "\"1%\"", STOPPING, Faster(READS_OF_MIX)),
    ("buffer.size", "\"64KiB\"", NONE, Slower(DEEP_WRITES.count(300))),
    ("buffer.accept", "\"20us\"", NONE, Slower(WRITE)),
    ("buffer.protected", "false", NONE, Lost),
    ("translation.reserved", "\"12%\"", NONE, Slower(DEEP_WRITES)),
    ("translation.map_writes_per_page", "1", NONE, Slower(DEEP_WRITES)),
    ("translation.unit", "\"16KiB\"", LARGE_PAGES, Slower(DEEP_WRITES)),
    ("translation.unit", "\"12KiB\"", LARGE_PAGES, Refused("translation-unit", 1)),
    ("translation.victim", "\"cost-benefit\"", SMALL, Faster(WRITES_OF_PART)),
    // The device starts with a burst, which is longer than the load.
    ("translation.freed_per_write", "3", NONE, Slower(DEEP_WRITES)),
    ("stall.every", "\"1MiB\"", &[STALLS[0], ("stall.lasts", "\"9ms\"")], Slower(WRITE)),
    ("stall.lasts", "\"9ms\"", &[("stall.every", "\"1MiB\""), STALLS[1]], Slower(WRITE)),
    ("endurance.drive_writes_per_day", "3", NONE, Endurance),
    ("endurance.years", "3", NONE, Endurance),
    ("endurance.cycles", "3000", NONE, Endurance),
];

/// Changes after which only channels and dies limit the rate.
const OPEN: &[(&str, &str)] = &[
    ("memory_channel.read_copy", "\"9 GB/s\""),
    ("controller.read_contexts", "0"),
    ("nand.programs_max", "0"),
];

/// Changes that make the durations of page reads vary.
const VARIATION: &[(&str, &str)] = &[
    ("variation.page_types", "3"),
    ("variation.spread", "\"30us\""),
    ("variation.retried", "\"10%\""),
    ("variation.retry", "\"60us\""),
];
const SUSPENDED: &[(&str, &str)] =
    &[VARIATION[0], VARIATION[1], VARIATION[2], VARIATION[3], ("nand.suspend", "\"10us\"")];
const STOPPING: &[(&str, &str)] = &[
    VARIATION[0],
    VARIATION[1],
    VARIATION[2],
    VARIATION[3],
    ("nand.suspend", "\"10us\""),
    ("variation.suspend", "\"200us\""),
];
const LARGE_SLC: &[(&str, &str)] = &[("slc.size", "\"300GB\""), ("slc.program", "\"200us\"")];
const SLC: &[(&str, &str)] = &[("slc.size", "\"10GB\""), ("slc.program", "\"200us\"")];

/// Program operations that hold a large unit.
const LARGE_PAGES: &[(&str, &str)] = &[("nand.page", "\"16KiB\"")];

/// A small SLC cache in front of slow cells. The host's writes bypass it when it is full.
const FOLDING: &[(&str, &str)] = &[
    ("slc.size", "\"20MB\""),
    ("slc.program", "\"200us\""),
    ("nand.program_slow", "\"9ms\""),
    ("folding.bits", "3"),
    ("folding.program", "\"4ms\""),
    ("folding.share", "\"20%\""),
    ("folding.pause", "\"1s\""),
];
/// The changes of [`FOLDING`] on a small device without free cells.
const SMALL_FOLDING: &[(&str, &str)] = &[
    SMALL[0],
    SMALL[1],
    SMALL[2],
    SMALL[3],
    SMALL[4],
    SMALL[5],
    SMALL[6],
    SMALL[7],
    FOLDING[0],
    FOLDING[1],
    FOLDING[2],
    FOLDING[3],
    FOLDING[4],
    ("folding.share", "\"0%\""),
    FOLDING[6],
    ("buffer.size", "\"1MiB\""),
];

/// The changes of `SLC`, with slow cells outside the cache.
const SLC_BEFORE_SLOW: &[(&str, &str)] = &[SLC[0], SLC[1], ("nand.program_slow", "\"9ms\"")];

/// Cases of a drive on a link.
const SSD: &[Case] = &[
    ("bay.kind", "\"sas\"", NONE, Service),
    ("bay.hot_swap", "false", NONE, Service),
    ("power.idle_w", "77", ACTIVE, Service),
    ("power.active_w", "78", NONE, Service),
    ("capacity", "\"3.6TB\"", NONE, Capacity),
    ("capacity", "\"3.6TB\"", NONE, Faster(DEEP_WRITES)),
    ("link.read", "\"1 GB/s\"", NONE, Slower(LARGE_READS)),
    ("link.write", "\"500 MB/s\"", NONE, Slower(LARGE_WRITES)),
    ("link.full_duplex", "false", NONE, Slower(Load::new(Ops::Mix).deep(32).blocks(128 << 10))),
    ("link.command", "\"20us\"", NONE, Slower(READ)),
    ("link.latency", "\"60us\"", NONE, Slower(READ)),
    ("link.queue_max", "2", NONE, Slower(DEEP_READS)),
    ("link.host", "\"20us\"", NONE, Slower(READ)),
    ("link.host_rate", "\"1 GB/s\"", NONE, Slower(LARGE_READS)),
    ("controller.read_command", "\"20us\"", NONE, Slower(READ)),
    ("controller.read_latency", "\"50us\"", NONE, Slower(READ)),
    ("controller.write_command", "\"20us\"", NONE, Slower(WRITE)),
    ("controller.copy", "\"20us\"", NONE, Slower(DEEP_WRITES)),
    ("controller.turn", "\"20us\"", NONE, Slower(READS_OF_MIX)),
    ("controller.read_contexts", "4", NONE, Slower(DEEP_READS)),
    ("controller.lanes", "4", NONE, Slower(SPLIT_READS)),
    ("controller.page_split", "\"100%\"", NONE, Slower(SPLIT_READS)),
    ("nand.channels", "1", NONE, Slower(LARGE_READS)),
    ("nand.dies_per_channel", "2", NONE, Slower(DEEP_WRITES)),
    ("nand.planes", "1", NONE, Slower(DEEP_WRITES)),
    ("nand.page", "\"8KiB\"", NONE, Slower(DEEP_WRITES)),
    ("nand.pages_per_block", "4158", NONE, Slower(DEEP_WRITES)),
    ("nand.raw", "\"4983GiB\"", NONE, Faster(DEEP_WRITES)),
    ("nand.read", "\"200us\"", NONE, Slower(READ)),
    ("nand.program_fast", "\"200us\"", NONE, Faster(DEEP_WRITES)),
    ("nand.program_slow", "\"3ms\"", NONE, Slower(DEEP_WRITES)),
    ("nand.erase", "\"100ms\"", SMALL, Slower(DEEP_WRITES)),
    ("nand.channel_rate", "\"100 MB/s\"", NONE, Slower(READ)),
    ("nand.programs_max", "16", NONE, Slower(DEEP_WRITES)),
    ("nand.suspend", "\"500us\"", NONE, Slower(READS_OF_MIX)),
    ("nand.reads_first", "false", NONE, Slower(READS_OF_MIX.deep(256))),
    ("nand.parity_stripe", "0", NONE, Unrecovered),
    ("nand.parity_stripe", "127", NONE, RecoveredLater),
    ("slc.size", "\"1MiB\"", SLC_BEFORE_SLOW, Slower(DEEP_WRITES.fresh())),
    ("slc.program", "\"3ms\"", SLC, Slower(DEEP_WRITES.fresh())),
    ("slc.read", "\"1ms\"", LARGE_SLC, Slower(READ)),
    ("folding.bits", "5", SMALL_FOLDING, Slower(FILL)),
    ("folding.program", "\"90ms\"", FOLDING, Slower(DEEP_WRITES.fresh())),
    ("folding.share", "\"90%\"", FOLDING, Slower(DEEP_WRITES.fresh())),
    ("folding.pause", "\"0ns\"", FOLDING, Faster(DEEP_WRITES.fresh())),
    ("variation.page_types", "1", VARIATION, Faster(READ.blocks(32 << 10))),
    ("variation.spread", "\"1us\"", VARIATION, Faster(READ.blocks(32 << 10))),
    ("variation.retried", "\"50%\"", VARIATION, Slower(READ)),
    ("variation.retry", "\"1ms\"", VARIATION, Slower(READ)),
    ("variation.suspend", "\"1ms\"", SUSPENDED, Slower(READS_OF_MIX)),
    ("variation.suspend_share", "\"1%\"", STOPPING, Faster(READS_OF_MIX)),
    ("buffer.size", "\"64KiB\"", NONE, Slower(DEEP_WRITES.count(300))),
    ("buffer.accept", "\"20us\"", NONE, Slower(WRITE)),
    ("buffer.protected", "false", NONE, Lost),
    ("translation.reserved", "\"3%\"", NONE, Faster(DEEP_WRITES)),
    ("translation.map_writes_per_page", "1", NONE, Slower(DEEP_WRITES)),
    ("translation.unit", "\"16KiB\"", LARGE_PAGES, Slower(DEEP_WRITES)),
    ("translation.unit", "\"12KiB\"", LARGE_PAGES, Refused("translation-unit", 1)),
    ("translation.victim", "\"cost-benefit\"", SMALL, Faster(WRITES_OF_PART)),
    // The device starts with a burst, which is longer than the load.
    ("translation.freed_per_write", "3", NONE, Slower(DEEP_WRITES)),
    ("stall.every", "\"1MiB\"", &[STALLS[0], ("stall.lasts", "\"9ms\"")], Slower(WRITE)),
    ("stall.lasts", "\"9ms\"", &[("stall.every", "\"1MiB\""), STALLS[1]], Slower(WRITE)),
    ("endurance.drive_writes_per_day", "3", NONE, Endurance),
    ("endurance.years", "3", NONE, Endurance),
    ("endurance.cycles", "3000", NONE, Endurance),
];

/// Housekeeping without a noticeable effect.
const STALLS: [(&str, &str); 2] = [("stall.every", "\"1PiB\""), ("stall.lasts", "\"1ns\"")];

/// Sequential reads.
const IN_ORDER: Load = READ.blocks(64 << 10).in_order_from(0).count(300);
const NEAR: Load = READ.within(32 << 20).count(300);
const SCATTERED: Load = READ.count(300);
const QUEUED: Load = READ.deep(48).count(600);
const QUEUED_WRITES: Load = WRITE.deep(48).count(600);
const AGAIN: Load = READ.within(2 << 20).count(3000);
const SCATTERING: &[(&str, &str)] = &[("cache.read_ahead", "\"0B\"")];
const CACHED: &[(&str, &str)] = &[("cache.write_cache", "true")];

/// Bands and a media cache, which is full unless the disk is fresh.
const SHINGLED: &[(&str, &str)] =
    &[("shingled.band", "\"1MiB\""), ("shingled.cache", "\"16MiB\""), ("shingled.entries", "1000")];
const FRESH_WRITES: Load = WRITE.fresh().count(400);

/// Cases of a disk.
const DISK: &[Case] = &[
    ("bay.kind", "\"nvme\"", NONE, Service),
    ("bay.hot_swap", "true", NONE, Service),
    ("power.idle_w", "77", ACTIVE, Service),
    ("power.active_w", "78", NONE, Service),
    ("capacity", "\"450GB\"", NONE, Capacity),
    ("platters.rpm", "5400", NONE, Slower(SCATTERED)),
    ("platters.heads", "1", NONE, Slower(NEAR)),
    ("platters.zones", "1", NONE, Faster(SCATTERED.blocks(1 << 20))),
    ("platters.outer", "\"80 MB/s\"", NONE, Slower(IN_ORDER)),
    ("platters.inner", "\"20 MB/s\"", NONE, Slower(IN_ORDER.in_order_from(460_000_000_000))),
    ("platters.head_switch", "\"5ms\"", NONE, Slower(NEAR)),
    ("platters.cylinder_switch", "\"5ms\"", NONE, Slower(NEAR)),
    ("seek.track_to_track", "\"5ms\"", NONE, Slower(NEAR)),
    ("seek.average", "\"18ms\"", NONE, Slower(SCATTERED)),
    ("seek.full_stroke", "\"34ms\"", NONE, Slower(SCATTERED)),
    ("seek.write_settle", "\"5ms\"", NONE, Slower(WRITE.count(300))),
    ("interface.rate", "\"20 MB/s\"", NONE, Slower(IN_ORDER)),
    ("interface.command", "\"5ms\"", NONE, Slower(SCATTERED)),
    ("interface.queue_max", "2", NONE, Slower(QUEUED)),
    ("satf.age_max", "\"50ms\"", NONE, Slower(QUEUED)),
    ("satf.window", "2", NONE, Slower(QUEUED)),
    ("cache.buffer", "\"64KiB\"", CACHED, Slower(QUEUED_WRITES)),
    ("cache.write_cache", "true", NONE, Lost),
    ("cache.write_cache", "false", CACHED, Kept),
    ("cache.write_cache", "true", NONE, Faster(WRITE.count(300))),
    ("cache.accept", "\"1ms\"", CACHED, Slower(WRITE.count(300))),
    ("cache.read_ahead", "\"0B\"", NONE, Slower(IN_ORDER)),
    ("cache.read_segments", "1", NONE, Slower(NEAR)),
    ("flash.size", "\"1MiB\"", SCATTERING, Slower(AGAIN)),
    ("flash.read", "\"5ms\"", SCATTERING, Slower(AGAIN)),
    ("shingled.band", "\"8MiB\"", SHINGLED, Slower(WRITE.count(300))),
    ("shingled.cache", "\"32MiB\"", SHINGLED, Faster(FRESH_WRITES.blocks(64 << 10).fresh())),
    ("shingled.entries", "100", SHINGLED, Slower(FRESH_WRITES)),
    ("shingled.idle", "\"0ns\"", SHINGLED, Slower(FRESH_WRITES)),
];

const MANY_READS: Load = READ.blocks(1 << 20).workers(16);
const MANY_WRITES: Load = WRITE.blocks(1 << 20).workers(16);

/// Cases of a RAM disk.
const MEMORY: &[Case] = &[
    ("bay.kind", "\"nvme\"", IN_BAY, Service),
    ("bay.hot_swap", "true", IN_BAY, Service),
    ("power.idle_w", "77", ACTIVE, Service),
    ("power.active_w", "78", NONE, Service),
    ("capacity", "\"8GiB\"", NONE, Capacity),
    ("memory.io", "\"10us\"", NONE, Slower(READ)),
    ("memory.read", "\"1 GB/s\"", NONE, Slower(READ)),
    ("memory.write", "\"1 GB/s\"", NONE, Slower(WRITE)),
    ("memory.read_passes", "8", NONE, Slower(MANY_READS)),
    ("memory.write_passes", "8", NONE, Slower(MANY_WRITES)),
    ("memory.flush", "\"10us\"", NONE, Slower(Load::new(Ops::Flushes))),
    ("memory.varying", "\"100%\"", NONE, Slower(MANY_READS)),
    // The worker prepares the next operation while one is copied.
    ("memory.queue", "true", NONE, Faster(READ.deep(2))),
    ("memory.protected", "true", NONE, Kept),
];

/// Cases of a cloud volume.
const VOLUME: &[Case] = &[
    ("bay.kind", "\"nvme\"", IN_BAY, Service),
    ("bay.hot_swap", "true", IN_BAY, Service),
    ("power.idle_w", "77", ACTIVE, Service),
    ("power.active_w", "78", NONE, Service),
    ("capacity", "\"8GiB\"", NONE, Capacity),
    ("volume.read", "\"2ms\"", NONE, Slower(READ)),
    ("volume.write", "\"2ms\"", NONE, Slower(WRITE)),
    ("volume.flush", "\"2ms\"", NONE, Slower(Load::new(Ops::Flushes))),
    ("volume.varying", "\"100%\"", NONE, Slower(READ)),
    ("volume.network", "\"10 MB/s\"", NONE, Slower(READ)),
    ("volume.queue_max", "1", NONE, Slower(READ.deep(2))),
    ("volume.pooled", "true", NONE, Service),
];

/// Keys of the hypervisor's thread of a cloud volume.
const VOLUME_THREAD: &[Case] = &[
    ("io_thread.command", "\"1ms\"", NONE, Slower(READ)),
    ("io_thread.write_command", "\"1ms\"", NONE, Slower(WRITE)),
    ("io_thread.read_copy", "\"10 MB/s\"", NONE, Slower(READ)),
    ("io_thread.write_copy", "\"10 MB/s\"", NONE, Slower(WRITE)),
];

/// Limits below the rate of any device, so that their cases are the same for all devices.
const IOPS: &[(&str, &str)] = &[("iops_limit.rate", "50"), ("iops_limit.window", "\"40ms\"")];
const BYTES: &[(&str, &str)] =
    &[("throughput_limit.rate", "\"1 MB/s\""), ("throughput_limit.window", "\"16ms\"")];
const IOPS_CREDITS: &[(&str, &str)] = &[
    ("iops_limit.rate", "20"),
    ("iops_limit.window", "\"40ms\""),
    ("iops_limit.burst", "50"),
    ("iops_limit.credits", "60"),
    ("iops_limit.start", "60"),
];
const BYTES_CREDITS: &[(&str, &str)] = &[
    ("throughput_limit.rate", "\"1 MB/s\""),
    ("throughput_limit.window", "\"16ms\""),
    ("throughput_limit.burst", "\"2 MB/s\""),
    ("throughput_limit.credits", "\"4MB\""),
    ("throughput_limit.start", "\"4MB\""),
];
const IOPS_ACCOUNT: &[(&str, &str)] = &[
    ("iops_limit.rate", "20"),
    ("iops_limit.window", "\"50ms\""),
    ("iops_limit.account", "\"64KiB\""),
    ("iops_limit.merge", "false"),
];
const BYTES_ACCOUNT: &[(&str, &str)] = &[
    ("throughput_limit.rate", "\"1 MB/s\""),
    ("throughput_limit.window", "\"100ms\""),
    ("throughput_limit.account", "\"64KiB\""),
    ("throughput_limit.merge", "false"),
];
/// A number of reads small enough for a limit of 20 a second, and for the credits to matter.
const FEW_READS: Load = READ.deep(4).count(80).fresh();
const SEQUENTIAL_READS: Load = READ.count(64).in_order_from(0);
const LIMITS: &[Case] = &[
    ("iops_limit.rate", "25", IOPS, Slower(FEW_READS)),
    ("iops_limit.window", "\"1s\"", IOPS, Faster(FEW_READS)),
    ("iops_limit.burst", "30", IOPS_CREDITS, Slower(FEW_READS)),
    ("iops_limit.burst", "20", IOPS_CREDITS, Refused("burst-above-rate", 1)),
    ("iops_limit.burst", "70", IOPS, Refused("burst-credits", 1)),
    ("iops_limit.credits", "5", IOPS_CREDITS, Slower(FEW_READS)),
    ("iops_limit.start", "0", IOPS_CREDITS, Slower(FEW_READS)),
    ("iops_limit.on_demand", "50", IOPS, Refused("on-demand-above-rate", 1)),
    ("iops_limit.account", "\"4KiB\"", IOPS_ACCOUNT, Slower(FEW_READS.blocks(16 << 10))),
    ("iops_limit.merge", "true", IOPS_ACCOUNT, Faster(SEQUENTIAL_READS)),
    ("iops_limit.merge", "true", IOPS, Refused("account-merge", 1)),
    ("throughput_limit.rate", "\"2 MB/s\"", BYTES, Faster(FEW_READS.blocks(64 << 10))),
    ("throughput_limit.window", "\"1s\"", BYTES, Faster(FEW_READS.blocks(64 << 10))),
    ("throughput_limit.on_demand", "\"1 MB/s\"", BYTES, Refused("on-demand-above-rate", 1)),
    ("throughput_limit.burst", "\"1.5 MB/s\"", BYTES_CREDITS, Slower(FEW_READS.blocks(64 << 10))),
    ("throughput_limit.burst", "\"1 MB/s\"", BYTES_CREDITS, Refused("burst-above-rate", 1)),
    ("throughput_limit.credits", "\"100kB\"", BYTES_CREDITS, Slower(FEW_READS.blocks(64 << 10))),
    ("throughput_limit.start", "\"0B\"", BYTES_CREDITS, Slower(FEW_READS.blocks(64 << 10))),
    ("throughput_limit.start", "\"0B\"", BYTES, Refused("burst-credits", 1)),
    ("throughput_limit.account", "\"512KiB\"", BYTES_ACCOUNT, Slower(FEW_READS)),
    ("throughput_limit.merge", "true", BYTES_ACCOUNT, Faster(SEQUENTIAL_READS)),
    ("throughput_limit.account", "\"1MiB\"", BYTES, Refused("account-merge", 1)),
];

/// Cases of a server, which show as effects on a RAM disk.
const SERVER: &[Case] = &[
    ("host.sockets", "1", NONE, Slower(MANY_READS)),
    ("host.cores_per_socket", "2", NONE, Slower(MANY_READS)),
    ("host.generator", "\"20us\"", NONE, Slower(READ)),
    ("host.memory", "\"20 GB/s\"", NONE, Slower(MANY_READS)),
    ("host.memory", "\"90 GB/s\"", NONE, Refused("memory-bandwidth", 1)),
    ("host.memory_channel", "\"9 GB/s\"", NONE, Refused("memory-bandwidth", 1)),
    ("host.memory_balanced", "false", &[("host.unbalanced", "\"20%\"")], Slower(MANY_READS)),
    ("host.unbalanced", "\"20%\"", UNBALANCED, Slower(MANY_READS)),
    ("host.unbalanced", "0", NONE, Refused("unbalanced", 1)),
];

const UNBALANCED: &[(&str, &str)] = &[("host.memory_balanced", "false")];
const ANYWHERE: &[(&str, &str)] = &[("host.workers_near", "false")];

/// Cases of a server, which show as effects on flash DIMMs.
const SERVER_OF_DIMMS: &[Case] = &[
    ("host.sockets", "1", NONE, Refused("flash-dimm-slots", 9)),
    ("host.cores_per_socket", "1", NONE, Slower(READ)),
    ("host.wake", "\"50us\"", NONE, Slower(READ)),
    ("host.memory_channel", "\"40 GB/s\"", NONE, Faster(LARGE_READS)),
    ("host.memory_balanced", "false", NONE, Slower(LARGE_READS)),
    ("host.unbalanced", "\"10%\"", UNBALANCED, Slower(READ)),
    ("host.remote_copy_factor", "9", ANYWHERE, Slower(READ)),
    ("host.workers_near", "false", NONE, Slower(READ)),
    ("host.driver_write", "\"50us\"", NONE, Slower(DEEP_WRITES)),
    ("slots.flash_dimms_per_socket", "1", NONE, Refused("flash-dimm-slots", 5)),
    ("slots.flash_dimms_per_socket", "0", NONE, Refused("flash-dimm-slots", 1)),
    (
        "slots.channels_per_socket",
        "1",
        &[("host.memory", "\"10 GB/s\"")],
        Refused("one-flash-dimm-per-channel", 5),
    ),
    ("slots.rdimms_per_channel", "0", NONE, Refused("rdimm-beside-flash-dimm", 1)),
    ("slots.memory_kind", "\"lrdimm\"", NONE, Refused("rdimms-only", 1)),
    ("slots.memory_kind", "\"udimm\"", NONE, Refused("rdimms-only", 1)),
    ("slots.memory_mode", "\"lockstep\"", NONE, Refused("independent-mode-only", 1)),
    ("slots.memory_mode", "\"sparing\"", NONE, Refused("independent-mode-only", 1)),
    ("slots.memory_mode", "\"mirroring\"", NONE, Refused("independent-mode-only", 1)),
];

/// Checks the cases of a device in a server.
fn hold(device: &str, system: &str, cases: &[Case]) {
    let wrong = failures(&Files::new(device, system), cases);
    assert!(wrong.is_empty(), "in {device}:\n{}", wrong.join("\n"));
}

#[test]
fn of_a_flash_dimm() {
    hold("exflash-400g", "x3850-x6", DIMM);
}

#[test]
fn of_a_drive_behind_a_link() {
    hold("nvme-tlc-3840g", "workstation", SSD);
}

#[test]
fn of_a_disk() {
    hold("sshd-7200-sata-500g", "rtp", DISK);
}

#[test]
fn of_a_ram_disk() {
    hold("ramdisk-ddr3-16g", "rtp", MEMORY);
}

#[test]
fn of_a_cloud_volume() {
    hold("ebs-gp3", "cloud-instance", VOLUME);
    hold("virtual-disk-thread", "cloud-instance", VOLUME_THREAD);
}

#[test]
fn of_limits() {
    hold("exflash-400g", "x3850-x6", LIMITS);
    hold("nvme-tlc-3840g", "workstation", LIMITS);
    hold("sshd-7200-sata-500g", "rtp", LIMITS);
    hold("ramdisk-ddr3-16g", "rtp", LIMITS);
}

#[test]
fn of_a_server() {
    hold("ramdisk-ddr3-16g", "x3850-x6", SERVER);
    hold("exflash-400g", "x3850-x6", SERVER_OF_DIMMS);
}

/// Every key of the schema has a case, and every case a key.
#[test]
fn every_parameter_has_a_case() {
    let of = |cases: &[Case]| -> BTreeSet<&str> { cases.iter().map(|case| case.0).collect() };
    // `zones.rs`, `placement.rs` and `power_cut.rs` have the cases of these tables.
    let form = |family: &str, without: &str| -> BTreeSet<&str> {
        let apart = |key: &str| {
            key.starts_with(without)
                || ["zones.", "placement.", "power_cut."].iter().any(|table| key.starts_with(table))
        };
        let keys = describe::keys().filter(|(of, key)| *of == family && !apart(key));
        keys.map(|(_, key)| key).collect()
    };
    let limited = |cases: &[Case]| &of(cases) | &of(LIMITS);
    assert_eq!(limited(DIMM), form("flash", "link."));
    assert_eq!(limited(SSD), form("flash", "memory_channel."));
    assert_eq!(limited(DISK), form("disk", "-"));
    assert_eq!(limited(MEMORY), form("memory", "-"));
    assert_eq!(&limited(VOLUME) | &of(VOLUME_THREAD), form("volume", "-"));
    assert_eq!(&of(SERVER) | &of(SERVER_OF_DIMMS), form("system", "-"));
    let families: BTreeSet<&str> = describe::keys().map(|(of, _)| of).collect();
    // `adapters.rs` has the cases of adapters.
    let known = ["flash", "disk", "memory", "volume", "system", "adapters"];
    assert_eq!(families, BTreeSet::from(known));
}
