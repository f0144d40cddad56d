//! Translation units above 4 KiB. The write amplification of smaller random writes is that of greedy collection,
//! times the unit size divided by the write size.

use crate::common;

use common::{Loop, flash, system};
use iodyno_emulate::Machine;
use iodyno_emulate::endurance::outlook;
use iodyno_emulate::spec::{Kind, Written};

#[test]
fn a_write_of_a_part_programs_the_whole_unit() {
    for (unit, block) in [(4, 4), (16, 4), (16, 16), (64, 4), (64, 16), (64, 64), (16, 64)] {
        for represent in [1, 4] {
            let mut f = flash();
            (f.nand.channels, f.nand.planes, f.nand.page_bytes) = (4, 4, 16 << 10);
            f.nand.pages_per_block = 16;
            f.nand.raw_bytes = (1 << 30) / 4 * 5;
            f.translation.unit_bytes = unit << 10;
            let of_4_kib = outlook(&f).write_amplification;
            let how = Written::Random { block_bytes: block << 10 };
            let s = system(Kind::Flash(Box::new(f)), how, 1);
            let mut m = Machine::represented(&s, 1, represent).unwrap();
            let time_ns = 4_000_000_000 / u64::from((unit / block).max(1));
            let of = Loop { read_share: 0.0, block: block << 10, time_ns, ..Loop::reads(64) };
            of.run(&mut m);
            let counts = m.flash_counts(0).unwrap();
            let expected = of_4_kib * 4.0 / f64::from(unit.min(block));
            let off = counts.write_amplification() / expected - 1.0;
            let what = format!("{unit} KiB, writes of {block} KiB, 1 in {represent}");
            assert!(off.abs() < 0.04, "{what}: {counts:?} for {expected:.3} ({off:+.3})");
        }
    }
}
