//! Parses comma-separated fields and decimal numbers, and converts times of clocks with an arbitrary origin.

use super::Sink;

/// Maximum time by which a later row may precede the first row, ns.
const BEFORE_NS: u64 = 3_600_000_000_000;

/// Iterates over the fields of a CSV row. Errors name the column, counted from 1.
pub(super) struct Fields<'a> {
    fields: std::str::Split<'a, char>,
    column: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn of(row: &'a str) -> Self {
        Self { fields: row.split(','), column: 0 }
    }

    /// Returns the next field, which may be empty. `what` describes it in the error message.
    pub(super) fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.column += 1;
        let field = self.fields.next().map(str::trim);
        field.ok_or_else(|| format!("column {}: the {what} is missing", self.column))
    }

    /// Parses the next field as a whole number.
    pub(super) fn whole(&mut self, what: &str) -> Result<u64, String> {
        let field = self.next(what)?;
        field
            .parse()
            .map_err(|_| format!("column {}: the {what} is not a whole number", self.column))
    }

    /// Parses the next field as a whole number, and multiplies it by `of`, for example to convert sectors to
    /// bytes.
    pub(super) fn multiple(&mut self, what: &str, of: u64) -> Result<u64, String> {
        let number = self.whole(what)?.checked_mul(of);
        number.ok_or_else(|| format!("column {}: the {what} is too large", self.column))
    }

    /// Parses the next field as seconds with decimals, and returns ns.
    pub(super) fn seconds(&mut self, what: &str) -> Result<u64, String> {
        let field = self.next(what)?;
        decimal(field, 9).ok_or_else(|| {
            format!("column {}: the {what} is not a number of seconds, such as 0.5", self.column)
        })
    }

    /// Checks that the row has no further fields.
    pub(super) fn end(mut self) -> Result<(), String> {
        match self.fields.next() {
            None => Ok(()),
            Some(_) => Err(format!("column {}: there is a field too many", self.column + 1)),
        }
    }
}

/// Whether a row has exactly N fields, each of which passes the corresponding test.
pub(super) fn is_row<const N: usize>(row: &str, tests: [fn(&str) -> bool; N]) -> bool {
    let mut fields = row.split(',').map(str::trim);
    tests.iter().all(|test| fields.next().is_some_and(test)) && fields.next().is_none()
}

pub(super) fn is_whole(text: &str) -> bool {
    text.parse::<u64>().is_ok()
}

pub(super) fn is_seconds(text: &str) -> bool {
    decimal(text, 9).is_some()
}

/// Whether a line equals the heading `head`, regardless of letter case and blanks around fields.
pub(super) fn is_head(line: &str, head: &str) -> bool {
    let mut fields = line.split(',').map(str::trim);
    let mut is_next = |name: &str| fields.next().is_some_and(|f| f.eq_ignore_ascii_case(name));
    head.split(',').all(&mut is_next) && fields.next().is_none()
}

/// Parses a decimal number, and returns it in units of 10^-`digits`. Further decimals are cut off. None if
/// the text is not a number, or the number is too large.
pub(super) fn decimal(text: &str, digits: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let mut number: u64 = whole.parse().ok()?;
    let mut fraction = fraction.bytes();
    for _ in 0..digits {
        let digit = fraction.next().map_or(0, |b| u64::from(b - b'0'));
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    Some(number)
}

/// Converts the times of a format whose clock starts at an arbitrary date, such as 1970. Zero of the converted times
/// lies an hour before the first row, because later rows may be earlier than the first.
#[derive(Debug, Default)]
pub(super) struct Clock {
    first_ns: Option<u64>,
}

impl Clock {
    /// Converts a time of the format, ns, to the time base of the trace's operations. The first call sets the start
    /// of the trace.
    pub(super) fn at(&mut self, ns: u64, to: &mut Sink<'_>) -> Result<u64, String> {
        let first_ns = *self.first_ns.get_or_insert(ns);
        to.start_ns = BEFORE_NS;
        let too_early = || "the row is more than an hour earlier than the first row".to_owned();
        match ns.checked_sub(first_ns) {
            Some(after_ns) => {
                after_ns.checked_add(BEFORE_NS).ok_or_else(|| "the time is too large".to_owned())
            }
            None => BEFORE_NS.checked_sub(first_ns - ns).ok_or_else(too_early),
        }
    }
}
