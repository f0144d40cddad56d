//! Constants of the log format of dm-log-writes, a driver that records the writes to a block device.
//!
//! Source: Linux, `drivers/md/dm-log-writes.c`.

/// First 8 bytes of the super block, little-endian (`WRITE_LOG_MAGIC`).
pub const MAGIC: u64 = 0x006a_7366_7773_6872;
/// Version of the format (`WRITE_LOG_VERSION`).
pub const VERSION: u64 = 1;

/// Flag of an entry: a flush of the device's cache (`LOG_FLUSH_FLAG`).
pub const FLUSH: u64 = 1;
/// Flag of an entry: a write that is durable once complete (`LOG_FUA_FLAG`).
pub const FUA: u64 = 1 << 1;
/// Flag of an entry: a discard, without data in the log (`LOG_DISCARD_FLAG`).
pub const DISCARD: u64 = 1 << 2;
/// Flag of an entry: a text that a user added to the log (`LOG_MARK_FLAG`).
pub const MARK: u64 = 1 << 3;
