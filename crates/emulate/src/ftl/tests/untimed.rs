//! Writes without time: their steady state, the rules by which victims are chosen, and devices scaled down.

use super::driver::Driver;
use crate::ftl::oracle::write_amplification_uniform;
use crate::ftl::permute::Permutation;
use crate::ftl::{FREE_BLOCKS, Ftl, Shape, State};
use crate::spec::VictimRule;
use iodyno_units::rng::{below, stream};

/// A device with a fifth more flash than data.
fn shape(pages_per_block: u32) -> Shape {
    let raw_pages = u64::from(pages_per_block) * (300 + u64::from(FREE_BLOCKS));
    Shape {
        logical_pages: u64::from(pages_per_block) * 250,
        raw_pages,
        pages_per_block,
        represent: 1,
        frontiers: 2,
    }
}

/// Write amplification of the last of 5 passes without time. Writes go to a random selection of the pages, the fraction
/// `written` of all.
fn amplification(shape: Shape, rule: VictimRule, written: f64) -> f64 {
    let pages = shape.logical_pages;
    let mut ftl = Ftl::new(shape, State::Sequential, 0..pages, 1, 0);
    ftl.choose_victims_by(rule);
    let places = Permutation::new(pages, 3);
    let mut rng = stream(2, "load", 0);
    let mut before = ftl.counters();
    for count in 0..5 * pages {
        if count == 4 * pages {
            before = ftl.counters();
        }
        ftl.write_untimed(places.apply(below(&mut rng, (pages as f64 * written) as u64)));
    }
    ftl.check().unwrap();
    ftl.counters().since(&before).write_amplification()
}

/// Uniform writes reach the closed form by either rule, and timed collection continues from that state.
#[test]
fn uniform_writes_reach_the_closed_form() {
    let shape = shape(1024);
    let expected = write_amplification_uniform(shape.spare_usable());
    for rule in VictimRule::ALL {
        let found = amplification(shape, rule, 1.0);
        assert!((found / expected - 1.0).abs() < 0.03, "{rule:?}: {found}, expected {expected}");
    }
    let mut driver = Driver::new(shape, State::Sequential, 1);
    let mut rng = stream(2, "load", 0);
    (0..4 * shape.logical_pages)
        .for_each(|_| driver.ftl.write_untimed(below(&mut rng, shape.logical_pages)));
    let mut load = super::driver::Load::uniform(0..shape.logical_pages, 3);
    let timed = driver.amplification(&mut load, 1.0);
    assert!((timed / expected - 1.0).abs() < 0.03, "{timed}, expected {expected}");
}

/// Static data at random places stays mixed with overwritten data if victims have the fewest valid pages. With
/// cost-benefit victims it gathers in separate blocks.
#[test]
fn cost_and_benefit_separate_static_data() {
    let of = |rule, written| amplification(shape(512), rule, written);
    let (fewest, all) = (of(VictimRule::FewestValid, 0.6), of(VictimRule::FewestValid, 1.0));
    let separated = of(VictimRule::CostBenefit, 0.6);
    assert!(fewest > all, "static data costs: {fewest} against {all}");
    assert!(separated < 0.95 * all, "static data saves: {separated} against {all}");
}

/// Aging depends on the number of blocks, not on that of pages: a device of a quarter of the size ages alike.
#[test]
fn a_smaller_device_ages_alike() {
    for rule in VictimRule::ALL {
        for written in [0.3, 0.6] {
            let (large, small) = (
                amplification(shape(2048), rule, written),
                amplification(shape(512), rule, written),
            );
            let off = small / large - 1.0;
            assert!(off.abs() < 0.05, "{rule:?}, {written}: {small} against {large}");
        }
    }
}
