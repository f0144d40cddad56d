//! Command lines of 60East's `amps_bio_perf_test`, which measures storage for the transaction log of AMPS: [`parse`]
//! converts one to a workload, with the meaning of the documentation of AMPS 5.3. Where the documentation is silent, a
//! choice is made here and noted.

use crate::command_line;
use crate::fio::{Job, JobFile};
use crate::found::{Found, quoted};
use crate::size_text::size_text;
use iodyno_catalog::Problem;
use iodyno_units::nearest;
use std::fmt::Write as _;
use std::ops::Range;

/// Name of the benchmark's program on a command line.
pub(crate) const PROGRAM: &str = command_line::AMPS;

/// Long names of the options. The short form of an option is its first letter.
const OPTIONS: [&str; 5] = ["batch_size", "message_size", "file_size", "read_mix", "file"];
/// Default number of messages of a batch, and default bytes of a message: from the published measurement of this tool.
const BATCH: u64 = 128;
const MESSAGE_BYTES: u64 = 512;
/// Limits from the documentation: messages of a batch, step and maximum of a message, size of the file, share of reads.
const BATCH_MAX: u64 = 256;
const MESSAGE_STEP_BYTES: u64 = 256;
const MESSAGE_MAX_BYTES: u64 = 128 << 10;
const FILE_MAX_MB: u64 = 8192;
const READ_MAX_PERCENT: u64 = 99;
/// Length of a replay, bytes: 256 chunks of 64 KiB, as in the catalog's `log-80-20`.
const REPLAY_BYTES: u64 = 16 << 20;

/// Reads a command line such as `amps_bio_perf_test -b 128 -m 512 -r 80 --file /data/log`.
///
/// # Errors
/// All options that can't be honoured, with their positions.
pub fn parse(line: &str) -> Result<JobFile, Problem> {
    let file = command_line::file(line);
    let mut found = Found::new(&file);
    let words = found.line(line, true);
    let job = words.and_then(|words| {
        let options = options(&mut found, words.into_iter());
        Reading { options, all: 0..line.len(), found: &mut found }.job()
    });
    match job {
        Some(job) if !found.is_refused() => {
            Ok(JobFile { name: job.name.clone(), groups: vec![vec![job]] })
        }
        _ => Err(found.problem()),
    }
}

/// An option with its value and position.
struct Opt {
    name: &'static str,
    value: String,
    span: Range<usize>,
}

/// The options of a line: `--name value`, `--name=value`, `-n value` or `-nvalue`.
fn options(found: &mut Found<'_>, mut words: impl Iterator<Item = command_line::Word>) -> Vec<Opt> {
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        let (given, attached) = if let Some(long) = word.text.strip_prefix("--") {
            match long.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (long.to_owned(), None),
            }
        } else if let Some(short) = word.text.strip_prefix('-').filter(|short| !short.is_empty()) {
            let mut chars = short.chars();
            let letter = chars.next().map_or_else(String::new, String::from);
            (letter, Some(chars.as_str().to_owned()).filter(|value| !value.is_empty()))
        } else {
            let words = format!("`{}` is not an option", word.text);
            found.refuse(&word.span, words, "begin an option with - or --");
            continue;
        };
        let is_short = !word.text.starts_with("--");
        let name = OPTIONS.into_iter().find(|name| match (is_short, given.as_str()) {
            // The documentation assigns `-f` to both the file and its size; the value decides below.
            (true, "f") => *name == "file",
            (true, letter) => *name != "file_size" && name.starts_with(letter),
            (false, long) => *name == long,
        });
        let Some(name) = name else {
            let near = nearest(&given, OPTIONS).map(|near| format!("did you mean `--{near}`? "));
            let help = format!("{}remove it if it does not matter", near.unwrap_or_default());
            let words = format!("{PROGRAM} has no option `{}`", word.text);
            found.refuse(&word.span, words, help);
            continue;
        };
        let mut span = word.span;
        let value = attached.or_else(|| {
            let next = words.next()?;
            span.end = next.span.end;
            Some(next.text)
        });
        let Some(value) = value else {
            found.refuse(&span, format!("`{}` has no value", word.text), "");
            continue;
        };
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        let name = if is_short && name == "file" && is_number {
            let words = format!(
                "`-f {value}` is a number, so it is taken as the size of the file in MB; the documentation gives -f to both the file's name and its size"
            );
            found.note(&span, words);
            "file_size"
        } else {
            name
        };
        options.push(Opt { name, value, span });
    }
    options
}

struct Reading<'a, 'f> {
    options: Vec<Opt>,
    /// The whole command line.
    all: Range<usize>,
    found: &'a mut Found<'f>,
}

impl Reading<'_, '_> {
    /// Last option with this name, the one that counts.
    fn find(&self, name: &str) -> Option<&Opt> {
        self.options.iter().rev().find(|opt| opt.name == name)
    }

    /// Position of an option; the whole line if the option is not given.
    fn span(&self, name: &str) -> Range<usize> {
        self.find(name).map_or_else(|| self.all.clone(), |opt| opt.span.clone())
    }

    /// Value of an option as a whole number within `limits`; None if it is missing or refused. `has_letter`: a suffix
    /// such as K is allowed.
    fn number(&mut self, name: &str, limits: (u64, u64), has_letter: bool) -> Option<u64> {
        let (value, span) = self.find(name).map(|opt| (opt.value.clone(), opt.span.clone()))?;
        let read = if has_letter { crate::found::size(&value).ok() } else { value.parse().ok() };
        let (least, most) = limits;
        let found = read.filter(|number| (least..=most).contains(number));
        if found.is_none() {
            let most = if has_letter { size_text(most) } else { most.to_string() };
            let least = if has_letter { size_text(least) } else { least.to_string() };
            let words =
                format!("`--{name}` must be a whole number from {least} to {most}, not `{value}`");
            self.found.refuse(&span, words, "");
        }
        found
    }

    fn job(mut self) -> Option<Job> {
        let batch = self.number("batch_size", (1, BATCH_MAX), false).unwrap_or(BATCH);
        let limits = (MESSAGE_STEP_BYTES, MESSAGE_MAX_BYTES);
        let message_bytes = self.number("message_size", limits, true).unwrap_or(MESSAGE_BYTES);
        if !message_bytes.is_multiple_of(MESSAGE_STEP_BYTES) {
            let words = format!("a message of {message_bytes} B is not a multiple of 256 B");
            let help = format!("give {}", message_bytes.next_multiple_of(MESSAGE_STEP_BYTES));
            let span = self.span("message_size");
            self.found.refuse(&span, words, help);
        }
        let file_mb = self.number("file_size", (1, FILE_MAX_MB), false);
        let read_percent = self.number("read_mix", (0, READ_MAX_PERCENT), false).unwrap_or(0);
        let block_bytes = batch * message_bytes;
        let active = file_mb.map_or_else(|| "0%..100%".to_owned(), |mb| format!("0B..{mb}MiB"));
        self.remarks(read_percent, block_bytes);

        let mut toml = String::from("schema = 1\n");
        let title: String = self.found.file.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(toml, "about = {}", quoted(&title));
        toml.push_str("threads = 1\ndepth = 1\n");
        let _ = writeln!(toml, "block = \"{}\"", size_text(block_bytes));
        let _ = writeln!(toml, "active = \"{active}\"");
        let mix = if read_percent > 0 {
            format!("read = {read_percent}, write = {}", 100 - read_percent)
        } else {
            "write = 100".to_owned()
        };
        let _ = writeln!(toml, "mix = {{ {mix} }}");
        if read_percent > 0 {
            let run = (REPLAY_BYTES / block_bytes).max(1);
            let addresses = if run > 1 {
                format!("{{ pattern = \"sequential\", run = {run} }}")
            } else {
                "\"uniform\"".to_owned()
            };
            let _ = write!(toml, "\n[read]\naddresses = {addresses}\n");
        }
        toml.push_str("\n[write]\naddresses = { pattern = \"sequential\", shared = true }\n");
        toml.push_str("\n[limits]\nramp = \"0s\"\ntime = \"10s\"\n");
        let spans = [
            ("block", "message_size"),
            ("active", "file_size"),
            ("mix", "read_mix"),
            ("addresses", "read_mix"),
        ]
        .map(|(key, name)| (key, self.span(name)));
        let all = self.all.clone();
        let place_of = |key: &str| {
            spans.iter().find(|(k, _)| *k == key).map_or_else(|| all.clone(), |(_, s)| s.clone())
        };
        let spec = self.found.spec(&toml, place_of)?;
        let filename = self.find("file").map(|opt| opt.value.clone());
        let notes = std::mem::take(&mut self.found.notes);
        let traps = std::mem::take(&mut self.found.traps);
        let (name, direct) = (PROGRAM.to_owned(), true);
        Some(Job {
            name,
            toml,
            spec,
            engine: None,
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

    /// Notes the choices made where the documentation is silent, and warns about traps in the line.
    fn remarks(&mut self, read_percent: u64, block_bytes: u64) {
        let all = self.all.clone();
        let mut note = |words: &str| self.found.note(&all, words);
        note("the tool's submit rate, in messages a second, is writes a second times the batch");
        note(
            "batches are written one after the other (depth 1), since the documentation names one writer and no depth; --depth changes this",
        );
        note("the test lasts 10 s, since the documentation names no duration; --time changes this");
        note("the tool allocates its file before the test; --fill writes the target first");
        for name in ["batch_size", "message_size"] {
            if self.find(name).is_none() {
                let words = format!(
                    "the default of --{name} is not documented: here it is that of the published measurement, {BATCH} messages of {MESSAGE_BYTES} B"
                );
                self.found.trap(&all, words);
            }
        }
        if let Some(opt) = self.find("file") {
            let (span, words) = (
                opt.span.clone(),
                "the target is given by --on, such as `--on scratch:1GiB`".to_owned(),
            );
            self.found.note(&span, words);
        }
        if self.find("file_size").is_some() {
            let span = self.span("file_size");
            self.found
                .note(&span, "MB are counted as MiB; at the end of the file the log begins again");
        }
        if read_percent > 0 {
            let span = self.span("read_mix");
            let words = format!(
                "each replay starts at a random batch of the file and reads {} from there, since the documentation does not name the addresses of reads",
                size_text(REPLAY_BYTES.max(block_bytes))
            );
            self.found.note(&span, words);
            let words = "reads of blocks that were never written may not touch the medium: write the target first, or give --fill";
            self.found.judged_trap(&span, words);
        }
    }
}
