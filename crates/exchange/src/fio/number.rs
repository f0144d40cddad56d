//! Parses fio's sizes, counts and times, as fio 3.33 does. With the default `kb_base=1024`, `k`, `kb` and `ki` are
//! 1024 and `kib` is 1000. With `kb_base=1000`, `k`, `kb` and `ki` are 1000 and `kib` is 1024.

/// Parses a size or a count: digits with an optional suffix. A count may have the suffix of a size: `10k` is
/// 10240.
///
/// # Errors
/// A message if the text can't be parsed.
pub(super) fn count(text: &str, kb_base: u32) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a number that fio reads: use digits and k, m, g or t");
    let lower = text.trim().to_ascii_lowercase();
    if lower.contains(['(', '+', '*', '/']) {
        return Err(format!(
            "`{text}` is arithmetic, which fio evaluates and iodyno does not: give the number"
        ));
    }
    if let Some((first, second)) = lower.split_once(['-', ':'])
        && count(first, kb_base).is_ok()
        && count(second, kb_base).is_ok()
    {
        return Err(format!(
            "`{text}` is two numbers, but this option takes one: give only one of them"
        ));
    }
    if let Some(hex) = lower.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_err(|_| wrong());
    }
    let end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (digits, suffix) = lower.split_at(end);
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let (letter, rest) = suffix.split_at(suffix.chars().next().map_or(0, char::len_utf8));
    let power = match letter {
        "" => 0,
        "b" if rest.is_empty() => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        "z" if rest.is_empty() => {
            return Err(format!(
                "`{text}` counts zones of a zoned block device, which iodyno does not support: give a size in bytes"
            ));
        }
        _ => return Err(wrong()),
    };
    let unit: u64 = match (rest, kb_base) {
        ("" | "b" | "i", 1000) | ("ib", 1024) => 1000,
        ("" | "b" | "i" | "ib", _) => 1024,
        _ => return Err(wrong()),
    };
    unit.checked_pow(power)
        .and_then(|unit| unit.checked_mul(number))
        .ok_or_else(|| format!("`{text}` is too large"))
}

/// Parses a time, and returns ns. A number without a suffix is in units of `unit_ns`.
///
/// # Errors
/// A message if the text can't be parsed.
pub(super) fn time_ns(text: &str, unit_ns: u64) -> Result<u64, String> {
    let wrong = || {
        format!("`{text}` is not a time that fio reads: use a form such as 30s, 5m, 100ms or 10us")
    };
    let lower = text.trim().to_ascii_lowercase();
    let end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (digits, suffix) = lower.split_at(end);
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let unit = match suffix.trim() {
        "" => unit_ns,
        "us" | "usec" => 1000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(|| format!("`{text}` is too long"))
}
