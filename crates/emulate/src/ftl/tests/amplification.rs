//! Write amplification against the closed form, against itself over time, and of the sample
//! against the exact form.

use super::driver::{Driver, Load};
use crate::ftl::oracle::{spare_factor_with_fill, write_amplification_uniform};
use crate::ftl::{Shape, State};

const RANDOM: State = State::Random { pages_per_write: 1 };

/// A device of `blocks` blocks with this usable spare factor.
fn shape(pages_per_block: u32, blocks: u64, spare: f64, represent: u32) -> Shape {
    let raw_pages = u64::from(pages_per_block) * blocks;
    let usable = u64::from(pages_per_block) * (blocks - 6);
    let logical_pages = (usable as f64 * (1.0 - spare)) as u64;
    Shape { logical_pages, raw_pages, pages_per_block, represent }
}

fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let off = value / expected - 1.0;
    println!("{what}: {value:.4}, expected {expected:.4}, {:+.2} %", 100.0 * off);
    assert!(off.abs() < tolerance, "{what}: {value:.4}, expected {expected:.4}: {off:+.4}");
}

/// Greedy collection of blocks of 256 pages lies a little below the law of large blocks.
fn closed_form(blocks: u64, spares: &[f64]) {
    for &spare in spares {
        let shape = shape(256, blocks, spare, 1);
        let mut driver = Driver::new(shape, RANDOM, 1);
        let mut load = Load::uniform(0..shape.logical_pages, 2);
        driver.amplification(&mut load, 1.0);
        let amplification = driver.amplification(&mut load, 2.0);
        let expected = write_amplification_uniform(shape.spare_usable());
        assert_near(&format!("spare {spare}"), amplification, expected, 0.03);
        driver.ftl.check().unwrap();
    }
}

#[test]
fn uniform_writes_have_the_amplification_of_the_closed_form() {
    closed_form(200, &[0.12, 0.2857]);
}

#[test]
#[ignore = "long: run it with --release"]
fn uniform_writes_have_the_amplification_of_the_closed_form_in_full() {
    closed_form(2048, &[0.07, 0.0909, 0.12, 0.2, 0.2857, 0.5]);
}

#[test]
#[ignore = "temporary"]
fn kept() {
    for spare in [0.07, 0.2] {
        for b in [128, 500, 2000] {
            for ppb in [256, 1024, 4096] {
                let shape = shape(ppb, b, spare, 1);
                let mut driver = Driver::new(shape, RANDOM, 1);
                let mut load = Load::uniform(0..shape.logical_pages, 2);
                let dw = if u64::from(ppb) * b > 2_000_000 { 0.5 } else { 2.0 };
                driver.amplification(&mut load, 0.5);
                let wa = driver.amplification(&mut load, dw);
                // spare that gives it
                let (mut lo, mut hi) = (0.001, 0.999);
                for _ in 0..50 {
                    let m = (lo + hi) / 2.0;
                    if write_amplification_uniform(m) > wa { lo = m } else { hi = m }
                }
                let kept = b as f64 - shape.logical_pages as f64 / (1.0 - lo) / f64::from(ppb);
                println!(
                    "{spare} B {b} ppb {ppb} {wa:.3} {:+.2} % kept {kept:.2} ",
                    100.0 * (wa / write_amplification_uniform(shape.spare_usable()) - 1.0)
                );
            }
        }
    }
}
#[test]
#[ignore = "temporary"]
fn sample() {
    for spare in [0.1, 0.2] {
        let shapes = [1, 32].map(|k| shape(32768, 512, spare, k));
        for name in ["zipf 0.99", "zipf 1.2", "80/20", "uniform"] {
            let wa = shapes.map(|shape| {
                let n = shape.logical_pages;
                let mut driver = Driver::new(
                    shape,
                    if name == "sequential" { State::Sequential } else { RANDOM },
                    1,
                );
                let mut load = match name {
                    "uniform" => Load::uniform(0..n, 2),
                    "80/20" => Load::hot_cold(n, 0.2, 0.8, 2),
                    "zipf 0.99" => Load::zipf(n, 0.99, 2),
                    "zipf 1.2" => Load::zipf(n, 1.2, 2),
                    "sequential" => Load::sequential(n),
                    _ => {
                        driver.ftl.trim(0..n / 2);
                        Load::uniform(n / 2..n, 2)
                    }
                };
                driver.amplification(&mut load, 1.5);
                (
                    driver.amplification(&mut load, 0.5),
                    driver.ftl.counters().host_pages as f64 / (2 * n) as f64,
                )
            });
            println!("{spare} {name} {wa:.4?} {:+.2} %", 100.0 * (wa[1].0 / wa[0].0 - 1.0));
        }
    }
    let _ = spare_factor_with_fill(0.1, 0.5);
}
