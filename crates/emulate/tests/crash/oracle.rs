//! The shadow oracle: the values that each 4 KiB unit may have, now and after a power cut. It knows only submissions
//! and acknowledgements.
//!
//! Every write has a unique value, so a unit can only hold the value of one write (or of a
//! trim, or none); a torn unit, or the value of another unit, is not allowed. Of two operations on
//! a unit, the one that was acknowledged before the other was submitted is the older; otherwise
//! their order is undefined. Reads must not return a version older than an acknowledged operation, and a version older
//! than a durable operation must not return after a power cut.

use iodyno_units::{Op, OpKind};
use std::collections::BTreeMap;

pub(crate) const UNIT: u64 = 4096;

/// A device's guarantee for acknowledged operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Acknowledged data survives if a flush followed or the write was forced.
    Flushed,
    /// All acknowledged data survives.
    Acknowledged,
    /// Everything is lost at a power cut.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
struct Version {
    value: Option<u64>,
    submitted: u64,
    acknowledged: Option<u64>,
    durable: bool,
}

impl Version {
    fn precedes(&self, other: &Self) -> bool {
        self.acknowledged.is_some_and(|at| at < other.submitted)
    }
}

/// The oracle of one device; see the first lines of this file.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    promise: Promise,
    /// Whether a trim empties the units (on disks it changes nothing).
    trims: bool,
    units: BTreeMap<u64, Vec<Version>>,
    in_flight: BTreeMap<u64, (Op, u64)>,
    clock: u64,
}

impl Oracle {
    /// Creates an oracle for these units, none of which was written.
    pub(crate) fn new(promise: Promise, trims: bool, units: impl Iterator<Item = u64>) -> Self {
        let units = units.map(|unit| (unit, vec![settled(None)])).collect();
        Self { promise, trims, units, in_flight: BTreeMap::new(), clock: 0 }
    }

    /// Number of operations that are not acknowledged yet.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The units that the oracle covers.
    pub(crate) fn units(&self) -> impl Iterator<Item = u64> + '_ {
        self.units.keys().copied()
    }

    fn touched(&self, op: &Op) -> std::ops::Range<u64> {
        let (from, to) = (op.offset_bytes, op.offset_bytes + u64::from(op.len_bytes));
        match op.kind {
            OpKind::Write => from / UNIT..to.div_ceil(UNIT),
            OpKind::Trim if !self.trims => 0..0,
            OpKind::WriteZeroes | OpKind::Trim => from.div_ceil(UNIT)..to / UNIT,
            OpKind::Read | OpKind::Flush => 0..0,
        }
    }

    pub(crate) fn submit(&mut self, token: u64, op: &Op) {
        self.clock += 1;
        let submitted = self.clock;
        let value = (op.kind == OpKind::Write).then_some(token);
        for unit in self.touched(op) {
            let version = Version { value, submitted, acknowledged: None, durable: false };
            self.units.get_mut(&unit).expect("a unit it covers").push(version);
        }
        self.in_flight.insert(token, (*op, submitted));
    }

    /// Records the acknowledgement of an operation, and returns the operation.
    pub(crate) fn acknowledge(&mut self, token: u64) -> Result<Op, String> {
        self.clock += 1;
        let now = self.clock;
        let Some((op, submitted)) = self.in_flight.remove(&token) else {
            return Err(format!("operation {token} is acknowledged and not in flight"));
        };
        let kept = op.fua || self.promise == Promise::Acknowledged;
        for unit in self.touched(&op) {
            let versions = self.units.get_mut(&unit).expect("a unit it covers");
            let version = versions.iter_mut().find(|v| v.submitted == submitted);
            let version = version.expect("as it was submitted");
            version.acknowledged = Some(now);
            version.durable = kept;
            prune(versions);
        }
        if op.kind == OpKind::Flush {
            for versions in self.units.values_mut() {
                for version in versions.iter_mut() {
                    version.durable |= version.acknowledged.is_some_and(|at| at < submitted);
                }
                prune(versions);
            }
        }
        Ok(op)
    }

    /// Records that an operation failed. It may have been executed or not.
    pub(crate) fn fail(&mut self, token: u64) -> Result<(), String> {
        let known = self.in_flight.remove(&token).is_some();
        if known { Ok(()) } else { Err(format!("operation {token} fails and is not in flight")) }
    }

    /// Checks that a read of the unit may return this value now.
    pub(crate) fn reads(&self, unit: u64, value: Option<u64>) -> Result<(), String> {
        let versions = &self.units[&unit];
        let stale =
            |v: &Version| versions.iter().any(|d| d.acknowledged.is_some() && v.precedes(d));
        if versions.iter().any(|v| v.value == value && !stale(v)) {
            return Ok(());
        }
        Err(format!("unit {unit} reads as {value:?}, of {versions:?}"))
    }

    /// Records a power cut: checks that the units' values are allowed, and fixes them from now on.
    pub(crate) fn cut(&mut self, holds: impl Fn(u64) -> Option<u64>) -> Result<(), String> {
        self.clock += 1;
        self.in_flight.clear();
        for (&unit, versions) in &mut self.units {
            let value = holds(unit);
            let allowed = match self.promise {
                Promise::Nothing => value.is_none(),
                _ => versions.iter().any(|v| v.value == value && !overtaken(v, versions)),
            };
            if !allowed {
                return Err(format!("unit {unit} holds {value:?} after the cut, of {versions:?}"));
            }
            versions.clear();
            versions.push(settled(value));
        }
        Ok(())
    }
}

fn settled(value: Option<u64>) -> Version {
    Version { value, submitted: 0, acknowledged: Some(0), durable: true }
}

/// Whether a durable version came after this one.
fn overtaken(version: &Version, versions: &[Version]) -> bool {
    versions.iter().any(|d| d.durable && version.precedes(d))
}

fn prune(versions: &mut Vec<Version>) {
    if versions.len() > 1 {
        let all = versions.clone();
        versions.retain(|v| !overtaken(v, &all));
    }
}
