//! Parameters of a disk and their allowed values. Most are in data sheets.

use super::platters::{Excess, Platters};

/// The order in which the heads serve waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Requests are served in the order of arrival.
    Fifo,
    /// Shortest access time first: least seek plus rotational wait, among the oldest `window` requests. The access time
    /// is weighted by `1 - waited / age_max`, but at least by 1/4 (ASATF; Jacobson and Wilkes, 1991). While the oldest
    /// request has waited `age_max` or longer, every second access serves the oldest request. If every access did, a
    /// long queue would permanently be served in order of arrival, at a third of the rate.
    Satf {
        /// Intended upper bound of a request's wait, ns. A low bound costs throughput, a high one increases
        /// tail latency.
        age_max_ns: u64,
        /// Maximum number of requests that the firmware compares, 1 to 65 536. Destaging compares up to the
        /// same number of buffered writes, without aging.
        window: u32,
    },
}

/// Shingled tracks whose bands the disk itself rewrites (drive-managed SMR). Sizes are multiples of 4 096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shingled {
    /// Size of a band: 64 KiB to 1 GiB. A band is rewritten as a whole.
    pub band_bytes: u64,
    /// Size of the media cache, which is at the outer edge of the platters and not part of the disk's capacity. At
    /// least one band, at most 1 TiB.
    pub cache_bytes: u64,
    /// Maximum number of ranges in the media cache, 1 to 16 777 216.
    pub entries_max: u32,
    /// Time without requests after which the disk cleans bands; `None`: it cleans only when the media cache is full.
    pub idle_ns: Option<u64>,
}

/// Parameters of a disk. Times in ns, sizes in bytes, rates in bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskSpec {
    /// Capacity, a multiple of 512.
    pub capacity_bytes: u64,
    /// Revolutions per minute, 1 000 to 30 000.
    pub rpm: u32,
    /// Recorded surfaces, 1 to 64.
    pub heads: u32,
    /// Number of zones, 1 to 1 000. All zones have the same number of cylinders; all tracks of a zone have the same
    /// capacity.
    pub zones: u32,
    /// Sequential rate in the outermost zone as printed in data sheets ("sustained"), including head and
    /// cylinder switches. The media rate under the head is therefore higher.
    pub outer_bytes_per_s: f64,
    /// Sequential rate in the innermost zone, including switches. The rates of the zones in between are
    /// interpolated linearly.
    pub inner_bytes_per_s: f64,
    /// Seek time to the neighbouring cylinder for a read, including settling.
    pub track_to_track_ns: u64,
    /// Mean seek time for a read, over all pairs of cylinders.
    pub average_seek_ns: u64,
    /// Seek time from the first to the last cylinder, for a read.
    pub full_stroke_ns: u64,
    /// Extra settling time of a write compared with a read. Applies to each seek or head change, except
    /// when a transfer continues on the next track.
    pub write_settle_ns: u64,
    /// Time to switch from the end of a track to the next surface of the same cylinder. Also the skew
    /// between tracks.
    pub head_switch_ns: u64,
    /// Time to switch from the end of a cylinder to the next one. Also the skew between cylinders.
    pub cylinder_switch_ns: u64,
    /// Controller time per command, before any other work on the command. The controller processes one command at a
    /// time, in parallel with the heads' work on earlier commands.
    pub command_ns: u64,
    /// Bandwidth of the host link, which is shared by both directions.
    pub link_bytes_per_s: f64,
    /// Queue depth of the disk, 1 to 1 024 (SATA: 32); further commands wait in the host, in order.
    pub queue_max: u32,
    /// Order in which the heads serve waiting requests.
    pub scheduler: Scheduler,
    /// Size of the write buffer in bytes, at least 4 096. Uncached writes pass through it as well.
    pub buffer_bytes: u64,
    /// Whether writes are acknowledged once they are in the buffer. The buffer loses its content in a power cut.
    pub write_cache: bool,
    /// Time from the last byte on the link to the acknowledgement of a cached write.
    pub accept_ns: u64,
    /// Bytes to read ahead beyond the last request of a sequential stream, and capacity of a segment;
    /// 0: no read-ahead and no cached reads.
    pub read_ahead_bytes: u64,
    /// Number of read-ahead segments, 1 to 1 024: the maximum number of sequential streams whose data is kept.
    pub read_segments: u32,
    /// NAND size of a hybrid disk in bytes, at most 1 TiB; 0: none. Caches 4 KiB blocks that were read
    /// from the medium at least twice. Its content survives a power cut.
    pub flash_bytes: u64,
    /// Time of a read from a hybrid disk's NAND, independent of the read's length. The link transfer follows.
    pub flash_read_ns: u64,
    /// Shingled tracks; `None`: conventional tracks.
    pub shingled: Option<Shingled>,
}

/// Name of an invalid field, with the reason.
type Wrong = (&'static str, String);

fn within(field: &'static str, value: u64, low: u64, high: u64) -> Result<(), Wrong> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err((field, format!("{value} is out of range: the range is {low} to {high}")))
}

impl Shingled {
    fn check(self) -> Result<(), Wrong> {
        within("band_bytes", self.band_bytes, 64 << 10, 1 << 30)?;
        within("cache_bytes", self.cache_bytes, self.band_bytes, 1 << 40)?;
        let sizes = [("band_bytes", self.band_bytes), ("cache_bytes", self.cache_bytes)];
        if let Some((field, _)) = sizes.into_iter().find(|(_, bytes)| !bytes.is_multiple_of(4096)) {
            return Err((field, "must be a multiple of 4096".into()));
        }
        within("entries_max", u64::from(self.entries_max), 1, 1 << 24)?;
        within("idle_ns", self.idle_ns.unwrap_or(0), 0, 3_600_000_000_000)
    }
}

impl DiskSpec {
    /// Checks that the parameters describe a possible disk.
    ///
    /// # Errors
    /// The name of the first invalid field, and its allowed values.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        const SECOND_NS: u64 = 1_000_000_000;
        within("capacity_bytes", self.capacity_bytes, 1 << 20, 1 << 52)?;
        if !self.capacity_bytes.is_multiple_of(512) {
            return Err(("capacity_bytes", "must be a multiple of 512".into()));
        }
        within("rpm", u64::from(self.rpm), 1_000, 30_000)?;
        within("heads", u64::from(self.heads), 1, 64)?;
        within("zones", u64::from(self.zones), 1, 1_000)?;
        self.check_rates()?;
        self.check_seek()?;
        within("write_settle_ns", self.write_settle_ns, 0, SECOND_NS)?;
        within("head_switch_ns", self.head_switch_ns, 0, SECOND_NS)?;
        within("cylinder_switch_ns", self.cylinder_switch_ns, 0, SECOND_NS)?;
        within("command_ns", self.command_ns, 0, SECOND_NS)?;
        within("queue_max", u64::from(self.queue_max), 1, 1_024)?;
        if let Scheduler::Satf { age_max_ns, window } = self.scheduler {
            within("age_max_ns", age_max_ns, 1, 1_000_000 * SECOND_NS)?;
            within("window", u64::from(window), 1, 65_536)?;
        }
        within("buffer_bytes", self.buffer_bytes, 4_096, 1 << 40)?;
        within("accept_ns", self.accept_ns, 0, SECOND_NS)?;
        within("read_ahead_bytes", self.read_ahead_bytes, 0, 1 << 40)?;
        within("read_segments", u64::from(self.read_segments), 1, 1_024)?;
        within("flash_bytes", self.flash_bytes, 0, 1 << 40)?;
        within("flash_read_ns", self.flash_read_ns, 0, SECOND_NS)?;
        self.shingled.map_or(Ok(()), Shingled::check)?;
        self.check_platters()
    }

    /// Returns the properties that determine tracks and cylinders.
    pub(super) fn platters(&self) -> Platters {
        Platters {
            bytes: self.capacity_bytes + self.cache_bytes(),
            rpm: u64::from(self.rpm),
            heads: u64::from(self.heads),
            zones: u64::from(self.zones),
            outer_bytes_per_s: self.outer_bytes_per_s,
            inner_bytes_per_s: self.inner_bytes_per_s,
            head_switch_ns: self.head_switch_ns,
            cylinder_switch_ns: self.cylinder_switch_ns,
        }
    }

    fn check_platters(&self) -> Result<(), Wrong> {
        self.platters().check().map_err(|excess| {
            let field = match excess {
                Excess::TrackBytes(_) => "outer_bytes_per_s",
                Excess::Cylinders(_) => "capacity_bytes",
            };
            (field, excess.message())
        })
    }

    /// Returns the size of the media cache in bytes; 0 without shingled tracks.
    pub(super) fn cache_bytes(&self) -> u64 {
        self.shingled.map_or(0, |shingled| shingled.cache_bytes)
    }

    fn check_rates(&self) -> Result<(), Wrong> {
        let rates = [
            ("outer_bytes_per_s", self.outer_bytes_per_s),
            ("inner_bytes_per_s", self.inner_bytes_per_s),
            ("link_bytes_per_s", self.link_bytes_per_s),
        ];
        for (field, rate) in rates {
            if !(1e6..=1e11).contains(&rate) {
                return Err((
                    field,
                    format!("{rate} B/s is out of range: the range is 1 MB/s to 100 GB/s"),
                ));
            }
        }
        if self.inner_bytes_per_s > self.outer_bytes_per_s {
            return Err((
                "inner_bytes_per_s",
                "must not exceed outer_bytes_per_s: inner tracks are shorter".into(),
            ));
        }
        Ok(())
    }

    /// Checks that the curve `a + b √x + c x` through the three seek times rises everywhere. Between track-to-track (0)
    /// and full stroke (1), the average must lie from 1/3 (a straight line, b = 0) to 11/15 (flat at the full stroke, c
    /// = -b/2).
    fn check_seek(&self) -> Result<(), Wrong> {
        let (least, most) = (self.track_to_track_ns, self.full_stroke_ns);
        within("track_to_track_ns", least, 0, 1_000_000_000)?;
        if most < least {
            return Err(("full_stroke_ns", "must not be less than track_to_track_ns".into()));
        }
        within("full_stroke_ns", most, least, 1_000_000_000)?;
        let (low, high) = (least + (most - least).div_ceil(3), least + (most - least) * 11 / 15);
        if !(low..=high).contains(&self.average_seek_ns) {
            return Err((
                "average_seek_ns",
                format!(
                    "{} does not fit track_to_track_ns {least} and full_stroke_ns {most}: the seek time rises with \
                     distance only for averages from {low} to {high}",
                    self.average_seek_ns
                ),
            ));
        }
        Ok(())
    }
}
