//! Parameters of devices of which only latency and bandwidth are known: cloud volumes, disks of virtual machines, and
//! drives that write in place, such as Optane SSDs.

/// A volume of a cloud provider, modelled as a latency behind a network. Also describes SSDs that write in place
/// (Optane). For these SSDs, the network parameters describe the link.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudVolume {
    /// Capacity that the host sees.
    pub capacity_bytes: u64,
    /// Mean latency of a read, without waiting and without the transfer of its data.
    pub read_ns: u64,
    /// Mean latency of a write, without waiting and without the transfer of its data.
    pub write_ns: u64,
    /// Mean latency of a flush, which transfers no data.
    pub flush_ns: u64,
    /// Fraction of the mean latency that is random (exponentially distributed), 0 to 1; the rest is constant. Equals
    /// the latency's standard deviation divided by its mean.
    pub varying_share: f64,
    /// Bandwidth of the network in each direction.
    pub bytes_per_s: f64,
    /// Maximum number of outstanding commands; more wait in the host.
    pub queue_max: u32,
    /// The hypervisor's thread that serves the volume's requests; `None`: requests are served concurrently, and only
    /// the latencies, the network and the limits delay them.
    pub io_thread: Option<IoThread>,
}

/// A thread of the hypervisor that serves the requests of a virtual disk one after the other. A request that finds
/// the thread idle must first wake it up, which takes the request's latency. The thread then serves all waiting
/// requests, including those that arrive while it works, and completes them together once none is left.
#[derive(Clone, Debug, PartialEq)]
pub struct IoThread {
    /// Time that the thread needs for each request.
    pub command_ns: u64,
    /// Time that the thread needs for each write; `None`: as for other requests.
    pub write_command_ns: Option<u64>,
    /// Rate at which the thread moves the data of reads.
    pub read_bytes_per_s: f64,
    /// Rate at which the thread moves the data of writes.
    pub write_bytes_per_s: f64,
}
