//! Chooses the steps between ticks, usually 1-2-5. Times within a run have steps in seconds, minutes and hours. Bytes,
//! and counts on a horizontal logarithmic axis, have steps in powers of two.

use crate::Quantity;

/// Suitable number of ticks for an axis of this length. `is_wide` means that labels stand side by side.
pub(super) fn wanted(pixels: f64, is_wide: bool) -> f64 {
    (pixels / if is_wide { 95.0 } else { 48.0 }).clamp(2.0, 12.0)
}

/// Rounds `raw` up to 1, 2 or 5 times a power of ten.
fn nice(raw: f64) -> f64 {
    let power = 10_f64.powf(raw.log10().floor());
    let nearly = raw * (1.0 - 1e-9);
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|&step| step >= nearly)
        .unwrap_or(power * 10.0)
}

/// Distance between ticks of a linear axis of length `span`, for about `wanted` ticks.
pub(super) fn linear_step(quantity: Quantity, span: f64, wanted: f64) -> f64 {
    let raw = span / wanted;
    match quantity {
        Quantity::Seconds if raw > 1.0 => {
            const DAY: f64 = 86_400.0;
            [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0]
                .into_iter()
                .chain([3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0, DAY])
                .find(|&step| step >= raw * (1.0 - 1e-9))
                .unwrap_or_else(|| nice(raw / DAY) * DAY)
        }
        Quantity::Bytes if raw > 1.0 => raw.log2().ceil().exp2(),
        Quantity::Count if span >= 1.0 => nice(raw).max(1.0),
        _ => nice(raw),
    }
}

/// Whether a logarithmic axis has ticks at powers of two. True for sizes and, on horizontal axes (`is_wide`), for
/// counts such as threads or outstanding I/Os, which tests usually double.
pub(super) fn is_binary(quantity: Quantity, is_wide: bool, decades: f64) -> bool {
    quantity == Quantity::Bytes || (quantity == Quantity::Count && is_wide && decades < 3.1)
}

/// Rounds a decimal logarithm to that of 1, 2 or 5 times a power of ten: up if `is_up`, otherwise down.
pub(super) fn round_log(t: f64, is_up: bool) -> f64 {
    let decade = t.floor();
    let steps = [decade, decade + 2_f64.log10(), decade + 5_f64.log10(), decade + 1.0];
    if is_up {
        steps.into_iter().find(|&s| s >= t - 1e-9).unwrap_or(decade + 1.0)
    } else {
        steps.into_iter().rev().find(|&s| s <= t + 1e-9).unwrap_or(decade)
    }
}
