//! Permitted ranges of the values in a notebook. A 64-bit column can hold a negative count or an interval of length 0.
//! Other crates rely on this crate to refuse such values.

use crate::fault::Damage;
use crate::untrusted::QUOTE_CHARS;
use iodyno_measure::Cell;
use iodyno_units::text::quoted;
use rusqlite::Row;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;

/// Maximum valid count, such as the number of operations in a run: 10^9 per second for 104 days.
pub(crate) const COUNT_MAX: u64 = 1 << 53;
/// Maximum valid amount of data that a run transfers, bytes: 1 EiB.
pub(crate) const BYTES_MAX: u64 = 1 << 60;
/// Maximum valid duration, ns: 36 years.
pub(crate) const TIME_NS_MAX: u64 = 1 << 60;
/// Maximum absolute value of `carried_in_ns` and `carried_out_ns`: the summed times of the operations in flight when
/// the measured window starts or ends, ns.
const CARRIED_NS_MAX: u128 = 1 << 100;
/// Maximum number of cells of a run that a reader accepts.
pub(crate) const CELLS_MAX: usize = 100_000;
/// Maximum number of targets in a run, and also of workloads.
pub(crate) const PARTS_MAX: usize = 10_000;
/// Maximum number of runs in a notebook.
pub(crate) const RUNS_MAX: usize = 1_000_000;

/// Reads a whole number from 0 to `most` from a column of a row. Any other value is damage.
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
            "`{column}` of a row of `{table}` is {n}, but must be a whole number from 0 to {most}"
        )),
        Err(_) => Err(not_a(table, column, "a whole number", value.data_type())),
    })
}

/// Describes a value whose type does not match its column.
pub(crate) fn not_a(
    table: &str,
    column: &str,
    expected: &str,
    found: rusqlite::types::Type,
) -> Damage {
    let found = format!("{found}").to_ascii_lowercase();
    format!("`{column}` of a row of `{table}` is of type {found}, but must be {expected}")
}

/// Whether a time is valid as a run's start or end: not before 1970, and within 63 bits in ns.
pub(crate) fn is_of_a_run(time: crate::Timestamp) -> bool {
    (0..i64::MAX / 1_000_000).contains(&time.as_millisecond())
}

/// Result of scanning a JSON text for its memory needs and for numbers out of range, without building values.
/// The scan allocates only keys with escapes.
#[derive(Debug, Default)]
pub(crate) struct JsonScan {
    /// Estimated memory of the text once parsed as a [`serde_json::Value`], bytes.
    pub(crate) value_bytes: u64,
    /// Estimated upper bound of the heap memory of the text once parsed as a [`Cell`], bytes.
    pub(crate) cell_bytes: u64,
    /// Description of the first number that is out of range; `None` if all are in range.
    pub(crate) wrong: Option<Damage>,
}

/// Memory of a measured cell without its texts and lists, bytes. The 512 bytes allow for its few maps with
/// fixed keys.
pub(crate) const CELL_BYTES: u64 = size_of::<Cell>() as u64 + 512;

/// JSON key of the only map with arbitrary keys in a cell.
const FREE_KEYS: &str = "facts";
/// JSON key of a list that must be empty in a cell's text, because a separate table stores the time series.
const SERIES: &str = "series";
/// JSON keys whose values may be any 64-bit number: a random seed, or the stamp of written content.
const ANY_64_BITS: [&str; 2] = ["seed", "stamp"];
/// JSON keys of 128-bit sums, which may exceed the range of other numbers. The reader does not add them up. Two of them
/// are subtracted from each other, so [`cell`] checks their range.
const SUMS: [&str; 4] = ["outstanding_area_ns", "carried_in_ns", "carried_out_ns", "span_sum_ns"];

impl JsonScan {
    /// Scans a JSON text for its memory needs and for numbers out of range.
    pub(crate) fn at(text: &str) -> serde_json::Result<Self> {
        let mut scan = Self::default();
        let mut json = serde_json::Deserializer::from_str(text);
        let part = Part { scan: &mut scan, key: "", place: Place::Field };
        part.deserialize(&mut json)?;
        json.end()?;
        Ok(scan)
    }

    fn number(&mut self, key: &str, n: i128) {
        let is_free = ANY_64_BITS.contains(&key) || SUMS.contains(&key);
        if n.unsigned_abs() > u128::from(TIME_NS_MAX) && !is_free {
            self.found(format!("`{}` is {n}, which is out of range", quoted(key, QUOTE_CHARS)));
        }
    }

    fn found(&mut self, what: Damage) {
        self.wrong.get_or_insert(what);
    }
}

/// Position of a value in a JSON text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A field of a structure with fixed keys, or the whole text.
    Field,
    /// A field of a map with arbitrary keys.
    Free,
    /// An item of a list.
    Item,
}

/// A value in a JSON text that is being scanned, with its key.
struct Part<'a> {
    scan: &'a mut JsonScan,
    key: &'a str,
    place: Place,
}

/// A key, borrowed from the text unless it has escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl Part<'_> {
    /// Adds the value's memory to both estimates: parsed as a JSON `Value`, and as an item of a list in a cell. An item
    /// counts twice its size, because the capacity of a growing list may be twice its length.
    fn count(&mut self, value_bytes: u64, item_bytes: u64) {
        self.scan.value_bytes += 32 + value_bytes;
        if self.place == Place::Item {
            self.scan.cell_bytes += item_bytes;
            if self.key == SERIES {
                self.scan.found(
                    "a cell's text contains a time series, which must be in a table of its own"
                        .to_owned(),
                );
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(mut self) -> Result<(), E> {
        self.count(0, 16);
        Ok(())
    }

    fn visit_bool<E>(mut self, _: bool) -> Result<(), E> {
        self.count(0, 16);
        Ok(())
    }

    fn visit_u64<E>(mut self, n: u64) -> Result<(), E> {
        self.count(0, 16);
        self.scan.number(self.key, n.into());
        Ok(())
    }

    fn visit_i64<E>(mut self, n: i64) -> Result<(), E> {
        self.count(0, 16);
        self.scan.number(self.key, n.into());
        Ok(())
    }

    fn visit_f64<E>(mut self, _: f64) -> Result<(), E> {
        self.count(0, 16);
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        let bytes = 32 + text.len() as u64;
        self.count(bytes, 48);
        self.scan.cell_bytes += bytes;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.count(0, 48);
        let key = self.key;
        loop {
            let item = Part { scan: &mut *self.scan, key, place: Place::Item };
            if items.next_element_seed(item)?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        // A map's node has space for eleven fields, however few it holds, and each text is a separate allocation.
        self.count(640, 192);
        let is_free = self.key == FREE_KEYS;
        while let Some(Key(key)) = fields.next_key::<Key>()? {
            let text_bytes = 32 + key.len() as u64;
            self.scan.value_bytes += 32 + text_bytes;
            if is_free {
                self.scan.cell_bytes += 96 + text_bytes;
            }
            let place = if is_free { Place::Free } else { Place::Field };
            fields.next_value_seed(Part { scan: &mut *self.scan, key: &key, place })?;
        }
        Ok(())
    }
}

/// Checks that a stored cell has only values that a measurement can produce.
pub(crate) fn cell(cell: &Cell) -> Result<(), Damage> {
    let key = &cell.key;
    let times = [("window_ns", cell.window_ns), ("interval_ns", cell.interval_ns)];
    for (name, ns) in times {
        if ns > TIME_NS_MAX {
            return Err(format!("a cell's `{name}` is {ns}, but must be at most {TIME_NS_MAX}"));
        }
    }
    if cell.interval_ns == 0 && !cell.series.is_empty() {
        return Err("a cell has a series, but its `interval_ns` is 0".to_owned());
    }
    if !key.offered_iops.is_none_or(|rate| rate.is_finite() && rate >= 0.0) {
        return Err("a cell's `offered_iops` is below 0".to_owned());
    }
    if key.blocks.iter().any(|&(_, share)| !(0.0..=1.0 + 1e-9).contains(&share)) {
        return Err("a cell's `blocks` has a share outside 0 to 1".to_owned());
    }
    let used = &cell.resources;
    let cpu = used.cpu_user_ns.iter().chain(&used.cpu_system_ns);
    if cpu.map(|&ns| u128::from(ns)).sum::<u128>() > u128::from(TIME_NS_MAX) {
        return Err("a cell's CPU times add up to more than is possible".to_owned());
    }
    // The two are subtracted from each other.
    if [used.carried_in_ns, used.carried_out_ns].iter().any(|ns| ns.unsigned_abs() > CARRIED_NS_MAX)
    {
        return Err(
            "a cell's `carried_in_ns` or `carried_out_ns` is larger than is possible".to_owned()
        );
    }
    Ok(())
}

/// Totals over a run's cells: operations, bytes and lengths of windows. Each must stay within its limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    ops: u64,
    bytes: u64,
    window_ns: u64,
}

impl Totals {
    /// Adds a cell to the totals. Fails if a total exceeds its limit.
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
            ("ns of measurement", self.window_ns, TIME_NS_MAX),
        ] {
            if sum > most {
                return Err(format!("the cells add up to {sum} {what}, but the limit is {most}"));
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
        let of = |text: &str| JsonScan::at(text).unwrap().wrong;
        let sound =
            r#"{"seed":18446744073709551615,"a":[1,-22,0.5,1e25],"b":{"c":1152921504606846976}}"#;
        assert_eq!(of(sound), None);
        for text in [r#"{"c":[1152921504606846977]}"#, r#"{"b":{"c":-9000000000000000000}}"#] {
            assert!(of(text).unwrap().contains("`c`"), "{text}");
        }
    }

    /// The sums of 32,768 outstanding operations over ten hours exceed 64 bits, and are accepted.
    #[test]
    fn sums_of_128_bits_have_no_limit_of_64() {
        let long: u128 = 32_768 * 36_000 * 1_000_000_000;
        for sum in [u128::from(TIME_NS_MAX), long, 1 << 64, u128::MAX] {
            for key in SUMS {
                let text = format!("{{\"resources\":{{\"{key}\":{sum}}}}}");
                assert_eq!(JsonScan::at(&text).unwrap().wrong, None, "{text}");
            }
        }
        let text = format!("{{\"moved_bytes\":{long}}}");
        assert!(JsonScan::at(&text).unwrap().wrong.unwrap().contains("moved_bytes"));
    }

    #[test]
    fn a_text_weighs_what_it_takes() {
        let of = |text: &str| JsonScan::at(text).unwrap();
        let (few, many) = (of(r#"{"a":1}"#), of(r#"{"a":[1,1,1]}"#));
        assert_eq!((few.cell_bytes, many.cell_bytes), (0, 48));
        assert!(many.value_bytes > few.value_bytes);
        assert!(of(r#"{"facts":{"a":"b"}}"#).cell_bytes > 160);
        assert!(of(r#"{"verdicts":[{}]}"#).cell_bytes > 150);
        assert!(of(r#"{"series":[0]}"#).wrong.is_some());
        assert!(JsonScan::at("{").is_err() && JsonScan::at("1 2").is_err());
        assert!(JsonScan::at(&"[".repeat(1000)).is_err(), "not that deep");
    }
}
