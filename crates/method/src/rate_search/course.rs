//! Course of a search for the highest rate that holds a limit: outcomes so far, and the next rate to try.
//!
//! A measured cell is a sample: near the edge the next one at the same rate may differ, and far below it a stall may
//! spoil one. Such a search starts below a measured capacity, and two of three cells decide a rate
//! ([`Course::below`]). A simulated cell repeats exactly, so one decides; such a search may start from a rate that
//! holds, and raises it until one fails ([`Course::above`]). Both then bisect to the same precision.

/// Precision: the search ends when the lowest rate that missed the limit exceeds the highest that met it by at most
/// this share of the latter.
pub const PRECISION_SHARE: f64 = 0.02;
/// Share of the capacity below which the search tries no rate.
const LEAST_SHARE: f64 = 0.001;
/// First step above a rate that holds, if no rate has failed and the capacity is unknown. Each success doubles it.
const STEP_SHARE: f64 = 0.12;
/// Maximum cells at one rate.
const CELLS_MAX: usize = 3;

/// Outcome of a cell that offered a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The rate was met, with the latency under the limit.
    Holds,
    /// The rate was not met, or the latency was not under the limit.
    Fails,
    /// Far less completed than was offered: repeats can't change that.
    Overloaded,
    /// The rate was met, but with too few operations to know the latency.
    Unknown,
}

/// A tried rate.
#[derive(Clone, Debug, PartialEq)]
struct Tried {
    rate_iops: f64,
    held: usize,
    failed: usize,
    is_overloaded: bool,
}

impl Tried {
    fn cells(&self) -> usize {
        self.held + self.failed
    }

    /// True if the rate holds; `None` if its cells are undecided: a failure counts after `deciding` cells.
    fn verdict(&self, deciding: usize) -> Option<bool> {
        if self.is_overloaded {
            return Some(false);
        }
        match (self.held, self.failed) {
            (held, 0) if held > 0 => Some(true),
            (held, failed) if held + failed >= deciding && held != failed => Some(held > failed),
            _ => None,
        }
    }
}

/// Course of a search; see the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// Rate of the closed loop, operations of all kinds per second, counted like an offered rate; infinite if it is not
    /// known.
    pub(crate) capacity_iops: f64,
    /// The highest rate found to meet the limit; 0 if none yet.
    pub holds_iops: f64,
    /// The lowest rate above `holds_iops` found to miss the limit; the capacity if none was found yet.
    pub(crate) fails_iops: f64,
    /// Whether `fails_iops` was tried, rather than being the capacity.
    pub(crate) has_failed: bool,
    /// Rate that was met in a cell with too few operations to know the latency, and the time that would have been
    /// enough, ns.
    pub(crate) unknown: Option<(f64, u64)>,
    tried: Vec<Tried>,
    /// Equal outcomes that decide a rate.
    deciding: usize,
    /// Next step above `holds_iops`, as a share of it, while the capacity is unknown and no rate has failed.
    step_share: f64,
}

impl Course {
    /// A search below a measured capacity, by cells that are samples.
    pub(super) const fn below(capacity_iops: f64) -> Self {
        Self {
            capacity_iops,
            holds_iops: 0.0,
            fails_iops: capacity_iops,
            has_failed: false,
            unknown: None,
            tried: Vec::new(),
            deciding: 2,
            step_share: STEP_SHARE,
        }
    }

    /// A search above a rate that holds, by cells that repeat exactly.
    pub fn above(holds_iops: f64) -> Self {
        Self { holds_iops, deciding: 1, ..Self::below(f64::INFINITY) }
    }

    /// Next rate to try; `None` at the end.
    pub fn next_iops(&self) -> Option<f64> {
        if self.unknown.is_some() || self.capacity_iops <= 0.0 {
            return None;
        }
        let is_undecided = |tried: &&Tried| tried.verdict(self.deciding).is_none();
        if let Some(undecided) = self.tried.iter().find(is_undecided) {
            return Some(undecided.rate_iops);
        }
        if self.fails_iops.is_infinite() {
            return Some(self.holds_iops * (1.0 + self.step_share));
        }
        let is_near = self.fails_iops - self.holds_iops <= PRECISION_SHARE * self.holds_iops;
        if is_near {
            // The answer must hold again.
            let answer = self.tried.iter().find(|tried| tried.is(self.holds_iops))?;
            let is_open = answer.held < self.deciding && answer.cells() < CELLS_MAX;
            return is_open.then_some(self.holds_iops);
        }
        let is_least =
            self.capacity_iops.is_finite() && self.fails_iops <= LEAST_SHARE * self.capacity_iops;
        (!is_least).then(|| f64::midpoint(self.holds_iops, self.fails_iops))
    }

    /// Records a cell's outcome at the requested rate.
    pub fn add(&mut self, rate_iops: f64, outcome: Outcome) {
        let place = self.tried.iter().position(|tried| tried.is(rate_iops));
        let place = place.unwrap_or_else(|| {
            self.tried.push(Tried { rate_iops, held: 0, failed: 0, is_overloaded: false });
            self.tried.len() - 1
        });
        let tried = &mut self.tried[place];
        match outcome {
            Outcome::Holds => tried.held += 1,
            Outcome::Fails | Outcome::Unknown => tried.failed += 1,
            Outcome::Overloaded => {
                tried.failed += 1;
                tried.is_overloaded = tried.held == 0;
            }
        }
        match tried.verdict(self.deciding) {
            Some(true) => {
                self.holds_iops = self.holds_iops.max(rate_iops);
                self.step_share *= 2.0;
            }
            Some(false) => {
                self.fails_iops = rate_iops;
                self.has_failed = true;
                if self.holds_iops >= rate_iops {
                    // The answer did not hold again: take the next lower rate that did.
                    let below = self.tried.iter().filter(|tried| {
                        tried.rate_iops < rate_iops && tried.verdict(self.deciding) == Some(true)
                    });
                    self.holds_iops = below.map(|tried| tried.rate_iops).fold(0.0, f64::max);
                }
            }
            None => {}
        }
    }

    /// Records a failure at the requested rate, of which `completed_iops` completed: no rate above that holds.
    pub fn add_failed(&mut self, rate_iops: f64, completed_iops: f64) {
        self.add(rate_iops, Outcome::Fails);
        let least_iops = self.holds_iops * (1.0 + PRECISION_SHARE / 2.0);
        self.fails_iops = self.fails_iops.min(completed_iops.max(least_iops));
    }

    pub(super) fn end_unknown(&mut self, rate_iops: f64, needed_ns: u64) {
        self.unknown = Some((rate_iops, needed_ns));
    }

    /// Number of cells measured at a rate.
    pub(crate) fn cells_at(&self, rate_iops: f64) -> usize {
        self.tried.iter().find(|tried| tried.is(rate_iops)).map_or(0, Tried::cells)
    }

    /// Range of rates with mixed outcomes: the lowest that failed below a success, and the highest that met the limit.
    /// `None` if no failure lies below a success.
    pub(crate) fn mixed_iops(&self) -> Option<(f64, f64)> {
        let rate = |tried: &Tried| tried.rate_iops;
        let lowest =
            self.tried.iter().filter(|tried| tried.failed > 0).map(rate).reduce(f64::min)?;
        let highest =
            self.tried.iter().filter(|tried| tried.held > 0).map(rate).reduce(f64::max)?;
        (lowest <= highest).then_some((lowest, highest))
    }
}

impl Tried {
    fn is(&self, rate_iops: f64) -> bool {
        self.rate_iops.total_cmp(&rate_iops).is_eq()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of searches in which the probability of meeting the limit falls gradually around the edge.
    fn answers(noise: f64, spoiled: f64) -> Vec<f64> {
        let edge = 0.4e5;
        let run = |seed| {
            let mut random = iodyno_units::rng::stream(seed, "rate search", 0);
            let mut draw = || iodyno_units::rng::unit_open_closed(&mut random);
            let mut course = Course::below(1e5);
            let mut cells = 0;
            while let Some(rate_iops) = course.next_iops() {
                let holds = rate_iops < edge * (1.0 + noise * (2.0 * draw() - 1.0));
                let outcome = match holds && draw() > spoiled {
                    true => Outcome::Holds,
                    false if rate_iops > 1.2 * edge => Outcome::Overloaded,
                    false => Outcome::Fails,
                };
                course.add(rate_iops, outcome);
                cells += 1;
                assert!(cells < 60, "it ends");
            }
            course.holds_iops / edge
        };
        (0..200).map(run).collect()
    }

    /// One cell in ten is spoiled by a stall, and the edge moves by 2 %: nearly all answers are within 5 %. A search
    /// that trusts each cell would end at half the rate or less after the first spoiled one.
    #[test]
    fn a_spoiled_cell_does_not_lead_astray() {
        for (noise, spoiled) in [(0.0, 0.0), (0.02, 0.0), (0.02, 0.1)] {
            let all = answers(noise, spoiled);
            let near = all.iter().filter(|of_edge| (0.95..=1.05).contains(*of_edge)).count();
            assert!(
                near >= 190,
                "noise {noise}, spoiled {spoiled}: only {near} of 200 searches within 5 %"
            );
        }
    }

    #[test]
    fn mixed_rates_are_named() {
        let mut course = Course::below(100.0);
        for (rate, outcome) in
            [(50.0, Outcome::Fails), (50.0, Outcome::Holds), (50.0, Outcome::Holds)]
        {
            assert_eq!(course.next_iops(), Some(rate));
            course.add(rate, outcome);
        }
        assert_eq!((course.holds_iops, course.mixed_iops()), (50.0, Some((50.0, 50.0))));
        assert_eq!(course.next_iops(), Some(75.0));
        course.add(75.0, Outcome::Overloaded);
        assert_eq!((course.fails_iops, course.next_iops()), (75.0, Some(62.5)));
    }
}
