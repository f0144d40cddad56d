//! Records the inputs of a served machine, and replays them in virtual time: the same inputs at the same times give the
//! same events, so that a failure found live can be reproduced.
//!
//! A record is a text file. The first line names the format. The second line describes the machine in JSON, for the
//! caller that rebuilds it. Then there is one line per input, in order of arrival. The last line gives the end of the
//! run. A truncated record can be replayed up to its last complete line.
//!
//! ```text
//! iodyno record 3
//! {"device": …}
//! o 1200 0 0 w 4096 4096 0        operation: ns, worker, volume, kind, offset, length, forced
//! f 5000 power-cut                fault: ns, command; also faults at interfaces, which the machine does not see
//! d 80000                         a clean shutdown drains the adapters' caches: ns
//! end 90000 0123456789abcdef      end of the run: ns, hash of all events
//! ```
//! A request that an interface fault fails is not in the record. Version 2 had no faults at interfaces.

use crate::fault_command::{self, Ask};
use crate::interface_fault::InterfaceFault;
use crate::store::remove_made;
use iodyno_emulate::{Completion, Fault, Machine, PartId};
use iodyno_units::text::quoted;
use iodyno_units::{Op, OpKind};
use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufWriter, Read, Write};
use std::path::Path;

const FIRST: &str = "iodyno record 3";
/// First line of a record in format version 2, which has no faults at interfaces. Such records can still be read.
const FIRST_OF_2: &str = "iodyno record 2";
const KINDS: [(OpKind, &str); OpKind::COUNT] = [
    (OpKind::Read, "r"),
    (OpKind::Write, "w"),
    (OpKind::Flush, "f"),
    (OpKind::Trim, "t"),
    (OpKind::WriteZeroes, "z"),
];

/// Writer of a record, a file with all operations and faults that a served machine receives, for a later
/// replay.
#[derive(Debug)]
pub struct Recorder {
    to: BufWriter<File>,
    path: String,
    failed: Option<std::io::Error>,
}

impl Recorder {
    /// Creates a record; `machine` describes the emulated machine. An existing file is not overwritten.
    ///
    /// # Errors
    /// The file exists, or can't be created.
    pub fn create(path: &Path, machine: &serde_json::Value) -> Result<Self, String> {
        let named = path.display().to_string();
        let file = File::create_new(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                format!("`{named}` already exists: remove it, or choose another name")
            }
            _ => format!("`{named}` can't be created: {e}"),
        })?;
        let mut recorder = Self { to: BufWriter::new(file), path: named, failed: None };
        recorder.line(format_args!("{FIRST}\n{machine}"));
        let flushed = recorder.to.flush();
        match recorder.failed.take().map_or(flushed, Err) {
            Ok(()) => Ok(recorder),
            Err(e) => {
                remove_made(path, recorder.to.get_ref());
                Err(format!("`{}` can't be written: {e}", recorder.path))
            }
        }
    }

    /// Message about the write error that ended the record early; `None` while recording continues.
    pub(crate) fn failure(&self) -> Option<String> {
        let failed = self.failed.as_ref()?;
        Some(format!("writing to `{}` failed, and the record ends there: {failed}", self.path))
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        if self.failed.is_none()
            && let Err(e) = writeln!(self.to, "{line}")
        {
            self.failed = Some(e);
        }
    }

    pub(crate) fn operation(&mut self, at_ns: u64, worker: u32, volume: u32, op: &Op) {
        let kind = KINDS[op.kind.index()].1;
        let fua = u8::from(op.fua);
        let Op { offset_bytes, len_bytes, .. } = op;
        self.line(format_args!(
            "o {at_ns} {worker} {volume} {kind} {offset_bytes} {len_bytes} {fua}"
        ));
    }

    pub(crate) fn fault(&mut self, at_ns: u64, fault: &Fault) {
        self.line(format_args!("f {at_ns} {}", fault_command::in_words(fault)));
    }

    pub(crate) fn interface_fault(&mut self, at_ns: u64, volume: u32, fault: &InterfaceFault) {
        self.line(format_args!(
            "f {at_ns} {}",
            fault_command::at_interface_in_words(volume, fault)
        ));
    }

    pub(crate) fn drain(&mut self, at_ns: u64) {
        self.line(format_args!("d {at_ns}"));
    }

    /// Writes buffered lines of the record to the file, so that they survive a kill of this process.
    pub(crate) fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(e) = self.to.flush()
        {
            self.failed = Some(e);
        }
    }

    pub(crate) fn end(mut self, now_ns: u64, hash: u64) -> Result<(), String> {
        self.line(format_args!("end {now_ns} {hash:016x}"));
        let flushed = self.to.flush();
        let Self { path, failed, .. } = self;
        let said =
            |e| format!("writing the end of `{path}` failed, and the record is incomplete: {e}");
        failed.map_or(flushed, Err).map_err(said)
    }
}

/// A line of a record after its two header lines.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Line {
    Operation { at_ns: u64, worker: u32, volume: u32, op: Op },
    Fault { at_ns: u64, fault: Fault },
    Interface(RecordedFault),
    Drain { at_ns: u64 },
    End { now_ns: u64, hash: u64 },
}

/// Maximum length of a line in a record, bytes. Only the second line, which describes the machine, comes near it.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Latest timestamp accepted in a record, ns since the start: about two years.
const AT_NS_MAX: u64 = 1 << 56;
/// Maximum length of a read or write in a record, bytes: twice the limit of an NBD request.
const DATA_BYTES_MAX: u32 = 64 << 20;
/// Maximum number of faults at interfaces that a replay lists.
pub const INTERFACE_FAULTS_MAX: usize = 1000;
/// Maximum number of operations in flight during a replay.
const IN_FLIGHT_MAX: u64 = 1 << 20;
/// Maximum number of characters of a line that an error message quotes.
const QUOTE_CHARS: usize = 80;

/// Reader of a record: a file with the operations and faults that a served machine received.
#[derive(Debug)]
pub struct Record<R> {
    from: R,
    number: usize,
    line: Vec<u8>,
    /// Whether the last line has no line feed, as after a crash; it is then ignored.
    is_torn: bool,
    /// Description of the emulated machine, from line 2 of the record.
    pub machine: serde_json::Value,
}

/// A recorded fault at an interface. A replay does not repeat it, because the machine does not see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedFault {
    /// Simulated time of the fault command, ns.
    pub at_ns: u64,
    /// Number of the volume, from 0.
    pub volume: u32,
    pub fault: InterfaceFault,
}

/// Result of a replay: counts, and the hashes that show whether the replay repeated the recorded run exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Number of operations replayed.
    pub operations: u64,
    /// Number of faults replayed.
    pub faults: u64,
    /// Faults at interfaces during the recorded run; at most the first [`INTERFACE_FAULTS_MAX`].
    pub interface_faults: Vec<RecordedFault>,
    /// Hash of all events in the replay, and the hash in the record; the latter is `None` if the record is incomplete.
    pub hashes: (u64, Option<u64>),
    /// Whether the record's last line was torn and therefore ignored.
    pub is_torn: bool,
}

impl Ended {
    /// Whether the replay produced the same events as the recorded run. `None` if the record is incomplete and so
    /// has no hash.
    pub fn is_same(&self) -> Option<bool> {
        self.hashes.1.map(|recorded| recorded == self.hashes.0)
    }
}

/// Reads the next line without its line feed, at most [`LINE_BYTES_MAX`] long; `None` at the end of the
/// record. A last line without a line feed is torn and ignored, because its content could be wrong.
fn take_line<'a>(
    from: &mut impl BufRead,
    number: usize,
    line: &'a mut Vec<u8>,
) -> Result<Option<&'a str>, String> {
    line.clear();
    let wrong = |what: &str| format!("line {number} {what}");
    Read::by_ref(from)
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', line)
        .map_err(|e| wrong(&e.to_string()))?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 == LINE_BYTES_MAX {
        return Err(wrong("is too long for a record"));
    } else {
        return Ok(None);
    }
    let text = std::str::from_utf8(line).map_err(|_| wrong("is not valid UTF-8"))?;
    Ok(Some(text))
}

impl<R: BufRead> Record<R> {
    /// Opens a record and reads its two header lines, which give the format version and the machine.
    ///
    /// # Errors
    /// The text is not a record, or is a record of another format version.
    pub fn open(mut from: R) -> Result<Self, String> {
        let mut line = Vec::new();
        match take_line(&mut from, 1, &mut line) {
            Ok(Some(FIRST | FIRST_OF_2)) => {}
            Ok(Some(first)) if first.starts_with("iodyno record ") => {
                return Err(format!(
                    "the record's format is `{}`; this version of iodyno reads `{FIRST}`",
                    quoted(first, QUOTE_CHARS)
                ));
            }
            _ => return Err("the file is not a record of `iodyno serve --record`".to_owned()),
        }
        let machine = take_line(&mut from, 2, &mut line)?
            .ok_or("the record ends before line 2, the description of its machine")?;
        let machine = serde_json::from_str(machine)
            .map_err(|e| format!("line 2 does not describe a machine: {e}"))?;
        Ok(Self { from, number: 2, line, is_torn: false, machine })
    }

    /// Returns the next operation, fault or end line, or an error if it is not valid for `machine`; `None` at the
    /// end.
    fn next(&mut self, machine: &Machine) -> Result<Option<Line>, String> {
        let number = self.number + 1;
        let Some(text) = take_line(&mut self.from, number, &mut self.line)? else {
            self.is_torn = !self.line.is_empty();
            return Ok(None);
        };
        self.number = number;
        let line = read(text).ok_or_else(|| {
            format!("line {number} is not valid: `{}`", quoted(text, QUOTE_CHARS))
        })?;
        fits(machine, &line).map_err(|why| {
            format!(
                "line {number} does not fit the machine that line 2 describes: {why}: `{}`",
                quoted(text, QUOTE_CHARS)
            )
        })?;
        Ok(Some(line))
    }

    /// Checks without a replay that every line of the record is valid for `machine`.
    ///
    /// # Errors
    /// A line can't be read, or is not valid for `machine`.
    pub fn check(mut self, machine: &Machine) -> Result<(), String> {
        while self.next(machine)?.is_some() {}
        Ok(())
    }

    /// Replays the recorded operations and faults at their recorded times on a machine built from the record's
    /// description. `on_completion` is called for every completion.
    ///
    /// # Errors
    /// A line can't be read, or is not valid for this machine. Earlier lines have already taken effect; to find
    /// such lines beforehand, use [`Self::check`].
    pub fn replay(
        mut self,
        machine: &mut Machine,
        on_completion: &mut dyn FnMut(&Machine, &Completion),
    ) -> Result<Ended, String> {
        let mut ended = Ended {
            operations: 0,
            faults: 0,
            interface_faults: Vec::new(),
            hashes: (0, None),
            is_torn: false,
        };
        let completed = Cell::new(0_u64);
        let on_completion = &mut |machine: &Machine, done: &Completion| {
            completed.set(completed.get() + 1);
            on_completion(machine, done);
        };
        let advance = |machine: &mut Machine,
                       until_ns,
                       on_completion: &mut dyn FnMut(&Machine, &Completion)| {
            while let Some(next_ns) = machine.next_event()
                && next_ns <= until_ns
            {
                if let Some(done) = machine.next_completion(next_ns) {
                    on_completion(machine, &done);
                }
            }
        };
        while let Some(line) = self.next(machine)? {
            match line {
                Line::Operation { at_ns, worker, volume, op } => {
                    advance(machine, at_ns, on_completion);
                    if ended.operations - completed.get() >= IN_FLIGHT_MAX {
                        return Err(format!(
                            "line {} exceeds the limit of {IN_FLIGHT_MAX} operations in flight",
                            self.number
                        ));
                    }
                    ended.operations += 1;
                    machine.submit(at_ns, worker, volume, &op, ended.operations);
                }
                Line::Fault { at_ns, fault } => {
                    advance(machine, at_ns, on_completion);
                    ended.faults += 1;
                    machine.inject(at_ns, fault);
                    while let Some(done) = machine.next_completion(at_ns) {
                        on_completion(machine, &done);
                    }
                }
                Line::Interface(fault) => {
                    if ended.interface_faults.len() < INTERFACE_FAULTS_MAX {
                        ended.interface_faults.push(fault);
                    }
                }
                Line::Drain { at_ns } => {
                    advance(machine, at_ns, on_completion);
                    machine.drain_caches();
                }
                Line::End { now_ns, hash } => {
                    advance(machine, now_ns, on_completion);
                    ended.hashes.1 = Some(hash);
                }
            }
        }
        ended.hashes.0 = machine.event_hash();
        ended.is_torn = self.is_torn;
        Ok(ended)
    }
}

/// Checks that a line is valid for a machine, for instance that its volume exists.
fn fits(machine: &Machine, line: &Line) -> Result<(), String> {
    let (at_ns, volume) = match line {
        Line::Operation { at_ns, volume, .. } => (*at_ns, Some(*volume)),
        Line::Fault { at_ns, fault } => (*at_ns, fault.part().map(|part| part.0)),
        Line::Interface(of) => (of.at_ns, Some(of.volume)),
        Line::Drain { at_ns } => (*at_ns, None),
        Line::End { now_ns, .. } => (*now_ns, None),
    };
    if at_ns > AT_NS_MAX {
        return Err(format!("its time is beyond {AT_NS_MAX} ns"));
    }
    let (what, all) = match line {
        // (If every volume is one device, a part is called a volume.)
        Line::Fault { fault: Fault::Adapters(fault), .. } => {
            let exists = machine.adapters().is_some_and(|adapters| adapters.has(*fault));
            return if exists { Ok(()) } else { Err("there is no such adapter".to_owned()) };
        }
        Line::Fault { .. } if machine.system().numbers_devices() => {
            ("device", machine.system().devices().count() as u32)
        }
        _ => ("volume", machine.volumes()),
    };
    if let Some(number) = volume.filter(|&number| number >= all) {
        return Err(format!("there is no {what} {number}: the numbers are 0 to {}", all - 1));
    }
    let (offset_bytes, len_bytes) = match line {
        Line::Operation { worker, op, .. } => {
            if *worker >= machine.workers() {
                return Err(format!(
                    "there is no worker {worker}: line 2 has workers 0 to {}",
                    machine.workers().saturating_sub(1)
                ));
            }
            if op.kind == OpKind::Flush {
                return Ok(());
            }
            let carries = matches!(op.kind, OpKind::Read | OpKind::Write);
            if op.len_bytes == 0 || carries && op.len_bytes > DATA_BYTES_MAX {
                return Err(format!("an operation must have 1 to {DATA_BYTES_MAX} bytes"));
            }
            (op.offset_bytes, u64::from(op.len_bytes))
        }
        Line::Fault { fault, .. } => match *fault {
            Fault::Page { offset_bytes, .. } | Fault::Block { offset_bytes, .. } => {
                (offset_bytes, 1)
            }
            Fault::Latent { offset_bytes, len_bytes, .. } => (offset_bytes, len_bytes),
            _ => return Ok(()),
        },
        Line::Interface(of) => match of.fault.scope.range_bytes {
            Some(range_bytes) => range_bytes,
            None => return Ok(()),
        },
        Line::Drain { .. } | Line::End { .. } => return Ok(()),
    };
    let number = volume.unwrap_or(0);
    let capacity_bytes = match line {
        Line::Fault { .. } => machine.system().part_capacity_bytes(PartId(number)),
        _ => machine.capacity_bytes(number),
    };
    if offset_bytes.checked_add(len_bytes).is_none_or(|end_bytes| end_bytes > capacity_bytes) {
        return Err(format!("it extends beyond the volume's capacity of {capacity_bytes} bytes"));
    }
    Ok(())
}

fn read(text: &str) -> Option<Line> {
    let mut words = text.split(' ');
    let what = words.next()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    match what {
        "o" => {
            let at_ns = number()?;
            let worker = u32::try_from(number()?).ok()?;
            let volume = u32::try_from(number()?).ok()?;
            let letter = words.next()?;
            let kind = KINDS.iter().find(|k| k.1 == letter)?.0;
            let mut number = || words.next()?.parse::<u64>().ok();
            let offset_bytes = number()?;
            let len_bytes = u32::try_from(number()?).ok()?;
            let fua = number()? == 1;
            Some(Line::Operation {
                at_ns,
                worker,
                volume,
                op: Op { offset_bytes, len_bytes, kind, fua },
            })
        }
        "f" => {
            let at_ns = number()?;
            let rest: Vec<&str> = words.collect();
            match fault_command::parse_recorded(&rest) {
                Ok(Ask::Fault(fault)) => Some(Line::Fault { at_ns, fault }),
                Ok(Ask::Interface { volume, fault }) => {
                    Some(Line::Interface(RecordedFault { at_ns, volume, fault }))
                }
                _ => None,
            }
        }
        "d" => Some(Line::Drain { at_ns: number()? }),
        "end" => {
            let now_ns = number()?;
            let hash = u64::from_str_radix(words.next()?, 16).ok()?;
            Some(Line::End { now_ns, hash })
        }
        _ => None,
    }
}
