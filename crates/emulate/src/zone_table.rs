//! States and write pointers of a device's zones, without time or data (NVM Express Zoned Namespace Command Set 2.1).

use iodyno_units::ZoneError;

/// Granularity of writes to a zone.
pub(crate) const BLOCK_BYTES: u64 = crate::content_event::UNIT_BYTES;

/// State of a zone. The states of failing zones (read only, offline) do not occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// The zone contains no data, and counts neither as open nor as active.
    Empty,
    /// Opened by a write.
    ImplicitlyOpen,
    /// Opened by a command, so that the device does not close the zone to open another one.
    ExplicitlyOpen,
    /// Active, but neither open nor full.
    Closed,
    /// Written up to its capacity, or finished.
    Full,
}

impl ZoneState {
    /// Whether the zone counts against the limit of open zones.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::ImplicitlyOpen | Self::ExplicitlyOpen)
    }

    /// Whether the zone is open or closed, and therefore counts against the limit of active zones.
    pub const fn is_active(self) -> bool {
        self.is_open() || matches!(self, Self::Closed)
    }
}

/// A command that changes a zone's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneAction {
    /// Opens a zone explicitly, so that the device does not close it to open another one.
    Open,
    /// Closes an open zone, which stays active and can still be written.
    Close,
    /// Makes a zone full. Space that was not written stays unwritten.
    Finish,
    /// Makes a zone empty, and discards its data.
    Reset,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    state: ZoneState,
    /// Distance of the write pointer from the zone's start, bytes.
    pointer: u64,
    /// Sequence number of the zone's latest opening, to find the zone that was opened first.
    opened: u64,
    /// Whether a command, rather than writes, made the zone full.
    finished: bool,
}

/// States and write pointers of a device's zones, and the numbers of open and active zones.
#[derive(Clone, Debug)]
pub(crate) struct ZoneTable {
    zones: Vec<Zone>,
    /// Writable bytes of each zone.
    capacity: u64,
    open_max: u32,
    active_max: u32,
    open: u32,
    active: u32,
    openings: u64,
}

impl ZoneTable {
    /// Creates `count` zones of `capacity` writable bytes, of which the first `full` are full.
    pub(crate) fn new(
        count: usize,
        full: usize,
        capacity: u64,
        open_max: u32,
        active_max: u32,
    ) -> Self {
        let zone = |number| {
            let is_full = number < full;
            let state = if is_full { ZoneState::Full } else { ZoneState::Empty };
            Zone { state, pointer: if is_full { capacity } else { 0 }, opened: 0, finished: false }
        };
        let zones = (0..count).map(zone).collect();
        Self { zones, capacity, open_max, active_max, open: 0, active: 0, openings: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.zones.len()
    }

    /// State of a zone, and distance of its write pointer from its start, bytes.
    pub(crate) fn zone(&self, zone: usize) -> (ZoneState, u64) {
        (self.zones[zone].state, self.zones[zone].pointer)
    }

    /// Accepts a write of `len` bytes at a distance from the zone's start, and moves the write pointer. An error
    /// changes nothing.
    pub(crate) fn write(&mut self, zone: usize, at: u64, len: u64) -> Result<(), ZoneError> {
        let found = self.zones[zone];
        if found.state == ZoneState::Full {
            return Err(ZoneError::Full);
        }
        if at + len > self.capacity {
            return Err(ZoneError::Boundary);
        }
        if at != found.pointer || !len.is_multiple_of(BLOCK_BYTES) {
            return Err(ZoneError::InvalidWrite);
        }
        self.append(zone, len).map(|_| ())
    }

    /// Accepts an append of `len` bytes. Returns the distance of the appended data from the zone's start. An error
    /// changes nothing.
    pub(crate) fn append(&mut self, zone: usize, len: u64) -> Result<u64, ZoneError> {
        let Zone { state, pointer: at, .. } = self.zones[zone];
        if state == ZoneState::Full {
            return Err(ZoneError::Full);
        }
        if at + len > self.capacity {
            return Err(ZoneError::Boundary);
        }
        if !len.is_multiple_of(BLOCK_BYTES) {
            return Err(ZoneError::InvalidWrite);
        }
        if !state.is_open() {
            self.open(zone, ZoneState::ImplicitlyOpen)?;
        }
        self.zones[zone].pointer = at + len;
        if at + len == self.capacity {
            self.change(zone, ZoneState::Full);
        }
        Ok(at)
    }

    /// Changes a zone's state by a command. An error changes nothing.
    pub(crate) fn manage(&mut self, zone: usize, action: ZoneAction) -> Result<(), ZoneError> {
        use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen};
        let state = self.zones[zone].state;
        match (action, state) {
            (ZoneAction::Open, Full) | (ZoneAction::Close, Empty | Full) => {
                return Err(ZoneError::InvalidTransition);
            }
            (ZoneAction::Open, ImplicitlyOpen) => self.change(zone, ExplicitlyOpen),
            (ZoneAction::Open, Empty | Closed) => self.open(zone, ExplicitlyOpen)?,
            (ZoneAction::Close, _) => self.change(zone, Closed),
            (ZoneAction::Finish, _) => {
                self.change(zone, Full);
                self.zones[zone].finished |= state != Full;
                self.zones[zone].pointer = self.capacity;
            }
            (ZoneAction::Reset, _) => {
                self.change(zone, Empty);
                (self.zones[zone].pointer, self.zones[zone].finished) = (0, false);
            }
            (ZoneAction::Open, ExplicitlyOpen) => {}
        }
        Ok(())
    }

    /// Opens an empty or closed zone. At the limit of open zones, first closes the implicitly open zone that was opened
    /// earliest.
    fn open(&mut self, zone: usize, state: ZoneState) -> Result<(), ZoneError> {
        if !self.zones[zone].state.is_active() && self.active == self.active_max {
            return Err(ZoneError::TooManyActive);
        }
        if self.open == self.open_max {
            let all = self.zones.iter().enumerate();
            let implicit = all.filter(|(_, zone)| zone.state == ZoneState::ImplicitlyOpen);
            let first = implicit.min_by_key(|(_, zone)| zone.opened).map(|(number, _)| number);
            self.change(first.ok_or(ZoneError::TooManyOpen)?, ZoneState::Closed);
        }
        self.openings += 1;
        self.zones[zone].opened = self.openings;
        self.change(zone, state);
        Ok(())
    }

    fn change(&mut self, zone: usize, to: ZoneState) {
        let from = std::mem::replace(&mut self.zones[zone].state, to);
        self.open = self.open + u32::from(to.is_open()) - u32::from(from.is_open());
        self.active = self.active + u32::from(to.is_active()) - u32::from(from.is_active());
    }

    /// Processes a power failure: closes open zones, and sets each write pointer to the end of the surviving data.
    /// `held` returns whether a zone's block, counted from the zone's start, survived. A zone with data becomes full if
    /// it would exceed the limit of active zones.
    pub(crate) fn power_off(&mut self, held: impl Fn(usize, u64) -> bool) {
        let blocks = self.capacity / BLOCK_BYTES;
        let unfinished = (0..self.zones.len()).filter(|&zone| !self.zones[zone].finished);
        for zone in unfinished.collect::<Vec<_>>() {
            let mut end = self.zones[zone].pointer / BLOCK_BYTES;
            while end > 0 && !held(zone, end - 1) {
                end -= 1;
            }
            while end < blocks && held(zone, end) {
                end += 1;
            }
            self.change(zone, ZoneState::Empty);
            let is_full = end == blocks || (end > 0 && self.active == self.active_max);
            let state = if is_full { ZoneState::Full } else { ZoneState::Closed };
            self.change(zone, if end == 0 { ZoneState::Empty } else { state });
            self.zones[zone].finished = is_full && end < blocks;
            self.zones[zone].pointer = if is_full { self.capacity } else { end * BLOCK_BYTES };
        }
    }

    /// Checks the counts of open and active zones against the limits and the states.
    pub(crate) fn check(&self) -> Result<(), String> {
        let count = |of: fn(ZoneState) -> bool| {
            self.zones.iter().filter(|zone| of(zone.state)).count() as u32
        };
        let (open, active) = (count(ZoneState::is_open), count(ZoneState::is_active));
        if (open, active) != (self.open, self.active)
            || open > self.open_max
            || active > self.active_max
        {
            return Err(format!("counted {open} open and {active} active zones, but: {self:?}"));
        }
        Ok(())
    }
}
