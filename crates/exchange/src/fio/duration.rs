//! When a job issues its operations, on which part of a target, and when it ends.

use super::layout::{self, Part, Surround};
use super::number::{count, time_text};
use super::reading::{KINDS, Reading, Walk};
use super::{Note, Refusal};
use crate::size_text::size_text;
use std::fmt::Write as _;

/// What the options say of a job's files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Region {
    size: Option<Extent>,
    /// The bytes of each clone, where they are known.
    pub(super) each_bytes: Option<u64>,
    /// The clones share one file, or one set of files.
    is_shared: bool,
    threads: u64,
    /// Files of each clone.
    pub(super) files: u64,
    /// `offset_increment`.
    step: u64,
}

/// A part of a target, as an option gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Extent {
    Bytes(u64),
    Percent(u64),
}

impl Reading<'_> {
    /// `[arrivals]`; rates by kind replace the mix.
    pub(super) fn arrivals(
        &mut self,
        mut mix: Vec<(&'static str, f64)>,
        blocks: &[Vec<(u64, f64)>; 3],
        threads: u64,
        (depth, refill_at): (u64, Option<u64>),
    ) -> (Vec<(&'static str, f64)>, String) {
        let mut rates = [None; 3];
        let mut by = None;
        for name in ["rate", "rate_iops"] {
            let Some((value, opt)) = self.text(name) else { continue };
            if by.is_some() {
                self.refuse(opt, "`rate` and `rate_iops` are both given", "leave one of them out");
            }
            by = Some(opt);
            let kb_base = self.kb_base;
            self.by_kind(value, opt, &mut rates, |text| count(text, kb_base).map(Some));
            if name == "rate_iops" && value.contains(['k', 'K', 'm', 'M']) && kb_base == 1024 {
                let words = "a `k` is 1024 operations, and an `m` 1024 · 1024, also in a rate";
                self.trap(&opt.place, words);
            }
            if name == "rate" {
                for (rate, sizes) in rates.iter_mut().zip(blocks) {
                    let shares: f64 = sizes.iter().map(|(_, share)| share).sum();
                    let bytes: f64 = sizes.iter().map(|(bytes, share)| *bytes as f64 * share).sum();
                    let mean = (bytes / shares).max(1.0);
                    // In thousandths of an operation.
                    *rate = rate.map(|rate: u64| (rate as f64 / mean * 1e3) as u64);
                }
            } else {
                rates = rates.map(|rate| rate.map(|rate: u64| rate.saturating_mul(1000)));
            }
        }
        let think_ns = self.time("thinktime", 1000).unwrap_or(0);
        let blocks_before = self.count("thinktime_blocks").unwrap_or(1);
        let process = match self.text("rate_process") {
            None | Some(("linear", _)) => "constant",
            Some(("poisson", _)) => "poisson",
            Some((value, opt)) => {
                self.refuse(opt, format!("`{value}` is no process"), "use linear or poisson");
                "constant"
            }
        };
        let closed = "\n[arrivals]\nkind = \"closed\"\n";
        if let Some(opt) = self.opt("thinktime").filter(|_| think_ns > 0) {
            let mut text = format!("{closed}think_time = \"{}\"\n", time_text(think_ns));
            if by.is_some() {
                self.refuse(opt, "a rate has no think time", "remove thinktime, or the rate");
            } else if depth > 1 || blocks_before != 1 {
                let after = blocks_before.max(1);
                let _ = writeln!(text, "think_drains = true\nthink_after = {after}");
                if depth > 1 {
                    let words = format!(
                        "after each {after} operations all of a worker's complete, and then it thinks: of the depth of {depth} at most {} are in use",
                        after.min(depth)
                    );
                    self.note(opt, words);
                }
            }
            return (mix, text);
        }
        if by.is_none() {
            let mut text = String::new();
            if let Some(at) = refill_at {
                let _ = writeln!(text, "refill_at = {at}");
            }
            if let Some(weight) = self.count("flow").filter(|weight| *weight > 0) {
                let _ = writeln!(text, "flow = {weight}");
            }
            let text = if text.is_empty() { text } else { format!("{closed}{text}") };
            return (mix, text);
        }
        for name in ["flow", "iodepth_low", "iodepth_batch_complete_min"] {
            let Some(opt) = self.opt(name) else { continue };
            if name == "flow" && self.flag(name) {
                self.refuse(opt, "a rate has no flow", "remove flow, or the rate");
            } else {
                self.note(opt, "an open loop starts operations by their schedule");
            }
        }
        let Some(opt) = by else { return (mix, String::new()) };
        let mut all = 0.0;
        let mut own = Vec::new();
        for (kind, _) in &mix {
            let at = KINDS.iter().position(|k| k == kind).unwrap_or(0);
            let Some(rate) = rates[at].filter(|rate| *rate > 0) else {
                let words = format!("`{}` leaves the rate of {kind}s open", opt.name);
                self.refuse(opt, words, "give a rate to each kind that the job issues");
                return (mix, String::new());
            };
            own.push((*kind, rate as f64 / 1e3 * threads as f64));
        }
        for (_, rate) in &own {
            all += rate;
        }
        if own.len() > 1 {
            self.note(opt, "a rate of each kind, which is the mix too: rwmixread has no effect");
            mix = own;
        }
        if threads > 1 {
            self.note(
                opt,
                format_args!("of each of the {threads} clones: {all} operations a second in all"),
            );
        }
        let mean_flushes = self.flushes_per_op(&mix);
        if mean_flushes > 0.0 {
            all *= 1.0 + mean_flushes;
            self.note(
                opt,
                format_args!(
                    "fio does not pace fsyncs: with them {all} operations a second in all"
                ),
            );
        }
        self.note(opt, "an open loop: response times count from the intended start, service times are fio's lat");
        (mix, format!("\n[arrivals]\nkind = \"open\"\nrate = {all}\nprocess = \"{process}\"\n"))
    }

    fn extent_of(&mut self, name: &str) -> Option<Extent> {
        let (value, opt) = self.text(name)?;
        if let Some(percent) = value.strip_suffix('%') {
            return match percent.trim().parse() {
                Ok(percent) if percent <= 100 => Some(Extent::Percent(percent)),
                _ => {
                    self.refuse(opt, format!("`{value}` is no percentage from 0 to 100"), "");
                    None
                }
            };
        }
        self.count(name).map(Extent::Bytes)
    }

    /// What the options say of the job's files.
    pub(super) fn region(&mut self, threads: u64, blocks: &[Vec<(u64, f64)>; 3]) -> Region {
        let names = self.section.value("filename").map(layout::file_names);
        let listed = names.as_ref().map_or(1, Vec::len) as u64;
        let nrfiles = match names {
            None => self.count("nrfiles").unwrap_or(1).max(1),
            Some(_) => listed,
        };
        let filesize = match self.extent_of("filesize") {
            Some(Extent::Bytes(bytes)) => Some(Extent::Bytes(bytes.saturating_mul(nrfiles))),
            other => other,
        };
        let size = self.extent_of("size").filter(|size| *size != Extent::Bytes(0));
        let whole = self.flag("fill_device");
        let size = match (size, filesize.filter(|size| *size != Extent::Bytes(0))) {
            // The job moves `size` in files of `filesize`: a part of them, or more than once.
            (Some(Extent::Bytes(_)), Some(Extent::Bytes(file))) => Some(Extent::Bytes(file)),
            (size, file) => size.or(file),
        };
        let size = if whole { None } else { size };
        let size = match (size, blocks) {
            // What is left of a file behind its last whole block is not used.
            (Some(Extent::Bytes(bytes)), [reads, writes, trims])
                if nrfiles > 1 && reads == writes && reads == trims =>
            {
                let of_all = reads[0].0.saturating_mul(nrfiles);
                let is_held = reads.len() == 1 && (1..=bytes).contains(&of_all);
                Some(Extent::Bytes(if is_held { bytes - bytes % of_all } else { bytes }))
            }
            (size, _) => size,
        };
        let is_shared = self.opt("filename").or(self.opt("uri")).is_some();
        let each_bytes = match size {
            Some(Extent::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        let step = match (self.extent_of("offset_increment"), each_bytes) {
            (Some(Extent::Bytes(step)), _) => step,
            // (fio begins a clone at a whole block.)
            (Some(Extent::Percent(percent)), Some(bytes)) => {
                let step = (u128::from(bytes) * u128::from(percent)).div_ceil(100) as u64;
                step.checked_next_multiple_of(4096).unwrap_or(u64::MAX)
            }
            (Some(Extent::Percent(_)), None) => {
                if let Some(opt) = self.opt("offset_increment") {
                    let words = "a percentage of files whose size is not known";
                    self.refuse(opt, words, "give it in bytes, or give size in bytes");
                }
                0
            }
            (None, _) => 0,
        };
        Region { size, each_bytes, is_shared, threads, files: nrfiles, step }
    }

    /// The bytes that the job takes of the target, from its start; None where they are not known.
    pub(super) fn space(&mut self) -> Option<u64> {
        let threads = self.count("numjobs").unwrap_or(1).max(1);
        let blocks = self.blocks();
        let region = self.region(threads, &blocks);
        let Some(Extent::Bytes(offset)) = self.extent_of("offset").or(Some(Extent::Bytes(0)))
        else {
            return None;
        };
        let each = region.each_bytes?;
        let more = if region.is_shared { region.step } else { each };
        Some(each.saturating_add(offset).saturating_add(more.saturating_mul(threads - 1)))
    }

    /// The keys of the active range: the range, the part of each worker, alignments.
    pub(super) fn extent(
        &mut self,
        region: &Region,
        part: &Part,
        is_alone: bool,
        blocks: &[Vec<(u64, f64)>; 3],
        mix: &[(&str, f64)],
        walk: &Walk,
    ) -> String {
        let Region { size, each_bytes, threads, step, .. } = *region;
        let offset = self.extent_of("offset").unwrap_or(Extent::Bytes(0));
        // How many parts lie side by side, and how far each is from the one before where it is a worker's alone.
        let (mut parts, mut worker_step) = (1, None);
        if threads > 1 {
            let is_side_by_side = !region.is_shared || step > 0 && each_bytes == Some(step);
            match each_bytes.filter(|_| is_side_by_side) {
                Some(bytes) if is_alone => worker_step = Some(bytes),
                Some(_) => parts = threads,
                None if region.is_shared && step > 0 => {
                    worker_step = Some(step);
                    if each_bytes.is_none()
                        && let Some(opt) = self.opt("offset_increment")
                    {
                        self.note(opt, "the parts of the clones are as long as that of the last one, which ends with the target");
                    }
                }
                None if region.is_shared => {
                    let is_walk = !walk.is_random() && !matches!(walk, Walk::Zones(..))
                        || self.flag("percentage_random");
                    worker_step = (is_walk || is_alone && region.files > 1).then_some(0);
                }
                None if is_alone => {
                    let place = self.opt("numjobs").map_or(&self.section.place, |opt| &opt.place);
                    let words = "each clone would have a file of its own, whose size is not known";
                    let help = "give size in bytes, or a filename that the clones share";
                    self.refused.push(Refusal::new(place.clone(), words, help));
                }
                None => {}
            }
        }
        if let (Some(each), Some(opt)) = (each_bytes, self.opt("size").or(self.opt("filesize")))
            && (parts > 1 || worker_step == each_bytes)
        {
            let words = format!(
                "size is that of each clone: {} in all for numjobs={threads}",
                size_text(each.saturating_mul(threads))
            );
            self.trap(&opt.place, words);
        }
        let mut steps = vec![worker_step.unwrap_or(0)];
        match walk {
            Walk::Skips(_, skip) => steps.push(*skip),
            Walk::Backward(stride, start) => steps.extend([*stride, *start]),
            _ => {}
        }
        let active = match (part, offset, size) {
            (Part::Share(number, count), offset, size) => {
                let percent = |of: f64| {
                    let text =
                        format!("{:.7}", (*number as f64 + of / 100.0) * 100.0 / *count as f64);
                    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
                };
                let (
                    Extent::Percent(start) | Extent::Bytes(start @ 0),
                    Some(Extent::Percent(_)) | None,
                ) = (offset, size)
                else {
                    if let Some(opt) = self.opt("offset").or(self.opt("size")) {
                        let words = "several jobs at once on files whose sizes are not known: a place in bytes is not known either";
                        self.refuse(opt, words, "give size in bytes to all jobs of the group");
                    }
                    return String::new();
                };
                let size = if let Some(Extent::Percent(size)) = size { size } else { 100 };
                let place = self.opt("filename").map_or(&self.section.place, |opt| &opt.place);
                let at = place.at(self.files);
                let words =
                    format!("its file is part {} of {count} equal ones of the target", number + 1);
                self.notes.push(Note { at, words });
                (percent(start as f64), percent((start + size).min(100) as f64))
            }
            (part, Extent::Bytes(offset), Some(Extent::Bytes(size))) => {
                let from = match part {
                    Part::From(bytes) => *bytes,
                    _ => 0,
                };
                if from > 0 {
                    let at = self.section.place.at(self.files);
                    let words = format!("its file begins at {} of the target", size_text(from));
                    self.notes.push(Note { at, words });
                }
                let start = offset.saturating_add(from);
                steps.push(start);
                let end = start.saturating_add(size.saturating_mul(parts));
                (size_text(start), size_text(end))
            }
            (_, Extent::Percent(start), Some(Extent::Percent(size))) => {
                (format!("{start}%"), format!("{}%", (start + size).min(100)))
            }
            (_, Extent::Bytes(0), Some(Extent::Percent(size))) => {
                ("0%".to_owned(), format!("{size}%"))
            }
            (_, Extent::Bytes(start), None) => {
                steps.push(start);
                (size_text(start), "100%".to_owned())
            }
            // A place in the file that the target is; one of several jobs on files without sizes is refused above.
            (_, Extent::Percent(start), Some(Extent::Bytes(size))) => {
                (format!("{start}%"), format!("+{}", size_text(size.saturating_mul(parts))))
            }
            (_, Extent::Bytes(start), Some(Extent::Percent(size))) => {
                steps.push(start);
                // (fio ends with the file, where the size would go beyond.)
                let end = if size >= 100 { "100%".to_owned() } else { format!("+{size}%") };
                (size_text(start), end)
            }
            (_, Extent::Percent(start), None) => (format!("{start}%"), "100%".to_owned()),
        };
        if let (Extent::Percent(1..), Some(opt)) = (offset, self.opt("offset")) {
            self.note(opt, "a share of the target; fio takes it of the file as it is before the job, so that it is 0 where there is none yet");
        }
        let mut text = format!("active = \"{}..{}\"\n", active.0, active.1);
        if let Some(step) = worker_step {
            let _ = writeln!(text, "worker_step = \"{}\"", size_text(step));
        }
        self.aligns(blocks, mix, &steps, &mut text);
        text
    }

    /// The keys of alignment, where that of the block sizes does not suffice.
    fn aligns(
        &mut self,
        blocks: &[Vec<(u64, f64)>; 3],
        mix: &[(&str, f64)],
        steps: &[u64],
        text: &mut String,
    ) {
        let natural = Self::natural_align(blocks, mix);
        let mut align = steps.iter().fold(natural, |align, step| match step {
            0 => align,
            step => align.min(1 << step.trailing_zeros().min(30)),
        });
        if let (Some(own), Some(opt)) = (self.count("ba"), self.opt("ba")) {
            if !own.is_power_of_two() {
                let words = "addresses are multiples of a power of two";
                self.refuse(opt, words, "give blockalign such a value");
            } else if own > natural {
                let _ = writeln!(text, "address_align = \"{}\"", size_text(own));
            } else {
                align = align.min(own);
            }
        }
        if align < 512 {
            let names = ["ba", "offset", "offset_increment", "rw", "zoneskip", "size"];
            let opt = names.iter().find_map(|name| self.opt(name));
            let place = opt.map_or_else(|| self.section.place.clone(), |opt| opt.place.clone());
            let words = "addresses are multiples of 512 bytes or more";
            let help = "make offset, size, block sizes and steps multiples of 512";
            self.refused.push(Refusal::new(place, words, help));
        } else if align < natural {
            let _ = writeln!(text, "align = \"{}\"", size_text(align));
        }
    }

    /// `[limits]`.
    pub(super) fn limits(
        &mut self,
        region: &Region,
        place: &Surround<'_>,
        mix: &[(&str, f64)],
        blocks: &[Vec<(u64, f64)>; 3],
        walk: &Walk,
    ) -> String {
        let threads = region.threads;
        let second = 1_000_000_000;
        let ramp_ns = self.time("ramp_time", second).unwrap_or(0);
        let runtime_ns = self.time("runtime", second).filter(|ns| *ns > 0);
        let loops = self.count("loops").unwrap_or(1).max(1);
        let mut limits = format!("ramp = \"{}\"\n", time_text(ramp_ns));
        let delay_ns = self.time("startdelay", second).unwrap_or(0);
        if delay_ns > 0 || place.delay_ns > 0 {
            let delay = time_text(delay_ns.saturating_add(place.delay_ns));
            let _ = writeln!(limits, "start_after = \"{delay}\"");
        }
        if self.flag("exitall") {
            match self.text("exit_what") {
                Some(("all", opt)) if !place.is_last => {
                    let words = "later groups run, whichever job has ended";
                    self.refuse(
                        opt,
                        words,
                        "use exit_what=stonewall, or remove the groups after this one",
                    );
                }
                None | Some(("group" | "stonewall" | "all", _)) => {}
                Some((value, opt)) => {
                    self.refuse(
                        opt,
                        format!("`exit_what={value}` is not known"),
                        "use group, stonewall or all",
                    );
                }
            }
            let _ = writeln!(limits, "ends_others = true");
        }
        if let Some(ns) = runtime_ns {
            let _ = writeln!(limits, "time = \"{}\"", time_text(ns));
        }
        let is_by_time = self.flag("time_based") && runtime_ns.is_some();
        let one_size = Self::one_of(mix, blocks);
        let mut counted_bytes = u64::MAX;
        match (self.count("number_ios"), self.opt("number_ios")) {
            (Some(_), Some(opt)) if is_by_time => {
                self.note(opt, "a job that is time_based goes on, in fio too");
            }
            (Some(ops), _) => {
                let all = ops.saturating_mul(loops).saturating_mul(threads);
                // Flushes are operations too, and fio does not count them: they have no bytes.
                match (self.flushes_per_op(mix), one_size) {
                    (flushes, Some(bytes)) if flushes > 0.0 => {
                        counted_bytes = all.saturating_mul(bytes).max(1);
                    }
                    (flushes, _) => {
                        let ops = all as f64 * (1.0 + flushes);
                        let _ = writeln!(limits, "ops = {}", ops.round() as u64);
                    }
                }
            }
            _ => {}
        }
        let steady = self.steady();
        if self.flag("time_based") {
            match self.opt("time_based") {
                Some(opt) if runtime_ns.is_none() => {
                    let words = "`time_based` has no effect without a runtime, in fio too: the job ends by its size";
                    self.trap(&opt.place, words);
                }
                _ => return limits + &steady,
            }
        }
        let moved = self.extent_of("io_size");
        let each = |clones: u64| clones.saturating_mul(loops);
        let size = match (self.extent_of("size"), region.each_bytes) {
            // A job may move more than its file has.
            (Some(Extent::Bytes(size)), Some(_)) if size > 0 => Some(size),
            (_, each) => each,
        };
        // fio ends with the last block that fits into each file.
        let least = mix.iter().filter_map(|(kind, _)| KINDS.iter().position(|k| k == kind));
        let least = least.flat_map(|at| &blocks[at]).map(|(bytes, _)| *bytes).min().unwrap_or(0);
        let whole = |bytes: u64| match one_size {
            Some(one) if one > 0 => {
                let of_file = one.saturating_mul(region.files.max(1));
                if bytes < of_file { bytes } else { bytes - bytes % of_file }
            }
            // Nothing fits any more once less than the smallest block is left.
            None if matches!(walk, Walk::Sequential) && (1..=bytes).contains(&least) => {
                let align = Self::natural_align(blocks, mix);
                (bytes - least) / align * align + align
            }
            _ => bytes,
        };
        let size = size.map(whole);
        let mut bytes_max = |bytes: u64| {
            let bytes = bytes.saturating_mul(each(threads)).clamp(1, counted_bytes);
            let _ = writeln!(limits, "bytes = \"{}\"", size_text(bytes));
        };
        match (moved, size) {
            (Some(Extent::Bytes(bytes)), _) | (None, Some(bytes)) => bytes_max(bytes),
            (Some(Extent::Percent(percent)), Some(bytes)) => {
                bytes_max((u128::from(bytes) * u128::from(percent) / 100) as u64);
            }
            (moved, None) => {
                let share = if let Some(Extent::Percent(percent)) = moved {
                    percent as f64 / 100.0
                } else {
                    1.0
                };
                let clones = if region.is_shared { threads } else { 1 };
                let _ = writeln!(limits, "passes = {}", share * each(clones) as f64);
                if counted_bytes < u64::MAX {
                    let _ = writeln!(limits, "bytes = \"{}\"", size_text(counted_bytes));
                }
            }
        }
        limits + &steady
    }

    /// `[limits.steady]`.
    fn steady(&mut self) -> String {
        let Some((value, opt)) = self.text("ss") else { return String::new() };
        let second = 1_000_000_000;
        let window_ns = self.time("ss_dur", second).unwrap_or(0);
        let after_ns = self.time("ss_ramp", second).unwrap_or(0);
        if window_ns == 0 {
            self.note(opt, "without ss_dur no steady state ends the job");
            return String::new();
        }
        let (figure, limit) = value.split_once(':').unwrap_or((value, ""));
        let (figure, by) =
            figure.strip_suffix("_slope").map_or((figure, "deviation"), |f| (f, "slope"));
        let figure = match figure {
            "iops" => "iops",
            "bw" => "bandwidth",
            "lat" => "latency",
            _ => {
                self.refuse(
                    opt,
                    format!("`{figure}` has no steady state"),
                    "use iops, bw or lat, or these with _slope",
                );
                return String::new();
            }
        };
        let percent = limit.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
        let Some(percent) = percent.filter(|n| *n > 0.0 && *n <= 100.0) else {
            let words = "a steady state is judged by a share of the mean";
            self.refuse(opt, words, "write it as ss=iops:5%");
            return String::new();
        };
        self.note(
            opt,
            "of all clones of the job together; the figures are those of the whole time",
        );
        format!(
            "\n[limits.steady]\nof = \"{figure}\"\nby = \"{by}\"\nwithin = \"{percent}%\"\nwindow = \"{}\"\nafter = \"{}\"\n",
            time_text(window_ns),
            time_text(after_ns)
        )
    }
}
