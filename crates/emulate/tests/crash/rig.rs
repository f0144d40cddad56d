//! A machine with the oracles of its volumes, stepped event by event.

use crate::common::{add, system};
use crate::oracle::{Oracle, Promise, UNIT};
use iodyno_emulate::spec::{Counted, Kind, Limit, LimitOf, Written};
use iodyno_emulate::{Fault, InjectedBug, Machine, PartId};
use iodyno_units::{IoError, Op, OpKind};

/// Upper bound of the events that a machine has without new requests.
const EVENTS_MAX: u64 = 1_000_000;

/// A machine with its oracles; see the first line of this file.
#[derive(Clone, Debug)]
pub(crate) struct Rig {
    pub(crate) machine: Machine,
    pub(crate) oracles: Vec<Oracle>,
    pub(crate) token: u64,
    /// The volume that is lost, if any.
    lost: Option<u32>,
}

/// A device, its guarantee, and its units in use.
pub(crate) struct Member {
    pub(crate) kind: Kind,
    pub(crate) units: Vec<u64>,
    pub(crate) limits: Vec<Limit>,
}

/// A limit so low that operations wait for it.
pub(crate) fn low_limit() -> Vec<Limit> {
    vec![Limit {
        of: LimitOf::All,
        counts: Counted::Operations,
        rate: 20_000,
        window_ns: 50_000,
        account_bytes: None,
        merges: false,
        credits: None,
    }]
}

impl Member {
    fn promise(&self) -> Promise {
        let kept = match &self.kind {
            Kind::Flash(flash) => flash.buffer.protected,
            Kind::Disk(disk) => !disk.write_cache,
            Kind::Memory(memory) if !memory.protected => return Promise::Nothing,
            Kind::Memory(_) | Kind::Volume(_) => true,
        };
        if kept { Promise::Acknowledged } else { Promise::Flushed }
    }
}

impl Rig {
    pub(crate) fn new(members: &[Member], seed: u64, injected_bug: InjectedBug) -> Self {
        let mut whole = system(members[0].kind.clone(), Written::Fresh, 1);
        for member in &members[1..] {
            add(&mut whole, member.kind.clone(), Written::Fresh);
        }
        for (placed, member) in whole.devices_mut().zip(members) {
            placed.device.limits.clone_from(&member.limits);
        }
        let mut machine = Machine::represented(&whole, seed, 1).unwrap();
        machine.keep_content();
        machine.injected_bug(injected_bug);
        let mut oracles = Vec::new();
        for (volume, member) in (0..).zip(members) {
            assert_eq!(machine.add_worker(volume), volume);
            let trims = !matches!(member.kind, Kind::Disk(_));
            oracles.push(Oracle::new(member.promise(), trims, member.units.iter().copied()));
        }
        Self { machine, oracles, token: 0, lost: None }
    }

    pub(crate) fn submit(&mut self, volume: u32, op: &Op) -> u64 {
        self.token += 1;
        self.machine.submit(self.machine.now_ns(), volume, volume, op, self.token);
        self.oracles[volume as usize].submit(self.token, op);
        self.token
    }

    /// Runs one event, not later than `until_ns`. Returns false if there was none.
    pub(crate) fn step(&mut self, until_ns: u64) -> Result<bool, String> {
        let more = self.machine.step(until_ns);
        while let Some(done) = self.machine.completed() {
            let oracle = &mut self.oracles[done.volume as usize];
            match done.failure {
                Some(IoError::Gone) if self.lost == Some(done.volume) => {
                    oracle.fail(done.token)?;
                    continue;
                }
                Some(_) => return Err(format!("{done:?}")),
                None => {}
            }
            let op = oracle.acknowledge(done.token)?;
            if op.kind == OpKind::Read {
                let (from, to) = (op.offset_bytes, op.offset_bytes + u64::from(op.len_bytes));
                for unit in from / UNIT..to.div_ceil(UNIT) {
                    oracle.reads(unit, self.machine.content(done.volume, unit * UNIT))?;
                }
            }
        }
        Ok(more)
    }

    /// Runs until no event is pending.
    pub(crate) fn rest(&mut self) -> Result<(), String> {
        for _ in 0..EVENTS_MAX {
            if !self.step(u64::MAX)? {
                let left: usize = self.oracles.iter().map(Oracle::in_flight).sum();
                return if left == 0 { Ok(()) } else { Err(format!("{left} never end")) };
            }
        }
        Err("it never rests".to_owned())
    }

    /// Checks that every unit has an allowed value, and that the machine's invariants hold.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (volume, oracle) in (0..).zip(&self.oracles) {
            for unit in oracle.units() {
                oracle
                    .reads(unit, self.machine.content(volume, unit * UNIT))
                    .map_err(|why| format!("volume {volume}: {why}"))?;
            }
        }
        self.machine.check()
    }

    /// Loses a volume of flash or disk between two events, and brings it back. For the volume this is a power cut;
    /// the other volumes continue.
    pub(crate) fn lose(&mut self, volume: u32) -> Result<(), String> {
        self.lost = Some(volume);
        self.machine.apply_fault(&Fault::Lose { part: PartId(volume) });
        while self.step(self.machine.now_ns())? {}
        let left = self.oracles[volume as usize].in_flight();
        if left > 0 {
            return Err(format!("{left} operations outlive volume {volume}"));
        }
        let machine = &self.machine;
        self.oracles[volume as usize]
            .cut(|unit| machine.content(volume, unit * UNIT))
            .map_err(|why| format!("volume {volume}, lost: {why}"))?;
        self.lost = None;
        self.machine.apply_fault(&Fault::Clear { part: PartId(volume) });
        self.machine.check()
    }

    /// Cuts the power between two events: by one fault, or by two (off, then on).
    pub(crate) fn cut(&mut self) -> Result<(), String> {
        if self.token.is_multiple_of(2) {
            self.machine.apply_fault(&Fault::PowerCut);
        } else {
            self.machine.apply_fault(&Fault::PowerOff);
            self.machine.apply_fault(&Fault::PowerOn);
        }
        if self.machine.completed().is_some() {
            return Err("a completion outlived the power".to_owned());
        }
        for (volume, oracle) in (0..).zip(&mut self.oracles) {
            let machine = &self.machine;
            oracle
                .cut(|unit| machine.content(volume, unit * UNIT))
                .map_err(|why| format!("volume {volume}: {why}"))?;
        }
        self.machine.check()
    }
}
