//! Write amplification: compared with the closed form, over time, and between a sample of the pages
//! and all pages.

use super::driver::{Driver, Load};
use crate::ftl::oracle::{spare_factor_with_fill, write_amplification_uniform};
use crate::ftl::{FREE_BLOCKS, Shape, State};

const RANDOM: State = State::Random { pages_per_write: 1 };

/// A device of `blocks` blocks with this usable spare factor, with every page in the map.
fn shape(pages_per_block: u32, blocks: u64, spare: f64) -> Shape {
    let raw_pages = u64::from(pages_per_block) * blocks;
    let usable = u64::from(pages_per_block) * (blocks - u64::from(FREE_BLOCKS));
    let logical_pages = (usable as f64 * (1.0 - spare)) as u64;
    Shape { logical_pages, raw_pages, pages_per_block, represent: 1, frontiers: 2 }
}

#[track_caller]
fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let off = value / expected - 1.0;
    println!("{what}: {value:.4}, expected {expected:.4}, {:+.2} %", 100.0 * off);
    assert!(off.abs() < tolerance, "{what}: {value:.4}, expected {expected:.4}, off {off:+.4}");
}

fn closed_form(pages_per_block: u32, blocks: u64, spares: &[f64]) {
    for &spare in spares {
        let shape = shape(pages_per_block, blocks, spare);
        let mut driver = Driver::new(shape, RANDOM, 1);
        let mut load = Load::uniform(0..shape.logical_pages, 2);
        driver.amplification(&mut load, 0.5);
        let amplification = driver.amplification(&mut load, 1.0);
        let expected = write_amplification_uniform(shape.spare_usable());
        assert_near(&format!("spare {spare}"), amplification, expected, 0.03);
        driver.ftl.check().unwrap();
    }
}

#[test]
fn uniform_writes_have_the_amplification_of_the_closed_form() {
    closed_form(1024, 80, &[0.12, 0.2857]);
}

#[test]
#[cfg(not(debug_assertions))]
#[ignore = "long: run it with --release"]
fn uniform_writes_have_the_amplification_of_the_closed_form_in_full() {
    closed_form(4096, 512, &[0.07, 0.0909, 0.12, 0.1667, 0.2, 0.25, 0.2857, 0.35, 0.5]);
}

/// Checks that the constructed state is steady: the initial write amplification equals that after writes of three times
/// the device's capacity.
fn no_drift(shape: Shape, tolerance: f64) {
    for pages_per_write in [1, 8] {
        let mut driver = Driver::new(shape, State::Random { pages_per_write }, 1);
        driver.ftl.check().unwrap();
        let places = shape.logical_pages / u64::from(pages_per_write);
        let mut load = Load::uniform_of(places, pages_per_write, 2);
        let first = driver.amplification(&mut load, 0.25);
        driver.amplification(&mut load, 1.75);
        let third = driver.amplification(&mut load, 1.0);
        let what = format!("{pages_per_write} of k = {}", shape.represent);
        assert_near(&what, first, third, tolerance);
    }
}

#[test]
fn a_constructed_steady_state_is_steady() {
    no_drift(shape(1024, 100, 0.2), 0.04);
    no_drift(Shape { represent: 8, ..shape(4096, 100, 0.2) }, 0.04);
}

#[test]
#[cfg(not(debug_assertions))]
#[ignore = "long: run it with --release"]
fn a_constructed_steady_state_is_steady_in_full() {
    // With so little spare, greedy collection improves over several device writes, more so
    // if the blocks are few and small.
    for (spare, tolerance) in [(0.07, 0.03), (0.12, 0.02), (0.2, 0.02), (0.2857, 0.02)] {
        no_drift(shape(4096, 512, spare), tolerance);
        no_drift(Shape { represent: 32, ..shape(65536, 512, spare) }, tolerance);
    }
}

/// Random writes within a part of a sequentially filled device start in their steady state: the pages outside the part
/// are in separate blocks, and all the spare belongs to the part.
#[test]
fn writes_within_a_part_start_where_they_lead() {
    for represent in [1, 8] {
        let shape = match represent {
            1 => shape(1024, 100, 0.12),
            _ => Shape { represent, ..shape(4096, 200, 0.12) },
        };
        let part = shape.logical_pages / 5..shape.logical_pages / 10 * 7;
        let (first_lpn, end_lpn) = (part.start, part.end);
        let within = State::RandomWithin { pages_per_write: 1, first_lpn, end_lpn };
        let mut constructed = Driver::new(shape, within, 1);
        constructed.ftl.check().unwrap();
        let at_once = constructed.amplification(&mut Load::uniform(part.clone(), 2), 0.5);
        let mut written = Driver::new(shape, State::Sequential, 1);
        let mut load = Load::uniform(part.clone(), 3);
        let at_first = written.amplification(&mut load, 0.25);
        written.amplification(&mut load, 2.0);
        let at_last = written.amplification(&mut load, 1.0);
        let active = (part.end - part.start) as f64 / shape.logical_pages as f64;
        // The slots that the other pages occupy are not available to the part.
        let data = 1.0 - shape.spare_usable();
        let spare = 1.0 - data * active / (1.0 - data * (1.0 - active));
        let expected = write_amplification_uniform(spare);
        assert_near(&format!("k = {represent}, at once"), at_once, expected, 0.03);
        assert_near(&format!("k = {represent}, in the long run"), at_last, expected, 0.03);
        assert!(at_first < 0.8 * expected, "{at_first}: at first it is another");
    }
}

/// Checks that a sample of the pages has the same write amplification as all pages, under several kinds of load.
fn sample_is_as_exact(exact: Shape, represent: u32, warm_up: f64, tolerance: f64) {
    let pages = exact.logical_pages;
    for name in ["uniform", "80/20", "zipf 0.99", "zipf 1.2", "sequential", "half trimmed"] {
        let [expected, amplification] = [1, represent].map(|represent| {
            let shape = Shape { represent, ..exact };
            let state = if name == "sequential" { State::Sequential } else { RANDOM };
            let mut driver = Driver::new(shape, state, 1);
            let mut load = match name {
                "uniform" => Load::uniform(0..pages, 2),
                "80/20" => Load::hot_cold(pages, 0.2, 0.8, 2),
                "zipf 0.99" => Load::zipf(pages, 0.99, 2),
                "zipf 1.2" => Load::zipf(pages, 1.2, 2),
                "sequential" => Load::sequential(pages),
                _ => {
                    driver.ftl.trim(0..pages / 2);
                    Load::uniform(pages / 2..pages, 2)
                }
            };
            driver.amplification(&mut load, warm_up);
            let amplification = driver.amplification(&mut load, 0.5);
            driver.ftl.check().unwrap();
            match name {
                "sequential" => assert_near(name, amplification, 1.0, 1e-9),
                "half trimmed" => {
                    let spare = spare_factor_with_fill(shape.spare_usable(), 0.5);
                    let expected = write_amplification_uniform(spare);
                    assert_near(name, amplification, expected, tolerance);
                }
                _ => {}
            }
            amplification
        });
        assert_near(&format!("{name}, k = {represent}"), amplification, expected, tolerance);
    }
}

#[test]
fn the_sample_amplifies_like_the_exact_form() {
    sample_is_as_exact(shape(2048, 96, 0.2), 4, 0.5, 0.05);
}

#[test]
#[cfg(not(debug_assertions))]
#[ignore = "long: run it with --release"]
fn the_sample_amplifies_like_the_exact_form_in_full() {
    for spare in [0.1, 0.2] {
        sample_is_as_exact(shape(32768, 512, spare), 32, 1.5, 0.03);
    }
}

/// On a fresh device nothing is copied until the spare is used up.
#[test]
fn a_fresh_device_does_not_amplify_until_its_spare_is_used() {
    for represent in [1, 4] {
        let shape = Shape { represent, ..shape(1024, 64, 0.2) };
        let mut driver = Driver::new(shape, State::Fresh, 1);
        let mut load = Load::uniform(0..shape.logical_pages, 2);
        let spare_used = 1.0 / (1.0 - shape.spare_usable());
        let fresh = driver.amplification(&mut load, spare_used - 0.05);
        assert!((fresh - 1.0).abs() < 1e-12, "{fresh}");
        assert!(driver.amplification(&mut load, 0.5) > 1.3);
        driver.ftl.check().unwrap();
    }
}
