//! Counters and busy times of a disk, and the times that its operations spend in each phase.

/// Counters of a disk's activity since its creation. Times are added when the activity has ended, so no busy time
/// exceeds the elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time of seeks and settling, except for read-ahead.
    pub seeking_ns: u64,
    /// Time of rotational waits, except for read-ahead.
    pub rotating_ns: u64,
    /// Time of reading and writing, including head switches, except for read-ahead.
    pub transferring_ns: u64,
    /// Time of read-ahead, including positioning.
    pub reading_ahead_ns: u64,
    /// Time in which the link transferred data.
    pub link_ns: u64,
    /// Time in which the controller processed commands.
    pub command_ns: u64,
    /// Number of reads for which the heads read the medium. Other reads were served from a read-ahead segment, the
    /// write buffer or NAND.
    pub medium_reads: u64,
    /// Number of writes acknowledged only after they had reached the medium.
    pub medium_writes: u64,
    /// Number of writes acknowledged from the buffer.
    pub cached_writes: u64,
    /// Bytes of the writes acknowledged from the buffer.
    pub cached_bytes: u64,
    /// Number of ranges destaged from the buffer to the medium.
    pub destages: u64,
    /// Bytes in the buffer that newer writes replaced before they reached the medium.
    pub absorbed_bytes: u64,
    /// Number of writes that waited for space in the buffer.
    pub buffer_full: u64,
    /// Number of reads served from a read-ahead segment, including those that waited for read-ahead in
    /// progress.
    pub segment_hits: u64,
    /// Number of reads served from the write buffer.
    pub buffer_hits: u64,
    /// Number of reads served from the NAND of a hybrid disk.
    pub flash_hits: u64,
    /// Bytes written to the media cache of a shingled disk.
    pub media_cache_bytes: u64,
    /// Number of bands that a shingled disk has cleaned.
    pub cleaned_bands: u64,
    /// Time of cleaning bands, which is also counted as seeking, rotating and transferring.
    pub cleaning_ns: u64,
}

impl Usage {
    /// Returns the time in which the heads were busy, ns.
    pub fn heads_ns(&self) -> u64 {
        self.seeking_ns + self.rotating_ns + self.transferring_ns + self.reading_ahead_ns
    }
}

/// Time spent in each phase, summed over `count` completed operations. The phases of an operation
/// add up exactly to its latency, from submission to completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Number of completed operations.
    pub count: u64,
    /// Waits for a place in the disk's queue, the controller, buffer space, or the heads. For a flush also the wait
    /// for earlier writes.
    pub queue_ns: u64,
    /// Controller time to process the commands.
    pub command_ns: u64,
    /// Time to move the heads: seek, head switch and settling.
    pub seek_ns: u64,
    /// Time until the first byte has rotated under the head.
    pub rotation_ns: u64,
    /// Transfer between medium and buffer. For a read served by read-ahead: the wait for its data.
    pub transfer_ns: u64,
    /// Link transfer and the wait for the link. A read from the medium counts only what follows its medium transfer.
    pub link_ns: u64,
    /// Time to acknowledge a write from the buffer, or to read from a hybrid disk's NAND.
    pub cache_ns: u64,
}

impl Phases {
    /// Returns the sum of all phases, which equals the sum of the latencies, ns.
    pub fn total_ns(&self) -> u64 {
        self.queue_ns + self.serving_ns()
    }

    /// Returns the sum of all phases except `queue_ns`, ns.
    pub(super) fn serving_ns(&self) -> u64 {
        self.command_ns
            + self.seek_ns
            + self.rotation_ns
            + self.transfer_ns
            + self.link_ns
            + self.cache_ns
    }

    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.queue_ns += other.queue_ns;
        self.command_ns += other.command_ns;
        self.seek_ns += other.seek_ns;
        self.rotation_ns += other.rotation_ns;
        self.transfer_ns += other.transfer_ns;
        self.link_ns += other.link_ns;
        self.cache_ns += other.cache_ns;
    }
}
