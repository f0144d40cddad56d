//! The map compared with a model that records the content of every slot, with program operations and copies in
//! flight that complete in any order.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::driver::{Driver, Load};
use crate::ftl::{Ftl, Page, PageCopy, Placement, Residence, Shape, State, Stream};

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u64),
    /// Completes the program operation in flight with this index, modulo the number of program operations.
    Complete(usize),
    Discard(usize),
    Trim(u64, u64),
    BeginCopy,
    CompleteCopy(usize),
    Erase,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        // A few pages get most writes, so that several writes of one page are in flight.
        4 => prop_oneof![0_u64..6, 0_u64..10_000].prop_map(Step::Write),
        4 => any::<usize>().prop_map(Step::Complete),
        1 => any::<usize>().prop_map(Step::Discard),
        1 => (0_u64..10_000, 1_u64..20).prop_map(|(first, length)| Step::Trim(first, length)),
        6 => Just(Step::BeginCopy),
        5 => any::<usize>().prop_map(Step::CompleteCopy),
        2 => Just(Step::Erase),
    ];
    prop::collection::vec(step, 1..600)
}

struct Model {
    ftl: Ftl,
    /// Sequence number of the write whose data each slot holds.
    slots: BTreeMap<u32, u64>,
    /// Sequence number of the write whose data each page has: the newest one committed.
    pages: BTreeMap<Page, u64>,
    written: BTreeSet<u64>,
    writes: u64,
    programs: Vec<(Page, u32, u64)>,
    copies: Vec<(PageCopy, u32, u64)>,
}

impl Model {
    fn new(shape: Shape, placement: Placement, state: State) -> Self {
        let ftl = Ftl::placed(shape, placement, state, 0..shape.logical_pages, 3, 0);
        let mut model = Self {
            slots: BTreeMap::new(),
            pages: BTreeMap::new(),
            written: BTreeSet::new(),
            writes: 0,
            programs: Vec::new(),
            copies: Vec::new(),
            ftl,
        };
        if state != State::Fresh {
            model.written.extend(0..shape.logical_pages);
        }
        for (page, &slot) in (0..).zip(model.ftl.map.iter()) {
            if slot != u32::MAX {
                model.writes += 1;
                model.slots.insert(slot, model.writes);
                model.pages.insert(Page(page), model.writes);
            }
        }
        model
    }

    fn step(&mut self, step: Step) {
        let logical = self.ftl.shape().logical_pages;
        match step {
            Step::Write(lpn) => self.write(lpn % logical),
            Step::Complete(index) if !self.programs.is_empty() => {
                let (page, slot, write) = self.programs.remove(index % self.programs.len());
                self.ftl.commit(page, slot);
                self.slots.insert(slot, write);
                let newest = self.pages.entry(page).or_insert(write);
                *newest = write.max(*newest);
            }
            Step::Discard(index) if !self.programs.is_empty() => {
                let (_, slot, _) = self.programs.remove(index % self.programs.len());
                self.ftl.discard(slot);
            }
            Step::Trim(first, length) => {
                let first = first % logical;
                let range = first..(first + length).min(logical);
                self.ftl.trim(range.clone());
                self.written.retain(|lpn| !range.contains(lpn));
                let ftl = &self.ftl;
                let trimmed: BTreeSet<Page> = match &ftl.sample {
                    None => range.map(|lpn| Page(lpn as u32)).collect(),
                    Some(sample) => range.filter_map(|lpn| sample.page(lpn)).map(Page).collect(),
                };
                self.pages.retain(|page, _| !trimmed.contains(page));
                // The layer requires that writes in flight of trimmed pages are discarded.
                for (_, slot, _) in
                    self.programs.extract_if(.., |(page, ..)| trimmed.contains(page))
                {
                    self.ftl.discard(slot);
                }
            }
            Step::BeginCopy => {
                self.ftl.victim();
                if let Some(copy) = self.ftl.next_copy() {
                    let stream = self.ftl.copy_stream().expect("a victim");
                    let slot = self.ftl.reserve(stream).expect("a slot for a copy");
                    let write = self.slots[&copy.source];
                    assert_eq!(self.pages[&copy.page], write, "a stale page is copied");
                    self.copies.push((copy, slot, write));
                }
            }
            Step::CompleteCopy(index) if !self.copies.is_empty() => {
                let (copy, slot, write) = self.copies.remove(index % self.copies.len());
                let current = self.pages.get(&copy.page) == Some(&write);
                assert_eq!(self.ftl.commit_copy(copy, slot), current);
                self.slots.insert(slot, write);
            }
            Step::Erase => {
                let free = self.ftl.free_blocks();
                let erased = self.ftl.erase_victim();
                assert_eq!(self.ftl.free_blocks(), free + u32::from(erased));
            }
            _ => {}
        }
    }

    fn write(&mut self, lpn: u64) {
        self.written.insert(lpn);
        let Some(page) = self.ftl.applies(lpn) else { return };
        let slot = loop {
            if let Some(slot) = self.ftl.reserve(Stream::Host(self.ftl.handle(lpn))) {
                break slot;
            }
            // Out of space: completes everything in flight, and collects a block.
            while !self.programs.is_empty() {
                self.step(Step::Complete(0));
            }
            loop {
                while !self.copies.is_empty() {
                    self.step(Step::CompleteCopy(0));
                }
                if self.ftl.erase_victim() {
                    break;
                }
                assert!(self.ftl.victim().is_some(), "no space and nothing to collect");
                self.step(Step::BeginCopy);
            }
        };
        self.writes += 1;
        self.programs.push((page, slot, self.writes));
    }

    fn check(&self) {
        self.ftl.check().unwrap();
        for (page, &slot) in (0..).zip(self.ftl.map.iter()) {
            let lies = (slot != u32::MAX).then(|| self.slots[&slot]);
            assert_eq!(lies, self.pages.get(&Page(page)).copied(), "page {page}");
        }
        for lpn in 0..self.ftl.shape().logical_pages {
            let found = self.ftl.find(lpn);
            if self.ftl.sample.is_some() {
                assert_eq!(found != Residence::Unwritten, self.written.contains(&lpn), "{lpn}");
            } else {
                let write = self.pages.get(&Page(lpn as u32)).copied();
                let lies = match found {
                    Residence::Slot(slot) => Some(self.slots[&slot]),
                    Residence::Unwritten => None,
                    Residence::NotRepresented => panic!("the exact form represents every page"),
                };
                assert_eq!(lies, write, "{lpn}");
            }
        }
    }
}

const TINY: Shape =
    Shape { logical_pages: 60, raw_pages: 8 * 15, pages_per_block: 8, represent: 1, frontiers: 2 };
const SAMPLED: Shape = Shape {
    logical_pages: 10_000,
    raw_pages: 16 * 720,
    pages_per_block: 16,
    represent: 2,
    frontiers: 2,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_map_is_what_was_committed(
        steps in steps(),
        state in prop_oneof![
            Just(State::Fresh),
            Just(State::Sequential),
            (1_u32..5).prop_map(|pages_per_write| State::Random { pages_per_write }),
        ],
        sampled in prop::bool::weighted(0.1),
        persistent in any::<bool>(),
        mut ends in prop::collection::vec(0..=TINY.logical_pages, 0..3),
    ) {
        ends.sort_unstable();
        let scale = SAMPLED.logical_pages / TINY.logical_pages;
        let ends: Vec<u64> =
            ends.into_iter().map(|end| if sampled { scale * end } else { end }).collect();
        let placement = Placement::new(ends, persistent);
        let shape = if sampled { SAMPLED } else { TINY };
        let frontiers = placement.frontiers();
        let more = u64::from(2 * (frontiers - 2) * shape.pages_per_block);
        let shape = Shape { frontiers, raw_pages: shape.raw_pages + more, ..shape };
        let mut model = Model::new(shape, placement, state);
        model.check();
        for (index, &step) in steps.iter().enumerate() {
            model.step(step);
            if !sampled || index % 100 == 99 {
                model.check();
            }
        }
        model.check();
        // The layer still works: everything can be rewritten once.
        for lpn in 0..model.ftl.shape().logical_pages {
            model.step(Step::Write(lpn));
            model.step(Step::Complete(0));
        }
        while !model.programs.is_empty() {
            model.step(Step::Complete(0));
        }
        model.check();
    }
}

/// A write that was overtaken by a newer one in another block never takes effect, even if all program operations of the
/// newer block have completed, so that garbage collection could move its pages.
#[test]
fn an_overtaken_write_stays_overtaken() {
    let mut ftl = Ftl::new(TINY, State::Fresh, 0..0, 1, 0);
    let begin =
        |ftl: &mut Ftl, lpn| (ftl.applies(lpn).unwrap(), ftl.reserve(Stream::Host(0)).unwrap());
    let (page, old) = begin(&mut ftl, 0);
    let mut new = old;
    // Fills the rest of the first block, the second, and a part of the third, with an overwrite.
    for lpn in [1, 2, 3, 4, 5, 6, 7, 0, 8, 9, 10, 11, 12, 13, 14, 8, 9] {
        let (page, slot) = begin(&mut ftl, lpn);
        ftl.commit(page, slot);
        if lpn == 0 {
            new = slot;
        }
    }
    assert_eq!(ftl.victim(), None);
    ftl.commit(page, old);
    assert_eq!(ftl.find(0), Residence::Slot(new));
    assert_eq!(ftl.victim().map(|victim| victim.valid), Some(6));
    ftl.check().unwrap();
}

/// Represented pages that were written together are adjacent.
#[test]
fn writes_of_several_pages_are_constructed_together() {
    for (represent, pages_per_write) in [(1, 8), (2, 8), (4, 32)] {
        let shape = Shape {
            logical_pages: 40_000,
            raw_pages: 50_176,
            pages_per_block: 512,
            represent,
            frontiers: 2,
        };
        let state = State::Random { pages_per_write };
        let ftl = Ftl::new(shape, state, 0..shape.logical_pages, 1, 0);
        let (mut pairs, mut together) = (0_u32, 0_u32);
        let mut before = None;
        for lpn in 0..shape.logical_pages {
            if lpn % u64::from(pages_per_write) == 0 {
                before = None;
            }
            if let Residence::Slot(slot) = ftl.find(lpn)
                && let Some(before) = before.replace(slot)
            {
                pairs += 1;
                together += u32::from(slot == before + 1);
            }
        }
        assert!(pairs > 5_000);
        assert!(f64::from(together) > 0.9 * f64::from(pairs), "{together} of {pairs}");
    }
}

/// Only written pages hold data, and one in k of them is in the map.
#[test]
fn a_part_of_the_device_can_be_written() {
    for represent in [1, 4] {
        for state in [State::Sequential, State::Random { pages_per_write: 1 }] {
            let shape = Shape {
                logical_pages: 40_000,
                raw_pages: 50_176,
                pages_per_block: 512,
                represent,
                frontiers: 2,
            };
            let ftl = Ftl::new(shape, state, 5_000..25_000, 1, 0);
            ftl.check().unwrap();
            let mut mapped = 0;
            for lpn in 0..shape.logical_pages {
                let found = ftl.find(lpn);
                assert_eq!(found == Residence::Unwritten, !(5_000..25_000).contains(&lpn));
                mapped += u32::from(matches!(found, Residence::Slot(_)));
            }
            assert!(mapped.abs_diff(20_000 / represent) < 400, "{mapped}");
            assert_eq!(mapped == 20_000, represent == 1);
            let scattered = state != State::Sequential;
            assert_eq!(ftl.sequential(10_000), !scattered);
        }
    }
}

/// Twins that share tables behave like devices with separate tables, whatever the others write.
#[test]
fn shared_tables_are_as_own_ones() {
    for represent in [1, 8] {
        let shape = Shape {
            logical_pages: 40_000,
            raw_pages: 50_176,
            pages_per_block: 512,
            represent,
            frontiers: 2,
        };
        let state = State::Random { pages_per_write: 1 };
        let digest = |ftl, seed| {
            let mut driver = Driver::new(shape, State::Fresh, 1);
            driver.ftl = ftl;
            driver.run(&mut Load::zipf(shape.logical_pages, 1.2, seed), 30_000);
            driver.ftl.check().unwrap();
            driver.ftl.digest()
        };
        let own = Ftl::new(shape, state, 0..shape.logical_pages, 1, 0);
        let mut shared = own.clone();
        shared.share();
        assert_eq!((shared.slots(), shared.pages()), (own.slots(), own.pages()));
        for seed in [5, 6] {
            assert_eq!(digest(shared.twin(1, 7), seed), digest(own.twin(1, 7), seed));
        }
        assert_eq!(shared.digest(), own.digest(), "the first is as it was");
    }
}

/// A twin starts in the same state and draws different random numbers.
#[test]
fn a_twin_starts_out_alike() {
    let shape = Shape {
        logical_pages: 40_000,
        raw_pages: 50_176,
        pages_per_block: 512,
        represent: 4,
        frontiers: 2,
    };
    let state = State::Random { pages_per_write: 1 };
    let run = |number| {
        let first = Driver::new(shape, state, 1);
        let mut twin = Driver::new(shape, state, 1);
        twin.ftl = first.ftl.twin(1, number);
        assert_eq!(twin.ftl.digest(), first.ftl.digest());
        twin.run(&mut Load::zipf(shape.logical_pages, 1.2, 5), 30_000);
        twin.ftl.check().unwrap();
        twin.ftl.digest()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

/// The same seed gives the same state on any machine: the digest is pinned.
#[test]
fn a_seed_replays() {
    let digest = |seed, represent| {
        let shape = Shape {
            logical_pages: 40_000,
            raw_pages: 50_176,
            pages_per_block: 512,
            represent,
            frontiers: 2,
        };
        let mut driver = Driver::new(shape, State::Random { pages_per_write: 2 }, seed);
        let mut load = Load::zipf(shape.logical_pages, 0.99, 5);
        driver.run(&mut load, 60_000);
        driver.ftl.check().unwrap();
        driver.ftl.digest()
    };
    for (represent, pinned) in [(1, 0xaf2c_7cba_1240_9107_u64), (4, 0x0216_ff96_240f_8b41)] {
        assert_eq!(digest(1, represent), pinned, "{:#x}", digest(1, represent));
        assert_ne!(digest(2, represent), pinned);
    }
}

/// A trim of a long range gives the same state as trims of each of its pages.
#[test]
fn a_long_trim_is_many_short_ones() {
    for represent in [1, 8] {
        let shape = Shape {
            logical_pages: 40_000,
            raw_pages: 50_176,
            pages_per_block: 512,
            represent,
            frontiers: 2,
        };
        let mut driver = Driver::new(shape, State::Random { pages_per_write: 1 }, 1);
        driver.run(&mut Load::zipf(shape.logical_pages, 1.2, 5), 30_000);
        let mut long = driver.ftl;
        let mut short = long.clone();
        long.trim(1_000..30_001);
        (1_000..30_001).for_each(|lpn| short.trim(lpn..lpn + 1));
        long.check().unwrap();
        for lpn in 0..40_000 {
            assert_eq!(long.find(lpn), short.find(lpn));
            let trimmed = (1_000..30_001).contains(&lpn);
            assert_eq!(long.find(lpn) == Residence::Unwritten, trimmed);
        }
        long.trim(0..40_000);
        assert!(long.map.iter().all(|&slot| slot == u32::MAX));
    }
}
