//! Warns about sysbench options with surprising effects.

use super::Reading;
use super::options::Mode;
use crate::shared::UNWRITTEN;
use iodyno_units::human::counted;

impl Reading<'_, '_> {
    /// Adds warnings about options whose effect the user may not expect.
    pub(super) fn traps(&mut self, mode: Mode, engine: &str, direct: bool, validate: bool) {
        if engine == "mmap" {
            let words = "a mapped file is in the page cache: use sync or async with --file-extra-flags=direct";
            self.trap("file-io-mode", words);
        } else if !direct {
            let words = "buffered I/O is sysbench's default, and measures the page cache: add --file-extra-flags=direct";
            self.judged_trap("file-extra-flags", words);
        }
        if engine == "libaio" {
            self.trap("file-io-mode", "in async mode sysbench's latency ends when a request is submitted or, if the backlog is full, when another request completes; iodyno's lasts from submission to completion of the I/O");
            if !direct {
                let words = "the kernel performs buffered asynchronous I/O during its submission, so the backlog does not fill";
                self.trap("file-io-mode", words);
            }
            if mode.writes {
                let words = "sysbench calls fsync while its requests are in flight, and submits nothing until fsync returns; iodyno queues flushes like other requests";
                self.trap("file-fsync-freq", words);
            }
        }
        let every = self.count("file-fsync-freq", 0);
        let files = self.count("file-num", 1);
        if mode.writes && every > 0 && !self.flag("file-fsync-all") {
            let share = files as f64 * 100.0 / (files + every) as f64;
            let all = if files == 1 { "its file".to_owned() } else { format!("all {files} files") };
            let requests = counted(every, "request");
            let words = format!(
                "sysbench flushes {all} after every {requests} (of all threads together). So {share:.0} % of its events are flushes, and its latency and events/s count them with reads and writes. On one target the first flush of a burst writes all dirty data, and little is left for the others"
            );
            self.trap("file-fsync-freq", words);
        } else if mode.writes && !direct && !self.flag("file-fsync-all") {
            self.judged_trap(
                "file-fsync-freq",
                "buffered writes without fsync measure the page cache, not the device",
            );
        }
        if mode.writes && !validate {
            let words = "sysbench writes zeroes: they compress, and some devices do not store them; --validate=on writes random blocks";
            self.trap("validate", words);
        }
        if mode.reads {
            self.judged_trap("file-test-mode", UNWRITTEN);
        }
        if mode.name == "seqwr" {
            let words = "seqwr writes newly created files: if blocks of the target were written before, iodyno overwrites them, as seqrewr does; a new `--on scratch:` has no such blocks";
            self.trap("file-test-mode", words);
        }
    }
}
