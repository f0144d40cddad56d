//! Disk geometry: the place of each byte (zones, cylinders, surfaces, skew), and when it passes the head.
//!
//! Angles are integers: a revolution has 6·10¹⁰ units, so that the platters turn by exactly `rpm`
//! units per ns and the angle stays exact at any time. Bytes run along a track, then over the
//! surfaces of a cylinder, then to the next cylinder inwards. The start of each track is skewed by the
//! duration of the switch to it, so a long transfer loses only the switch time.

use super::seek::SeekCurve;
use super::spec::DiskSpec;

/// Angle units per revolution: the number of ns in a minute, so that N rpm are N units per ns. `platters` limits tracks
/// and cylinders to numbers whose product with it fits in 64 bits.
const REVOLUTION: u64 = 60_000_000_000;

/// A track: one surface of one cylinder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) cylinder: u32,
    pub(super) head: u32,
}

/// Position of a byte on the platters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) track: Track,
    /// Offset of the byte from the start of the track, in bytes.
    offset: u64,
    track_bytes: u64,
    /// Angle of the byte on the platters, in units of 1/[`REVOLUTION`] turn.
    angle: u64,
}

/// Planned durations of the phases of one access by the heads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// Time to seek, change heads and settle, ns.
    pub(super) seek_ns: u64,
    /// Time until the first byte has rotated under the head, ns.
    pub(super) rotation_ns: u64,
    /// Time from the first to the last byte, including switches between tracks, ns.
    pub(super) transfer_ns: u64,
    /// Track on which the heads end.
    pub(super) end: Track,
}

impl Access {
    /// Returns an access that takes no time and leaves the heads on `track`.
    pub(super) fn none(track: Track) -> Self {
        Self { seek_ns: 0, rotation_ns: 0, transfer_ns: 0, end: track }
    }

    /// Returns the duration of the whole access, ns.
    pub(super) fn total_ns(&self) -> u64 {
        self.seek_ns + self.rotation_ns + self.transfer_ns
    }
}

#[derive(Clone, Debug)]
struct Zone {
    first_byte: u64,
    track_bytes: u64,
}

/// Geometry and motion of a disk: where each byte is, and when it passes the head.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    zones: Vec<Zone>,
    cylinders_per_zone: u64,
    heads: u64,
    rpm: u64,
    /// Angle of the platters at time 0, in units of 1/[`REVOLUTION`] turn.
    phase: u64,
    head_switch_ns: u64,
    cylinder_switch_ns: u64,
    write_settle_ns: u64,
    /// Skew from one cylinder to the next, in units of 1/[`REVOLUTION`] turn.
    cylinder_skew: u64,
    curve: SeekCurve,
    /// Size of the media cache, which precedes the disk's first byte; 0: none.
    cache_bytes: u64,
}

impl Layout {
    /// Creates the layout of a disk. The random number `draw` determines the angle of its platters at
    /// time 0.
    pub(super) fn new(spec: &DiskSpec, draw: u64) -> Self {
        let platters = spec.platters();
        let (heads, rpm) = (platters.heads, platters.rpm);
        let cylinders_per_zone = platters.cylinders_per_zone();
        let mut first_byte = 0;
        let zones = platters
            .tracks()
            .map(|track_bytes| {
                let zone = Zone { first_byte, track_bytes };
                first_byte += track_bytes * heads * cylinders_per_zone;
                zone
            })
            .collect();
        Self {
            zones,
            cylinders_per_zone,
            heads,
            rpm,
            phase: draw % REVOLUTION,
            head_switch_ns: spec.head_switch_ns,
            cylinder_switch_ns: spec.cylinder_switch_ns,
            write_settle_ns: spec.write_settle_ns,
            cylinder_skew: platters.switches_ns() * rpm % REVOLUTION,
            curve: SeekCurve::new(spec, cylinders_per_zone * u64::from(spec.zones)),
            cache_bytes: spec.cache_bytes(),
        }
    }

    /// Returns the angle on the platters of the byte at `offset` of a track.
    fn angle_of(&self, track: Track, offset: u64, track_bytes: u64) -> u64 {
        let skew = u64::from(track.cylinder) * self.cylinder_skew
            + u64::from(track.head) * (self.head_switch_ns * self.rpm % REVOLUTION);
        (skew + offset * REVOLUTION / track_bytes) % REVOLUTION
    }

    /// Returns the position of the disk's byte `byte` on the platters.
    pub(super) fn place(&self, byte: u64) -> Place {
        self.place_on_platters(self.cache_bytes + byte)
    }

    /// Returns the position of byte `byte` of the platters, which begin with the media cache.
    pub(super) fn place_on_platters(&self, byte: u64) -> Place {
        let zone = self.zones.partition_point(|z| z.first_byte <= byte) - 1;
        let Zone { first_byte, track_bytes } = self.zones[zone];
        let (index, offset) =
            ((byte - first_byte) / track_bytes, (byte - first_byte) % track_bytes);
        let cylinder = zone as u64 * self.cylinders_per_zone + index / self.heads;
        let track = Track { cylinder: cylinder as u32, head: (index % self.heads) as u32 };
        Place { track, offset, track_bytes, angle: self.angle_of(track, offset, track_bytes) }
    }

    /// Returns the offset of a cylinder's first byte on the platters, for searches among ranges sorted by offset.
    pub(super) fn first_byte(&self, cylinder: u32) -> u64 {
        let zone = u64::from(cylinder) / self.cylinders_per_zone;
        let Zone { first_byte, track_bytes } = self.zones[zone as usize];
        first_byte + u64::from(cylinder) % self.cylinders_per_zone * track_bytes * self.heads
    }

    /// Returns the angle by which the platters have turned at a time.
    fn angle_at(&self, now_ns: u64) -> u64 {
        ((now_ns % REVOLUTION) * self.rpm + self.phase) % REVOLUTION
    }

    /// Returns the time to switch to the next track in address order, ns.
    fn switch_ns(&self, track: Track) -> u64 {
        if u64::from(track.head) + 1 == self.heads {
            self.cylinder_switch_ns
        } else {
            self.head_switch_ns
        }
    }

    /// The next track in address order.
    fn next(&self, track: Track) -> Track {
        if u64::from(track.head) + 1 == self.heads {
            Track { cylinder: track.cylinder + 1, head: 0 }
        } else {
            Track { head: track.head + 1, ..track }
        }
    }

    /// Returns a lower bound of the time to reach a cylinder. A search for the best access stops where
    /// the bound exceeds the best time so far. 0 for the neighbouring cylinder, because a switch may be
    /// faster than a seek.
    pub(super) fn least_ns(&self, from: Track, cylinder: u32) -> u64 {
        match from.cylinder.abs_diff(cylinder) {
            0 | 1 => 0,
            distance => self.curve.seek_ns(u64::from(distance)),
        }
    }

    /// Returns the time to move the heads from one track to another and settle, ns. A `write` needs more time to settle
    /// than a read.
    fn move_ns(&self, from: Track, to: Track, write: bool) -> u64 {
        if from == to {
            return 0;
        }
        if self.next(from) == to {
            return self.switch_ns(from);
        }
        let seek = if from.cylinder == to.cylinder {
            self.head_switch_ns
        } else {
            self.curve.seek_ns(u64::from(from.cylinder.abs_diff(to.cylinder)))
        };
        seek + if write { self.write_settle_ns } else { 0 }
    }

    /// Returns the seek time (ns) and the rotational wait (units of angle) from a track to a
    /// position, beginning at `now_ns`.
    fn position(&self, now_ns: u64, from: Track, to: &Place, write: bool) -> (u64, u64) {
        let seek_ns = self.move_ns(from, to.track, write);
        let angle = self.angle_at(now_ns + seek_ns);
        (seek_ns, (to.angle + REVOLUTION - angle) % REVOLUTION)
    }

    /// Returns seek time plus rotational wait in ns, the cost by which schedulers compare requests.
    #[inline]
    pub(super) fn positioning_ns(&self, now_ns: u64, from: Track, to: &Place, write: bool) -> u64 {
        let (seek_ns, wait) = self.position(now_ns, from, to, write);
        seek_ns + wait / self.rpm
    }

    /// Plans the access to `len_bytes` starting at a position. Times are rounded down, because a head that is late
    /// for the next byte would lose a revolution.
    pub(super) fn access(
        &self,
        now_ns: u64,
        from: Track,
        to: &Place,
        len_bytes: u64,
        write: bool,
    ) -> Access {
        let (seek_ns, wait) = self.position(now_ns, from, to, write);
        let rotation_ns = wait / self.rpm;
        let (mut place, mut left, mut units) = (*to, len_bytes, wait);
        loop {
            let here = left.min(place.track_bytes - place.offset);
            let turn = |offset: u64| offset * REVOLUTION / place.track_bytes;
            units += turn(place.offset + here) - turn(place.offset);
            left -= here;
            if left == 0 {
                break;
            }
            units += self.switch_ns(place.track) * self.rpm;
            let track = self.next(place.track);
            let zone = u64::from(track.cylinder) / self.cylinders_per_zone;
            place = Place {
                track,
                offset: 0,
                track_bytes: self.zones[zone as usize].track_bytes,
                angle: 0,
            };
        }
        let transfer_ns = units / self.rpm - rotation_ns;
        Access { seek_ns, rotation_ns, transfer_ns, end: place.track }
    }

    /// Extends a planned access, which begins at `now_ns`, by the access that follows it.
    pub(super) fn and_then(
        &self,
        now_ns: u64,
        before: &Access,
        to: &Place,
        len_bytes: u64,
        write: bool,
    ) -> Access {
        let next = self.access(now_ns + before.total_ns(), before.end, to, len_bytes, write);
        Access {
            seek_ns: before.seek_ns + next.seek_ns,
            rotation_ns: before.rotation_ns + next.rotation_ns,
            transfer_ns: before.transfer_ns + next.transfer_ns,
            end: next.end,
        }
    }

    /// Returns the number of bytes from a position to the end of its track.
    pub(super) fn rest_of_track(place: &Place) -> u64 {
        place.track_bytes - place.offset
    }

    /// Returns the time in which `len_bytes` of a track pass under the head, rounded down, ns.
    pub(super) fn run_ns(&self, place: &Place, len_bytes: u64) -> u64 {
        let units = u128::from(REVOLUTION) * u128::from(len_bytes);
        (units / (u128::from(place.track_bytes) * u128::from(self.rpm))) as u64
    }

    /// Returns the number of bytes of a track that pass under the head in `time_ns`, rounded down.
    pub(super) fn bytes_in(&self, place: &Place, time_ns: u64) -> u64 {
        let units = u128::from(time_ns) * u128::from(self.rpm);
        ((units * u128::from(place.track_bytes) / u128::from(REVOLUTION)) as u64)
            .min(Self::rest_of_track(place))
    }
}
