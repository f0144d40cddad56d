//! Parses fio's iolog. Lines of version 3 are `microseconds file action [offset length]`. Version 2 has no times, but
//! `wait` lines.
//!
//! A `wait` of version 2 is in milliseconds since the start, as fio executes it, although fio's manual says
//! microseconds since the previous wait. Subsequent lines are due at that time.

use super::sink::Traced;
use super::{Lines, Sink, number};
use iodyno_units::OpKind;

/// Parses the version of an iolog from its first line; None if it is not an iolog.
pub(super) fn version(first: &str) -> Option<u32> {
    match first.trim_end() {
        "fio version 2 iolog" => Some(2),
        "fio version 3 iolog" => Some(3),
        _ => None,
    }
}

pub(super) struct Iolog {
    version: u32,
    /// Current time, ns. In version 2, the end of the last `wait`.
    at_ns: u64,
    has_waited: bool,
}

impl Iolog {
    pub(super) fn new(version: u32) -> Self {
        Self { version, at_ns: 0, has_waited: false }
    }
}

impl Lines for Iolog {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        let mut words = text.split_ascii_whitespace();
        let mut at_ns = self.at_ns;
        if self.version == 3 {
            at_ns = number(words.next().unwrap_or_default(), "time")?
                .checked_mul(1000)
                .ok_or("the time is too large")?;
        }
        let (Some(file), Some(action)) = (words.next(), words.next()) else {
            return Err("a line needs a file and an action".to_owned());
        };
        let (offset, len) = match (words.next(), words.next(), words.next()) {
            (None, ..) => {
                match action {
                    "add" | "open" | "close" => {
                        to.leave_out("lines that add, open or close a file");
                    }
                    "read" | "write" | "trim" | "sync" | "datasync" | "wait" => {
                        return Err(format!("`{action}` needs an offset and a length"));
                    }
                    other => to.leave_out(&format!("lines of the unknown action `{other}`")),
                }
                return Ok(());
            }
            (Some(offset), Some(len), None) => (number(offset, "offset")?, number(len, "length")?),
            _ => {
                return Err("an action must be followed by an offset and a length, or by nothing"
                    .to_owned());
            }
        };
        let kind = match action {
            "read" => OpKind::Read,
            "write" => OpKind::Write,
            "trim" => OpKind::Trim,
            "sync" | "datasync" => OpKind::Flush,
            "wait" if self.version == 2 => {
                self.at_ns =
                    offset.checked_mul(1_000_000).ok_or("the time is too large")?.max(at_ns);
                self.has_waited = true;
                return Ok(());
            }
            "wait" => {
                to.leave_out("lines with `wait`, which version 3 does not know");
                return Ok(());
            }
            other => {
                to.leave_out(&format!("lines of the unknown action `{other}`"));
                return Ok(());
            }
        };
        if len == 0 && kind != OpKind::Flush {
            to.leave_out(&format!("{} of no bytes", kind.name()));
            return Ok(());
        }
        to.push(file, Traced::new(at_ns, kind, offset, len)).map(drop)
    }

    fn end(&mut self, to: &mut Sink<'_>) -> Result<(), String> {
        if self.has_waited {
            to.notes.push(
                "the times of `wait` lines are taken as fio takes them: in ms from the start of the replay"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
