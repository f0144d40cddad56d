//! Reads the client requests recorded by `iodyno serve --record` as a trace. Injected faults are left out.

use super::sink::Traced;
use super::{Lines, Sink, number, own};
use std::collections::HashMap;

/// Prefix of the first line of a recording, in any version of the format.
pub(super) const FIRST_WORDS: &str = "iodyno record ";
/// First lines of the supported versions.
pub(super) const FIRST: [&str; 2] = ["iodyno record 2", "iodyno record 3"];

#[derive(Default)]
pub(super) struct Served {
    has_machine: bool,
    has_end: bool,
    names: HashMap<u64, String>,
}

impl Lines for Served {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        if !self.has_machine {
            // The description of the machine, which no replay elsewhere needs.
            self.has_machine = true;
            return Ok(());
        }
        let mut words = text.split(' ');
        let what = words.next().unwrap_or_default();
        match what {
            "o" => {}
            // The end of the server is not a request of a client.
            "d" => return Ok(()),
            "f" => {
                to.leave_out("faults");
                return Ok(());
            }
            "end" => {
                self.has_end = true;
                return Ok(());
            }
            _ => return Err("a line must begin with o, f, d or end".to_owned()),
        }
        let mut next = |of: &str| words.next().ok_or_else(|| format!("the {of} is missing"));
        let at_ns = number(next("time")?, "time")?;
        number(next("worker")?, "worker")?;
        let volume = number(next("volume")?, "volume")?;
        let kind = own::kind(next("kind")?)?;
        let offset = number(next("offset")?, "offset")?;
        let len = number(next("length")?, "length")?;
        let fua = number(next("forced")?, "forced")? == 1;
        if self.names.len() > 1 << 16 {
            return Err("the record has too many volumes".to_owned());
        }
        let name = self.names.entry(volume).or_insert_with(|| format!("volume {volume}"));
        to.push(name, Traced { fua, ..Traced::new(at_ns, kind, offset, len) }).map(drop)
    }

    fn end(&mut self, to: &mut Sink<'_>) -> Result<(), String> {
        if !self.has_end {
            to.notes.push("the record was cut off: it has no `end`".to_owned());
        }
        Ok(())
    }
}
