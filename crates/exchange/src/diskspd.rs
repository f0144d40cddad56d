//! Command lines of diskspd: [`parse`] converts one to a workload, with the meaning of diskspd 2.2.
//!
//! Several targets become several `--on`: in both programs each target has threads of its own. `diskspd/addresses.rs`
//! converts the addresses.

mod addresses;

use crate::command_line;
use crate::fio::{Job, JobFile};
use crate::found::{Found, quoted, size};
use crate::size_text::size_text;
use iodyno_catalog::Problem;
use std::fmt::Write as _;
use std::ops::Range;

/// Options that change no result, by their first letter, with the reason.
const NOTED: &[(char, &str)] = &[
    ('C', "no cool-down follows the measured time"),
    ('D', "a time series by interval is always kept"),
    ('L', "latencies are always recorded"),
    ('P', "progress is shown on a terminal"),
    ('R', "for other output formats use `iodyno show --json` or `iodyno export`"),
    ('e', "Windows events are not recorded"),
    ('l', "iodyno chooses the page size of its buffers"),
    ('n', "workers are not bound to processors unless --cpus is given"),
    ('v', "affects only diskspd's output"),
    ('x', "the engine decides how completions are reaped"),
    ('z', "the seed is set for the whole run: give --seed"),
];

/// Options that can't be honoured, with the reason and the remedy.
const REFUSED: &[(char, &str, &str)] = &[
    ('X', "iodyno does not read XML profiles", "write its options into the command line"),
    (
        'a',
        "processors are set for the whole run",
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

/// Letters of the options that have an effect.
const HONOURED: &str = "BFOSTWZbcdfghorstw";

/// Reads a command line such as `diskspd -b8K -d60 -o32 -t4 -r -w30 -Sh target.dat`.
///
/// # Errors
/// All options that can't be honoured, with their positions.
pub fn parse(line: &str) -> Result<JobFile, Problem> {
    let file = command_line::file(line);
    let mut found = Found::new(&file);
    // A backslash separates folders on Windows, so it is not an escape.
    let job = match found.line(line, false) {
        Some(words) => {
            let (mut options, mut targets) = (Vec::new(), Vec::new());
            for word in words {
                match word.text.strip_prefix('-') {
                    Some(option) if targets.is_empty() => {
                        options.push((option.to_owned(), word.span));
                    }
                    Some(_) => {
                        let words = format!("`{}` comes after a target", word.text);
                        found.refuse(&word.span, words, "put options before the targets");
                    }
                    None => targets.push(word.text),
                }
            }
            Reading::new(options, targets, &mut found).job()
        }
        None => None,
    };
    match job {
        Some(job) if !found.is_refused() => {
            Ok(JobFile { name: job.name.clone(), groups: vec![vec![job]] })
        }
        _ => Err(found.problem()),
    }
}

/// An option: its letter, value and position.
struct Opt {
    letter: char,
    value: String,
    span: Range<usize>,
}

struct Reading<'a, 'f> {
    found: &'a mut Found<'f>,
    options: Vec<Opt>,
    targets: Vec<String>,
    block_bytes: u64,
    all: Range<usize>,
}

/// Caching flags (`-S`, `-h`) with which a target is opened.
#[derive(Default)]
struct Caching {
    direct: bool,
    is_durable: bool,
    is_mapped: bool,
}

impl<'a, 'f> Reading<'a, 'f> {
    fn new(
        words: Vec<(String, Range<usize>)>,
        targets: Vec<String>,
        found: &'a mut Found<'f>,
    ) -> Self {
        let mut options = Vec::new();
        let all = 0..found.file.text.len();
        for (word, span) in words {
            let mut chars = word.chars();
            let Some(letter) = chars.next() else {
                found.refuse(&span, "`-` is not an option", "remove it");
                continue;
            };
            let value = chars.as_str().to_owned();
            if HONOURED.contains(letter) {
                options.push(Opt { letter, value, span });
            } else if let Some((_, why)) = NOTED.iter().find(|(l, _)| *l == letter) {
                found.note(&span, format!("`-{word}`: {why}"));
            } else if let Some((_, why, help)) = REFUSED.iter().find(|(l, ..)| *l == letter) {
                let words = format!("`-{word}` can't be honoured: {why}");
                found.refuse(&span, words, *help);
            } else {
                let words = format!("diskspd has no option `-{word}`");
                found.refuse(&span, words, "remove it if it does not matter");
            }
        }
        let mut reading = Self { found, options, targets, block_bytes: 64 << 10, all };
        if let Some(bytes) = reading.size('b') {
            reading.block_bytes = bytes;
        }
        reading
    }

    /// Value and position of the last option with this letter.
    fn find(&self, letter: char) -> Option<(String, Range<usize>)> {
        let opt = self.options.iter().rev().find(|opt| opt.letter == letter)?;
        Some((opt.value.clone(), opt.span.clone()))
    }

    /// Position of an option; the whole line if the option is not given.
    fn span(&self, letter: char) -> Range<usize> {
        self.find(letter).map_or_else(|| self.all.clone(), |(_, span)| span)
    }

    fn refuse(&mut self, letter: char, words: impl Into<String>, help: &str) {
        let span = self.span(letter);
        self.found.refuse(&span, words, help);
    }

    fn note(&mut self, letter: char, words: impl Into<String>) {
        let span = self.span(letter);
        self.found.note(&span, words);
    }

    fn trap(&mut self, letter: char, words: impl Into<String>) {
        let span = self.span(letter);
        self.found.trap(&span, words);
    }

    /// Adds a warning about something on which a run also gives a verdict.
    fn judged_trap(&mut self, letter: char, words: impl Into<String>) {
        let span = self.span(letter);
        self.found.judged_trap(&span, words);
    }

    /// Parses a size with a letter K, M, G or T, or with `b` for blocks. `letter` is the option, for errors.
    fn bytes(&mut self, letter: char, text: &str) -> Option<u64> {
        let blocks = text.strip_suffix(['b', 'B']).and_then(|n| n.parse::<u64>().ok());
        let read = match blocks {
            Some(blocks) if letter != 'b' => {
                blocks.checked_mul(self.block_bytes).ok_or_else(|| format!("`{text}` is too large"))
            }
            _ => size(text),
        };
        read.map_err(|why| self.refuse(letter, why, "")).ok()
    }

    fn size(&mut self, letter: char) -> Option<u64> {
        let (value, _) = self.find(letter)?;
        self.bytes(letter, &value)
    }

    fn count(&mut self, letter: char) -> Option<u64> {
        let (value, _) = self.find(letter)?;
        let read = value.parse::<u32>().ok().map(u64::from);
        if read.is_none() {
            self.refuse(letter, format!("`-{letter}{value}` is not a whole number"), "");
        }
        read
    }

    fn job(mut self) -> Option<Job> {
        let (threads, depth) = self.workers();
        let (start, end) = self.extent();
        let write_percent = self.write_percent();
        let caching = self.caching();
        let (addresses, align) = self.addresses(threads, start, end, write_percent);
        let arrivals = self.arrivals(threads);
        let content = self.content(write_percent > 0);
        let ramp_s = self.count('W').unwrap_or(5);
        let time_s = self.count('d').unwrap_or(10);
        self.traps(write_percent, &caching);
        if self.targets.len() > 1 {
            let words = format!(
                "{} targets, each with its own threads: give one --on per target",
                self.targets.len()
            );
            let all = self.all.clone();
            self.found.note(&all, words);
        }

        let mut toml = String::from("schema = 1\n");
        let title: String = self.found.file.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(toml, "about = {}", quoted(&title));
        let _ = writeln!(toml, "threads = {threads}\ndepth = {depth}");
        let _ = writeln!(toml, "block = \"{}\"", size_text(self.block_bytes));
        if let Some(align) = align {
            // Blocks may be smaller than the alignment of their addresses.
            let key =
                if self.block_bytes.is_multiple_of(align) { "align" } else { "address_align" };
            let _ = writeln!(toml, "{key} = \"{}\"", size_text(align));
        }
        let end = end.map_or_else(|| "100%".to_owned(), size_text);
        let _ = writeln!(toml, "active = \"{}..{end}\"", size_text(start));
        let shares = [("read", 100 - write_percent), ("write", write_percent)];
        let shares = shares.iter().filter(|(_, share)| *share > 0);
        let shares: Vec<_> = shares.map(|(kind, share)| format!("{kind} = {share}")).collect();
        let _ = writeln!(toml, "mix = {{ {} }}", shares.join(", "));
        let _ = write!(toml, "\n[all]\naddresses = {addresses}\n");
        if caching.is_durable && write_percent > 0 {
            toml.push_str("\n[write]\nfua = \"100%\"\n");
        }
        toml.push_str(&arrivals);
        toml.push_str(&content);
        let _ = write!(toml, "\n[limits]\nramp = \"{ramp_s}s\"\ntime = \"{time_s}s\"\n");

        let spans: Vec<(&str, Range<usize>)> = [
            ("threads", 't'),
            ("depth", 'o'),
            ("block", 'b'),
            ("align", 'r'),
            ("address_align", 'r'),
            ("active", 'f'),
            ("mix", 'w'),
            ("addresses", if self.find('r').is_some() { 'r' } else { 's' }),
            ("rate", 'g'),
            ("ramp", 'W'),
            ("time", 'd'),
        ]
        .map(|(key, letter)| (key, self.span(letter)))
        .into();
        let all = self.all.clone();
        let place_of = |key: &str| {
            spans.iter().find(|(k, _)| *k == key).map_or_else(|| all.clone(), |(_, s)| s.clone())
        };
        let spec = self.found.spec(&toml, place_of)?;
        let notes = std::mem::take(&mut self.found.notes);
        let traps = std::mem::take(&mut self.found.traps);
        let engine = caching.is_mapped.then_some("mmap");
        let filename = self.targets.into_iter().next();
        let (name, direct) = ("diskspd".to_owned(), caching.direct);
        Some(Job {
            name,
            toml,
            spec,
            engine,
            direct,
            uncached: false,
            drop_cache: None,
            filename,
            file: None,
            notes,
            traps,
            check: None,
        })
    }

    /// Threads per target, and outstanding requests per thread.
    fn workers(&mut self) -> (u64, u64) {
        let (own, total) = (self.count('t'), self.count('F'));
        if let (Some(_), Some(_)) = (own, total) {
            self.refuse('F', "-t and -F are both given", "keep one of them");
        }
        if total.is_some() && self.targets.len() > 1 {
            let words = "threads that each access all targets can't be honoured: in iodyno each target has its own workers";
            self.refuse('F', words, "give the threads per target with -t");
        }
        let (of_target, of_thread) = (self.count('o'), self.count('O'));
        if of_thread.is_some() && total.is_none() {
            self.refuse('O', "-O has no meaning without -F", "use -o");
        }
        (own.or(total).unwrap_or(1), of_thread.or(of_target).unwrap_or(2))
    }

    /// First byte and end of the used part of the target. An end of None is the end of the target.
    fn extent(&mut self) -> (u64, Option<u64>) {
        let mut start = 0;
        let mut end = None;
        if let Some((value, _)) = self.find('B') {
            let (base, len) = match value.split_once(':') {
                Some((base, len)) => (base.to_owned(), Some(len.to_owned())),
                None => (value, None),
            };
            start = self.bytes('B', &base).unwrap_or(0);
            let len = len.and_then(|len| self.bytes('B', &len));
            end = len.map(|len| start.saturating_add(len));
        }
        if let Some((value, _)) = self.find('f') {
            if !value.starts_with(|c: char| c.is_ascii_digit()) {
                self.note('f', "Windows' cache hints have no effect");
            } else if end.is_some() {
                self.refuse('f', "-B and -f both set the end of the range", "keep one of them");
            } else {
                end = self.bytes('f', &value);
            }
        }
        if self.find('c').is_some() {
            let created = self.size('c');
            self.note('c', "the target is given by --on, such as `--on scratch:1GiB`; --fill writes all of it first");
            end = end.or(created);
        }
        (start, end)
    }

    fn write_percent(&mut self) -> u64 {
        if self.find('w').is_some_and(|(value, _)| value.is_empty()) {
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
        for opt in self.options.iter().filter(|opt| matches!(opt.letter, 'S' | 'h')) {
            let flags = if opt.letter == 'h' { "h" } else { opt.value.as_str() };
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
            let letter = if self.find('S').is_some() { 'S' } else { 'h' };
            self.note(
                letter,
                "write-through: each write is durable when it completes (RWF_DSYNC, FUA)",
            );
        }
        caching
    }

    fn arrivals(&mut self, threads: u64) -> String {
        let Some((value, _)) = self.find('g') else { return String::new() };
        let digits = value.strip_suffix('i').unwrap_or(&value);
        let Some(number) = digits.parse::<u32>().ok().filter(|number| *number > 0) else {
            let words = format!("`-g{value}` is not a throughput");
            self.refuse(
                'g',
                words,
                "give bytes per millisecond, or operations per second followed by i",
            );
            return String::new();
        };
        let per_thread = if digits.len() < value.len() {
            f64::from(number)
        } else {
            f64::from(number) * 1000.0 / self.block_bytes.max(1) as f64
        };
        let rate = per_thread * threads as f64;
        let words = format!(
            "the rate of each thread: {rate} operations a second per target, in an open loop with equal gaps; response times count from the intended start, service times are diskspd's latency"
        );
        self.note('g', words);
        format!("\n[arrivals]\nkind = \"open\"\nrate = {rate}\nprocess = \"constant\"\n")
    }

    fn content(&mut self, writes: bool) -> String {
        let Some((value, _)) = self.find('Z') else {
            if !writes {
                return String::new();
            }
            return "\n[content]\nkind = \"compressible\"\ncompressible = \"100%\"\ndedupable = \"100%\"\n"
                .to_owned();
        };
        if !writes {
            self.note('Z', "no effect, since nothing is written");
            return String::new();
        }
        match value.as_str() {
            "" => "\n[content]\nkind = \"zeroes\"\n".to_owned(),
            "r" => "\n[content]\nkind = \"incompressible\"\n".to_owned(),
            _ if value.contains(',') => {
                self.refuse(
                    'Z',
                    "iodyno does not write the content of a file",
                    "give -Zr for random content",
                );
                String::new()
            }
            _ => {
                let _ = self.size('Z');
                self.note(
                    'Z',
                    "content is random; in diskspd it repeats after this number of bytes",
                );
                "\n[content]\nkind = \"incompressible\"\n".to_owned()
            }
        }
    }

    /// Adds warnings about the command line.
    fn traps(&mut self, write_percent: u64, caching: &Caching) {
        if !caching.direct && !caching.is_mapped {
            let words = if write_percent > 0 && !caching.is_durable {
                "buffered writes measure the file cache, not the device: give -Sh"
            } else {
                "buffered I/O is diskspd's default, and measures the file cache: give -Sh"
            };
            self.judged_trap('S', words);
        }
        if write_percent > 0 && self.find('Z').is_none() {
            let words = "diskspd's default content is one pattern of 256 bytes, which compresses and deduplicates: give -Zr or -Z1M";
            self.trap('w', words);
        }
        if self.find('Z').is_some_and(|(value, _)| value.is_empty()) && write_percent > 0 {
            self.trap('Z', "zeroes compress, and some devices do not store them");
        }
        if write_percent < 100 {
            let words = "reads of blocks that were never written may not touch the medium: write the target first, or give --fill";
            self.judged_trap('w', words);
        }
        if self.find('b').is_none() {
            self.trap('b', "without -b the block is 64 KiB");
        }
        if self.find('o').is_none() && self.find('O').is_none() {
            self.trap('o', "without -o each thread has 2 requests outstanding");
        }
        if self.find('g').is_some_and(|(value, _)| !value.ends_with('i')) {
            let words = "-g is in bytes per millisecond, for each thread and target";
            self.trap('g', words);
        }
    }
}
