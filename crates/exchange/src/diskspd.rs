//! Converts command lines of diskspd 2.2 to workloads.
//!
//! Several targets become several `--on` flags, because iodyno, like diskspd, runs separate threads on each target.

mod addresses;

use crate::command_line::Word;
use crate::fio::{Job, JobFile};
use crate::found::{Found, Made, read_write_mix, size};
use crate::option_line::{Opt, OptionLine, one_job};
use crate::shared::{SECOND_NS, UNWRITTEN};
use iodyno_catalog::Problem;
use iodyno_workload::{ActiveRange, ArrivalKind, Block, Content, Edge, Limits, Percent, Process};

/// First letters of options that have no effect on results, with the reason.
const NOTED: &[(char, &str)] = &[
    ('C', "no cool-down follows the measurement"),
    ('D', "a time series by interval is always kept"),
    ('L', "latencies are always recorded"),
    ('P', "iodyno shows progress without an option"),
    ('R', "for other output formats use `iodyno show --json` or `iodyno export`"),
    ('e', "Windows events are not recorded"),
    ('l', "iodyno chooses the page size of its buffers"),
    ('n', "workers are not bound to processors unless --cpus is given"),
    ('v', "affects only diskspd's output"),
    ('x', "the engine decides how completions are reaped"),
    ('z', "all targets of a run use one seed: give --seed"),
];

/// First letters of options that are not supported, with the reason and the remedy.
const REFUSED: &[(char, &str, &str)] = &[
    ('X', "iodyno does not read XML profiles", "give its options on the command line"),
    (
        'a',
        "all workers of a run use the same processors",
        "remove it, and give `--cpus 0,1` to `iodyno run`",
    ),
    (
        'i',
        "iodyno does not issue bursts of I/O",
        "remove -i and -j, or use `think_drains` in a workload file",
    ),
    (
        'j',
        "iodyno does not issue bursts of I/O",
        "remove -i and -j, or use `think_drains` in a workload file",
    ),
    ('p', "iodyno does not issue all outstanding requests at the same offset", "remove it"),
    ('I', "iodyno does not set I/O priorities", "remove it"),
    ('N', "Windows' ways to flush a mapped file are not available", "remove it"),
    ('y', "Windows events are not available", "remove it"),
    (':', "iodyno does not know experimental flags", "remove it"),
    ('?', "diskspd's help is not available", "remove it"),
];

/// First letters of the options that are supported.
const HONOURED: &str = "BFOSTWZbcdfghorstw";

/// Parses a command line such as `diskspd -b8K -d60 -o32 -t4 -r -w30 -Sh target.dat`.
///
/// # Errors
/// Lists all unsupported options, with their positions.
pub fn parse(line: &str) -> Result<JobFile, Problem> {
    // A backslash separates folders on Windows, so it is not an escape.
    one_job(line, false, |words, found| Reading::new(words, found).target_job())
}

type Reading<'a, 'f> = OptionLine<'a, 'f, char, Targets>;

/// Target names on the command line, and the block size.
struct Targets {
    names: Vec<String>,
    block_bytes: u64,
}

/// Flags for opening a target, from the options `-S` and `-h`.
#[derive(Default)]
struct Caching {
    direct: bool,
    is_durable: bool,
    is_mapped: bool,
}

impl<'a, 'f> Reading<'a, 'f> {
    fn new(words: Vec<Word>, found: &'a mut Found<'f>) -> Self {
        let (mut options, mut names) = (Vec::new(), Vec::new());
        for Word { text, span, .. } in words {
            let Some(option) = text.strip_prefix('-') else {
                names.push(text);
                continue;
            };
            if !names.is_empty() {
                let words = format!("`{text}` follows a target");
                found.refuse(&span, words, "give options before the targets");
                continue;
            }
            let mut chars = option.chars();
            let Some(name) = chars.next() else {
                found.refuse(&span, "`-` is not an option", "remove it");
                continue;
            };
            if HONOURED.contains(name) {
                let value = Some(chars.as_str().to_owned());
                options.push(Opt { name, value, span });
            } else if let Some((_, why)) = NOTED.iter().find(|(l, _)| *l == name) {
                found.note(&span, format!("`{text}`: {why}"));
            } else if let Some((_, why, help)) = REFUSED.iter().find(|(l, ..)| *l == name) {
                found.refuse(&span, format!("`{text}` can't be honoured: {why}"), *help);
            } else {
                let words = format!("diskspd has no option `{text}`");
                found.refuse(&span, words, "remove the option if it does not matter");
            }
        }
        let more = Targets { names, block_bytes: 64 << 10 };
        let mut reading = Self { found, options, more };
        if let Some(bytes) = reading.size('b') {
            reading.more.block_bytes = bytes;
        }
        reading
    }

    /// Parses a size with suffix K, M, G or T, or a number of blocks with suffix `b`. `letter` is the option's
    /// letter, for error messages.
    fn bytes(&mut self, letter: char, text: &str) -> Option<u64> {
        let blocks = text.strip_suffix(['b', 'B']).and_then(|n| n.parse::<u64>().ok());
        let read = match blocks {
            Some(blocks) if letter != 'b' => blocks
                .checked_mul(self.more.block_bytes)
                .ok_or_else(|| format!("`{text}` is too large")),
            _ => size(text),
        };
        read.map_err(|why| self.refuse(letter, why, "")).ok()
    }

    fn size(&mut self, letter: char) -> Option<u64> {
        let value = self.value(letter)?;
        self.bytes(letter, &value)
    }

    fn count(&mut self, letter: char) -> Option<u64> {
        let value = self.value(letter)?;
        let read = value.parse::<u32>().ok().map(u64::from);
        if read.is_none() {
            self.refuse(letter, format!("`-{letter}{value}` is not a whole number"), "");
        }
        read
    }

    fn target_job(mut self) -> Option<Job> {
        let mut workload = self.draft();
        let (threads, depth) = self.workers();
        workload.threads(threads);
        workload.depth(depth);
        workload.blocks(vec![Block::new(self.more.block_bytes, 1.0)]);
        let (start, end) = self.extent();
        let edge = end.map_or(Edge::Share(Percent::ALL), Edge::Bytes);
        workload.active(ActiveRange::between(Edge::Bytes(start), edge));
        let write_percent = self.write_percent();
        read_write_mix(&mut workload, 100.0 - write_percent as f64);
        let caching = self.caching();
        let (addresses, align) = self.addresses(threads, start, end, write_percent);
        workload.addresses(addresses);
        // Blocks may be smaller than the alignment of their addresses.
        let fits = align.is_some_and(|align| self.more.block_bytes.is_multiple_of(align));
        workload.align(align.filter(|_| fits));
        workload.address_align(align.filter(|_| !fits));
        if caching.is_durable && write_percent > 0 {
            workload.fua(Percent::ALL);
        }
        if let Some(arrivals) = self.arrivals(threads) {
            workload.arrivals(arrivals);
        }
        workload.content(self.content(write_percent > 0));
        let ramp_ns = self.count('W').unwrap_or(5) * SECOND_NS;
        let time_ns = Some(self.count('d').unwrap_or(10) * SECOND_NS);
        workload.limits(Limits { ramp_ns, time_ns, ..Limits::UNLIMITED });
        self.traps(write_percent, &caching);
        if self.more.names.len() > 1 {
            let words = format!(
                "{} targets, each with its own threads: give one --on per target",
                self.more.names.len()
            );
            self.found.note(&self.found.all(), words);
        }
        let options = [
            ("threads", 't'),
            ("depth", 'o'),
            ("block", 'b'),
            ("align", 'r'),
            ("address_align", 'r'),
            ("active", 'f'),
            ("mix", 'w'),
            ("addresses", if self.is_given('r') { 'r' } else { 's' }),
            ("arrivals.rate", 'g'),
            ("limits.ramp", 'W'),
            ("limits.time", 'd'),
        ];
        let made = Made {
            name: "diskspd".to_owned(),
            workload,
            engine: caching.is_mapped.then_some("mmap"),
            direct: caching.direct,
            filename: self.more.names.first().cloned(),
        };
        self.job(made, options)
    }

    /// Threads per target, and outstanding requests per thread.
    fn workers(&mut self) -> (u64, u64) {
        let (own, total) = (self.count('t'), self.count('F'));
        if let (Some(_), Some(_)) = (own, total) {
            self.refuse('F', "-t and -F are both given", "keep one of them");
        }
        if total.is_some() && self.more.names.len() > 1 {
            let words = "threads that each access all targets can't be honoured: in iodyno each target has its own workers";
            self.refuse('F', words, "give the threads per target with -t");
        }
        let (of_target, of_thread) = (self.count('o'), self.count('O'));
        if of_thread.is_some() && total.is_none() {
            self.refuse('O', "-O has no meaning without -F", "use -o");
        }
        (own.or(total).unwrap_or(1), of_thread.or(of_target).unwrap_or(2))
    }

    /// Start and end (exclusive) of the used part of the target, bytes. An end of None: the end of the target.
    fn extent(&mut self) -> (u64, Option<u64>) {
        let mut start = 0;
        let mut end = None;
        if let Some(value) = self.value('B') {
            let (base, len) = match value.split_once(':') {
                Some((base, len)) => (base.to_owned(), Some(len.to_owned())),
                None => (value, None),
            };
            start = self.bytes('B', &base).unwrap_or(0);
            let len = len.and_then(|len| self.bytes('B', &len));
            end = len.map(|len| start.saturating_add(len));
        }
        if let Some(value) = self.value('f') {
            if !value.starts_with(|c: char| c.is_ascii_digit()) {
                self.note('f', "Windows' cache hints have no effect");
            } else if end.is_some() {
                self.refuse('f', "-B and -f both set the end of the range", "keep one of them");
            } else {
                end = self.bytes('f', &value);
            }
        }
        if self.is_given('c') {
            let created = self.size('c');
            self.note('c', "the target is given by --on, such as `--on scratch:1GiB`; --fill writes all of it first");
            end = end.or(created);
        }
        (start, end)
    }

    fn write_percent(&mut self) -> u64 {
        if self.value('w').is_some_and(|value| value.is_empty()) {
            return 0;
        }
        let percent = self.count('w').unwrap_or(0);
        if percent > 100 {
            self.refuse('w', "the share of writes must be a percentage from 0 to 100", "");
            return 0;
        }
        percent
    }

    fn caching(&mut self) -> Caching {
        let mut caching = Caching::default();
        for opt in self.options.iter().filter(|opt| matches!(opt.name, 'S' | 'h')) {
            let flags =
                if opt.name == 'h' { "h" } else { opt.value.as_deref().unwrap_or_default() };
            if flags.is_empty() {
                caching.direct = true;
            }
            for flag in flags.chars() {
                match flag {
                    'b' => {}
                    'u' => caching.direct = true,
                    'w' => caching.is_durable = true,
                    'h' => (caching.direct, caching.is_durable) = (true, true),
                    'm' => caching.is_mapped = true,
                    'r' => {
                        let words =
                            "`-Sr` is for network file systems of Windows, and can't be honoured";
                        self.found.refuse(&opt.span, words, "remove it");
                    }
                    _ => {
                        let words = format!("`-S` has no flag `{flag}`");
                        self.found.refuse(&opt.span, words, "give b, h, m, u or w");
                    }
                }
            }
        }
        if caching.is_durable {
            let letter = if self.is_given('S') { 'S' } else { 'h' };
            self.note(
                letter,
                "write-through: each write is durable when it completes (RWF_DSYNC, FUA)",
            );
        }
        caching
    }

    /// The open loop that `-g` requests; None: a closed loop.
    fn arrivals(&mut self, threads: u64) -> Option<ArrivalKind> {
        let value = self.value('g')?;
        let digits = value.strip_suffix('i').unwrap_or(&value);
        let Some(number) = digits.parse::<u32>().ok().filter(|number| *number > 0) else {
            let words = format!("`-g{value}` is not a throughput");
            self.refuse(
                'g',
                words,
                "give bytes per millisecond, or operations per second followed by i",
            );
            return None;
        };
        let per_thread = if digits.len() < value.len() {
            f64::from(number)
        } else {
            f64::from(number) * 1000.0 / self.more.block_bytes.max(1) as f64
        };
        let rate_iops = per_thread * threads as f64;
        let words = format!(
            "the limit applies to each thread: each target gets {rate_iops} operations a second at equal intervals, as an open loop. Response times count from the intended start; diskspd's latency is iodyno's service time"
        );
        self.note('g', words);
        Some(ArrivalKind::Open { rate_iops, process: Process::Constant })
    }

    fn content(&mut self, writes: bool) -> Content {
        let Some(value) = self.value('Z').filter(|_| writes) else {
            if self.is_given('Z') {
                self.note('Z', "no effect, since nothing is written");
            } else if writes {
                let (compressible, dedupable) = (Percent::ALL, Percent::ALL);
                return Content::Compressible { compressible, dedupable };
            }
            return Content::Incompressible;
        };
        match value.as_str() {
            "" => return Content::Zeroes,
            "r" => {}
            _ if value.contains(',') => {
                self.refuse(
                    'Z',
                    "iodyno does not take the content of writes from a file",
                    "give -Zr for random content",
                );
            }
            _ => {
                let _ = self.size('Z');
                self.note(
                    'Z',
                    "content is random; in diskspd it repeats after this number of bytes",
                );
            }
        }
        Content::Incompressible
    }

    /// Adds warnings about options whose effect the user may not expect.
    fn traps(&mut self, write_percent: u64, caching: &Caching) {
        if !caching.direct && !caching.is_mapped {
            let words = if write_percent > 0 && !caching.is_durable {
                "buffered writes measure the file cache, not the device: give -Sh"
            } else {
                "buffered I/O is diskspd's default, and measures the file cache: give -Sh"
            };
            self.judged_trap('S', words);
        }
        if write_percent > 0 && !self.is_given('Z') {
            let words = "diskspd's default content is one pattern of 256 bytes, which compresses and deduplicates: give -Zr or -Z1M";
            self.trap('w', words);
        }
        if self.value('Z').is_some_and(|value| value.is_empty()) && write_percent > 0 {
            self.trap('Z', "zeroes compress, and some devices do not store them");
        }
        if write_percent < 100 {
            self.judged_trap('w', UNWRITTEN);
        }
        if !self.is_given('b') {
            self.trap('b', "without -b the block is 64 KiB");
        }
        if !self.is_given('o') && !self.is_given('O') {
            self.trap('o', "without -o each thread has 2 requests outstanding");
        }
        if self.value('g').is_some_and(|value| !value.ends_with('i')) {
            let words = "-g is in bytes per millisecond, for each thread and target";
            self.trap('g', words);
        }
    }
}
