//! One seed, one history, everywhere: the events of a few short runs are pinned as literals, so that
//! debug and release builds and all machines must agree on each of them, to the ns. (That another
//! seed gives another history is in `laws.rs`.)
//!
//! The devices belong to the tests, not to the catalog: a better figure there changes nothing here.
//! A change of the model that is meant to change a device's behaviour changes them; the failure
//! prints the new list.

#[path = "common/load.rs"]
mod load;

use load::{Files, Load, Ops, SMALL};

const DIMM: &str = include_str!("small/flash.toml");
const SSD: &str = include_str!("small/ssd.toml");
const DISK: &str = include_str!("small/disk.toml");
const MEMORY: &str = include_str!("small/memory.toml");
const SYSTEM: &str = include_str!("small/system.toml");

/// Two reads for each write, at random.
const MIX: Load = Load::new(Ops::Mix).deep(32);

/// Its name, its file and changes there, the load, and the hash of all events.
type Run = (&'static str, &'static str, &'static [(&'static str, &'static str)], Load, u64);

const PINNED: [Run; 6] = [
    ("a small flash DIMM that collects", DIMM, SMALL, MIX.count(20_000), 0xDDCF_6A93_DAE5_0968),
    ("four large ones", DIMM, &[], MIX.devices(4).workers(2).count(20_000), 0xE45F_8184_3D9D_B393),
    (
        "an SSD that fills its SLC cache",
        SSD,
        &[],
        MIX.blocks(128 << 10).fresh().count(3000),
        0xFC7D_094C_C7FE_5F17,
    ),
    ("an SSD that collects", SSD, &[], MIX.count(20_000), 0xA1F1_C686_C3A5_3C65),
    ("a disk", DISK, &[], MIX.count(3000), 0x447E_0288_FFFA_801E),
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
    let same = |run: &(_, iodyno_emulate::Machine, u64)| run.1.event_hash() == run.2;
    let lines: Vec<_> =
        runs.iter().map(|(what, m, _)| format!("{what}: 0x{:016X}", m.event_hash())).collect();
    assert!(runs.iter().all(same), "{lines:#?}");
}
