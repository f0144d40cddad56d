//! Parsers of sizes, durations, rates and shares. Each takes the whole text, or fails with a sentence that gives the
//! correct form. Callers add the position (file, line, flag).
//!
//! Units of sizes are the usual ones: `KiB` is 1024 bytes, `kB` is 1000, and the bare letters of fio, dd and sysbench
//! (`4k`, `1M`, `8G`) are powers of 1024.

use core::fmt;

/// Error of parsing a number with a unit. The message states the correct form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUnitError(String);

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for ParseUnitError {}

fn err<T>(message: String) -> Result<T, ParseUnitError> {
    Err(ParseUnitError(message))
}

/// Splits text after its leading decimal number: `("1.5", "KiB")`.
fn split_number(text: &str) -> (&str, &str) {
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// Computes `number × factor` in exact integer arithmetic; `None` on overflow, or if `number` has more than 9
/// decimals.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let clean: String = number.chars().filter(|&c| c != '_').collect();
    let (whole, fraction) = clean.split_once('.').unwrap_or((&clean, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.len() > 9 {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut value = whole.checked_mul(u128::from(factor))?;
    if !fraction.is_empty() {
        let digits: u128 = fraction.parse().ok()?;
        value += digits * u128::from(factor) / 10_u128.pow(fraction.len() as u32);
    }
    u64::try_from(value).ok()
}

/// Parses a size into bytes: `4096`, `4KiB`, `4k` (1024 each), `1MB` (10^6), `1.5GiB`.
pub fn parse_size(text: &str) -> Result<u64, ParseUnitError> {
    let (number, unit) = split_number(text.trim());
    let factor = match unit {
        "" | "B" => 1,
        "k" | "K" | "KiB" | "kiB" => 1 << 10,
        "m" | "M" | "MiB" => 1 << 20,
        "g" | "G" | "GiB" => 1 << 30,
        "t" | "T" | "TiB" => 1 << 40,
        "p" | "P" | "PiB" => 1 << 50,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "PB" => 1_000_000_000_000_000,
        _ => {
            return err(format!(
                "`{text}` is not a size: use a number with B, KiB, MiB, GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000) or k, M, G, T (1024, as fio has it)"
            ));
        }
    };
    match scaled(number, factor) {
        Some(bytes) => Ok(bytes),
        None => {
            err(format!("`{text}` is not a size: expected a number such as `4KiB` or `1.5GiB`"))
        }
    }
}

/// Longest duration in whole days that fits in 64 bits of nanoseconds.
const DURATION_DAYS_MAX: u64 = u64::MAX / 86_400_000_000_000;

/// Parses a duration into nanoseconds: `5s`, `500ms`, `10us`, `100ns`, `2m`, `1h`, `1d`, `1m30s`. A number
/// without a unit is an error.
pub fn parse_duration_ns(text: &str) -> Result<u64, ParseUnitError> {
    let help = "use a number with ns, us, ms, s, m, h or d, such as `5s`, `200us` or `1m30s`";
    let mut rest = text.trim();
    if rest.is_empty() {
        return err(format!("an empty text is not a duration: {help}"));
    }
    let mut total_ns = 0_u64;
    while !rest.is_empty() {
        let (number, tail) = split_number(rest);
        let end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.' || c.is_whitespace())
            .unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        let factor = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" | "sec" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            "" => return err(format!("`{text}` has no unit of time: {help}")),
            _ => return err(format!("`{text}` is not a duration: {help}")),
        };
        let part = scaled(number, factor);
        let Some(sum) = part.and_then(|p| total_ns.checked_add(p)) else {
            let is_long = |n: f64| n * factor as f64 >= u64::MAX as f64;
            let is_too_long = part.is_some() || number.replace('_', "").parse().is_ok_and(is_long);
            return err(if is_too_long {
                format!("`{text}` is too long: the longest duration is {DURATION_DAYS_MAX}d")
            } else {
                format!("`{text}` is not a duration: {help}")
            });
        };
        total_ns = sum;
        rest = next.trim_start();
    }
    Ok(total_ns)
}

/// Parses a rate into operations per second: `50000`, `50k`, `1.5M/s`, `200 IOPS` (powers of 1000).
pub fn parse_rate_iops(text: &str) -> Result<f64, ParseUnitError> {
    let t = text.trim();
    let t = t.strip_suffix("IOPS").or_else(|| t.strip_suffix("/s")).unwrap_or(t).trim_end();
    let (number, unit) = split_number(t);
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => f64::NAN,
    };
    match number.replace('_', "").parse::<f64>() {
        Ok(n) if (n * factor).is_finite() && n * factor > 0.0 => Ok(n * factor),
        _ => err(format!(
            "`{text}` is not a rate: give operations per second, above 0, such as `500`, `50k/s` or `1.5M/s`"
        )),
    }
}

/// Parses a bandwidth above 0 into bytes per second: `405 MB/s`, `1.08GB/s`, `512MiB/s`. Both `B` and `/s`
/// are required, because `6 Gb/s` would mean bits, and `50k/s` operations.
pub fn parse_bandwidth_bytes_per_s(text: &str) -> Result<f64, ParseUnitError> {
    let size = text.trim().strip_suffix("/s").map_or("", str::trim_end);
    let (number, unit) = split_number(size);
    let factor = match unit {
        "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" | "kiB" => 1024.0,
        "MiB" => f64::from(1 << 20),
        "GiB" => f64::from(1 << 30),
        "TiB" => f64::from(1 << 30) * 1024.0,
        _ => f64::NAN,
    };
    match number.replace('_', "").parse::<f64>() {
        Ok(n) if (n * factor).is_finite() && n * factor > 0.0 => Ok(n * factor),
        _ => err(format!(
            "`{text}` is not a bandwidth: give bytes per second, above 0, with B/s, kB/s, MB/s, GB/s (powers of 1000), KiB/s, MiB/s or GiB/s (powers of 1024), such as `405 MB/s`"
        )),
    }
}

/// Parses a percentage into a fraction from 0 to 1: `20%`, `0.5%`, `100%`. The percent sign is required,
/// because `0.5` could mean one half or half a per cent.
pub fn parse_percent(text: &str) -> Result<f64, ParseUnitError> {
    let number = text.trim().strip_suffix('%').map(|n| n.trim_end().parse::<f64>());
    match number {
        Some(Ok(n)) if (0.0..=100.0).contains(&n) => Ok(n / 100.0),
        _ => {
            err(format!("`{text}` is not a share: use a percentage from 0% to 100%, such as `20%`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_iec_and_the_bare_letters_follow_fio() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("4KiB", 4096),
            ("4k", 4096),
            ("4 KiB", 4096),
            ("4kB", 4000),
            ("1.5GiB", 3 << 29),
            ("8T", 8 << 40),
            ("400GB", 400_000_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "4x", "-1", "1..5k", "4 KiB extra", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, ns) in
            [("5s", 5_000_000_000), ("1m30s", 90_000_000_000), ("1.5us", 1500), ("2 ms", 2_000_000)]
        {
            assert_eq!(parse_duration_ns(text), Ok(ns), "{text}");
        }
        for text in ["", "5", "5 parsecs", "s", "1s2", "1..5s", "0.1234567891s"] {
            let said = parse_duration_ns(text).unwrap_err().to_string();
            assert!(!said.contains("too long"), "{said}");
        }
        for text in ["1000000d", "213504d", "213503d1000h", "99999999999999999999999s"] {
            let said = parse_duration_ns(text).unwrap_err().to_string();
            assert!(said.contains("too long: the longest duration is 213503d"), "{said}");
        }
        assert!(parse_duration_ns("213503d").is_ok());
    }

    #[test]
    fn bandwidths_are_in_bytes() {
        for (text, bytes_per_s) in [
            ("405 MB/s", 405e6),
            ("1.08GB/s", 1.08e9),
            ("512 MiB/s", 512.0 * 1_048_576.0),
            ("64_000 B/s", 64_000.0),
            (" 2 kB/s ", 2e3),
        ] {
            assert_eq!(parse_bandwidth_bytes_per_s(text), Ok(bytes_per_s), "{text}");
        }
        for text in ["", "405", "405 MB", "6 Gb/s", "50k/s", "0 MB/s", "-1 MB/s", "MB/s", "1 MB/h"]
        {
            assert!(parse_bandwidth_bytes_per_s(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_and_percents() {
        assert_eq!(parse_rate_iops("50k/s"), Ok(50_000.0));
        assert_eq!(parse_rate_iops("1.5M"), Ok(1_500_000.0));
        assert_eq!(parse_rate_iops("200 IOPS"), Ok(200.0));
        assert!(parse_rate_iops("0").is_err());
        assert!(parse_rate_iops("fast").is_err());
        assert_eq!(parse_percent("20%"), Ok(0.2));
        assert!(parse_percent("0.2").is_err());
        assert!(parse_percent("101%").is_err());
    }
}
