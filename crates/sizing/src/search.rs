//! Searches for the fewest arrays that sustain a rate, and for the highest rate that given arrays sustain. Does no I/O:
//! the caller simulates each trial, and the search decides the next trial. No result is accepted without a trial.
//!
//! Both searches assume monotonicity: if some arrays sustain a rate, more arrays sustain it too, and the same arrays
//! sustain any lower rate.

use iodyno_method::rate_search::{Course, Outcome};

/// Maximum number of equal systems among which a demand is divided.
pub const UNITS_MAX: u32 = 32;
/// Assumed utilisation of the arrays, for the first guess of their number.
const BUSY_GUESS: f64 = 0.92;
/// Estimated utilisation above which a number of arrays is ruled out without a trial.
const WORK_SHARE_MAX: f64 = 1.15;

/// Outcome of one trial: the simulation of one system with a given number of arrays at a given rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// True if the system sustained the rate within the latency limits.
    pub holds: bool,
    /// Completed operations per second.
    pub iops: f64,
    /// Utilisation of the busiest resource whose capacity grows with the number of arrays, 0 to 1.
    pub busy: f64,
}

/// Size of a configuration: equal systems, and arrays in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count {
    /// Number of equal systems to buy.
    pub units: u32,
    /// Number of arrays in each system.
    pub arrays: u32,
}

/// Bounds on the size of a configuration that are known before the search begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Maximum number of arrays in one system.
    pub arrays_max: u32,
    /// Minimum number of arrays in all systems together, from the required capacity.
    pub all_arrays_min: u32,
    /// Upper bound of one system's operations per second, with any number of arrays.
    pub unit_iops_max: f64,
}

/// Result of the search for the smallest configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The smallest configuration that sustains the rate.
    Fewest(Count),
    /// No configuration that is worth buying sustains the rate. The argument `worth` of [`fewest`] decides what is
    /// worth buying.
    NotWorth,
    /// Even [`UNITS_MAX`] systems can't sustain the rate.
    Impossible,
}

/// Finds the fewest systems that together sustain a rate, then the fewest arrays in each. `trial` simulates one system
/// with a number of arrays at a rate. `worth` says whether a configuration is worth buying; if it is false, it must
/// also be false for larger configurations. The search ends early if no configuration that sustains the rate is worth
/// buying.
///
/// # Errors
///
/// Errors of the trials.
pub fn fewest<E>(
    rate_iops: f64,
    bounds: &Bounds,
    worth: &dyn Fn(Count) -> bool,
    trial: &mut dyn FnMut(u32, f64) -> Result<Tried, E>,
) -> Result<Found, E> {
    let most = bounds.arrays_max;
    let by_rate = (rate_iops / bounds.unit_iops_max).ceil() as u32;
    let mut units = by_rate.max(bounds.all_arrays_min.div_ceil(most)).max(1);
    let mut is_possible = units == UNITS_MAX;
    let (tried, worth_max) = loop {
        if units > UNITS_MAX {
            return Ok(Found::Impossible);
        }
        let worth = |arrays: &u32| worth(Count { units, arrays: *arrays });
        let worth_max = (bounds.all_arrays_min.div_ceil(units).max(1)..=most).rev().find(worth);
        let Some(worth_max) = worth_max else { return Ok(Found::NotWorth) };
        let tried = trial(most, rate_iops / f64::from(units))?;
        if tried.holds {
            break (tried, worth_max);
        }
        if !is_possible && !trial(most, rate_iops / f64::from(UNITS_MAX))?.holds {
            return Ok(Found::Impossible);
        }
        is_possible = true;
        // Either the rate was not completed, or it was too late.
        let by_rate = (rate_iops / tried.iops.max(1e-9)).floor().min(f64::from(UNITS_MAX)) as u32;
        units = by_rate.max(units + 1);
    };
    let share_iops = rate_iops / f64::from(units);
    let needed = f64::from(most) * tried.busy;
    let mut high = most;
    if worth_max < most {
        // The same work on fewer arrays.
        let is_hopeless = needed > WORK_SHARE_MAX * f64::from(worth_max);
        if is_hopeless || !trial(worth_max, share_iops)?.holds {
            return Ok(Found::NotWorth);
        }
        high = worth_max;
    }
    // `low` fails or lacks capacity; `high` holds.
    let mut low = bounds.all_arrays_min.div_ceil(units).saturating_sub(1);
    let mut guess = (needed / BUSY_GUESS).ceil() as u32;
    let mut step = 1;
    while high - low > 1 {
        let next = guess.clamp(low + 1, high - 1);
        if trial(next, share_iops)?.holds {
            high = next;
            guess = high.saturating_sub(step);
        } else {
            low = next;
            guess = low + step;
        }
        step *= 2;
        if step > 4 {
            guess = low.midpoint(high);
        }
    }
    Ok(Found::Fewest(Count { units, arrays: high }))
}

/// Finds the highest sustained rate, starting from one that is known to be sustained.
///
/// # Errors
/// An error of `trial`, which simulates the system at one rate.
pub fn highest_rate<E>(
    holds_iops: f64,
    trial: &mut dyn FnMut(f64) -> Result<Tried, E>,
) -> Result<f64, E> {
    let mut course = Course::above(holds_iops);
    while let Some(rate_iops) = course.next_iops() {
        let tried = trial(rate_iops)?;
        if tried.holds {
            course.add(rate_iops, Outcome::Holds);
        } else {
            course.add_failed(rate_iops, tried.iops);
        }
    }
    Ok(course.holds_iops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_method::rate_search::PRECISION_SHARE;
    use proptest::prelude::{ProptestConfig, prop_assert, proptest};

    /// Closed formula that replaces simulation in tests: M/M/1 queues for arrays of a given rate, behind a server
    /// of a given rate.
    struct Oracle {
        array_iops: f64,
        server_iops: f64,
        limit_s: f64,
    }

    impl Oracle {
        fn tried(&self, arrays: u32, iops: f64) -> Tried {
            let all = f64::from(arrays) * self.array_iops;
            let time = |capacity: f64, of: f64| {
                if of >= capacity { f64::INFINITY } else { 1.0 / (capacity - of) }
            };
            let s = time(self.server_iops, iops) + time(self.array_iops, iops / f64::from(arrays));
            Tried {
                holds: s <= self.limit_s,
                iops: iops.min(all).min(self.server_iops),
                busy: (iops / all).min(1.0),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        /// The search needs few trials to find the same count as an exhaustive search. The highest rate is sustained;
        /// one slightly above is not.
        #[test]
        fn it_finds_what_an_exhaustive_search_does(
            array in 100.0_f64..10_000.0,
            server in 1_000.0_f64..1e6,
            limit_turns in 1.2_f64..30.0,
            rate in 1_000.0_f64..3e6,
            most in 1_u32..64,
            least in 0_u32..80,
            worth in 1_u32..200,
        ) {
            let limit_s = limit_turns * (1.0 / array + 1.0 / server);
            let oracle = Oracle { array_iops: array, server_iops: server, limit_s };
            let bounds = Bounds { arrays_max: most, all_arrays_min: least, unit_iops_max: server };
            let mut trials = 0;
            let is_worth = |count: Count| count.units * count.arrays <= worth;
            let found = fewest::<()>(rate, &bounds, &is_worth, &mut |arrays, iops| {
                trials += 1;
                Ok(oracle.tried(arrays, iops))
            });
            let all = (1..=UNITS_MAX).flat_map(|units| (1..=most).map(move |arrays| Count { units, arrays }));
            let holds = |c: &Count| {
                c.units * c.arrays >= least && oracle.tried(c.arrays, rate / f64::from(c.units)).holds
            };
            // The fewest systems first, then the fewest arrays.
            let expected = all.filter(holds).min();
            let is_right = match found.unwrap() {
                Found::Fewest(count) => expected == Some(count) && is_worth(count),
                Found::NotWorth => expected.is_none_or(|count| !is_worth(count)),
                Found::Impossible => expected.is_none(),
            };
            prop_assert!(is_right, "{:?}, where {:?} is right", found, expected);
            prop_assert!(trials <= UNITS_MAX + 12, "{} trials", trials);
            if let Some(count) = expected {
                let mut at = |iops: f64| Ok::<_, ()>(oracle.tried(count.arrays, iops));
                let share = rate / f64::from(count.units);
                let highest = highest_rate(share, &mut at).unwrap();
                prop_assert!(highest >= share && oracle.tried(count.arrays, highest).holds);
                prop_assert!(!oracle.tried(count.arrays, highest * (1.0 + 1.1 * PRECISION_SHARE)).holds);
            }
        }
    }
}
