//! Oscillation: a periodic swing, for example from garbage collection, journal commits or a flusher. It shows as a
//! peak of the autocorrelation after a stretch below 0. The peak must be high, and significant against its standard
//! error by Bartlett's formula (1946); otherwise every autocorrelated series would seem to swing.

use super::describe;
use serde::{Deserialize, Serialize};

/// Minimum autocorrelation at the period for a swing to be reported.
const STRENGTH_MIN: f64 = 0.3;
/// Minimum autocorrelation at the period for a swing to be reported, in standard errors.
const ERRORS_MIN: f64 = 4.0;
/// Minimum number of periods that the series must contain.
pub const PERIODS_MIN: usize = 4;

/// A periodic swing of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Oscillation {
    /// Period in steps of the series, 2 or more; interpolated, so not always a whole number.
    pub period: f64,
    /// Autocorrelation at the period, 0 to 1: about the share of the variance that is periodic.
    pub strength: f64,
    /// Amplitude of a sine wave with the power of the periodic component, in the unit of the values.
    pub amplitude: f64,
}

/// Finds a periodic swing of evenly spaced `values` around their least-squares line; None if there is none. The run
/// time grows with the square of the number of values, so average longer series down to a few thousand points.
pub fn oscillation(values: &[f64]) -> Option<Oscillation> {
    let n = values.len();
    let lag_max = n / PERIODS_MIN;
    if lag_max < 2 {
        return None;
    }
    let line = describe::least_squares(0.0, values);
    let level = describe::mean(values).abs();
    let rest: Vec<f64> = values
        .iter()
        .enumerate()
        .map(|(i, v)| v - line.intercept - line.slope * i as f64)
        .collect();
    let power = rest.iter().map(|r| r * r).sum::<f64>();
    // A series that lies on its line except for rounding has no swing.
    if power <= (1e-9 * level).powi(2) * n as f64 {
        return None;
    }
    // Each lag has n − lag products, and is divided by that number, so that long periods are not weakened.
    let r: Vec<f64> = (0..=lag_max + 1)
        .map(|lag| {
            let products: f64 = rest.iter().zip(&rest[lag..]).map(|(a, b)| a * b).sum();
            products / power * n as f64 / (n - lag) as f64
        })
        .collect();
    let below = (1..=lag_max).find(|&lag| r[lag] < 0.0)?;
    let peak = (below + 1..=lag_max).max_by(|&a, &b| r[a].total_cmp(&r[b]))?;
    // Multiples of the period fit too: take the first peak that is nearly as high.
    let peak = (below + 1..peak)
        .find(|&lag| r[lag] > 0.85 * r[peak] && r[lag] >= r[lag - 1] && r[lag] >= r[lag + 1])
        .unwrap_or(peak);
    let memory: f64 = r[1..below].iter().map(|r| r * r).sum();
    let error = ((1.0 + 2.0 * memory) / n as f64).sqrt();
    if r[peak] < STRENGTH_MIN || r[peak] < ERRORS_MIN * error {
        return None;
    }
    let strength = r[peak].min(1.0);
    let amplitude = (2.0 * strength * power / n as f64).sqrt();
    Some(Oscillation {
        period: peak as f64 + vertex(r[peak - 1], r[peak], r[peak + 1]),
        strength,
        amplitude,
    })
}

/// Position of the vertex of the parabola through three neighbouring values, relative to the middle one, −½
/// to ½.
fn vertex(before: f64, at: f64, after: f64) -> f64 {
    let bend = before - 2.0 * at + after;
    if bend < 0.0 { ((before - after) / (2.0 * bend)).clamp(-0.5, 0.5) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::noise::{ar1, share, trial};

    #[test]
    fn periods_and_amplitudes_are_found_again() {
        for (period, amplitude) in [(7.0, 0.05), (33.3, 0.10), (75.0, 0.04)] {
            let found = share(100, |i| {
                let mut y = ar1(&mut trial("swing", i), 900, 1.0, 0.02, 0.3);
                for (i, v) in y.iter_mut().enumerate() {
                    *v += amplitude * (std::f64::consts::TAU * i as f64 / period).sin()
                        - 1e-4 * i as f64;
                }
                oscillation(&y).is_some_and(|o| {
                    (o.period / period - 1.0).abs() < 0.05
                        && (o.amplitude / amplitude - 1.0).abs() < 0.2
                })
            });
            assert!(found > 0.9, "period {period}: {found}");
        }
        // Alternating ± 10 %, which passes the specification's test for a steady state.
        let turn: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 1.1 } else { 0.9 }).collect();
        let o = oscillation(&turn).unwrap();
        assert!((o.period - 2.0).abs() < 1e-3 && o.strength > 0.9, "{o:?}");
        assert!((o.amplitude - 0.1 * 2.0_f64.sqrt()).abs() < 0.01, "{o:?}");
    }

    #[test]
    fn noise_steps_and_drifts_do_not_swing() {
        for rho in [0.0, 0.5, 0.9] {
            let swings = share(500, |i| {
                oscillation(&ar1(&mut trial("still", i), 300, 1.0, 0.05, rho)).is_some()
            });
            assert!(swings < 0.02, "correlation {rho}: {swings}");
        }
        let step: Vec<f64> = (0..300).map(|i| if i < 100 { 2.0 } else { 1.0 }).collect();
        let ramp: Vec<f64> = (0..300).map(|i| 5.0 - 0.01 * f64::from(i)).collect();
        assert_eq!((oscillation(&step), oscillation(&ramp)), (None, None));
        assert_eq!(oscillation(&[0.1; 50]), None);
        assert_eq!(oscillation(&[1.0, 2.0, 1.0]), None);
    }
}
