//! Collects the selected operations of a trace file, and counts omitted lines.

use super::Selection;
use iodyno_units::OpKind;
use iodyno_workload::trace::{ForeignOp, TraceBuilder};
use std::collections::BTreeMap;

/// Maximum number of distinct descriptions under which omitted lines are counted.
const NAMES_MAX: usize = 32;
/// Maximum number of unselected files or devices listed in an error.
const OTHERS_MAX: usize = 8;

/// An operation read from a trace file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traced {
    pub(super) at_ns: u64,
    pub(super) kind: OpKind,
    pub(super) fua: bool,
    pub(super) offset_bytes: u64,
    pub(super) len_bytes: u64,
    pub(super) response_ns: Option<u64>,
}

impl Traced {
    /// Creates an operation without force unit access and with unknown response time.
    pub(super) const fn new(at_ns: u64, kind: OpKind, offset_bytes: u64, len_bytes: u64) -> Self {
        Self { at_ns, kind, fua: false, offset_bytes, len_bytes, response_ns: None }
    }

    pub(super) const fn flush(at_ns: u64, response_ns: Option<u64>) -> Self {
        Self { response_ns, ..Self::new(at_ns, OpKind::Flush, 0, 0) }
    }
}

/// Collects the operations, omitted lines and notes of a trace file while it is read.
pub(super) struct Sink<'a> {
    pub(super) chosen: &'a Selection,
    pub(super) builder: TraceBuilder,
    /// Start of the trace, ns, in the time base of its operations. The times of `--from` and `--to` count from this
    /// time.
    pub(super) start_ns: u64,
    /// Name and number of the file or device of the previous operation. Caches the look-up, because consecutive
    /// operations are usually on the same one.
    part: Option<(String, u16)>,
    /// First: an operation on an unselected file or device was read. Second: a selected file or device first occurred
    /// after such an operation, so its offset on the target differs from a replay of the whole trace.
    others: (bool, bool),
    pub(super) other_names: Vec<String>,
    pub(super) left_out: BTreeMap<String, u64>,
    pub(super) notes: Vec<String>,
    name: String,
}

impl<'a> Sink<'a> {
    pub(super) fn new(chosen: &'a Selection, ops_max: usize) -> Self {
        Self {
            chosen,
            builder: TraceBuilder::new(ops_max, chosen.align_bytes),
            start_ns: 0,
            part: None,
            others: (false, false),
            other_names: Vec::new(),
            left_out: BTreeMap::new(),
            notes: Vec::new(),
            name: String::new(),
        }
    }

    /// Whether the selection is the whole trace: all files or devices, at all times.
    pub(super) fn is_whole(&self) -> bool {
        let Selection { only, from_ns, to_ns, .. } = self.chosen;
        only.is_empty() && from_ns.is_none() && to_ns.is_none()
    }

    /// Whether a selected file or device has a different offset on the target than in a replay of the whole trace.
    pub(super) fn has_moved(&self) -> bool {
        self.others.1
    }

    /// Adds an operation on a file or device, and returns its index; None if the file or device is not selected.
    pub(super) fn push(&mut self, part: &str, op: Traced) -> Result<Option<usize>, String> {
        let Traced { at_ns, kind, fua, offset_bytes, len_bytes, response_ns } = op;
        if !self.chosen.only.is_empty() && !self.chosen.only.iter().any(|name| name == part) {
            self.others.0 = true;
            if self.other_names.len() < OTHERS_MAX
                && self.other_names.iter().all(|name| name != part)
            {
                self.other_names.push(part.to_owned());
            }
            self.leave_out("operations on other files or devices");
            return Ok(None);
        }
        let number = match &self.part {
            Some((name, number)) if name == part => *number,
            _ => {
                let parts = self.builder.parts();
                let number = self.builder.part(part)?;
                self.others.1 |= self.others.0 && self.builder.parts() > parts;
                self.part = Some((part.to_owned(), number));
                number
            }
        };
        // Operations before the first line of the file belong to its start.
        let is_at = |ns: &u64| *ns == 0 || at_ns >= self.start_ns.saturating_add(*ns);
        if self.chosen.from_ns.is_some_and(|ns| !is_at(&ns))
            || self.chosen.to_ns.as_ref().is_some_and(is_at)
        {
            // The place of a file must not depend on the selected time.
            if kind != OpKind::Flush {
                self.builder.reach(number, offset_bytes, len_bytes);
            }
            self.leave_out("operations at other times");
            return Ok(None);
        }
        let op = ForeignOp { kind, fua, offset_bytes, len_bytes };
        self.builder.push(number, at_ns, op, response_ns).map(Some)
    }

    /// Adds a read or write on the file or device whose name is the concatenation of `name`. Operations with a
    /// length of 0 are omitted.
    pub(super) fn push_named(&mut self, name: &[&str], op: Traced) -> Result<(), String> {
        if op.len_bytes == 0 {
            self.leave_out(&format!("{} of no bytes", op.kind.name()));
            return Ok(());
        }
        let mut whole = std::mem::take(&mut self.name);
        whole.clear();
        whole.extend(name.iter().copied());
        let pushed = self.push(&whole, op);
        self.name = whole;
        pushed.map(drop)
    }

    /// Converts a word to a kind of operation; `read` and `write` are the format's words for the two kinds. For
    /// any other word, counts the row as omitted and returns None.
    pub(super) fn kind(&mut self, word: &str, read: &str, write: &str) -> Option<OpKind> {
        let kinds = [(read, OpKind::Read), (write, OpKind::Write)];
        let kind = kinds.into_iter().find(|(known, _)| *known == word).map(|(_, kind)| kind);
        if kind.is_none() {
            self.leave_out(&format!("rows of the unknown type `{word}`"));
        }
        kind
    }

    /// Counts an omitted line under the description `what`.
    pub(super) fn leave_out(&mut self, what: &str) {
        if let Some(count) = self.left_out.get_mut(what) {
            *count += 1;
        } else {
            let what = if self.left_out.len() < NAMES_MAX { what } else { "others" };
            *self.left_out.entry(what.to_owned()).or_default() += 1;
        }
    }
}
