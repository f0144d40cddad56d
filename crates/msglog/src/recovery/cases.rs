//! Decision table that tells a torn tail from damage. Each combination of conditions matches exactly one entry, as
//! checked at compile time.
//!
//! A *gap* is a range without an accepted chunk. At the end of a log it is the torn tail, which was never acknowledged.
//! If an accepted chunk follows, the gap is damage, since a chunk is acknowledged only after all before it.

/// Conditions that a recovery scan evaluates at one position of the log. Without a valid chunk at the position all are
/// false. Conditions on a gap are false unless the position is after a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    /// A complete chunk of this log, written for this position, is at the position. Its checksum matches.
    pub is_valid: bool,
    /// The chunk continues the last accepted one by checksum, message number and epoch. After a gap it is enough
    /// that message number and epoch are not lower.
    pub is_in_order: bool,
    /// The position is after a gap, a range without an accepted chunk.
    pub is_after_gap: bool,
    /// The position is below the highest durable position in any chunk's header, so it was durable.
    pub is_durable: bool,
    /// The chunk was closed after the start of the gap had become durable, according to its header.
    pub saw_gap_durable: bool,
    /// The position is not after the log's last chunk. False unless a search beyond the gap has found the last chunk.
    pub is_before_last: bool,
    /// The chunk's epoch is at least that of the chunk whose header has the highest durable position.
    pub is_epoch_current: bool,
}

const CONDITIONS: usize = 7;
/// Number of combinations of the seven conditions.
const COMBINATIONS: usize = 1 << CONDITIONS;

impl Conditions {
    /// The conditions as a bit mask, the first one in bit 0.
    const fn bits(self) -> usize {
        self.is_valid as usize
            | (self.is_in_order as usize) << 1
            | (self.is_after_gap as usize) << 2
            | (self.is_durable as usize) << 3
            | (self.saw_gap_durable as usize) << 4
            | (self.is_before_last as usize) << 5
            | (self.is_epoch_current as usize) << 6
    }

    /// Returns the decision of the one table entry that matches these conditions.
    pub(super) fn decision(self) -> Decision {
        let case = CASE_OF[self.bits()];
        #[cfg(test)]
        tests::note(case);
        CASES[case as usize].decision
    }
}

/// Decision of a recovery scan about the chunk at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Accept the chunk.
    Accept,
    /// Accept the chunk, and report the gap before it as damage.
    Damage,
    /// Accept no chunk at this position: a gap starts or continues.
    Gap,
}

/// An entry of the decision table: the conditions that it matches, and its decision.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Required value of each condition; `None`: either value.
    when: [Option<bool>; CONDITIONS],
    decision: Decision,
}

const fn case(when: [Option<bool>; CONDITIONS], decision: Decision) -> Case {
    Case { when, decision }
}

const Y: Option<bool> = Some(true);
const N: Option<bool> = Some(false);
/// Wildcard in the decision table: the condition may have either value.
const O: Option<bool> = None;

#[rustfmt::skip]
const CASES: [Case; 10] = {
    use Decision::{Accept, Damage, Gap};
    [
        //    valid
        //    |  in order
        //    |  |  after gap
        //    |  |  |  durable
        //    |  |  |  |  saw gap durable
        //    |  |  |  |  |  before last
        //    |  |  |  |  |  |  epoch current
        //    |  |  |  |  |  |  |
        // No chunk. A clean end, a write that was torn or lost in a crash, or damage: later chunks tell.
        case([N, O, O, O, O, O, O], Gap),
        // A chunk that does not continue the last one. A crash cut the log off here, a later epoch went on before
        // this position, and the chunk is of the earlier epoch. Or the write of the next chunk was lost.
        case([Y, N, N, O, O, O, O], Gap),
        // The usual case: the next chunk.
        case([Y, Y, N, O, O, O, O], Accept),
        // Numbers or epochs go back. The gap's writes were lost, and the chunk remains from an earlier epoch, which
        // wrote fewer messages up to here.
        case([Y, N, Y, O, O, O, O], Gap),
        // A chunk, maybe a later one, states that this position was durable, so the gap was durable too.
        case([Y, Y, Y, Y, O, O, O], Damage),
        // The chunk itself states that the gap was durable. It may not have been acknowledged, but is whole.
        case([Y, Y, Y, N, Y, O, Y], Damage),
        // The chunk was written together with the gap's, before these were durable. A later chunk belongs to the
        // log, so this one does.
        case([Y, Y, Y, N, N, Y, Y], Damage),
        // The gap was durable in an earlier epoch, and a later one has made other chunks durable since. These were
        // lost here, and an old chunk shows again.
        case([Y, Y, Y, N, Y, O, N], Gap),
        // As above, but the old chunk was written together with the gap's, before these were durable.
        case([Y, Y, Y, N, N, Y, N], Gap),
        // A torn tail: several chunks were in flight when the power failed, and the disk has persisted this one
        // before an earlier one. None of them was acknowledged.
        case([Y, Y, Y, N, N, N, O], Gap),
    ]
};

/// Index of the matching table entry for each combination of conditions, which [`Conditions::bits`] encodes.
const CASE_OF: [u8; COMBINATIONS] = {
    let mut case_of = [0; COMBINATIONS];
    let mut bits = 0;
    while bits < COMBINATIONS {
        let (mut matching, mut case) = (0, 0);
        while case < CASES.len() {
            if matches(CASES[case].when, bits) {
                matching += 1;
                case_of[bits] = case as u8;
            }
            case += 1;
        }
        assert!(matching == 1, "exactly one case must match each combination");
        bits += 1;
    }
    case_of
};

const fn matches(when: [Option<bool>; CONDITIONS], bits: usize) -> bool {
    let mut i = 0;
    while i < CONDITIONS {
        if let Some(required) = when[i]
            && required != (bits >> i & 1 == 1)
        {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests;
