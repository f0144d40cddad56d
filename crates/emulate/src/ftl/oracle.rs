//! Closed forms of write amplification, for tests and for explaining results.
//!
//! The spare factor is 1 - data / raw, where raw excludes open blocks and blocks that are kept free, because
//! collection can't use them as spare (`Shape::spare_usable`). Logarithms and exponentials come from the pure-Rust
//! `libm`, so results are the same on every machine.

/// The principal branch of Lambert's W, for x in [-1/e, 0]: the w in [-1, 0] with w e^w = x.
///
/// With w = -b, the equation is b - ln b = -ln(-x). The left side is convex and falls on (0, 1), so
/// Newton's iteration from below the root ascends to it and never passes it.
pub fn lambert_w0_negative(x: f64) -> f64 {
    debug_assert!((-0.367_879_441_171_442_4..=0.0).contains(&x), "{x}");
    if x >= 0.0 {
        return 0.0;
    }
    let right = -libm::log(-x);
    let mut b = -x;
    // Each step at least halves the distance, even at the branch point.
    for _ in 0..64 {
        let next = b - (b - libm::log(b) - right) / (1.0 - 1.0 / b);
        if next.is_nan() || next <= b {
            break;
        }
        b = next.min(1.0);
    }
    -b
}

/// Returns the write amplification (programmed pages per page that the host writes), in steady state, for greedy or
/// FIFO collection of large blocks under uniform random writes: a / (a + W₀(-a e^-a)) with a = 1 / (1 - spare).
/// Desnoyers, "Analytic modeling of SSD write performance" (2012); Xiang and Kurkoski, arXiv 1110.4245.
///
/// `spare_factor` must be above 0 and at most 1. At 0 the result would be infinite.
pub fn write_amplification_uniform(spare_factor: f64) -> f64 {
    if spare_factor >= 1.0 {
        return 1.0;
    }
    let a = 1.0 / (1.0 - spare_factor);
    a / (a + lambert_w0_negative(-a * libm::exp(-a)))
}

/// Returns the effective spare factor if only a fraction `fill` of the addressable pages has data, and the
/// others are trimmed or unwritten (Frankie and Kreutz-Delgado, arXiv 1210.5975).
pub fn spare_factor_with_fill(spare_factor: f64, fill: f64) -> f64 {
    1.0 - fill * (1.0 - spare_factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_solves_its_equation() {
        for i in 1..=1000 {
            let x = -0.367_879_441_171_442_3 * f64::from(i) / 1000.0;
            let w = lambert_w0_negative(x);
            assert!((-1.0..=0.0).contains(&w));
            assert!((w * libm::exp(w) - x).abs() < 1e-14, "{x} {w}");
        }
    }

    /// Checks the write amplification against values from the literature and from an independent evaluation.
    #[test]
    fn write_amplification_has_its_known_values() {
        for (spare, amplification) in [
            (0.07, 7.32),
            (0.0909, 5.68),
            (0.12, 4.35),
            (0.1667, 3.19),
            (0.2, 2.69),
            (0.3 / 1.3, 2.36),
            (0.25, 2.20),
            (0.2857, 1.96),
            (0.35, 1.65),
            (0.5, 1.26),
        ] {
            let computed = write_amplification_uniform(spare);
            assert!((computed - amplification).abs() < 0.0051, "{spare}: {computed}");
        }
        assert!((write_amplification_uniform(1.0) - 1.0).abs() < 1e-12);
        assert!((write_amplification_uniform(0.999) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn unwritten_pages_are_spare() {
        assert!((spare_factor_with_fill(0.2, 1.0) - 0.2).abs() < 1e-12);
        assert!((spare_factor_with_fill(0.2, 0.5) - 0.6).abs() < 1e-12);
    }
}
