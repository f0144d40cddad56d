//! Executes a block device's recorded writes on an emulated device, which decides when data becomes durable.

use crate::change::{Change, NodeId};
use crate::history::{Event, History};
use iodyno_emulate::spec::{Kind, Part};
use iodyno_emulate::{ContentEvent, Machine, System, UNIT_BYTES};
use iodyno_units::{Op, OpKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Maximum length of a submitted write, bytes. Longer writes of the log are split.
const WRITE_BYTES_MAX: u64 = 1 << 20;
/// Maximum length of a submitted zeroing operation, bytes.
const ZERO_BYTES_MAX: u64 = 1 << 31;
/// Maximum number of events of the emulated machine until an operation completes, or until the machine is at rest.
const EVENTS_MAX: u64 = 10_000_000;

/// Executes the changes and flushes of a log in virtual time, one after another on the only volume of `system`. In the
/// returned log, [`Event::Landed`] replaces the flushes: there is one at each instant at which changes became durable.
/// Writes are split into the blocks that the device writes atomically, or into blocks of 4 KiB if the atomic blocks are
/// smaller. `seed` seeds the device's random numbers.
///
/// # Errors
/// The system is not a single device, loses all content when power fails, or is smaller than the log's device; an
/// operation fails or does not end.
pub fn carry_out(log: &History, system: &System, seed: u64) -> Result<History, String> {
    let [volume] = system.volumes.as_slice() else {
        return Err("the system has several volumes: name a single device".to_owned());
    };
    let Part::Device(placed) = &system.parts[volume.root.index()] else {
        return Err("the volume is an array or has several paths: name a single device".to_owned());
    };
    if matches!(&placed.device.kind, Kind::Memory(memory) if !memory.protected) {
        return Err("the device is volatile memory, which is empty after a power cut".to_owned());
    }
    let block_bytes = placed.device.atomic_bytes().map_or(UNIT_BYTES, u64::from).max(UNIT_BYTES);
    let mut machine = Machine::new(system, seed)?;
    machine.follow_content();
    let worker = machine.add_worker(0);
    let touched = written_units(log);
    let mut run = Run {
        capacity_bytes: machine.capacity_bytes(0),
        machine,
        worker,
        block_bytes,
        token: 0,
        events: Vec::new(),
        left: BTreeMap::new(),
        units: BTreeMap::new(),
        zeroed: Vec::new(),
        told: Vec::new(),
    };
    for (number, event) in log.events.iter().enumerate() {
        let fua = matches!(log.events.get(number + 1), Some(Event::SyncRange { .. }));
        match event {
            Event::Change(Change::Write { node, offset, data }) => {
                for part in (0..data.len()).step_by(WRITE_BYTES_MAX as usize) {
                    let data = &data[part..data.len().min(part + WRITE_BYTES_MAX as usize)];
                    run.write(*node, offset + part as u64, data, fua)?;
                }
            }
            Event::Change(Change::Zero { node, offset, len_bytes }) => {
                // Devices zero whole units; the ends of a range within a unit are written.
                let end = offset + len_bytes;
                let first = offset.next_multiple_of(UNIT_BYTES).min(end);
                let last = (end / UNIT_BYTES * UNIT_BYTES).max(first);
                let zeroes = |from: u64, to: u64| vec![0; (to - from) as usize];
                if *offset < first {
                    run.write(*node, *offset, &zeroes(*offset, first), fua)?;
                }
                run.zero(*node, first..last, &touched, fua)?;
                if last < end {
                    run.write(*node, last, &zeroes(last, end), fua)?;
                }
            }
            Event::Sync { .. } | Event::SyncAll => run.carry_out(&Op::FLUSH)?,
            Event::SyncRange { .. }
            | Event::SyncFailed { .. }
            | Event::Landed { .. }
            | Event::Allocated { .. }
            | Event::Mapped { .. } => {}
            Event::Change(_) | Event::Output(_) => run.events.push(event.clone()),
        }
    }
    run.rest()?;
    Ok(History { start: log.start.clone(), events: run.events })
}

/// Numbers of the 4 KiB units that at least one write of the log touches.
fn written_units(log: &History) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    for event in &log.events {
        match event {
            Event::Change(Change::Write { offset, data, .. }) => {
                all.extend(units(&(*offset..offset + data.len() as u64)));
            }
            // Ends of the range within a unit are written.
            Event::Change(Change::Zero { offset, len_bytes, .. }) if *len_bytes > 0 => {
                all.extend([offset / UNIT_BYTES, (offset + len_bytes - 1) / UNIT_BYTES]);
            }
            _ => {}
        }
    }
    all
}

/// Numbers of the 4 KiB units that a byte range touches, even in part.
fn units(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / UNIT_BYTES..bytes.end.div_ceil(UNIT_BYTES)
}

struct Run {
    machine: Machine,
    capacity_bytes: u64,
    worker: u32,
    /// Size of the aligned blocks that the device writes atomically, bytes; at least a 4 KiB unit.
    block_bytes: u64,
    /// Token of the last submitted operation. Tokens ascend.
    token: u64,
    events: Vec<Event>,
    /// For each change of one or more units, by the index of its event: number of its units that are not durable yet.
    left: BTreeMap<usize, u64>,
    /// For each unit, changes that are not durable yet: token and index of the event, ascending.
    units: BTreeMap<u64, Vec<(u64, usize)>>,
    /// Zeroed ranges that the log never writes and that are not durable yet: token, range in units, index of the
    /// event.
    zeroed: Vec<(u64, Range<u64>, usize)>,
    /// Content events that the machine has reported; empty between steps.
    told: Vec<ContentEvent>,
}

impl Run {
    fn write(&mut self, node: NodeId, offset: u64, data: &[u8], fua: bool) -> Result<(), String> {
        let bytes = offset..offset + data.len() as u64;
        let mut from = offset;
        while from < bytes.end {
            let to = bytes.end.min((from / self.block_bytes + 1) * self.block_bytes);
            let data = data[(from - offset) as usize..(to - offset) as usize].into();
            self.push(&units(&(from..to)), Change::Write { node, offset: from, data });
            from = to;
        }
        self.operation(OpKind::Write, &bytes, fua)
    }

    /// Zeroes a range. Units that the log also writes are separate changes, since a write may overtake the zeroes.
    fn zero(
        &mut self,
        node: NodeId,
        bytes: Range<u64>,
        written: &BTreeSet<u64>,
        fua: bool,
    ) -> Result<(), String> {
        let mut from = bytes.start;
        while from < bytes.end {
            let to = bytes.end.min((from / ZERO_BYTES_MAX + 1) * ZERO_BYTES_MAX);
            let part = from..to;
            let all = units(&part);
            let mut next = all.start;
            for &unit in written.range(all.clone()) {
                self.zero_unwritten(node, next..unit, &part);
                let (from, to) = within(unit, &part);
                self.push(
                    &(unit..unit + 1),
                    Change::Zero { node, offset: from, len_bytes: to - from },
                );
                next = unit + 1;
            }
            self.zero_unwritten(node, next..all.end, &part);
            self.operation(OpKind::WriteZeroes, &part, fua)?;
            from = to;
        }
        Ok(())
    }

    fn zero_unwritten(&mut self, node: NodeId, units: Range<u64>, bytes: &Range<u64>) {
        if units.is_empty() {
            return;
        }
        let from = (units.start * UNIT_BYTES).max(bytes.start);
        let to = (units.end * UNIT_BYTES).min(bytes.end);
        self.zeroed.push((self.token + 1, units, self.events.len()));
        self.events.push(Event::Change(Change::Zero { node, offset: from, len_bytes: to - from }));
    }

    /// Registers a change that the next operation makes. A power cut keeps or loses the whole change.
    fn push(&mut self, units: &Range<u64>, change: Change) {
        let event = self.events.len();
        for unit in units.clone() {
            self.units.entry(unit).or_default().push((self.token + 1, event));
        }
        self.left.insert(event, units.end - units.start);
        self.events.push(Event::Change(change));
    }

    fn operation(&mut self, kind: OpKind, bytes: &Range<u64>, fua: bool) -> Result<(), String> {
        if bytes.end > self.capacity_bytes {
            return Err(format!(
                "the log writes up to byte {}, but the device has only {} bytes",
                bytes.end, self.capacity_bytes
            ));
        }
        let len_bytes = (bytes.end - bytes.start) as u32;
        self.carry_out(&Op { offset_bytes: bytes.start, len_bytes, kind, fua })
    }

    /// Submits an operation, and runs the machine until the operation completes.
    fn carry_out(&mut self, op: &Op) -> Result<(), String> {
        self.token += 1;
        let now = self.machine.now_ns();
        self.machine.submit(now, self.worker, 0, op, self.token);
        for _ in 0..EVENTS_MAX {
            let more = self.step();
            match self.machine.completed() {
                Some(done) => {
                    return match done.failure {
                        None => Ok(()),
                        Some(why) => Err(format!("operation {} fails: {why:?}", self.token)),
                    };
                }
                None if more => {}
                None => break,
            }
        }
        Err(format!("operation {} does not complete", self.token))
    }

    /// Runs the machine until it is at rest or all changes are durable. The second condition is needed because some
    /// drives fold data without end.
    fn rest(&mut self) -> Result<(), String> {
        for _ in 0..EVENTS_MAX {
            if self.units.is_empty() && self.zeroed.is_empty() || !self.step() {
                return Ok(());
            }
        }
        Err("the device never becomes idle".to_owned())
    }

    /// Processes one event of the machine. Returns false if there is none.
    fn step(&mut self) -> bool {
        let more = self.machine.step(u64::MAX);
        self.machine.changes(&mut self.told);
        let mut landed = Vec::new();
        for told in std::mem::take(&mut self.told) {
            match told {
                ContentEvent::Accepted { unit, token, kept: true, .. }
                | ContentEvent::Landed { unit, token, .. }
                | ContentEvent::Written { unit, token, .. } => {
                    self.land(unit..unit + 1, token, &mut landed);
                }
                ContentEvent::Dropped { unit, count, token, .. } => {
                    self.land(unit..unit + count, token, &mut landed);
                }
                _ => {}
            }
        }
        if !landed.is_empty() {
            self.events.push(Event::Landed { changes: landed });
        }
        more
    }

    /// Marks the versions of `units` that operation `token` and earlier operations wrote as durable. Adds to `landed`
    /// the changes whose units are now all durable.
    fn land(&mut self, units: Range<u64>, token: u64, landed: &mut Vec<usize>) {
        let mut done = Vec::new();
        for (unit, waiting) in self.units.range_mut(units.clone()) {
            let durable = waiting.partition_point(|(of, _)| *of <= token);
            for (_, event) in waiting.drain(..durable) {
                // Units of a change that a newer version has replaced do not land.
                let left = self.left.entry(event).or_insert(1);
                *left -= 1;
                if *left == 0 {
                    self.left.remove(&event);
                    landed.push(event);
                }
            }
            done.extend(waiting.is_empty().then_some(*unit));
        }
        for unit in done {
            self.units.remove(&unit);
        }
        self.zeroed.retain(|(of, zeroed, event)| {
            let is_durable = *of <= token && units.contains(&(zeroed.end - 1));
            if is_durable {
                landed.push(*event);
            }
            !is_durable
        });
    }
}

/// Part of a byte range that lies within a unit, as offsets on the device: first byte, and exclusive end.
fn within(unit: u64, bytes: &Range<u64>) -> (u64, u64) {
    (bytes.start.max(unit * UNIT_BYTES), bytes.end.min((unit + 1) * UNIT_BYTES))
}
