//! Words for confidence intervals: as many digits as the ends need to differ.

use iodyno_units::human;

/// Maximum number of digits of an end.
const DIGITS_MAX: usize = 6;
/// Half width of an interval whose ends agree in [`DIGITS_MAX`] digits.
const NARROW_RATE: &str = "< 0.001 %";
/// Half width of a histogram bucket. The ends of a percentile's interval are the same if they are in one bucket.
const BUCKET: &str = "0.4 %";

/// Formats the interval of a rate: `142.3 to 142.4 k IOPS`, or `142 k IOPS ± < 0.001 %`. `human` formats an end with
/// three digits.
pub(crate) fn of_rate(low: f64, high: f64, human: impl Fn(f64) -> String) -> String {
    let ends = ends(low, high, &human);
    joined(ends, NARROW_RATE)
}

/// Formats the interval of a latency percentile, ns; `None`: unbounded.
pub(crate) fn of_percentile(low_ns: Option<f64>, high_ns: Option<f64>) -> String {
    if let (Some(low), Some(high)) = (low_ns, high_ns) {
        return joined(ends(low, high, &human::time_ns), BUCKET);
    }
    let [low, high] = [low_ns, high_ns].map(|end| end.map(human::time_ns));
    human::between(low.as_deref(), high.as_deref())
}

/// Formats both ends of an interval with three digits, or with more if they would be equal.
pub(crate) fn ends(low: f64, high: f64, human: &impl Fn(f64) -> String) -> (String, String) {
    let (first, last) = (human(low), human(high));
    if first != last {
        return (first, last);
    }
    let (number, unit) = first.split_once(' ').unwrap_or((&first, ""));
    let Some(scale) = number.parse().ok().and_then(|shown: f64| scale(low / shown)) else {
        return (first, last);
    };
    let gap = if unit.is_empty() { "" } else { " " };
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let more = (1..=DIGITS_MAX - 3).map(|more| {
        [low, high].map(|end| format!("{:.*}{gap}{unit}", decimals + more, end / scale))
    });
    let found = more.into_iter().find(|[low, high]| low != high);
    found.map_or((first.clone(), last), |[low, high]| (low, high))
}

/// Scale of a unit, a power of ten, from the ratio of a value to its rounded number; `None` for zero.
fn scale(ratio: f64) -> Option<f64> {
    let scale = 10_f64.powf(ratio.log10().round());
    (scale.is_finite() && scale > 0.0).then_some(scale)
}

fn joined((low, high): (String, String), half_width: &str) -> String {
    if low == high {
        return format!("{low} ± {half_width}");
    }
    human::between(Some(&low), Some(&high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_the_digits_in_which_they_differ() {
        let iops = |x: f64| format!("{} IOPS", human::count(x));
        assert_eq!(of_rate(141_000.0, 142_000.0, iops), "141 to 142 k IOPS");
        assert_eq!(of_rate(142_310.0, 142_390.0, iops), "142.3 to 142.4 k IOPS");
        assert_eq!(of_rate(950.04, 950.06, iops), "950.0 to 950.1 IOPS");
        assert_eq!(of_rate(999_990.0, 1_000_010.0, iops), "0.99999 to 1.00001 M IOPS");
        assert_eq!(of_rate(100_000.0, 100_000.0, iops), "100 k IOPS ± < 0.001 %");
        assert_eq!(of_rate(0.0, 0.0, human::count), "0 ± < 0.001 %");
        assert_eq!(of_percentile(Some(491e6), Some(491e6)), "491 ms ± 0.4 %");
        assert_eq!(of_percentile(Some(76_910.0), Some(76_930.0)), "76.91 to 76.93 µs");
        assert_eq!(of_percentile(Some(76_900.0), None), "76.9 µs or more");
    }
}
