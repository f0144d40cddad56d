//! Converts one section of a fio job file to a job.

use super::duration::Queue;
use super::layout::{self, Surround, is_device};
use super::lines::{Opt, Section};
use super::mix::{Mix, Plan, Walk};
use super::reading::Reading;
use super::{Job, Note, Refusal, Surroundings};
use crate::shared::{DURABLE, name};
use iodyno_catalog::File;
use iodyno_units::OpKind;
use iodyno_workload::{Content, Draft, DropCache, NewFile, Pattern, Percent, Spec};
use std::sync::Arc;

/// Converts a section to a job, or returns all refused options.
pub(super) fn job(
    section: &Section,
    files: &[File],
    around: &dyn Surroundings,
    place: &Surround<'_>,
) -> Result<Job, Vec<Refusal>> {
    let mut reading = Reading::new(section, files, around, place.before);
    let job = reading.job(place);
    match job {
        Some(mut job) if reading.refused.is_empty() => {
            if reading.writes_all() {
                let place = Surround { delay_ns: 0, ..*place };
                let check =
                    Reading::new(&reads_of(section), files, around, place.before).job(&place);
                job.check = check.map(|check| {
                    // The check reads from the storage and not from the page cache, as in fio.
                    let drop_cache = (!check.direct).then_some(DropCache::All);
                    Box::new(Job { traps: Vec::new(), drop_cache, ..check })
                });
            }
            Ok(job)
        }
        _ => {
            // Never drop a job without a refusal.
            if reading.refused.is_empty() {
                let place = section.place.clone();
                reading.refused.push(Refusal::new(place, "this job can't be read", ""));
            }
            Err(reading.refused)
        }
    }
}

/// Options that a job passes on to the job that verifies its writes.
const OF_CHECK: &[&str] = &[
    "ioengine",
    "iodepth",
    "direct",
    "buffered",
    "uncached",
    "bs",
    "kb_base",
    "size",
    "filesize",
    "offset",
    "offset_increment",
    "filename",
    "filename_format",
    "directory",
    "uri",
    "nrfiles",
    "randseed",
    "allrandrepeat",
    "random_generator",
    "file_service_type",
    "numjobs",
    "verify",
];

/// Creates the section of the job that reads back and verifies the writes of `section`.
fn reads_of(section: &Section) -> Section {
    let place = section.opt("rw").map_or(&section.place, |opt| &opt.place).clone();
    let (name, value) = ("rw".to_owned(), Some("read".to_owned()));
    let read = Opt { name: name.clone(), key: name, value, place, unset: None };
    let of_both = section.options.iter().filter(|opt| OF_CHECK.contains(&opt.key.as_str()));
    Section {
        name: format!("{}-verify", section.job_name()),
        place: section.place.clone(),
        options: of_both.cloned().chain([Arc::new(read)]).collect(),
        from_global: 0,
    }
}

impl Reading<'_> {
    /// Whether the job writes verifiable content to every block of its files, so that fio verifies all of it
    /// afterwards.
    fn writes_all(&self) -> bool {
        const PARTLY: &[&str] = &[
            "number_ios",
            "io_size",
            "runtime",
            "ss",
            "norandommap",
            "random_distribution",
            "percentage_random",
            "zonemode",
            "bssplit",
            "bsrange",
            "ba",
            "fill_device",
        ];
        // With a backlog, the job itself reads back all its writes.
        self.verifies()
            && !self.flag("verify_backlog")
            && matches!(self.section.value("rw"), Some("write" | "randwrite"))
            && self.section.value("do_verify") != Some("0")
            && !PARTLY.iter().any(|name| self.opt(name).is_some())
    }

    fn job(&mut self, place: &Surround<'_>) -> Option<Job> {
        let name = name(self.section.job_name());
        let mut workload = Draft::new(self.about());
        self.sift();
        let blocks = self.blocks();
        let (mut mix, walk) = self.kinds(&blocks)?;
        let threads = self.clones();
        let (engine, queues) = self.engine();
        let queue = self.depth(queues);
        let direct = self.direct();
        self.arrivals(&mut mix, threads, queue, &mut workload);
        mix.0.retain(|issued| issued.share > 0.0);
        let region = self.region(threads, &blocks);
        let walk = self.with_laps(walk, &mix, &region, place.part);
        let plan = Plan { mix, walk, region };
        let (addresses, is_alone) = self.addresses(&plan);
        if queues {
            self.remark_on_passes(&plan, &addresses);
        }
        self.extent(&plan, place.part, is_alone, &mut workload);
        workload.limits(self.limits(&plan, place));
        self.durable(&plan, queue, &mut workload);
        if let Some(content) = self.content(&plan.mix) {
            workload.content(content);
        }
        if !direct {
            self.remark_on_dropped_cache(&plan.mix);
        }
        self.traps(&plan.mix, direct, threads);
        self.skew(&plan);
        workload.threads(threads);
        workload.depth(queue.depth);
        if let Some(batch) = self.count("iodepth_batch").filter(|_| queues) {
            let most = queue.depth;
            workload.submit_batch(Some(if batch == 0 { most } else { batch.min(most) }));
        }
        workload.new_file(self.new_file(&plan.mix));
        set_kinds(&plan, addresses, &mut workload);
        self.flushes_of_passes(&plan, &mut workload);
        let spec = self.checked(&name, workload)?;
        Some(Job {
            name,
            toml: spec.to_short_toml(),
            spec,
            engine,
            direct,
            uncached: !direct && self.flag("uncached"),
            drop_cache: (!direct && self.invalidates()).then_some(DropCache::Clean),
            filename: self.opt("filename").and_then(|opt| opt.value.clone()),
            file: layout::file_of(self.section),
            notes: std::mem::take(&mut self.notes),
            traps: std::mem::take(&mut self.traps),
            check: None,
        })
    }

    /// Checks the workload against the rules. None if a rule is broken, or if an option was refused earlier.
    fn checked(&mut self, name: &str, workload: Draft) -> Option<Spec> {
        if !self.refused.is_empty() {
            return None;
        }
        let faults = match workload.check() {
            Ok(spec) => return Some(spec),
            Err(faults) => faults,
        };
        for fault in faults {
            let words = format!("`{name}` is not a valid workload: {}", fault.message);
            let help = fault.help.unwrap_or_default();
            self.refused.push(Refusal::new(self.place_of(&fault.path), words, help));
        }
        None
    }

    /// Notes that clean pages are dropped from the page cache before the job. Warns if fio would drop them more
    /// often.
    fn remark_on_dropped_cache(&mut self, mix: &Mix) {
        if !self.invalidates() || !mix.has(OpKind::Read) {
            return;
        }
        let place = self.opt("invalidate").map_or(&self.section.place, |opt| &opt.place);
        if self.flag("time_based") || self.loops() > 1 {
            let words = "fio drops the files from the page cache at each pass over them, but iodyno only at the beginning: later passes are read from memory";
            self.trap(place, words);
        } else {
            let words = "clean pages of the job's files are dropped from the page cache before it starts, as in fio";
            self.notes.push(Note::new(place.at(self.files), words));
        }
    }

    /// Initial state of the file that fio creates for a job. If the job only writes, the file is allocated but
    /// unwritten, or empty; otherwise it is written.
    fn new_file(&mut self, mix: &Mix) -> NewFile {
        let is_device = is_device(self.section);
        let fallocate = self.text("fallocate").map(|(value, _)| value);
        let writes_only = mix.is_only(OpKind::Write);
        if !writes_only || is_device || self.flag("overwrite") || self.verifies() {
            return NewFile::Written;
        }
        let is_reserved = !matches!(fallocate, Some("none" | "keep" | "truncate"));
        if is_reserved { NewFile::Allocated } else { NewFile::Empty }
    }

    /// One-line description of the workload: names of the job and of its file.
    fn about(&self) -> String {
        let origin = self.files.get(self.section.place.file).map_or("", |file| &file.origin);
        name(&format!("{} of fio's {origin}", self.section.job_name()))
    }

    /// I/O engine, by its name on iodyno's command line, and whether it can have several operations in flight.
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
            "posixaio" => {
                self.note(opt, "issued by io_uring; fio uses threads of the C library");
                (Some("uring"), true)
            }
            "null" | "cpp_null" => {
                self.note(opt, "give `--on null:`");
                (None, true)
            }
            "io_uring_cmd" => {
                self.note(opt, "give the NVMe namespace's character device, `--on /dev/ng0n1`");
                (None, true)
            }
            _ => {
                let words = format!("iodyno has no engine `{value}`");
                self.refuse(opt, words, "use io_uring, libaio, psync, mmap or nbd");
                (None, true)
            }
        }
    }

    /// Queue depth of each clone, and threshold at which the queue is refilled.
    fn depth(&mut self, queues: bool) -> Queue {
        let depth = self.count("iodepth").unwrap_or(1);
        if let (Some(opt), 0) = (self.opt("iodepth"), depth) {
            self.refuse(opt, "`iodepth` must be 1 or more", "");
        }
        let depth = depth.max(1);
        let of = |value: Option<u64>, neutral: u64| match value {
            None | Some(0) => neutral,
            Some(value) => value.min(depth),
        };
        let low = of(self.count("iodepth_low"), depth);
        let reaped = of(self.count("iodepth_batch_complete_min"), 1);
        // Parsed only to report errors.
        let _ = self.count("iodepth_batch_complete_max");
        // fio waits for `reaped` completions at a time until the low mark is reached.
        let waits = (depth - low).div_ceil(reaped).max(1);
        let refill_at = depth.saturating_sub(waits.saturating_mul(reaped));
        if !queues {
            if let Some(opt) = self.opt("iodepth").filter(|_| depth > 1) {
                let words = "a synchronous engine issues one I/O at a time: fio and iodyno ignore this depth; use ioengine=io_uring, or numjobs";
                self.trap(&opt.place, words);
            }
            return Queue { depth: 1, refill_at: None };
        }
        for (name, words) in [
            (
                "iodepth_low",
                "a full queue is refilled when the number in flight falls to this value",
            ),
            (
                "iodepth_batch_complete_min",
                "a full queue is refilled after this number of completions, each with its own timestamp",
            ),
            ("iodepth_batch_complete_max", "no effect: completions are reaped as they come"),
        ] {
            if let Some(opt) = self.opt(name) {
                self.note(opt, words);
            }
        }
        Queue { depth, refill_at: (refill_at + 1 < depth).then_some(refill_at) }
    }

    /// Whether the page cache is bypassed. Of the options `direct` and `buffered`, the later one counts.
    pub(super) fn direct(&self) -> bool {
        match (self.find("direct"), self.find("buffered")) {
            (Some((d, _)), Some((b, _))) if b > d => !self.flag("buffered"),
            (Some(_), _) => self.flag("direct"),
            (None, Some(_)) => !self.flag("buffered"),
            (None, None) => false,
        }
    }

    /// Whether fio drops the job's files from the page cache when it opens them; true by default.
    fn invalidates(&self) -> bool {
        self.opt("invalidate").is_none() || self.flag("invalidate")
    }

    /// Mean number of flushes per operation of the mix.
    pub(super) fn flushes_per_op(&mut self, mix: &Mix) -> f64 {
        let every = self.count("fsync").max(self.count("fdatasync")).unwrap_or(0);
        let all = mix.whole();
        let writes = mix.0.iter().filter(|issued| issued.kind == OpKind::Write);
        let writes: f64 = writes.map(|issued| issued.share).sum();
        // fio repeats a due flush after each read until the next write: in a mix, all operations count.
        let times = if writes > 0.0 && writes < all { 1.0 } else { writes / all };
        if every == 0 { 0.0 } else { times / every as f64 }
    }

    /// Sets the keys in `[write]` for flushes, FUA and reading back.
    fn durable(&mut self, plan: &Plan, queue: Queue, workload: &mut Draft) {
        let writes = plan.mix.has(OpKind::Write);
        let (fsync, fdatasync) = (self.count("fsync"), self.count("fdatasync"));
        let (fsync, fdatasync) = (fsync.unwrap_or(0), fdatasync.unwrap_or(0));
        if let (Some(opt), true) = (self.opt("fsync"), fsync > 0) {
            self.note(opt, "issued as fdatasync");
            if fdatasync > 0 {
                self.refuse(opt, "`fsync` and `fdatasync` are both given", "leave one of them out");
            }
        }
        if fsync.max(fdatasync) > 0 && writes {
            workload.flush_every(fsync.max(fdatasync));
            let opt = self.opt("fsync").filter(|_| fsync > 0).or(self.opt("fdatasync"));
            if let Some(opt) = opt {
                self.flushes(opt, plan, queue, workload);
            }
        }
        let at_end = ["end_fsync", "fsync_on_close"].into_iter().find(|name| self.flag(name));
        if let (Some(opt), true) = (at_end.and_then(|name| self.opt(name)), writes) {
            workload.flush_at_end(plan.region.files);
            self.note(opt, "each file is flushed after the last operation, within the measured window, as in fio");
        }
        let backlog = self.count("verify_backlog").unwrap_or(0);
        if backlog > 0 && writes && self.verifies() && self.section.value("do_verify") != Some("0")
        {
            workload.read_back(backlog);
        }
        match self.text("sync") {
            None | Some(("0" | "none", _)) => {}
            Some(("1" | "sync" | "dsync", opt)) => {
                self.note(opt, DURABLE);
                if writes {
                    workload.fua(Percent::ALL);
                }
            }
            Some((value, opt)) => {
                self.refuse(opt, format!("`sync={value}` is not known"), "use sync or dsync");
            }
        }
    }

    /// Sets how the flushes of `fsync` or `fdatasync` and other operations follow each other.
    fn flushes(&mut self, opt: &Opt, plan: &Plan, queue: Queue, workload: &mut Draft) {
        if plan.mix.0.len() > 1 {
            workload.flush_again(true);
            self.note(
                opt,
                "after a flush, each read is followed by another flush, until the next write, as in fio 3.33",
            );
        }
        if self.section.value("ioengine") == Some("libaio") {
            self.note(opt, "a worker issues nothing while its flush is in flight, as in fio");
            workload.flush_waits(true);
        } else if queue.depth > 1 {
            self.note(
                opt,
                "a flush is issued once, and other operations go on; with this engine fio 3.33 issues it several times while it fills the queue",
            );
        }
    }

    /// Sets `[flush]`. fio flushes each file at the end of every pass, not only of the last one, and twice if it
    /// also closes the file.
    fn flushes_of_passes(&mut self, plan: &Plan, workload: &mut Draft) {
        let Plan { mix, walk, region } = plan;
        let names = ["end_fsync", "fsync_on_close"];
        let Some(opt) = names.iter().find(|name| self.flag(name)).and_then(|name| self.opt(name))
        else {
            return;
        };
        if !mix.has(OpKind::Write) || !self.has_passes(region) {
            return;
        }
        let size = region.each_bytes;
        let is_plain = self.flushes_per_op(mix) == 0.0
            && !["rate", "rate_iops"].iter().any(|name| self.flag(name))
            && !matches!(walk, Walk::Holes(..));
        let each = mix.one_size().zip(size).map(|(block, size)| size / block.max(1));
        let closes = if self.flag("fsync_on_close") { 2 } else { 1 };
        let burst = region.files.saturating_mul(region.threads).saturating_mul(closes);
        let every = each.unwrap_or(0).saturating_mul(region.threads);
        if !is_plain || !(1..=1_000_000_000).contains(&every) || burst > 1_000_000 {
            self.note(
                opt,
                "flushes after the last pass only; fio also flushes each file after each earlier pass",
            );
            return;
        }
        self.note(opt, "also flushes after each earlier pass, as in fio");
        workload.flush_bursts(every, burst);
    }

    pub(super) fn verifies(&self) -> bool {
        match self.section.value("verify") {
            Some(verify) => !matches!(verify, "0" | "none" | "null"),
            None => self.section.value("verify_pattern").is_some(),
        }
    }

    /// Content of writes; None: the default content.
    fn content(&mut self, mix: &Mix) -> Option<Content> {
        if let Some((value, opt)) =
            self.text("verify").or(self.text("verify_pattern")).filter(|_| self.verifies())
        {
            if opt.key == "verify" && value.starts_with("pattern") {
                let words = "verifiable content can't have a pattern";
                self.refuse(opt, words, "use verify=crc32c");
            }
            let all = if self.writes_all() {
                "`iodyno run` reads everything back after the job; `--verify-only` can do so later"
            } else {
                "`iodyno run --verify-only` checks everything"
            };
            self.note(opt, format_args!("each unit of at most 4 KiB carries its address, writer, generation and a CRC; reads check these, and {all}"));
            return Some(Content::Verifiable);
        }
        if !mix.has(OpKind::Write) {
            return None;
        }
        if self.flag("zero_buffers") {
            return Some(Content::Zeroes);
        }
        let compressible = self.share("buffer_compress_percentage");
        let dedupable = self.share("dedupe_percentage");
        let is_any = compressible.max(dedupable) > Percent::ZERO;
        is_any.then_some(Content::Compressible { compressible, dedupable })
    }

    /// Reads an option in percent, 0 to 100; 0 if it is missing.
    fn share(&mut self, name: &str) -> Percent {
        let percent = self.count(name).unwrap_or(0);
        if let (Some(opt), 101..) = (self.opt(name), percent) {
            self.refuse(opt, format!("`{name}` must be a percentage from 0 to 100"), "");
        }
        Percent::from_fraction(percent as f64 / 100.0)
    }
}

/// Sets the mix, block sizes and addresses of the workload. Settings that all kinds of operations share are set once.
fn set_kinds(plan: &Plan, addresses: Vec<Pattern>, workload: &mut Draft) {
    let issued = &plan.mix.0;
    let Some(first) = issued.first() else { return };
    if issued.iter().all(|other| other.sizes == first.sizes) {
        workload.blocks(first.blocks());
    } else {
        for issued in issued {
            workload.blocks_of(issued.kind, issued.blocks());
        }
    }
    // In fio, a sequential operation follows the last one of its kind.
    let goes_on = match plan.walk {
        Walk::Sequential | Walk::Runs(_) | Walk::Backward(..) | Walk::Holes(..) => true,
        Walk::Random => addresses
            .iter()
            .any(|of_kind| matches!(of_kind, Pattern::Sequential { .. } | Pattern::Jumps { .. })),
        Walk::Skips(..) | Walk::Zones(..) => false,
    };
    for (at, (issued, pattern)) in issued.iter().zip(addresses).enumerate() {
        workload.mix(issued.kind, issued.share);
        if goes_on && plan.mix.0.len() > 1 {
            workload.addresses_of(issued.kind, pattern);
        } else if at == 0 {
            workload.addresses(pattern);
        }
    }
}
