//! A writer that can determine afterwards which data may be lost. It fills each 4 KiB unit with one stamp: the
//! number of the write and that of the unit. For every unit it records the last write sent, the last one
//! acknowledged, and the one that must survive a power cut: on a device with a protected buffer the last
//! acknowledged one, otherwise one with FUA, or one acknowledged before the start of a flush that completed.
//!
//! No two simultaneous requests write to the same unit, so their order is always known.

use crate::serve::{Crowd, Served};
use iodyno_nbd::{CmdFlags, Errno, Kind};
use iodyno_units::rng::{below, stream};
use std::ops::Range;

const UNIT: usize = 4096;
const UNITS: u64 = 512;
const UNITS_AT_ONCE: u64 = 4;
/// Requests in flight.
const DEPTH: u32 = 16;

#[derive(Clone, Copy, Default)]
struct Unit {
    sent: u64,
    acknowledged: u64,
    durable: u64,
    busy: bool,
}

/// The expected content of the volume. It outlives servers.
pub(crate) struct Stamps {
    units: Vec<Unit>,
    sequence: u64,
    is_protected: bool,
    seed: u64,
}

/// Findings of a check.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Units that hold an older write than was acknowledged.
    pub(crate) lost_units: u64,
}

impl Stamps {
    pub(crate) fn new(is_protected: bool, seed: u64) -> Self {
        Self { units: vec![Unit::default(); UNITS as usize], sequence: 0, is_protected, seed }
    }

    /// Must be called once a connection has ended: nothing is in flight any more.
    pub(crate) fn reconnect(&mut self) {
        self.units.iter_mut().for_each(|unit| unit.busy = false);
    }

    /// Reads everything. Asserts that each unit holds a write that was sent to it, and that no unit that had to survive
    /// is lost. From now on, the content found is the expected one.
    #[track_caller]
    pub(crate) fn check(&mut self, server: &Served<'_>, when: &str) -> Found {
        let mut bytes = vec![0; UNIT * UNITS as usize];
        server.client().read(0, &mut bytes).unwrap();
        let mut found = Found::default();
        for (number, (unit, bytes)) in (0_u64..).zip(self.units.iter_mut().zip(bytes.chunks(UNIT)))
        {
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            let sequence = word(0);
            assert_eq!(bytes, bytes[..16].repeat(UNIT / 16), "{when}: unit {number} is torn");
            assert!(sequence == 0 || word(8) == number, "{when}: unit {number} is another one");
            let Unit { sent, acknowledged, durable, .. } = *unit;
            assert!(
                (durable..=sent).contains(&sequence),
                "{when}: unit {number} holds write {sequence}; {durable} had to survive and {sent} was the last"
            );
            found.lost_units += u64::from(sequence < acknowledged);
            *unit = Unit { sent, acknowledged: sequence, durable: sequence, busy: false };
        }
        found
    }
}

enum Sent {
    Write {
        units: Range<u64>,
        sequence: u64,
        forced: bool,
    },
    /// A flush, with the last acknowledged write of each unit when the flush was sent.
    Flush(Vec<u64>),
}

/// One connection that writes.
pub(crate) struct Writer<'a> {
    crowd: Crowd,
    stamps: &'a mut Stamps,
    buffers: Vec<Vec<u8>>,
    sent: Vec<Option<Sent>>,
    random: iodyno_units::rng::Generator,
    /// Number of requests that failed.
    pub(crate) failed: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(server: &Served<'_>, stamps: &'a mut Stamps) -> Self {
        let random = stream(stamps.seed, "stamps", stamps.sequence);
        let crowd = server.crowd(DEPTH);
        let buffers = vec![Vec::new(); DEPTH as usize];
        let sent = (0..DEPTH).map(|_| None).collect();
        Self { crowd, stamps, buffers, sent, random, failed: 0 }
    }

    /// Sends requests until all slots are in use. (If the connection has ended, [`Self::take`] returns the error.)
    pub(crate) fn fill(&mut self, flushes: bool) {
        for slot in 0..DEPTH {
            if self.sent[slot as usize].is_some() {
                continue;
            }
            if flushes && below(&mut self.random, 24) == 0 {
                let acknowledged = self.stamps.units.iter().map(|u| u.acknowledged).collect();
                self.sent[slot as usize] = Some(Sent::Flush(acknowledged));
                self.crowd.send(slot, (Kind::Flush, CmdFlags::NONE), 0, &mut []);
            } else {
                self.write(slot);
            }
        }
        let _ = self.crowd.push();
    }

    fn write(&mut self, slot: u32) {
        let units = loop {
            let from = below(&mut self.random, UNITS - UNITS_AT_ONCE);
            let units = from..from + 1 + below(&mut self.random, UNITS_AT_ONCE);
            let of = &self.stamps.units[units.start as usize..units.end as usize];
            if of.iter().all(|unit| !unit.busy) {
                break units;
            }
        };
        self.stamps.sequence += 1;
        let sequence = self.stamps.sequence;
        let forced = below(&mut self.random, 16) == 0;
        let buffer = &mut self.buffers[slot as usize];
        buffer.clear();
        for number in units.clone() {
            let stamp = [sequence.to_le_bytes(), number.to_le_bytes()].concat();
            buffer.extend(stamp.repeat(UNIT / 16));
            let unit = &mut self.stamps.units[number as usize];
            (unit.sent, unit.busy) = (sequence, true);
        }
        let flags = if forced { CmdFlags::FUA } else { CmdFlags::NONE };
        self.crowd.send(slot, (Kind::Write, flags), units.start * UNIT as u64, buffer);
        self.sent[slot as usize] = Some(Sent::Write { units, sequence, forced });
    }

    /// Receives at least one reply. Returns the number of requests that succeeded; an error: the server is gone.
    pub(crate) fn take(&mut self) -> std::io::Result<u64> {
        let mut succeeded = 0;
        for (slot, result) in self.crowd.answers()? {
            let well = match result {
                Ok(()) => true,
                Err(Errno::Io | Errno::Shutdown) => false,
                Err(other) => panic!("a write failed with {other:?}"),
            };
            succeeded += u64::from(well);
            self.failed += u64::from(!well);
            match self.sent[slot as usize].take().unwrap() {
                Sent::Write { units, sequence, forced } => {
                    for unit in &mut self.stamps.units[units.start as usize..units.end as usize] {
                        unit.busy = false;
                        if well {
                            unit.acknowledged = sequence;
                            if forced || self.stamps.is_protected {
                                unit.durable = sequence;
                            }
                        }
                    }
                }
                Sent::Flush(acknowledged) if well => {
                    for (unit, acknowledged) in self.stamps.units.iter_mut().zip(acknowledged) {
                        unit.durable = unit.durable.max(acknowledged);
                    }
                }
                Sent::Flush(_) => {}
            }
        }
        Ok(succeeded)
    }

    /// Keeps all slots in use until `requests` requests have succeeded.
    pub(crate) fn drive(&mut self, requests: u64, flushes: bool) {
        let mut done = 0;
        while done < requests {
            self.fill(flushes);
            done += self.take().unwrap();
        }
    }

    /// Sends requests until the power cut ends the connection.
    pub(crate) fn drive_to_end(&mut self) {
        loop {
            self.fill(false);
            if self.take().is_err() {
                return;
            }
        }
    }

    /// Waits until nothing is in flight; an error: the server is gone.
    pub(crate) fn drain(&mut self) -> std::io::Result<()> {
        while self.sent.iter().any(Option::is_some) {
            self.take()?;
        }
        Ok(())
    }
}
