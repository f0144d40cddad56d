//! Fault commands, as used by `iodyno fault`, scenario files and records. [`COMMANDS`] defines syntax, help and
//! effect of each.
//!
//! - KIND is reads, writes, flushes, trims or zeroes. The default is all of them.
//! - VOLUME is a volume's number, from 0. The default is volume 0, except that `clear` clears all volumes.
//! - In systems with arrays, a number names a device instead: `device 3`. The commands `full`, `resize` and `access`
//!   always apply to a volume, as in `volume 3`.

mod effect;
mod interface;
mod table;
mod values;

use crate::interface_fault::InterfaceFault;
pub use effect::{Effect, in_effect};
pub use interface::{at_interface, at_interface_in_words, described};
use iodyno_emulate::{AdapterFault, Fault, PartId};
use iodyno_units::OpKind;
use iodyno_units::parse::parse_duration_ns;
pub use table::{COMMANDS, examples_with_effects, help};
use table::{Command, Form};
pub use values::volume_size;

/// A parsed fault command for a served system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ask {
    /// A fault that the emulated machine itself simulates, such as a power cut or a slow device.
    Fault(Fault),
    /// Flips bits on the medium. The corruption has no effect until the range is read.
    Corrupt {
        /// Number of the volume, from 0.
        volume: u32,
        /// Offset of the first corrupted byte in the volume.
        offset_bytes: u64,
        /// Number of corrupted bytes.
        len_bytes: u64,
    },
    /// Makes a volume report that it is full until the fault is cleared, so that writes to unallocated space fail.
    Full {
        /// Number of the volume, from 0.
        volume: u32,
    },
    /// Resizes a volume. Clearing faults does not undo it.
    Resize {
        /// Number of the volume, from 0.
        volume: u32,
        /// New size of the volume, bytes; at most its capacity.
        size_bytes: u64,
    },
    /// A fault at a volume's interface, such as lost writes.
    Interface {
        /// Number of the volume, from 0.
        volume: u32,
        fault: InterfaceFault,
    },
    /// Clears all faults on all volumes. Resized volumes keep their size.
    ClearAll,
}

/// Keyword of each kind of operation in fault commands, such as `reads`.
pub const KINDS: [(OpKind, &str); OpKind::COUNT] = [
    (OpKind::Read, "reads"),
    (OpKind::Write, "writes"),
    (OpKind::Flush, "flushes"),
    (OpKind::Trim, "trims"),
    (OpKind::WriteZeroes, "zeroes"),
];

/// Parsed arguments of a fault command.
struct Arguments<'a> {
    /// Value after the command's verb, such as `x10`; empty if the command takes none.
    operand: &'a str,
    /// Kind of operation that the fault affects; `None`: all kinds.
    kind: Option<OpKind>,
    /// Number of the device or volume; `None` if the command does not give one.
    number: Option<u32>,
}

impl Arguments<'_> {
    /// Number of the device or volume that the fault applies to; 0 if the command does not give one.
    fn on(&self) -> u32 {
        self.number.unwrap_or(0)
    }

    /// Id of the device that the fault applies to; device 0 if the command does not give a number.
    fn part(&self) -> PartId {
        PartId(self.on())
    }
}

/// Parses a fault command such as `slow x10`, given as its words.
///
/// # Errors
/// The command is not valid, or affects no request. The message shows the syntax.
pub fn parse(words: &[&str]) -> Result<Ask, String> {
    let ask = parse_recorded(words)?;
    if let Ask::Interface { fault, .. } = &ask {
        interface::check_effect(fault)?;
    }
    Ok(ask)
}

/// Like [`parse`], and accepts faults that affect no request: records of earlier versions may have them.
pub(crate) fn parse_recorded(words: &[&str]) -> Result<Ask, String> {
    let Some((&verb, rest)) = words.split_first() else {
        return Err(format!("the fault is missing: {}", table::examples()));
    };
    if interface::is_one(verb, rest) {
        return interface::parse(verb, rest);
    }
    let of_verb = || COMMANDS.iter().filter(|command| command.verb == verb);
    // `lose` applies to a device, `lose adapter` to an adapter.
    let command = of_verb()
        .find(|command| command.names_adapters().is_some_and(|of| rest.first() == Some(&of)))
        .or_else(|| of_verb().find(|command| command.names_adapters().is_none()))
        .or_else(|| of_verb().next())
        .ok_or_else(|| format!("there is no fault `{verb}`: {}", table::examples()))?;
    match &command.form {
        Form::Adapters { of, fault } => numbered(command, of, rest).map(fault).map(adapters),
        Form::Access => access(rest).map(adapters),
        Form::Power(fault) => match argument_number(command, &[], rest, false)? {
            Some(_) => {
                Err(format!("all volumes share one power supply: use `{verb}` without a number"))
            }
            None => Ok(Ask::Fault(*fault)),
        },
        Form::Device { ask } | Form::DeviceAndKind { ask } | Form::Volume { ask } => {
            let takes_kind = matches!(command.form, Form::DeviceAndKind { .. });
            let own = usize::from(command.operand.is_some());
            if let (Some(operand), true) = (command.operand, rest.len() < own) {
                return Err(format!(
                    "`{verb}` needs {}, such as {}",
                    operand.what, operand.example
                ));
            }
            let (own, mut after) = rest.split_at(own);
            let mut kind = None;
            if takes_kind
                && let [first, rest @ ..] = after
                && let Some((named, _)) = KINDS.iter().find(|(_, word)| word == first)
            {
                (kind, after) = (Some(*named), rest);
            }
            let number = argument_number(command, own, after, takes_kind && kind.is_none())?;
            ask(&Arguments { operand: own.first().unwrap_or(&""), kind, number })
        }
    }
}

const fn adapters(fault: AdapterFault) -> Ask {
    Ask::Fault(Fault::Adapters(fault))
}

/// Parses the optional number of a device or a volume at the end of a command; `None` if it is absent.
fn argument_number(
    command: &Command,
    own: &[&str],
    after: &[&str],
    may_be_kind: bool,
) -> Result<Option<u32>, String> {
    let verb = command.verb;
    let number = match after {
        [word @ ("device" | "volume"), number, ..] => {
            let subject = command.subject();
            if *word != subject {
                let own = own.first().map_or(String::new(), |own| format!("{own} "));
                return Err(format!(
                    "`{verb}` applies to a {subject}: use `{verb} {own}{subject} {number}` (volumes and devices have the same numbers if each volume is one device)"
                ));
            }
            &after[1..]
        }
        _ => after,
    };
    match number {
        [] => Ok(None),
        ["adapter" | "aa", ..] => Err(format!(
            "`{verb}` does not apply to adapters: for adapters use {}",
            table::verbs_of_adapters()
        )),
        [number, more @ ..] => {
            let or_kind = if may_be_kind {
                ", nor a kind of operation: reads, writes, flushes, trims or zeroes"
            } else {
                ""
            };
            let wrong = |_| {
                if parse_duration_ns(number).is_ok() {
                    let remedy = if verb == "slow" {
                        "give a factor, such as `slow x10`, or use `delay`".to_owned()
                    } else {
                        format!("leave `{number}` out")
                    };
                    return format!("`{verb}` takes no duration: {remedy}");
                }
                format!("`{number}` is not the number of a volume or device (0, 1, …){or_kind}")
            };
            let number = number.parse::<u32>().map_err(wrong)?;
            match more {
                [] => Ok(Some(number)),
                [more, ..] => Err(format!(
                    "`{more}` is not expected after the number of a volume or device: {}",
                    table::examples()
                )),
            }
        }
    }
}

/// Parses the number in `adapter N` (an adapter) or `aa N` (a link between adapters).
fn numbered(command: &Command, of: &str, rest: &[&str]) -> Result<u32, String> {
    match rest {
        [word, number] if *word == of => {
            number.parse().map_err(|_| format!("`{number}` is not the number of an {of} (0, 1, …)"))
        }
        _ => Err(format!("use `{} {of} 0`; numbers start at 0", command.verb)),
    }
}

/// Parses the arguments of the `access` command, which changes a volume's access state on an adapter.
fn access(rest: &[&str]) -> Result<AdapterFault, String> {
    const SAY: &str =
        "use `access adapter 1 volume 0`, or `access cleared volume 0`; numbers start at 0";
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

/// Formats a fault as a command that [`parse`] accepts.
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
            ("explode", "there is no fault `explode`: use power-cut"),
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
