//! Time and memory that the translation layer of a 400 GB device takes. Printed, not asserted: `cargo bench -p
//! iodyno-emulate`.

use std::fs;
use std::hint::black_box;

use driver::{Driver, Load};
use ftl::{Shape, State};
use iodyno_emulate::ftl;

#[path = "../src/ftl/tests/driver.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod driver;

const SHAPE: Shape = Shape {
    logical_pages: 97_656_250,
    raw_pages: 1 << 27,
    pages_per_block: 1 << 17,
    represent: 1,
    frontiers: 2,
};

/// CPU time of this thread in seconds, independent of other work on the machine.
fn cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let ran_ns = stat.split(' ').next().expect("three numbers");
    ran_ns.parse::<f64>().expect("a number") / 1e9
}

fn main() {
    const MIB: f64 = 1024.0 * 1024.0;
    for represent in [32, 1] {
        let shape = Shape { represent, ..SHAPE };
        for state in [
            State::Fresh,
            State::Sequential,
            State::Random { pages_per_write: 1 },
            State::Random { pages_per_write: 32 },
        ] {
            let started = cpu_s();
            let driver = Driver::new(shape, state, 1);
            println!(
                "k = {represent}, {state:?}: ready in {:.3} s, {:.1} MiB",
                cpu_s() - started,
                driver.ftl.memory_bytes() as f64 / MIB
            );
        }
        let n = shape.logical_pages;
        for (name, state, mut load) in [
            ("uniform", State::Random { pages_per_write: 1 }, Load::uniform(0..n, 2)),
            ("zipf 0.99", State::Random { pages_per_write: 1 }, Load::zipf(n, 0.99, 2)),
            ("sequential", State::Sequential, Load::sequential(n)),
        ] {
            let mut driver = Driver::new(shape, state, 1);
            // Drawn beforehand, because drawing takes longer than writing.
            let writes: Vec<u32> = (0..20_000_000).map(|_| load.next() as u32).collect();
            let started = cpu_s();
            for &lpn in &writes {
                driver.write(u64::from(lpn));
            }
            let taken = cpu_s() - started;
            let counters = driver.ftl.counters();
            println!(
                "k = {represent}, {name}: {:.1} ns a host write, write amplification {:.3}",
                taken * 1e9 / writes.len() as f64,
                counters.write_amplification()
            );
        }
        let driver = Driver::new(shape, State::Random { pages_per_write: 1 }, 1);
        let mut load = Load::uniform(0..n, 3);
        let started = cpu_s();
        for _ in 0..20_000_000 {
            black_box(driver.ftl.find(load.next()));
        }
        println!("k = {represent}: {:.1} ns a find", (cpu_s() - started) * 1e9 / 2e7);
    }
}
