//! Matches the completions of an event trace to operations.
//!
//! A completion belongs to the latest pending operation with the same device, start, length and kind. It can also
//! cover several merged operations that fill its range without a gap, or a part of an operation, which ends with its
//! last part. Any other completion is counted as unmatched.
//!
//! Flushes have no range. The block layer merges queued flushes into one request per device.

use iodyno_units::OpKind;
use iodyno_workload::trace::TraceBuilder;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Maximum number of operations that wait for their completion. If it is exceeded, all of them are forgotten.
const IN_FLIGHT_MAX: usize = 1 << 20;
/// Maximum number of merged operations that one completion can cover.
const MERGED_MAX: usize = 4096;
/// Maximum number of operations, of the latest starts up to a range, among which the one around it is looked for.
const AROUND_MAX: usize = 64;

/// A range of sectors on a device, with the kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) device: u64,
    pub(super) kind: OpKind,
    pub(super) sector: u64,
    pub(super) sectors: u64,
}

type Key = (u64, OpKind, u64);

impl Place {
    const fn key(self) -> Key {
        (self.device, self.kind, self.sector)
    }
}

/// An operation, or the rest of one, that waits for its completion.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Number of sectors that have not completed yet.
    sectors: u64,
    /// Index of the operation in the trace.
    index: usize,
    /// Whether another part of the operation has completed, and only a rest is waiting.
    is_rest: bool,
    /// Whether the operation was requeued after it was issued.
    is_requeued: bool,
}

/// Flushes of a device that wait for their completion, by index in the trace.
#[derive(Debug, Default)]
struct Flushes {
    queued: Vec<usize>,
    /// Queued flushes that are part of an issued request.
    merged: Vec<usize>,
    /// Operations that are requests themselves.
    issued: VecDeque<usize>,
}

#[derive(Debug, Default)]
pub(super) struct InFlight {
    waiting: BTreeMap<Key, Vec<Waiting>>,
    count: usize,
    /// Number of waiting parts of each operation that has more than one.
    parts: HashMap<usize, usize>,
    /// Flushes by device.
    flushes: HashMap<u64, Flushes>,
    /// Number of completions that match no operation.
    unmatched: u64,
    failed: u64,
}

impl InFlight {
    pub(super) fn issued(&mut self, place: Place, index: usize) {
        self.make_room();
        let waiting = Waiting { sectors: place.sectors, index, is_rest: false, is_requeued: false };
        self.put(place.key(), waiting);
    }

    fn make_room(&mut self) {
        if self.count >= IN_FLIGHT_MAX {
            self.waiting.clear();
            self.parts.clear();
            self.flushes.clear();
            self.count = 0;
        }
    }

    fn put(&mut self, key: Key, waiting: Waiting) {
        self.waiting.entry(key).or_default().push(waiting);
        self.count += 1;
    }

    /// Adds a flush. `is_request`: it is a request to the driver; otherwise such a request follows.
    pub(super) fn flush(&mut self, device: u64, index: usize, is_request: bool) {
        self.make_room();
        let of = self.flushes.entry(device).or_default();
        if is_request {
            of.issued.push_back(index);
        } else {
            of.queued.push(index);
        }
        self.count += 1;
    }

    /// Marks all flushes queued so far as part of a request that is issued now.
    pub(super) fn flush_issued(&mut self, device: u64) {
        if let Some(of) = self.flushes.get_mut(&device) {
            of.merged.append(&mut of.queued);
        }
    }

    /// Ends the flushes of the request that completes: the first one issued, or all that it merges.
    pub(super) fn flush_completed(
        &mut self,
        device: u64,
        end_ns: Option<u64>,
        builder: &mut TraceBuilder,
    ) {
        let Some(of) = self.flushes.get_mut(&device) else { return };
        let ended = match of.issued.pop_front() {
            Some(first) => vec![first],
            None => std::mem::take(&mut of.merged),
        };
        self.count -= ended.len();
        match end_ns {
            Some(end_ns) => ended.iter().for_each(|index| builder.completed(*index, end_ns)),
            None => self.failed += ended.len() as u64,
        }
    }

    /// Marks the latest waiting operation in this range as requeued, so that a later issue event counts as its
    /// repetition.
    pub(super) fn requeued(&mut self, place: Place) {
        let at = self.waiting.get_mut(&place.key());
        let last = at.and_then(|all| all.iter_mut().rfind(|w| w.sectors == place.sectors));
        if let Some(waiting) = last {
            waiting.is_requeued = true;
        }
    }

    /// Finds a requeued operation that is issued again, and returns its index in the trace; None if there is
    /// none.
    pub(super) fn reissued(&mut self, place: Place) -> Option<usize> {
        let all = self.waiting.get_mut(&place.key())?;
        let waiting = all.iter_mut().rfind(|w| w.is_requeued && w.sectors == place.sectors)?;
        waiting.is_requeued = false;
        Some(waiting.index)
    }

    /// Assigns a completion to the operations that it ends. `end_ns` is its time; None: the operation failed.
    /// Returns whether an operation matches.
    pub(super) fn completed(
        &mut self,
        place: Place,
        end_ns: Option<u64>,
        are_merged: bool,
        builder: &mut TraceBuilder,
    ) -> bool {
        let Some(indices) = self.take(place, are_merged) else { return false };
        match end_ns {
            Some(end_ns) => indices.into_iter().for_each(|index| builder.completed(index, end_ns)),
            None => self.failed += 1,
        }
        true
    }

    /// Counts a completion that matches no operation.
    pub(super) fn was_unmatched(&mut self) {
        self.unmatched += 1;
    }

    /// Removes and returns the operations that a completion ends, by index. Empty if it completes only a part of
    /// one; None if no operation matches.
    fn take(&mut self, place: Place, are_merged: bool) -> Option<Vec<usize>> {
        if let Some(one) = self.take_latest(place.key(), |w| w.sectors == place.sectors) {
            return Some(self.last_part(one.index).into_iter().collect());
        }
        if are_merged && let Some(all) = self.take_merged(place) {
            return Some(all);
        }
        let Place { device, kind, sector, sectors } = place;
        let end = sector.checked_add(sectors).filter(|_| sectors > 0)?;
        // A driver completes a request from its start on, but the requests of a split operation complete in any order.
        let start = if are_merged { self.start_around(place)? } else { sector };
        let around = |w: &Waiting| w.sectors > sectors && w.sectors - sectors >= sector - start;
        let whole = self.take_latest((device, kind, start), around)?;
        let rests = [(start, sector - start), (end, start + whole.sectors - end)];
        let rests = rests.into_iter().filter(|(_, sectors)| *sectors > 0);
        *self.parts.entry(whole.index).or_insert(1) += rests.clone().count() - 1;
        for (start, sectors) in rests {
            self.put((device, kind, start), Waiting { sectors, is_rest: true, ..whole });
        }
        Some(Vec::new())
    }

    /// Start of the latest-starting operation that contains the range and more.
    fn start_around(&self, place: Place) -> Option<u64> {
        let Place { device, kind, sector, sectors } = place;
        let starts = self.waiting.range((device, kind, 0)..=place.key()).rev();
        let latest = starts.flat_map(|((.., start), all)| all.iter().rev().map(|w| (*start, w)));
        let mut around = latest
            .take(AROUND_MAX)
            .filter(|(start, w)| w.sectors > sectors && w.sectors - sectors >= sector - start);
        around.next().map(|(start, _)| start)
    }

    /// Counts a part of an operation as completed; the operation, if it was the last.
    fn last_part(&mut self, index: usize) -> Option<usize> {
        match self.parts.get_mut(&index) {
            Some(parts) if *parts > 1 => {
                *parts -= 1;
                None
            }
            _ => {
                self.parts.remove(&index);
                Some(index)
            }
        }
    }

    fn take_latest(&mut self, key: Key, is: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        let all = self.waiting.get_mut(&key)?;
        let at = all.iter().rposition(is)?;
        let one = all.remove(at);
        if all.is_empty() {
            self.waiting.remove(&key);
        }
        self.count -= 1;
        Some(one)
    }

    /// Removes and returns operations that together exactly cover a range; None if there is a gap.
    fn take_merged(&mut self, place: Place) -> Option<Vec<usize>> {
        let end = place.sector.checked_add(place.sectors)?;
        let mut chosen = Vec::new();
        let mut sector = place.sector;
        while sector < end && chosen.len() < MERGED_MAX {
            let all = self.waiting.get(&(place.device, place.kind, sector))?;
            let one = all.iter().rfind(|w| w.sectors <= end - sector && !w.is_rest)?;
            chosen.push((sector, *one));
            sector += one.sectors;
        }
        if sector != end {
            return None;
        }
        for (sector, one) in &chosen {
            self.take_latest((place.device, place.kind, *sector), |w| w.index == one.index);
        }
        Some(chosen.into_iter().map(|(_, one)| one.index).collect())
    }

    /// Returns notes for the end of the trace. Unmatched completions are reported only if the whole trace was
    /// read; in a part of it, they may belong to operations before the part.
    pub(super) fn notes(&self, is_whole: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if self.unmatched > 0 && is_whole {
            let (completions_match, give) = if self.unmatched == 1 {
                ("completion matches", "gives")
            } else {
                ("completions match", "give")
            };
            notes.push(format!(
                "{} {completions_match} no operation with the same device, start, length and kind, and {give} no response time",
                self.unmatched
            ));
        }
        if self.failed > 0 {
            let words = if self.failed == 1 {
                "operation failed in the trace, and has no response time"
            } else {
                "operations failed in the trace, and have no response time"
            };
            notes.push(format!("{} {words}", self.failed));
        }
        notes
    }
}
