//! A small flash device, a host without costs, and a closed loop that drives them.

#![allow(dead_code, reason = "each test file uses its own part")]

use iodyno_emulate::disk::{DiskSpec, Scheduler, Shingled};
use iodyno_emulate::spec::*;
use iodyno_emulate::{Completion, Machine, System};
use iodyno_units::rng::{Generator, below, stream, unit_open_closed};
use iodyno_units::{Op, OpKind};

/// A flash device of 1 GiB on 16 dies; only the dies take a noticeable time.
pub(crate) fn flash() -> Flash {
    Flash {
        capacity_bytes: 1 << 30,
        attach: Attach::Link {
            read_bytes_per_s: 1e12,
            write_bytes_per_s: 1e12,
            full_duplex: true,
            command_ns: 0,
            latency_ns: 0,
            queue_max: 1024,
            host_ns: 0,
            host_bytes_per_s: f64::INFINITY,
        },
        controller: Controller {
            read_command_ns: 0,
            read_latency_ns: 0,
            write_command_ns: 0,
            copy_ns: 0,
            turn_ns: 0,
            read_contexts: 0,
            lanes: 1,
            page_split: 1.0,
        },
        nand: Nand {
            channels: 16,
            dies_per_channel: 1,
            planes: 1,
            page_bytes: 4096,
            pages_per_block: 64,
            raw_bytes: (1 << 30) / 4 * 5,
            read_ns: 50_000,
            program_fast_ns: 500_000,
            program_slow_ns: 500_000,
            erase_ns: 2_000_000,
            channel_bytes_per_s: 1e12,
            programs_max: 0,
            suspend_ns: None,
            reads_first: true,
            variation: None,
            slc: None,
            folding: None,
            parity_stripe: 8,
        },
        buffer: Buffer { bytes: 256 << 10, accept_ns: 2_000, protected: true },
        translation: Translation {
            reserved_share: 0.0,
            map_writes_per_page: 0.0,
            unit_bytes: 4096,
            victim: VictimRule::default(),
            freed_per_write: 1.0,
            stall: None,
        },
        zones: None,
        placement: None,
        power_cut: None,
        endurance: Endurance { drive_writes_per_day: 3.0, years: 5.0, cycles: 3000 },
        scale: 1,
    }
}

/// A disk of 10 000 rpm, with or without a write cache (which is volatile).
pub(crate) fn disk(write_cache: bool) -> Kind {
    Kind::Disk(Box::new(DiskSpec {
        capacity_bytes: 10_000_000_000,
        rpm: 10_000,
        heads: 2,
        zones: 8,
        outer_bytes_per_s: 168e6,
        inner_bytes_per_s: 93e6,
        track_to_track_ns: 300_000,
        average_seek_ns: 3_800_000,
        full_stroke_ns: 7_800_000,
        write_settle_ns: 600_000,
        head_switch_ns: 500_000,
        cylinder_switch_ns: 600_000,
        command_ns: 20_000,
        link_bytes_per_s: 600e6,
        queue_max: 64,
        scheduler: Scheduler::Satf { age_max_ns: 500_000_000, window: 64 },
        buffer_bytes: 256 << 10,
        write_cache,
        accept_ns: 50_000,
        read_ahead_bytes: 0,
        read_segments: 1,
        flash_bytes: 0,
        flash_read_ns: 0,
        shingled: None,
    }))
}

/// A disk with bands of 64 KiB and a media cache of six ranges, with or without a write cache.
pub(crate) fn shingled(write_cache: bool) -> Kind {
    let Kind::Disk(mut disk) = disk(write_cache) else { unreachable!() };
    let (band_bytes, idle_ns) = (64 << 10, Some(20_000_000));
    disk.shingled =
        Some(Shingled { band_bytes, cache_bytes: 2 * band_bytes, entries_max: 6, idle_ns });
    Kind::Disk(disk)
}

/// Memory as a block device. `protected`: whether it keeps its content in a power cut.
pub(crate) fn memory(protected: bool) -> Kind {
    Kind::Memory(Box::new(Memory {
        capacity_bytes: 1 << 30,
        io_ns: 3_000,
        read_bytes_per_s: 6e9,
        write_bytes_per_s: 6e9,
        read_passes: 1.0,
        write_passes: 1.0,
        flush_ns: 100,
        varying_share: 0.0,
        queues: false,
        protected,
    }))
}

/// A cloud volume whose latencies vary.
pub(crate) fn volume() -> CloudVolume {
    CloudVolume {
        capacity_bytes: 1 << 30,
        read_ns: 100_000,
        write_ns: 100_000,
        flush_ns: 10_000,
        varying_share: 0.5,
        bytes_per_s: 10e9,
        queue_max: 1024,
        io_thread: None,
    }
}

/// A host with one socket of many cores, whose software takes no time.
pub(crate) fn host() -> Host {
    Host {
        sockets: 1,
        cores_per_socket: 64,
        generator_ns: 0,
        wake_ns: 0,
        memory_bytes_per_s: 50e9,
        memory_channel_bytes_per_s: 10e9,
        memory_balanced: true,
        unbalanced_share: 0.75,
        remote_copy_factor: 1.5,
        workers_near: true,
        driver_write_ns: 0,
        slots: Slots {
            flash_dimms_per_socket: 8,
            channels_per_socket: 8,
            rdimms_per_channel: 1,
            memory_kind: MemoryKind::Rdimm,
            memory_mode: MemoryMode::Independent,
        },
    }
}

#[allow(clippy::needless_pass_by_value, reason = "so that it can be made in place")]
/// A system of `count` equal devices, preconditioned with the pattern `how`.
pub(crate) fn system(kind: Kind, how: Written, count: u32) -> System {
    let mut system = System::new("test", host());
    for _ in 0..count {
        add(&mut system, kind.clone(), how);
    }
    system
}

/// Adds a device to a system.
pub(crate) fn add(system: &mut System, kind: Kind, how: Written) {
    let device = Device { name: "device".to_owned(), kind, hot_swap: true, limits: Vec::new() };
    system.add_device(device, Preconditioned { how, fill: 1.0 }, 0);
}

/// Result of a closed loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Completions a second.
    pub iops: f64,
    /// Mean latency of reads, ns.
    pub read_ns: f64,
    /// Mean latency of writes, ns.
    pub write_ns: f64,
    /// Shortest latency, ns.
    pub least_ns: u64,
    /// Mean number of outstanding operations, integrated over time.
    pub outstanding: f64,
    /// Mean latency of all operations, ns.
    pub mean_ns: f64,
    /// 99th percentile of the latency of all operations, ns.
    pub p99_ns: u64,
    pub hash: u64,
}

/// Closed loop of `workers` × `depth` on each volume, aligned random blocks over the whole volume.
pub(crate) struct Loop {
    pub read_share: f64,
    pub block: u32,
    pub workers: u32,
    pub depth: u32,
    pub ramp_ns: u64,
    pub time_ns: u64,
}

impl Loop {
    pub(crate) fn reads(depth: u32) -> Self {
        Self {
            read_share: 1.0,
            block: 4096,
            workers: 1,
            depth,
            ramp_ns: 5_000_000,
            time_ns: 100_000_000,
        }
    }

    fn op(&self, rng: &mut Generator, capacity: u64) -> Op {
        let kind =
            if unit_open_closed(rng) <= self.read_share { OpKind::Read } else { OpKind::Write };
        let block = u64::from(self.block);
        let offset_bytes = below(rng, capacity / block) * block;
        Op { offset_bytes, len_bytes: self.block, kind, fua: false }
    }

    pub(crate) fn run(&self, machine: &mut Machine) -> Outcome {
        let volumes = machine.volumes();
        let mut homes = Vec::new();
        for volume in 0..volumes {
            for _ in 0..self.workers {
                homes.push((volume, machine.add_worker(volume)));
            }
        }
        let mut rng = stream(1, "loop", 0);
        let mut issued: Vec<(u64, OpKind)> = Vec::new();
        for &(volume, worker) in &homes {
            for _ in 0..self.depth {
                let op = self.op(&mut rng, machine.capacity_bytes(volume));
                let at = machine.submit(0, worker, volume, &op, issued.len() as u64);
                issued.push((at, op.kind));
            }
        }
        let end = self.ramp_ns + self.time_ns;
        let mut o = Outcome { least_ns: u64::MAX, ..Outcome::default() };
        let (mut done, mut ns, mut count) = (0_u64, [0_u64; 2], [0_u64; 2]);
        let mut all = Vec::new();
        while let Some(c) = machine.next_completion(end) {
            let Completion { at_ns, token, volume, worker, failure } = c;
            assert_eq!(failure, None);
            let (from, kind) = issued[token as usize];
            if at_ns >= self.ramp_ns {
                done += 1;
                ns[kind.index()] += at_ns - from;
                count[kind.index()] += 1;
                all.push(at_ns - from);
                o.least_ns = o.least_ns.min(at_ns - from);
                o.outstanding += (at_ns - from.max(self.ramp_ns)) as f64;
            }
            let op = self.op(&mut rng, machine.capacity_bytes(volume));
            issued[token as usize] = (machine.submit(at_ns, worker, volume, &op, token), op.kind);
        }
        for (from, _) in issued {
            o.outstanding += end.saturating_sub(from.max(self.ramp_ns)) as f64;
        }
        assert_eq!(machine.check(), Ok(()));
        o.outstanding /= self.time_ns as f64;
        o.iops = done as f64 * 1e9 / self.time_ns as f64;
        o.read_ns = ns[0] as f64 / count[0].max(1) as f64;
        o.write_ns = ns[1] as f64 / count[1].max(1) as f64;
        o.mean_ns = (ns[0] + ns[1]) as f64 / done.max(1) as f64;
        all.sort_unstable();
        o.p99_ns = all.get(all.len() * 99 / 100).copied().unwrap_or(0);
        o.hash = machine.event_hash();
        o
    }
}

/// Runs a loop on a fresh machine of one flash device.
pub(crate) fn run(flash: &Flash, how: Written, l: &Loop) -> Outcome {
    let system = system(Kind::Flash(Box::new(flash.clone())), how, 1);
    l.run(&mut Machine::new(&system, 1).unwrap())
}

/// State after random 4 KiB writes.
pub(crate) const RANDOM: Written = Written::Random { block_bytes: 4096 };
