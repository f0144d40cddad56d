//! Usage of the parts of a disk, and phase times of its operations. Counters only; latency is
//! measured elsewhere, with histograms.

/// Counters of the parts of a disk since it was made. A time is counted when its activity has
/// ended, so no busy time exceeds the time elapsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Arm and heads moved or settled, for operations and destaging.
    pub seeking_ns: u64,
    /// Waited for the platter to turn, for operations and destaging.
    pub rotating_ns: u64,
    /// Read or wrote, for operations and destaging; head switches in the course of it included.
    pub transferring_ns: u64,
    /// The heads worked at read-ahead, positioning included.
    pub reading_ahead_ns: u64,
    /// The link carried data.
    pub link_ns: u64,
    /// The controller took commands in.
    pub command_ns: u64,
    /// Reads that the medium served.
    pub medium_reads: u64,
    /// Writes that went to the medium before they were acknowledged.
    pub medium_writes: u64,
    /// Writes acknowledged from the buffer.
    pub cached_writes: u64,
    /// Bytes of these writes.
    pub cached_bytes: u64,
    /// Ranges brought from the buffer to the medium after they were acknowledged.
    pub destages: u64,
    /// Bytes in the buffer that a newer write replaced before they reached the medium.
    pub absorbed_bytes: u64,
    /// Writes that waited for space in the buffer.
    pub buffer_full: u64,
    /// Reads served from a read-ahead segment, wholly or by waiting for it.
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

/// The time of completed operations by phase: sums over `count` operations. The phases of an
/// operation add up to its latency, from submission to completion, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Number of operations.
    pub count: u64,
    /// Waiting: in the host for a slot in the disk's queue, for the controller, for space in the
    /// buffer, for the heads; for a flush, for the writes before it.
    pub queue_ns: u64,
    /// Controller.
    pub command_ns: u64,
    /// Arm and heads.
    pub seek_ns: u64,
    /// Rotational wait.
    pub rotation_ns: u64,
    /// Medium to buffer or back; for a read that read-ahead served, waiting for its data to be read.
    pub transfer_ns: u64,
    /// Link, the wait for it included; of a read from the medium only what follows its transfer.
    pub link_ns: u64,
    /// Acknowledging from the buffer, or reading the NAND.
    pub cache_ns: u64,
}

impl Phases {
    /// All phases: the sum of the latencies.
    pub fn total_ns(&self) -> u64 {
        self.queue_ns + self.serving_ns()
    }

    /// All phases but waiting.
    pub(super) fn serving_ns(&self) -> u64 {
        self.command_ns
            + self.seek_ns
            + self.rotation_ns
            + self.transfer_ns
            + self.link_ns
            + self.cache_ns
    }

    /// Adds another sum to this one.
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
