//! Commands for faults at a volume's interface: `VERB [VALUE] [KIND] [at RANGE] [after N [KIND]] [next N] [for TIME]
//! [VOLUME]`. The words from `KIND` to `TIME` are the scope; they select the affected requests.
//!
//! `delay` and `hang` can also be faults of a device. They are faults of the interface if the command has one of the
//! words `at`, `after`, `next` or `for`. `hang` with a `KIND`, or with a duration as its `VALUE`, is a fault of the
//! interface, too.

use super::values::{delay_ns, range};
use super::{Ask, KINDS};
use crate::interface_fault::{Action, InterfaceFault, Scope};
use iodyno_emulate::{Fault, PartId, UNIT_BYTES};
use iodyno_units::parse::{parse_duration_ns, parse_size};
use iodyno_units::{IoError, OpKind, human};
use std::fmt::Write as _;

/// Names of the errors with which a fault can make requests fail.
const ERRORS: [(&str, IoError); 4] = [
    ("EIO", IoError::Io),
    ("ENOSPC", IoError::NoSpace),
    ("ENODEV", IoError::Gone),
    ("EINVAL", IoError::OutOfRange),
];

/// Example of the words after a verb and its value, for error messages.
const SCOPE: &str = "[writes] [at 1GiB..+64KiB] [after 2] [next 1] [for 10s] [VOLUME]";

/// For each verb: an example of its value, if it takes one, and a help text that describes the effect of the example.
pub(super) const VERBS: [(&str, Option<&str>, &str); 8] = [
    ("error", Some("EIO"), "fail operations with EIO, ENOSPC, ENODEV or EINVAL"),
    ("lost", None, "acknowledge writes without storing them"),
    ("torn", Some("512B"), "store only the first 512 bytes of each write"),
    ("misdirected", Some("1MiB"), "store writes 1 MiB past their offset"),
    ("flip", None, "flip a bit in the data that reads return"),
    ("stale", None, "make reads return the data from before this command"),
    ("hang", Some("5s"), "send no reply for 5 s, from the next request on"),
    ("delay", Some("5ms next 1"), "add 5 ms to the next request"),
];

/// Keywords of a scope. Faults of a device have no scope, so these words mark a fault at the interface.
const SCOPE_WORDS: [&str; 4] = ["at", "after", "next", "for"];

/// Whether a command injects a fault at the interface. `error EIO` does; `error 1%` does not, because it makes the
/// device fail a share of its operations.
pub(super) fn is_one(verb: &str, rest: &[&str]) -> bool {
    match verb {
        "error" => rest.first().is_some_and(|word| word.starts_with('E')),
        "delay" => rest.iter().any(|word| SCOPE_WORDS.contains(word)),
        "hang" => {
            let is_kind = |word: &str| KINDS.iter().any(|(_, kind)| *kind == word);
            rest.first().is_some_and(|word| is_kind(word) || is_time(word))
                || rest.iter().any(|word| SCOPE_WORDS.contains(word))
        }
        _ => VERBS.iter().any(|of| of.0 == verb),
    }
}

fn is_time(word: &str) -> bool {
    parse_duration_ns(word).is_ok()
}

/// Converts a fault of a device to the equivalent fault at its volume's interface, for storage without a performance
/// model. `None` if there is no equivalent.
pub fn at_interface(fault: &Fault) -> Option<Ask> {
    let (PartId(volume), action, kind) = match *fault {
        Fault::Delay { part, delay_ns, kind } => (part, Action::Delay { by_ns: delay_ns }, kind),
        Fault::Hang { part } => (part, Action::Hang { for_ns: None }, None),
        _ => return None,
    };
    let scope = Scope { kind, ..ALL };
    Some(Ask::Interface { volume, fault: InterfaceFault { action, scope } })
}

/// Scope that selects every request, without a time limit.
const ALL: Scope =
    Scope { kind: None, range_bytes: None, after: 0, after_kind: None, next: None, for_ns: None };

/// Kind of operation that a word such as `reads` names; `None` for any other word.
fn kind_of(word: Option<&&str>) -> Option<OpKind> {
    KINDS.iter().find(|(_, name)| Some(name) == word).map(|(kind, _)| *kind)
}

/// Parses a command for a fault at the interface: its verb and the words after it.
pub(super) fn parse(verb: &str, rest: &[&str]) -> Result<Ask, String> {
    let example = VERBS.iter().find(|of| of.0 == verb).and_then(|of| of.1);
    let (value, mut words) = match (example, rest.split_first()) {
        (None, _) => ("", rest),
        (_, Some((first, _))) if verb == "hang" && !is_time(first) => ("", rest),
        (Some(_), Some((value, rest))) => (*value, rest),
        (Some(example), None) => {
            return Err(format!("`{verb}` needs a value, such as `{verb} {example}`"));
        }
    };
    let action = action(verb, value)?;
    let mut scope = ALL;
    if let Some((first, rest)) = words.split_first()
        && let Some(kind) = kind_of(Some(first))
    {
        if !action.applies_to(kind) {
            return Err(format!("`{verb}` does not apply to {first}: leave `{first}` out"));
        }
        (scope.kind, words) = (Some(kind), rest);
    }
    check_scope(words)?;
    let mut volume = None;
    while let Some((&word, rest)) = words.split_first() {
        let value = rest.first().copied();
        let count = |text: Option<&str>| {
            text.and_then(|text| text.parse::<u64>().ok())
                .ok_or_else(|| format!("`{word}` needs a number, such as `{word} 2`"))
        };
        let needs = |example: &str| format!("`{word}` needs a value, such as `{word} {example}`");
        let of_one = match word {
            "at" => {
                scope.range_bytes = Some(range(value.ok_or_else(|| needs("1GiB..+64KiB"))?)?);
                false
            }
            "after" => {
                scope.after = count(value)?;
                scope.after_kind = kind_of(rest.get(1));
                if scope.after_kind.is_some() {
                    words = &rest[2..];
                    continue;
                }
                false
            }
            "next" => {
                scope.next = Some(count(value)?);
                false
            }
            "for" => {
                scope.for_ns = Some(delay_ns(value.ok_or_else(|| needs("10s"))?)?);
                false
            }
            "volume" if value.is_some() => {
                words = rest;
                continue;
            }
            number => {
                let number = number.parse::<u32>().map_err(|_| {
                    format!("`{number}` is not expected after `{verb}`: use `{verb} … {SCOPE}`")
                })?;
                if volume.replace(number).is_some() {
                    return Err(format!("`{verb}` applies to one volume: leave `{number}` out"));
                }
                true
            }
        };
        words = if of_one { rest } else { &rest[1..] };
    }
    Ok(Ask::Interface { volume: volume.unwrap_or(0), fault: InterfaceFault { action, scope } })
}

/// Refuses a scope in which a word such as `at` is repeated.
fn check_scope(words: &[&str]) -> Result<(), String> {
    let is_repeated = |of: &&&str| words.iter().filter(|word| word == of).count() > 1;
    match SCOPE_WORDS.iter().find(is_repeated) {
        Some(word) => Err(format!(
            "`{word}` is given twice: use it once per command, and a command for each fault"
        )),
        None => Ok(()),
    }
}

/// Refuses a fault that affects no request. Records may have such faults.
pub(super) fn check_effect(fault: &InterfaceFault) -> Result<(), String> {
    let no_time = |word: &str| {
        Err(format!("`{word} 0s` affects no request: use a time above 0, such as `{word} 5s`"))
    };
    match (fault.action, fault.scope) {
        (_, Scope { next: Some(0), .. }) => {
            Err("`next 0` affects no request: use `next 1` or more".to_owned())
        }
        (_, Scope { for_ns: Some(0), .. }) => no_time("for"),
        (Action::Hang { for_ns: Some(0) }, _) => no_time("hang"),
        _ => Ok(()),
    }
}

fn action(verb: &str, value: &str) -> Result<Action, String> {
    let bytes = || parse_size(value).map_err(|e| format!("`{value}`: {e}"));
    Ok(match verb {
        "lost" => Action::Lose,
        "flip" => Action::Flip,
        "delay" => match delay_ns(value)? {
            0 => {
                return Err("`delay 0ms` ends all delays of a kind of operation, including limited ones: omit `at`, `after`, `next` and `for`".to_owned());
            }
            by_ns => Action::Delay { by_ns },
        },
        "hang" if value.is_empty() => Action::Hang { for_ns: None },
        "hang" => Action::Hang { for_ns: Some(delay_ns(value)?) },
        "stale" => Action::Stale,
        "torn" if value == "unit" => Action::Tear { kept_bytes: UNIT_BYTES as u32 },
        "torn" => {
            let kept_bytes = bytes()?;
            Action::Tear { kept_bytes: u32::try_from(kept_bytes).unwrap_or(u32::MAX) }
        }
        "misdirected" => match bytes()? {
            0 => return Err("use a distance above 0, such as `misdirected 1MiB`".to_owned()),
            by_bytes => Action::Misdirect { by_bytes },
        },
        _ => {
            let known = ERRORS.iter().find(|(name, _)| *name == value);
            let (_, error) = known.ok_or_else(|| {
                format!("`{value}` is neither an error to inject (EIO, ENOSPC, ENODEV or EINVAL) nor a percentage such as 1%")
            })?;
            Action::Fail(*error)
        }
    })
}

/// Formats a fault at a volume's interface as a fault command.
pub fn at_interface_in_words(volume: u32, fault: &InterfaceFault) -> String {
    let Scope { kind, range_bytes, after, after_kind, next, for_ns } = fault.scope;
    let mut text = match fault.action {
        Action::Fail(error) => {
            let name = ERRORS.iter().find(|known| known.1 == error).map_or("EIO", |known| known.0);
            format!("error {name}")
        }
        Action::Lose => "lost".to_owned(),
        Action::Tear { kept_bytes } => format!("torn {kept_bytes}"),
        Action::Misdirect { by_bytes } => format!("misdirected {by_bytes}"),
        Action::Flip => "flip".to_owned(),
        Action::Stale => "stale".to_owned(),
        Action::Delay { by_ns } => format!("delay {by_ns}ns"),
        Action::Hang { for_ns: None } => "hang".to_owned(),
        Action::Hang { for_ns: Some(for_ns) } => format!("hang {for_ns}ns"),
    };
    let word_of = |kind| KINDS.iter().find(|known| Some(known.0) == kind).map(|known| known.1);
    if let Some(word) = word_of(kind) {
        let _ = write!(text, " {word}");
    }
    if let Some((at, len)) = range_bytes {
        let _ = write!(text, " at {at}..+{len}");
    }
    if after > 0 || after_kind.is_some() {
        let _ = write!(text, " after {after}");
        if let Some(word) = word_of(after_kind) {
            let _ = write!(text, " {word}");
        }
    }
    if let Some(next) = next {
        let _ = write!(text, " next {next}");
    }
    if let Some(for_ns) = for_ns {
        let _ = write!(text, " for {for_ns}ns");
    }
    let _ = write!(text, " {volume}");
    text
}

/// Describes a fault in words that do not name its volume: `writes at 1 GiB are lost, the next 2 of them, for 10 s`.
pub fn described(fault: &InterfaceFault) -> String {
    let Scope { kind, range_bytes, after, after_kind, next, for_ns } = fault.scope;
    let word_of = |kind| KINDS.iter().find(|known| Some(known.0) == kind).map(|known| known.1);
    let time = |ns: u64| human::time_ns(ns as f64);
    let word = word_of(kind);
    let (default, does) = match fault.action {
        Action::Fail(error) => {
            let name = ERRORS.iter().find(|known| known.1 == error).map_or("EIO", |known| known.0);
            ("operations", format!("fail with {name}"))
        }
        Action::Lose => ("writes", "are acknowledged and not stored".to_owned()),
        Action::Tear { kept_bytes } => (
            "writes",
            format!(
                "are acknowledged, but with only their first {} stored",
                human::size(u64::from(kept_bytes))
            ),
        ),
        Action::Misdirect { by_bytes } => {
            ("writes", format!("are stored {} past their offset", human::size(by_bytes)))
        }
        Action::Flip => ("reads", "return a flipped bit".to_owned()),
        Action::Stale => {
            ("reads", "return the old data of ranges overwritten since the command".to_owned())
        }
        Action::Delay { by_ns: 0 } => {
            return format!("{} are not delayed", word.unwrap_or("operations"));
        }
        Action::Delay { by_ns } => ("operations", format!("end {} later", time(by_ns))),
        Action::Hang { for_ns: None } => ("operations", "get no reply".to_owned()),
        Action::Hang { for_ns: Some(ns) } => (
            "operations",
            format!("get no reply until {} after the first affected request", time(ns)),
        ),
    };
    let mut text = word.unwrap_or(default).to_owned();
    if let Some((at, len)) = range_bytes {
        let _ = write!(text, " in the {} at {}", human::size(len), human::size(at));
    }
    let _ = write!(text, " {does}");
    if after > 0 {
        let _ = write!(text, ", after {after}");
        if let Some(word) = word_of(after_kind) {
            let _ = write!(text, " of the {word}");
        }
    }
    if let Some(next) = next {
        let _ = write!(text, ", the next {next}");
    }
    match for_ns {
        Some(ns) => _ = write!(text, ", for {}", time(ns)),
        None if matches!(fault.action, Action::Hang { for_ns: Some(_) }) => {}
        None if next.is_none() => text += ", until `clear`",
        None => {}
    }
    text
}

/// Example command for each verb, with the help text about its effect.
pub(super) fn examples_with_effects() -> impl Iterator<Item = (String, &'static str)> {
    VERBS.iter().map(|(verb, value, effect)| {
        (value.map_or((*verb).to_owned(), |value| format!("{verb} {value}")), *effect)
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn read(text: &str) -> Result<Ask, String> {
        parse(&text.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn commands_are_read_and_described() {
        for (command, on, says) in [
            ("lost", 0, "writes are acknowledged and not stored, until `clear`"),
            ("error EIO flushes after 2 next 1", 0, "flushes fail with EIO, after 2, the next 1"),
            (
                "error ENOSPC writes at 1GiB..+64KiB for 10s 3",
                3,
                "writes in the 64 KiB at 1 GiB fail with ENOSPC, for 10.0 s",
            ),
            (
                "torn 512B next 2 volume 1",
                1,
                "writes are acknowledged, but with only their first 512 B stored, the next 2",
            ),
            (
                "torn unit 1",
                1,
                "writes are acknowledged, but with only their first 4 KiB stored, until `clear`",
            ),
            (
                "stale next 1",
                0,
                "reads return the old data of ranges overwritten since the command, the next 1",
            ),
            ("hang 5s", 0, "operations get no reply until 5.00 s after the first affected request"),
            (
                "hang flushes after 1 writes",
                0,
                "flushes get no reply, after 1 of the writes, until `clear`",
            ),
            (
                "delay 5ms after 3 flushes next 2 1",
                1,
                "operations end 5.00 ms later, after 3 of the flushes, the next 2",
            ),
            (
                "misdirected 1MiB writes",
                0,
                "writes are stored 1 MiB past their offset, until `clear`",
            ),
            (
                "flip reads at 8KiB",
                0,
                "reads in the 4 KiB at 8 KiB return a flipped bit, until `clear`",
            ),
        ] {
            let Ok(Ask::Interface { volume, fault }) = read(command) else { panic!("{command}") };
            assert_eq!((volume, described(&fault).as_str()), (on, says), "{command}");
            let written = at_interface_in_words(volume, &fault);
            assert_eq!(read(&written), Ok(Ask::Interface { volume, fault }), "{written}");
        }
    }

    /// Records of earlier versions have faults that affect no request.
    #[test]
    fn a_record_may_have_faults_without_effect() {
        for fault in ["error EIO next 0 0", "error EIO for 0ns 0", "hang 0ns 0"] {
            let words: Vec<&str> = fault.split(' ').collect();
            let recorded = super::super::parse_recorded(&words);
            assert!(matches!(recorded, Ok(Ask::Interface { .. })), "{fault}: {recorded:?}");
            assert!(read(fault).unwrap_err().contains("affects no request"), "{fault}");
        }
    }

    #[test]
    fn errors_name_the_remedy() {
        for (command, says) in [
            ("error EWHAT", "(EIO, ENOSPC, ENODEV or EINVAL)"),
            ("torn", "`torn` needs a value, such as `torn 512B`"),
            ("misdirected 0", "above 0"),
            ("lost reads", "`lost` does not apply to reads"),
            ("stale writes", "`stale` does not apply to writes"),
            ("flip writes", "`flip` does not apply to writes"),
            ("lost next", "`next` needs a number, such as `next 2`"),
            ("lost after -1", "`after` needs a number"),
            ("lost at", "`at` needs a value, such as `at 1GiB..+64KiB`"),
            ("lost for 5", "no unit of time"),
            ("lost soon", "`soon` is not expected after `lost`: use `lost … [writes]"),
            ("lost 1 2", "one volume"),
            ("error EIO next 0", "`next 0` affects no request: use `next 1`"),
            ("lost at 0..+4KiB next 0", "`next 0` affects no request"),
            ("error EIO for 0s", "`for 0s` affects no request: use a time above 0"),
            ("hang 0s", "`hang 0s` affects no request"),
            ("error EIO reads at 1MiB..+4KiB at 2MiB..+4KiB", "`at` is given twice"),
            ("lost after 1 after 2", "`after` is given twice"),
            ("lost after 1 flushes after 2", "`after` is given twice"),
            ("lost next 1 next 2", "`next` is given twice"),
            ("lost for 1s for 2s", "`for` is given twice"),
            ("lost volume 0 volume 1", "one volume"),
        ] {
            let said = read(command).unwrap_err();
            assert!(said.contains(says), "{command}: {said}");
        }
    }
}
