//! Chooses the operating point on a load curve: the best number of outstanding I/Os under limits on response time
//! ("ceilings"). Also finds the points of the outer curve, and intermediate points, as SNIA's demand intensity test
//! defines them.
//!
//! Results are indices into the given points.

use serde::{Deserialize, Serialize};

/// Minimum IOPS of a nearly best point, as a fraction of the highest IOPS. The optimum is the nearly best point with
/// the fewest outstanding I/Os, because its latency is lowest.
pub const NEARLY_BEST: f64 = 0.98;

/// Throughput and latencies at one point of a load sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// Number of outstanding I/Os of all threads together.
    pub oio: u32,
    /// Completed operations per second of all threads together.
    pub iops: f64,
    /// Response time statistics, such as mean, p99 and p99.9, in the order of the latency ceilings (maximum latencies),
    /// ns. None with too few samples, which counts as above the ceiling.
    pub latency_ns: Vec<Option<f64>>,
    /// Whether the figures are usable: steady state reached, consistent with Little's law, and not judged
    /// invalid.
    pub sound: bool,
}

impl LoadPoint {
    fn within(&self, ceilings_ns: &[f64]) -> bool {
        self.sound
            && self.iops > 0.0
            && self.latency_ns.len() == ceilings_ns.len()
            && self.latency_ns.iter().zip(ceilings_ns).all(|(l, c)| l.is_some_and(|l| l <= *c))
    }
}

/// Best point of a load sweep under the latency limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optimum {
    /// At least one point has usable figures and meets all latency limits.
    Found {
        /// Index of the best point: the fewest outstanding I/Os with at least 98 % of the highest IOPS.
        chosen: usize,
        /// Index of the point with the highest IOPS among those that meet all latency ceilings.
        most: usize,
        /// Index of the point, other than `chosen`, with the highest IOPS among those that meet all latency ceilings;
        /// None if there is no other.
        runner_up: Option<usize>,
    },
    /// Every point exceeds a latency limit or has unusable figures. Output shows the point `least`, marked "over
    /// ceiling".
    NoneFeasible {
        /// Index of the point with the fewest outstanding I/Os.
        least: usize,
    },
    NoPoints,
}

/// Finds the best point under the maximum latencies `ceilings_ns`, one per entry of [`LoadPoint::latency_ns`]. Without
/// maximum latencies, latency is ignored.
pub fn optimum(points: &[LoadPoint], ceilings_ns: &[f64]) -> Optimum {
    let fewest = |i: &usize, j: &usize| {
        let (a, b) = (&points[*i], &points[*j]);
        a.oio.cmp(&b.oio).then(b.iops.total_cmp(&a.iops))
    };
    let fastest = |i: &usize, j: &usize| {
        let (a, b) = (&points[*i], &points[*j]);
        a.iops.total_cmp(&b.iops).then(b.oio.cmp(&a.oio))
    };
    let feasible: Vec<usize> =
        (0..points.len()).filter(|&i| points[i].within(ceilings_ns)).collect();
    let Some(most) = feasible.iter().copied().max_by(fastest) else {
        return (0..points.len())
            .min_by(fewest)
            .map_or(Optimum::NoPoints, |least| Optimum::NoneFeasible { least });
    };
    let nearly = NEARLY_BEST * points[most].iops;
    let chosen = feasible
        .iter()
        .copied()
        .filter(|&i| points[i].iops >= nearly)
        .min_by(fewest)
        .unwrap_or(most);
    let runner_up = feasible.into_iter().filter(|&i| i != chosen).max_by(fastest);
    Optimum::Found { chosen, most, runner_up }
}

/// Returns the indices of the other points that perform like the point `of`: they meet `ceilings_ns`, and the
/// confidence intervals of their IOPS overlap with that of the point `of`. `half_widths` has half the width of each
/// point's interval, as a fraction of the point's IOPS; points without an interval are skipped.
pub fn ties(
    points: &[LoadPoint],
    ceilings_ns: &[f64],
    half_widths: &[Option<f64>],
    of: usize,
) -> Vec<usize> {
    let interval = |i: usize| {
        let half = points[i].iops * half_widths.get(i).copied().flatten()?;
        Some((points[i].iops - half, points[i].iops + half))
    };
    let Some((low, high)) = interval(of) else { return Vec::new() };
    let overlaps = |i: &usize| interval(*i).is_some_and(|(l, h)| l <= high && low <= h);
    (0..points.len())
        .filter(|&i| i != of && points[i].within(ceilings_ns))
        .filter(overlaps)
        .collect()
}

/// Throughput of a system with a given number of attached devices.
#[derive(Clone, Copy, Debug)]
pub struct AttachedRate {
    /// Number of devices that were attached when the rate was measured.
    pub devices: u32,
    /// Operations per second of all attached devices together.
    pub iops: f64,
}

/// Estimates the number of devices that saturate a system: the combined rate of `all` divided by the rate per device of
/// `few`, but at most `all.devices`. None if the rate of `few` is 0.
pub fn saturation(few: AttachedRate, all: AttachedRate) -> Option<f64> {
    let of_one = few.iops / f64::from(few.devices);
    (of_one > 0.0).then(|| (all.iops / of_one).min(f64::from(all.devices)))
}

/// Indices of the points on the outer curve: those with higher IOPS than any point with fewer outstanding I/Os. Ignores
/// points with unusable figures. All points off the curve only add latency and should be greyed out in a chart.
pub fn outside_curve(points: &[LoadPoint]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).filter(|&i| points[i].sound).collect();
    order.sort_by(|&i, &j| {
        let (a, b) = (&points[i], &points[j]);
        a.oio.cmp(&b.oio).then(b.iops.total_cmp(&a.iops))
    });
    let mut highest = 0.0;
    order.retain(|&i| {
        let raises = points[i].iops > highest;
        if raises {
            highest = points[i].iops;
        }
        raises
    });
    order
}

/// Chooses up to `count` intermediate points. Divides the range between the IOPS at the fewest outstanding I/Os and the
/// highest IOPS by `count` evenly spaced values, and returns the point closest to each value; ties go to fewer
/// outstanding I/Os. Returns fewer points if one point is the closest to several values. Considers only points within
/// the maximum latencies `ceilings_ns`.
pub fn mid_points(points: &[LoadPoint], ceilings_ns: &[f64], count: u32) -> Vec<usize> {
    let feasible: Vec<usize> =
        (0..points.len()).filter(|&i| points[i].within(ceilings_ns)).collect();
    let highest = feasible.iter().map(|&i| points[i].iops).fold(0.0, f64::max);
    let Some(&first) = feasible.iter().min_by_key(|&&i| points[i].oio) else {
        return Vec::new();
    };
    let lowest = points[first].iops;
    let mut found: Vec<usize> = (1..=count)
        .filter_map(|k| {
            let wanted = lowest + (highest - lowest) * f64::from(k) / f64::from(count + 1);
            feasible.iter().copied().min_by(|&i, &j| {
                let off = |i: usize| (points[i].iops - wanted).abs();
                off(i).total_cmp(&off(j)).then(points[i].oio.cmp(&points[j].oio))
            })
        })
        .collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(oio: u32, iops: f64, p99_us: f64) -> LoadPoint {
        LoadPoint { oio, iops, latency_ns: vec![Some(p99_us * 1e3)], sound: true }
    }

    /// Simulates a sweep of a drive that saturates at 64 outstanding I/Os.
    fn sweep() -> Vec<LoadPoint> {
        vec![
            point(256, 500_500.0, 1_400.0),
            point(1, 11_000.0, 120.0),
            point(16, 160_000.0, 180.0),
            point(64, 495_000.0, 350.0),
            point(128, 501_000.0, 700.0),
            point(4, 43_000.0, 130.0),
        ]
    }

    #[test]
    fn the_knee_is_the_least_load_that_is_nearly_the_best() {
        let points = sweep();
        let found = |chosen, most, runner_up| Optimum::Found { chosen, most, runner_up };
        assert_eq!(optimum(&points, &[1e6]), found(3, 4, Some(4)));
        assert_eq!(optimum(&points, &[2e6]), found(3, 4, Some(4)));
        assert_eq!(optimum(&points, &[350e3]), found(3, 3, Some(2)), "a ceiling may be touched");
        assert_eq!(optimum(&points, &[349e3]), found(2, 2, Some(5)));
        assert_eq!(optimum(&points, &[125e3]), found(1, 1, None));
        assert_eq!(optimum(&points, &[100e3]), Optimum::NoneFeasible { least: 1 });
        assert_eq!(optimum(&[], &[1e6]), Optimum::NoPoints);
        // Unsupported percentiles and unsound points don't count.
        let mut points = sweep();
        points[3].latency_ns[0] = None;
        points[4].sound = false;
        assert_eq!(optimum(&points, &[2e6]), found(0, 0, Some(2)));
        let bare: Vec<LoadPoint> =
            sweep().into_iter().map(|p| LoadPoint { latency_ns: vec![], ..p }).collect();
        assert_eq!(optimum(&bare, &[]), found(3, 4, Some(4)));
    }

    /// Two points tie if their confidence intervals overlap, in either order. A point over a ceiling or without a
    /// confidence interval ties with none.
    #[test]
    fn ties_are_overlaps_of_intervals() {
        let points = sweep();
        // For 256, 1, 16, 64, 128 and 4 outstanding I/Os.
        let widths = [Some(0.01), Some(0.5), None, Some(0.004), Some(0.009), Some(0.8)];
        let tied = |ceiling_ns, of| ties(&points, &[ceiling_ns], &widths, of);
        assert_eq!(tied(2e6, 4), [0, 3]);
        assert_eq!(tied(1e6, 4), [3], "the point with 256 is over the ceiling");
        assert_eq!(tied(1e6, 3), [4]);
        assert_eq!(tied(2e6, 1), [5]);
        assert_eq!(tied(2e6, 2), [0; 0]);
        for (of, other) in (0..6).flat_map(|of| (0..6).map(move |other| (of, other))) {
            assert_eq!(tied(2e6, of).contains(&other), tied(2e6, other).contains(&of));
        }
    }

    #[test]
    fn points_that_more_load_does_not_raise_are_inside() {
        let mut points = sweep();
        assert_eq!(outside_curve(&points), [1, 5, 2, 3, 4]);
        points.push(point(16, 170_000.0, 150.0));
        assert_eq!(
            outside_curve(&points),
            [1, 5, 6, 3, 4],
            "the better of two points at the same load"
        );
        points.push(point(100, 495_000.0, 500.0));
        assert_eq!(
            outside_curve(&points),
            [1, 5, 6, 3, 4],
            "more load at the same IOPS is no gain"
        );
    }

    #[test]
    fn mid_points_are_the_closest_ones() {
        let points = sweep();
        // Between 11 000 and 501 000 the middle is 256 000; 160 000 is closest.
        assert_eq!(mid_points(&points, &[2e6], 1), [2]);
        assert_eq!(mid_points(&points, &[2e6], 3), [2, 3]);
        assert_eq!(mid_points(&points, &[1.0], 1), [0; 0]);
        let tie =
            [point(1, 10.0, 1.0), point(9, 30.0, 1.0), point(8, 30.0, 1.0), point(32, 50.0, 1.0)];
        assert_eq!(mid_points(&tie, &[2e3], 1), [2]);
    }

    proptest! {
        /// Compares the optimum with its definition, for points in any order.
        #[test]
        fn the_answer_is_feasible_nearly_the_best_and_the_least(
            cells in prop::collection::vec((1_u32..300, 1.0_f64..1e3, 1.0_f64..1e3, any::<bool>()), 1..20),
            ceiling_us in 1.0_f64..1e3,
        ) {
            let points: Vec<LoadPoint> =
                cells.iter().map(|c| LoadPoint { sound: c.3, ..point(c.0, c.1, c.2) }).collect();
            let under = |p: &&LoadPoint| p.sound && p.latency_ns[0].unwrap() <= ceiling_us * 1e3;
            let most = points.iter().filter(under).map(|p| p.iops).fold(0.0, f64::max);
            match optimum(&points, &[ceiling_us * 1e3]) {
                Optimum::Found { chosen, most: at, .. } => {
                    let c = &points[chosen];
                    prop_assert!(under(&c) && c.iops >= 0.98 * most);
                    prop_assert_eq!(points[at].iops.to_bits(), most.to_bits());
                    prop_assert!(points.iter().filter(under).all(|p| p.oio >= c.oio || p.iops < 0.98 * most));
                }
                Optimum::NoneFeasible { .. } => prop_assert!(most <= 0.0),
                Optimum::NoPoints => prop_assert!(false),
            }
            let back: Vec<LoadPoint> = points.iter().rev().cloned().collect();
            let pick = |o: &Optimum, p: &[LoadPoint]| match o {
                Optimum::Found { chosen, .. } => Some((p[*chosen].oio, p[*chosen].iops.to_bits())),
                _ => None,
            };
            let (there, again) = (optimum(&points, &[ceiling_us * 1e3]), optimum(&back, &[ceiling_us * 1e3]));
            prop_assert_eq!(pick(&there, &points), pick(&again, &back));
        }
    }
}
