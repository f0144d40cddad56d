//! Converts command lines of sysbench's `fileio` test (sysbench 1.0.20) to workloads.
//!
//! sysbench threads share one sequential cursor, one request count for the bursts of fsync, and one count of completed
//! reads and writes that determines the next operation.

mod options;
mod reading;
mod traps;

use crate::fio::{Job, JobFile};
use crate::found::Made;
use crate::option_line::one_job;
use crate::shared::{DURABLE, SECOND_NS, about, name};
use iodyno_catalog::Problem;
use iodyno_units::OpKind;
use iodyno_workload::{
    ActiveRange, ArrivalKind, Block, Content, Draft, Edge, Limits, MixOrder, Pattern, Percent,
    Process, size_text,
};
use options::{MODES, Mode};
use reading::Reading;

/// Parses a command line such as `sysbench fileio --file-test-mode=rndrw run`.
///
/// # Errors
/// Lists all unsupported options, with their positions.
pub fn parse(line: &str) -> Result<JobFile, Problem> {
    one_job(line, true, |words, found| Reading::new(words, found)?.fileio_job())
}

/// Number and total size of the test's files, and size of a request.
struct FileSet {
    files: u64,
    total_bytes: u64,
    request_bytes: u64,
}

impl Reading<'_, '_> {
    fn fileio_job(mut self) -> Option<Job> {
        let mode = self.mode()?;
        let title = format!("{} of sysbench's fileio", mode.name);
        let mut workload = Draft::new(about(&title));
        workload.threads(self.count("threads", 1));
        let (engine, depth) = self.engine();
        workload.depth(depth);
        let set = self.file_set(mode);
        workload.blocks(vec![Block::new(set.request_bytes, 1.0)]);
        workload.active(ActiveRange::between(Edge::Bytes(0), Edge::Bytes(set.total_bytes)));
        workload.addresses(if mode.is_random {
            Pattern::Uniform { once_per_pass: false }
        } else {
            Pattern::Sequential { shared: true, run: None }
        });
        let (direct, is_durable) = self.open_flags(engine);
        if mode.writes && is_durable {
            workload.fua(Percent::ALL);
        }
        self.flushes(mode, set.files, &mut workload);
        self.mix(mode, &mut workload);
        let ops_per_event = self.ops_per_event(mode);
        if let Some(arrivals) = self.arrivals(ops_per_event) {
            workload.arrivals(arrivals);
        }
        workload.limits(self.limits(ops_per_event));
        let validate = self.flag("validate");
        if mode.writes {
            workload.content(if validate { Content::Verifiable } else { Content::Zeroes });
        }
        self.traps(mode, engine, direct, validate);
        self.flushes_at_end(mode, set.files, &mut workload);
        let options = [
            ("threads", "threads"),
            ("depth", "file-async-backlog"),
            ("block", "file-block-size"),
            ("active", "file-total-size"),
            ("mix", "file-rw-ratio"),
            ("flush.every", "file-fsync-freq"),
            ("flush.burst", "file-num"),
            ("arrivals.rate", "rate"),
            ("limits.time", "time"),
            ("limits.ops", "events"),
            ("limits.ramp", "warmup-time"),
            ("content.kind", "validate"),
        ];
        let name = name(&format!("sysbench-{}", mode.name));
        let made = Made { name, workload, engine: Some(engine), direct, filename: None };
        self.job(made, options)
    }

    fn mode(&mut self) -> Option<Mode> {
        let text = self.text("file-test-mode");
        let mode = MODES.into_iter().find(|mode| mode.name == text);
        if mode.is_none() {
            let words = if self.is_given("file-test-mode") {
                format!("`{text}` is not a test mode")
            } else {
                "`--file-test-mode` is missing".to_owned()
            };
            let help = "give seqwr, seqrewr, seqrd, rndrd, rndwr or rndrw";
            self.refuse("file-test-mode", words, help);
        }
        mode
    }

    /// I/O engine, by its name on iodyno's command line, and queue depth of each thread.
    fn engine(&mut self) -> (&'static str, u64) {
        match self.text("file-io-mode").as_str() {
            "sync" => ("psync", 1),
            "async" => ("libaio", self.count("file-async-backlog", 1)),
            "mmap" => ("mmap", 1),
            other => {
                let words = format!("`{other}` is not an I/O mode");
                self.refuse("file-io-mode", words, "give sync, async or mmap");
                ("psync", 1)
            }
        }
    }

    /// Determines the sizes of files and requests. The files are placed side by side on the target. Refuses a
    /// file size that is 0 or not a multiple of the request size, because sysbench would issue a shorter request at
    /// the end of a file.
    fn file_set(&mut self, mode: Mode) -> FileSet {
        let files = self.count("file-num", 1);
        let total_bytes = self.size("file-total-size");
        let block_bytes = self.size("file-block-size");
        let merged = self.count("file-merged-requests", 0);
        let request_bytes = match (merged, mode.is_random) {
            (0 | 1, _) => block_bytes,
            (_, true) => {
                self.remark("file-merged-requests", "no effect on random modes");
                block_bytes
            }
            (_, false) => block_bytes.saturating_mul(merged),
        };
        let file_bytes = total_bytes / files;
        if file_bytes < request_bytes {
            let words = format!(
                "a file would have {}, less than the request size {}",
                size_text(file_bytes),
                size_text(request_bytes)
            );
            let help = "give a larger file-total-size, fewer files (file-num), or smaller requests";
            let given = ["file-total-size", "file-num", "file-block-size"]
                .into_iter()
                .find(|name| self.is_given(name));
            self.refuse(given.unwrap_or("file-total-size"), words, help);
        } else if !file_bytes.is_multiple_of(request_bytes) {
            let words = format!(
                "the file size {} is not a multiple of the request size {}: sysbench would issue a shorter request at the end of each file",
                size_text(file_bytes),
                size_text(request_bytes)
            );
            let help = "give a total size that is a multiple of file-num times the block size (in sequential modes also times file-merged-requests)";
            let names = ["file-total-size", "file-num", "file-block-size"];
            let given = names.into_iter().find(|name| self.is_given(name));
            self.refuse(given.unwrap_or("file-total-size"), words, help);
        }
        if files > 1 {
            let words = format!(
                "the {files} files lie side by side on the target, {} each",
                size_text(file_bytes)
            );
            self.remark("file-num", &words);
        }
        FileSet { files, total_bytes: file_bytes * files, request_bytes }
    }

    /// Whether the page cache is bypassed, and whether each write is durable.
    fn open_flags(&mut self, engine: &str) -> (bool, bool) {
        let (mut direct, mut durable) = (false, false);
        let text = self.text("file-extra-flags");
        for flag in text.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "direct" if engine == "mmap" => {
                    self.remark("file-extra-flags", "`direct` has no effect on a mapped file");
                }
                "direct" => direct = true,
                "sync" | "dsync" if engine == "mmap" => {
                    let words = format!("`{flag}` has no effect on a mapped file");
                    self.remark("file-extra-flags", &words);
                }
                "sync" | "dsync" => {
                    durable = true;
                    self.remark("file-extra-flags", DURABLE);
                }
                _ => {
                    let words = format!("`{flag}` is not a flag");
                    self.refuse(
                        "file-extra-flags",
                        words,
                        "give sync, dsync or direct, or several of them",
                    );
                }
            }
        }
        (direct, durable)
    }

    /// Sets the flushes: after each write, or in bursts.
    fn flushes(&mut self, mode: Mode, files: u64, workload: &mut Draft) {
        let (every, each_write) = (self.count("file-fsync-freq", 0), self.flag("file-fsync-all"));
        match self.text("file-fsync-mode").as_str() {
            "fsync" if mode.writes => self.remark("file-fsync-mode", "issued as fdatasync"),
            "fsync" | "fdatasync" => {}
            other => {
                let words = format!("`{other}` is not a flush mode");
                self.refuse("file-fsync-mode", words, "give fsync or fdatasync");
            }
        }
        if !mode.writes {
            return;
        }
        if each_write {
            self.remark("file-fsync-all", "the flush after each write is a separate operation, but sysbench counts a write and its flush as one event and adds their times; file-fsync-freq and file-fsync-end have no effect");
            workload.flush_every(1);
        } else if every > 0 {
            workload.flush_bursts(every, files);
        }
    }

    /// Sets the flushes that each thread issues after its last event: one per file.
    fn flushes_at_end(&mut self, mode: Mode, files: u64, workload: &mut Draft) {
        let is_on = self.flag("file-fsync-end") && !self.flag("file-fsync-all");
        if mode.writes && is_on {
            let flushes = match files {
                1 => "a flush".to_owned(),
                _ => format!("{files} flushes"),
            };
            let words = format!(
                "each thread ends with {flushes}, within the measured window, as in sysbench"
            );
            self.remark("file-fsync-end", &words);
            workload.flush_at_end(files);
        }
    }

    fn mix(&mut self, mode: Mode, workload: &mut Draft) {
        let text = self.text("file-rw-ratio");
        // sysbench stores the ratio in single precision, which matters where counts equal it: 3 / 10 is below its 0.3.
        let ratio = text.parse::<f32>().ok().filter(|ratio| ratio.is_finite() && *ratio >= 0.0);
        let ratio = ratio.map(f64::from);
        let ratio = ratio.unwrap_or_else(|| {
            let words = format!("`{text}` is not a ratio of reads to writes");
            self.refuse("file-rw-ratio", words, "give a number such as 1.5");
            1.5
        });
        if !mode.writes {
            workload.mix(OpKind::Read, 1.0);
            return;
        }
        workload.mix(OpKind::Write, 1.0);
        if mode.reads && ratio > 0.0 {
            workload.mix(OpKind::Read, ratio);
            workload.mix_order(MixOrder::Ratio);
        } else if mode.reads {
            self.remark("file-rw-ratio", "a ratio of 0 means writes only");
        }
    }

    /// Number of iodyno's operations per event of sysbench. With `file-fsync-all`, sysbench counts a write and
    /// its flush as one event.
    fn ops_per_event(&mut self, mode: Mode) -> f64 {
        if !mode.writes || !self.flag("file-fsync-all") {
            return 1.0;
        }
        let ratio = self.text("file-rw-ratio").parse::<f64>().unwrap_or(0.0).max(0.0);
        let reads_per_write = if mode.reads { ratio } else { 0.0 };
        1.0 + 1.0 / (1.0 + reads_per_write)
    }

    fn arrivals(&mut self, ops_per_event: f64) -> Option<ArrivalKind> {
        let rate = self.count("rate", 0);
        if rate == 0 {
            return None;
        }
        self.remark("rate", "the rate is the total of all threads, including flushes, with Poisson arrivals. Response times count from the intended start, like sysbench's latency. Each worker has its own part of the schedule, but sysbench's threads share one queue");
        let rate_iops = rate as f64 * ops_per_event;
        Some(ArrivalKind::Open { rate_iops, process: Process::Poisson })
    }

    fn limits(&mut self, ops_per_event: f64) -> Limits {
        let (time_s, events) = (self.count("time", 0), self.count("events", 0));
        let ramp_s = self.count("warmup-time", 0);
        if self.is_given("warmup-time") {
            self.remark("warmup-time", "an option of sysbench 1.1, not of 1.0");
        }
        if time_s == 0 && events == 0 {
            let words = "without a time or a number of events the test never ends";
            self.refuse("time", words, "give --time=60 or --events=100000");
        }
        Limits {
            ramp_ns: ramp_s * SECOND_NS,
            time_ns: Some(time_s * SECOND_NS).filter(|ns| *ns > 0),
            ops: Some((events as f64 * ops_per_event).round() as u64).filter(|ops| *ops > 0),
            ..Limits::UNLIMITED
        }
    }
}
