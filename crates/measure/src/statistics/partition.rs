//! Optimal partitioning: finds the cheapest division of a series into segments (Jackson and others, IEEE Signal
//! Processing Letters 12, 2005).

/// Divides `n` points into segments of at least `least` points so that the sum of the segments' costs, plus `penalty`
/// for each segment, is smallest. Returns the start index of each segment. `cost(start, end)` is the cost of the points
/// `start..end`. Fewer than twice `least` points form one segment; `n` must be positive.
pub(super) fn cheapest(
    n: usize,
    least: usize,
    penalty: f64,
    cost: impl Fn(usize, usize) -> f64,
) -> Vec<usize> {
    // best[t]: least cost of the first t points, and where their last segment starts. No cut is possible where it is
    // infinite.
    let mut best = vec![(f64::INFINITY, 0); n + 1];
    best[0].0 = 0.0;
    for end in least.min(n)..=n {
        for start in 0..=end.saturating_sub(least) {
            if best[start].0.is_finite() {
                let sum = best[start].0 + cost(start, end) + penalty;
                if sum < best[end].0 {
                    best[end] = (sum, start);
                }
            }
        }
    }
    let mut starts = vec![best[n].1];
    while let Some(&start) = starts.last()
        && start > 0
    {
        starts.push(best[start].1);
    }
    starts.reverse();
    starts
}
