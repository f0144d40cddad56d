//! Computes the ticks of an axis and their labels.
//!
//! A linear axis has ticks at even [steps](super::steps). A logarithmic axis has ticks at decades, or at 1-2-5 if it
//! spans fewer than two decades. A nines axis has ticks at 0 %, 90 %, 99 % and so on.

use iodyno_units::human;

use crate::Quantity;

use super::scale::{Kind, Ruler};
use super::steps::{self, linear_step, wanted};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    /// Label of the tick; empty for a minor tick.
    pub(super) label: String,
}

/// Ticks of an axis, ascending; none for categories. `is_wide` means that labels stand side by side, so that
/// their width limits the number of ticks.
pub(super) fn ticks(ruler: &Ruler, is_wide: bool) -> Vec<Tick> {
    let pixels = (ruler.to - ruler.from).abs();
    let (first, last) = ruler.values();
    let found = match ruler.kind {
        // Rounding the ends to steps of this many ticks has lengthened the axis.
        Kind::Linear => linear(ruler.quantity, first, last, 1.25 * wanted(pixels, is_wide)),
        Kind::Log => log(ruler, pixels, is_wide),
        Kind::Nines => nines(ruler),
        Kind::Categories(_) => Vec::new(),
    };
    let mut out: Vec<Tick> = Vec::with_capacity(found.len());
    for mut tick in found {
        // Rounding may put the last tick slightly beyond the end.
        let slack = 1e-9 * (last - first).abs();
        if tick.value < first - slack || tick.value > last + slack || !tick.value.is_finite() {
            continue;
        }
        tick.value = tick.value.clamp(first, last);
        if out.last().is_none_or(|before| before.value < tick.value) {
            out.push(tick);
        }
    }
    out
}

fn linear(quantity: Quantity, first: f64, last: f64, wanted: f64) -> Vec<Tick> {
    let step = linear_step(quantity, last - first, wanted);
    if !(step > 0.0 && step.is_finite()) {
        return Vec::new();
    }
    let most = first.abs().max(last.abs());
    let (i, j) = ((first / step - 1e-6).ceil(), (last / step + 1e-6).floor());
    // The step keeps ticks few; the bound matters for steps that a quantity forces.
    let count = (j - i).clamp(0.0, 100.0) as usize;
    (0..=count)
        .map(|k| {
            let value = (i + k as f64) * step;
            Tick { value, label: linear_label(quantity, value, step, most) }
        })
        .collect()
}

fn log(ruler: &Ruler, pixels: f64, is_wide: bool) -> Vec<Tick> {
    let (low, high) = (ruler.low, ruler.high);
    let decades = high - low;
    let spacing = if is_wide { 62.0 } else { 26.0 };
    if steps::is_binary(ruler.quantity, is_wide, decades) {
        return powers_of_two(ruler, pixels, spacing);
    }
    if decades < 0.3 {
        let (first, last) = ruler.values();
        return linear(ruler.quantity, first, last, wanted(pixels, is_wide));
    }
    if ruler.quantity == Quantity::Seconds && high > 60_f64.log10() && decades > 1.0 {
        return clock(ruler);
    }
    let per_decade = pixels / decades;
    let stride = (spacing / per_decade).ceil().max(1.0) as i32;
    let is_fine = decades < 2.0 && per_decade > 3.0 * spacing;
    let mut out = Vec::new();
    for decade in low.floor() as i32..=high.ceil() as i32 {
        for digit in 1..=9 {
            if digit > 1 && stride > 1 {
                break;
            }
            let value = format!("{digit}e{decade}").parse().unwrap_or(f64::NAN);
            let is_labelled = match digit {
                1 => decade.rem_euclid(stride) == 0,
                2 | 5 => is_fine,
                _ => false,
            };
            let label = if is_labelled { words(ruler.quantity, value) } else { String::new() };
            out.push(Tick { value, label });
        }
    }
    // Between 300 and 900 there may be only one of 1, 2, 5 times a power of ten; an axis needs at least two numbers.
    let (first, last) = ruler.values();
    let is_shown = |t: &&Tick| !t.label.is_empty() && (first..=last).contains(&t.value);
    if stride == 1 && out.iter().filter(is_shown).count() < 2 {
        for tick in &mut out {
            tick.label = words(ruler.quantity, tick.value);
        }
    }
    out
}

/// Ticks of a logarithmic axis of times within a run: 1 s, 10 s, 1 min, 10 min, 1 h, 10 h, then days.
fn clock(ruler: &Ruler) -> Vec<Tick> {
    let mut values: Vec<f64> =
        (ruler.low.floor() as i32..=1).map(|d| 10_f64.powi(d)).filter(|&v| v <= 10.0).collect();
    values.extend([60.0, 600.0, 3600.0, 36_000.0]);
    values.extend((0..9).map(|d| 86_400.0 * 10_f64.powi(d)).skip(1));
    values
        .into_iter()
        .map(|value| Tick { value, label: linear_label(Quantity::Seconds, value, value, value) })
        .collect()
}

fn powers_of_two(ruler: &Ruler, pixels: f64, spacing: f64) -> Vec<Tick> {
    let two = 2_f64.log10();
    let per_power = pixels / (ruler.high - ruler.low) * two;
    let stride = (spacing / per_power).ceil().max(1.0) as i32;
    let first = (ruler.low / two - 1e-6).ceil() as i32;
    let last = (ruler.high / two + 1e-6).floor() as i32;
    (first..=last)
        .map(|power| {
            let value = 2_f64.powi(power);
            let is_labelled = (power - first) % stride == 0;
            let label = if is_labelled { words(ruler.quantity, value) } else { String::new() };
            Tick { value, label }
        })
        .collect()
}

fn nines(ruler: &Ruler) -> Vec<Tick> {
    let mut out = Vec::new();
    for nines in ruler.low.floor() as i32..=(ruler.high.ceil() as i32).min(12) {
        let rest = 10_f64.powi(-nines);
        let label = match nines {
            0..=8 => Quantity::Quantile.words(1.0 - rest),
            _ => String::new(),
        };
        out.push(Tick { value: 1.0 - rest, label });
        out.extend(
            (2..=9)
                .rev()
                .map(|d| Tick { value: 1.0 - rest * f64::from(d) / 10.0, label: String::new() }),
        );
    }
    out
}

/// Units for displaying a quantity, largest first: size of the unit, and suffix after the number.
fn units(quantity: Quantity, step: f64) -> &'static [(f64, &'static str)] {
    const SI: &[(f64, &str)] = &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];
    match quantity {
        Quantity::Iops | Quantity::Count => SI,
        Quantity::Throughput => {
            &[(1e12, " TB/s"), (1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s")]
        }
        Quantity::LatencyNs => &[(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")],
        // For times of a run the unit follows the step, not the largest value.
        Quantity::Seconds if step >= 86_400.0 => &[(86_400.0, " d")],
        Quantity::Seconds if step >= 3600.0 => &[(3600.0, " h")],
        Quantity::Seconds if step >= 60.0 => &[(60.0, " min")],
        Quantity::Seconds if step >= 1.0 => &[(1.0, " s")],
        Quantity::Seconds => &[(1.0, " s"), (1e-3, " ms"), (1e-6, " µs"), (1e-9, " ns")],
        Quantity::Share | Quantity::Change | Quantity::Quantile => &[(0.01, " %")],
        Quantity::Bytes => &[
            (1_125_899_906_842_624.0, " PiB"),
            (1_099_511_627_776.0, " TiB"),
            (1_073_741_824.0, " GiB"),
            (1_048_576.0, " MiB"),
            (1024.0, " KiB"),
            (1.0, " B"),
        ],
        Quantity::Ratio => &[(1.0, "")],
        Quantity::Celsius => &[(1.0, " °C")],
    }
}

/// Tick label on a linear axis. All ticks use the same unit and the decimals that `step` requires.
fn linear_label(quantity: Quantity, value: f64, step: f64, most: f64) -> String {
    let units = units(quantity, step);
    let (scale, unit) =
        units.iter().copied().find(|&(s, _)| most >= s).unwrap_or(units[units.len() - 1]);
    let is_percent = unit == " %";
    if value == 0.0 && !is_percent && quantity != Quantity::Celsius {
        return "0".to_owned();
    }
    let sign = if quantity == Quantity::Change && value > 0.0 { "+" } else { "" };
    let decimals = (1e-9 - (step / scale).log10()).floor().max(-1.0) + 1.0;
    let number = value / scale;
    if number.abs() >= 1e6 || decimals > 6.0 {
        return format!("{sign}{}{unit}", short_exponent(number));
    }
    let decimals = decimals as usize;
    let written = format!("{number:.decimals$}");
    let written = trim_zeros(&written);
    // Rounding may leave a sum of steps slightly below 0.
    let written = if written == "-0" { "0" } else { written };
    format!("{sign}{written}{unit}")
}

/// Formats a value with the most suitable unit and without trailing zeros: `1 ms`, `250 k`, `4 KiB`.
fn words(quantity: Quantity, value: f64) -> String {
    if quantity == Quantity::Bytes && (1.0..9e18).contains(&value) {
        return human::size(value as u64);
    }
    let units = units(quantity, value);
    let (scale, unit) = units
        .iter()
        .copied()
        .find(|&(s, _)| value >= s * (1.0 - 1e-9))
        .unwrap_or(units[units.len() - 1]);
    let number = value / scale;
    if !(0.001..1e6).contains(&number) {
        return format!("{}{unit}", short_exponent(number));
    }
    format!("{}{unit}", trim_zeros(&format!("{number:.3}")))
}

/// Formats a number in scientific notation with up to six significant digits: `2e7`.
fn short_exponent(number: f64) -> String {
    let written = format!("{number:.5e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    format!("{}e{exponent}", trim_zeros(digits))
}

fn trim_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ruler(kind: Kind, quantity: Quantity, first: f64, last: f64, pixels: f64) -> Ruler {
        let (low, high) = (kind.transform(first).unwrap(), kind.transform(last).unwrap());
        Ruler { kind, quantity, low, high, from: 0.0, to: pixels }
    }

    fn labels(kind: Kind, quantity: Quantity, first: f64, last: f64, pixels: f64) -> Vec<String> {
        ticks(&ruler(kind, quantity, first, last, pixels), true)
            .into_iter()
            .map(|t| t.label)
            .filter(|l| !l.is_empty())
            .collect()
    }

    proptest! {
        #[test]
        fn ticks_rise_within_the_range_and_labels_differ(
            a in -1e12_f64..1e12, exponent in -6.0_f64..13.0, q in 0..11_usize, kind in 0..3,
            pixels in 80.0_f64..900.0, is_wide in any::<bool>()
        ) {
            let span = 10_f64.powf(exponent);
            let (kind, first, last) = match kind {
                0 => (Kind::Linear, a, a + span.max(a.abs() * 1e-6)),
                1 => (Kind::Log, a.abs().max(1e-9), a.abs().max(1e-9) * (1.0 + span)),
                _ => (Kind::Nines, 0.0, 1.0 - 1.0 / (1.1 + span)),
            };
            let ticks = ticks(&ruler(kind, Quantity::ALL[q], first, last, pixels), is_wide);
            let (first, last) = ruler(kind, Quantity::ALL[q], first, last, pixels).values();
            for pair in ticks.windows(2) {
                prop_assert!(pair[0].value < pair[1].value);
            }
            for tick in &ticks {
                prop_assert!((first..=last).contains(&tick.value), "{tick:?}");
                prop_assert!(!tick.label.contains("NaN") && !tick.label.contains("inf"));
            }
            if kind != Kind::Log || last / first > 20.0 {
                prop_assert!(!ticks.is_empty());
            }
            let mut labels: Vec<_> = ticks.iter().map(|t| &t.label).filter(|l| !l.is_empty()).collect();
            prop_assert!(labels.len() <= 40);
            let all = labels.len();
            labels.sort();
            labels.dedup();
            // Labels have at most six digits, so neighbours in a narrower range may share them.
            if (last - first) > 1e-4 * last.abs().max(first.abs()) {
                prop_assert_eq!(labels.len(), all, "{:?}", labels);
            }
        }
    }

    #[test]
    fn labels_have_the_usual_form() {
        use Quantity as Q;
        let linear = Kind::Linear;
        assert_eq!(
            labels(linear, Q::Iops, 0.0, 8e5, 400.0),
            ["0", "200 k", "400 k", "600 k", "800 k"]
        );
        assert_eq!(
            labels(linear, Q::Seconds, 0.0, 300.0, 500.0),
            ["0", "1 min", "2 min", "3 min", "4 min", "5 min"]
        );
        assert_eq!(
            labels(linear, Q::Seconds, 0.0, 7200.0, 400.0),
            ["0", "30 min", "60 min", "90 min", "120 min"]
        );
        assert_eq!(labels(linear, Q::Seconds, 0.0, 0.004, 300.0), ["0", "2 ms", "4 ms"]);
        assert_eq!(
            labels(linear, Q::Change, -0.1, 0.1, 400.0),
            ["-10 %", "-5 %", "0 %", "+5 %", "+10 %"]
        );
        assert_eq!(
            labels(linear, Q::LatencyNs, 0.0, 1.5e6, 300.0),
            ["0", "0.5 ms", "1 ms", "1.5 ms"]
        );
        assert_eq!(
            labels(Kind::Log, Q::LatencyNs, 1e4, 1e8, 600.0),
            ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]
        );
        assert_eq!(
            labels(Kind::Log, Q::LatencyNs, 5e4, 5e5, 400.0),
            ["50 µs", "100 µs", "200 µs", "500 µs"]
        );
        assert_eq!(
            labels(Kind::Log, Q::Bytes, 4096.0, 1_048_576.0, 300.0),
            ["4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"]
        );
        assert_eq!(labels(Kind::Log, Q::Count, 1.0, 32.0, 600.0), ["1", "2", "4", "8", "16", "32"]);
        assert_eq!(
            labels(Kind::Log, Q::Seconds, 1.0, 36_000.0, 500.0),
            ["1 s", "10 s", "1 min", "10 min", "1 h", "10 h"]
        );
        assert_eq!(
            labels(Kind::Log, Q::LatencyNs, 3.4e5, 9e5, 600.0),
            ["400 µs", "500 µs", "600 µs", "700 µs", "800 µs", "900 µs"]
        );
        assert_eq!(
            labels(Kind::Nines, Q::Quantile, 0.0, 0.9999, 500.0),
            ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]
        );
    }
}
