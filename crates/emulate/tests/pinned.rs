//! One seed gives one history everywhere: the events of a few short runs are pinned as literals, so that
//! debug and release builds on all machines must agree on each of them, to the ns. (`laws.rs` checks that another
//! seed gives another history.)
//!
//! The devices belong to the tests rather than the catalog, so that corrections of the catalog change nothing here.
//! A deliberate change of a device's modelled behaviour changes the pinned events; the failure
//! prints the new list.

use crate::load;

use iodyno_emulate::spec::{
    Access, Adapters, ArrayShape, Cache, Drawers, HostPaths, ParityEngine, Preconditioned,
    Processor, Slot, Written,
};
use iodyno_emulate::{Machine, System};
use iodyno_raid::{Level, Rotation};
use load::{Files, Load, Ops, SMALL};

const DIMM: &str = include_str!("small/flash.toml");
const SSD: &str = include_str!("small/ssd.toml");
const DISK: &str = include_str!("small/disk.toml");
const MEMORY: &str = include_str!("small/memory.toml");
const SYSTEM: &str = include_str!("small/system.toml");

/// Two reads for each write, at random.
const MIX: Load = Load::new(Ops::Mix).deep(32);

/// Name of the run, device file and changes of it, load, and hash of all events.
type Run = (&'static str, &'static str, &'static [(&'static str, &'static str)], Load, u64);

/// Bands and a media cache that is full.
const SHINGLED: &[(&str, &str)] =
    &[("shingled.band", "\"1MiB\""), ("shingled.cache", "\"16MiB\""), ("shingled.entries", "1000")];

const PINNED: [Run; 7] = [
    ("a small flash DIMM that collects", DIMM, SMALL, MIX.count(20_000), 0x4A8F_823C_4E13_5ED2),
    ("four large ones", DIMM, &[], MIX.devices(4).workers(2).count(20_000), 0x8B61_67B2_72C7_13DB),
    (
        "an SSD that fills its SLC cache",
        SSD,
        &[],
        MIX.blocks(128 << 10).fresh().count(3000),
        0xFC7D_094C_C7FE_5F17,
    ),
    ("an SSD that collects", SSD, &[], MIX.count(20_000), 0x153A_E180_BF22_5075),
    ("a disk", DISK, &[], MIX.count(3000), 0x447E_0288_FFFA_801E),
    ("a shingled disk", DISK, SHINGLED, MIX.count(3000), 0xB4AB_FBE9_DEFF_FC48),
    ("a RAM disk", MEMORY, &[], MIX.workers(16).deep(1).count(20_000), 0x7C89_FD43_60E9_E36E),
];

#[test]
fn a_history_is_the_same_on_every_build() {
    let runs = PINNED.map(|(what, device, changes, load, pinned)| {
        let files = Files { device: device.to_owned(), system: SYSTEM.to_owned() };
        let files = changes.iter().fold(files, |files, change| files.with(*change));
        let mut machine = load.machine(&files);
        load.run(&mut machine);
        (what, machine, pinned)
    });
    // They have the effects that they are named for.
    let flash = |number: usize| runs[number].1.flash_counts(0).unwrap();
    for collects in [0, 1, 3] {
        assert!(flash(collects).copied_pages > 0);
    }
    assert!(flash(0).erases > 0);
    assert!(flash(2).host_pages > (64 << 20) / 4096);
    let same = |run: &(_, Machine, u64)| run.1.event_hash() == run.2;
    let lines: Vec<_> =
        runs.iter().map(|(what, m, _)| format!("{what}: 0x{:016X}", m.event_hash())).collect();
    assert!(runs.iter().all(same), "{lines:#?}");
}

/// Two arrays of three devices behind a pair of adapters, whose cache is small: units of it are hit, written again
/// while they are destaged, and evicted.
fn behind_adapters(device: &str) -> Machine {
    let files = Files { device: device.to_owned(), system: SYSTEM.to_owned() };
    let (device, host) = files.read();
    let mut system = System::new("pinned", host);
    let state = Preconditioned { how: Written::Random { block_bytes: 4096 }, fill: 1.0 };
    for _ in 0..6 {
        system.add_device(device.clone(), state, 0);
    }
    let adapters = Adapters {
        count: 2,
        access: Access::Balanced,
        host_paths: HostPaths::Both,
        commands_max: 40,
        slot: Slot { read_bytes_per_s: 6.5e9, write_bytes_per_s: 6.3e9, fetch_ns: 100 },
        processor: Processor {
            read_ns: 1120,
            write_ns: 405,
            device_ns: 600,
            raid6_ns: 880,
            forward_ns: 1000,
        },
        parity: ParityEngine { xor_bytes_per_s: 1.6e9, gf_bytes_per_s: 1.2e9 },
        latency_ns: 10_000,
        strip_bytes: 64 << 10,
        cache: Some(Cache {
            bytes: 8 << 20,
            write_ns: 6660,
            mirror_ns: 3000,
            mirror_bytes_per_s: 2.2e9,
            mirror_latency_ns: 5000,
            destage_share: 0.5,
            destage_ramp_bytes: 256 << 10,
            destage_depth: 8,
            keeps_reads: true,
        }),
        devices_max: 96,
        ssds_max: 48,
        aa_links: 1,
        failover_ns: 0,
        drawers: Drawers { count: 2, bays: 24, bytes_per_s: 4e9 },
    };
    system.attach(adapters).unwrap();
    let shape = ArrayShape {
        level: Level::Raid5,
        members: 3,
        strip_bytes: 64 << 10,
        rotation: Rotation::LeftSymmetric,
    };
    let arrays = [0..3, 3..6].map(|members| (members, Some((shape, "array".to_owned()))));
    system.group(arrays.to_vec()).unwrap();
    let most = (files.read().0.capacity_bytes() >> 26).clamp(1, 4096);
    Machine::represented(&system, 1, 1 << most.ilog2()).unwrap()
}

#[test]
fn so_is_that_of_arrays_behind_adapters() {
    let loads = [
        ("all over", MIX.count(30_000), 0x7BF9_BA30_3D9E_A8C2),
        ("in little space", MIX.within(24 << 20).count(30_000), 0x0C31_029E_9496_D779),
        (
            "parts of units and several",
            MIX.blocks(6 << 10).within(24 << 20).count(10_000),
            0xA5B1_10E4_EC0D_6BA2,
        ),
        ("whole stripes", MIX.blocks(256 << 10).deep(4).count(3000), 0x3C4A_1EA0_C6CC_5AB5),
    ];
    let hashes = loads.map(|(what, load, pinned)| {
        let mut machine = behind_adapters(SSD);
        load.run(&mut machine);
        (what, machine.event_hash(), pinned)
    });
    let lines: Vec<_> =
        hashes.iter().map(|(what, hash, _)| format!("{what}: 0x{hash:016X}")).collect();
    assert!(hashes.iter().all(|(_, hash, pinned)| hash == pinned), "{lines:#?}");
}
