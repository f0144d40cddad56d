//! The specification of a system: a host, components (devices, arrays and others), and volumes. Each volume is a tree
//! of components.

use super::ArrayShape;
use super::{
    AdapterPath, Adapters, Array, Attach, Device, Host, Kind, Limit, Preconditioned, ReadCache,
    SECTOR_BYTES, Written, Zones,
};
use crate::part_id::PartId;
use iodyno_raid::{LayoutError, Level};
use std::collections::BTreeSet;
use std::ops::Range;

/// A server with its devices, arrays and volumes: the specification from which a machine is built.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// Name in the catalog.
    pub name: String,
    /// The server without its devices.
    pub host: Host,
    /// The RAID adapters through which hosts access all volumes; `None`: devices are attached directly to the
    /// host.
    pub adapters: Option<Adapters>,
    /// Limits that the system's cloud volumes share, such as those of a cloud instance. Empty: none.
    pub limits: Vec<Limit>,
    /// The components, indexed by [`PartId`]. Devices come first, so the index of a device is also its [`PartId`].
    /// Every other component comes after its children.
    pub parts: Vec<Part>,
    /// Volumes that hosts can use. The index in this list is the volume's number.
    pub volumes: Vec<Volume>,
}

/// An address space that a host can use. Its devices and arrays may be shared with other volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Name of the volume, such as that of its device.
    pub name: String,
    /// The component that receives the host's requests.
    pub root: PartId,
    /// Preconditioning of all devices below the volume, before the machine starts.
    pub state: Preconditioned,
}

/// A component that receives requests from a host or from another component.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A storage device, attached to a socket.
    Device(PlacedDevice),
    /// A RAID array of several components.
    Array(Array),
    /// A path through RAID adapters to an array or device.
    AdapterPath(AdapterPath),
    /// A fast device that caches reads of another component.
    ReadCache(ReadCache),
    /// A mirror, which sends reads to its children in turn, and everything else to all of them.
    #[cfg(test)]
    Mirror(Vec<PartId>),
}

/// Volumes to combine into an array, with the array's shape and name. `None`: the range is a single volume, which
/// remains unchanged.
pub type Group = (Range<usize>, Option<(ArrayShape, String)>);

/// A device, and the CPU socket to which it is attached.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedDevice {
    pub device: Device,
    /// CPU socket to which the device is attached, counted from 0.
    pub socket: u32,
}

impl PlacedDevice {
    /// Returns the CPU cost of an I/O to the device in addition to the load generator's: ns per I/O, and ns per byte.
    pub(crate) fn host_cost(&self) -> (u64, f64) {
        if let Kind::Flash(flash) = &self.device.kind
            && let Attach::Link { host_ns, host_bytes_per_s, .. } = flash.attach
        {
            return (host_ns, 1e9 / host_bytes_per_s);
        }
        (0, 0.0)
    }

    /// Zones of the device; `None` unless it is a zoned device.
    pub fn zones(&self) -> Option<Zones> {
        if let Kind::Flash(flash) = &self.device.kind { flash.zones } else { None }
    }
}

impl Part {
    /// Returns the components to which this one sends requests.
    pub fn children(&self) -> impl Iterator<Item = PartId> {
        let (children, more): (&[PartId], &[PartId]) = match self {
            Self::Device(_) => (&[], &[]),
            Self::Array(array) => (&array.members, &array.spares),
            Self::AdapterPath(path) => (std::slice::from_ref(&path.child), &[]),
            Self::ReadCache(cache) => {
                (std::slice::from_ref(&cache.backing), std::slice::from_ref(&cache.fast))
            }
            #[cfg(test)]
            Self::Mirror(children) => (children, &[]),
        };
        children.iter().chain(more).copied()
    }

    fn device(&self) -> Option<&PlacedDevice> {
        match self {
            Self::Device(placed) => Some(placed),
            Self::Array(_) | Self::AdapterPath(_) | Self::ReadCache(_) => None,
            #[cfg(test)]
            Self::Mirror(_) => None,
        }
    }
}

impl System {
    /// Creates a server without devices.
    pub fn new(name: impl Into<String>, host: Host) -> Self {
        Self {
            name: name.into(),
            host,
            adapters: None,
            limits: Vec::new(),
            parts: Vec::new(),
            volumes: Vec::new(),
        }
    }

    /// Adds a preconditioned device as a separate volume (JBOD).
    pub fn add_device(&mut self, device: Device, state: Preconditioned, socket: u32) {
        let root = PartId(self.parts.len() as u32);
        self.volumes.push(Volume { name: device.name.clone(), root, state });
        self.parts.push(Part::Device(PlacedDevice { device, socket }));
    }

    /// Combines volumes into arrays. Each range becomes one volume with the given name and the preconditioning of its
    /// first volume. The ranges must be in order and cover all volumes. A range without a shape must be one volume,
    /// which remains unchanged. In a system with adapters, the first call also puts all volumes, including the new
    /// arrays, behind the adapters. Later calls create arrays in the host.
    ///
    /// # Errors
    /// The violated rule, and the index of the range.
    pub fn group(&mut self, ranges: Vec<Group>) -> Result<(), (usize, LayoutError)> {
        let alone = std::mem::take(&mut self.volumes);
        for (number, (range, shape)) in ranges.into_iter().enumerate() {
            let Some((shape, name)) = shape else {
                self.volumes.extend_from_slice(&alone[range]);
                continue;
            };
            let members: Vec<PartId> = alone[range.clone()].iter().map(|v| v.root).collect();
            let bytes: Vec<u64> = members.iter().map(|&m| self.part_capacity_bytes(m)).collect();
            let is_of_arrays = !matches!(self.parts[members[0].index()], Part::Device(_));
            let ignores_trims = is_of_arrays && self.has_parity(members[0]);
            let array = shape.in_host(members, &bytes).map_err(|broken| (number, broken))?;
            let is_redundant = array.layout.is_redundant();
            if is_redundant {
                array.members.iter().for_each(|&member| self.become_branch(member));
            }
            let root = PartId(self.parts.len() as u32);
            let ignores_trims = ignores_trims && is_redundant;
            self.parts.push(Part::Array(Array { is_of_arrays, ignores_trims, ..array }));
            self.volumes.push(Volume { name, root, state: alone[range.start].state });
        }
        let is_path = |part: &Part| matches!(part, Part::AdapterPath(_));
        if self.adapters.is_some() && !self.parts.iter().any(is_path) {
            (0..self.volumes.len()).for_each(|volume| self.lead_through_adapters(volume));
        }
        Ok(())
    }

    /// Returns whether a component is, or contains, an array with parity.
    fn has_parity(&self, part: PartId) -> bool {
        let part = &self.parts[part.index()];
        let has = matches!(part, Part::Array(array) if array.layout.level().parities() > 0);
        has || part.children().any(|child| self.has_parity(child))
    }

    /// Marks all arrays at or below a component as branches: arrays below another array that is redundant.
    fn become_branch(&mut self, part: PartId) {
        if let Part::Array(array) = &mut self.parts[part.index()] {
            array.is_branch = true;
        }
        let children: Vec<PartId> = self.parts[part.index()].children().collect();
        for child in children {
            self.become_branch(child);
        }
    }

    /// Turns the last N volumes into read caches in the host, where N is the length of `of`. The i-th of them caches
    /// the volume `of[i].0` in `of[i].1` bytes (0: the whole device).
    ///
    /// # Panics
    /// If the system has fewer volumes.
    pub fn cache_reads(&mut self, of: &[(usize, u64)]) {
        let caches = self.volumes.split_off(self.volumes.len() - of.len());
        for (&(volume, bytes), fast) in of.iter().zip(caches) {
            let backing = self.volumes[volume].root;
            let capacity_bytes = self.part_capacity_bytes(backing);
            let fast_bytes = self.part_capacity_bytes(fast.root);
            let bytes = if bytes == 0 { fast_bytes } else { bytes.min(fast_bytes) };
            self.volumes[volume].root = PartId(self.parts.len() as u32);
            let of = &mut self.volumes[volume].name;
            *of = format!("{of}, reads cached on {}", fast.name);
            let fast = fast.root;
            self.parts.push(Part::ReadCache(ReadCache { fast, backing, bytes, capacity_bytes }));
        }
    }

    /// Inserts an adapter path between the host and a volume.
    fn lead_through_adapters(&mut self, volume: usize) {
        let child = self.volumes[volume].root;
        let capacity_bytes = self.part_capacity_bytes(child);
        let number = volume as u32;
        let (mut is_raid6, mut is_device) = (false, true);
        // Devices and levels without strips are destaged in pieces of the size of a strip.
        let mut stripe_bytes = self.adapters.as_ref().map_or(0, |adapters| adapters.strip_bytes);
        let has_cache = self.has_cache();
        if let Part::Array(array) = &mut self.parts[child.index()] {
            array.path = Some(number);
            // The journal is in the cache's memory.
            array.journal = has_cache;
            let level = array.layout.level();
            (is_raid6, is_device) = (level == Level::Raid6, false);
            if level.has_strips() {
                stripe_bytes = array.layout.stripe_sectors() * SECTOR_BYTES;
            }
        }
        self.volumes[volume].root = PartId(self.parts.len() as u32);
        self.parts.push(Part::AdapterPath(AdapterPath {
            child,
            is_device,
            number,
            is_raid6,
            capacity_bytes,
            stripe_bytes,
        }));
    }

    /// Returns the number of flash DIMMs per driver thread; `None` unless DIMMs share threads.
    pub fn dimms_per_driver_thread(&self) -> Option<u32> {
        let shared = self.devices().filter_map(|placed| match &placed.device.kind {
            Kind::Flash(flash) => match flash.attach {
                Attach::MemoryChannel { devices_per_thread, .. } => Some(devices_per_thread),
                Attach::Link { .. } => None,
            },
            _ => None,
        });
        let shared: Vec<u32> = shared.collect();
        shared.iter().copied().max().filter(|&most| most > 1 && shared.len() > 1)
    }

    /// Returns all devices. The position in this sequence is the device's number, from 0.
    pub fn devices(&self) -> impl Iterator<Item = &PlacedDevice> + Clone {
        self.parts.iter().filter_map(Part::device)
    }

    /// Same as [`Self::devices`], but with mutable references.
    pub fn devices_mut(&mut self) -> impl Iterator<Item = &mut PlacedDevice> {
        self.parts.iter_mut().filter_map(|part| match part {
            Part::Device(placed) => Some(placed),
            Part::Array(_) | Part::AdapterPath(_) | Part::ReadCache(_) => None,
            #[cfg(test)]
            Part::Mirror(_) => None,
        })
    }

    /// Returns whether a volume is a single device that is not behind adapters.
    pub fn is_device(&self, volume: u32) -> bool {
        self.parts[self.volumes[volume as usize].root.index()].device().is_some()
    }

    /// Returns the array of a volume, which may be behind adapters or a read cache; `None` without an array.
    pub fn array_of(&self, volume: u32) -> Option<(PartId, &Array)> {
        let root = self.volumes[volume as usize].root;
        let part = match &self.parts[root.index()] {
            Part::AdapterPath(path) => path.child,
            Part::ReadCache(cache) => cache.backing,
            _ => root,
        };
        match &self.parts[part.index()] {
            Part::Array(array) => Some((part, array)),
            _ => None,
        }
    }

    /// Returns all paths through adapters, in the order of [`AdapterPath::number`].
    pub fn paths(&self) -> impl Iterator<Item = (PartId, &AdapterPath)> {
        (0..).map(PartId).zip(&self.parts).filter_map(|(id, part)| match part {
            Part::AdapterPath(path) => Some((id, path)),
            _ => None,
        })
    }

    /// Returns the [`AdapterPath::number`] of each of a volume's paths through adapters.
    pub(crate) fn paths_of(&self, volume: u32) -> impl Iterator<Item = u32> {
        self.parts_of(volume).filter_map(|part| match &self.parts[part.index()] {
            Part::AdapterPath(path) => Some(path.number),
            _ => None,
        })
    }

    /// Whether the system's adapters have a write cache.
    pub fn has_cache(&self) -> bool {
        self.adapters.as_ref().is_some_and(|adapters| adapters.cache.is_some())
    }

    /// Returns whether devices and volumes may be numbered differently: true if the system has an array or a read
    /// cache.
    pub fn numbers_devices(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Array(_) | Part::ReadCache(_)))
    }

    /// Returns all components of a volume, each once, children before their parents.
    pub fn parts_of(&self, volume: u32) -> impl Iterator<Item = PartId> {
        self.parts_below(self.volumes[volume as usize].root)
    }

    /// Returns the devices at or below a component.
    pub fn devices_below(&self, part: PartId) -> impl Iterator<Item = PartId> {
        self.parts_below(part).filter(|part| self.parts[part.index()].device().is_some())
    }

    /// Returns the arrays above a component, lowest first.
    pub fn arrays_above(&self, part: PartId) -> Vec<PartId> {
        let (mut below, mut arrays) = (BTreeSet::from([part]), Vec::new());
        // Parts follow their children.
        for (id, part) in (0..).map(PartId).zip(&self.parts) {
            if part.children().any(|child| below.contains(&child)) {
                below.insert(id);
                if matches!(part, Part::Array(_)) {
                    arrays.push(id);
                }
            }
        }
        arrays
    }

    fn parts_below(&self, part: PartId) -> impl Iterator<Item = PartId> + use<> {
        let mut found = BTreeSet::new();
        let mut open = vec![part];
        while let Some(part) = open.pop() {
            if found.insert(part) {
                open.extend(self.parts[part.index()].children());
            }
        }
        found.into_iter()
    }

    /// Returns the devices in a volume's tree of components.
    pub fn devices_of(&self, volume: u32) -> impl Iterator<Item = &PlacedDevice> {
        self.parts_of(volume).filter_map(|part| self.parts[part.index()].device())
    }

    /// Size of a volume's address space, bytes.
    pub fn capacity_bytes(&self, volume: u32) -> u64 {
        self.part_capacity_bytes(self.volumes[volume as usize].root)
    }

    /// Returns the capacity in bytes that a component offers to its parents.
    pub fn part_capacity_bytes(&self, part: PartId) -> u64 {
        match &self.parts[part.index()] {
            Part::Device(placed) => placed.device.capacity_bytes(),
            Part::Array(array) => array.layout.sectors() * SECTOR_BYTES,
            Part::AdapterPath(path) => path.capacity_bytes,
            Part::ReadCache(cache) => cache.capacity_bytes,
            #[cfg(test)]
            Part::Mirror(children) => {
                children.iter().map(|&c| self.part_capacity_bytes(c)).min().unwrap_or(0)
            }
        }
    }

    /// The socket of a volume's first device.
    pub(crate) fn socket(&self, volume: u32) -> u32 {
        self.devices_of(volume).next().map_or(0, |placed| placed.socket)
    }

    /// Checks that the system can be served to clients.
    ///
    /// # Errors
    /// The system has a zoned device. No frontend can present zones to clients.
    pub fn check_served(&self) -> Result<(), String> {
        match self.devices().find(|placed| placed.zones().is_some()) {
            Some(placed) => Err(format!(
                "{} is a zoned device, which can be emulated in virtual time only: use `model:` instead",
                placed.device.name
            )),
            None => Ok(()),
        }
    }

    /// Returns whether a volume includes a rotating disk.
    pub fn is_rotational(&self, volume: u32) -> bool {
        let is_disk = |kind: &Kind| matches!(kind, Kind::Disk(_));
        self.devices_of(volume).any(|placed| is_disk(&placed.device.kind))
    }

    /// Returns whether a power failure erases a volume, because all its devices are memory without backup
    /// power.
    pub fn is_emptied_by_power_failure(&self, volume: u32) -> bool {
        let is_emptied = |kind: &Kind| matches!(kind, Kind::Memory(m) if !m.protected);
        self.devices_of(volume).all(|placed| is_emptied(&placed.device.kind))
    }

    /// Returns whether all devices of a volume have internal parity from which they rebuild unreadable data.
    pub fn rebuilds(&self, volume: u32) -> bool {
        let has_parity = |kind: &Kind| matches!(kind, Kind::Flash(f) if f.nand.parity_stripe > 0);
        self.devices_of(volume).all(|placed| has_parity(&placed.device.kind))
    }

    /// Returns the preconditioning of each component: that of its volume. The members of a JBOD have the states of their
    /// parts of it.
    pub(crate) fn states(&self) -> Vec<Preconditioned> {
        let mut states = vec![Preconditioned { how: Written::Fresh, fill: 0.0 }; self.parts.len()];
        for volume in &self.volumes {
            self.give_state(volume.root, volume.state, &mut states);
        }
        states
    }

    fn give_state(&self, part: PartId, state: Preconditioned, states: &mut [Preconditioned]) {
        states[part.index()] = state;
        let parent = &self.parts[part.index()];
        let all_bytes = self.part_capacity_bytes(part) as f64;
        let mut start_bytes = 0.0;
        for child in parent.children() {
            let mut of_child = state;
            if let Part::Array(array) = parent
                && array.layout.level() == Level::Jbod
                && array.members.contains(&child)
            {
                let len_bytes = self.part_capacity_bytes(child) as f64;
                let start = start_bytes / all_bytes;
                of_child = state.of_part(start..(start + len_bytes / all_bytes).min(1.0));
                start_bytes += len_bytes;
            }
            self.give_state(child, of_child, states);
        }
    }

    /// Checks that the volumes' roots exist, that each component comes after its children, and that each zoned device is
    /// a volume of its own.
    ///
    /// # Errors
    /// The first component or volume that violates these rules.
    pub fn check_trees(&self) -> Result<(), String> {
        for (number, part) in self.parts.iter().enumerate() {
            if let Some(child) = part.children().find(|child| child.index() >= number) {
                return Err(format!("part {number} must come after part {child}, its child"));
            }
        }
        for part in self.parts.iter().filter(|part| part.device().is_none()) {
            let zones = |child: PartId| self.parts[child.index()].device()?.zones();
            if part.children().any(|child| zones(child).is_some()) {
                return Err("a zoned device can't be part of an array, or behind adapters or a read cache: use it as a volume of its own".to_owned());
            }
        }
        let absent = |volume: &&Volume| volume.root.index() >= self.parts.len();
        match self.volumes.iter().find(absent) {
            Some(Volume { name, root, .. }) => Err(format!("{name}: there is no part {root}")),
            None => Ok(()),
        }
    }
}
