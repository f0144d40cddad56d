//! Write amplification of a device with several reclaim unit handles: compared with closed forms.
//!
//! Greedy collection chooses among the blocks of all handles, so it collects each handle's blocks at the same number
//! of valid pages. A block of uniform writes reaches this number at the same age, in mean lifetimes of a page. So
//! handles under uniform writes have the same spare factor and write amplification, whatever their rates of writes. A
//! block of a sequential cyclic log becomes empty earlier, so the log leaves all spare to the other handles.

use super::driver::{Driver, Load};
use crate::ftl::oracle::write_amplification_uniform;
use crate::ftl::{FREE_BLOCKS, Ftl, Placement, Shape, State, Stream};
use iodyno_units::rng::{below, stream, unit_open_closed};

const RANDOM: State = State::Random { pages_per_write: 1 };
/// Fraction of the pages that belong to the first handle.
const SMALL: f64 = 0.04;

fn placement(pages: u64, shares: &[f64], persistent: bool) -> Placement {
    let ends: Vec<u64> = shares.iter().map(|share| (pages as f64 * share) as u64).collect();
    Placement::new(ends, persistent)
}

fn shape(blocks: u64, spare: f64, represent: u32, placement: &Placement) -> Shape {
    let (pages_per_block, frontiers) = (1024, placement.frontiers());
    let empty = u64::from(FREE_BLOCKS - 1 + frontiers.div_ceil(2));
    let usable = u64::from(pages_per_block) * (blocks - empty);
    let logical_pages = (usable as f64 * (1.0 - spare)) as u64;
    let raw_pages = u64::from(pages_per_block) * blocks;
    Shape { logical_pages, raw_pages, pages_per_block, represent, frontiers }
}

/// A device with one handle per range of pages; the ranges end at `shares` of the capacity. `persistent`: whether
/// garbage collection keeps the data of each handle apart.
fn device(spare: f64, represent: u32, shares: &[f64], persistent: bool, state: State) -> Driver {
    let any = placement(100, shares, persistent);
    let shape = shape(400, spare, represent, &any);
    let placement = placement(shape.logical_pages, shares, persistent);
    Driver::placed(shape, placement, state, 1)
}

#[track_caller]
fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let off = value / expected - 1.0;
    println!("{what}: {value:.4}, expected {expected:.4}, {:+.2} %", 100.0 * off);
    assert!(off.abs() < tolerance, "{what}: {value:.4}, expected {expected:.4}, off {off:+.4}");
}

/// Uniform writes over each handle, at rates that are not proportional to its size. From the start, each handle has
/// the write amplification of a device with the same spare and without placement.
#[test]
fn uniform_handles_have_the_same_amplification() {
    for represent in [1, 2] {
        for (share_of_writes, spare) in [(0.5, 0.2), (0.2, 0.2857), (0.9, 0.12)] {
            let mut driver = device(spare, represent, &[0.3], true, RANDOM);
            driver.ftl.check().unwrap();
            let pages = driver.ftl.shape().logical_pages;
            let load = || Load::hot_cold(pages, 0.3, share_of_writes, 2);
            let expected = write_amplification_uniform(driver.ftl.shape().spare_usable());
            let what = format!("k = {represent}, {share_of_writes} of the writes");
            let mut load = load();
            let first = driver.amplification(&mut load, 0.5);
            assert_near(&format!("{what}, at first"), first, expected, 0.05);
            driver.amplification(&mut load, 2.0);
            let last = driver.amplification(&mut load, 1.0);
            assert_near(&what, last, expected, 0.04);
            driver.ftl.check().unwrap();
        }
    }
}

/// Write amplification of a log and a small region of random writes, which gets the fraction `random` of the writes, as
/// in CacheLib with FDP. Measured over the fourth pass of the log.
fn beside_a_log(driver: &mut Driver, random: f64) -> f64 {
    let pages = driver.ftl.shape().logical_pages;
    let small = (pages as f64 * SMALL) as u64;
    let mut rng = stream(3, "load", 0);
    let mut since = driver.ftl.counters();
    for pass in 0..4 {
        if pass == 3 {
            since = driver.ftl.counters();
        }
        for next in small..pages {
            while unit_open_closed(&mut rng) <= random {
                driver.write(below(&mut rng, small));
            }
            driver.write(next);
        }
    }
    driver.ftl.counters().since(&since).write_amplification()
}

/// With placement only the small region is amplified, and it has all the spare. Without placement, the random pages
/// leave holes in the log.
#[test]
fn a_log_leaves_its_spare_to_others() {
    for (random, spare) in [(0.5, 0.07), (0.5, 0.12), (0.2, 0.07), (0.8, 0.07)] {
        let mixed = beside_a_log(&mut device(spare, 1, &[], false, RANDOM), random);
        for (persistent, represent) in [(true, 1), (false, 1), (true, 2)] {
            let mut placed = device(spare, represent, &[SMALL], persistent, RANDOM);
            let amplification = beside_a_log(&mut placed, random);
            placed.ftl.check().unwrap();
            let spare = placed.ftl.shape().spare_usable();
            let own = 1.0 - (1.0 - spare) * SMALL / (spare + (1.0 - spare) * SMALL);
            let expected = 1.0 + random * (write_amplification_uniform(own) - 1.0);
            let what = format!("random {random}, spare {spare:.3}, {persistent}, k = {represent}");
            println!("{what}: {mixed:.3} without placement");
            assert_near(&what, amplification, expected, 0.04);
            assert!(mixed > 1.2 * amplification, "{mixed}");
        }
    }
}

/// A sequential cyclic log alone is not amplified, whatever handles it crosses.
#[test]
fn a_log_alone_is_not_amplified() {
    for persistent in [true, false] {
        let mut driver = device(0.1, 1, &[0.2, 0.5], persistent, State::Sequential);
        let mut load = Load::sequential(driver.ftl.shape().logical_pages);
        assert_near("log", driver.amplification(&mut load, 3.0), 1.0, 1e-9);
        driver.ftl.check().unwrap();
    }
}

/// Collection continues after power cuts that leave no block free. Trims may then make the preferred victim a block of
/// another handle, whose copies have no open block.
#[test]
fn collection_goes_on_after_power_cuts() {
    let mut without_free = 0;
    for (seed, persistent) in (0..40).flat_map(|seed| [(seed, true), (seed, false)]) {
        let shares: Vec<f64> = (1..8).map(|at| f64::from(at) / 8.0).collect();
        let placement = placement(640, &shares, persistent);
        let frontiers = placement.frontiers();
        let blocks = u64::from(640 / 4 + (frontiers - 1) + FREE_BLOCKS - 1 + frontiers);
        let shape = Shape {
            logical_pages: 640,
            raw_pages: 4 * blocks,
            pages_per_block: 4,
            represent: 1,
            frontiers,
        };
        let mut ftl = Ftl::placed(shape, placement, RANDOM, 0..640, seed, 0);
        let mut rng = stream(seed, "cuts", 0);
        for _ in 0..4000 {
            let lpn = below(&mut rng, 640);
            let host = Stream::Host(ftl.handle(lpn));
            while !ftl.has_space(host, 1) {
                assert!(ftl.victim().is_some(), "seed {seed}: no space and nothing to collect");
                let Some(copy) = ftl.next_copy() else {
                    ftl.retire_victim();
                    continue;
                };
                let stream = ftl.copy_stream().unwrap();
                let slot = ftl.reserve(stream).expect("a slot for each copy");
                if below(&mut rng, 12) > 0 {
                    ftl.commit_copy(copy, slot);
                    continue;
                }
                ftl.power_cut([slot]);
                if ftl.free_blocks() == 0 {
                    without_free += 1;
                    let block = below(&mut rng, blocks) as u32;
                    let pages = ftl.blocks.slots(block).filter_map(|slot| ftl.page_in(slot));
                    let pages: Vec<u64> = pages.skip(1).map(|page| page.index().into()).collect();
                    for page in pages {
                        ftl.trim(page..page + 1);
                    }
                }
            }
            let page = ftl.applies(lpn).unwrap();
            let slot = ftl.reserve(host).unwrap();
            ftl.commit(page, slot);
        }
        ftl.check().unwrap();
    }
    assert!(without_free > 1000, "{without_free}");
}
