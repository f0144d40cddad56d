//! Reads of several flash pages: the pages that a lane sends in one frame hold their contexts until the slowest
//! arrives.

use crate::common;

use common::{Loop, RANDOM, flash, run};
use iodyno_emulate::spec::Flash;

/// Time of a page read; nothing else takes time.
const READ_NS: u64 = 50_000;

/// A device whose dies are numerous enough that two reads seldom use the same one. Each unit is in a separate
/// page.
fn device(contexts: u32, lanes: u32) -> Flash {
    let mut flash = flash();
    (flash.nand.channels, flash.nand.dies_per_channel) = (256, 8);
    flash.nand.parity_stripe = 0;
    flash.nand.raw_bytes = (1 << 30) / 2 * 3;
    flash.nand.page_bytes = 8192;
    flash.nand.pages_per_block = 4;
    flash.nand.read_ns = READ_NS;
    flash.controller.read_contexts = contexts;
    (flash.controller.lanes, flash.controller.page_split) = (lanes, 1.0);
    flash
}

/// During a page read all contexts are in use, except those of pages that wait for the other page of their frame.
/// Requests take contexts in order, so with an odd number of contexts and frames of two pages one context always waits.
/// A controller with no more contexts than lanes sends each page separately, because a page could otherwise wait
/// forever.
#[test]
fn a_context_holds_its_page_until_the_frame_is_complete() {
    for (contexts, lanes, block, pages_at_once) in [
        (4, 1, 8192, 4),
        (3, 1, 8192, 2),
        (2, 1, 8192, 2),
        (1, 1, 8192, 1),
        (4, 2, 16_384, 4),
        (3, 2, 16_384, 2),
        (2, 2, 16_384, 2),
        (1, 2, 16_384, 1),
        // Frames of one page each: a unit in each lane.
        (3, 2, 8192, 3),
        (3, 1, 4096, 3),
    ] {
        let load = Loop { block, ..Loop::reads(64) };
        let iops = run(&device(contexts, lanes), RANDOM, &load).iops;
        let pages = f64::from(block) / 4096.0;
        let expected = f64::from(pages_at_once) / pages / (READ_NS as f64 / 1e9);
        let what = format!("{contexts} contexts, {lanes} lanes, {block} bytes");
        assert!((iops / expected - 1.0).abs() < 0.01, "{what}: {iops} for {expected}");
    }
}

/// A large read ends, even if the controller has only one context more than lanes.
#[test]
fn large_reads_end() {
    for (contexts, lanes) in [(2, 1), (3, 2), (9, 8), (5, 4)] {
        let load = Loop { block: 1 << 20, time_ns: 200_000_000, ..Loop::reads(8) };
        let got = run(&device(contexts, lanes), RANDOM, &load);
        let most = f64::from(contexts) / 256.0 / (READ_NS as f64 / 1e9);
        assert!(got.iops > 0.4 * most && got.iops < 1.05 * most, "{contexts} {lanes}: {got:?}");
    }
}
