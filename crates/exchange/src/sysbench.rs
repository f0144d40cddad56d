//! Command lines of sysbench's `fileio` test: [`parse`] converts one to a workload, with the meaning of sysbench
//! 1.0.20.
//!
//! In sysbench, all threads take the next request from shared state, under a lock: one sequential cursor, one count of
//! requests between bursts of fsync, and one count of completed reads and writes that decides what comes next.
//! `sysbench/options.rs` lists the options, `sysbench/reading.rs` reads them, `sysbench/traps.rs` has the traps.

mod options;
mod reading;
mod traps;

use crate::command_line;
use crate::fio::{Job, JobFile};
use crate::found::{Found, name, quoted};
use crate::size_text::size_text;
use iodyno_catalog::Problem;
use options::{MODES, Mode};
use reading::Reading;
use std::fmt::Write as _;
use std::ops::Range;

/// Reads a command line such as `sysbench fileio --file-test-mode=rndrw run`.
///
/// # Errors
/// All options that can't be honoured, with their positions.
pub fn parse(line: &str) -> Result<JobFile, Problem> {
    let file = command_line::file(line);
    let mut found = Found::new(&file);
    let words = found.line(line, true);
    let job = words.and_then(|words| Reading::new(words, &mut found).job());
    match job {
        Some(job) if !found.is_refused() => {
            Ok(JobFile { name: job.name.clone(), groups: vec![vec![job]] })
        }
        _ => Err(found.problem()),
    }
}

/// Sizes of the test's files and requests.
struct FileSet {
    files: u64,
    total_bytes: u64,
    request_bytes: u64,
}

impl Reading<'_, '_> {
    fn job(mut self) -> Option<Job> {
        // The options of other tests are not interpreted.
        let mode = self.is_fileio.then(|| self.mode()).flatten()?;
        let threads = self.count("threads", 1);
        let (engine, depth) = self.engine();
        let set = self.file_set(mode);
        let (direct, is_durable) = self.open_flags(engine);
        let flushes = self.flushes(mode);
        let mix = self.mix(mode);
        let ops_per_event = self.ops_per_event(mode);
        let arrivals = self.arrivals(ops_per_event);
        let limits = self.limits(ops_per_event);
        let validate = self.flag("validate");
        self.traps(mode, engine, direct, validate);

        let mut toml = String::from("schema = 1\n");
        let title = format!("{} of sysbench's fileio", mode.name);
        let _ = writeln!(toml, "about = {}", quoted(&title));
        let _ = writeln!(toml, "threads = {threads}\ndepth = {depth}");
        let _ = writeln!(toml, "block = \"{}\"", size_text(set.request_bytes));
        let _ = writeln!(toml, "active = \"0B..{}\"", size_text(set.total_bytes));
        toml.push_str(&mix);
        let addresses = if mode.is_random {
            "\"uniform\""
        } else {
            "{ pattern = \"sequential\", shared = true }"
        };
        let _ = write!(toml, "\n[all]\naddresses = {addresses}\n");
        let at_end = self.flushes_at_end(mode, set.files);
        if mode.writes && (is_durable || flushes == Flushes::EachWrite || at_end > 0) {
            toml.push_str("\n[write]\n");
            if is_durable {
                toml.push_str("fua = \"100%\"\n");
            }
            if flushes == Flushes::EachWrite {
                toml.push_str("flush_every = 1\n");
            }
            if at_end > 0 {
                let _ = writeln!(toml, "flush_at_end = {at_end}");
            }
        }
        if let Flushes::Bursts(every) = flushes {
            let _ = write!(toml, "\n[flush]\nevery = {every}\nburst = {}\n", set.files);
        }
        toml.push_str(&arrivals);
        if mode.writes {
            let kind = if validate { "verifiable" } else { "zeroes" };
            let _ = write!(toml, "\n[content]\nkind = \"{kind}\"\n");
        }
        let _ = write!(toml, "\n[limits]\n{limits}");

        let spans: Vec<(&str, Range<usize>)> = [
            ("threads", "threads"),
            ("depth", "file-async-backlog"),
            ("block", "file-block-size"),
            ("active", "file-total-size"),
            ("read", "file-rw-ratio"),
            ("mix", "file-rw-ratio"),
            ("every", "file-fsync-freq"),
            ("burst", "file-num"),
            ("rate", "rate"),
            ("time", "time"),
            ("ops", "events"),
            ("ramp", "warmup-time"),
            ("kind", "validate"),
        ]
        .map(|(key, option)| (key, self.span(option)))
        .into();
        let all = self.all.clone();
        let place_of = |key: &str| {
            spans.iter().find(|(k, _)| *k == key).map_or_else(|| all.clone(), |(_, s)| s.clone())
        };
        let spec = self.found.spec(&toml, place_of)?;
        let notes = std::mem::take(&mut self.found.notes);
        let traps = std::mem::take(&mut self.found.traps);
        let engine = Some(engine);
        let name = name(&format!("sysbench-{}", mode.name));
        Some(Job {
            name,
            toml,
            spec,
            engine,
            direct,
            uncached: false,
            drop_cache: None,
            filename: None,
            file: None,
            notes,
            traps,
            check: None,
        })
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

    /// Engine, by its name on iodyno's command line, and depth of each thread.
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

    /// Sizes of files and requests. The files lie side by side. File sizes that are not a multiple of the request are
    /// refused: sysbench would issue a shorter request at the end of a file.
    fn file_set(&mut self, mode: Mode) -> FileSet {
        let files = self.count("file-num", 1);
        let total_bytes = self.size("file-total-size");
        let block_bytes = self.size("file-block-size");
        let merged = self.count("file-merged-requests", 0);
        let request_bytes = match (merged, mode.is_random) {
            (0 | 1, _) => block_bytes,
            (_, true) => {
                self.note("file-merged-requests", "no effect on random modes");
                block_bytes
            }
            (_, false) => block_bytes.saturating_mul(merged),
        };
        let file_bytes = total_bytes / files;
        if file_bytes == 0 || !file_bytes.is_multiple_of(request_bytes) {
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
            self.note("file-num", &words);
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
                    self.note("file-extra-flags", "`direct` has no effect on a mapped file");
                }
                "direct" => direct = true,
                "sync" | "dsync" if engine == "mmap" => {
                    let words = format!("`{flag}` has no effect on a mapped file");
                    self.note("file-extra-flags", &words);
                }
                "sync" | "dsync" => {
                    durable = true;
                    let words =
                        "each write is durable when it completes (RWF_DSYNC, FUA), as with O_DSYNC";
                    self.note("file-extra-flags", words);
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

    fn flushes(&mut self, mode: Mode) -> Flushes {
        let (every, each_write) = (self.count("file-fsync-freq", 0), self.flag("file-fsync-all"));
        match self.text("file-fsync-mode").as_str() {
            "fsync" if mode.writes => self.note("file-fsync-mode", "issued as fdatasync"),
            "fsync" | "fdatasync" => {}
            other => {
                let words = format!("`{other}` is not a flush mode");
                self.refuse("file-fsync-mode", words, "give fsync or fdatasync");
            }
        }
        if !mode.writes {
            return Flushes::None;
        }
        if each_write {
            self.note("file-fsync-all", "the flush after each write is a separate operation, but sysbench counts a write and its flush as one event and adds their times; file-fsync-freq and file-fsync-end have no effect");
            return Flushes::EachWrite;
        }
        if every > 0 { Flushes::Bursts(every) } else { Flushes::None }
    }

    /// Flushes that each thread issues after its last event: one per file.
    fn flushes_at_end(&mut self, mode: Mode, files: u64) -> u64 {
        let is_on = self.flag("file-fsync-end") && !self.flag("file-fsync-all");
        if !mode.writes || !is_on {
            return 0;
        }
        let words =
            format!("{files} flushes of each thread, within the measured time, as in sysbench");
        self.note("file-fsync-end", &words);
        files
    }

    fn mix(&mut self, mode: Mode) -> String {
        let text = self.text("file-rw-ratio");
        // sysbench stores the ratio in single precision, which matters where counts equal it: 3 / 10 is below its 0.3.
        let ratio = text.parse::<f32>().ok().filter(|ratio| ratio.is_finite() && *ratio >= 0.0);
        let ratio = ratio.map(f64::from);
        let ratio = ratio.unwrap_or_else(|| {
            let words = format!("`{text}` is not a ratio of reads to writes");
            self.refuse("file-rw-ratio", words, "give a number such as 1.5");
            1.5
        });
        match (mode.reads, mode.writes) {
            (true, true) if ratio > 0.0 => {
                format!("mix_order = \"ratio\"\nmix = {{ read = {ratio}, write = 1 }}\n")
            }
            (true, true) => {
                self.note("file-rw-ratio", "a ratio of 0 means writes only");
                "mix = { write = 1 }\n".to_owned()
            }
            (true, false) => "mix = { read = 1 }\n".to_owned(),
            _ => "mix = { write = 1 }\n".to_owned(),
        }
    }

    /// Operations of iodyno per event of sysbench. With `file-fsync-all`, a write and its flush are one event.
    fn ops_per_event(&mut self, mode: Mode) -> f64 {
        if !mode.writes || !self.flag("file-fsync-all") {
            return 1.0;
        }
        let ratio = self.text("file-rw-ratio").parse::<f64>().unwrap_or(0.0).max(0.0);
        let reads_per_write = if mode.reads { ratio } else { 0.0 };
        1.0 + 1.0 / (1.0 + reads_per_write)
    }

    fn arrivals(&mut self, ops_per_event: f64) -> String {
        let rate = self.count("rate", 0);
        if rate == 0 {
            return String::new();
        }
        self.note("rate", "the rate counts events of all threads, including flushes, with exponential gaps; response times count from the intended start, like sysbench's latency; each worker has its share of the schedule, but sysbench's threads share one queue");
        let rate = rate as f64 * ops_per_event;
        format!("\n[arrivals]\nkind = \"open\"\nrate = {rate}\nprocess = \"poisson\"\n")
    }

    fn limits(&mut self, ops_per_event: f64) -> String {
        let (time_s, events) = (self.count("time", 0), self.count("events", 0));
        let ramp_s = self.count("warmup-time", 0);
        if self.is_given("warmup-time") {
            self.note("warmup-time", "an option of sysbench 1.1, not of 1.0");
        }
        let mut limits = format!("ramp = \"{ramp_s}s\"\n");
        if time_s > 0 {
            let _ = writeln!(limits, "time = \"{time_s}s\"");
        }
        if events > 0 {
            let ops = (events as f64 * ops_per_event).round() as u64;
            let _ = writeln!(limits, "ops = {ops}");
        }
        if time_s == 0 && events == 0 {
            let words = "without a time or a number of events the test never ends";
            self.refuse("time", words, "give --time=60 or --events=100000");
        }
        limits
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushes {
    None,
    EachWrite,
    Bursts(u64),
}
