//! Matches the completions of an event trace to operations.
//!
//! A completion belongs to the latest pending operation with the same device, start, length and kind. It can also
//! cover several merged operations that fill its range without a gap, or a part of an operation, which ends with its
//! last part or with a completion of its whole range. Any other completion is counted as unmatched.
//!
//! Flushes have no range. The block layer merges queued flushes into one request per device.

use iodyno_units::OpKind;
use iodyno_workload::trace::TraceBuilder;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Maximum number of operations that wait for their completion. If it is exceeded, all of them are forgotten.
const IN_FLIGHT_MAX: usize = 1 << 20;
/// Maximum number of merged operations that one completion can cover.
const MERGED_MAX: usize = 4096;
/// Maximum number of operations, of the latest starts up to a range, among which the one around it is looked for.
const AROUND_MAX: usize = 64;

/// A range of sectors on a device, with the kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// An operation of which parts have completed.
#[derive(Debug)]
struct Divided {
    /// Range of the whole operation.
    place: Place,
    /// Starts of the waiting rests.
    rests: BTreeSet<u64>,
    /// Whether a part has failed; the operation is then counted as failed.
    is_failed: bool,
}

/// Operations that a completion matches, by index in the trace.
enum Match {
    /// It completes a part of this operation.
    Part(usize),
    /// It ends these.
    Ended(Vec<usize>),
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
    /// Operations of which rests wait.
    divided: HashMap<usize, Divided>,
    /// Range and index of each operation in `divided`.
    divided_places: BTreeSet<(Place, usize)>,
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
            self.divided.clear();
            self.divided_places.clear();
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
        match self.take(place, are_merged) {
            None => return false,
            Some(Match::Part(index)) => {
                if end_ns.is_none()
                    && let Some(divided) = self.divided.get_mut(&index)
                    && !std::mem::replace(&mut divided.is_failed, true)
                {
                    self.failed += 1;
                }
            }
            Some(Match::Ended(indices)) => {
                for index in indices {
                    let has_failed = self.forget_divided(index).is_some_and(|it| it.is_failed);
                    match end_ns {
                        _ if has_failed => {}
                        Some(end_ns) => builder.completed(index, end_ns),
                        None => self.failed += 1,
                    }
                }
            }
        }
        true
    }

    /// Counts a completion that matches no operation.
    pub(super) fn was_unmatched(&mut self) {
        self.unmatched += 1;
    }

    /// Finds the operations that a completion matches, and removes what no longer waits. None if there are none.
    fn take(&mut self, place: Place, are_merged: bool) -> Option<Match> {
        let Place { device, kind, sector, sectors } = place;
        let end = sector.checked_add(sectors).filter(|_| sectors > 0)?;
        if let Some(one) = self.take_latest(place.key(), |w| w.sectors == sectors) {
            return Some(self.part_ended(one.index, sector));
        }
        if let Some(index) = self.take_rests(place) {
            return Some(Match::Ended(vec![index]));
        }
        if are_merged && let Some(all) = self.take_merged(place) {
            return Some(Match::Ended(all));
        }
        // A driver completes a request from its start on, but the requests of a split operation complete in any order.
        let start = if are_merged { self.start_around(place)? } else { sector };
        let around = |w: &Waiting| w.sectors > sectors && w.sectors - sectors >= sector - start;
        let whole = self.take_latest((device, kind, start), around)?;
        let rests = [(start, sector - start), (end, start + whole.sectors - end)];
        let rests = rests.into_iter().filter(|(_, sectors)| *sectors > 0);
        let was = Place { sector: start, sectors: whole.sectors, ..place };
        self.divide(whole.index, was, rests.clone().map(|(start, _)| start));
        for (start, sectors) in rests {
            self.put((device, kind, start), Waiting { sectors, is_rest: true, ..whole });
        }
        Some(Match::Part(whole.index))
    }

    /// Records that a waiting range of an operation, the whole or a rest, is replaced by rests with these starts.
    fn divide(&mut self, index: usize, was: Place, rests: impl Iterator<Item = u64>) {
        let divided = self.divided.entry(index).or_insert_with(|| {
            self.divided_places.insert((was, index));
            Divided { place: was, rests: BTreeSet::new(), is_failed: false }
        });
        divided.rests.remove(&was.sector);
        divided.rests.extend(rests);
    }

    /// Removes the rests of the latest divided operation with this range, and returns its index. Its earlier parts no
    /// longer count: they may belong to other operations.
    fn take_rests(&mut self, place: Place) -> Option<usize> {
        let of_place = (place, 0)..=(place, usize::MAX);
        let (_, index) = *self.divided_places.range(of_place).next_back()?;
        let divided = self.forget_divided(index)?;
        for start in divided.rests {
            self.take_latest((place.device, place.kind, start), |w| w.index == index);
        }
        self.failed -= u64::from(divided.is_failed);
        Some(index)
    }

    fn forget_divided(&mut self, index: usize) -> Option<Divided> {
        let divided = self.divided.remove(&index)?;
        self.divided_places.remove(&(divided.place, index));
        Some(divided)
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

    /// Counts a waiting range of an operation as completed, which ends the operation if no other waits.
    fn part_ended(&mut self, index: usize, start: u64) -> Match {
        if let Some(divided) = self.divided.get_mut(&index) {
            divided.rests.remove(&start);
            if !divided.rests.is_empty() {
                return Match::Part(index);
            }
        }
        Match::Ended(vec![index])
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
