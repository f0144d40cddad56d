//! Reads and writes iodyno's own trace format, the output of `iodyno run --record-trace`. `docs/formats/trace.md`
//! describes the format.
//!
//! ```text
//! iodyno trace 1
//! t 0 scratch:                 target: number, name
//! o 1200 0 0 7 w 4096 4096 0   operation: ns, target, worker, number, kind, offset, length, forced (FUA)
//! c 81000 0 0 7                completion: ns, target, worker, number of the operation
//! end 1                        number of operations
//! ```

use super::sink::Traced;
use super::{Lines, Sink, number};
use iodyno_units::{Op, OpKind};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// First line of a trace, with the version of the format.
pub(super) const FIRST: &str = "iodyno trace 1";
const KINDS: [(OpKind, &str); OpKind::COUNT] = [
    (OpKind::Read, "r"),
    (OpKind::Write, "w"),
    (OpKind::Flush, "f"),
    (OpKind::Trim, "t"),
    (OpKind::WriteZeroes, "z"),
];
/// Maximum number of targets of a trace.
const TARGETS_MAX: usize = 4096;
/// Maximum number of operations that wait for their completion. Operations beyond this limit get no response
/// time.
const IN_FLIGHT_MAX: usize = 1 << 20;

/// Identifies an operation within a recorded run, by target, worker and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnId {
    /// Index of the target among the targets listed in the trace's header.
    pub target: u32,
    /// Index of the worker among the workers of the target.
    pub worker: u32,
    /// Index of the operation among the operations of the worker.
    pub number: u64,
}

/// Formats the header of a trace: the first line, and the names of the targets.
pub fn head<'a>(targets: impl Iterator<Item = &'a str>) -> String {
    let mut text = format!("{FIRST}\n");
    for (number, name) in targets.enumerate() {
        let _ = writeln!(text, "t {number} {}", name.replace(char::is_control, " "));
    }
    text
}

/// Appends the line for an event of operation `id` at `at_ns`: its start if `op` is given, its completion if `op` is
/// None.
pub fn line(to: &mut String, at_ns: u64, id: OwnId, op: Option<&Op>) {
    let OwnId { target, worker, number } = id;
    let _ = match op {
        Some(Op { offset_bytes, len_bytes, kind, fua }) => {
            let kind = KINDS[kind.index()].1;
            let fua = u8::from(*fua);
            writeln!(
                to,
                "o {at_ns} {target} {worker} {number} {kind} {offset_bytes} {len_bytes} {fua}"
            )
        }
        None => writeln!(to, "c {at_ns} {target} {worker} {number}"),
    };
}

/// Formats the last line of a trace: the number of operations.
pub fn tail(operations: u64) -> String {
    format!("end {operations}\n")
}

/// Converts the letter of an operation to its kind.
pub(super) fn kind(letter: &str) -> Result<OpKind, String> {
    let kind = KINDS.iter().find(|kind| kind.1 == letter).map(|kind| kind.0);
    kind.ok_or_else(|| format!("`{letter}` is not a kind of operation: use r, w, f, t or z"))
}

#[derive(Default)]
pub(super) struct Own {
    names: BTreeMap<u32, String>,
    /// How often each name was given. A target with a name that another one has is called `NAME#2`.
    uses: BTreeMap<String, u32>,
    in_flight: HashMap<OwnId, usize>,
    ops: u64,
    end: Option<u64>,
}

impl Own {
    /// Returns `name`, with a number appended if another target has it: targets are different whatever their names.
    fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        loop {
            let uses = self.uses.entry(unique.clone()).or_default();
            *uses += 1;
            if *uses == 1 {
                return unique;
            }
            unique = format!("{name}#{uses}");
        }
    }
}

fn small(text: &str, what: &str) -> Result<u32, String> {
    u32::try_from(number(text, what)?).map_err(|_| format!("the {what} is too large"))
}

impl Lines for Own {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        if self.end.is_some() {
            return Err("there is a line after `end`".to_owned());
        }
        let mut words = text.split(' ');
        let what = words.next().unwrap_or_default();
        let mut next = |of: &str| words.next().ok_or_else(|| format!("the {of} is missing"));
        match what {
            "t" => {
                let target = small(next("target")?, "target")?;
                let name = text.splitn(3, ' ').nth(2).ok_or("the target's name is missing")?;
                if self.names.len() >= TARGETS_MAX {
                    return Err(format!("the trace has more than {TARGETS_MAX} targets"));
                }
                let name = self.unique(name);
                if self.names.insert(target, name).is_some() {
                    return Err("the target already has a name".to_owned());
                }
            }
            "o" | "c" => {
                let at_ns = number(next("time")?, "time")?;
                let target = small(next("target")?, "target")?;
                let worker = small(next("worker")?, "worker")?;
                let id = OwnId { target, worker, number: number(next("number")?, "number")? };
                if what == "c" {
                    if let Some(index) = self.in_flight.remove(&id) {
                        to.builder.completed(index, at_ns);
                    }
                } else {
                    let Some(name) = self.names.get(&target) else {
                        return Err(format!(
                            "target {target} has no name: a line `t {target} NAME` must come first"
                        ));
                    };
                    let kind = kind(next("kind")?)?;
                    let offset = number(next("offset")?, "offset")?;
                    let len = number(next("length")?, "length")?;
                    let fua = number(next("forced")?, "forced")? == 1;
                    self.ops += 1;
                    let op = Traced { fua, ..Traced::new(at_ns, kind, offset, len) };
                    if let Some(index) = to.push(name, op)?
                        && self.in_flight.len() < IN_FLIGHT_MAX
                    {
                        self.in_flight.insert(id, index);
                    }
                }
                if words.next().is_some() {
                    return Err("there is a word too many".to_owned());
                }
            }
            "end" => {
                self.end = Some(number(next("number of operations")?, "number of operations")?);
            }
            _ => return Err("a line must begin with t, o, c or end".to_owned()),
        }
        Ok(())
    }

    fn end(&mut self, to: &mut Sink<'_>) -> Result<(), String> {
        match self.end {
            None => to.notes.push("the trace was cut off: it has no `end`".to_owned()),
            Some(count) if count != self.ops => {
                return Err(format!(
                    "the trace has {} operations, but `end` says {count}",
                    self.ops
                ));
            }
            Some(_) => {
                self.in_flight.values().for_each(|index| to.builder.unfinished(*index));
            }
        }
        Ok(())
    }
}
