//! Course of a search for the highest rate that meets a latency limit: outcomes so far, and the next rate to try.
//!
//! [`Course::from_capacity`] is for measurements that vary, as on real storage. The search starts below a measured
//! capacity, goes above it if no rate fails, and repeats a rate that fails: the majority of up to three measurements
//! decides. [`Course::above`] is for
//! simulations, which repeat exactly. The search starts from a rate that meets the limit, raises it until one fails,
//! and measures each rate once. Both searches then bisect to the same precision.

/// Precision of the result. The search ends when the highest rate that met the limit (H) and the lowest that missed it
/// differ by at most this fraction of H.
pub const PRECISION_SHARE: f64 = 0.02;
/// Fraction of the capacity below which no rate is tried.
const LEAST_SHARE: f64 = 0.001;
/// First relative step above a rate that met the limit, while the capacity is unknown and no rate has failed.
/// The step doubles after each success.
const STEP_SHARE: f64 = 0.12;
/// Maximum number of cells to confirm the final rate.
const CELLS_MAX: usize = 3;

/// Outcome of a measurement at an offered rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The target sustained the rate, with the latency under the limit.
    Holds,
    /// The target did not sustain the rate, or the latency was not under the limit.
    Fails,
    /// The target completed far less than the offered rate, so that repeats are pointless.
    Overloaded,
    /// The target sustained the rate, but too few operations completed to determine the latency.
    Unknown,
}

/// A tried rate with the outcomes of its cells.
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

    /// Whether the rate meets the limit; `None` if undecided. A success decides if no cell has failed. Otherwise the
    /// majority decides once there are `deciding` cells.
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

/// State of a search for the highest rate that meets a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// Capacity: rate of the closed-loop cell, operations of all kinds per second; infinite if unknown.
    pub(crate) capacity_iops: f64,
    /// Highest rate known to meet the limit; 0 if none yet.
    pub holds_iops: f64,
    /// Lowest rate above `holds_iops` known to miss the limit. If there is none yet: the capacity, or infinite once
    /// the search is above it.
    pub(crate) fails_iops: f64,
    /// Highest rate to try; infinite: no bound.
    reach_iops: f64,
    /// Whether `fails_iops` is a rate that was tried and failed.
    pub(crate) has_failed: bool,
    /// Rate at which too few operations completed to determine the latency, and the measuring time that would
    /// have sufficed, ns. `None` if there is none.
    pub(crate) unknown: Option<(f64, u64)>,
    tried: Vec<Tried>,
    /// Number of cells needed to decide that a rate fails, and to confirm the final rate.
    deciding: usize,
    /// Next relative step above `holds_iops`, while `fails_iops` is infinite.
    step_share: f64,
}

impl Course {
    /// Starts a search below a measured capacity, which tries no rate above `reach_iops`. Outcomes vary by chance, so
    /// failures are repeated.
    pub(super) const fn from_capacity(capacity_iops: f64, reach_iops: f64) -> Self {
        Self {
            capacity_iops,
            holds_iops: 0.0,
            fails_iops: capacity_iops,
            reach_iops,
            has_failed: false,
            unknown: None,
            tried: Vec::new(),
            deciding: 2,
            step_share: STEP_SHARE,
        }
    }

    /// Starts a search above a rate that meets the limit. Each rate is measured only once, so the measurements must be
    /// reproducible, as in a simulation.
    pub fn above(holds_iops: f64) -> Self {
        Self { holds_iops, deciding: 1, ..Self::from_capacity(f64::INFINITY, f64::INFINITY) }
    }

    /// Next rate to try; `None` if the search is complete.
    pub fn next_iops(&self) -> Option<f64> {
        if self.unknown.is_some() || self.capacity_iops <= 0.0 {
            return None;
        }
        let is_undecided = |tried: &&Tried| tried.verdict(self.deciding).is_none();
        if let Some(undecided) = self.tried.iter().find(is_undecided) {
            return Some(undecided.rate_iops);
        }
        let is_at_end = self.holds_iops * (1.0 + PRECISION_SHARE) >= self.reach_iops;
        if self.fails_iops.is_infinite() && !is_at_end {
            return Some((self.holds_iops * (1.0 + self.step_share)).min(self.reach_iops));
        }
        let is_near =
            is_at_end || self.fails_iops - self.holds_iops <= PRECISION_SHARE * self.holds_iops;
        if is_near {
            // The highest rate that met the limit must meet it again.
            let answer = self.tried.iter().find(|tried| tried.is(self.holds_iops))?;
            let is_open = answer.held < self.deciding && answer.cells() < CELLS_MAX;
            return is_open.then_some(self.holds_iops);
        }
        let is_least =
            self.capacity_iops.is_finite() && self.fails_iops <= LEAST_SHARE * self.capacity_iops;
        (!is_least).then(|| f64::midpoint(self.holds_iops, self.fails_iops))
    }

    /// Records the outcome of a measurement that offered `rate_iops`.
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
                if self.fails_iops.is_infinite() {
                    self.step_share *= 2.0;
                } else if !self.has_failed
                    && self.fails_iops <= self.holds_iops * (1.0 + PRECISION_SHARE)
                {
                    // The capacity meets the limit.
                    self.fails_iops = f64::INFINITY;
                }
            }
            Some(false) => {
                self.fails_iops = rate_iops;
                self.has_failed = true;
                if self.holds_iops >= rate_iops {
                    // The highest rate did not meet the limit again: take the next lower rate that did.
                    let below = self.tried.iter().filter(|tried| {
                        tried.rate_iops < rate_iops && tried.verdict(self.deciding) == Some(true)
                    });
                    self.holds_iops = below.map(|tried| tried.rate_iops).fold(0.0, f64::max);
                }
            }
            None => {}
        }
    }

    /// Records that the offered rate `rate_iops` failed and only `completed_iops` completed. All rates above
    /// `completed_iops` then count as failed.
    pub fn add_failed(&mut self, rate_iops: f64, completed_iops: f64) {
        self.add(rate_iops, Outcome::Fails);
        let least_iops = self.holds_iops * (1.0 + PRECISION_SHARE / 2.0);
        self.fails_iops = self.fails_iops.min(completed_iops.max(least_iops));
    }

    pub(super) fn end_unknown(&mut self, rate_iops: f64, needed_ns: u64) {
        self.unknown = Some((rate_iops, needed_ns));
    }

    pub(crate) fn cells_at(&self, rate_iops: f64) -> usize {
        self.tried.iter().find(|tried| tried.is(rate_iops)).map_or(0, Tried::cells)
    }

    /// Range of rates with mixed outcomes, from the lowest at which a cell failed to the highest at which one
    /// succeeded. `None` if all failures are at higher rates than all successes.
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

    /// Simulates searches on a target whose probability of meeting the limit falls gradually around a known rate.
    /// Returns the rates found.
    fn answers(noise: f64, spoiled: f64) -> Vec<f64> {
        let edge = 0.4e5;
        let run = |seed| {
            let mut random = iodyno_units::rng::stream(seed, "rate search", 0);
            let mut draw = || iodyno_units::rng::unit_open_closed(&mut random);
            let mut course = Course::from_capacity(1e5, 1e6);
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

    /// One cell in ten is spoiled by a stall, and the edge varies by 2 %. Nearly all results are within 5 %,
    /// whereas trusting every cell would lead to half the rate or less.
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
        let mut course = Course::from_capacity(100.0, 1e3);
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
