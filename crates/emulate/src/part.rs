//! The parts of a machine: what takes requests from a host or from another part. Each kind of part
//! is a variant here and a module of its own; nothing else in the machine tells the kinds apart.
//!
//! A part acts on its own events, and asks others by [`Core::ask`]. It is notified when such a child
//! has ended, at that event, and completes its own request when all children of that have ended.

#[cfg(test)]
#[path = "machine/tests/mirror.rs"]
mod mirror;

use crate::bug_injection::InjectedBug;
use crate::core::Core;
use crate::flash::{Counts, FlashDevice, Population};
use crate::hdd::Hdd;
use crate::memory::MemoryDevice;
use crate::part_id::PartId;
use crate::request::State;
use crate::spec::{self, Host, Kind, Preconditioned};
use crate::usage::{Phase, Resource};
use iodyno_units::IoError;
use std::ops::Range;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Flash(Box<FlashDevice>),
    Disk(Box<Hdd>),
    Memory(MemoryDevice),
    #[cfg(test)]
    Mirror(mirror::Mirror),
}

/// The same of every kind.
macro_rules! each {
    ($of:expr, $part:ident => $of_one:expr) => {
        match $of {
            Self::Flash($part) => $of_one,
            Self::Disk($part) => $of_one,
            Self::Memory($part) => $of_one,
            #[cfg(test)]
            Self::Mirror($part) => $of_one,
        }
    };
}

impl Part {
    /// The part `id` of a machine, written so before.
    pub(crate) fn new(
        (id, spec): (PartId, &spec::Part),
        before: &Preconditioned,
        (host, seed): (&Host, u64),
        population: &mut Population,
        core: &mut Core,
    ) -> Result<Self, String> {
        #[cfg_attr(
            not(test),
            expect(clippy::infallible_destructuring_match, reason = "there will be other kinds")
        )]
        let placed = match spec {
            spec::Part::Device(placed) => placed,
            #[cfg(test)]
            spec::Part::Mirror(children) => {
                return Ok(Self::Mirror(mirror::Mirror::new(children.clone())));
            }
        };
        let made = match &placed.device.kind {
            Kind::Flash(flash) => {
                FlashDevice::new(flash, before, (id, placed.socket), population, core)
                    .map(|flash| Self::Flash(Box::new(flash)))
            }
            Kind::Disk(disk) => Hdd::new(disk, seed, id).map(|disk| Self::Disk(Box::new(disk))),
            Kind::Memory(memory) => Ok(Self::Memory(MemoryDevice::new(memory, host, id))),
        };
        made.map_err(|why| format!("{}: {why}", placed.device.name))
    }

    /// A host's request is handed over at `issued_ns`.
    #[inline(always)]
    pub(crate) fn begin(&mut self, core: &mut Core, slot: u32, issued_ns: u64) {
        if let Self::Memory(memory) = self {
            memory.submit(core, slot, issued_ns);
        } else {
            core.at(issued_ns, slot, State::Issued);
        }
    }

    /// A request of this part acts.
    #[inline(always)]
    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        each!(self, part => part.event(core, slot));
    }

    /// A request that another part was asked for on behalf of `parent` has ended. Its slot is free
    /// after this.
    pub(crate) fn child_completed(
        &mut self,
        core: &mut Core,
        parent: u32,
        child: u32,
        failure: Option<IoError>,
    ) {
        match self {
            #[cfg(test)]
            Self::Mirror(_) => mirror::Mirror::child_completed(core, parent, failure),
            _ => unreachable!("a device has no child: {child} of {parent}, {failure:?}, {core:?}"),
        }
    }

    /// Whether its submitter carries requests out, and finds out about a loss when it is through.
    pub(crate) fn is_synchronous(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// The power fails: every request is gone already.
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        each!(self, part => part.power_off(core));
    }

    /// It is back.
    pub(crate) fn power_on(&mut self, core: &mut Core) {
        if let Self::Flash(flash) = self {
            flash.power_on(core);
        }
    }

    /// The page or the erase block at an offset can't be read any more, where there are such.
    pub(crate) fn damage(&mut self, offset_bytes: u64, whole_block: bool) {
        if let Self::Flash(flash) = self {
            flash.damage(offset_bytes, whole_block);
        }
    }

    /// These units can't be read any more. Gives whether the part itself sees to it.
    pub(crate) fn damage_units(&mut self, units: &Range<u64>) -> bool {
        let Self::Flash(flash) = self else { return false };
        flash.damage_units(units.clone());
        true
    }

    /// Everything can be read again.
    pub(crate) fn mend(&mut self) {
        if let Self::Flash(flash) = self {
            flash.mend();
        }
    }

    /// It makes this mistake from now on.
    pub(crate) fn inject_bug(&mut self, injected_bug: InjectedBug) {
        if let Self::Flash(flash) = self {
            flash.injected_bug = injected_bug;
        }
    }

    /// Keeps from now on what is written.
    pub(crate) fn keep_content(&mut self) {
        each!(self, part => part.keep_content());
    }

    /// What a read of a 4 KiB unit gives; None: nothing was written there since content is kept, or
    /// it is gone.
    pub(crate) fn unit_value(&self, unit: u64) -> Option<u64> {
        each!(self, part => part.unit_value(unit))
    }

    /// The laws of this part alone.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Self::Flash(flash) = self { flash.check() } else { Ok(()) }
    }

    /// What happened in its flash.
    pub(crate) fn flash_counts(&self) -> Option<Counts> {
        if let Self::Flash(flash) = self { Some(flash.counts) } else { None }
    }

    /// Bytes in its write buffer that are not on the medium, and its size.
    pub(crate) fn buffered_bytes(&self) -> Option<(u64, u64)> {
        if let Self::Flash(flash) = self { Some(flash.buffered_bytes()) } else { None }
    }

    /// Erase cycles used, as a share of those that it is rated for.
    pub(crate) fn worn(&self) -> Option<f64> {
        if let Self::Flash(flash) = self { Some(flash.worn()) } else { None }
    }

    /// Its resources, since the start.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        each!(self, part => part.resources(core))
    }

    /// Where the time of its I/Os went, since the start.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        each!(self, part => part.phases())
    }
}
