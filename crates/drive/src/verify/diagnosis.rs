//! Classifies a verification unit that was read, by its header and by the known writes to it.

use super::{UNSURE, VerifyMap};
use core::fmt;
use iodyno_measure::{Finding, Verification};
use iodyno_units::verifiable::{self, Flaw, Mark, WriteId};
use std::sync::atomic::Ordering;

/// Diagnosis of a verification unit (a block with its own checksum) whose content differs from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    offset_bytes: u64,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Flaw(Flaw),
    /// Intact content of an earlier write: the header that was found, and the latest write to the unit.
    Stale(Mark, WriteId),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: ", self.offset_bytes)?;
        match &self.what {
            What::Flaw(flaw) => flaw.fmt(f),
            What::Stale(mark, latest) if mark.writer == latest.writer => write!(
                f,
                "stale content: generation {}, but generation {} had been acknowledged",
                mark.generation, latest.generation
            ),
            What::Stale(mark, latest) => write!(
                f,
                "stale content: generation {} of an earlier run, but generation {} of a later run had been acknowledged",
                mark.generation, latest.generation
            ),
        }
    }
}

/// Classification of a verification unit that was read.
enum Judged {
    /// Intact content of the latest known write to the unit.
    Current(Mark),
    /// Intact content. Whether the latest write to the unit stored it is unknown.
    Whole(Mark),
    /// Content that iodyno did not write, where no verifiable content was expected.
    Unverified {
        zeroes: bool,
    },
    Found(Finding, What),
}

impl VerifyMap {
    /// Classifies the content of one unit that was read, and counts it.
    pub(super) fn check(
        &self,
        unit: usize,
        bytes: &[u8],
        tally: &mut Verification,
    ) -> Result<(), Wrong> {
        let offset_bytes = unit as u64 * self.unit_bytes;
        let read = verifiable::check(bytes, offset_bytes);
        match self.judge(unit, read) {
            Judged::Current(mark) => tally.add_whole(mark.writer, mark.version, true),
            Judged::Whole(mark) => tally.add_whole(mark.writer, mark.version, false),
            Judged::Unverified { zeroes } => tally.add_unverified(zeroes),
            Judged::Found(finding, what) => {
                let bit = 1 << (unit % 64);
                let is_new = self.found[unit / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0;
                tally.add_found(finding, offset_bytes, is_new);
                if finding.is_wrong() {
                    return Err(Wrong { offset_bytes, what });
                }
            }
        }
        Ok(())
    }

    fn judge(&self, unit: usize, read: Result<Mark, Flaw>) -> Judged {
        let now = self.generation[unit].load(Ordering::Relaxed);
        if now & UNSURE != 0 {
            return unsure(read);
        }
        if now != 0 {
            let latest = WriteId { writer: self.writer, generation: now };
            return match read {
                Ok(mark) if is_of(&mark, latest) => Judged::Current(mark),
                Ok(mark) => Judged::Found(Finding::Stale, What::Stale(mark, latest)),
                Err(flaw) => wrong(flaw),
            };
        }
        let Some(before) = self.before.as_deref() else { return unknown(read) };
        let Some(latest) = before.latest(unit) else {
            return match read {
                // A write of a run that did not finish may have been in flight.
                Err(flaw @ Flaw::Torn { head, tail, .. })
                    if before.unfinished.is_some()
                        && head.max(tail).map(|write| write.writer) >= before.unfinished =>
                {
                    Judged::Found(Finding::Unflushed, What::Flaw(flaw))
                }
                read => unknown(read),
            };
        };
        let durable = before.durable(unit);
        match read {
            // A run that did not finish may have written to the unit since.
            Ok(mark) if is_of(&mark, latest) && before.unfinished > Some(latest.writer) => {
                Judged::Whole(mark)
            }
            Ok(mark) if is_of(&mark, latest) => Judged::Current(mark),
            // Written by a run unknown to the notebook, by one that did not finish, or in flight at
            // a crash.
            Ok(mark) if rank(&mark) > latest => Judged::Whole(mark),
            Ok(mark) => {
                let is_kept = durable.is_some_and(|durable| rank(&mark) < durable);
                let finding = if is_kept { Finding::Stale } else { Finding::Unflushed };
                Judged::Found(finding, What::Stale(mark, latest))
            }
            Err(Flaw::OtherLength { mark }) if rank(&mark) > latest => {
                Judged::Unverified { zeroes: false }
            }
            Err(flaw @ Flaw::OtherLength { mark }) => {
                let is_kept = durable.is_some_and(|durable| rank(&mark) < durable);
                let finding = if is_kept { Finding::Stale } else { Finding::Unflushed };
                Judged::Found(finding, What::Flaw(flaw))
            }
            // A crash may tear writes in flight, and lose unflushed ones.
            Err(flaw @ Flaw::Torn { head, tail, .. })
                if durable != Some(latest) || head.max(tail) > Some(latest) =>
            {
                Judged::Found(Finding::Unflushed, What::Flaw(flaw))
            }
            Err(flaw) if durable.is_none() => Judged::Found(Finding::Unflushed, What::Flaw(flaw)),
            Err(flaw) => wrong(flaw),
        }
    }
}

/// Identifies the write that a unit's header names, in a form that can be compared by age.
fn rank(mark: &Mark) -> WriteId {
    // The writer of version 1 is a seed, and counts as older than any stamp.
    let writer = if mark.version == 1 { 0 } else { mark.writer };
    WriteId { writer, generation: mark.generation }
}

fn is_of(mark: &Mark, write: WriteId) -> bool {
    mark.version != 1 && rank(mark) == write
}

/// Classifies the content of a unit that was trimmed or to which a write failed.
fn unsure(read: Result<Mark, Flaw>) -> Judged {
    match read {
        Ok(mark) => Judged::Whole(mark),
        Err(flaw @ Flaw::Misdirected { .. }) => {
            Judged::Found(Finding::Misdirected, What::Flaw(flaw))
        }
        Err(flaw) => Judged::Unverified { zeroes: flaw == Flaw::Zeroed },
    }
}

/// Classifies the content of a unit about which nothing is known. If it looks like verifiable content, it
/// must be intact.
fn unknown(read: Result<Mark, Flaw>) -> Judged {
    match read {
        Ok(mark) => Judged::Whole(mark),
        Err(Flaw::Zeroed) => Judged::Unverified { zeroes: true },
        Err(Flaw::Foreign { .. } | Flaw::OtherLength { .. }) => {
            Judged::Unverified { zeroes: false }
        }
        Err(flaw) => wrong(flaw),
    }
}

fn wrong(flaw: Flaw) -> Judged {
    let finding = match flaw {
        Flaw::Zeroed => Finding::Zeroed,
        Flaw::Foreign { .. } => Finding::Foreign,
        Flaw::Misdirected { .. } => Finding::Misdirected,
        Flaw::Torn { .. } => Finding::Torn,
        Flaw::Damaged { .. } => Finding::Damaged,
        // The unit was later written with this length, so it holds another write.
        Flaw::OtherLength { .. } => Finding::Stale,
    };
    Judged::Found(finding, What::Flaw(flaw))
}
