//! Converts command lines of 60East's `amps_bio_perf_test`, a storage benchmark for the transaction log of AMPS, to
//! workloads. Follows the documentation of AMPS 5.3. Where the documentation is silent, a note on the job states the
//! choice made here.

use crate::command_line::{self, Word};
use crate::fio::{Job, JobFile};
use crate::found::{Found, Made, read_write_mix};
use crate::option_line::{Opt, OptionLine, one_job};
use crate::shared::UNWRITTEN;
use iodyno_catalog::Problem;
use iodyno_units::{OpKind, nearest};
use iodyno_workload::{ActiveRange, Block, Edge, Limits, Pattern, size_text};
use std::ops::RangeInclusive;

/// Program name by which a command line of this benchmark is recognised.
pub(crate) const PROGRAM: &str = command_line::AMPS;

/// Long names of the options. The short form of an option is its first letter.
const OPTIONS: [&str; 5] = ["batch_size", "message_size", "file_size", "read_mix", "file"];
/// Default number of messages in a batch, from the tool's published measurement.
const BATCH: u64 = 128;
const MESSAGE_BYTES: u64 = 512;
/// Maximum number of messages in a batch, from the tool's documentation.
const BATCH_MAX: u64 = 256;
const MESSAGE_STEP_BYTES: u64 = 256;
const MESSAGE_MAX_BYTES: u64 = 128 << 10;
const FILE_MAX_MB: u64 = 8192;
const READ_MAX_PERCENT: u64 = 99;
/// Length of a sequential run of reads, bytes: 256 chunks of 64 KiB, as in the catalog's workload `log-80-20`.
const REPLAY_BYTES: u64 = 16 << 20;

/// Parses a command line such as `amps_bio_perf_test -b 128 -m 512 -r 80 --file /data/log`.
///
/// # Errors
/// Lists all unsupported options, with their positions.
pub fn parse(line: &str) -> Result<JobFile, Problem> {
    one_job(line, true, |words, found| {
        let options = options(found, words.into_iter());
        Reading { found, options, more: () }.log_job()
    })
}

type Reading<'a, 'f> = OptionLine<'a, 'f, &'static str>;

/// Parses options of the forms `--name value`, `--name=value`, `-n value` and `-nvalue`.
fn options(found: &mut Found<'_>, mut words: impl Iterator<Item = Word>) -> Vec<Opt<&'static str>> {
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
            let help =
                format!("{}remove the option if it does not matter", near.unwrap_or_default());
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
                "`-f {value}` is a number, so it is taken as the size of the file in MB; the documentation uses -f for both the file's name and its size"
            );
            found.note(&span, words);
            "file_size"
        } else {
            name
        };
        options.push(Opt { name, value: Some(value), span });
    }
    options
}

impl Reading<'_, '_> {
    /// Value of an option as a whole number within `limits`; None if it is missing or refused. `has_letter`:
    /// whether a suffix such as K is allowed.
    fn number(
        &mut self,
        name: &'static str,
        limits: RangeInclusive<u64>,
        has_letter: bool,
    ) -> Option<u64> {
        let value = self.value(name)?;
        let read = if has_letter { crate::found::size(&value).ok() } else { value.parse().ok() };
        let found = read.filter(|number| limits.contains(number));
        if found.is_none() {
            let text =
                |number: &u64| if has_letter { size_text(*number) } else { number.to_string() };
            let (least, most) = (text(limits.start()), text(limits.end()));
            let words =
                format!("`--{name}` must be a whole number from {least} to {most}, not `{value}`");
            self.refuse(name, words, "");
        }
        found
    }

    fn log_job(mut self) -> Option<Job> {
        let batch = self.number("batch_size", 1..=BATCH_MAX, false).unwrap_or(BATCH);
        let limits = MESSAGE_STEP_BYTES..=MESSAGE_MAX_BYTES;
        let message_bytes = self.number("message_size", limits, true).unwrap_or(MESSAGE_BYTES);
        if !message_bytes.is_multiple_of(MESSAGE_STEP_BYTES) {
            let words = format!("a message of {message_bytes} B is not a multiple of 256 B");
            let help = format!("give {}", message_bytes.next_multiple_of(MESSAGE_STEP_BYTES));
            self.refuse("message_size", words, help);
        }
        let file_mb = self.number("file_size", 1..=FILE_MAX_MB, false);
        let read_percent = self.number("read_mix", 0..=READ_MAX_PERCENT, false).unwrap_or(0);
        let block_bytes = batch * message_bytes;
        self.remarks(read_percent, block_bytes);

        let mut workload = self.draft();
        workload.blocks(vec![Block::new(block_bytes, 1.0)]);
        if let Some(mb) = file_mb {
            workload.active(ActiveRange::between(Edge::Bytes(0), Edge::Bytes(mb << 20)));
        }
        read_write_mix(&mut workload, read_percent as f64);
        if read_percent > 0 {
            let run = (REPLAY_BYTES / block_bytes).max(1);
            let replay = if run > 1 {
                Pattern::Sequential { shared: false, run: Some(run) }
            } else {
                Pattern::Uniform { once_per_pass: false }
            };
            workload.addresses_of(OpKind::Read, replay);
        }
        let append = Pattern::Sequential { shared: true, run: None };
        workload.addresses_of(OpKind::Write, append);
        workload.limits(Limits { time_ns: Some(Limits::DEFAULT_TIME_NS), ..Limits::UNLIMITED });
        let filename = self.value("file");
        let name = PROGRAM.to_owned();
        let made = Made { name, workload, engine: None, direct: true, filename };
        let options = [
            ("block", "message_size"),
            ("active", "file_size"),
            ("mix", "read_mix"),
            ("addresses", "read_mix"),
        ];
        self.job(made, options)
    }

    /// Adds notes on choices made because the tool's documentation is silent, and warnings about unexpected
    /// effects.
    fn remarks(&mut self, read_percent: u64, block_bytes: u64) {
        let all = self.found.all();
        let mut note = |words: &str| self.found.note(&all, words);
        note("the tool's submit rate counts messages per second: writes per second × batch size");
        note(
            "batches are written one after the other (depth 1), since the documentation names one writer and no depth; --depth changes this",
        );
        note("the test lasts 10 s, since the documentation names no duration; --time changes this");
        note("the tool allocates its file before the test; --fill writes the target first");
        for name in ["batch_size", "message_size"] {
            if !self.is_given(name) {
                let words = format!(
                    "the default of --{name} is not documented: iodyno uses the value of the published measurement, {BATCH} messages of {MESSAGE_BYTES} B"
                );
                self.found.trap(&all, words);
            }
        }
        if self.is_given("file") {
            self.note("file", "the target is given by --on, such as `--on scratch:1GiB`");
        }
        if self.is_given("file_size") {
            self.note(
                "file_size",
                "MB are taken as MiB; when the log reaches the end of the file, it continues at the start of the file",
            );
        }
        if read_percent > 0 {
            let words = format!(
                "each replay starts at a random batch of the file and reads {} from there, since the documentation does not say which addresses are read",
                size_text(REPLAY_BYTES.max(block_bytes))
            );
            self.note("read_mix", words);
            self.judged_trap("read_mix", UNWRITTEN);
        }
    }
}
