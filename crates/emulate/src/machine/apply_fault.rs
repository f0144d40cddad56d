//! Faults: when each takes effect, and what it does to the parts of the machine.

use super::{Machine, Part};
use crate::content_event::UNIT_BYTES;
use crate::fault::Fault;
use crate::fault_state::FaultStates;
use crate::request::State;

impl Machine {
    /// A fault takes effect at `at_ns` (now, if that is past), after what happens at that instant.
    ///
    /// # Panics
    /// If there is no such volume.
    pub fn inject(&mut self, at_ns: u64, fault: Fault) {
        self.check_volume(&fault);
        self.faults_made += 1;
        self.faults.insert((at_ns.max(self.core.now), self.faults_made), fault);
        self.fault_ns = self.faults.first_key_value().map_or(u64::MAX, |f| f.0.0);
    }

    fn check_volume(&self, fault: &Fault) {
        let known = fault.volume().is_none_or(|volume| volume < self.volumes());
        assert!(known, "{fault:?}: there are {} volumes", self.volumes());
    }

    /// The next fault, now.
    #[cold]
    pub(super) fn apply_next_fault(&mut self) {
        let Some(((at_ns, _), fault)) = self.faults.pop_first() else { return };
        self.fault_ns = self.faults.first_key_value().map_or(u64::MAX, |f| f.0.0);
        self.core.now = at_ns;
        self.apply_fault(&fault);
    }

    /// Applies a fault at this moment, before what else happens at this instant.
    ///
    /// # Panics
    /// If there is no such volume.
    pub fn apply_fault(&mut self, fault: &Fault) {
        self.check_volume(fault);
        match *fault {
            Fault::PowerCut => self.power_cut(),
            Fault::Page { volume, offset_bytes } => self.damage(volume, offset_bytes, false),
            Fault::Block { volume, offset_bytes } => self.damage(volume, offset_bytes, true),
            Fault::Slow { volume, factor } => {
                let now_ns = self.core.now;
                self.fault_states().slow(volume, factor, now_ns);
            }
            Fault::Hang { volume } => self.fault_states().hang(volume),
            Fault::Lose { volume } => self.lose(volume),
            Fault::Latent { volume, offset_bytes, len_bytes } => {
                let end = offset_bytes.saturating_add(len_bytes).div_ceil(UNIT_BYTES);
                let units = offset_bytes / UNIT_BYTES..end;
                match &mut self.parts[volume as usize] {
                    Part::Flash(flash) => flash.damage_units(units),
                    Part::Disk(_) | Part::Memory(_) => self.fault_states().damage(volume, units),
                }
            }
            Fault::Clear { volume } => {
                if let Part::Flash(flash) = &mut self.parts[volume as usize] {
                    flash.mend();
                }
                if let Some(fault_states) = &mut self.fault_states
                    && fault_states.clear(&mut self.core, volume)
                {
                    self.power_on(volume);
                }
            }
        }
        if self.fault_states.as_ref().is_some_and(|fault_states| fault_states.is_over()) {
            self.fault_states = None;
        }
    }

    fn fault_states(&mut self) -> &mut FaultStates {
        let volumes = self.parts.len() as u32;
        self.fault_states.get_or_insert_with(|| Box::new(FaultStates::new(volumes)))
    }

    fn damage(&mut self, volume: u32, offset_bytes: u64, whole_block: bool) {
        if let Part::Flash(flash) = &mut self.parts[volume as usize] {
            flash.damage(offset_bytes, whole_block);
        }
    }

    fn power_cut(&mut self) {
        self.core.power_cut();
        if let Some(fault_states) = &mut self.fault_states {
            fault_states.power_cut();
        }
        for volume in 0..self.volumes() {
            self.power_off(volume);
        }
        for volume in 0..self.volumes() {
            if !self.fault_states.as_ref().is_some_and(|fault_states| fault_states.is_lost(volume))
            {
                self.power_on(volume);
            }
        }
    }

    fn lose(&mut self, volume: u32) {
        let volumes = self.parts.len() as u32;
        let fault_states =
            self.fault_states.get_or_insert_with(|| Box::new(FaultStates::new(volumes)));
        if fault_states.is_lost(volume) {
            return;
        }
        // What is not yet handed over fails when it is. (Memory has no queue: its submitter finds
        // out when it is through.)
        let memory = matches!(self.parts[volume as usize], Part::Memory(_));
        let later = |state| state == State::Issued || (memory && state == State::Done);
        fault_states.lose(&mut self.core, volume, later);
        self.power_off(volume);
    }

    fn power_off(&mut self, volume: u32) {
        match &mut self.parts[volume as usize] {
            Part::Flash(flash) => flash.power_off(&mut self.core),
            Part::Disk(disk) => disk.power_off(&mut self.core),
            Part::Memory(memory) => memory.power_off(&mut self.core, volume),
        }
    }

    fn power_on(&mut self, volume: u32) {
        if let Part::Flash(flash) = &mut self.parts[volume as usize] {
            flash.power_on(&mut self.core);
        }
    }
}
