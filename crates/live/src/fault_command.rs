//! Parser and printer of fault commands: the text that `iodyno fault`, scenario files and records use.
//!
//! ```text
//! power-cut                      slow x10 [VOLUME]        latent 1GiB..+64KiB [VOLUME]
//! lose [VOLUME]                  hang [VOLUME]            corrupt 1GiB..+64KiB [VOLUME]
//! page 1GiB [VOLUME]             block 1GiB [VOLUME]      clear [VOLUME]
//! full [VOLUME]                  resize 1GiB [VOLUME]
//! ```
//! A volume is its number, from 0; without one it is volume 0, and `clear` clears all.

use iodyno_emulate::{Fault, PartId};
use iodyno_units::parse::parse_size;

/// A command to a served system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ask {
    /// A fault that the machine simulates.
    Fault(Fault),
    /// Bits flip in what the medium holds, unnoticed until they are read.
    Corrupt {
        /// The volume.
        volume: u32,
        /// First byte.
        offset_bytes: u64,
        /// Length.
        len_bytes: u64,
    },
    /// A volume has no space for data where there is none yet, until it is cleared.
    Full {
        /// The volume.
        volume: u32,
    },
    /// A volume gets another size; `clear` leaves it so.
    Resize {
        /// The volume.
        volume: u32,
        /// Size from now on, bytes.
        size_bytes: u64,
    },
    /// All faults are lifted, on all volumes.
    ClearAll,
}

/// Sizes are multiples of this, bytes.
const SECTOR_BYTES: u64 = 512;

const EXAMPLE: &str = "say power-cut, lose, hang, slow x10, latent 1GiB..+64KiB, corrupt 1GiB..+64KiB, page 1GiB, block 1GiB, full, resize 1GiB or clear, and a volume's number behind it where it is not 0";

/// Parses a fault command.
///
/// # Errors
/// The mistake, and the syntax.
pub fn parse(words: &[&str]) -> Result<Ask, String> {
    let Some((&verb, rest)) = words.split_first() else {
        return Err(format!("no fault is named: {EXAMPLE}"));
    };
    let takes_range = matches!(verb, "latent" | "corrupt" | "page" | "block");
    let takes_factor = verb == "slow";
    let takes_size = verb == "resize";
    let own = usize::from(takes_range || takes_factor || takes_size);
    if rest.len() < own {
        let what = match verb {
            "slow" => "a factor, such as x10",
            "resize" => "a size, such as 1GiB",
            _ => "a place, such as 1GiB..+64KiB",
        };
        return Err(format!("`{verb}` needs {what}"));
    }
    let (own, behind) = rest.split_at(own);
    let volume = match behind {
        [] => None,
        [number] => {
            let wrong = |_| format!("`{number}` is no number of a volume: they count from 0");
            Some(number.parse::<u32>().map_err(wrong)?)
        }
        [_, more, ..] => return Err(format!("`{more}` is too much: {EXAMPLE}")),
    };
    let on = volume.unwrap_or(0);
    let part = PartId(on);
    let fault = match verb {
        "power-cut" if volume.is_some() => {
            return Err("the power of all volumes is one: say `power-cut` alone".to_owned());
        }
        "power-cut" => Fault::PowerCut,
        "lose" => Fault::Lose { part },
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
        "resize" => return Ok(Ask::Resize { volume: on, size_bytes: size(own[0])? }),
        "page" => Fault::Page { part, offset_bytes: range(own[0])?.0 },
        "block" => Fault::Block { part, offset_bytes: range(own[0])?.0 },
        _ => return Err(format!("there is no fault `{verb}`: {EXAMPLE}")),
    };
    Ok(Ask::Fault(fault))
}

/// `x10`, `×10` or `10`.
fn factor(text: &str) -> Result<f64, String> {
    let number = text.trim_start_matches(['x', '×']);
    match number.parse::<f64>() {
        Ok(factor) if factor.is_finite() && (1.0..=1e6).contains(&factor) => Ok(factor),
        _ => Err(format!("`{text}` is no factor: take x1 to x1000000")),
    }
}

/// A size that a block device may have.
fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|e| format!("`{text}`: {e}"))?;
    if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(format!(
            "`{text}` is no size of a volume: take a multiple of {SECTOR_BYTES} bytes"
        ));
    }
    Ok(bytes)
}

/// `1GiB..+64KiB`, `1GiB..2GiB`, or `1GiB` for the 4 KiB there.
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
            "`{text}` is an empty range, or ends beyond all devices: write it as 1GiB..+64KiB or 1GiB..2GiB"
        ));
    }
    Ok((from_bytes, len_bytes))
}

/// A fault in the syntax that [`parse`] reads.
pub fn in_words(fault: &Fault) -> String {
    match fault {
        Fault::PowerCut => "power-cut".to_owned(),
        Fault::Lose { part } => format!("lose {part}"),
        Fault::Hang { part } => format!("hang {part}"),
        Fault::Clear { part } => format!("clear {part}"),
        Fault::Slow { part, factor } => format!("slow x{factor} {part}"),
        Fault::Latent { part, offset_bytes, len_bytes } => {
            format!("latent {offset_bytes}..+{len_bytes} {part}")
        }
        Fault::Page { part, offset_bytes } => format!("page {offset_bytes} {part}"),
        Fault::Block { part, offset_bytes } => format!("block {offset_bytes} {part}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for fault in [
            Fault::PowerCut,
            Fault::Lose { part: PartId(3) },
            Fault::Hang { part: PartId(0) },
            Fault::Clear { part: PartId(1) },
            Fault::Slow { part: PartId(2), factor: 12.5 },
            Fault::Latent { part: PartId(1), offset_bytes: 512, len_bytes: 7 },
            Fault::Page { part: PartId(0), offset_bytes: 1 << 40 },
            Fault::Block { part: PartId(9), offset_bytes: 0 },
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
        assert_eq!(read("clear"), Ok(Ask::ClearAll));
        assert_eq!(read("full 1"), Ok(Ask::Full { volume: 1 }));
        assert_eq!(read("resize 1MiB"), Ok(Ask::Resize { volume: 0, size_bytes: 1 << 20 }));
    }

    #[test]
    fn errors_name_the_syntax() {
        for (text, says) in [
            ("explode", "there is no fault `explode`: say power-cut"),
            ("slow", "needs a factor, such as x10"),
            ("slow x0.5", "take x1 to"),
            ("slow xinf", "take x1 to"),
            ("resize", "needs a size, such as 1GiB"),
            ("resize 1000", "a multiple of 512 bytes"),
            ("resize 0", "a multiple of 512 bytes"),
            ("resize much", "much"),
            ("full up", "count from 0"),
            ("latent", "needs a place, such as 1GiB..+64KiB"),
            ("latent 2GiB..1GiB", "empty range"),
            ("latent 1GiB..+0", "empty range"),
            ("latent soon", "soon"),
            ("corrupt 18446744073709551615", "empty range"),
            ("page 18446744073709551615", "empty range"),
            ("lose first", "count from 0"),
            ("lose 1 2", "`2` is too much"),
            ("power-cut 1", "say `power-cut` alone"),
        ] {
            let said = parse(&text.split(' ').collect::<Vec<_>>()).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
