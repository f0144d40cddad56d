//! Small dense symmetric matrices, for the normal equations of a fit, which have at most about twenty unknowns.

#![allow(clippy::many_single_char_names, reason = "formulas are written as in their sources")]

/// A symmetric matrix, by rows.
pub(crate) type Symmetric = Vec<Vec<f64>>;

/// Solves `a` x = `b` for a positive definite matrix by Cholesky's decomposition; `None` if it is not positive definite.
pub(crate) fn solve(a: &Symmetric, b: &[f64]) -> Option<Vec<f64>> {
    let n = b.len();
    let mut l = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| l[i][k] * l[j][k]).sum();
            if i == j {
                let rest = a[i][i] - sum;
                if rest.is_nan() || rest <= 0.0 {
                    return None;
                }
                l[i][i] = rest.sqrt();
            } else {
                l[i][j] = (a[i][j] - sum) / l[j][j];
            }
        }
    }
    let mut x = b.to_vec();
    for i in 0..n {
        let sum: f64 = (0..i).map(|k| l[i][k] * x[k]).sum();
        x[i] = (x[i] - sum) / l[i][i];
    }
    for i in (0..n).rev() {
        let sum: f64 = (i + 1..n).map(|k| l[k][i] * x[k]).sum();
        x[i] = (x[i] - sum) / l[i][i];
    }
    Some(x)
}

/// Inverse of a positive definite matrix; `None` if it is not positive definite.
pub(crate) fn inverse(a: &Symmetric) -> Option<Symmetric> {
    let n = a.len();
    let unit = |i: usize| (0..n).map(|j| f64::from(u8::from(i == j))).collect::<Vec<f64>>();
    (0..n).map(|i| solve(a, &unit(i))).collect()
}

/// Eigenvalues of a symmetric matrix, each with its eigenvector of length 1, by Jacobi's rotations (Golub and Van Loan,
/// *Matrix Computations*, section 8.5).
pub(crate) fn eigen(a: &Symmetric) -> Vec<(f64, Vec<f64>)> {
    let n = a.len();
    let mut a = a.clone();
    let mut v: Symmetric =
        (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for _ in 0..100 {
        let rest: f64 =
            (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| a[i][j].powi(2)).sum();
        let scale: f64 = (0..n).map(|i| a[i][i].powi(2)).sum();
        if rest <= 1e-24 * scale {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q] == 0.0 {
                    continue;
                }
                let tau = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let t = tau.signum() / (tau.abs() + (1.0 + tau * tau).sqrt());
                let c = 1.0 / (1.0 + t * t).sqrt();
                let s = t * c;
                for row in &mut a {
                    (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
                }
                let (above, below) = a.split_at_mut(q);
                for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
                    (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
                }
                for row in &mut v {
                    (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
                }
            }
        }
    }
    (0..n).map(|i| (a[i][i], v.iter().map(|row| row[i]).collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_units::rng::{below, stream};

    /// For random positive definite matrices, solutions satisfy the equations, and eigenvectors their definition.
    #[test]
    fn solutions_satisfy_their_equations() {
        for seed in 0..50 {
            let mut rng = stream(seed, "matrix", 0);
            let n = 1 + below(&mut rng, 12) as usize;
            let mut draw = || below(&mut rng, 2001) as f64 / 1000.0 - 1.0;
            let g: Vec<Vec<f64>> = (0..n).map(|_| (0..n).map(|_| draw()).collect()).collect();
            let dot = |i: usize, j: usize| (0..n).map(|k| g[i][k] * g[j][k]).sum::<f64>();
            let a: Symmetric = (0..n)
                .map(|i| (0..n).map(|j| dot(i, j) + if i == j { 0.1 } else { 0.0 }).collect())
                .collect();
            let b: Vec<f64> = (0..n).map(|_| draw()).collect();
            let times = |x: &[f64]| -> Vec<f64> {
                a.iter().map(|row| row.iter().zip(x).map(|(a, x)| a * x).sum()).collect()
            };
            let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-8);
            assert!(near(&times(&solve(&a, &b).unwrap()), &b), "seed {seed}");
            for (value, vector) in eigen(&a) {
                let scaled: Vec<f64> = vector.iter().map(|x| x * value).collect();
                assert!(near(&times(&vector), &scaled), "seed {seed}");
                let length: f64 = vector.iter().map(|x| x * x).sum();
                assert!((length - 1.0).abs() < 1e-9);
            }
        }
        assert_eq!(solve(&vec![vec![1.0, 2.0], vec![2.0, 1.0]], &[1.0, 1.0]), None);
    }
}
