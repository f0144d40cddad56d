//! What a device of 400 GB takes in time and memory. Times are printed, not judged:
//! `cargo test --release -p iodyno-emulate cost -- --ignored --nocapture --test-threads 1`

use std::hint::black_box;
use std::time::Instant;

use super::driver::{Driver, Load};
use crate::ftl::{Shape, State};

const SHAPE: Shape =
    Shape { logical_pages: 97_656_250, raw_pages: 1 << 27, pages_per_block: 1 << 17, represent: 1 };

#[test]
#[ignore = "prints times: run it with --release"]
fn cost() {
    const MIB: f64 = 1024.0 * 1024.0;
    for represent in [32, 1] {
        let shape = Shape { represent, ..SHAPE };
        for state in [
            State::Fresh,
            State::Sequential,
            State::Random { pages_per_write: 1 },
            State::Random { pages_per_write: 32 },
        ] {
            let started = Instant::now();
            let driver = Driver::new(shape, state, 1);
            println!(
                "k = {represent}, {state:?}: ready in {:.3} s, {:.1} MiB",
                started.elapsed().as_secs_f64(),
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
            let writes = if represent == 1 { 20_000_000 } else { 50_000_000 };
            let started = Instant::now();
            let mut sum = 0;
            for _ in 0..writes {
                sum ^= load.next();
            }
            black_box(sum);
            let idle = started.elapsed();
            let started = Instant::now();
            let counters = driver.run(&mut load, writes);
            let taken = started.elapsed().saturating_sub(idle);
            println!(
                "k = {represent}, {name}: {:.1} ns a host write, write amplification {:.3}",
                taken.as_secs_f64() * 1e9 / writes as f64,
                counters.write_amplification()
            );
        }
        let driver = Driver::new(shape, State::Random { pages_per_write: 1 }, 1);
        let mut load = Load::uniform(0..n, 3);
        let started = Instant::now();
        for _ in 0..20_000_000 {
            black_box(driver.ftl.find(load.next()));
        }
        println!("k = {represent}: {:.1} ns a find", started.elapsed().as_secs_f64() * 1e9 / 2e7);
    }
}
