//! Parameters of a disk: those of its data sheet, and the few that no data sheet prints; and their allowed
//! values.

/// How the next request is chosen when the heads become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// In the order of arrival.
    Fifo,
    /// Shortest access time first: least seek plus rotational wait, among the oldest `window`
    /// requests. Aged as in ASATF (Jacobson and Wilkes, 1991): the access time is weighted by
    /// `1 - waited / age_max`, and while a request has waited `age_max` or longer, every second
    /// access is the oldest request's. (If every access were, a sufficiently long queue would remain in
    /// order of arrival for good, at a third of the rate.)
    Satf {
        /// Intended upper bound of the wait, ns. A short one costs throughput, a long one tail latency.
        age_max_ns: u64,
        /// Number of requests that the firmware compares, 1 to 65 536. Acknowledged writes in the
        /// buffer are a separate set of the same size, and are not aged.
        window: u32,
    },
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
    /// Sequential rate in the outermost zone as data sheets print it ("sustained"), including head and
    /// cylinder switches. The media rate under the head is accordingly higher.
    pub outer_bytes_per_s: f64,
    /// Sequential rate in the innermost zone, including switches. Zones between are interpolated
    /// linearly.
    pub inner_bytes_per_s: f64,
    /// Seek to the neighbouring cylinder for reading, including settling.
    pub track_to_track_ns: u64,
    /// Mean seek for reading over all pairs of cylinders.
    pub average_seek_ns: u64,
    /// Seek from the first to the last cylinder, for reading.
    pub full_stroke_ns: u64,
    /// Extra settling time of a write compared with a read, on each seek or head
    /// change that doesn't follow the order of the tracks.
    pub write_settle_ns: u64,
    /// Switch from the end of a track to the same cylinder's next surface; also the skew between tracks.
    pub head_switch_ns: u64,
    /// Switch from the end of a cylinder to the next one; also the skew between cylinders.
    pub cylinder_switch_ns: u64,
    /// Controller time for a command, before any other work on it. Commands are processed one at a time, while the
    /// heads may be busy with another one.
    pub command_ns: u64,
    /// Bandwidth of the host link, which is shared by both directions.
    pub link_bytes_per_s: f64,
    /// Queue depth of the disk, 1 to 1 024 (SATA: 32); further commands wait in the host, in order.
    pub queue_max: u32,
    /// How the next request is chosen when the heads become free.
    pub scheduler: Scheduler,
    /// Size of the write buffer, at least 4 096. Uncached writes pass through it as well.
    pub buffer_bytes: u64,
    /// Whether a write is acknowledged once it is in the buffer, whose content a power cut loses.
    pub write_cache: bool,
    /// Time from the last byte on the link to the acknowledgement of a cached write.
    pub accept_ns: u64,
    /// Distance of read-ahead from the last request of a sequence, and capacity of a
    /// segment; 0: no read-ahead, nothing kept.
    pub read_ahead_bytes: u64,
    /// Number of read-ahead segments, and so of sequences that can be read at once, 1 to 1 024.
    pub read_segments: u32,
    /// NAND size of a hybrid disk, for blocks of 4 KiB that were read from the medium at least twice; 0: none.
    /// Its content survives a power cut. At most 1 TiB.
    pub flash_bytes: u64,
    /// Time of a read from a hybrid disk's NAND.
    pub flash_read_ns: u64,
}

/// Name of an invalid field, and the reason.
type Wrong = (&'static str, String);

/// Checks that a value is within a range.
fn within(field: &'static str, value: u64, low: u64, high: u64) -> Result<(), Wrong> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err((field, format!("{value} is out of range: the range is {low} to {high}")))
}

impl DiskSpec {
    /// Checks that such a disk can exist.
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
                    format!("{rate} is out of range: the range is 1 MB/s to 100 GB/s"),
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

    /// Checks that the curve `a + b √x + c x` through the three seek times rises everywhere: the average must lie
    /// between 1/3 (a straight line, b = 0) and 11/15 (flat at the full stroke, c = -b/2) of the range.
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
                    "{} is not possible between track_to_track_ns {least} and full_stroke_ns {most}: \
                     only for {low} to {high} does the seek curve rise with distance",
                    self.average_seek_ns
                ),
            ));
        }
        Ok(())
    }
}
