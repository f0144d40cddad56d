//! Applies scheduled faults to the components of the machine.

use super::Machine;
use crate::adapter_path;
use crate::content_event::{ContentEvent, UNIT_BYTES};
use crate::fault::Fault;
use crate::fault_state::{FaultState, FaultStates, Verdict};
use crate::flash::Population;
use crate::part::Part;
use crate::part_id::PartId;
use crate::request::{Request, State};
use crate::spec::{Preconditioned, Written};

impl Machine {
    /// Schedules a fault at `at_ns` (now, if that is in the past), after all other events at the same time.
    ///
    /// # Panics
    /// If the device or adapter does not exist.
    pub fn inject(&mut self, at_ns: u64, fault: Fault) {
        self.check_device(&fault);
        self.faults_made += 1;
        self.faults.insert((at_ns.max(self.core.now), self.faults_made), fault);
        self.fault_ns = self.faults.first_key_value().map_or(u64::MAX, |f| f.0.0);
    }

    fn check_device(&self, fault: &Fault) {
        let devices = self.system.devices().count();
        let known = fault.part().is_none_or(|part| part.index() < devices);
        assert!(known, "{fault:?}: no such device, there are {devices}");
        if let Fault::Adapters(fault) = fault {
            let known = self.adapters().is_some_and(|adapters| adapters.has(*fault));
            assert!(known, "{fault:?}: there is no such adapter");
        }
    }

    #[cold]
    pub(super) fn apply_next_fault(&mut self) {
        let Some(((at_ns, _), fault)) = self.faults.pop_first() else { return };
        self.fault_ns = self.faults.first_key_value().map_or(u64::MAX, |f| f.0.0);
        self.core.now = at_ns;
        self.apply_fault(&fault);
    }

    /// Applies a fault now, before all other events at the same time.
    ///
    /// # Panics
    /// If the device or adapter does not exist.
    pub fn apply_fault(&mut self, fault: &Fault) {
        self.check_device(fault);
        match *fault {
            Fault::PowerCut => {
                if !self.is_off() {
                    self.power_off();
                    self.power_on();
                }
            }
            Fault::PowerOff => {
                if !self.is_off() {
                    self.power_off();
                    self.fault_states().power(true);
                }
            }
            Fault::PowerOn => {
                if self.is_off() {
                    self.fault_states().power(false);
                    self.power_on();
                }
            }
            Fault::Page { part, offset_bytes } => {
                self.parts[part.index()].damage(offset_bytes, false);
            }
            Fault::Block { part, offset_bytes } => {
                self.parts[part.index()].damage(offset_bytes, true);
            }
            Fault::Slow { part, factor } => {
                let now_ns = self.core.now;
                self.fault_states().slow(part, factor, now_ns);
            }
            Fault::Delay { part, delay_ns, kind } => {
                self.fault_states().delay(part, delay_ns, kind);
            }
            Fault::Errors { part, percent, kind } => self.fault_states().fail(part, percent, kind),
            Fault::Hang { part } => self.fault_states().hang(part),
            Fault::Lose { part } => self.lose(part),
            Fault::Replace { part } => self.replace(part),
            Fault::Latent { part, offset_bytes, len_bytes } => {
                let end = offset_bytes.saturating_add(len_bytes).div_ceil(UNIT_BYTES);
                let units = offset_bytes / UNIT_BYTES..end;
                if !self.parts[part.index()].damage_units(&units) {
                    self.fault_states().damage(part, units);
                }
            }
            Fault::Adapters(fault) => adapter_path::apply_fault(&mut self.core, fault),
            Fault::Clear { part } => {
                self.parts[part.index()].mend();
                if let Some(fault_states) = &mut self.fault_states
                    && fault_states.clear(&mut self.core, part)
                {
                    self.parts[part.index()].power_on(&mut self.core);
                }
            }
        }
        if self.fault_states.as_ref().is_some_and(|fault_states| fault_states.is_over()) {
            self.fault_states = None;
        }
        if matches!(fault, Fault::Clear { .. } | Fault::Replace { .. } | Fault::PowerOn) {
            adapter_path::devices_changed(&mut self.core);
        }
        self.end_children();
    }

    /// Applies the present faults to the due event of the request `slot`. Returns whether they prevent the event.
    #[inline(never)]
    pub(super) fn meets_faults(&mut self, slot: u32) -> bool {
        let Some(fault_states) = &mut self.fault_states else { return false };
        match fault_states.meets(&mut self.core, slot) {
            Verdict::Happens => return false,
            Verdict::Handled => {}
            Verdict::Fails => {
                let part = self.core.slab[slot].part;
                self.parts[part.index()].fail(&mut self.core, slot);
            }
        }
        true
    }

    fn fault_states(&mut self) -> &mut FaultStates {
        let (parts, seed, number) = (self.parts.len(), self.seed, self.faults_made);
        self.fault_states.get_or_insert_with(|| Box::new(FaultStates::new(parts, seed, number)))
    }

    pub(super) fn fault_state_of(&self, part: PartId) -> FaultState {
        self.fault_states.as_ref().map_or(FaultState::NONE, |fault_states| fault_states.of(part))
    }

    fn is_off(&self) -> bool {
        self.fault_state_of(PartId(0)).off
    }

    fn power_off(&mut self) {
        for part in &mut self.parts {
            part.tear(&mut self.core);
        }
        self.core.power_cut();
        if let Some(fault_states) = &mut self.fault_states {
            fault_states.power_cut();
        }
        for part in &mut self.parts {
            part.power_off(&mut self.core);
        }
    }

    fn power_on(&mut self) {
        for id in (0..self.parts.len() as u32).map(PartId) {
            if !self.fault_state_of(id).lost {
                self.parts[id.index()].power_on(&mut self.core);
            }
        }
    }

    /// Replaces a device with an empty one.
    fn replace(&mut self, part: PartId) {
        if !self.fault_state_of(part).lost {
            self.lose(part);
            self.end_children();
        }
        self.fault_states().lose_without_power(part);
        if let Some(fault_states) = &mut self.fault_states {
            fault_states.replace(&mut self.core, part);
        }
        self.end_children();
        let spec = &self.system.parts[part.index()];
        let mut population = Population::new(&self.system, self.seed, self.represent);
        let before = Preconditioned { how: Written::Fresh, fill: 0.0 };
        let (host, core) = (&self.system.host, &mut self.core);
        let made = Part::new(part, spec, &before, host, self.seed, &mut population, core);
        let mut made = made.expect("such a device was built before");
        if core.values.is_some() {
            made.keep_content(core);
        }
        core.tell(ContentEvent::Emptied { part });
        self.parts[part.index()] = made;
        self.notify_of_replacement(part);
    }

    fn lose(&mut self, part: PartId) {
        self.lose_part(part);
        self.notify_of_loss(part);
    }

    fn lose_part(&mut self, part: PartId) {
        let state = self.fault_states().of(part);
        if state.lost || state.off {
            self.fault_states().lose_without_power(part);
            return;
        }
        // An operation that has not been handed over yet fails at the handover.
        let is_synchronous = self.parts[part.index()].is_synchronous();
        let later = |request: &Request| {
            let state = request.state;
            state == State::Issued || (is_synchronous && state == State::Done)
        };
        if let Some(fault_states) = &mut self.fault_states {
            fault_states.lose(&mut self.core, part, later);
        }
        self.parts[part.index()].power_off(&mut self.core);
    }
}
