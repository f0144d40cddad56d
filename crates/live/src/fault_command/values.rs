//! Parses the values in fault commands: delays, factors, percentages, sizes and ranges.

use iodyno_units::parse::{parse_duration_ns, parse_size};

/// Longest delay that can be injected, ns.
const DELAY_NS_MAX: u64 = 3_600_000_000_000;
/// Sector size, bytes; a volume's size must be a multiple of it.
const SECTOR_BYTES: u64 = 512;

/// Parses a delay, such as `5ms`; returns ns.
pub(super) fn delay_ns(text: &str) -> Result<u64, String> {
    match parse_duration_ns(text) {
        Ok(ns) if ns > DELAY_NS_MAX => {
            Err(format!("a delay of `{text}` is too long: use at most 1h, or the fault `hang`"))
        }
        Ok(ns) => Ok(ns),
        Err(e) => Err(e.to_string()),
    }
}

/// Parses a factor: `x10`, `×10` or `10`.
pub(super) fn factor(text: &str) -> Result<f64, String> {
    let number = text.trim_start_matches(['x', '×']);
    match number.parse::<f64>() {
        Ok(factor) if factor.is_finite() && (1.0..=1e6).contains(&factor) => Ok(factor),
        _ => Err(format!("`{text}` is not a factor: use x1 to x1000000")),
    }
}

/// Parses a percentage, such as `1%`. Returns the number before the `%` sign, not a fraction of 1, so that
/// printing it gives the original text.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').map(str::parse) {
        Some(Ok(percent)) if (0.0..=100.0).contains(&percent) => Ok(percent),
        None if text.parse::<f64>().is_ok_and(|number| (0.0..=100.0).contains(&number)) => {
            let as_share = text.parse::<f64>().ok().filter(|share| *share < 1.0 && *share > 0.0);
            let or = as_share
                .map_or(String::new(), |share| format!(" or `{}%`", (share * 1e8).round() / 1e6));
            Err(format!("`{text}` lacks a % sign: did you mean `{text}%`{or}?"))
        }
        _ => Err(format!("`{text}` is not a percentage of the operations: use 0% to 100%")),
    }
}

/// Parses the size of a volume, in bytes or with a unit.
///
/// # Errors
/// The size is not valid, is 0, or is not a multiple of 512 bytes.
pub fn volume_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|e| format!("`{text}`: {e}"))?;
    if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(format!(
            "`{text}` is not a valid volume size: use a multiple of {SECTOR_BYTES} bytes"
        ));
    }
    Ok(bytes)
}

/// Parses a range: `1GiB..+64KiB`, `1GiB..2GiB`, or `1GiB` for the 4 KiB at that offset. Returns offset and length,
/// bytes.
pub(super) fn range(text: &str) -> Result<(u64, u64), String> {
    let size = |t: &str| parse_size(t).map_err(|e| format!("`{text}`: {e}"));
    let (from_bytes, len_bytes) = match text.split_once("..") {
        None => (size(text)?, 4096),
        Some((from, to)) => {
            let from_bytes = size(from)?;
            let len_bytes = match to.strip_prefix('+') {
                Some(len) => size(len)?,
                None => size(to)?.saturating_sub(from_bytes),
            };
            (from_bytes, len_bytes)
        }
    };
    if len_bytes == 0 || from_bytes.checked_add(len_bytes).is_none() {
        return Err(format!(
            "`{text}` is an empty range, or ends beyond the end of any device: use a range such as 1GiB..+64KiB or 1GiB..2GiB"
        ));
    }
    Ok((from_bytes, len_bytes))
}
