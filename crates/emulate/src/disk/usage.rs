//! Usage of the parts of a disk, and phase times of its operations.

/// Counters of the parts of a disk since its creation. A time is added when its activity has
/// ended, so no busy time exceeds the elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time of seeks and settling, for operations and destaging.
    pub seeking_ns: u64,
    /// Time of rotational waits, for operations and destaging.
    pub rotating_ns: u64,
    /// Time of reading and writing, including head switches, for operations and destaging.
    pub transferring_ns: u64,
    /// Time of read-ahead, including positioning.
    pub reading_ahead_ns: u64,
    /// Time in which the link carried data.
    pub link_ns: u64,
    /// Time in which the controller processed commands.
    pub command_ns: u64,
    /// Reads served from the medium.
    pub medium_reads: u64,
    /// Writes that reached the medium before they were acknowledged.
    pub medium_writes: u64,
    /// Writes acknowledged from the buffer.
    pub cached_writes: u64,
    /// Bytes of the writes acknowledged from the buffer.
    pub cached_bytes: u64,
    /// Ranges destaged from the buffer to the medium.
    pub destages: u64,
    /// Bytes in the buffer that a newer write replaced before they reached the medium.
    pub absorbed_bytes: u64,
    /// Writes that waited for space in the buffer.
    pub buffer_full: u64,
    /// Reads served from a read-ahead segment, at once or after waiting for it.
    pub segment_hits: u64,
    /// Reads served from the write buffer.
    pub buffer_hits: u64,
    /// Reads served from the NAND of a hybrid disk.
    pub flash_hits: u64,
}

impl Usage {
    /// Time in which the heads were busy.
    pub fn heads_ns(&self) -> u64 {
        self.seeking_ns + self.rotating_ns + self.transferring_ns + self.reading_ahead_ns
    }
}

/// Phase times of completed operations, summed over `count` operations. The phases of an
/// operation add up exactly to its latency, from submission to completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Number of operations.
    pub count: u64,
    /// Waits: in the host for a slot in the disk's queue, for the controller, for space in the
    /// buffer, for the heads; of a flush, for the writes before it.
    pub queue_ns: u64,
    /// Processing of the command by the controller.
    pub command_ns: u64,
    /// Time to move the heads: seek, head switch and settling.
    pub seek_ns: u64,
    /// Wait until the first byte has rotated under the head.
    pub rotation_ns: u64,
    /// Transfer between medium and buffer; for a read that read-ahead served, the wait for its data.
    pub transfer_ns: u64,
    /// Link transfer and the wait for it; for a read from the medium, only the part after the medium transfer.
    pub link_ns: u64,
    /// Time of the acknowledgement from the buffer, or of the read from a hybrid disk's NAND.
    pub cache_ns: u64,
}

impl Phases {
    /// Sum of all phases, which is the sum of the latencies.
    pub fn total_ns(&self) -> u64 {
        self.queue_ns + self.serving_ns()
    }

    /// Sum of all phases except waiting.
    pub(super) fn serving_ns(&self) -> u64 {
        self.command_ns
            + self.seek_ns
            + self.rotation_ns
            + self.transfer_ns
            + self.link_ns
            + self.cache_ns
    }

    /// Adds other phase times to these.
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
