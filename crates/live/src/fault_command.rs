//! Parser and printer of fault commands, as used by `iodyno fault`, scenario files and records.
//!
//! ```text
//! power-cut    power-off         slow x10 [VOLUME]        latent 1GiB..+64KiB [VOLUME]
//! power-on     lose [VOLUME]     hang [VOLUME]            corrupt 1GiB..+64KiB [VOLUME]
//! page 1GiB [VOLUME]             block 1GiB [VOLUME]      clear [VOLUME]
//! full [VOLUME]                  resize 1GiB [VOLUME]      replace [VOLUME]
//! delay 5ms [KIND] [VOLUME]      error 1% [KIND] [VOLUME]
//!
//! lose adapter N    replace adapter N    clear adapter N    cache-battery-fail adapter N
//! link-down aa N    clear aa N        access adapter N volume M [from adapter K]    access cleared volume M
//! ```
//! KIND is reads, writes, flushes, trims or zeroes; the default is all of them. VOLUME is a volume's number, from 0;
//! the default is volume 0, except that `clear` clears all. In systems with arrays the number is a device's:
//! `device 3`. (After `full` and `resize` it is always a volume's, `volume 3`; after `access`, that of a volume that
//! adapters present.)

use iodyno_emulate::{AdapterFault, Fault, PartId};
use iodyno_units::OpKind;
use iodyno_units::parse::{parse_duration_ns, parse_size};

/// A command to a served system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ask {
    /// A fault simulated by the machine.
    Fault(Fault),
    /// Flips bits on the medium, silently until they are read.
    Corrupt {
        /// Number of the volume.
        volume: u32,
        /// First byte of the range.
        offset_bytes: u64,
        /// Length of the range, bytes.
        len_bytes: u64,
    },
    /// Makes a volume full: it has no space for data where it holds none yet, until it is cleared.
    Full {
        /// Number of the volume.
        volume: u32,
    },
    /// Resizes a volume; `clear` does not undo it.
    Resize {
        /// Number of the volume.
        volume: u32,
        /// New size, bytes.
        size_bytes: u64,
    },
    /// Lifts all faults, on all volumes.
    ClearAll,
}

/// Longest delay, ns.
const DELAY_NS_MAX: u64 = 3_600_000_000_000;
/// Sector size, bytes: sizes are multiples of it.
const SECTOR_BYTES: u64 = 512;

const EXAMPLE: &str = "use power-cut, power-off, power-on, lose, replace, hang, slow x10, delay 5ms, error 1% reads, latent 1GiB..+64KiB, corrupt 1GiB..+64KiB, page 1GiB, block 1GiB, full, resize 1GiB or clear, followed by the volume's number if it is not 0; for RAID adapters use lose adapter 0, replace adapter 0, link-down aa 0, cache-battery-fail adapter 0, access adapter 1 volume 0 or clear adapter 0";

/// Words for kinds of operations.
pub const KINDS: [(OpKind, &str); OpKind::COUNT] = [
    (OpKind::Read, "reads"),
    (OpKind::Write, "writes"),
    (OpKind::Flush, "flushes"),
    (OpKind::Trim, "trims"),
    (OpKind::WriteZeroes, "zeroes"),
];

/// Parses a fault command.
///
/// # Errors
/// The mistake, with the syntax.
pub fn parse(words: &[&str]) -> Result<Ask, String> {
    let Some((&verb, rest)) = words.split_first() else {
        return Err(format!("the fault is missing: {EXAMPLE}"));
    };
    if let Some(fault) = of_adapters(verb, rest) {
        return fault.map(|fault| Ask::Fault(Fault::Adapters(fault)));
    }
    let takes_range = matches!(verb, "latent" | "corrupt" | "page" | "block");
    let takes_kind = matches!(verb, "delay" | "error");
    let own = usize::from(takes_range || takes_kind || matches!(verb, "slow" | "resize"));
    if rest.len() < own {
        let what = match verb {
            "slow" => "a factor, such as x10",
            "resize" => "a size, such as 1GiB",
            "delay" => "a time, such as 5ms",
            "error" => "a percentage, such as 1%",
            _ => "a range, such as 1GiB..+64KiB",
        };
        return Err(format!("`{verb}` needs {what}"));
    }
    let (own, mut behind) = rest.split_at(own);
    let mut kind = None;
    if takes_kind
        && let [first, rest @ ..] = behind
        && let Some((named, _)) = KINDS.iter().find(|(_, word)| word == first)
    {
        (kind, behind) = (Some(*named), rest);
    }
    let volume = match behind {
        [word @ ("device" | "volume"), number, ..] => {
            let is_of = if matches!(verb, "full" | "resize") { "volume" } else { "device" };
            if *word != is_of {
                let own = own.first().map_or(String::new(), |own| format!("{own} "));
                return Err(format!(
                    "`{verb}` applies to a {is_of}: use `{verb} {own}{is_of} {number}` (volumes and devices have the same numbers if each volume is one device)"
                ));
            }
            &behind[1..]
        }
        _ => behind,
    };
    let volume = match volume {
        [] => None,
        ["adapter" | "aa", ..] => {
            return Err(format!(
                "`{verb}` does not apply to adapters: for adapters use lose, replace, clear, cache-battery-fail or link-down"
            ));
        }
        [number, more @ ..] => {
            let or_kind = if takes_kind && kind.is_none() {
                ", nor a kind of operation: reads, writes, flushes, trims or zeroes"
            } else {
                ""
            };
            let wrong = |_| {
                if parse_duration_ns(number).is_ok() {
                    return format!("`{verb}` takes no duration: leave `{number}` out");
                }
                format!("`{number}` is not the number of a volume or device (0, 1, …){or_kind}")
            };
            let number = number.parse::<u32>().map_err(wrong)?;
            if let [more, ..] = more {
                return Err(format!("`{more}` is not expected after a complete fault: {EXAMPLE}"));
            }
            Some(number)
        }
    };
    let on = volume.unwrap_or(0);
    let part = PartId(on);
    let fault = match verb {
        "power-cut" | "power-off" | "power-on" if volume.is_some() => {
            return Err(format!(
                "all volumes share one power supply: use `{verb}` without a number"
            ));
        }
        "power-cut" => Fault::PowerCut,
        "power-off" => Fault::PowerOff,
        "power-on" => Fault::PowerOn,
        "delay" => {
            let delay_ns = parse_duration_ns(own[0]).map_err(|e| e.to_string())?;
            if delay_ns > DELAY_NS_MAX {
                return Err(format!(
                    "a delay of `{}` is too long: use at most 1h, or hang",
                    own[0]
                ));
            }
            Fault::Delay { part, delay_ns, kind }
        }
        "error" => Fault::Errors { part, percent: percent(own[0])?, kind },
        "lose" => Fault::Lose { part },
        "replace" => Fault::Replace { part },
        "hang" => Fault::Hang { part },
        "clear" => match volume {
            Some(_) => Fault::Clear { part },
            None => return Ok(Ask::ClearAll),
        },
        "slow" => Fault::Slow { part, factor: factor(own[0])? },
        "latent" | "corrupt" => {
            let (offset_bytes, len_bytes) = range(own[0])?;
            if verb == "corrupt" {
                return Ok(Ask::Corrupt { volume: on, offset_bytes, len_bytes });
            }
            Fault::Latent { part, offset_bytes, len_bytes }
        }
        "full" => return Ok(Ask::Full { volume: on }),
        "resize" => return Ok(Ask::Resize { volume: on, size_bytes: volume_size(own[0])? }),
        "page" => Fault::Page { part, offset_bytes: range(own[0])?.0 },
        "block" => Fault::Block { part, offset_bytes: range(own[0])?.0 },
        _ => return Err(format!("there is no fault `{verb}`: {EXAMPLE}")),
    };
    Ok(Ask::Fault(fault))
}

/// Parses a fault of adapters; None if the command is about something else.
fn of_adapters(verb: &str, rest: &[&str]) -> Option<Result<AdapterFault, String>> {
    let is_about = |what: &str| rest.first() == Some(&what);
    let number = |of: &str| match rest {
        [word, number] if *word == of => number
            .parse::<u32>()
            .map_err(|_| format!("`{number}` is not the number of an {of} (0, 1, …)")),
        _ => Err(format!("use `{verb} {of} 0`, with a number that counts from 0")),
    };
    let adapter = || number("adapter");
    Some(match verb {
        "access" => access(rest),
        "lose" if is_about("adapter") => adapter().map(|adapter| AdapterFault::Lose { adapter }),
        "replace" if is_about("adapter") => {
            adapter().map(|adapter| AdapterFault::Replace { adapter })
        }
        "clear" if is_about("adapter") => adapter().map(|adapter| AdapterFault::Clear { adapter }),
        "cache-battery-fail" => adapter().map(|adapter| AdapterFault::BatteryFails { adapter }),
        "link-down" => number("aa").map(|link| AdapterFault::LinkDown { link }),
        "clear" if is_about("aa") => number("aa").map(|link| AdapterFault::LinkUp { link }),
        _ => return None,
    })
}

/// Parses a change of an access state.
fn access(rest: &[&str]) -> Result<AdapterFault, String> {
    const SAY: &str = "use `access adapter 1 volume 0`, or `access cleared volume 0`, with numbers that count from 0";
    let (on, behind) = match rest {
        ["adapter", number, behind @ ..] => (Some(*number), behind),
        ["cleared", behind @ ..] => (None, behind),
        _ => return Err(SAY.to_owned()),
    };
    let (volume, from) = match behind {
        ["volume", volume] => (*volume, "0"),
        ["volume", volume, "from", "adapter", from] => (*volume, *from),
        _ => return Err(SAY.to_owned()),
    };
    let number = |text: &str, of: &str| {
        text.parse::<u32>().map_err(|_| format!("`{text}` is not the number of {of} (0, 1, …)"))
    };
    Ok(AdapterFault::Access {
        volume: number(volume, "a volume")?,
        on: on.map(|on| number(on, "an adapter")).transpose()?,
        from: number(from, "an adapter")?,
    })
}

/// Parses `x10`, `×10` or `10`.
fn factor(text: &str) -> Result<f64, String> {
    let number = text.trim_start_matches(['x', '×']);
    match number.parse::<f64>() {
        Ok(factor) if factor.is_finite() && (1.0..=1e6).contains(&factor) => Ok(factor),
        _ => Err(format!("`{text}` is not a factor: use x1 to x1000000")),
    }
}

/// Parses `1%`; returns the number before the sign, so that it is printed and parsed without change.
fn percent(text: &str) -> Result<f64, String> {
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

/// Parses a size for a volume.
///
/// # Errors
/// The size is not valid, or not a multiple of a sector.
pub fn volume_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|e| format!("`{text}`: {e}"))?;
    if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(format!(
            "`{text}` is not a valid volume size: use a multiple of {SECTOR_BYTES} bytes"
        ));
    }
    Ok(bytes)
}

/// Parses `1GiB..+64KiB`, `1GiB..2GiB`, or `1GiB` for the 4 KiB at that offset.
fn range(text: &str) -> Result<(u64, u64), String> {
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
            "`{text}` is an empty range, or ends beyond the end of any device: write a range as 1GiB..+64KiB or 1GiB..2GiB"
        ));
    }
    Ok((from_bytes, len_bytes))
}

/// Formats a fault in the syntax of [`parse`].
pub fn in_words(fault: &Fault) -> String {
    let of_kind = |kind: &Option<OpKind>| {
        let word = KINDS.iter().find(|k| Some(k.0) == *kind).map(|k| k.1);
        word.map_or(String::new(), |word| format!("{word} "))
    };
    match fault {
        Fault::PowerCut => "power-cut".to_owned(),
        Fault::PowerOff => "power-off".to_owned(),
        Fault::PowerOn => "power-on".to_owned(),
        Fault::Delay { part, delay_ns, kind } => {
            format!("delay {delay_ns}ns {}{part}", of_kind(kind))
        }
        Fault::Errors { part, percent, kind } => {
            format!("error {percent}% {}{part}", of_kind(kind))
        }
        Fault::Lose { part } => format!("lose {part}"),
        Fault::Replace { part } => format!("replace {part}"),
        Fault::Hang { part } => format!("hang {part}"),
        Fault::Clear { part } => format!("clear {part}"),
        Fault::Slow { part, factor } => format!("slow x{factor} {part}"),
        Fault::Latent { part, offset_bytes, len_bytes } => {
            format!("latent {offset_bytes}..+{len_bytes} {part}")
        }
        Fault::Page { part, offset_bytes } => format!("page {offset_bytes} {part}"),
        Fault::Block { part, offset_bytes } => format!("block {offset_bytes} {part}"),
        Fault::Adapters(fault) => match fault {
            AdapterFault::Lose { adapter } => format!("lose adapter {adapter}"),
            AdapterFault::Replace { adapter } => format!("replace adapter {adapter}"),
            AdapterFault::Clear { adapter } => format!("clear adapter {adapter}"),
            AdapterFault::BatteryFails { adapter } => {
                format!("cache-battery-fail adapter {adapter}")
            }
            AdapterFault::LinkDown { link } => format!("link-down aa {link}"),
            AdapterFault::LinkUp { link } => format!("clear aa {link}"),
            AdapterFault::Access { volume, on, from } => {
                let on = on.map_or("cleared".to_owned(), |on| format!("adapter {on}"));
                let from = if *from == 0 { String::new() } else { format!(" from adapter {from}") };
                format!("access {on} volume {volume}{from}")
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for fault in [
            Fault::PowerCut,
            Fault::PowerOff,
            Fault::PowerOn,
            Fault::Delay { part: PartId(2), delay_ns: 5_000_001, kind: None },
            Fault::Delay { part: PartId(0), delay_ns: 0, kind: Some(OpKind::WriteZeroes) },
            Fault::Errors { part: PartId(1), percent: 7.0, kind: Some(OpKind::Read) },
            Fault::Errors { part: PartId(0), percent: 100.0 / 3.0, kind: None },
            Fault::Lose { part: PartId(3) },
            Fault::Replace { part: PartId(3) },
            Fault::Hang { part: PartId(0) },
            Fault::Clear { part: PartId(1) },
            Fault::Slow { part: PartId(2), factor: 12.5 },
            Fault::Latent { part: PartId(1), offset_bytes: 512, len_bytes: 7 },
            Fault::Page { part: PartId(0), offset_bytes: 1 << 40 },
            Fault::Block { part: PartId(9), offset_bytes: 0 },
            Fault::Adapters(AdapterFault::Lose { adapter: 1 }),
            Fault::Adapters(AdapterFault::Replace { adapter: 0 }),
            Fault::Adapters(AdapterFault::Clear { adapter: 1 }),
            Fault::Adapters(AdapterFault::BatteryFails { adapter: 1 }),
            Fault::Adapters(AdapterFault::LinkDown { link: 1 }),
            Fault::Adapters(AdapterFault::LinkUp { link: 0 }),
            Fault::Adapters(AdapterFault::Access { volume: 3, on: Some(1), from: 0 }),
            Fault::Adapters(AdapterFault::Access { volume: 0, on: None, from: 0 }),
            Fault::Adapters(AdapterFault::Access { volume: 1, on: Some(0), from: 1 }),
        ] {
            let text = in_words(&fault);
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(parse(&words), Ok(Ask::Fault(fault)), "{text}");
        }
    }

    #[test]
    fn shorter_forms_are_accepted() {
        let read = |text: &str| parse(&text.split(' ').collect::<Vec<_>>());
        let slow = Ask::Fault(Fault::Slow { part: PartId(0), factor: 10.0 });
        assert_eq!(read("slow ×10"), Ok(slow));
        assert_eq!(read("slow 10"), Ok(slow));
        let range =
            |volume, offset_bytes, len_bytes| Ask::Corrupt { volume, offset_bytes, len_bytes };
        assert_eq!(read("corrupt 1GiB..+64KiB"), Ok(range(0, 1 << 30, 64 << 10)));
        assert_eq!(read("corrupt 1MiB..2MiB 4"), Ok(range(4, 1 << 20, 1 << 20)));
        assert_eq!(read("corrupt 8KiB"), Ok(range(0, 8192, 4096)));
        let errors = |percent, kind| Ask::Fault(Fault::Errors { part: PartId(0), percent, kind });
        assert_eq!(read("error 1% reads"), Ok(errors(1.0, Some(OpKind::Read))));
        assert_eq!(read("error 0.5%"), Ok(errors(0.5, None)));
        let part = PartId(3);
        let delay = Fault::Delay { part, delay_ns: 5_000_000, kind: Some(OpKind::Flush) };
        assert_eq!(read("delay 5ms flushes 3"), Ok(Ask::Fault(delay)));
        assert_eq!(read("clear"), Ok(Ask::ClearAll));
        assert_eq!(read("full 1"), Ok(Ask::Full { volume: 1 }));
        assert_eq!(read("full volume 1"), Ok(Ask::Full { volume: 1 }));
        let slow = Ask::Fault(Fault::Slow { part: PartId(3), factor: 10.0 });
        assert_eq!(read("slow x10 device 3"), Ok(slow));
        assert_eq!(read("resize 1MiB"), Ok(Ask::Resize { volume: 0, size_bytes: 1 << 20 }));
    }

    #[test]
    fn errors_name_the_syntax() {
        for (text, says) in [
            ("explode", "there is no fault `explode`: say power-cut"),
            ("slow", "needs a factor, such as x10"),
            ("slow x0.5", "use x1 to"),
            ("slow xinf", "use x1 to"),
            ("resize", "needs a size, such as 1GiB"),
            ("resize 1000", "a multiple of 512 bytes"),
            ("resize 0", "a multiple of 512 bytes"),
            ("resize much", "much"),
            ("full up", "(0, 1, …)"),
            ("latent", "needs a range, such as 1GiB..+64KiB"),
            ("latent 2GiB..1GiB", "empty range"),
            ("latent 1GiB..+0", "empty range"),
            ("latent soon", "soon"),
            ("corrupt 18446744073709551615", "empty range"),
            ("page 18446744073709551615", "empty range"),
            ("delay", "needs a time, such as 5ms"),
            ("delay 5", "no unit of time"),
            ("delay 61m", "at most 1h"),
            ("delay 5ms 1 reads", "`reads` is not expected"),
            ("error", "needs a percentage, such as 1%"),
            ("error one", "0% to 100%"),
            ("error 101%", "0% to 100%"),
            ("error NaN%", "0% to 100%"),
            ("error 1% seeks", "nor a kind of operation: reads, writes, flushes, trims or zeroes"),
            ("power-off 0", "use `power-off` without a number"),
            ("lose first", "(0, 1, …)"),
            ("hang 5s", "`hang` takes no duration"),
            ("lose device 10ms", "`lose` takes no duration"),
            ("error 0.5", "`0.5` lacks a % sign: did you mean `0.5%` or `50%`?"),
            ("error 0.07", "`0.07` lacks a % sign: did you mean `0.07%` or `7%`?"),
            ("error 2", "`2` lacks a % sign: did you mean `2%`?"),
            ("lose adaptor 0", "`adaptor` is not the number of a volume or device"),
            ("hang adapter 0", "`hang` does not apply to adapters: for adapters use lose"),
            ("cache-battery-fail", "use `cache-battery-fail adapter 0`"),
            ("lose 1 2", "`2` is not expected"),
            ("lose device 1 2", "`2` is not expected"),
            ("slow x10 volume 3", "`slow` applies to a device: use `slow x10 device 3`"),
            ("lose volume 3", "use `lose device 3`"),
            ("full device 3", "`full` applies to a volume: use `full volume 3`"),
            ("access", "use `access adapter 1 volume 0`"),
            ("access adapter 1", "use `access adapter 1 volume 0`"),
            ("access optimized volume 1", "or `access cleared volume 0`"),
            ("access adapter one volume 1", "`one` is not the number of an adapter"),
            ("access cleared volume first", "`first` is not the number of a volume"),
            ("access cleared volume 1 from 0", "use `access adapter 1 volume 0`"),
            ("power-cut 1", "use `power-cut` without a number"),
            ("lose adapter", "use `lose adapter 0`"),
            ("lose adapter one", "`one` is not the number of an adapter"),
            ("link-down", "use `link-down aa 0`"),
            ("cache-battery-fail 1", "use `cache-battery-fail adapter 0`"),
        ] {
            let said = parse(&text.split(' ').collect::<Vec<_>>()).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
