//! Parameters of a disk: the figures of its data sheet, and the few that no data sheet prints. This
//! file defines them and their possible values; it computes nothing.

/// How the next request is chosen when the heads become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// In the order of arrival.
    Fifo,
    /// Shortest access time first: least seek plus rotational wait, among the oldest `window`
    /// requests. Aged as in ASATF (Jacobson and Wilkes, 1991): the access time is weighted by
    /// `1 - waited / age_max`, and while something has waited `age_max` or longer, every second
    /// access is the oldest request's. (If each one were, a queue that is long enough would stay in
    /// the order of arrival for good, at a third of the rate.)
    Satf {
        /// The bound of the wait, ns. A short one costs throughput, a long one costs the tail.
        age_max_ns: u64,
        /// How many requests the firmware compares, 1 to 65 536. Acknowledged writes in the
        /// buffer are a set of their own, of the same size; these are not aged.
        window: u32,
    },
}

/// A disk. Times in ns, sizes in bytes, rates in bytes a second.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskSpec {
    /// Capacity: a multiple of 512.
    pub capacity_bytes: u64,
    /// Revolutions a minute, 1 000 to 30 000.
    pub rpm: u32,
    /// Recorded surfaces, 1 to 64.
    pub heads: u32,
    /// Zones of equally many cylinders, 1 to 1 000; all tracks of a zone hold the same.
    pub zones: u32,
    /// Sequential rate in the outermost zone as data sheets print it ("sustained"): head and
    /// cylinder switches are included. The media rate under the head is higher by their share.
    pub outer_bytes_per_s: f64,
    /// Sequential rate in the innermost zone, likewise. Zones between are spaced evenly.
    pub inner_bytes_per_s: f64,
    /// Seek to the neighbouring cylinder for reading, settled.
    pub track_to_track_ns: u64,
    /// Mean seek for reading over all pairs of cylinders.
    pub average_seek_ns: u64,
    /// Seek from the first to the last cylinder, for reading.
    pub full_stroke_ns: u64,
    /// Additional time of a write over a read until the head is settled, on each seek or head
    /// change that doesn't follow the order of the tracks.
    pub write_settle_ns: u64,
    /// From the end of a track to the same cylinder's next surface. The tracks are skewed by it.
    pub head_switch_ns: u64,
    /// From the end of a cylinder to the next one. The cylinders are skewed by it.
    pub cylinder_switch_ns: u64,
    /// Controller time for a command, before any other work on it. One command at a time, while the
    /// heads may be busy with another.
    pub command_ns: u64,
    /// Host link, one server for both directions.
    pub link_bytes_per_s: f64,
    /// Commands the disk accepts at once, 1 to 1 024 (SATA: 32); others wait in the host, in order.
    pub queue_max: u32,
    /// How the next request is chosen.
    pub scheduler: Scheduler,
    /// Buffer for written data, at least 4 096. Writes that are not cached pass through it as well.
    pub buffer_bytes: u64,
    /// Whether a write is acknowledged once it is in the buffer, which loses it at a power cut.
    pub write_cache: bool,
    /// From the last byte on the link to the acknowledgement of a cached write.
    pub accept_ns: u64,
    /// The distance of read-ahead from the last request of a sequence, and the most that one
    /// segment holds; 0: no read-ahead, nothing kept.
    pub read_ahead_bytes: u64,
    /// The number of segments, and so sequences, that are kept: 1 to 1 024.
    pub read_segments: u32,
    /// NAND of a hybrid disk, for blocks of 4 KiB that were read from the medium at least twice; 0: none.
    /// Kept over a power cut. At most 1 TiB.
    pub flash_bytes: u64,
    /// A read from that NAND.
    pub flash_read_ns: u64,
}

/// The wrong field and the reason.
type Wrong = (&'static str, String);

/// Refuses what lies outside a range.
fn within(field: &'static str, value: u64, low: u64, high: u64) -> Result<(), Wrong> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err((field, format!("{value} is out of range: {low} to {high} is possible")))
}

impl DiskSpec {
    /// Checks that such a disk can exist.
    ///
    /// # Errors
    /// The name of the first impossible field, and possible values.
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
        within("flash_read_ns", self.flash_read_ns, 0, SECOND_NS)
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
                    format!("{rate} is out of range: 1 MB/s to 100 GB/s is possible"),
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

    /// The curve `a + b √x + c x` through the three figures must rise all the way: the mean has to lie
    /// from 1/3 (a straight line, b = 0) to 11/15 (flat at the full stroke, c = -b/2) of the way.
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
                    "{} does not fit between track_to_track_ns {least} and full_stroke_ns {most}: \
                     {low} to {high} makes a curve that rises with the distance",
                    self.average_seek_ns
                ),
            ));
        }
        Ok(())
    }
}
