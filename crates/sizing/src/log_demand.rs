//! Demand of a message log: converts the rate of published messages to a rate of writes, and the rate of replayed
//! messages to a rate of reads. Also computes the longest storage stall that the publishers' buffers can bridge. The
//! resulting demand is sized like any other.

use iodyno_workload::Spec;
use std::fmt::Write as _;

/// Length of a sequential read in a replay, bytes, as in the catalog's workload `log-80-20`.
const REPLAY_BYTES: u64 = 16 << 20;

/// Rates and sizes of a message log, from which the demand on storage is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogDemand {
    /// Messages per second from publishers.
    pub messages_per_s: f64,
    /// Size of a message in the log, bytes.
    pub message_bytes: u64,
    /// Size of a chunk, bytes. One operation writes a chunk, which contains as many whole messages as fit.
    pub chunk_bytes: u64,
    /// Messages read per second, over all replays together.
    pub replayed_per_s: f64,
    /// Size of the publishers' buffers for messages that are not durable yet, bytes; 0: not specified.
    pub room_bytes: u64,
}

impl LogDemand {
    /// Checks that the rates and sizes are consistent.
    ///
    /// # Errors
    /// The problem, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        let Self { message_bytes, chunk_bytes, .. } = *self;
        if !(4096..=32 << 20).contains(&chunk_bytes) || !chunk_bytes.is_multiple_of(4096) {
            return Err("a chunk must be from 4 KiB to 32 MiB, and a multiple of 4 KiB".to_owned());
        }
        if message_bytes == 0 || message_bytes > chunk_bytes {
            return Err(format!(
                "a message of {message_bytes} B does not fit a chunk of {chunk_bytes} B: use a larger --chunk"
            ));
        }
        Ok(())
    }

    /// Number of whole messages per chunk.
    pub fn messages_a_chunk(&self) -> u64 {
        self.chunk_bytes / self.message_bytes
    }

    /// Writes per second, one per chunk.
    pub fn writes_per_s(&self) -> f64 {
        self.messages_per_s / self.messages_a_chunk() as f64
    }

    /// Reads per second, each of one chunk.
    pub fn reads_per_s(&self) -> f64 {
        self.replayed_per_s / self.messages_a_chunk() as f64
    }

    /// Bytes written per second, including the padding of chunks.
    pub fn written_bytes_per_s(&self) -> f64 {
        self.writes_per_s() * self.chunk_bytes as f64
    }

    /// Longest storage stall that the publishers' buffers can bridge, ns; `None` if no buffer size was specified.
    pub fn survived_ns(&self) -> Option<f64> {
        let held_per_s = self.messages_per_s * self.message_bytes as f64;
        (self.room_bytes > 0).then(|| self.room_bytes as f64 / held_per_s * 1e9)
    }

    /// Time from the end of a stall of length [`Self::survived_ns`] until all messages of the stall are durable, ns.
    /// `highest_iops` is the highest rate of the log's writes and reads together that the system sustains. `None` if
    /// the log can't catch up at that rate, or if no buffer size was specified.
    pub fn caught_up_ns(&self, highest_iops: f64) -> Option<f64> {
        let spare = highest_iops / (self.writes_per_s() + self.reads_per_s()) - 1.0;
        self.survived_ns().filter(|_| spare > 0.0).map(|stall_ns| stall_ns / spare)
    }

    /// Workload with the log's writes and reads, without a rate.
    ///
    /// # Errors
    /// Reason why the log or workload is not possible, as a sentence.
    pub(crate) fn workload(&self) -> Result<Spec, String> {
        self.check()?;
        let (reads, writes) = (self.reads_per_s(), self.writes_per_s());
        let mut toml =
            format!("schema = 1\nblock = \"{}B\"\n[mix]\nwrite = {writes}\n", self.chunk_bytes);
        if reads > 0.0 {
            let run = (REPLAY_BYTES / self.chunk_bytes).max(2);
            let addresses = "[read]\naddresses = { pattern = \"sequential\", run = ";
            let _ = writeln!(toml, "read = {reads}\n{addresses}{run} }}");
        }
        // A chunk must be durable before its messages are acknowledged.
        toml +=
            "[write]\nfua = \"100%\"\naddresses = { pattern = \"sequential\", shared = true }\n";
        Spec::from_toml(&toml).map_err(|errors| {
            errors.first().map_or_else(String::new, |error| error.message.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the published example: a million messages of 1 KB per second cause more than 1 GB/s of writes.
    #[test]
    fn a_million_messages_a_second() {
        let log = LogDemand {
            messages_per_s: 1e6,
            message_bytes: 1024,
            chunk_bytes: 65_536,
            replayed_per_s: 4e6,
            room_bytes: 256 << 20,
        };
        assert_eq!(
            (log.messages_a_chunk(), log.writes_per_s(), log.reads_per_s()),
            (64, 15_625.0, 62_500.0)
        );
        assert!(log.written_bytes_per_s() > 1e9);
        assert!(log.workload().is_ok());
        let stall_ns = log.survived_ns().unwrap();
        assert!((stall_ns - 0.262_144e9).abs() < 1.0, "{stall_ns}");
        // With a quarter to spare it takes four times as long as the stall.
        assert!((log.caught_up_ns(78_125.0 * 1.25).unwrap() - 4.0 * stall_ns).abs() < 10.0);
        assert_eq!(log.caught_up_ns(78_125.0), None);
        // Messages that do not fill a chunk: it is still written as a whole.
        let odd = LogDemand { message_bytes: 40_000, ..log };
        assert_eq!((odd.messages_a_chunk(), odd.writes_per_s()), (1, 1e6));
        assert!(LogDemand { message_bytes: 70_000, ..log }.check().is_err());
        assert!(LogDemand { chunk_bytes: 5000, ..log }.check().is_err());
    }
}
