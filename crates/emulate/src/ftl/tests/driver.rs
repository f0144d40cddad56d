//! Drives a translation layer as a device would, but without time: program operations complete at once.

use std::ops::Range;

use iodyno_units::rng::{Generator, below, splitmix64, stream, unit_open_closed};

use crate::ftl::permute::Permutation;
use crate::ftl::{Counters, FREE_BLOCKS, Ftl, Placement, Shape, State, Stream};

/// Collects while fewer than `FREE_BLOCKS` are free, at a pace that finishes a victim
/// within as many written pages as it frees.
pub(super) struct Driver {
    pub(super) ftl: Ftl,
    credit: f64,
}

/// Upper bound of the copies per host page, for victims with few pages to gain.
const COPIES_PER_HOST_PAGE_MAX: f64 = 64.0;

impl Driver {
    pub(super) fn new(shape: Shape, state: State, seed: u64) -> Self {
        Self::placed(shape, Placement::default(), state, seed)
    }

    pub(super) fn placed(shape: Shape, placement: Placement, state: State, seed: u64) -> Self {
        let written = 0..shape.logical_pages;
        Self { ftl: Ftl::placed(shape, placement, state, written, seed, 0), credit: 0.0 }
    }

    #[inline]
    pub(super) fn write(&mut self, lpn: u64) {
        let Some(page) = self.ftl.applies(lpn) else { return };
        let slot = loop {
            if let Some(slot) = self.ftl.reserve(Stream::Host(self.ftl.handle(lpn))) {
                break slot;
            }
            // Emergency: the host waits until a block is free.
            self.ftl.victim().expect("a victim where no block is free");
            while self.copy() {}
            self.ftl.retire_victim();
        };
        self.ftl.commit(page, slot);
        if self.ftl.free_blocks() < FREE_BLOCKS {
            self.collect();
        }
    }

    fn collect(&mut self) {
        let Some(victim) = self.ftl.victim() else { return };
        let gain = (victim.pages_per_block - victim.valid).max(1);
        let pace = f64::from(victim.valid) / f64::from(gain);
        self.credit = (self.credit + pace).min(COPIES_PER_HOST_PAGE_MAX);
        while self.credit >= 1.0 && self.copy() {
            self.credit -= 1.0;
        }
        if self.credit >= 1.0 || victim.valid == 0 {
            // All pages were handed out and their copies committed at once.
            self.ftl.retire_victim();
            self.credit = 0.0;
        }
    }

    fn copy(&mut self) -> bool {
        let Some(copy) = self.ftl.next_copy() else { return false };
        let stream = self.ftl.copy_stream().expect("a victim");
        let slot = self.ftl.reserve(stream).expect("a slot for a copy");
        assert!(self.ftl.commit_copy(copy, slot));
        true
    }

    /// Runs `writes` writes of `load`. Returns by how much they increase the counters.
    pub(super) fn run(&mut self, load: &mut Load, writes: u64) -> Counters {
        let before = self.ftl.counters();
        for _ in 0..writes {
            self.write(load.next());
        }
        self.ftl.counters().since(&before)
    }

    /// Write amplification over writes of `device_writes` times the device's capacity.
    pub(super) fn amplification(&mut self, load: &mut Load, device_writes: f64) -> f64 {
        let pages = self.ftl.shape().logical_pages;
        self.run(load, (pages as f64 * device_writes) as u64).write_amplification()
    }
}

/// Address distribution of the writes.
pub(super) struct Load {
    rng: Generator,
    kind: Kind,
}

enum Kind {
    Uniform(Range<u64>),
    /// Aligned runs of `length` pages; `left` pages of the present run are still to come.
    Runs {
        places: u64,
        length: u64,
        next: u64,
        left: u64,
    },
    Sequential {
        next: u64,
        pages: u64,
    },
    /// A fraction `share` of the writes goes to the first `hot` pages, the others to the rest.
    HotCold {
        hot: u64,
        pages: u64,
        share: f64,
    },
    /// A continuous power law, rounded to ranks that are scattered over the device.
    Zipf {
        theta: f64,
        scale: f64,
        places: Box<Permutation>,
    },
}

impl Load {
    fn new(seed: u64, kind: Kind) -> Self {
        Self { rng: stream(seed, "load", 0), kind }
    }

    pub(super) fn uniform(range: Range<u64>, seed: u64) -> Self {
        Self::new(seed, Kind::Uniform(range))
    }

    pub(super) fn uniform_of(places: u64, length: u32, seed: u64) -> Self {
        Self::new(seed, Kind::Runs { places, length: u64::from(length), next: 0, left: 0 })
    }

    pub(super) fn sequential(pages: u64) -> Self {
        Self::new(0, Kind::Sequential { next: 0, pages })
    }

    pub(super) fn hot_cold(pages: u64, hot_space: f64, hot_writes: f64, seed: u64) -> Self {
        let hot = (pages as f64 * hot_space) as u64;
        Self::new(seed, Kind::HotCold { hot, pages, share: hot_writes })
    }

    pub(super) fn zipf(pages: u64, theta: f64, seed: u64) -> Self {
        let scale = libm::pow(pages as f64 + 1.0, 1.0 - theta) - 1.0;
        let places = Box::new(Permutation::new(pages, splitmix64(seed)));
        Self::new(seed, Kind::Zipf { theta, scale, places })
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        let rng = &mut self.rng;
        match &mut self.kind {
            Kind::Uniform(range) => range.start + below(rng, range.end - range.start),
            Kind::Runs { places, length, next, left } => {
                if *left == 0 {
                    *next = below(rng, *places) * *length;
                    *left = *length;
                }
                *left -= 1;
                *next += 1;
                *next - 1
            }
            Kind::Sequential { next, pages } => {
                let lpn = *next;
                *next = (lpn + 1) % *pages;
                lpn
            }
            Kind::HotCold { hot, pages, share } => {
                if unit_open_closed(rng) <= *share {
                    below(rng, *hot)
                } else {
                    *hot + below(rng, *pages - *hot)
                }
            }
            Kind::Zipf { theta, scale, places } => {
                // Uniform in [1, pages + 1] before the power.
                let u = 1.0 - unit_open_closed(rng);
                let rank = libm::pow(1.0 + *scale * u, 1.0 / (1.0 - *theta));
                places.apply(rank as u64 - 1)
            }
        }
    }
}
