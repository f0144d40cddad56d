//! What a notebook's numbers and texts may be. A column of 64 bits can hold a count below 0 or an interval
//! of no length; everything above this crate may rely on neither being there.

use crate::codec::Damage;
use crate::strict::QUOTE_CHARS;
use iodyno_measure::Cell;
use iodyno_units::text::quoted;
use rusqlite::Row;
use serde_json::Value;

/// The most operations of a run, and the most of any other count: at 10^9 a second that is 104 days.
pub(crate) const COUNT_MAX: u64 = 1 << 53;
/// The most bytes that a run moves: an exbibyte.
pub(crate) const BYTES_MAX: u64 = 1 << 60;
/// The longest time, ns: 36 years.
pub(crate) const TIME_NS_MAX: u64 = 1 << 60;
/// The most cells of a run.
pub(crate) const CELLS_MAX: usize = 100_000;
/// The most targets, and the most workloads, of a run.
pub(crate) const PARTS_MAX: usize = 10_000;
/// The most runs of a notebook.
pub(crate) const RUNS_MAX: usize = 1_000_000;

/// A whole number of a row, 0 to `most`.
pub(crate) fn number(
    row: &Row,
    table: &str,
    column: &str,
    most: u64,
) -> rusqlite::Result<Result<u64, Damage>> {
    let value = row.get_ref(column)?;
    Ok(match value.as_i64() {
        Ok(n) if u64::try_from(n).is_ok_and(|n| n <= most) => Ok(n as u64),
        Ok(n) => Err(format!(
            "`{column}` of a row of `{table}` is {n}, and must be a whole number from 0 to {most}"
        )),
        Err(_) => Err(not_a(table, column, "a whole number", value.data_type())),
    })
}

/// What is said of a value of another type than its column has.
pub(crate) fn not_a(
    table: &str,
    column: &str,
    expected: &str,
    found: rusqlite::types::Type,
) -> Damage {
    let found = format!("{found}").to_ascii_lowercase();
    format!("`{column}` of a row of `{table}` is of type {found}, and must be {expected}")
}

/// Whether a run can have begun or ended then: from 1970 on, and while ns since then fit 63 bits.
pub(crate) fn is_of_a_run(time: crate::Timestamp) -> bool {
    (0..i64::MAX / 1_000_000).contains(&time.as_millisecond())
}

/// Memory that a value of JSON takes, bytes; about. A map's node has room for eleven fields, however few
/// there are; each text is an allocation of its own.
pub(crate) fn weight(value: &Value) -> u64 {
    let text = |text: &str| 32 + text.len() as u64;
    32 + match value {
        Value::String(it) => text(it),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => {
            640 + fields.iter().map(|(key, value)| 32 + text(key) + weight(value)).sum::<u64>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Whether each number of a cell's JSON is one that can be added up; `at` is the key that it stands under.
pub(crate) fn numbers(value: &Value, at: &str) -> Result<(), Damage> {
    match value {
        // Any 64 bits are a seed, or the stamp of content; errno and the like are negative at times.
        Value::Number(n) if at != "seed" && at != "stamp" => match (n.as_u64(), n.as_i64()) {
            (Some(n), _) if n > TIME_NS_MAX => Err(format!("`{}` is {n}", quoted(at, QUOTE_CHARS))),
            (None, Some(n)) if n.unsigned_abs() > TIME_NS_MAX => {
                Err(format!("`{}` is {n}", quoted(at, QUOTE_CHARS)))
            }
            // Sums of 128 bits are read as real numbers here, and never added up.
            _ => Ok(()),
        },
        Value::Array(items) => items.iter().try_for_each(|item| numbers(item, at)),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| numbers(value, key)),
        _ => Ok(()),
    }
}

/// Whether a cell that was read is one that could have been measured.
pub(crate) fn cell(cell: &Cell) -> Result<(), Damage> {
    let key = &cell.key;
    let times = [("window_ns", cell.window_ns), ("interval_ns", cell.interval_ns)];
    for (name, ns) in times {
        if ns > TIME_NS_MAX {
            return Err(format!("a cell's `{name}` is {ns}, and must be at most {TIME_NS_MAX}"));
        }
    }
    if cell.interval_ns == 0 && !cell.series.is_empty() {
        return Err("a cell has a series and an `interval_ns` of 0".to_owned());
    }
    if !key.offered_iops.is_none_or(|rate| rate.is_finite() && rate >= 0.0) {
        return Err("a cell's `offered_iops` is below 0".to_owned());
    }
    if key.blocks.iter().any(|&(_, share)| !(0.0..=1.0 + 1e-9).contains(&share)) {
        return Err("a cell's `blocks` have a share outside 0 to 1".to_owned());
    }
    let used = &cell.resources;
    let cpu = used.cpu_user_ns.iter().chain(&used.cpu_system_ns);
    if cpu.map(|&ns| u128::from(ns)).sum::<u128>() > u128::from(TIME_NS_MAX) {
        return Err("a cell's CPU times add up to more than its workers can have used".to_owned());
    }
    Ok(())
}

/// Sums over a run that stay within what 64 bits hold, and the memory that it takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    ops: u64,
    bytes: u64,
    window_ns: u64,
}

impl Totals {
    /// Adds a cell.
    pub(crate) fn add(&mut self, cell: &Cell) -> Result<(), Damage> {
        self.window_ns = self.window_ns.saturating_add(cell.window_ns);
        for interval in &cell.series {
            for stats in interval.classes.iter().flatten() {
                let counts = [
                    stats.service.count(),
                    stats.response.as_ref().map_or(0, iodyno_measure::Histogram::count),
                ];
                let errors = stats.errors.total();
                let ops = counts.into_iter().fold(errors, u64::saturating_add);
                self.ops = self.ops.saturating_add(ops);
                self.bytes = self.bytes.saturating_add(stats.bytes);
            }
        }
        let lateness = cell.lateness.as_ref().map_or(0, iodyno_measure::Histogram::count);
        self.ops = self.ops.saturating_add(lateness);
        for (what, sum, most) in [
            ("operations", self.ops, 4 * COUNT_MAX),
            ("bytes", self.bytes, BYTES_MAX),
            ("ns of measured time", self.window_ns, TIME_NS_MAX),
        ] {
            if sum > most {
                return Err(format!("its cells add up to {sum} {what}, and may to {most}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_can_not_be_are_found_wherever_they_stand() {
        let of = |text: &str| numbers(&serde_json::from_str(text).unwrap(), "");
        of(r#"{"seed":18446744073709551615,"a":[1,-22,0.5,1e25],"b":{"c":1152921504606846976}}"#)
            .unwrap();
        for text in [r#"{"c":[1152921504606846977]}"#, r#"{"b":{"c":-9000000000000000000}}"#] {
            assert!(of(text).unwrap_err().contains("`c`"), "{text}");
        }
    }
}
