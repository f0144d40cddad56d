//! The components of a machine, which receive requests from a host or from other components. Each type of component
//! is a variant here and has its own module. No other module distinguishes the types.
//!
//! A component acts on its own events, and sends requests to other components by [`Core::ask`]. When such a child
//! request ends, the sender is notified in the same event. The sender completes its own request when all child
//! requests have ended.

mod limited;
#[cfg(test)]
#[path = "machine/tests/mirror.rs"]
mod mirror;

use crate::adapter_path::AdapterPath;
use crate::array::{Array, ArrayState};
use crate::bug_injection::InjectedBug;
use crate::cloud_volume::CloudVolume;
use crate::content_event::UNIT_BYTES;
use crate::core::Core;
use crate::flash::{Counts, FlashDevice, Place, Population};
use crate::hdd::Hdd;
use crate::limit::Limits;
use crate::medium::{Held, Medium};
use crate::memory::MemoryDevice;
use crate::part_id::PartId;
use crate::prefetch::Hot;
use crate::read_cache::ReadCache;
use crate::read_cache_counts::ReadCacheCounts;
use crate::request::State;
use crate::spec::{self, Host, Kind, Preconditioned};
use crate::store::Store;
use crate::usage::{Phase, Resource};
use crate::zones::{Zone, Zoned};
use iodyno_units::rng::Generator;
use iodyno_units::{IoError, Op};
use limited::Limited;
use std::ops::Range;

/// A component of a machine: a device (possibly with limits), an array, a path through RAID adapters or a read cache.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Flash(Box<FlashDevice>),
    Zoned(Box<Zoned>),
    Disk(Box<Hdd>),
    Memory(MemoryDevice),
    CloudVolume(Box<CloudVolume>),
    Limited(Box<Limited>),
    Array(Box<Array>),
    AdapterPath(AdapterPath),
    ReadCache(Box<ReadCache>),
    #[cfg(test)]
    Mirror(mirror::Mirror),
}

/// Calls a method that all components have, on any variant.
macro_rules! each {
    ($of:expr, $part:ident => $of_one:expr) => {
        match $of {
            Self::Flash($part) => $of_one,
            Self::Zoned($part) => $of_one,
            Self::Disk($part) => $of_one,
            Self::Memory($part) => $of_one,
            Self::CloudVolume($part) => $of_one,
            Self::Limited($part) => $of_one,
            Self::Array($part) => $of_one,
            Self::AdapterPath($part) => $of_one,
            Self::ReadCache($part) => $of_one,
            #[cfg(test)]
            Self::Mirror($part) => $of_one,
        }
    };
}

impl Part {
    /// Builds component `id` of a machine, preconditioned.
    pub(crate) fn new(
        id: PartId,
        spec: &spec::Part,
        before: &Preconditioned,
        host: &Host,
        seed: u64,
        population: &mut Population,
        core: &mut Core,
    ) -> Result<Self, String> {
        let placed = match spec {
            spec::Part::Device(placed) => placed,
            spec::Part::Array(array) => return Ok(Self::Array(Box::new(Array::new(array, id)))),
            spec::Part::AdapterPath(path) => {
                return Ok(Self::AdapterPath(AdapterPath::new(path, id, before, core)));
            }
            spec::Part::ReadCache(cache) => {
                return Ok(Self::ReadCache(Box::new(ReadCache::new(cache, id, before))));
            }
            #[cfg(test)]
            spec::Part::Mirror(children) => {
                return Ok(Self::Mirror(mirror::Mirror::new(children.clone())));
            }
        };
        let made = match &placed.device.kind {
            Kind::Flash(flash) if let Some(zones) = flash.zones => {
                let at = Place { part: id, socket: placed.socket };
                Zoned::new(flash, zones, before, at, population, core)
                    .map(|zoned| Self::Zoned(Box::new(zoned)))
            }
            Kind::Flash(flash) => FlashDevice::new(
                flash,
                before,
                Place { part: id, socket: placed.socket },
                population,
                core,
            )
            .map(|flash| Self::Flash(Box::new(flash))),
            Kind::Disk(disk) => {
                Hdd::new(disk, before, seed, id).map(|disk| Self::Disk(Box::new(disk)))
            }
            Kind::Memory(memory) => Ok(Self::Memory(MemoryDevice::new(memory, host, seed, id))),
            Kind::Volume(volume) => {
                Ok(Self::CloudVolume(Box::new(CloudVolume::new(volume, seed, id))))
            }
        };
        let made = made.map_err(|why| format!("{}: {why}", placed.device.name))?;
        let limits = &placed.device.limits;
        let shares = core.shared.is_some() && matches!(placed.device.kind, Kind::Volume(_));
        if limits.is_empty() && !shares {
            return Ok(made);
        }
        let limits = Limits::new(limits, id);
        Ok(Self::Limited(Box::new(Limited { limits, device: made })))
    }

    /// Returns the device behind the limits if the part has limits, otherwise the part itself.
    fn inner(&self) -> &Self {
        if let Self::Limited(limited) = self { &limited.device } else { self }
    }

    /// Same as [`Self::inner`], mutable.
    fn inner_mut(&mut self) -> &mut Self {
        if let Self::Limited(limited) = self { &mut limited.device } else { self }
    }

    /// Returns the flash device, which may be behind limits or zones; `None` for other kinds of component.
    fn as_flash(&self) -> Option<&FlashDevice> {
        match self.inner() {
            Self::Flash(flash) => Some(flash),
            Self::Zoned(zoned) => Some(&zoned.flash),
            _ => None,
        }
    }

    /// Same as [`Self::as_flash`], mutable.
    fn as_flash_mut(&mut self) -> Option<&mut FlashDevice> {
        match self.inner_mut() {
            Self::Flash(flash) => Some(flash),
            Self::Zoned(zoned) => Some(&mut zoned.flash),
            _ => None,
        }
    }

    /// Accepts a host's request that the worker hands over at `issued_ns`.
    #[inline(always)]
    pub(crate) fn begin(&mut self, core: &mut Core, slot: u32, issued_ns: u64) {
        if let Self::Memory(memory) = self {
            memory.submit(core, slot, issued_ns);
        } else {
            core.at(issued_ns, slot, State::Issued);
        }
    }

    /// Processes a request's next event, according to the request's state.
    #[inline(always)]
    pub(crate) fn event(&mut self, core: &mut Core, slot: u32) {
        each!(self, part => part.event(core, slot));
    }

    /// Returns the addresses of the state that most events of the component use, for prefetching.
    pub(crate) fn hot(&self) -> Hot {
        match self {
            Self::Flash(flash) => flash.hot(),
            Self::Zoned(zoned) => zoned.flash.hot(),
            Self::Array(array) => Hot::first_of(&**array),
            Self::Limited(limited) => limited.device.hot(),
            _ => Hot::first_of(self),
        }
    }

    /// Ends a request from a host or another component with an error, instead of processing its last event.
    #[cold]
    pub(crate) fn fail(&mut self, core: &mut Core, slot: u32) {
        match self.inner_mut() {
            Self::Flash(flash) => flash.fail(core, slot),
            Self::Zoned(zoned) => zoned.fail(core, slot),
            _ => core.complete(slot, Some(IoError::Io)),
        }
    }

    /// Processes the completion of a request that was sent to another component on behalf of `parent`. The
    /// child request is removed afterwards.
    pub(crate) fn child_completed(
        &mut self,
        core: &mut Core,
        parent: u32,
        child: u32,
        failure: Option<IoError>,
    ) {
        match self {
            Self::Array(array) => array.child_completed(core, parent, child, failure),
            Self::AdapterPath(path) => path.child_completed(core, parent, child, failure),
            Self::ReadCache(cache) => cache.child_completed(core, parent, child, failure),
            #[cfg(test)]
            Self::Mirror(_) => mirror::Mirror::child_completed(core, parent, failure),
            _ => unreachable!(
                "request {child} of {parent} ended, but devices send no requests: {failure:?}, {core:?}"
            ),
        }
    }

    /// Returns whether the submitter itself executes requests, as with memory. The submitter then detects a loss of the
    /// device only at the end of a request.
    pub(crate) fn is_synchronous(&self) -> bool {
        matches!(self.inner(), Self::Memory(_))
    }

    /// Decides which parts of interrupted writes survive a power failure, before all requests are dropped.
    pub(crate) fn tear(&mut self, core: &mut Core) {
        if let Self::Flash(flash) = self.inner_mut() {
            flash.tear(core);
        }
    }

    /// Processes a power failure, after all requests have been dropped.
    pub(crate) fn power_off(&mut self, core: &mut Core) {
        each!(self, part => part.power_off(core));
    }

    /// Processes the return of power.
    pub(crate) fn power_on(&mut self, core: &mut Core) {
        match self.inner_mut() {
            Self::Flash(flash) => flash.power_on(core),
            Self::Zoned(zoned) => zoned.power_on(core),
            Self::Array(array) => array.power_on(core),
            _ => {}
        }
    }

    /// Returns the array; `None` for other kinds of component.
    pub(crate) fn as_array(&self) -> Option<&Array> {
        if let Self::Array(array) = self { Some(array) } else { None }
    }

    /// Re-creates an array without data. No-op on other kinds of component.
    pub(crate) fn make_array_again(&mut self, core: &mut Core) {
        if let Self::Array(array) = self {
            array.make_again(core);
        }
    }

    /// Processes the loss of another component.
    pub(crate) fn part_lost(&mut self, core: &mut Core, part: PartId) {
        match self {
            Self::Array(array) => array.part_lost(core, part),
            Self::ReadCache(cache) => cache.part_lost(part),
            _ => {}
        }
    }

    /// Processes the replacement of another component by a new one.
    pub(crate) fn part_replaced(&mut self, core: &mut Core, part: PartId) {
        match self {
            Self::Array(array) => array.part_replaced(core, part),
            Self::ReadCache(cache) => cache.part_replaced(part),
            _ => {}
        }
    }

    /// Leaves the storage of content to the library's caller from now on.
    pub(crate) fn follow_content(&mut self) {
        if let Self::Array(array) = self {
            array.follow_content();
        }
    }

    /// Returns the state of an array; `None` for other kinds of component.
    pub(crate) fn array_state(&self) -> Option<ArrayState> {
        if let Self::Array(array) = self { Some(array.state()) } else { None }
    }

    /// Returns the counters of a read cache; `None` for other kinds of component.
    pub(crate) fn read_cache_counts(&self) -> Option<ReadCacheCounts> {
        if let Self::ReadCache(cache) = self { Some(cache.counts()) } else { None }
    }

    /// Starts a scrub of an array. No-op on other kinds of component.
    pub(crate) fn scrub(&mut self, core: &mut Core) {
        if let Self::Array(array) = self {
            array.scrub(core);
        }
    }

    /// Translates an address of a zoned device to one of the flash device behind its zones. Other components keep
    /// their addresses.
    fn stored_at(&self, at: u64) -> u64 {
        if let Self::Zoned(zoned) = self.inner() { zoned.stored_at(at) } else { at }
    }

    fn stored_units(&self, units: &Range<u64>) -> Range<u64> {
        let first = self.stored_at(units.start * UNIT_BYTES) / UNIT_BYTES;
        first..first + (units.end - units.start)
    }

    /// Describes the zones of a zoned device; `None` for other components.
    pub(crate) fn zones(&self) -> Option<Vec<Zone>> {
        if let Self::Zoned(zoned) = self.inner() { Some(zoned.zones()) } else { None }
    }

    /// Makes the page or the erase block at an offset unreadable. No-op except on flash.
    pub(crate) fn damage(&mut self, offset_bytes: u64, whole_block: bool) {
        let stored_at = self.stored_at(offset_bytes);
        if let Some(flash) = self.as_flash_mut() {
            flash.damage(stored_at, whole_block);
        }
    }

    /// Makes units unreadable. Returns false if the component does not track unreadable units; the machine then
    /// tracks them.
    pub(crate) fn damage_units(&mut self, units: &Range<u64>) -> bool {
        let units = self.stored_units(units);
        let Some(flash) = self.as_flash_mut() else { return false };
        flash.damage_units(units);
        true
    }

    /// Returns where the data of `units` is, so that the effect of a medium fault can be predicted. Disks and
    /// memory read even unwritten units from the medium.
    pub(crate) fn medium(&self, units: Range<u64>) -> Medium {
        match self.as_flash() {
            Some(flash) => flash.medium(self.stored_units(&units)),
            None => Medium { held: Held::OnMedium, has_pages: false, is_rebuilt: false },
        }
    }

    /// Makes all unreadable data of a flash device readable again. No-op on other kinds of component.
    pub(crate) fn mend(&mut self) {
        if let Some(flash) = self.as_flash_mut() {
            flash.mend();
        }
    }

    /// Injects a bug into a flash device from now on.
    pub(crate) fn inject_bug(&mut self, injected_bug: InjectedBug) {
        if let Some(flash) = self.as_flash_mut() {
            flash.injected_bug = injected_bug;
        }
    }

    /// Stores the content of writes from now on.
    pub(crate) fn keep_content(&mut self, core: &mut Core) {
        match self {
            Self::Flash(flash) => flash.keep_content(),
            Self::Zoned(zoned) => zoned.flash.keep_content(),
            Self::Disk(disk) => disk.keep_content(),
            Self::Memory(memory) => memory.keep_content(),
            Self::CloudVolume(volume) => volume.keep_content(),
            Self::Limited(limited) => limited.device.keep_content(core),
            Self::Array(array) => array.keep_content(),
            Self::AdapterPath(path) => path.keep_content(core),
            Self::ReadCache(cache) => cache.keep_content(),
            #[cfg(test)]
            Self::Mirror(mirror) => mirror.keep_content(),
        }
    }

    /// Returns the token that a read of a 4 KiB unit would return; `None` if the unit is lost, or has not been
    /// written since content storage was turned on.
    pub(crate) fn unit_value(&self, unit: u64, parts: &[Self], core: &Core) -> Option<u64> {
        match self {
            Self::Flash(flash) => flash.unit_value(unit),
            Self::Zoned(zoned) => {
                zoned.flash.unit_value(zoned.stored_at(unit * UNIT_BYTES) / UNIT_BYTES)
            }
            Self::Disk(disk) => disk.unit_value(unit),
            Self::Memory(memory) => memory.unit_value(unit),
            Self::CloudVolume(volume) => volume.unit_value(unit),
            Self::Limited(limited) => limited.device.unit_value(unit, parts, core),
            Self::Array(array) => {
                let of = |part: PartId, unit| parts[part.index()].unit_value(unit, parts, core);
                array.unit_value(unit, of)
            }
            Self::AdapterPath(path) => {
                let below = |part: PartId| parts[part.index()].unit_value(unit, parts, core);
                path.unit_value(unit, core, below)
            }
            Self::ReadCache(cache) => parts[cache.backing().index()].unit_value(unit, parts, core),
            #[cfg(test)]
            Self::Mirror(mirror) => mirror.unit_value(unit),
        }
    }

    /// Checks the invariants of this component alone.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.inner() {
            Self::Flash(flash) => flash.check(),
            Self::Zoned(zoned) => zoned.check(),
            _ => Ok(()),
        }
    }

    /// Returns the counters of a flash device; `None` for other kinds of component.
    pub(crate) fn flash_counts(&self) -> Option<Counts> {
        self.as_flash().map(|flash| flash.counts)
    }

    /// Returns two sizes in bytes: dirty data in the write buffer, and the buffer's capacity. `None` except for
    /// flash.
    pub(crate) fn buffered_bytes(&self) -> Option<(u64, u64)> {
        self.as_flash().map(FlashDevice::buffered_bytes)
    }

    /// Calls `take` with the fill level of each buffer and cache of the component, and of its burst credits.
    pub(crate) fn stores(&self, now_ns: u64, take: &mut dyn FnMut(Store)) {
        if let Self::Limited(limited) = self {
            limited.limits.stores(now_ns, take);
        }
        match self.inner() {
            Self::Flash(flash) => flash.stores(take),
            Self::Zoned(zoned) => zoned.flash.stores(take),
            Self::Disk(disk) => disk.stores(take),
            Self::ReadCache(cache) => take(cache.store()),
            _ => {}
        }
    }

    /// Returns the burst credits left under the component's limits, as a fraction from 0 to 1; `None` without credits.
    pub(crate) fn credits_share(&self, now_ns: u64) -> Option<f64> {
        match self {
            Self::Limited(limited) => limited.limits.credits_share(now_ns),
            _ => None,
        }
    }

    /// Fills the write cache of a disk up to a fraction of its size. No-op on other kinds of component.
    pub(crate) fn fill_write_cache(&mut self, share: f64, random: &mut Generator) {
        if let Self::Disk(disk) = self.inner_mut() {
            disk.fill_write_cache(share, random);
        }
    }

    /// Applies an operation to the map of a flash device, without advancing time. Returns false for other kinds of
    /// component.
    pub(crate) fn age(&mut self, op: &Op) -> bool {
        match self.inner_mut() {
            Self::Flash(flash) => flash.age(op),
            _ => return false,
        }
        true
    }

    /// Ends the aging of a flash device by [`Self::age`]. No-op on other kinds of component.
    pub(crate) fn aged(&mut self) {
        if let Self::Flash(flash) = self.inner_mut() {
            flash.aged();
        }
    }

    /// Returns the erase cycles used, as a fraction of the rated cycles; `None` except for flash.
    pub(crate) fn worn(&self) -> Option<f64> {
        self.as_flash().map(FlashDevice::worn)
    }

    /// Returns the component's resources with their busy time since the start.
    pub(crate) fn resources(&self, core: &Core) -> Vec<Resource> {
        each!(self, part => part.resources(core))
    }

    /// Returns the name of the kind of component, used in reports.
    pub(crate) fn level(&self) -> &'static str {
        match self.inner() {
            Self::Flash(_) | Self::Zoned(_) => "flash device",
            Self::Disk(_) => "disk",
            Self::Memory(_) => "memory device",
            Self::CloudVolume(_) => "cloud volume",
            Self::Limited(_) => unreachable!("limits are of a device"),
            Self::Array(_) => "array",
            Self::AdapterPath(_) => "adapter",
            Self::ReadCache(_) => "read cache",
            #[cfg(test)]
            Self::Mirror(_) => "mirror",
        }
    }

    /// Returns the time that the component's operations have spent in each phase since the start.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        each!(self, part => part.phases())
    }
}
