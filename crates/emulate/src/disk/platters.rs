//! Size of a disk's tracks and number of its cylinders, by the rates and the capacity of a data sheet.

use iodyno_units::human;

/// Maximum capacity of a track: 2^28 bytes times the angle units of a revolution fit in 64 bits.
const TRACK_BYTES_MAX: u64 = 1 << 28;
/// Maximum number of cylinders, of which each adds a skew of less than a revolution: see [`TRACK_BYTES_MAX`].
const CYLINDERS_MAX: u64 = 1 << 28;
/// Size of a sector, of which a track has a whole number, bytes.
const SECTOR_BYTES: u64 = 512;

/// The properties of a disk that determine its tracks and cylinders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Platters {
    /// Capacity, including the media cache of a shingled disk.
    pub(crate) bytes: u64,
    pub(crate) rpm: u64,
    pub(crate) heads: u64,
    pub(crate) zones: u64,
    /// Sequential rate in the outermost zone, including switches.
    pub(crate) outer_bytes_per_s: f64,
    /// Sequential rate in the innermost zone, including switches.
    pub(crate) inner_bytes_per_s: f64,
    pub(crate) head_switch_ns: u64,
    pub(crate) cylinder_switch_ns: u64,
}

/// A quantity that is too large for the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// Bytes of the longest track.
    TrackBytes(u64),
    /// Number of cylinders.
    Cylinders(u64),
}

impl Excess {
    /// Error message, in one sentence.
    pub(crate) fn message(self) -> String {
        match self {
            Self::TrackBytes(bytes) => format!(
                "a track would hold {}, but the emulator's maximum is {}",
                human::size(bytes),
                human::size(TRACK_BYTES_MAX)
            ),
            Self::Cylinders(count) => format!(
                "the disk would have {} cylinders, but the emulator's maximum is {}",
                human::whole(count),
                human::whole(CYLINDERS_MAX)
            ),
        }
    }
}

impl Platters {
    /// Duration of all switches of a cylinder, ns.
    pub(super) fn switches_ns(&self) -> u64 {
        (self.heads - 1) * self.head_switch_ns + self.cylinder_switch_ns
    }

    /// Returns the capacity of a track, by zone from the outermost one.
    pub(super) fn tracks(&self) -> impl Iterator<Item = u64> {
        // The sequential rate includes the switches: a cylinder's capacity is the rate times the duration of all its
        // revolutions and switches.
        let heads = self.heads as f64;
        let cycle_s = (60.0 * heads / self.rpm as f64) + self.switches_ns() as f64 * 1e-9;
        let (outer, inner) = (self.outer_bytes_per_s, self.inner_bytes_per_s);
        let last = (self.zones - 1).max(1) as f64;
        (0..self.zones).map(move |zone| {
            let rate = outer + (inner - outer) * (zone as f64 / last);
            let sectors = (rate * cycle_s / heads / SECTOR_BYTES as f64 + 0.5) as u64;
            sectors.max(1) * SECTOR_BYTES
        })
    }

    /// Returns the number of cylinders of each zone.
    pub(super) fn cylinders_per_zone(&self) -> u64 {
        self.bytes.div_ceil(self.tracks().sum::<u64>() * self.heads)
    }

    /// Checks that positions and angles on the platters fit in 64 bits.
    ///
    /// # Errors
    /// A track, or the number of cylinders, is too large.
    pub(crate) fn check(&self) -> Result<(), Excess> {
        let track_bytes = self.tracks().max().unwrap_or(0);
        if track_bytes > TRACK_BYTES_MAX {
            return Err(Excess::TrackBytes(track_bytes));
        }
        let cylinders = self.cylinders_per_zone() * self.zones;
        if cylinders > CYLINDERS_MAX {
            return Err(Excess::Cylinders(cylinders));
        }
        Ok(())
    }
}
