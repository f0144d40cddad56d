//! All fault commands, each with its syntax, example, help text and effect.

use super::values::{delay_ns, factor, percent, range, volume_size};
use super::{Arguments, Ask, interface};
use iodyno_emulate::{AdapterFault, Fault};
use iodyno_units::text::listed;
use std::fmt::Write as _;

/// A fault command: its syntax, its help text, and the fault or request that it creates.
#[derive(Debug)]
pub struct Command {
    /// First word of the command, such as `slow`.
    pub(super) verb: &'static str,
    /// The value after the verb; `None` if the command takes none.
    pub(super) operand: Option<Operand>,
    /// Help text: a verb phrase that describes the effect of [`Self::example`].
    help: &'static str,
    /// Syntax of the words after verb and operand, with the function that makes the fault or request.
    pub(super) form: Form,
}

/// The value that a command takes after its verb, as help and error messages describe it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    /// Example value for help and error messages, such as `x10`.
    pub(super) example: &'static str,
    /// Noun for the value in error messages, such as `a factor`.
    pub(super) what: &'static str,
}

type MakeAsk = fn(&Arguments<'_>) -> Result<Ask, String>;

/// Subject of a fault command, such as a device or an adapter. It determines the command's last words, and
/// the fault or request that the command makes.
#[derive(Debug)]
pub(super) enum Form {
    /// The power supply of all volumes. The command has no further words.
    Power(Fault),
    /// The command applies to a device; its last words are `[[device] N]`.
    Device { ask: MakeAsk },
    /// The command applies to a kind of operation on a device; its last words are `[KIND] [[device] N]`.
    DeviceAndKind { ask: MakeAsk },
    /// The command applies to a volume; its last words are `[[volume] N]`.
    Volume { ask: MakeAsk },
    /// The command applies to an adapter or to a link between adapters; its last words are `adapter N` or `aa N`.
    Adapters { of: &'static str, fault: fn(u32) -> AdapterFault },
    /// The command changes a volume's access state. Its last words are `adapter N volume M [from adapter K]`, or
    /// `cleared volume M`.
    Access,
}

impl Command {
    /// Keyword before the number of an adapter or of a link between adapters; `None` if the command applies to
    /// neither.
    pub(super) const fn names_adapters(&self) -> Option<&'static str> {
        match self.form {
            Form::Adapters { of, .. } => Some(of),
            _ => None,
        }
    }

    /// Keyword before the number: `device` or `volume`, whichever the command applies to.
    pub(super) const fn subject(&self) -> &'static str {
        if matches!(self.form, Form::Volume { .. }) { "volume" } else { "device" }
    }

    const fn is_of_adapters(&self) -> bool {
        matches!(self.form, Form::Adapters { .. } | Form::Access)
    }

    /// A complete example of the command, such as `slow x10`.
    pub fn example(&self) -> String {
        let mut text = self.verb.to_owned();
        if let Some(operand) = self.operand {
            let _ = write!(text, " {}", operand.example);
        }
        match self.form {
            Form::DeviceAndKind { .. } if self.verb == "error" => text += " reads",
            Form::Adapters { of, .. } => {
                let _ = write!(text, " {of} 0");
            }
            Form::Access => text += " adapter 1 volume 0",
            _ => {}
        }
        text
    }
}

const fn plain(verb: &'static str, help: &'static str, form: Form) -> Command {
    Command { verb, operand: None, help, form }
}

const fn with(verb: &'static str, operand: Operand, help: &'static str, form: Form) -> Command {
    Command { verb, operand: Some(operand), help, form }
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "same signature as functions for commands whose operand can be invalid"
)]
const fn fault(fault: Fault) -> Result<Ask, String> {
    Ok(Ask::Fault(fault))
}

/// All fault commands, in the order of the help.
pub const COMMANDS: &[Command] = &[
    plain(
        "power-cut",
        "cut the power and restore it immediately: volatile caches lose dirty data",
        Form::Power(Fault::PowerCut),
    ),
    plain(
        "power-off",
        "cut the power: volatile caches lose dirty data, and everything fails until power-on",
        Form::Power(Fault::PowerOff),
    ),
    plain("power-on", "restore the power after power-off", Form::Power(Fault::PowerOn)),
    plain(
        "lose",
        "remove the device",
        Form::Device { ask: |of| fault(Fault::Lose { part: of.part() }) },
    ),
    plain(
        "replace",
        "replace the device with an empty one",
        Form::Device { ask: |of| fault(Fault::Replace { part: of.part() }) },
    ),
    plain(
        "hang",
        "stop answering requests",
        Form::Device { ask: |of| fault(Fault::Hang { part: of.part() }) },
    ),
    with(
        "slow",
        Operand { example: "x10", what: "a factor" },
        "make each operation ten times slower",
        Form::Device {
            ask: |of| fault(Fault::Slow { part: of.part(), factor: factor(of.operand)? }),
        },
    ),
    with(
        "delay",
        Operand { example: "5ms", what: "a time" },
        "add 5 ms to each operation",
        Form::DeviceAndKind {
            ask: |of| {
                let (part, delay_ns) = (of.part(), delay_ns(of.operand)?);
                fault(Fault::Delay { part, delay_ns, kind: of.kind })
            },
        },
    ),
    with(
        "error",
        Operand { example: "1%", what: "a percentage" },
        "fail 1 % of the reads",
        Form::DeviceAndKind {
            ask: |of| {
                let (part, percent) = (of.part(), percent(of.operand)?);
                fault(Fault::Errors { part, percent, kind: of.kind })
            },
        },
    ),
    with(
        "latent",
        RANGE,
        "make a range unreadable until it is rewritten",
        Form::Device {
            ask: |of| {
                let (offset_bytes, len_bytes) = range(of.operand)?;
                fault(Fault::Latent { part: of.part(), offset_bytes, len_bytes })
            },
        },
    ),
    with(
        "corrupt",
        RANGE,
        "flip bits in a range",
        Form::Device {
            ask: |of| {
                let (offset_bytes, len_bytes) = range(of.operand)?;
                Ok(Ask::Corrupt { volume: of.on(), offset_bytes, len_bytes })
            },
        },
    ),
    with(
        "page",
        Operand { example: "1GiB", what: "an offset" },
        "fail the flash page at this offset",
        Form::Device {
            ask: |of| fault(Fault::Page { part: of.part(), offset_bytes: range(of.operand)?.0 }),
        },
    ),
    with(
        "block",
        Operand { example: "1GiB", what: "an offset" },
        "fail the flash block at this offset",
        Form::Device {
            ask: |of| fault(Fault::Block { part: of.part(), offset_bytes: range(of.operand)?.0 }),
        },
    ),
    plain(
        "full",
        "fail writes to unallocated space (ENOSPC)",
        Form::Volume { ask: |of| Ok(Ask::Full { volume: of.on() }) },
    ),
    with(
        "resize",
        Operand { example: "1GiB", what: "a size" },
        "change the size of the volume",
        Form::Volume {
            ask: |of| Ok(Ask::Resize { volume: of.on(), size_bytes: volume_size(of.operand)? }),
        },
    ),
    plain(
        "clear",
        "end all faults; with a number, only those of that device",
        Form::Device {
            ask: |of| {
                let clear = Fault::Clear { part: of.part() };
                if of.number.is_some() { fault(clear) } else { Ok(Ask::ClearAll) }
            },
        },
    ),
    plain(
        "lose",
        "remove a RAID adapter",
        Form::Adapters { of: "adapter", fault: |adapter| AdapterFault::Lose { adapter } },
    ),
    plain(
        "replace",
        "replace a RAID adapter with one whose cache is empty",
        Form::Adapters { of: "adapter", fault: |adapter| AdapterFault::Replace { adapter } },
    ),
    plain(
        "clear",
        "bring a lost adapter back, and repair its battery",
        Form::Adapters { of: "adapter", fault: |adapter| AdapterFault::Clear { adapter } },
    ),
    plain(
        "cache-battery-fail",
        "fail the battery of an adapter's cache",
        Form::Adapters { of: "adapter", fault: |adapter| AdapterFault::BatteryFails { adapter } },
    ),
    plain(
        "link-down",
        "cut a link between the adapters",
        Form::Adapters { of: "aa", fault: |link| AdapterFault::LinkDown { link } },
    ),
    plain(
        "clear",
        "restore a link between the adapters",
        Form::Adapters { of: "aa", fault: |link| AdapterFault::LinkUp { link } },
    ),
    plain(
        "access",
        "move a volume to an adapter; `access cleared volume 0` moves it to the primary one",
        Form::Access,
    ),
];

/// Operand of commands that damage a range of a device.
const RANGE: Operand = Operand { example: "1GiB..+64KiB", what: "a range" };

/// Lists an example of every command, for error messages.
pub(super) fn examples() -> String {
    let list = |of_adapters: bool| {
        let commands =
            COMMANDS.iter().filter(move |command| command.is_of_adapters() == of_adapters);
        commands.map(Command::example)
    };
    format!(
        "use {}; to name a volume other than 0, append its number. For RAID adapters, use {}",
        listed(list(false).chain(interface::examples_with_effects().map(|of| of.0)), "or"),
        listed(list(true), "or")
    )
}

/// Lists the verbs of all commands that apply to adapters or links, for error messages.
pub(super) fn verbs_of_adapters() -> String {
    let faults = COMMANDS.iter().filter(|command| command.names_adapters().is_some());
    let mut verbs: Vec<String> = Vec::new();
    for command in faults {
        if !verbs.iter().any(|verb| verb == command.verb) {
            verbs.push(command.verb.to_owned());
        }
    }
    listed(&verbs, "or")
}

/// Example of every fault command, with the help text about its effect, in the order of the help.
pub fn examples_with_effects() -> Vec<(String, &'static str)> {
    let commands = COMMANDS.iter().map(|command| (command.example(), command.help));
    commands.chain(interface::examples_with_effects()).collect()
}

/// Help text: an example of each command with its effect, one per line. The faults at the volume's interface come last,
/// under a heading.
pub fn help() -> String {
    let mut text = String::new();
    for (at, (example, effect)) in examples_with_effects().iter().enumerate() {
        if at == COMMANDS.len() {
            text.push_str("Faults at the volume's interface, for single requests:\n");
        }
        let _ = writeln!(text, "  {example:<30}{effect}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault_command::{in_words, parse};

    /// Each example parses as its own command, and [`in_words`] formats the parsed fault with the same verb.
    #[test]
    fn each_example_is_parsed_by_its_row() {
        let mut seen = Vec::new();
        for command in COMMANDS {
            let example = command.example();
            let words: Vec<&str> = example.split(' ').collect();
            let ask = parse(&words).unwrap_or_else(|why| panic!("{example}: {why}"));
            if let Ask::Fault(fault) = ask {
                let written = in_words(&fault);
                assert_eq!(written.split(' ').next(), Some(command.verb), "{example}: {written}");
            }
            assert!(!seen.contains(&ask), "{example} means the same as another row");
            seen.push(ask);
            assert!(help().contains(&example), "{example}");
        }
    }
}
