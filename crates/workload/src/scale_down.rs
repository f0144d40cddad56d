//! Adapts a workload to a scaled-down device: sizes on the device are divided by a factor, and each part of the device
//! keeps its share of the writes.

use crate::range::{ActiveRange, Edge};
use crate::spec::{Address, Pattern, Percent, Spec, Spot};

/// Number of hot spots that approximate a Zipf distribution.
const SPOTS: usize = 60;
/// Number of the most frequent places that each get a hot spot of their own.
const SINGLE: u64 = 16;

impl Spec {
    /// Divides the sizes of zones and of the active range by `by`. `places` is the number of blocks in the reduced
    /// range. Over fewer blocks, a Zipf distribution would have other shares, so hot spots replace it. Each hot spot
    /// represents consecutive ranks of the full range, and has their total share.
    ///
    /// # Errors
    /// The rule that the changed specification would break.
    pub fn scaled_down(mut self, by: u32, places: u64) -> Result<Self, String> {
        if by <= 1 {
            return Ok(self);
        }
        let divided = |edge: Edge| match edge {
            Edge::Bytes(bytes) => Edge::Bytes(bytes / u64::from(by)),
            share @ Edge::Share(_) => share,
        };
        let ActiveRange { start, end, is_length } = self.active;
        self.active = ActiveRange { start: divided(start), end: divided(end), is_length };
        for Address { pattern, .. } in self.tables.iter_mut().flat_map(|t| &mut t.addresses) {
            match pattern {
                Pattern::Zones { zone_bytes, capacity_bytes, .. } => {
                    *zone_bytes /= u64::from(by);
                    *capacity_bytes = capacity_bytes.map(|bytes| bytes / u64::from(by));
                }
                Pattern::Zipf { theta } => *pattern = zipf(*theta, places, by),
                _ => {}
            }
        }
        self.checked()
    }
}

/// Hot spots over `places` places that approximate a Zipf distribution over `by` times as many ranks.
fn zipf(theta: f64, places: u64, by: u32) -> Pattern {
    let single = SINGLE.min(places);
    let ratio = libm::pow(places as f64 / single as f64, 1.0 / (SPOTS as f64 - single as f64));
    let mut ends: Vec<u64> = (1..=single).collect();
    while let Some(&last) = ends.last()
        && last < places
    {
        ends.push(places.min((last as f64 * ratio).ceil() as u64).max(last + 1));
    }
    let parts = |place: u64| (u128::from(place) * 1_000_000_000).div_ceil(u128::from(places));
    let mut start = 0;
    let mut spots = Vec::with_capacity(ends.len());
    for end in ends {
        let range = Percent::from_fraction((parts(end) - parts(start)) as f64 / 1e9);
        let share = weight(theta, start * u64::from(by), end * u64::from(by));
        spots.push(Spot { share, range });
        start = end;
    }
    Pattern::HotSpots { spots, scatter: true }
}

/// Sum of k^-theta over the ranks `start` + 1 to `end`. Ranks from 1000 on are summed by an integral, with an error
/// below a millionth.
fn weight(theta: f64, start: u64, end: u64) -> f64 {
    let exact =
        (start..end.min(1000)).map(|rank| libm::pow((rank + 1) as f64, -theta)).sum::<f64>();
    let (low, high) = (start.max(1000) as f64 + 0.5, end as f64 + 0.5);
    if high <= low {
        return exact;
    }
    let integral = if (theta - 1.0).abs() < 1e-9 {
        libm::log(high / low)
    } else {
        (libm::pow(high, 1.0 - theta) - libm::pow(low, 1.0 - theta)) / (1.0 - theta)
    };
    exact + integral
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hot spots cover the range, and each has the total share of its ranks.
    #[test]
    fn a_zipf_distribution_keeps_its_shares() {
        for (theta, by, places) in [(0.8, 64, 100_000), (1.0, 256, 1_000), (1.2, 2, 40)] {
            let Pattern::HotSpots { spots, scatter: true } = zipf(theta, places, by) else {
                panic!("no hot spots")
            };
            let ranges: f64 = spots.iter().map(|spot| spot.range.fraction()).sum();
            assert!((ranges - 1.0).abs() < 1e-9 && spots.len() <= 64, "{ranges} {}", spots.len());
            let ranks = places * u64::from(by);
            let all: f64 = (1..=ranks).map(|rank| libm::pow(rank as f64, -theta)).sum();
            let (mut places_before, mut shares) = (0.0, 0.0);
            for spot in &spots {
                places_before += spot.range.fraction() * places as f64;
                shares += spot.share;
                let end = places_before.round() as u64 * u64::from(by);
                let expected: f64 = (1..=end).map(|rank| libm::pow(rank as f64, -theta)).sum();
                assert!((shares / expected - 1.0).abs() < 1e-5, "{theta}: {shares} {expected}");
            }
            assert!((shares / all - 1.0).abs() < 1e-5);
        }
    }
}
