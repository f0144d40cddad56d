//! Describes the effect of fault commands in words.

use super::{Ask, KINDS, described};
use iodyno_emulate::{Fault, UNIT_BYTES};
use iodyno_units::{OpKind, human};

/// Clause appended to the description of a power failure: its consequence for clients.
const HOST_IS_CUT: &str = "all connections and open files were closed";

/// How a fault affects reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads are affected as on storage without redundancy.
    Usual,
    /// An array with redundancy excludes the lost device, and does not take it back when the fault is cleared.
    Excluded,
    /// No read fails, because the data is rebuilt from redundancy. The text describes the rebuild.
    Rebuilt(&'static str),
    /// The fault has no effect; the text is the reason.
    None(String),
}

/// Describes a system's state after a fault command. `device` is the noun for a device, such as `volume`;
/// `was_off` tells whether the power was already off.
pub fn in_effect(ask: &Ask, was_off: bool, device: &str, effect: &Effect) -> String {
    let named = || match *ask {
        Ask::Fault(fault) => {
            fault.part().map_or(String::new(), |part| format!("{device} {part}: "))
        }
        Ask::Corrupt { volume, .. } => format!("{device} {volume}: "),
        Ask::Full { volume } | Ask::Resize { volume, .. } | Ask::Interface { volume, .. } => {
            format!("volume {volume}: ")
        }
        Ask::ClearAll => String::new(),
    };
    match effect {
        Effect::Usual => named() + &usual_effect(ask, was_off, device),
        Effect::Excluded => {
            let power = if was_off { "; the power is off, too" } else { "" };
            format!("{}missing until `replace`{power}", named())
        }
        Effect::None(why) => format!("{}no effect: {why}", named()),
        Effect::Rebuilt(by) => {
            let usual = usual_effect(ask, was_off, device);
            let usual = named() + usual.trim_end_matches(UNTIL_WRITTEN);
            format!("{usual}, but {by}: reads succeed")
        }
    }
}

/// Suffix of the description of media damage that lasts until the range is rewritten or the fault is cleared.
const UNTIL_WRITTEN: &str = " until cleared, or rewritten in whole units of 4 KiB";

/// Describes the effect of a fault command on storage without redundancy. The text does not name the device or volume.
fn usual_effect(ask: &Ask, was_off: bool, device: &str) -> String {
    let of = |kind: Option<OpKind>| {
        let word = KINDS.iter().find(|k| Some(k.0) == kind).map(|k| k.1);
        word.unwrap_or("operations")
    };
    let size = human::size;
    match *ask {
        Ask::Fault(fault) => {
            match fault {
                Fault::PowerCut => format!("the power failed and is back; {HOST_IS_CUT}"),
                Fault::PowerOff => {
                    format!("the power is off until power-on: everything fails; {HOST_IS_CUT}")
                }
                Fault::PowerOn => "the power is on".to_owned(),
                Fault::Lose { .. } if was_off => {
                    "missing until `clear`; the power is off, too".to_owned()
                }
                // (Other devices of the volume still work.)
                Fault::Lose { .. } if device == "device" => "missing until `clear`".to_owned(),
                Fault::Lose { .. } => "missing until `clear`: everything fails".to_owned(),
                Fault::Replace { .. } => "replaced by an empty device".to_owned(),
                Fault::Hang { .. } => "nothing completes until `clear`".to_owned(),
                Fault::Slow { factor, .. } if factor <= 1.0 => "at normal speed".to_owned(),
                Fault::Slow { factor, .. } => {
                    format!("everything takes {factor} times as long, until `clear`")
                }
                Fault::Delay { delay_ns: 0, kind, .. } => format!("{} are not delayed", of(kind)),
                Fault::Delay { delay_ns, kind, .. } => {
                    let delay = human::time_ns(delay_ns as f64);
                    format!("{} end {delay} later, until `clear`", of(kind))
                }
                Fault::Errors { percent: 0.0, kind, .. } => format!("{} do not fail", of(kind)),
                Fault::Errors { percent, kind, .. } => {
                    format!("{percent} % of {} fail, until `clear`", of(kind))
                }
                Fault::Latent { offset_bytes, len_bytes, .. } => {
                    let (at, len) = in_units(offset_bytes, len_bytes);
                    format!("{len} at {at} can't be read{UNTIL_WRITTEN}")
                }
                Fault::Page { offset_bytes, .. } => {
                    format!("the flash page at {} can't be read", size(offset_bytes))
                }
                Fault::Block { offset_bytes, .. } => {
                    format!("the erase block at {} can't be read", size(offset_bytes))
                }
                Fault::Adapters(_) => String::new(),
                Fault::Clear { .. } if was_off => "the power is off; no other fault".to_owned(),
                Fault::Clear { .. } => "no fault".to_owned(),
            }
        }
        Ask::Full { .. } => "full until `clear`: writes to unallocated space fail".to_owned(),
        Ask::Resize { size_bytes, .. } => format!("resized to {}", size(size_bytes)),
        Ask::Corrupt { offset_bytes, len_bytes, .. } => {
            let (at, len) = in_units(offset_bytes, len_bytes);
            format!("{len} at {at} are corrupt{UNTIL_WRITTEN}")
        }
        Ask::Interface { fault, .. } => described(&fault),
        Ask::ClearAll => "no fault is in effect".to_owned(),
    }
}

/// Formats offset and length of the whole 4 KiB units that a range touches: a fault of the medium affects them all.
fn in_units(offset_bytes: u64, len_bytes: u64) -> (String, String) {
    let from = offset_bytes / UNIT_BYTES * UNIT_BYTES;
    let end =
        offset_bytes.saturating_add(len_bytes).div_ceil(UNIT_BYTES).saturating_mul(UNIT_BYTES);
    (human::size(from), human::size(end - from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault_command::parse;

    #[test]
    fn the_remedy_for_a_lost_device_depends_on_its_array() {
        let ask = parse(&["lose", "device", "1"]).unwrap();
        for (effect, was_off, says) in [
            (Effect::Usual, false, "device 1: missing until `clear`"),
            (Effect::Usual, true, "device 1: missing until `clear`; the power is off, too"),
            (Effect::Excluded, false, "device 1: missing until `replace`"),
            (Effect::Excluded, true, "device 1: missing until `replace`; the power is off, too"),
        ] {
            assert_eq!(in_effect(&ask, was_off, "device", &effect), says);
        }
    }

    /// The description of every command's effect names its volume and its values.
    #[test]
    fn a_command_says_what_is_in_effect() {
        for (command, says) in [
            ("slow x10 1", "volume 1: everything takes 10 times as long, until `clear`"),
            ("slow x1", "volume 0: at normal speed"),
            ("delay 5ms", "volume 0: operations end 5.00 ms later, until `clear`"),
            ("delay 0ms flushes", "volume 0: flushes are not delayed"),
            ("error 0.5% reads 2", "volume 2: 0.5 % of reads fail, until `clear`"),
            ("error 0%", "volume 0: operations do not fail"),
            (
                "latent 16KiB..+512B",
                "volume 0: 4 KiB at 16 KiB can't be read until cleared, or rewritten in whole units of 4 KiB",
            ),
            (
                "corrupt 20479..+2 1",
                "volume 1: 8 KiB at 16 KiB are corrupt until cleared, or rewritten in whole units of 4 KiB",
            ),
            ("resize 1GiB", "volume 0: resized to 1 GiB"),
            ("clear", "no fault is in effect"),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            let ask = parse(&words).unwrap();
            assert_eq!(in_effect(&ask, false, "volume", &Effect::Usual), says);
        }
    }
}
