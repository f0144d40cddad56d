//! Operations of an event trace that wait for their completion.
//!
//! A completion belongs to the latest waiting operation of the same device, start, length and kind. One completion
//! covers all queued operations that were merged, if they fill its range without a gap. A completion of the first part
//! of an operation leaves the rest to later completions. Any other completion gives no response time.

use iodyno_units::OpKind;
use iodyno_workload::trace::TraceBuilder;
use std::collections::HashMap;

/// Maximum number of waiting operations. When one more is issued, all of them are forgotten.
const IN_FLIGHT_MAX: usize = 1 << 20;
/// Maximum number of operations that one completion covers.
const MERGED_MAX: usize = 4096;

/// A range of a device in sectors, with the kind of the operation.
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

/// A waiting operation, or the rest of one.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Sectors that are not completed yet.
    sectors: u64,
    /// Number of the operation in the trace.
    index: usize,
    /// Whether only the rest of the operation waits, since its first part is completed.
    is_rest: bool,
    /// Whether the operation was put back into its queue.
    is_requeued: bool,
}

#[derive(Debug, Default)]
pub(super) struct InFlight {
    waiting: HashMap<Key, Vec<Waiting>>,
    count: usize,
    /// Completions that belong to no operation.
    unmatched: u64,
    failed: u64,
}

impl InFlight {
    pub(super) fn issued(&mut self, place: Place, index: usize) {
        if self.count >= IN_FLIGHT_MAX {
            self.waiting.clear();
            self.count = 0;
        }
        let waiting = Waiting { sectors: place.sectors, index, is_rest: false, is_requeued: false };
        self.waiting.entry(place.key()).or_default().push(waiting);
        self.count += 1;
    }

    /// Marks an operation as put back into its queue.
    pub(super) fn requeued(&mut self, place: Place) {
        let at = self.waiting.get_mut(&place.key());
        let last = at.and_then(|all| all.iter_mut().rfind(|w| w.sectors == place.sectors));
        if let Some(waiting) = last {
            waiting.is_requeued = true;
        }
    }

    /// Number of an operation that was put back and is issued again; None if there is none.
    pub(super) fn reissued(&mut self, place: Place) -> Option<usize> {
        let all = self.waiting.get_mut(&place.key())?;
        let waiting = all.iter_mut().rfind(|w| w.is_requeued && w.sectors == place.sectors)?;
        waiting.is_requeued = false;
        Some(waiting.index)
    }

    /// Matches a completion at `end_ns`, or a failure if it is None. Returns whether it belongs to an operation.
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

    /// Counts a completion that belonged to no operation.
    pub(super) fn was_unmatched(&mut self) {
        self.unmatched += 1;
    }

    /// Operations that a completion ends: empty for a part of one, None if there is no match.
    fn take(&mut self, place: Place, are_merged: bool) -> Option<Vec<usize>> {
        if let Some(one) = self.take_latest(place.key(), |w| w.sectors == place.sectors) {
            return Some(vec![one.index]);
        }
        if are_merged && let Some(all) = self.take_merged(place) {
            return Some(all);
        }
        let Place { sector, sectors, .. } = place;
        let whole = self.take_latest(place.key(), |w| w.sectors > sectors && sectors > 0)?;
        let rest = Waiting { sectors: whole.sectors - sectors, is_rest: true, ..whole };
        let key = (place.device, place.kind, sector.checked_add(sectors)?);
        self.waiting.entry(key).or_default().push(rest);
        self.count += 1;
        Some(Vec::new())
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

    /// Removes and returns the whole operations that together fill a range; None if they leave a gap.
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

    /// Notes at the end of the trace. Unmatched completions are noted only for a whole trace, since those of a part may
    /// belong to operations outside of it.
    pub(super) fn notes(&self, is_whole: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if self.unmatched > 0 && is_whole {
            let (is, gives) = if self.unmatched == 1 {
                ("completion matches", "gives")
            } else {
                ("completions match", "give")
            };
            notes.push(format!(
                "{} {is} no operation with the same device, start, length and kind, and {gives} no response time",
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
