//! Formatting of numbers for readers: three significant digits, the unit chosen by magnitude. Storage sizes
//! are in powers of 1024 (`4 KiB`). Throughput is in powers of 1000 (`MB/s`), as in data sheets and as in the
//! parentheses of fio's `BW`.

/// Text displayed for a number that is missing, NaN or infinite.
pub const NONE: &str = "–";

/// Formats `x` with three significant digits and without exponent: `0.123`, `1.23`, `12.3`, `123`,
/// `1230`; [`NONE`] if `x` is not finite.
pub fn three_digits(x: f64) -> String {
    if !x.is_finite() {
        return NONE.to_owned();
    }
    let a = x.abs();
    let decimals = if a == 0.0 || a >= 99.95 {
        0
    } else if a >= 9.995 {
        1
    } else if a >= 0.9995 {
        2
    } else {
        3
    };
    format!("{x:.decimals$}")
}

fn si(x: f64, units: &[(f64, &str)]) -> String {
    if !x.is_finite() {
        return NONE.to_owned();
    }
    let a = x.abs();
    let (scale, unit) = units
        .iter()
        .copied()
        .find(|&(scale, _)| a >= scale * 0.9995)
        .unwrap_or(units[units.len() - 1]);
    format!("{}{unit}", three_digits(x / scale))
}

/// Formats a time: `850 ns`, `12.3 µs`, `1.20 ms`, `3.00 s`.
pub fn time_ns(ns: f64) -> String {
    si(ns, &[(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")])
}

/// Formats the fraction `share` as a percentage: `12.5 %`; [`NONE`] if it is not finite.
pub fn percent(share: f64, decimals: usize) -> String {
    if share.is_finite() { format!("{:.decimals$} %", share * 100.0) } else { NONE.to_owned() }
}

/// Formats a count: exactly if it is below 10,000, otherwise abbreviated (`12.3 k`).
pub fn whole(n: u64) -> String {
    if n < 10_000 { n.to_string() } else { count(n as f64) }
}

/// Formats a count with its noun: `1 write`, `0 writes`, `12 writes`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Formats a rate or a mean count with three digits: `950`, `12.3 k`, `1.20 M`. For exact counts use
/// [`whole`].
pub fn count(n: f64) -> String {
    si(n, &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")])
}

/// Formats a throughput with units of powers of 1000: `950 B/s`, `12.3 kB/s`, `1.20 GB/s`.
pub fn throughput(bytes_per_s: f64) -> String {
    si(
        bytes_per_s,
        &[(1e12, " TB/s"), (1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s")],
    )
}

/// Formats an interval from its formatted ends (`None`: unbounded): `76.9 to 77.3 µs`, `900 µs to 1.20 ms`, `77.3 µs or
/// less`. If both ends have the same unit, it appears once.
pub fn between(low: Option<&str>, high: Option<&str>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => match (low.split_once(' '), high.split_once(' ')) {
            (Some((number, unit)), Some((_, other))) if unit == other => {
                format!("{number} to {high}")
            }
            _ => format!("{low} to {high}"),
        },
        (Some(low), None) => format!("{low} or more"),
        (None, Some(high)) => format!("{high} or less"),
        (None, None) => "unknown".to_owned(),
    }
}

/// Formats a size: exactly if it is a whole number of a binary unit (`4 KiB`, `1536 KiB`),
/// otherwise with three digits (`1.46 GiB`).
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes == 0 {
        return "0 B".to_owned();
    }
    let largest_whole =
        (0..UNITS.len()).rev().find(|&i| bytes.is_multiple_of(1_u64 << (10 * i))).unwrap_or(0);
    let whole = bytes >> (10 * largest_whole);
    if whole < 10_240 {
        return format!("{whole} {}", UNITS[largest_whole]);
    }
    let i = ((bytes.ilog2() / 10) as usize).min(UNITS.len() - 1);
    format!("{} {}", three_digits(bytes as f64 / (1_u64 << (10 * i)) as f64), UNITS[i])
}

/// Formats a size exactly, as accepted on the command line, in the largest binary unit that divides it:
/// `4GiB`, `400000000000`, `0`.
pub fn exact_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["", "KiB", "MiB", "GiB", "TiB", "PiB"];
    // 0 has as many trailing zeros as bits, and every unit divides it.
    let i = if bytes == 0 { 0 } else { (bytes.trailing_zeros() / 10) as usize };
    let i = i.min(UNITS.len() - 1);
    format!("{}{}", bytes >> (10 * i), UNITS[i])
}

/// Formats millionths as an exact percentage: `50%`, `33.3333%`.
pub fn exact_percent(ppm: u32) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats a duration for progress and plans: `850 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`.
pub fn duration_ns(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    match s {
        0 => format!("{} ms", ns / 1_000_000),
        1..=9 if !ns.is_multiple_of(1_000_000_000) => format!("{:.1} s", ns as f64 / 1e9),
        1..=119 => format!("{s} s"),
        120..=7199 if s.is_multiple_of(60) => format!("{} min", s / 60),
        120..=7199 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_digits_and_no_jump_at_the_border() {
        assert_eq!(time_ns(999.96), "1.00 µs");
        assert_eq!(time_ns(850.0), "850 ns");
        assert_eq!(time_ns(12_345.0), "12.3 µs");
        assert_eq!(count(1_234_567.0), "1.23 M");
        assert_eq!(count(999.0), "999");
        assert_eq!(count(0.0), "0");
        assert_eq!(throughput(1.2e9), "1.20 GB/s");
    }

    #[test]
    fn what_is_no_number_is_not_printed_as_one() {
        for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for text in [three_digits(x), time_ns(x), count(x), throughput(x), percent(x, 1)] {
                assert_eq!(text, NONE);
            }
        }
        assert_eq!(percent(0.125, 1), "12.5 %");
    }

    #[test]
    fn counts_of_things_have_no_decimals() {
        let texts = [0, 5, 300, 9_999, 12_345].map(whole);
        assert_eq!(texts, ["0", "5", "300", "9999", "12.3 k"]);
    }

    #[test]
    fn sizes_are_exact_when_they_can_be() {
        assert_eq!(size(4096), "4 KiB");
        assert_eq!(size(1536 * 1024), "1536 KiB");
        assert_eq!(size(400_000_000_000), "373 GiB");
        assert_eq!(size(0), "0 B");
        assert_eq!(size(513), "513 B");
        let exact = [0, 513, 4 << 30, 3 << 60].map(exact_size);
        assert_eq!(exact, ["0", "513", "4GiB", "3072PiB"]);
    }
}
