//! State of a run's emulated devices from step to step: what purges, fills and writing cells leave, and the machine on
//! which cells continue.
//!
//! A cell in its own long-term state has a new machine. After a purge, its devices hold the data that fills, continuing
//! cells and earlier stages wrote since, and that of the cell's own writes. A cell that continues has the machine of the
//! previous one. If there is none, a new machine starts in the state in which the last writing cell was constructed, or
//! after the last purge or fill.

use super::Emulated;
use crate::long_run_state::end_share;
use crate::outcome::RunError;
use core::ops::Range;
use iodyno_drive::{Carried, CellPlan, Medium};
use iodyno_emulate::System;
use iodyno_emulate::spec::Preconditioned;
use iodyno_units::Precondition;
use iodyno_workload::{CellSpec, EmulationOptions, Percent, Spec};
use std::sync::Arc;

/// State that the steps of a method left on an emulated volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Prepared {
    /// State after the last purge or fill. [`Precondition::Workload`]: there was neither.
    how: Precondition,
    /// End of the data written since the last purge, as a fraction of the capacity; `None` without a purge.
    pub(super) written: Option<f64>,
    /// Number of the last stage with writing cells in their own state, and the end of their data, as in `written`. Only
    /// later stages start with these data, because cells of one stage may run in parallel.
    own: Option<(u32, f64)>,
    /// State in which the last writing cell was constructed, and the cell's name; `None` if there was no such cell
    /// since the last purge or fill.
    left: Option<(Preconditioned, String)>,
}

impl Prepared {
    /// Volume as cells of a stage find it.
    fn before(&self, stage: u32) -> Self {
        let own = self.own.filter(|(of, _)| *of < stage).map_or(0.0, |(_, end)| end);
        Self { written: self.written.map(|written| written.max(own)), ..self.clone() }
    }
}

/// Machine on which each cell continues in the state that the previous cell left.
#[derive(Debug)]
struct Continued {
    system: Arc<System>,
    carried: Carried,
    /// State of each volume, as text.
    states: Vec<String>,
}

/// State of a run's emulated devices between its steps.
#[derive(Debug)]
pub(crate) struct Devices<'a> {
    emulated: &'a Emulated,
    volumes: Vec<Prepared>,
    /// `None` before the first cell that continues, and after steps that replace the devices.
    continued: Option<Continued>,
}

/// How new machines for continuing cells are created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewMachine {
    pub(crate) seed: u64,
    pub(crate) threads_max: u32,
    /// Whether later cells may continue on the machine of a cell that does not itself continue.
    pub(crate) is_kept: bool,
}

impl<'a> Devices<'a> {
    pub(crate) fn new(emulated: &'a Emulated) -> Self {
        let volumes = vec![Prepared::default(); emulated.volumes.len()];
        Self { emulated, volumes, continued: None }
    }

    /// Records a purge of some volumes.
    pub(crate) fn purged(&mut self, volumes: Range<usize>) {
        for volume in &mut self.volumes[volumes] {
            let how = Precondition::Fresh;
            *volume = Prepared { how, written: Some(0.0), ..Prepared::default() };
        }
        self.continued = None;
    }

    /// Records a sequential fill of some volumes, and describes it.
    pub(crate) fn filled(&mut self, volumes: Range<usize>, spec: &Spec) -> String {
        let mut fills: Vec<String> = Vec::new();
        for number in volumes {
            let end = self.end_of(number, spec);
            let volume = &mut self.volumes[number];
            let own = volume.own.take().map_or(0.0, |(_, end)| end);
            volume.left = None;
            volume.how = Precondition::Sequential;
            volume.written = volume.written.map(|written| written.max(end).max(own));
            let fill = volume.written.unwrap_or(self.emulated.volumes[number].fill);
            let words = if fill < 1.0 {
                let percent = Percent::from_fraction(fill).to_string().replace('%', " %");
                format!("the first {percent} of the capacity")
            } else {
                "the whole capacity".to_owned()
            };
            if !fills.contains(&words) {
                fills.push(words);
            }
        }
        self.continued = None;
        fills.join(" or ")
    }

    /// Lets an idle time of `ns` pass on the machine on which cells continue, if there is one.
    pub(crate) fn idle(&mut self, ns: u64) {
        if let Some(continued) = &mut self.continued {
            continued.carried.idle(ns);
        }
    }

    /// System in its state before a cell of a stage.
    pub(crate) fn system(&self, cell: &CellSpec, stage: u32) -> Result<Arc<System>, RunError> {
        if cell.emulation.precondition != Precondition::Carried {
            return Ok(self.emulated.in_states(&self.constructed(cell, stage)));
        }
        if self.emulated.live {
            return Err(RunError::Impossible(
                "each cell of this method starts in the state that the previous cell left, which `live:` does not support: use `model:` or real storage".to_owned(),
            ));
        }
        Ok(match &self.continued {
            Some(continued) => Arc::clone(&continued.system),
            None => self.emulated.in_states(&self.start(cell)),
        })
    }

    /// States constructed for a cell that does not continue.
    fn constructed(&self, cell: &CellSpec, stage: u32) -> Vec<Preconditioned> {
        let volumes: Vec<Prepared> = self.volumes.iter().map(|of| of.before(stage)).collect();
        self.emulated.states_after(cell, &cell.emulation, &volumes)
    }

    /// States in which a new machine starts for cells that continue.
    fn start(&self, cell: &CellSpec) -> Vec<Preconditioned> {
        let start = |(number, volume): (usize, &Prepared)| {
            if let Some((state, _)) = &volume.left {
                return *state;
            }
            let fill = match volume.how {
                Precondition::Workload => cell.emulation.fill,
                _ => volume.written.filter(|written| *written > 0.0),
            };
            let asked = EmulationOptions { precondition: volume.how, fill, settle: None };
            self.emulated.states_after(cell, &asked, &[])[number]
        };
        self.volumes.iter().enumerate().map(start).collect()
    }

    /// Machine on which a cell runs and later ones continue; `None` for a cell that gets a new machine of its own.
    pub(crate) fn machine(
        &mut self,
        cell: &CellSpec,
        plan: &CellPlan,
        new: NewMachine,
    ) -> Result<Option<&mut Carried>, RunError> {
        if self.emulated.live {
            return Ok(None);
        }
        let states = match cell.emulation.precondition {
            Precondition::Carried if self.continued.is_some() => None,
            Precondition::Carried => Some(self.words_of_start(cell)),
            // A steady state is constructed again instead: such cells run in parallel.
            Precondition::Workload => return Ok(None),
            _ if !new.is_kept => return Ok(None),
            other => {
                let words = format!("continued since `{}` ({})", cell.name, other.word());
                Some(vec![words; self.volumes.len()])
            }
        };
        let medium = plan.targets.first().map(|target| &target.medium);
        if let (Some(states), Some(Medium::Model { system, .. })) = (states, medium) {
            let carried = Carried::of(system, new.seed, new.threads_max)?;
            self.continued = Some(Continued { system: Arc::clone(system), carried, states });
        }
        Ok(self.continued.as_mut().map(|continued| &mut continued.carried))
    }

    fn words_of_start(&self, cell: &CellSpec) -> Vec<String> {
        let words = |(volume, state): (&Prepared, Preconditioned)| match (&volume.left, volume.how)
        {
            (Some((_, name)), _) => format!("continued from the state before `{name}`: {state}"),
            (None, Precondition::Workload) => {
                format!("continued from a constructed state: {state}")
            }
            (None, Precondition::Fresh) => "continued since a purge".to_owned(),
            (None, _) => format!("continued since a fill: {state}"),
        };
        self.volumes.iter().zip(self.start(cell)).map(words).collect()
    }

    /// Records that a cell of a stage ran on some volumes, or that a finished cell was skipped on resuming.
    pub(crate) fn ran(&mut self, cell: &CellSpec, stage: u32, volumes: Range<usize>) {
        let CellSpec { name, spec, emulation, .. } = cell;
        if !spec.changes_content() && spec.log().is_none() {
            return;
        }
        if emulation.precondition != Precondition::Workload {
            for number in volumes {
                let end = self.end_of(number, spec);
                let volume = &mut self.volumes[number];
                volume.written = volume.written.map(|written| written.max(end));
            }
            return;
        }
        let states = self.constructed(cell, stage);
        for number in volumes {
            let end = self.end_of(number, spec);
            let volume = &mut self.volumes[number];
            *volume = volume.before(stage);
            let own = volume.own.filter(|(of, _)| *of == stage).map_or(0.0, |(_, end)| end);
            volume.own = Some((stage, own.max(end)));
            volume.left = Some((states[number], name.clone()));
        }
        self.continued = None;
    }

    /// State of each volume at the start of a method's cell, as text.
    pub(crate) fn states(&self, cell: &CellSpec, stage: u32) -> Vec<String> {
        match (cell.emulation.precondition, &self.continued) {
            (Precondition::Carried, Some(continued)) => continued.states.clone(),
            (Precondition::Carried, None) => self.words_of_start(cell),
            _ => self.constructed(cell, stage).iter().map(ToString::to_string).collect(),
        }
    }

    /// End of the range that a workload uses, as a fraction of a volume's capacity.
    fn end_of(&self, number: usize, spec: &Spec) -> f64 {
        end_share(spec, self.emulated.system.capacity_bytes(number as u32))
    }
}
