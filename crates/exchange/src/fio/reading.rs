//! Looks up the options of one section by name, and collects errors, notes and warnings about the section.

use super::layout::Before;
use super::lines::{Opt, Place, Section};
use super::number::{count, time_ns};
use super::options::{Fate, fate, known};
use super::{Note, Refusal, Surroundings, command_line};
use crate::shared::of_key;
use iodyno_catalog::File;
use iodyno_units::nearest;
use iodyno_workload::time_text;
use std::path::Path;

/// Maximum length of an unknown option name for which a similar name is searched, bytes.
const MAX_NAME: usize = 40;
/// Maximum number of unknown options per section for which a similar name is searched.
const MAX_NEAR: u32 = 3;

/// For each key of a workload file, the fio options that set it, the most specific first.
const OPTIONS_OF: &[(&str, &[&str])] = &[
    ("block", &["bssplit", "bsrange", "bs"]),
    ("threads", &["numjobs"]),
    ("depth", &["iodepth"]),
    ("submit_batch", &["iodepth_batch"]),
    ("address_align", &["ba"]),
    ("align", &["ba"]),
    ("worker_step", &["offset_increment", "numjobs"]),
    ("active", &["size", "filesize", "offset"]),
    ("addresses", &["random_distribution"]),
    ("write.read_back", &["verify_backlog"]),
    ("write.flush_every", &["fsync", "fdatasync"]),
    ("arrivals.rate", &["rate_iops", "rate"]),
    ("arrivals.think_time", &["thinktime"]),
    ("arrivals.think_after", &["thinktime_blocks"]),
    ("arrivals.think_after_time", &["thinktime_iotime"]),
    ("arrivals.think_shifts", &["rate_ignore_thinktime"]),
    ("arrivals.refill_at", &["iodepth_low", "iodepth_batch_complete_min"]),
    ("arrivals.flow", &["flow"]),
    ("content.kind", &["verify"]),
    ("content.compressible", &["buffer_compress_percentage"]),
    ("content.dedupable", &["dedupe_percentage"]),
    ("limits.start_after", &["startdelay"]),
    ("limits.ramp", &["ramp_time"]),
    ("limits.time", &["runtime"]),
    ("limits.ops", &["number_ios"]),
    ("limits.bytes", &["io_size", "size"]),
    ("limits.passes", &["loops"]),
    ("limits.steady", &["ss", "ss_dur", "ss_ramp"]),
];

/// State of the conversion of one section: its refusals, notes and warnings so far.
pub(super) struct Reading<'a> {
    pub(super) section: &'a Section,
    pub(super) files: &'a [File],
    pub(super) kb_base: u32,
    pub(super) refused: Vec<Refusal>,
    pub(super) notes: Vec<Note>,
    pub(super) traps: Vec<Note>,
    /// Size of the job's file, bytes; None unless an earlier job defines it.
    pub(super) file_bytes: Option<u64>,
    /// Total number of clones of all earlier jobs.
    pub(super) clones_before: u64,
    around: &'a dyn Surroundings,
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        section: &'a Section,
        files: &'a [File],
        around: &'a dyn Surroundings,
        before: Before,
    ) -> Self {
        let mut reading = Self {
            section,
            files,
            kb_base: 1024,
            refused: Vec::new(),
            notes: Vec::new(),
            traps: Vec::new(),
            file_bytes: before.file_bytes,
            clones_before: before.clones,
            around,
        };
        match reading.text("kb_base").map(|(value, opt)| (value.to_owned(), opt)) {
            None => {}
            Some((value, _)) if value == "1024" => {}
            Some((value, _)) if value == "1000" => reading.kb_base = 1000,
            Some((_, opt)) => reading.refuse(opt, "kb_base must be 1000 or 1024", ""),
        }
        reading
    }

    /// Finds the last option with this name, which is the one that counts. Returns it with its index.
    pub(super) fn find(&self, name: &str) -> Option<(usize, &'a Opt)> {
        self.section.find(name)
    }

    pub(super) fn opt(&self, name: &str) -> Option<&'a Opt> {
        self.section.opt(name)
    }

    /// Value of the last option with this name; None if it is missing or refused. As in fio, an option without a
    /// value is refused.
    pub(super) fn text(&mut self, name: &str) -> Option<(&'a str, &'a Opt)> {
        // An unset variable is refused once, in `sift`.
        let opt = self.opt(name).filter(|opt| opt.unset.is_none())?;
        match opt.value.as_deref() {
            Some(value) if !value.is_empty() => Some((value, opt)),
            _ => {
                self.refuse(opt, format!("`{}` has no value", opt.name), "use the form NAME=VALUE");
                None
            }
        }
    }

    /// Whether a flag is set: it occurs without a value, or with a value other than `0` and `false`.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.section.flag(name)
    }

    /// Value of an option as a number with fio's suffixes; None if it is missing or refused.
    pub(super) fn count(&mut self, name: &str) -> Option<u64> {
        let (value, opt) = self.text(name)?;
        let read = count(value, self.kb_base);
        self.trap_of_suffix(value, opt);
        read.map_err(|why| self.refuse(opt, why, "")).ok()
    }

    /// Value of an option as a time in ns; None if it is missing or refused. `unit_ns` is the unit of a number
    /// without a suffix.
    pub(super) fn time(&mut self, name: &str, unit_ns: u64) -> Option<u64> {
        let (value, opt) = self.text(name)?;
        time_ns(value, unit_ns).map_err(|why| self.refuse(opt, why, "")).ok()
    }

    pub(super) fn refuse(&mut self, opt: &Opt, words: impl Into<String>, help: impl Into<String>) {
        self.refused.push(Refusal::new(opt.place.clone(), words, help));
    }

    pub(super) fn note(&mut self, opt: &Opt, words: impl std::fmt::Display) {
        let note = Note::new(opt.place.at(self.files), format!("`{}`: {words}", opt.name));
        self.notes.push(note);
    }

    pub(super) fn trap(&mut self, place: &Place, words: impl Into<String>) {
        self.add_trap(Note::new(place.at(self.files), words));
    }

    /// Adds a warning about a problem on which the run also gives a verdict.
    pub(super) fn judged_trap(&mut self, place: &Place, words: impl Into<String>) {
        self.add_trap(Note { is_judged: true, ..Note::new(place.at(self.files), words) });
    }

    fn add_trap(&mut self, trap: Note) {
        if !self.traps.contains(&trap) {
            self.traps.push(trap);
        }
    }

    /// Warns about an IEC suffix (`Ki`, `KiB`), which fio may read as decimal, depending on `kb_base`.
    pub(super) fn trap_of_suffix(&mut self, value: &str, opt: &Opt) {
        let lower = value.to_ascii_lowercase();
        let Some(digits) = lower.strip_suffix("ib").or(lower.strip_suffix('i')) else { return };
        let Ok(read) = count(value, self.kb_base) else { return };
        let words = format!(
            "`{}={value}` is {read} bytes with kb_base={}: use `{digits}` or set kb_base=1000 for IEC units",
            opt.name, self.kb_base
        );
        self.trap(&opt.place, words);
    }

    /// Whether a path is a device of this machine; None if unknown.
    pub(super) fn is_device(&self, path: &str) -> Option<bool> {
        self.around.is_device(Path::new(path))
    }

    /// Notes or refuses each option according to the tables in `options.rs`.
    pub(super) fn sift(&mut self) {
        let section = self.section;
        let mut unknown = 0;
        for opt in &section.options {
            let name = opt.key.as_str();
            if let Some(words) = &opt.unset {
                let is_of_environment = words.contains("environment");
                let help = if is_of_environment {
                    "set it for the command, such as `SIZE=1g iodyno run job.fio`"
                } else {
                    ""
                };
                self.refuse(opt, words, help);
            }
            match fate(name) {
                Fate::Honoured => {}
                Fate::Noted(why) => self.note(opt, why),
                Fate::Flag(why, flag)
                    if self.around.gives(flag.split(' ').next().unwrap_or(flag)) =>
                {
                    let flag = flag.split(' ').next().unwrap_or(flag);
                    self.note(opt, format_args!("{why}, here by --{flag}"));
                }
                Fate::Flag(why, flag) if !Self::is_neutral(opt) => {
                    let words = format!("`{}` can't be honoured from a job: {why}", opt.name);
                    let limit = self.latency_limit().filter(|_| name.starts_with("latency_"));
                    let flag =
                        limit.map_or(flag.to_owned(), |limit| format!("find-rate '{limit}'"));
                    self.refuse(
                        opt,
                        words,
                        format!("give --{flag} to the run; see `iodyno run --help`"),
                    );
                }
                Fate::Refused(..) if name == "sync_file_range" && self.direct() => {
                    self.note(opt, "with direct=1 the page cache holds nothing to write");
                }
                Fate::Refused(why, help) if !Self::is_neutral(opt) => {
                    self.refuse(opt, format!("`{}` can't be honoured: {why}", opt.name), help);
                }
                Fate::Flag(..) | Fate::Refused(..) => {
                    self.note(opt, "this value has no effect");
                }
                Fate::Unknown => {
                    unknown += 1;
                    let is_likely = name.len() <= MAX_NAME && unknown <= MAX_NEAR;
                    let near = is_likely.then(|| {
                        // A name that is much longer or shorter is not a misspelling.
                        nearest(name, known().filter(|other| other.len().abs_diff(name.len()) <= 3))
                    });
                    let near = near.flatten();
                    let near =
                        near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
                    let words = format!("iodyno does not know fio's option `{}`", opt.name);
                    let is_of_line = self.files[opt.place.file].origin == command_line::ORIGIN;
                    let help = if is_of_line {
                        "remove the option if it does not matter; put iodyno's own flags before `fio`"
                    } else {
                        "remove the line if it does not matter"
                    };
                    self.refuse(opt, words, format!("{near}{help}"));
                }
            }
        }
    }

    /// Latency limit of the job's search for a rate, formatted for `--find-rate`; None without one.
    fn latency_limit(&self) -> Option<String> {
        let target_ns = time_ns(self.section.value("latency_target")?, 1000).ok()?;
        let share = self.section.value("latency_percentile").and_then(|text| text.parse().ok());
        // fio's default, 100 %, is not a percentile.
        let share = share.filter(|share: &f64| (50.0..100.0).contains(share)).unwrap_or(99.99);
        Some(format!("p{share}<{}", time_text(target_ns)))
    }

    /// Whether the option's value turns the option off.
    pub(super) fn is_neutral(opt: &Opt) -> bool {
        let off = matches!(opt.value.as_deref(), Some("0" | "none" | "no"));
        let name = opt.key.as_str();
        off && !matches!(name, "cpus_allowed" | "numa_cpu_nodes" | "prio" | "sqthread_poll_cpu")
            || name == "continue_on_error" && opt.value.as_deref() == Some("none")
    }

    /// Reads all occurrences of an option with comma-separated values, in their order. With `bs=8k` in `[global]`
    /// and `bs=,16k` in the job, both apply.
    pub(super) fn all_by_kind<T: Clone>(
        &mut self,
        name: &str,
        all: &mut [T; 3],
        read: impl Fn(&str) -> Result<T, String>,
    ) {
        // Refuses an option without a value.
        let _ = self.text(name);
        let section = self.section;
        for opt in section.options.iter().filter(|opt| opt.key == name && opt.unset.is_none()) {
            if let Some(value) = &opt.value {
                self.by_kind(value, opt, all, &read);
            }
        }
    }

    /// Reads comma-separated values for reads, writes and trims into `all`. If there are fewer than three, the
    /// last one applies to the rest. An empty value leaves `all` unchanged.
    pub(super) fn by_kind<T: Clone>(
        &mut self,
        value: &str,
        opt: &Opt,
        all: &mut [T; 3],
        read: impl Fn(&str) -> Result<T, String>,
    ) {
        let parts: Vec<&str> = value.split(',').map(str::trim).collect();
        if parts.len() > 3 {
            self.refuse(opt, "at most three values are allowed: for reads, writes and trims", "");
            return;
        }
        for (at, place) in all.iter_mut().enumerate() {
            let part = parts.get(at).or(parts.last()).copied().unwrap_or_default();
            if part.is_empty() {
                continue;
            }
            match read(part) {
                Ok(value) => *place = value,
                Err(why) => {
                    self.refuse(opt, why, "");
                    return;
                }
            }
        }
    }

    /// Position of the option that sets a key of the workload; the position of the section if there is none.
    pub(super) fn place_of(&self, path: &str) -> Place {
        let names = of_key(OPTIONS_OF, path).copied().unwrap_or_default();
        let opt = names.iter().find_map(|name| self.opt(name));
        opt.map_or_else(|| self.section.place.clone(), |opt| opt.place.clone())
    }
}
