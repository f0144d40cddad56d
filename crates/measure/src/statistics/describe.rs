//! Descriptive figures of a list of numbers: mean, standard deviation, median, autocorrelation, the least squares
//! line. Inference about a larger population is in the other files.

use serde::{Deserialize, Serialize};

/// Two-sided confidence interval of a figure estimated from values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfidenceInterval {
    /// Lower end, in the unit of the values.
    pub low: f64,
    /// Upper end, in the unit of the values.
    pub high: f64,
    /// Confidence level, 0 to 1. Exact methods, which cannot reach every level, give the level achieved.
    pub level: f64,
}

impl ConfidenceInterval {
    /// Whether `x` lies in the interval, ends included.
    pub fn contains(&self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    /// Whether the whole interval lies within ± `limit` of 0, ends included.
    pub fn within(&self, limit: f64) -> bool {
        -limit <= self.low && self.high <= limit
    }

    /// Whether the whole interval lies above `limit`, or below −`limit`.
    pub fn beyond(&self, limit: f64) -> bool {
        self.low > limit || self.high < -limit
    }

    /// Half the width of the interval, in the unit of its bounds.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Multiplies both bounds by a positive factor.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self { low: self.low * factor, high: self.high * factor, level: self.level }
    }
}

/// Arithmetic mean; NaN when empty.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sample standard deviation, with divisor n − 1; NaN for fewer than two values.
pub fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// Returns the values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Median, the mean of the two middle values for an even number; NaN when empty.
pub fn median(values: &[f64]) -> f64 {
    median_in_place(&mut values.to_vec())
}

/// Like [`median`], in linear time, but reorders the values.
pub fn median_in_place(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let odd = values.len() % 2 == 1;
    let (below, &mut upper, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    if odd {
        return upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    lower + (upper - lower) / 2.0
}

/// Autocorrelation at `lag` (1 or more), −1 to 1, estimated with the divisor n at every lag (Box and
/// Jenkins). None for a constant series, or if the series is not longer than the lag.
pub fn autocorrelation(values: &[f64], lag: usize) -> Option<f64> {
    if values.len() <= lag {
        return None;
    }
    let mean = mean(values);
    let power: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let product: f64 =
        values.iter().zip(&values[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum();
    // A series that is constant except for rounding has no meaningful correlation.
    let rounding = (1e-12 * mean).powi(2) * values.len() as f64;
    (power > rounding).then(|| product / power)
}

/// Straight line fitted to a series by least squares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Rise of the line per unit of x.
    pub slope: f64,
    /// Value of the line at x = 0.
    pub intercept: f64,
    /// Correlation of the values with x, −1 to 1; None for a constant series.
    pub correlation: Option<f64>,
}

/// Fits a line to values at x = `first_x`, `first_x` + 1 and so on, by ordinary least squares. The slope is 0
/// for a single value and NaN for none.
pub fn least_squares(first_x: f64, values: &[f64]) -> Line {
    let mean_y = mean(values);
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (i, y) in values.iter().enumerate() {
        let (x, y) = (i as f64 - middle, y - mean_y);
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    let correlation = (yy > 0.0 && xx > 0.0).then(|| xy / (xx * yy).sqrt());
    Line { slope, intercept: mean_y - slope * (first_x + middle), correlation }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_small_list_agree_with_a_calculation_by_hand() {
        let y = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert!((mean(&y) - 5.0).abs() < 1e-15);
        assert!((deviation(&y) - (32.0_f64 / 7.0).sqrt()).abs() < 1e-15);
        assert!((median(&y) - 4.5).abs() < 1e-15);
        assert!((median(&y[1..]) - 5.0).abs() < 1e-15);
        // (−3·−1 + −1·−1 + −1·−1 + −1·0 + 0·0 + 0·2 + 2·4) / 32
        assert!((autocorrelation(&y, 1).unwrap() - 13.0 / 32.0).abs() < 1e-15);
        assert_eq!(autocorrelation(&[0.1; 9], 1), None);
        assert!(mean(&[]).is_nan() && median(&[]).is_nan() && deviation(&[1.0]).is_nan());
    }

    #[test]
    fn the_line_is_found_again() {
        let y: Vec<f64> = (3..9).map(|x| 7.0 - 2.5 * f64::from(x)).collect();
        let line = least_squares(3.0, &y);
        assert!((line.slope + 2.5).abs() < 1e-12 && (line.intercept - 7.0).abs() < 1e-12);
        assert!((line.correlation.unwrap() + 1.0).abs() < 1e-12);
        // Anscombe's first set, in order of x = 4 to 14: 3.0 + 0.5 x, r = 0.816.
        let y = [4.26, 5.68, 7.24, 4.82, 6.95, 8.81, 8.04, 8.33, 10.84, 7.58, 9.96];
        let line = least_squares(4.0, &y);
        assert!((line.slope - 0.500_09).abs() < 1e-5 && (line.intercept - 3.000_09).abs() < 1e-5);
        assert!((line.correlation.unwrap() - 0.816_42).abs() < 1e-5);
    }
}
