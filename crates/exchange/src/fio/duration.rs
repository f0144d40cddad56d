//! Timing of a job: rates, think times, and the limits at which it ends.

use super::extent::{Extent, Region};
use super::layout::Surround;
use super::lines::Opt;
use super::number::{count, time_text};
use super::reading::{KINDS, Reading, Walk};
use crate::size_text::size_text;
use std::fmt::Write as _;

/// Depth of a clone's queue, and when the queue is refilled.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub(super) depth: u64,
    /// Number of operations in flight at which a full queue is refilled; None: after each completion.
    pub(super) refill_at: Option<u64>,
}

/// Limit that `number_ios` sets.
enum Counted {
    Ops(u64),
    Bytes(u64),
}

/// Rates of reads, writes and trims of each clone, thousandths of an operation per second; None: not given.
type Rates = [Option<u64>; 3];

impl<'a> Reading<'a> {
    /// The mix, which rates by kind replace, and the text of the `[arrivals]` table.
    pub(super) fn arrivals(
        &mut self,
        mix: Vec<(&'static str, f64)>,
        blocks: &[Vec<(u64, f64)>; 3],
        threads: u64,
        queue: Queue,
    ) -> (Vec<(&'static str, f64)>, String) {
        let rates = self.rates(blocks);
        let process = match self.text("rate_process") {
            None | Some(("linear", _)) => "constant",
            Some(("poisson", _)) => "poisson",
            Some((value, opt)) => {
                self.refuse(
                    opt,
                    format!("`{value}` is not an arrival process"),
                    "use linear or poisson",
                );
                "constant"
            }
        };
        let weight = self.count("flow").filter(|weight| *weight > 0);
        let (thinks, pauses) = self.pauses(queue.depth, weight.is_some(), rates.is_some());
        let flow = weight.map_or(String::new(), |weight| format!("flow = {weight}\n"));
        let mut text = pauses + &flow;
        let Some((opt, rates)) = rates else {
            if let Some(at) = queue.refill_at.filter(|_| !thinks) {
                let _ = writeln!(text, "refill_at = {at}");
            }
            let closed = "\n[arrivals]\nkind = \"closed\"\n";
            let text = if text.is_empty() { text } else { format!("{closed}{text}") };
            return (mix, text);
        };
        for name in ["iodepth_low", "iodepth_batch_complete_min"] {
            let Some(opt) = self.opt(name) else { continue };
            self.note(opt, "no effect with a rate: operations start by its schedule");
        }
        let Some(own) = self.rates_of_mix(opt, &rates, &mix, threads) else {
            return (mix, String::new());
        };
        self.trap_of_mean_rate(opt, process, &own, blocks);
        let mut all: f64 = own.iter().map(|(_, rate)| rate).sum();
        let mix = if own.len() > 1 {
            self.note(opt, "the rates of the kinds determine the mix: rwmixread has no effect");
            own
        } else {
            mix
        };
        if threads > 1 {
            self.note(
                opt,
                format_args!(
                    "the rate of each of the {threads} clones: {all} operations a second in all"
                ),
            );
        }
        let mean_flushes = self.flushes_per_op(&mix);
        if mean_flushes > 0.0 {
            all *= 1.0 + mean_flushes;
            self.note(
                opt,
                format_args!(
                    "fio does not pace fsyncs: including them, {all} operations a second in all"
                ),
            );
        }
        self.note(opt, "an open loop: response times count from the intended start; service times are what fio calls lat");
        let open = format!("\n[arrivals]\nkind = \"open\"\nrate = {all}\n");
        (mix, format!("{open}process = \"{process}\"\n{text}"))
    }

    /// Rates by `rate` or `rate_iops`, with the option; None without a rate.
    fn rates(&mut self, blocks: &[Vec<(u64, f64)>; 3]) -> Option<(&'a Opt, Rates)> {
        let mut found: Option<(&Opt, Rates)> = None;
        for name in ["rate", "rate_iops"] {
            let Some((value, opt)) = self.text(name) else { continue };
            let (mut own, kb_base) = ([None; 3], self.kb_base);
            self.all_by_kind(name, &mut own, |text| count(text, kb_base).map(Some));
            if own.iter().all(|rate| matches!(rate, None | Some(0))) {
                // A rate of 0 is no limit, in fio too.
                continue;
            }
            if found.is_some() {
                self.refuse(opt, "`rate` and `rate_iops` are both given", "leave one of them out");
            }
            if name == "rate_iops" && value.contains(['k', 'K', 'm', 'M']) && kb_base == 1024 {
                let words = "a `k` is 1024 operations, and an `m` 1024 · 1024, also in a rate";
                self.trap(&opt.place, words);
            }
            if name == "rate" {
                for (rate, sizes) in own.iter_mut().zip(blocks) {
                    let shares: f64 = sizes.iter().map(|(_, share)| share).sum();
                    let bytes: f64 = sizes.iter().map(|(bytes, share)| *bytes as f64 * share).sum();
                    let mean = (bytes / shares).max(1.0);
                    *rate = rate.map(|rate: u64| (rate as f64 / mean * 1e3) as u64);
                }
            } else {
                own = own.map(|rate| rate.map(|rate: u64| rate.saturating_mul(1000)));
            }
            found = Some((opt, own));
        }
        found
    }

    /// Whether workers pause (`thinktime`), and the workload keys of these pauses.
    fn pauses(&mut self, depth: u64, has_flow: bool, has_rate: bool) -> (bool, String) {
        let think_ns = self.time("thinktime", 1000).unwrap_or(0);
        let after = self.count("thinktime_blocks").unwrap_or(1);
        let iotime_ns = self.time("thinktime_iotime", 1_000_000_000).filter(|ns| *ns > 0);
        let Some(opt) = self.opt("thinktime").filter(|_| think_ns > 0) else {
            for name in ["thinktime_iotime", "rate_ignore_thinktime"] {
                if let Some(opt) = self.opt(name) {
                    self.note(opt, "without thinktime it has no effect");
                }
            }
            return (think_ns > 0, String::new());
        };
        let mut pauses = format!("think_time = \"{}\"\n", time_text(think_ns));
        let drains = depth > 1 || after != 1 || iotime_ns.is_some() || has_flow;
        if drains && !has_rate {
            pauses.push_str("think_drains = true\n");
        }
        let after = after.max(1);
        if (drains || has_rate) && (iotime_ns.is_none() || self.opt("thinktime_blocks").is_some()) {
            let _ = writeln!(pauses, "think_after = {after}");
        }
        if let Some(ns) = iotime_ns {
            let _ = writeln!(pauses, "think_after_time = \"{}\"", time_text(ns));
        }
        if has_rate {
            let words = if self.flag("rate_ignore_thinktime") {
                pauses.push_str("think_shifts = true\n");
                "the schedule of the rate stops while a worker thinks"
            } else {
                "operations that become due while a worker thinks are issued afterwards, as in fio: response times count from the time when they were due"
            };
            self.note(opt, words);
        } else if depth > 1 && iotime_ns.is_none() {
            let words = format!(
                "after each {after} operations a worker waits until all of its operations are complete, and then thinks: it uses at most {} of its depth of {depth}",
                after.min(depth)
            );
            self.note(opt, words);
        }
        (true, pauses)
    }

    /// Operations per second of each kind of the mix, for all clones together. None if a kind has no rate, which is
    /// refused.
    fn rates_of_mix(
        &mut self,
        opt: &Opt,
        rates: &Rates,
        mix: &[(&'static str, f64)],
        threads: u64,
    ) -> Option<Vec<(&'static str, f64)>> {
        let mut own = Vec::new();
        for (kind, _) in mix {
            let at = KINDS.iter().position(|k| k == kind).unwrap_or(0);
            let Some(rate) = rates[at].filter(|rate| *rate > 0) else {
                let words = format!("`{}` gives no rate for {kind}s", opt.name);
                self.refuse(opt, words, "give a rate to each kind that the job issues");
                return None;
            };
            own.push((*kind, rate as f64 / 1e3 * threads as f64));
        }
        Some(own)
    }

    /// Warns where fio treats a rate of several block sizes as one of the smallest block size.
    fn trap_of_mean_rate(
        &mut self,
        opt: &Opt,
        process: &str,
        own: &[(&'static str, f64)],
        blocks: &[Vec<(u64, f64)>; 3],
    ) {
        let is_mixed = |(kind, _): &(&str, f64)| {
            KINDS.iter().position(|k| k == kind).is_some_and(|at| blocks[at].len() > 1)
        };
        let words = match (opt.key.as_str(), process) {
            ("rate_iops", "constant") => {
                "the rate counts blocks of all sizes: fio 3.33 paces bytes of the smallest one, and issues fewer operations"
            }
            ("rate", "poisson") => {
                "the rate is converted by the mean block size: fio 3.33 paces blocks of the smallest one, and moves more bytes"
            }
            _ => return,
        };
        if own.iter().any(is_mixed) {
            self.trap(&opt.place, words);
        }
    }

    /// Text of the `[limits]` table.
    pub(super) fn limits(
        &mut self,
        region: &Region,
        place: &Surround<'_>,
        mix: &[(&str, f64)],
        blocks: &[Vec<(u64, f64)>; 3],
        walk: &Walk,
    ) -> String {
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
            self.check_exit(place.is_last);
            let _ = writeln!(limits, "ends_others = true");
        }
        if let Some(ns) = runtime_ns {
            let _ = writeln!(limits, "time = \"{}\"", time_text(ns));
        }
        let is_by_time = self.flag("time_based") && runtime_ns.is_some();
        let all = loops.saturating_mul(region.threads);
        let counted = self.counted(is_by_time, all, Self::one_of(mix, blocks), mix);
        if let Some(Counted::Ops(ops)) = counted {
            let _ = writeln!(limits, "ops = {ops}");
        }
        let steady = self.steady();
        if self.flag("time_based") {
            match self.opt("time_based") {
                Some(opt) if runtime_ns.is_none() => {
                    let words = "`time_based` has no effect without a runtime, in fio too: the job ends after its size";
                    self.trap(&opt.place, words);
                }
                _ => return limits + &steady,
            }
        }
        let counted_bytes =
            if let Some(Counted::Bytes(bytes)) = counted { bytes } else { u64::MAX };
        limits + &self.limits_of_size(region, counted_bytes, mix, blocks, walk) + &steady
    }

    /// Refuses values of `exit_what` that can't be honoured.
    fn check_exit(&mut self, is_last: bool) {
        match self.text("exit_what") {
            Some(("all", opt)) if !is_last => {
                let help = "use exit_what=stonewall, or remove the groups after this one";
                self.refuse(
                    opt,
                    "`exit_what=all` can't be honoured: later groups always run",
                    help,
                );
            }
            None | Some(("group" | "stonewall" | "all", _)) => {}
            Some((value, opt)) => {
                let help = "use group, stonewall or all";
                self.refuse(opt, format!("`exit_what={value}` is not known"), help);
            }
        }
    }

    /// Limit by `number_ios`, multiplied by `times`; None without the option, or if only the time counts.
    fn counted(
        &mut self,
        is_by_time: bool,
        times: u64,
        one_size: Option<u64>,
        mix: &[(&str, f64)],
    ) -> Option<Counted> {
        let (ops, opt) = (self.count("number_ios")?, self.opt("number_ios")?);
        if is_by_time {
            self.note(opt, "no effect on a job that is time_based, in fio too");
            return None;
        }
        let all = ops.saturating_mul(times);
        // fio does not count flushes. They have no bytes, so a limit in bytes leaves them out.
        Some(match (self.flushes_per_op(mix), one_size) {
            (flushes, Some(bytes)) if flushes > 0.0 => {
                Counted::Bytes(all.saturating_mul(bytes).max(1))
            }
            (flushes, _) => Counted::Ops((all as f64 * (1.0 + flushes)).round() as u64),
        })
    }

    /// Text of the limits that follow from `size`, `io_size` and `loops`.
    fn limits_of_size(
        &mut self,
        region: &Region,
        counted_bytes: u64,
        mix: &[(&str, f64)],
        blocks: &[Vec<(u64, f64)>; 3],
        walk: &Walk,
    ) -> String {
        let threads = region.threads;
        let loops = self.count("loops").unwrap_or(1).max(1);
        let one_size = Self::one_of(mix, blocks);
        let mut limits = String::new();
        let moved = self.extent_of("io_size");
        let each = |clones: u64| clones.saturating_mul(loops);
        let size = match (self.extent_of("size"), region.each_bytes) {
            // At most the size of its files.
            (Some(Extent::Bytes(size)), Some(each)) if size > 0 => Some(size.min(each)),
            (_, each) => each,
        };
        let another_block = self.begins_another_block().then(|| one_size.unwrap_or(1).max(1));
        // fio ends with the last block that fits into each file.
        let least = mix.iter().filter_map(|(kind, _)| KINDS.iter().position(|k| k == kind));
        let least = least.flat_map(|at| &blocks[at]).map(|(bytes, _)| *bytes).min().unwrap_or(0);
        let whole = |bytes: u64| match one_size {
            Some(one) if one > 0 => {
                let files = if region.drawn.is_empty() { region.files.max(1) } else { 1 };
                let of_file = one.saturating_mul(files);
                if bytes < of_file { bytes } else { bytes - bytes % of_file }
            }
            // Nothing fits any more once less than the smallest block is left.
            None if matches!(walk, Walk::Sequential) && (1..=bytes).contains(&least) => {
                let align = Self::natural_align(blocks, mix);
                (bytes - least) / align * align + align
            }
            _ => bytes,
        };
        let size = match (size, another_block) {
            (Some(bytes), Some(block)) => {
                // The last block of all passes begins before the end.
                let all = bytes.saturating_mul(loops);
                let all = all.checked_next_multiple_of(block).unwrap_or(all);
                if moved.is_none() {
                    let bytes = all.saturating_mul(threads).clamp(1, counted_bytes);
                    let _ = writeln!(limits, "bytes = \"{}\"", size_text(bytes));
                    return limits;
                }
                Some(bytes)
            }
            // The end of a walk with holes depends on the remainder too.
            (size, _) if matches!(walk, Walk::Holes(..)) => size,
            (size, _) => size.map(whole),
        };
        let (moved, size) = self.ends_with_holes(moved, size, walk, mix);
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
                // In a range of unknown length, a walk with holes covers a share of the blocks.
                let share = match walk {
                    Walk::Holes(block, hole) if moved.is_none() => {
                        share * *block as f64 / block.saturating_add(*hole).max(1) as f64
                    }
                    _ => share,
                };
                let _ = writeln!(limits, "passes = {}", share * each(clones) as f64);
                if counted_bytes < u64::MAX {
                    let _ = writeln!(limits, "bytes = \"{}\"", size_text(counted_bytes));
                }
            }
        }
        limits
    }

    /// Adjusts `io_size` and the bytes of a pass for a walk with holes, which ends with its file.
    fn ends_with_holes(
        &mut self,
        moved: Option<Extent>,
        size: Option<u64>,
        walk: &Walk,
        mix: &[(&str, f64)],
    ) -> (Option<Extent>, Option<u64>) {
        let (Walk::Holes(block, hole), Some(size)) = (walk, size) else { return (moved, size) };
        let pass = self.pass_of_holes(size, (*block, *hole));
        // In a mix, the more frequent kind reaches the end first and ends the job.
        let all: f64 = mix.iter().map(|(_, share)| share).sum();
        let most = mix.iter().map(|(_, share)| *share).fold(0.0, f64::max) / all;
        let pass = if mix.len() > 1 { (pass as f64 / most) as u64 } else { pass };
        if let (true, Some(opt)) = (mix.len() > 1, self.opt("rw")) {
            self.note(
                opt,
                "the job ends when its reads or its writes reach the end of the file; the random mix decides when",
            );
        }
        let moved = match moved {
            // An `io_size` above `size` repeats the walk.
            Some(Extent::Bytes(bytes)) if bytes <= size => Some(Extent::Bytes(bytes.min(pass))),
            moved => moved,
        };
        (moved, Some(pass))
    }

    /// Text of the `[limits.steady]` table; empty if no steady state ends the job.
    fn steady(&mut self) -> String {
        let Some((value, opt)) = self.text("ss") else { return String::new() };
        let second = 1_000_000_000;
        let window_ns = self.time("ss_dur", second).unwrap_or(0);
        let after_ns = self.time("ss_ramp", second).unwrap_or(0);
        if window_ns == 0 {
            self.note(opt, "no effect without ss_dur");
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
                    format!("`{figure}` can't be judged for a steady state"),
                    "use iops, bw or lat, or these with _slope",
                );
                return String::new();
            }
        };
        let percent = limit.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
        let Some(percent) = percent.filter(|n| *n > 0.0 && *n <= 100.0) else {
            let words = "the limit of a steady state must be a percentage of the mean";
            self.refuse(opt, words, "write it as ss=iops:5%");
            return String::new();
        };
        self.note(
            opt,
            "judged for all clones of the job together; results are those of the whole measured time",
        );
        format!(
            "\n[limits.steady]\nof = \"{figure}\"\nby = \"{by}\"\nwithin = \"{percent}%\"\nwindow = \"{}\"\nafter = \"{}\"\n",
            time_text(window_ns),
            time_text(after_ns)
        )
    }
}
