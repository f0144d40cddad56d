//! A job from the options of its section: each with fio's meaning, written as a workload file.

use super::blocks::sizes;
use super::lines::Section;
use super::reading::{KINDS, Reading, Walk};
use super::{Job, Refusal};
use iodyno_catalog::File;
use iodyno_workload::Spec;
use std::fmt::Write as _;

/// The job of a section, and whether it waits for those before it.
pub(super) fn job(section: &Section, files: &[File]) -> Result<(Job, bool), Vec<Refusal>> {
    let mut reading = Reading::new(section, files);
    let job = reading.job();
    match job {
        Some(job) if reading.refused.is_empty() => Ok((job, reading.flag("stonewall"))),
        _ => Err(reading.refused),
    }
}

impl Reading<'_> {
    fn job(&mut self) -> Option<Job> {
        self.sift();
        let (mix, walk) = self.kinds()?;
        let threads = self.count("numjobs").unwrap_or(1);
        let (engine, queues) = self.engine();
        let depth = self.depth(queues);
        let direct = self.direct();
        let blocks = self.blocks();
        let (mut mix, arrivals) = self.arrivals(mix, &blocks, threads, depth);
        mix.retain(|(_, share)| *share > 0.0);
        let (active, limits) = self.extent(threads, &walk, &mix);
        let addresses = self.addresses(&walk, &mix, &blocks);
        let durable = self.durable(&mix);
        self.end_flush(&mix, direct);
        let content = self.content(&mix);
        self.traps(&mix, direct, threads);
        let (name, about) = self.name();

        let mut toml = String::from("schema = 1\n");
        let _ = writeln!(toml, "about = {}", quoted(&about));
        let _ = writeln!(toml, "threads = {threads}\ndepth = {depth}");
        let issued: Vec<&str> = mix.iter().map(|(kind, _)| *kind).collect();
        let of = |kind: &str| &blocks[KINDS.iter().position(|k| *k == kind).unwrap_or(0)];
        let same = issued.iter().all(|kind| of(kind) == of(issued[0]));
        if let (true, Some(kind)) = (same, issued.first()) {
            let _ = writeln!(toml, "block = {}", sizes(of(kind)));
        }
        let _ = writeln!(toml, "{active}");
        let shares: Vec<String> =
            mix.iter().map(|(kind, share)| format!("{kind} = {share}")).collect();
        let _ = writeln!(toml, "mix = {{ {} }}", shares.join(", "));
        let by_kind = matches!(walk, Walk::Sequential) && issued.len() > 1;
        if !by_kind {
            let _ = writeln!(toml, "\n[all]\naddresses = {addresses}");
        }
        for kind in &issued {
            let mut table = String::new();
            if !same {
                let _ = writeln!(table, "block = {}", sizes(of(kind)));
            }
            if by_kind {
                let _ = writeln!(table, "addresses = {addresses}");
            }
            if *kind == "write" {
                table.push_str(&durable);
            }
            if !table.is_empty() {
                let _ = write!(toml, "\n[{kind}]\n{table}");
            }
        }
        let _ = write!(toml, "{arrivals}{content}\n[limits]\n{limits}");
        if !self.refused.is_empty() {
            return None;
        }
        let spec = match Spec::from_toml(&toml) {
            Ok(spec) => spec,
            Err(errors) => {
                for error in errors {
                    let place = self.origin_of(&toml, error.span.start);
                    let help = error.help.unwrap_or_default();
                    let words = format!("as a workload, `{name}` breaks a rule: {}", error.message);
                    self.refused.push(Refusal::new(place, words, help));
                }
                return None;
            }
        };
        let filename = self.opt("filename").and_then(|opt| opt.value.clone());
        let notes = std::mem::take(&mut self.notes);
        let traps = std::mem::take(&mut self.traps);
        Some(Job { name, toml, spec, engine, direct, filename, notes, traps })
    }

    /// The job's name, and a line about it.
    fn name(&mut self) -> (String, String) {
        let name = self.text("name").map_or(self.section.name.as_str(), |(name, _)| name);
        let origin = self.files.first().map_or("", |file| file.origin.as_str());
        let visible = |text: &str| -> String {
            text.chars()
                .map(|c| if c.is_control() || c == ',' { '_' } else { c })
                .take(100)
                .collect()
        };
        (visible(name), visible(&format!("{name} of fio's {origin}")))
    }

    /// The mix and the way of the addresses.
    fn kinds(&mut self) -> Option<(Vec<(&'static str, f64)>, Walk)> {
        let (value, opt) = match self.opt("rw") {
            None => ("read", None),
            Some(_) => self.text("rw").map(|(value, opt)| (value, Some(opt)))?,
        };
        let (word, run) = value.split_once(':').map_or((value, None), |(w, run)| (w, Some(run)));
        let is_random = word.starts_with("rand");
        let mix = match word {
            "read" | "randread" => vec![("read", 1.0)],
            "write" | "randwrite" => vec![("write", 1.0)],
            "trim" | "randtrim" => vec![("trim", 1.0)],
            "rw" | "readwrite" | "randrw" => {
                let reads = self.read_share();
                vec![("read", reads), ("write", 100.0 - reads)]
            }
            _ => {
                let words = format!("`rw={value}` is not issued");
                let help = "use read, write, randread, randwrite, rw, randrw, trim or randtrim";
                if let Some(opt) = opt {
                    self.refuse(opt, words, help);
                }
                return None;
            }
        };
        let walk = match (is_random, run, opt) {
            (true, None, _) => Walk::Random,
            (false, None, _) => Walk::Sequential,
            (true, Some(run), Some(opt)) => match run.parse::<u64>() {
                Ok(0 | 1) => Walk::Random,
                Ok(run) => Walk::Runs(run),
                Err(_) => {
                    self.refuse(opt, format!("`:{run}` is no number of I/Os"), "");
                    return None;
                }
            },
            (false, Some(_), Some(opt)) => {
                let help = "remove what follows the colon, or use `strided` in a workload file";
                self.refuse(opt, "sequential I/O with holes is not issued from a job file", help);
                return None;
            }
            (_, Some(_), None) => return None,
        };
        Some((mix, walk))
    }

    /// The share of reads in percent: of `rwmixread` and `rwmixwrite` the later one counts.
    fn read_share(&mut self) -> f64 {
        let (read, write) = (self.find("rwmixread"), self.find("rwmixwrite"));
        let name = match (read, write) {
            (Some((r, _)), Some((w, _))) if w > r => "rwmixwrite",
            (None, Some(_)) => "rwmixwrite",
            (Some(_), _) => "rwmixread",
            (None, None) => return 50.0,
        };
        let share = self.count(name).unwrap_or(50);
        if share > 100 {
            if let Some(opt) = self.opt(name) {
                self.refuse(opt, format!("`{name}` is a percentage, from 0 to 100"), "");
            }
            return 50.0;
        }
        let share = share as f64;
        if name == "rwmixread" { share } else { 100.0 - share }
    }

    /// The engine's name on iodyno's command line, and whether it queues.
    fn engine(&mut self) -> (Option<&'static str>, bool) {
        let Some((value, opt)) = self.text("ioengine") else { return (Some("psync"), false) };
        match value {
            "io_uring" => (Some("uring"), true),
            "libaio" => (Some("libaio"), true),
            "psync" => (Some("psync"), false),
            "sync" | "pvsync" | "pvsync2" | "vsync" => {
                self.note(opt, "issued with pread and pwrite (psync)");
                (Some("psync"), false)
            }
            "mmap" => (Some("mmap"), false),
            "nbd" => {
                self.note(opt, "give the export by --on, such as `--on nbd://host/export`");
                (None, true)
            }
            "null" => {
                self.note(opt, "give `--on null:`");
                (None, true)
            }
            _ => {
                let words = format!("iodyno has no engine `{value}`");
                self.refuse(opt, words, "use io_uring, libaio, psync, mmap or nbd");
                (None, true)
            }
        }
    }

    fn depth(&mut self, queues: bool) -> u64 {
        let depth = self.count("iodepth").unwrap_or(1);
        for (name, neutral) in [
            ("iodepth_batch", 1),
            ("iodepth_batch_complete_min", 1),
            ("iodepth_batch_complete_max", 1),
            ("iodepth_low", depth),
        ] {
            let Some(value) = self.count(name) else { continue };
            let Some(opt) = self.opt(name) else { continue };
            if value == neutral {
                self.note(opt, "this value changes nothing");
            } else {
                let words = format!(
                    "`{}={value}` can't be honoured: the depth is kept full, and completions are taken as they come",
                    opt.name
                );
                self.refuse(opt, words, "remove the line");
            }
        }
        match self.opt("iodepth") {
            Some(opt) if depth > 1 && !queues => {
                let words = "a synchronous engine has one I/O at a time: fio ignores this depth, and so does iodyno; use ioengine=io_uring, or numjobs";
                self.trap(&opt.place, words);
                1
            }
            _ => depth,
        }
    }

    /// Whether the page cache is bypassed; of `direct` and `buffered` the later one counts.
    fn direct(&self) -> bool {
        match (self.find("direct"), self.find("buffered")) {
            (Some((d, _)), Some((b, _))) if b > d => !self.flag("buffered"),
            (Some(_), _) => self.flag("direct"),
            (None, Some(_)) => !self.flag("buffered"),
            (None, None) => false,
        }
    }

    /// The keys of `[write]` that make writes durable.
    fn durable(&mut self, mix: &[(&str, f64)]) -> String {
        let writes = mix.iter().any(|(kind, _)| *kind == "write");
        let (fsync, fdatasync) = (self.count("fsync"), self.count("fdatasync"));
        let (fsync, fdatasync) = (fsync.unwrap_or(0), fdatasync.unwrap_or(0));
        let mut out = String::new();
        if let (Some(opt), true) = (self.opt("fsync"), fsync > 0) {
            self.note(opt, "issued as fdatasync");
            if fdatasync > 0 {
                self.refuse(opt, "`fsync` and `fdatasync` are both given", "leave one of them out");
            }
        }
        if fsync.max(fdatasync) > 0 && writes {
            let _ = writeln!(out, "flush_every = {}", fsync.max(fdatasync));
        }
        match self.text("sync") {
            None | Some(("0" | "none", _)) => {}
            Some(("1" | "sync" | "dsync", opt)) => {
                self.note(
                    opt,
                    "each write is durable when it completes (RWF_DSYNC, FUA), as with O_DSYNC",
                );
                if writes {
                    out.push_str("fua = \"100%\"\n");
                }
            }
            Some((value, opt)) => {
                self.refuse(opt, format!("`sync={value}` is not known"), "use sync or dsync");
            }
        }
        out
    }

    /// Refuses a flush at the end of buffered writes: fio counts it in the time of the job.
    fn end_flush(&mut self, mix: &[(&str, f64)], direct: bool) {
        let name = ["end_fsync", "fsync_on_close"].into_iter().find(|name| self.flag(name));
        let writes = mix.iter().any(|(kind, _)| *kind == "write");
        if let (Some(opt), true) = (name.and_then(|name| self.opt(name)), writes && !direct) {
            let words = format!(
                "`{}` of buffered writes can't be honoured: fio counts the flush at the end in its time",
                opt.name
            );
            self.refuse(opt, words, "use direct=1, or fsync=N for a flush after N writes");
        }
    }

    /// `[content]`.
    fn content(&mut self, mix: &[(&str, f64)]) -> String {
        let kind = |kind: &str| format!("\n[content]\nkind = \"{kind}\"\n");
        let verify =
            self.text("verify").filter(|(value, _)| !matches!(*value, "0" | "none" | "null"));
        if let Some((value, opt)) = verify {
            if value.starts_with("pattern") {
                let words = "verifiable content has a form of its own, without a pattern";
                self.refuse(opt, words, "use verify=crc32c");
            }
            self.note(opt, "each unit of at most 4 KiB carries its address, writer, generation and a CRC; reads check it, and `iodyno run --verify-only` all of it");
            return kind("verifiable");
        }
        if !mix.iter().any(|(kind, _)| *kind == "write") {
            return String::new();
        }
        if self.flag("zero_buffers") {
            return kind("zeroes");
        }
        let compress = self.count("buffer_compress_percentage").unwrap_or(0);
        let dedupe = self.count("dedupe_percentage").unwrap_or(0);
        if compress + dedupe == 0 {
            return String::new();
        }
        let mut out = kind("compressible");
        for (key, share) in [("compressible", compress), ("dedupable", dedupe)] {
            if share > 0 {
                let _ = writeln!(out, "{key} = \"{share}%\"");
            }
        }
        out
    }

    /// What the job may not do as its writer expects.
    fn traps(&mut self, mix: &[(&str, f64)], direct: bool, threads: u64) {
        let place = self
            .opt("direct")
            .or(self.opt("buffered"))
            .map_or(&self.section.place, |opt| &opt.place);
        let has = |kind: &str| mix.iter().any(|(k, _)| *k == kind);
        let durable = ["fsync", "fdatasync", "sync"].iter().any(|name| self.flag(name));
        if !direct && has("write") && !durable {
            let words = "buffered writes without fsync are measured into the page cache, not to the device: use direct=1";
            self.trap(place, words);
        } else if !direct {
            self.trap(
                place,
                "buffered I/O is fio's default, and measures the page cache: use direct=1",
            );
        }
        if has("read") && !self.flag("verify") {
            let words = "reads of blocks that were never written may not touch the medium: write the target first, or give --fill";
            self.trap(&self.section.place, words);
        }
        if let (Some(opt), true) = (self.opt("zero_buffers"), has("write")) {
            self.trap(&opt.place, "zeroes compress, and some devices do not store them");
        }
        if let (Some(opt), true) =
            (self.opt("verify"), threads > 1 && self.opt("filename").is_some())
        {
            self.trap(&opt.place, "clones that share a file overwrite one another's blocks: fio's verification may fail then");
        }
    }
}

/// A text as a string of TOML; it has no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
