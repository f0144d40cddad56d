//! Judges whether a series, such as IOPS per interval, is steady at its end, and how fast its level changes, as a
//! fraction per hour. This verdict is iodyno's own, in addition to that of SNIA's specification ([`super::steady`]).
//!
//! The series is cut at its breaks ([`super::change`]); only the segment after the last break counts. The slope of this
//! segment ([`super::slope`]) must be small: its whole confidence interval must lie within ± 1 % per hour. It is not
//! enough that the interval includes 0, since then noise alone would make any series steady. A swing
//! ([`super::oscillation`]) is reported with its period. A large swing has a verdict of its own, since the
//! specification's test accepts ± 10 %.

use super::{BadInput, ConfidenceInterval, all_finite, change, describe, oscillation, slope};
use serde::{Deserialize, Serialize};

/// Maximum number of points in the search for breaks; longer series are first averaged down.
const POINTS_BREAKS: usize = 600;
/// Maximum number of points in the slope fit, whose run time grows with the square of this number; longer series are
/// first averaged down.
const POINTS_SLOPE: usize = 60;
/// Maximum number of points in the search for a periodic swing; longer series are first averaged down.
const POINTS_SWING: usize = 4_096;
/// Minimum number of points for judging a slope.
const POINTS_MIN: usize = 24;

/// Criteria by which a series counts as steady.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriftLimits {
    /// Maximum drift of the level, as a fraction per hour; above 0.
    pub share_per_hour_max: f64,
    /// Maximum amplitude of a periodic swing, as a fraction of the level; above 0.
    pub amplitude_share_max: f64,
    /// Minimum length of the segment after the last break, seconds. A shorter segment is never judged steady.
    pub length_min_s: f64,
    /// Minimum length of the segment after the last break, in periods of the segment's swing; ignored without a swing.
    /// A shorter segment is never judged steady.
    pub periods_min: f64,
    /// Confidence level of the slope's confidence interval, 0 to 1.
    pub level: f64,
}

impl Default for DriftLimits {
    /// Returns a maximum drift of 1 % per hour with 95 % confidence, at least 300 s and 20 periods, and swings up
    /// to 5 %.
    fn default() -> Self {
        Self {
            share_per_hour_max: 0.01,
            amplitude_share_max: 0.05,
            length_min_s: 300.0,
            periods_min: 20.0,
            level: 0.95,
        }
    }
}

/// Verdict on the part of a series after its last break.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steadiness {
    /// The confidence interval of the drift lies within the limit.
    Steady,
    /// The confidence interval of the drift lies beyond the limit.
    Drifting,
    /// The amplitude of a periodic swing exceeds the limit.
    Oscillating {
        /// Time from one peak of the swing to the next, seconds.
        period_s: f64,
    },
    /// The series since the last break is too short.
    TooShort {
        /// Required length of the series, seconds: the time until the last break, which doesn't count, and the minimum
        /// length after it.
        needed_s: f64,
    },
    /// The noise is too large to decide; a longer run is needed.
    Inconclusive {
        /// Estimated length of the series that would allow a verdict, seconds, if the target is steady and the noise
        /// unchanged. Includes the time until the last break. None if the estimated slope is not below the limit.
        needed_s: Option<f64>,
    },
}

/// Verdict on the steadiness of a series, with the breaks, slope and swing on which it is based.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Verdict on the part of the series after its last break.
    pub steadiness: Steadiness,
    /// Limits by which the series was judged.
    pub limits: DriftLimits,
    /// Times at which the level or trend changed abruptly, seconds from the start of the series.
    pub breaks_s: Vec<f64>,
    /// Length of the segment after the last break, seconds.
    pub length_s: f64,
    /// Mean of the segment after the last break, in the unit of the values.
    pub mean: f64,
    /// Change per hour in the last segment (Theil–Sen slope), as a fraction of the segment's mean; negative for a
    /// decline. None if the segment is too short.
    pub share_per_hour: Option<f64>,
    /// Confidence interval of `share_per_hour` (block bootstrap); None if the segment is too short.
    pub interval: Option<ConfidenceInterval>,
    /// Correlation of neighbouring intervals in the last segment; None for a constant series.
    pub correlation: Option<f64>,
    /// Periodic swing, whatever its amplitude; None if there is none. Its period is in steps of `swing_step_s`,
    /// its amplitude in the unit of the values.
    pub swing: Option<oscillation::Oscillation>,
    /// Length of a step, seconds. The period of `swing` is a number of steps.
    pub swing_step_s: f64,
}

/// Judges whether `series` is steady. The series has one value per `interval_s` seconds, such as mean IOPS or latency;
/// the mean of these values must be above 0. `seed` makes the bootstrap confidence interval of the slope reproducible.
pub fn judge(
    series: &[f64],
    interval_s: f64,
    limits: &DriftLimits,
    seed: u64,
) -> Result<Drift, BadInput> {
    all_finite("a series", series)?;
    if !(interval_s > 0.0 && interval_s.is_finite()) {
        return Err(BadInput(format!("the interval must be above 0 s, not {interval_s} s")));
    }
    if series.is_empty() || describe::mean(series) <= 0.0 {
        return Err(BadInput(
            "a drift is a share of the mean level, but the mean level of this series is not above 0: nothing was measured".to_owned(),
        ));
    }
    let whole = swing_at_the_end(series);
    let breaks = breaks(series, whole.map(|w| w.0.period * w.1 as f64));
    let last = &series[breaks.last().copied().unwrap_or(0)..];
    let mean = describe::mean(last);
    let length_s = last.len() as f64 * interval_s;
    let step = last.len().div_ceil(POINTS_SWING);
    let swing = oscillation::oscillation(&averaged(last, step));
    let swing_step_s = step as f64 * interval_s;
    let period_s = swing.map(|s| s.period * swing_step_s);
    let length_min_s = limits.length_min_s.max(limits.periods_min * period_s.unwrap_or(0.0));
    let until_break_s = (series.len() - last.len()) as f64 * interval_s;
    let mut drift = Drift {
        steadiness: Steadiness::TooShort { needed_s: until_break_s + length_min_s },
        limits: *limits,
        breaks_s: breaks.iter().map(|&b| b as f64 * interval_s).collect(),
        length_s,
        mean,
        share_per_hour: None,
        interval: None,
        correlation: describe::autocorrelation(last, 1),
        swing,
        swing_step_s,
    };
    let swings = swing.is_some_and(|s| s.amplitude > limits.amplitude_share_max * mean.abs());
    if let (true, Some(period_s)) = (swings, period_s) {
        drift.steadiness = Steadiness::Oscillating { period_s };
    }
    // A point of the fit covers whole periods of a swing, or the swing's phase would look like a trend.
    let period_steps = period_s.map_or(1, |p| (p / interval_s).round().max(1.0) as usize);
    let mut width = last.len().div_ceil(POINTS_SLOPE);
    if last.len() / period_steps >= POINTS_MIN {
        width = width.next_multiple_of(period_steps);
    }
    let points = averaged(last, width);
    if points.len() < POINTS_MIN || mean <= 0.0 {
        return Ok(drift);
    }
    let found = slope::slope(&points, limits.level, seed);
    let per_hour = 3_600.0 / (width as f64 * interval_s) / mean;
    let (share, interval) = (found.per_step * per_hour, found.interval.scaled(per_hour));
    drift.share_per_hour = Some(share);
    drift.interval = Some(interval);
    let limit = limits.share_per_hour_max;
    drift.steadiness = if length_s < length_min_s && !swings {
        drift.steadiness
    } else if interval.beyond(limit) {
        Steadiness::Drifting
    } else if swings {
        drift.steadiness
    } else if interval.within(limit) {
        Steadiness::Steady
    } else {
        // The interval of a slope narrows with the length to the power of 3/2.
        let left = limit - share.abs();
        let longer = (interval.half_width() / left).powf(2.0 / 3.0);
        let needed_s = (left > 0.0).then_some(until_break_s + length_s * longer);
        Steadiness::Inconclusive { needed_s }
    };
    Ok(drift)
}

/// Averages groups of `width` values. An incomplete group is dropped at the start, because the end of the
/// series is judged.
fn averaged(series: &[f64], width: usize) -> Vec<f64> {
    series[series.len() % width..].chunks_exact(width).map(describe::mean).collect()
}

/// Finds a periodic swing in the whole series, or in its last half or quarter if a break hides it. Long series are
/// averaged in steps of several values first. Returns the swing, whose period is a number of steps, and the number of
/// values per step; None if there is no swing.
fn swing_at_the_end(series: &[f64]) -> Option<(oscillation::Oscillation, usize)> {
    [1, 2, 4].into_iter().find_map(|part| {
        let tail = &series[series.len() - series.len() / part..];
        let step = tail.len().div_ceil(POINTS_SWING).max(1);
        oscillation::oscillation(&averaged(tail, step)).map(|o| (o, step))
    })
}

/// Indices of the breaks in the series. If it swings with a `period`, whole periods are averaged first, so
/// that waves do not look like breaks.
fn breaks(series: &[f64], period: Option<f64>) -> Vec<usize> {
    let mut width = series.len().div_ceil(POINTS_BREAKS);
    if let Some(period) = period {
        width = width.next_multiple_of(period.round().max(1.0) as usize);
    }
    let rest = series.len() % width;
    change::segments(&averaged(series, width))
        .iter()
        .skip(1)
        .map(|s| rest + s.start * width)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::noise::{ar1, share, trial};

    /// Simulates `n` intervals of 1 s at 100 000 IOPS, drifting by the fraction `per_hour` per hour.
    fn series(name: &str, number: u64, n: usize, cv: f64, rho: f64, per_hour: f64) -> Vec<f64> {
        let mut y = ar1(&mut trial(name, number), n, 1e5, cv, rho);
        for (i, v) in y.iter_mut().enumerate() {
            *v *= 1.0 + per_hour * i as f64 / 3_600.0;
        }
        y
    }

    fn of(y: &[f64]) -> Drift {
        judge(y, 1.0, &DriftLimits::default(), 1).unwrap()
    }

    #[test]
    fn steady_drifting_and_unknown_are_distinguished() {
        let verdicts = |per_hour, cv, pick: fn(&Steadiness) -> bool| {
            share(20, |i| pick(&of(&series("verdict", i, 1_800, cv, 0.3, per_hour)).steadiness))
        };
        let steady: fn(&Steadiness) -> bool = |s| *s == Steadiness::Steady;
        let drifting: fn(&Steadiness) -> bool = |s| *s == Steadiness::Drifting;
        let unknown: fn(&Steadiness) -> bool = |s| matches!(s, Steadiness::Inconclusive { .. });
        assert!(verdicts(0.0, 0.005, steady) >= 0.9);
        assert!(verdicts(-0.05, 0.005, drifting) > 0.9);
        assert!(verdicts(0.05, 0.005, drifting) > 0.9);
        // Noise of 10 % hides 1 % per hour, and a change that can't be shown is not claimed.
        assert!(verdicts(0.0, 0.10, unknown) > 0.8);
        // Exactly at the limit neither is shown more often than the confidence permits.
        assert!(verdicts(0.01, 0.005, steady) < 0.1 && verdicts(0.01, 0.005, drifting) < 0.1);
    }

    /// A decline of 2.4 % per one-minute round, which the SNIA steady-state test accepts.
    #[test]
    fn a_loss_that_passes_the_specification_is_drift() {
        let y: Vec<f64> = series("loss", 0, 600, 0.01, 0.0, 0.0);
        let y: Vec<f64> =
            y.iter().enumerate().map(|(i, v)| v * 0.976_f64.powf(i as f64 / 60.0)).collect();
        let d = of(&y);
        assert_eq!(d.steadiness, Steadiness::Drifting, "{d:?}");
        assert!(d.share_per_hour.unwrap() < -1.0, "more than all of it in an hour");
    }

    /// After the estimated time most steady targets are judged steady; after half of it, few are.
    #[test]
    fn the_estimated_length_is_about_right() {
        let (mut asked, mut enough, mut early) = (0, 0, 0);
        for i in 0..30 {
            let d = of(&series("longer", i, 600, 0.01, 0.0, 0.0));
            let Steadiness::Inconclusive { needed_s: Some(needed_s) } = d.steadiness else {
                continue;
            };
            let steady = |part: f64| {
                let longer = series("longer", i, (part * needed_s) as usize, 0.01, 0.0, 0.0);
                u32::from(of(&longer).steadiness == Steadiness::Steady)
            };
            (asked, enough, early) = (asked + 1, enough + steady(1.1), early + steady(0.5));
        }
        assert!(
            asked > 10 && 3 * enough >= 2 * asked && 3 * early <= asked,
            "{asked} {enough} {early}"
        );
    }

    #[test]
    fn only_what_follows_the_last_break_counts() {
        let mut y = series("cliff", 0, 2_400, 0.003, 0.2, 0.0);
        y[..500].iter_mut().for_each(|v| *v *= 2.5);
        let d = of(&y);
        assert_eq!(d.steadiness, Steadiness::Steady, "{d:?}");
        assert!(d.breaks_s.len() == 1 && (d.breaks_s[0] - 500.0).abs() <= 4.0, "{d:?}");
        assert!((d.mean / 1e5 - 1.0).abs() < 0.01, "the mean is that of the last segment");
        // Shortly after the break there is no conclusion yet: the whole series must be longer than it is by what the
        // part after the break lacks.
        let d = of(&y[..700]);
        let Steadiness::TooShort { needed_s } = d.steadiness else { panic!("{d:?}") };
        assert!((d.length_s - 200.0).abs() <= 4.0 && needed_s == d.breaks_s[0] + 300.0, "{d:?}");
        // The estimate for noise counts from the start, too.
        let mut estimates = 0;
        for i in 0..30 {
            let mut y = series("noisy cliff", i, 1_100, 0.01, 0.0, 0.0);
            y[..500].iter_mut().for_each(|v| *v *= 2.5);
            let (cut, tail) = (of(&y), of(&y[500..]));
            let needed_s = |d: &Drift| match d.steadiness {
                Steadiness::Inconclusive { needed_s } => needed_s,
                _ => None,
            };
            if let (Some(of_tail), [500.0]) = (needed_s(&tail), cut.breaks_s.as_slice()) {
                assert_eq!(needed_s(&cut), Some(of_tail + 500.0), "{cut:?} {tail:?}");
                estimates += 1;
            }
        }
        assert!(estimates > 3, "{estimates}");
        assert_eq!(of(&y[..20]).share_per_hour, None);
    }

    #[test]
    fn swings_are_reported_with_their_period() {
        let wave_of = |amplitude: f64, n: usize, period: f64| -> Vec<f64> {
            let mut y = series("wave", 0, n, 0.003, 0.0, 0.0);
            for (i, v) in y.iter_mut().enumerate() {
                *v += 1e5 * amplitude * (std::f64::consts::TAU * i as f64 / period).sin();
            }
            y
        };
        let wave = |amplitude, n| wave_of(amplitude, n, 45.0);
        let d = of(&wave(0.10, 1_800));
        assert!(
            matches!(d.steadiness, Steadiness::Oscillating { period_s } if (period_s - 45.0).abs() < 1.0),
            "{d:?}"
        );
        // A small swing is reported and does not prevent a steady verdict, given 20 periods. Whole periods are
        // averaged, so that even a long and strong one does not hide the trend.
        let d = of(&wave_of(0.045, 1_800, 72.0));
        assert_eq!(d.steadiness, Steadiness::Steady, "{d:?}");
        assert!(d.share_per_hour.unwrap().abs() < 5e-4, "its phase is no trend: {d:?}");
        let d = of(&wave(0.01, 1_800));
        assert_eq!(d.steadiness, Steadiness::Steady, "{d:?}");
        let swing = d.swing.unwrap();
        assert!((swing.period * d.swing_step_s - 45.0).abs() < 1.0, "{swing:?}");
        assert!((swing.amplitude / 1e3 - 1.0).abs() < 0.2, "{swing:?}");
        assert!(
            matches!(of(&wave(0.01, 600)).steadiness, Steadiness::TooShort { needed_s } if (needed_s - 900.0).abs() < 20.0)
        );
        // After a cliff, too.
        let mut y = wave(0.10, 1_800);
        y[..600].iter_mut().for_each(|v| *v *= 2.0);
        let d = of(&y);
        assert!(matches!(d.steadiness, Steadiness::Oscillating { .. }), "{d:?}");
    }

    /// Changing the units of the values and of time has no effect except rounding.
    #[test]
    fn units_do_not_matter() {
        let y = series("units", 0, 900, 0.004, 0.2, 0.03);
        let plain = of(&y);
        let scaled: Vec<f64> = y.iter().map(|v| v * 2_f64.powi(-40)).collect();
        let d = of(&scaled);
        assert_eq!(d.steadiness, plain.steadiness);
        assert_eq!((d.share_per_hour, d.interval), (plain.share_per_hour, plain.interval));
        let slow = judge(&y, 2.0, &DriftLimits::default(), 1).unwrap();
        assert_eq!(slow.share_per_hour, plain.share_per_hour.map(|s| s / 2.0));
        assert_eq!(of(&[5.0; 400]).steadiness, Steadiness::Steady);
        assert!(judge(&[0.0; 400], 1.0, &DriftLimits::default(), 1).is_err());
        assert!(judge(&y, 0.0, &DriftLimits::default(), 1).is_err());
        // A day of seconds can be judged too, by averages.
        let day = of(&series("day", 0, 86_400, 0.02, 0.5, -0.002));
        assert_eq!(day.steadiness, Steadiness::Steady, "{day:?}");
        assert!((day.share_per_hour.unwrap() + 0.002).abs() < 2e-4, "{day:?}");
    }
}
