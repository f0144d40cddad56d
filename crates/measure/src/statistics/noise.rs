//! Random numbers with known mean, variation and correlation, for simulations in tests. Reproducible, because each
//! simulation draws from its own seeded stream.

use iodyno_units::rng::{self, Generator};

/// Random stream for trial `number` of the simulation `name`.
pub(super) fn trial(name: &str, number: u64) -> Generator {
    rng::stream(20_26, name, number)
}

/// Draws `n` standard normal values (Box and Muller, 1958).
pub(super) fn normals(rng: &mut Generator, n: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(n + 1);
    while out.len() < n {
        let radius = (-2.0 * rng::unit_open_closed(rng).ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * rng::unit_open_closed(rng)).sin_cos();
        out.extend([radius * sine, radius * cosine]);
    }
    out.truncate(n);
    out
}

/// Simulates `n` values around `mean` with coefficient of variation `cv` and correlation `rho` between neighbours
/// (stationary AR(1) process; 0 for independent values).
pub(super) fn ar1(rng: &mut Generator, n: usize, mean: f64, cv: f64, rho: f64) -> Vec<f64> {
    let shocks = normals(rng, n);
    let mut state = shocks.first().copied().unwrap_or(0.0);
    let mut out = Vec::with_capacity(n);
    for (i, shock) in shocks.iter().enumerate() {
        if i > 0 {
            state = rho * state + (1.0 - rho * rho).sqrt() * shock;
        }
        out.push(mean * (1.0 + cv * state));
    }
    out
}

/// Share of the trials for which `holds` is true.
pub(super) fn share(trials: u64, holds: impl FnMut(u64) -> bool) -> f64 {
    (0..trials).map(holds).filter(|h| *h).count() as f64 / trials as f64
}
