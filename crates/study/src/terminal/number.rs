//! Formats the values of a table in one common unit: published values with the digits of the paper, simulated values
//! with at least four digits.

use crate::published::Figure;
use crate::unit::Unit;

/// Rate from which rates are displayed in thousands per second.
const THOUSANDS_FROM: f64 = 10_000.0;
/// Minimum number of digits of simulated values.
const DIGITS: i32 = 4;

/// Unit in which a table displays its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    /// Name of the unit; empty for numbers without a unit.
    pub(super) name: &'static str,
    /// Size of the unit, in the base unit of its dimension (1/s, bytes/s or ns).
    pub(super) one: f64,
}

impl Scale {
    /// Chooses the display unit for values of a metric whose unit is `unit`. The values are in the base unit of
    /// the dimension.
    pub(super) fn of(unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let largest = values.fold(0.0, f64::max);
        match unit {
            Unit::PerSecond if largest >= THOUSANDS_FROM => Self { name: "k/s", one: 1e3 },
            Unit::Microseconds => Self { name: "µs", one: 1e3 },
            Unit::Ratio | Unit::One => Self { name: "", one: 1.0 },
            unit => Self { name: unit.name(), one: unit.scale() },
        }
    }

    /// Formats a published value with as many digits as in the paper.
    pub(super) fn printed(&self, figure: &Figure) -> String {
        let relation = match figure.relation.symbol() {
            "=" => "",
            symbol => symbol,
        };
        let value = figure.value * figure.unit.scale() / self.one;
        let number = fixed(value, self.decimals(figure));
        format!("{relation}{number}")
    }

    /// Formats a simulated value with at least as many digits as the published value.
    pub(super) fn ours(&self, value: f64, unit: Unit, printed: Option<&Figure>) -> String {
        let value = value * unit.scale() / self.one;
        let before = if value.abs() < 1.0 { 1 } else { value.abs().log10() as i32 + 1 };
        let own = (DIGITS - before).max(0) as usize;
        fixed(value, own.max(printed.map_or(0, |figure| self.decimals(figure))))
    }

    /// Number of decimals that a published value has in this unit.
    fn decimals(&self, figure: &Figure) -> usize {
        let last_digit = 2.0 * figure.rounding() * figure.unit.scale() / self.one;
        // The last digit may differ slightly from a power of ten by rounding.
        if last_digit > 0.0 { (-last_digit.log10() - 1e-6).ceil().max(0.0) as usize } else { 0 }
    }
}

/// Formats a number with `decimals` decimals. A negative value that rounds to zero gets no sign.
pub(super) fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| matches!(b, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}
