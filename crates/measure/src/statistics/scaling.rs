//! Scaling with threads, devices or hosts: speed-up and efficiency relative to the smallest number measured, and
//! Gunther's universal scalability law (*Guerrilla Capacity Planning*, 2007), fitted to the measured throughput:
//!
//! ```text
//! X(n) = λ n / (1 + σ (n − 1) + κ n (n − 1))
//! ```
//!
//! λ is the throughput of a single thread, device or host. σ is the serialised share of the work (contention). κ is the
//! cost of keeping each pair of them in agreement (coherency); with κ above 0, throughput falls again at large n.

use super::{BadInput, all_finite};
use serde::{Deserialize, Serialize};

/// Measured throughput of N threads, devices or hosts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalePoint {
    /// Number of threads, devices or hosts; 1 or more.
    pub n: u32,
    /// Combined throughput of all `n`, in any unit (IOPS, MB/s), above 0.
    pub throughput: f64,
}

/// Speed-up and efficiency of a point relative to the point with the smallest `n`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// Number of threads, devices or hosts.
    pub n: u32,
    /// Combined throughput of all `n`, in the unit measured.
    pub throughput: f64,
    /// Throughput divided by the throughput at the smallest `n` measured.
    pub speed_up: f64,
    /// Throughput per thread, device or host, divided by that at the smallest `n`. 1 is perfect scaling; more is
    /// superlinear.
    pub efficiency: f64,
}

/// Computes speed-up and efficiency of every point, in the given order, relative to the point with the
/// smallest `n`. Points with a zero `n` or an invalid throughput are an error.
pub fn scaled(points: &[ScalePoint]) -> Result<Vec<Scaled>, BadInput> {
    checked(points)?;
    let Some(base) = points.iter().min_by_key(|p| p.n) else {
        return Ok(Vec::new());
    };
    let of = |p: &ScalePoint| {
        let speed_up = p.throughput / base.throughput;
        let efficiency = speed_up * f64::from(base.n) / f64::from(p.n);
        Scaled { n: p.n, throughput: p.throughput, speed_up, efficiency }
    };
    Ok(points.iter().map(of).collect())
}

fn checked(points: &[ScalePoint]) -> Result<(), BadInput> {
    let throughputs: Vec<f64> = points.iter().map(|p| p.throughput).collect();
    all_finite("the throughput", &throughputs)?;
    match points.iter().find(|p| p.n == 0 || p.throughput <= 0.0) {
        None => Ok(()),
        Some(p) => Err(BadInput(format!(
            "a scaling point with N = {} and a throughput of {} is not valid: both must be above 0",
            p.n, p.throughput
        ))),
    }
}

/// Parameters of the universal scalability law that fit the measured points best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scalability {
    /// λ: throughput of a single thread, device or host, in the unit of the points.
    pub alone: f64,
    /// σ: contention, the serialised share of the work; 0 or more.
    pub contention: f64,
    /// κ: coherency, the relative cost of communication between each pair of threads, devices or hosts; 0 or more.
    pub coherency: f64,
    /// Largest relative deviation of a measured point from the fitted curve.
    pub deviation_share_max: f64,
}

impl Scalability {
    /// Predicted throughput of `n` threads, devices or hosts, in the unit of the points.
    pub fn at(&self, n: f64) -> f64 {
        self.alone * n / (1.0 + self.contention * (n - 1.0) + self.coherency * n * (n - 1.0))
    }

    /// Number of threads, devices or hosts with the highest throughput, √((1 − σ)/κ). None if throughput never
    /// declines.
    pub fn peak(&self) -> Option<f64> {
        (self.coherency > 0.0 && self.contention < 1.0)
            .then(|| ((1.0 - self.contention) / self.coherency).sqrt())
    }
}

/// Fits the universal scalability law by least squares of the relative error. In n/X(n) = (1 + σ(n − 1) + κ
/// n(n − 1))/λ the coefficients are linear, so no iteration is needed; σ and κ are kept at 0 or above. Fewer
/// than four different `n` are an error, since three parameters fit any three points.
pub fn fit(points: &[ScalePoint]) -> Result<Scalability, BadInput> {
    checked(points)?;
    let mut different: Vec<u32> = points.iter().map(|p| p.n).collect();
    different.sort_unstable();
    different.dedup();
    if different.len() < 4 {
        return Err(BadInput(format!(
            "{} different scaling points are too few for a scalability law: measure at least four",
            different.len()
        )));
    }
    // Minimise Σ (X/n × (c0 + c1 (n − 1) + c2 n (n − 1)) − 1)². Columns are scaled by the largest n, or their fourth
    // powers would lose digits.
    let largest = f64::from(different[different.len() - 1]);
    let rows: Vec<[f64; 3]> = points
        .iter()
        .map(|p| {
            let (n, each) = (f64::from(p.n), p.throughput / f64::from(p.n));
            [each, each * (n - 1.0) / largest, each * n * (n - 1.0) / (largest * largest)]
        })
        .collect();
    let sets: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[0, 2], &[0]];
    let best = sets
        .iter()
        .filter_map(|set| least_squares(&rows, set))
        .filter(|c| c[0] > 0.0 && c[1] >= 0.0 && c[2] >= 0.0)
        .min_by(|a, b| misfit(&rows, a).total_cmp(&misfit(&rows, b)));
    let Some(c) = best else {
        return Err(BadInput("no scalability law fits these points".to_owned()));
    };
    let law = Scalability {
        alone: 1.0 / c[0],
        contention: c[1] / largest / c[0],
        coherency: c[2] / (largest * largest) / c[0],
        deviation_share_max: 0.0,
    };
    let off = |p: &ScalePoint| (law.at(f64::from(p.n)) / p.throughput - 1.0).abs();
    Ok(Scalability { deviation_share_max: points.iter().map(off).fold(0.0, f64::max), ..law })
}

fn misfit(rows: &[[f64; 3]], c: &[f64; 3]) -> f64 {
    rows.iter().map(|r| (r.iter().zip(c).map(|(x, c)| x * c).sum::<f64>() - 1.0).powi(2)).sum()
}

/// Minimises Σ (row · c − 1)² over the coefficients c in `set`, with the others 0, by solving the normal
/// equations. None if they are singular.
fn least_squares(rows: &[[f64; 3]], set: &[usize]) -> Option<[f64; 3]> {
    let k = set.len();
    // The coefficient of `alone` is tiny where throughput is large: scale each column to 1.
    let size: Vec<f64> =
        set.iter().map(|&j| rows.iter().map(|r| r[j] * r[j]).sum::<f64>().sqrt()).collect();
    let mut m = vec![vec![0.0; k + 1]; k];
    for (i, &ci) in set.iter().enumerate() {
        for (j, &cj) in set.iter().enumerate() {
            m[i][j] = rows.iter().map(|r| r[ci] * r[cj]).sum::<f64>() / (size[i] * size[j]);
        }
        m[i][k] = rows.iter().map(|r| r[ci]).sum::<f64>() / size[i];
    }
    for i in 0..k {
        let pivot = (i..k).max_by(|&a, &b| m[a][i].abs().total_cmp(&m[b][i].abs()))?;
        m.swap(i, pivot);
        let head = m[i].clone();
        if head[i].abs().total_cmp(&1e-14).is_lt() || head[i].is_nan() {
            return None;
        }
        for row in m.iter_mut().skip(i + 1) {
            let times = row[i] / head[i];
            row.iter_mut().zip(&head).for_each(|(x, h)| *x -= times * h);
        }
    }
    let mut c = [0.0; 3];
    let mut solved = vec![0.0; k];
    for i in (0..k).rev() {
        let known: f64 = (i + 1..k).map(|j| m[i][j] * solved[j]).sum();
        solved[i] = (m[i][k] - known) / m[i][i];
        c[set[i]] = solved[i] / size[i];
    }
    Some(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::noise;
    use proptest::prelude::*;

    fn points(law: &Scalability, numbers: &[u32]) -> Vec<ScalePoint> {
        numbers.iter().map(|&n| ScalePoint { n, throughput: law.at(f64::from(n)) }).collect()
    }

    #[test]
    fn speed_up_and_efficiency() {
        let p = |n, throughput| ScalePoint { n, throughput };
        let s = scaled(&[p(4, 300.0), p(2, 200.0), p(8, 400.0)]).unwrap();
        let figures: Vec<(f64, f64)> = s.iter().map(|s| (s.speed_up, s.efficiency)).collect();
        assert_eq!(figures, [(1.5, 0.75), (1.0, 1.0), (2.0, 0.5)]);
        assert!(scaled(&[p(1, 0.0)]).is_err() && scaled(&[p(0, 1.0)]).is_err());
        assert_eq!(scaled(&[]).unwrap(), []);
        assert!(fit(&[p(1, 1.0), p(2, 2.0), p(2, 2.1), p(4, 3.0)]).is_err());
    }

    proptest! {
        /// Fitting points of a known law recovers its parameters in any unit.
        #[test]
        fn a_known_law_is_found(
            alone in 1e-3_f64..1e9, contention in 0.0_f64..0.5, coherency in 0.0_f64..0.02,
        ) {
            let law = Scalability { alone, contention, coherency, deviation_share_max: 0.0 };
            let found = fit(&points(&law, &[1, 2, 4, 8, 16, 32, 128])).unwrap();
            prop_assert!((found.alone / alone - 1.0).abs() < 1e-6, "{found:?}");
            prop_assert!((found.contention - contention).abs() < 1e-6, "{found:?}");
            prop_assert!((found.coherency - coherency).abs() < 1e-7, "{found:?}");
            prop_assert!(found.deviation_share_max < 1e-6);
        }
    }

    #[test]
    fn noise_moves_it_a_little_and_never_below_0() {
        let law =
            Scalability { alone: 9e4, contention: 0.05, coherency: 1e-3, deviation_share_max: 0.0 };
        assert!((law.peak().unwrap() - 950.0_f64.sqrt()).abs() < 1e-9);
        for i in 0..50 {
            let noise = noise::normals(&mut noise::trial("law", i), 7);
            let mut p = points(&law, &[1, 2, 4, 8, 16, 32, 64]);
            p.iter_mut().zip(&noise).for_each(|(p, z)| p.throughput *= 1.0 + 0.01 * z);
            let found = fit(&p).unwrap();
            assert!((found.contention - 0.05).abs() < 0.015, "{found:?}");
            assert!((found.peak().unwrap() / 950.0_f64.sqrt() - 1.0).abs() < 0.1, "{found:?}");
            assert!(found.deviation_share_max < 0.04, "{found:?}");
            // Perfect and superlinear scaling: parameters at their bounds.
            let line: Vec<ScalePoint> = p
                .iter()
                .zip(&noise)
                .map(|(p, z)| ScalePoint {
                    n: p.n,
                    throughput: f64::from(p.n).powf(1.05) * (1.0 + 0.01 * z),
                })
                .collect();
            let found = fit(&line).unwrap();
            assert!(found.contention.abs() < 1e-12 && found.coherency.abs() < 1e-12, "{found:?}");
            assert_eq!(found.peak(), None);
        }
    }
}
