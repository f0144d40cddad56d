//! Wear levelling under a load that never writes most pages.

use super::driver::{Driver, Load};
use crate::ftl::{Shape, State, Wear};

const SHAPE: Shape = Shape {
    logical_pages: 64 * 50,
    raw_pages: 64 * 64,
    pages_per_block: 64,
    represent: 1,
    frontiers: 2,
};

/// Wear of the blocks after `mean` erases per block on average, with wear levelling (`levelled`) or without.
fn wear(levelled: bool, mean: f64) -> Wear {
    let mut driver = Driver::new(SHAPE, State::Sequential, 1);
    if !levelled {
        driver.ftl.blocks.wear_spread = u32::MAX;
    }
    // A tenth of the pages gets all writes.
    let mut load = Load::uniform(0..SHAPE.logical_pages / 10, 2);
    while driver.ftl.wear().mean < mean {
        driver.run(&mut load, 10_000);
    }
    driver.ftl.check().unwrap();
    driver.ftl.wear()
}

#[test]
fn wear_is_levelled() {
    let (early, late) = (wear(true, 100.0), wear(true, 200.0));
    for wear in [early, late] {
        assert!(wear.max - wear.min < 200, "{wear:?}");
    }
    // The spread does not grow, whereas with greedy collection alone it grows without limit.
    assert!(late.max - late.min < early.max - early.min + 20, "{early:?} {late:?}");
    let plain = wear(false, 200.0);
    assert!(plain.max - plain.min > 500 && plain.min == 0, "{plain:?}");
}
