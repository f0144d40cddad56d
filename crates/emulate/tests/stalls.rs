//! Housekeeping stalls: their number follows from the bytes written, whatever the size of the writes.

use crate::load;

use load::{Files, Load, Ops};

const SSD: &str = include_str!("small/ssd.toml");
const SYSTEM: &str = include_str!("small/system.toml");
/// Length of a stall, ns.
const STALL_NS: f64 = 5e6;

#[test]
fn each_mebibyte_stalls_once_whatever_the_block_size() {
    let files = Files { device: SSD.to_owned(), system: SYSTEM.to_owned() };
    let files = files.with(("stall.every", "\"1MiB\"")).with(("stall.lasts", "\"5ms\""));
    for kib in [64, 1536, 4096] {
        let ops = (96 << 10) / u64::from(kib);
        let load = Load::new(Ops::Writes).blocks(kib << 10).in_order_from(0).fresh().count(ops);
        let mut machine = load.machine(&files);
        let mean_ns = load.run(&mut machine);
        let stalls = machine.flash_counts(0).unwrap().stalls;
        assert_eq!(stalls, 96, "{kib} KiB");
        let of_stalls = f64::from(kib) / 1024.0 * STALL_NS;
        assert!((0.98..1.3).contains(&(mean_ns / of_stalls)), "{kib} KiB: {mean_ns} ns");
    }
}
