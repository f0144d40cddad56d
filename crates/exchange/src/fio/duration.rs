//! Converts fio's rates, think times and job limits (`runtime`, `size`, `io_size`, `number_ios`, `loops`).

use super::layout::Surround;
use super::lines::Opt;
use super::mix::{Extent, Issued, Mix, Plan, Region, Walk};
use super::number::count;
use super::reading::Reading;
use crate::shared::SECOND_NS;
use iodyno_workload::{ArrivalKind, Draft, Limits, Percent, Process, Steady, SteadyFigure};

/// Queue depth of a clone, and threshold at which the queue is refilled.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub(super) depth: u64,
    /// Number of operations in flight at which a full queue is refilled; None: refilled after each completion.
    pub(super) refill_at: Option<u64>,
}

/// Largest number that a workload file can hold. A limit of this many operations never ends a job.
const COUNT_MAX: u64 = i64::MAX as u64;

/// Total number of operations or bytes after which `number_ios` ends a job: the option's value times the numbers of
/// clones and of `loops`.
enum Counted {
    Ops(u64),
    Bytes(u64),
}

/// Rates of each clone, from the option `rate` or `rate_iops`.
struct Rates<'a> {
    opt: &'a Opt,
    /// Operations or bytes per second of reads, writes and trims; None: no rate for this kind.
    by_kind: [Option<u64>; 3],
    is_in_bytes: bool,
}

impl Rates<'_> {
    /// Rate of one kind in thousandths of an operation per second, rounded as in fio; None: no rate.
    fn milli_ops(&self, issued: &Issued) -> Option<u64> {
        let rate = self.by_kind[issued.at()]?;
        if !self.is_in_bytes {
            return Some(rate.saturating_mul(1000));
        }
        let shares: f64 = issued.sizes.iter().map(|size| size.share).sum();
        let bytes: f64 = issued.sizes.iter().map(|size| size.bytes as f64 * size.share).sum();
        let mean = (bytes / shares).max(1.0);
        Some((rate as f64 / mean * 1e3) as u64)
    }
}

impl<'a> Reading<'a> {
    /// Sets `[arrivals]` of the workload. Rates by kind of operation replace the shares of the mix.
    pub(super) fn arrivals(
        &mut self,
        mix: &mut Mix,
        threads: u64,
        queue: Queue,
        workload: &mut Draft,
    ) {
        let rates = self.rates();
        let process = match self.text("rate_process") {
            None | Some(("linear", _)) => Process::Constant,
            Some(("poisson", _)) => Process::Poisson,
            Some((value, opt)) => {
                self.refuse(
                    opt,
                    format!("`{value}` is not an arrival process"),
                    "use linear or poisson",
                );
                Process::Constant
            }
        };
        let weight = self.count("flow").filter(|weight| *weight > 0);
        workload.flow(weight);
        let thinks = self.pauses(queue.depth, weight.is_some(), rates.is_some(), workload);
        let Some(rates) = rates else {
            workload.refill_at(queue.refill_at.filter(|_| !thinks));
            return;
        };
        for name in ["iodepth_low", "iodepth_batch_complete_min"] {
            let Some(opt) = self.opt(name) else { continue };
            self.note(opt, "no effect with a rate: operations start by its schedule");
        }
        let Some(rate_iops) = self.rate_of_all(&rates, mix, threads, process) else { return };
        workload.arrivals(ArrivalKind::Open { rate_iops, process });
    }

    /// Total operations per second of all clones; None if the rate is refused. If kinds have their own rates,
    /// sets the mix in proportion to them.
    fn rate_of_all(
        &mut self,
        rates: &Rates<'_>,
        mix: &mut Mix,
        threads: u64,
        process: Process,
    ) -> Option<f64> {
        let opt = rates.opt;
        let mut own = Vec::new();
        for issued in &mix.0 {
            let Some(rate) = rates.milli_ops(issued).filter(|rate| *rate > 0) else {
                let words = format!("`{}` gives no rate for {}s", opt.name, issued.kind.name());
                self.refuse(
                    opt,
                    words,
                    "give a rate for each kind of operation that the job issues",
                );
                return None;
            };
            own.push(rate as f64 / 1e3 * threads as f64);
        }
        self.trap_of_mean_rate(rates, process, mix);
        let mut all: f64 = own.iter().sum();
        if own.len() > 1 {
            self.note(opt, "the rates of the kinds determine the mix: rwmixread has no effect");
            mix.0.iter_mut().zip(own).for_each(|(issued, rate)| issued.share = rate);
        }
        if threads > 1 {
            self.note(
                opt,
                format_args!(
                    "the rate applies to each of the {threads} clones: {all} operations a second in all"
                ),
            );
        }
        let mean_flushes = self.flushes_per_op(mix);
        if mean_flushes > 0.0 {
            all *= 1.0 + mean_flushes;
            self.note(
                opt,
                format_args!(
                    "fio does not pace fsyncs: {all} operations a second, fsyncs included"
                ),
            );
        }
        self.note(opt, "an open loop: response times count from the intended start; fio's lat is iodyno's service time");
        Some(all)
    }

    /// Reads the option `rate` or `rate_iops`; None without either.
    fn rates(&mut self) -> Option<Rates<'a>> {
        let mut found: Option<Rates<'a>> = None;
        for name in ["rate", "rate_iops"] {
            let Some((value, opt)) = self.text(name) else { continue };
            let (mut by_kind, kb_base) = ([None; 3], self.kb_base);
            self.all_by_kind(name, &mut by_kind, |text| count(text, kb_base).map(Some));
            if by_kind.iter().all(|rate| matches!(rate, None | Some(0))) {
                // A rate of 0 is no limit, in fio too.
                continue;
            }
            if found.is_some() {
                self.refuse(opt, "`rate` and `rate_iops` are both given", "leave one of them out");
            }
            if name == "rate_iops" && value.contains(['k', 'K', 'm', 'M']) && kb_base == 1024 {
                let words = "`k` is 1024 operations and `m` is 1024 · 1024, as in sizes";
                self.trap(&opt.place, words);
            }
            found = Some(Rates { opt, by_kind, is_in_bytes: name == "rate" });
        }
        found
    }

    /// Sets the pauses from `thinktime` and related options. Returns whether there is a think time.
    fn pauses(&mut self, depth: u64, has_flow: bool, has_rate: bool, workload: &mut Draft) -> bool {
        let think_time_ns = self.time("thinktime", 1000).unwrap_or(0);
        let after = self.count("thinktime_blocks").unwrap_or(1);
        let iotime_ns = self.time("thinktime_iotime", SECOND_NS).filter(|ns| *ns > 0);
        let Some(opt) = self.opt("thinktime").filter(|_| think_time_ns > 0) else {
            for name in ["thinktime_iotime", "rate_ignore_thinktime"] {
                if let Some(opt) = self.opt(name) {
                    self.note(opt, "no effect without thinktime");
                }
            }
            return think_time_ns > 0;
        };
        let drains = depth > 1 || after != 1 || iotime_ns.is_some() || has_flow;
        let after = after.max(1);
        if (drains || has_rate) && (iotime_ns.is_none() || self.opt("thinktime_blocks").is_some()) {
            workload.think_after(Some(after));
        }
        workload.think_after_ns(iotime_ns);
        if has_rate {
            workload.open_pause(think_time_ns);
            let shifts = self.flag("rate_ignore_thinktime");
            workload.think_shifts(shifts);
            let words = if shifts {
                "while a worker thinks, the schedule of the rate stops"
            } else {
                "operations that become due while a worker thinks are issued afterwards, as in fio: response times count from the time when they were due"
            };
            self.note(opt, words);
            return true;
        }
        workload.arrivals(ArrivalKind::Closed { think_time_ns, think_drains: drains });
        if depth > 1 && iotime_ns.is_none() {
            let operations = match after {
                1 => "operation".to_owned(),
                _ => format!("{after} operations"),
            };
            let words = format!(
                "after each {operations} a worker waits until all of its operations are complete, and then thinks: it uses at most {} of its depth of {depth}",
                after.min(depth)
            );
            self.note(opt, words);
        }
        true
    }

    /// Warns if block sizes differ, because fio then paces the rate as if all blocks had the smallest size.
    fn trap_of_mean_rate(&mut self, rates: &Rates<'_>, process: Process, mix: &Mix) {
        let words = match (rates.is_in_bytes, process) {
            (false, Process::Constant) => {
                "the rate counts operations: fio 3.33 converts it to bytes by the smallest block size, and issues fewer operations"
            }
            (true, Process::Poisson) => {
                "the rate is converted to operations by the mean block size: fio 3.33 converts it by the smallest block size, and moves more bytes"
            }
            _ => return,
        };
        if mix.0.iter().any(|issued| issued.sizes.len() > 1) {
            self.trap(&rates.opt.place, words);
        }
    }

    /// Determines the limits of the job: time, operations, bytes or passes.
    pub(super) fn limits(&mut self, plan: &Plan, place: &Surround<'_>) -> Limits {
        let mut limits = Limits::UNLIMITED;
        limits.ramp_ns = self.time("ramp_time", SECOND_NS).unwrap_or(0);
        limits.time_ns = self.time("runtime", SECOND_NS).filter(|ns| *ns > 0);
        let delay_ns = self.time("startdelay", SECOND_NS).unwrap_or(0);
        limits.start_after_ns = delay_ns.saturating_add(place.delay_ns);
        limits.ends_others = place.exits;
        if place.exits {
            self.check_exit(place.is_last);
        }
        let counted = self.counted(limits.time_ns.is_some(), plan);
        if let Some(Counted::Ops(ops)) = counted {
            limits.ops = Some(ops);
        }
        limits.steady = self.steady();
        match self.opt("time_based").filter(|_| self.flag("time_based")) {
            Some(_) if limits.time_ns.is_some() => return limits,
            Some(opt) => {
                let words = "`time_based` has no effect without a runtime, as in fio: the job ends after `size` bytes";
                self.trap(&opt.place, words);
            }
            None => {}
        }
        let counted_bytes =
            if let Some(Counted::Bytes(bytes)) = counted { bytes } else { u64::MAX };
        self.limits_of_size(plan, counted_bytes, &mut limits);
        // fio counts the ramp towards `size`, but not towards `number_ios`.
        limits.ramp_counts = limits.ramp_ns > 0 && limits.bytes.unwrap_or(0) < counted_bytes;
        limits
    }

    /// Refuses values of `exit_what` that are not supported. `is_last`: no group runs after this one, so `all` is
    /// supported.
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

    /// Reads `number_ios`, and multiplies it by the numbers of clones and of `loops`. None without it, or if the job is
    /// `time_based` and has a runtime.
    fn counted(&mut self, has_runtime: bool, plan: &Plan) -> Option<Counted> {
        let times = self.loops().saturating_mul(plan.region.threads);
        let (ops, opt) = (self.count("number_ios")?, self.opt("number_ios")?);
        if has_runtime && self.flag("time_based") {
            self.note(opt, "no effect on a job that is time_based, as in fio");
            return None;
        }
        let all = ops.saturating_mul(times);
        // fio does not count flushes. They have no bytes, so a limit in bytes leaves them out.
        Some(match (self.flushes_per_op(&plan.mix), plan.mix.one_size()) {
            (flushes, Some(bytes)) if flushes > 0.0 => {
                Counted::Bytes(all.saturating_mul(bytes).max(1))
            }
            (flushes, _) => {
                Counted::Ops(((all as f64 * (1.0 + flushes)).round() as u64).min(COUNT_MAX))
            }
        })
    }

    /// Number of passes over the job's files.
    pub(super) fn loops(&mut self) -> u64 {
        self.count("loops").unwrap_or(1).max(1)
    }

    /// Whether the job passes over its files more than once, by `loops` or `io_size`. False if its time ends it.
    pub(super) fn has_passes(&mut self, region: &Region) -> bool {
        let is_by_time = self.flag("time_based") && self.flag("runtime");
        let loops = self.loops();
        let is_repeated = match (self.extent_of("io_size"), region.each_bytes) {
            (Some(Extent::Bytes(moved)), Some(size)) => moved.saturating_mul(loops) > size,
            _ => loops > 1,
        };
        is_repeated && !is_by_time
    }

    /// Sets the limits that follow from `size`, `io_size` and `loops`.
    fn limits_of_size(&mut self, plan: &Plan, counted_bytes: u64, limits: &mut Limits) {
        let Plan { mix, walk, region } = plan;
        let threads = region.threads;
        let loops = self.loops();
        let moved = self.extent_of("io_size");
        let size = match (self.extent_of("size"), region.each_bytes) {
            // At most the size of its files.
            (Some(Extent::Bytes(size)), Some(each)) if size > 0 => Some(size.min(each)),
            (_, each) => each,
        };
        let size = match size {
            Some(bytes) if self.begins_another_block() || matches!(walk, Walk::Skips(..)) => {
                // The last block of all passes begins before the end.
                let all = bytes.saturating_mul(loops);
                let block = mix.one_size().unwrap_or(1).max(1);
                let whole = |bytes: u64| bytes.checked_next_multiple_of(block).unwrap_or(bytes);
                let pass = self
                    .pass_of_zones(bytes, plan)
                    .map_or(whole(bytes), |lap| lap.min(whole(bytes)));
                if moved.is_none() {
                    let all = whole(all).min(pass.saturating_mul(loops));
                    limits.bytes = Some(all.saturating_mul(threads).clamp(1, counted_bytes));
                    return;
                }
                Some(pass)
            }
            // The end of a walk with holes depends on the remainder too.
            size if matches!(walk, Walk::Holes(..)) => size,
            size => size.map(|bytes| whole_blocks(bytes, plan)),
        };
        let size = size.map(|size| self.ends_with_holes(size, plan));
        let moved_bytes = match (moved, size) {
            (Some(Extent::Bytes(bytes)), _) | (None, Some(bytes)) => Some(bytes),
            (Some(Extent::Percent(percent)), Some(bytes)) => {
                Some((u128::from(bytes) * u128::from(percent) / 100) as u64)
            }
            (_, None) => None,
        };
        if let Some(bytes) = moved_bytes {
            let pass = self.pass_at_most(size, plan);
            let all = moved_in_passes(bytes, pass, loops).saturating_mul(threads);
            limits.bytes = Some(all.clamp(1, counted_bytes));
            return;
        }
        let share = match (moved, walk) {
            (Some(Extent::Percent(percent)), _) => percent as f64 / 100.0,
            (None, Walk::Holes(block, hole)) => self.share_with_holes(*block, *hole, mix),
            _ => 1.0,
        };
        let clones = if region.is_shared { threads } else { 1 };
        limits.passes = Some(share * clones.saturating_mul(loops) as f64);
        limits.bytes = Some(counted_bytes).filter(|bytes| *bytes < u64::MAX);
    }

    /// Most bytes that fio moves in one pass if `io_size` allows more; `size`: bytes of the walk. None if a pass has no
    /// other end than `io_size`, or if its end is unknown.
    fn pass_at_most(&self, size: Option<u64>, plan: &Plan) -> Option<u64> {
        match plan.walk {
            Walk::Random if self.draws_anew() => None,
            Walk::Runs(_) | Walk::Zones(..) | Walk::Backward(_) => None,
            Walk::Random | Walk::Holes(..) | Walk::Skips(..) => size,
            // Each kind has its own cursor, and the first at the end of the file ends the pass.
            Walk::Sequential => size.map(|size| (size as f64 / plan.mix.largest_share()) as u64),
        }
    }

    /// Whether random addresses are independent draws in fio, so that the blocks of a file never run out.
    fn draws_anew(&self) -> bool {
        let is_lfsr = self.section.value("random_generator") == Some("lfsr");
        let distribution = self.section.value("random_distribution");
        self.flag("norandommap") && !is_lfsr
            || distribution.is_some_and(|value| value != "random")
            || self.section.value("percentage_random").is_some_and(|value| value != "100")
    }

    /// Bytes of a pass over `size` bytes, adjusted if each block is followed by a hole: such a pass ends at the end of
    /// the file.
    fn ends_with_holes(&mut self, size: u64, plan: &Plan) -> u64 {
        let Walk::Holes(block, hole) = &plan.walk else { return size };
        let mut pass = self.pass_of_holes(size, *block, *hole);
        let whole = size.checked_next_multiple_of((*block).max(1)).unwrap_or(size);
        if plan.mix.0.len() > 1 && pass < whole {
            // The more frequent kind reaches the end of the file first and ends the job, unless `size` ends it earlier.
            pass = ((pass as f64 / plan.mix.largest_share()) as u64).min(whole);
            if let Some(opt) = self.opt("rw") {
                self.note(
                    opt,
                    "the job ends after `size` bytes, or as soon as its reads or its writes reach the end of the file, which depends on the random mix",
                );
            }
        }
        pass
    }

    /// Bytes that a walk with holes moves in a range of unknown size, as a fraction of that size. fio begins again at
    /// the start if only a hole extends beyond the end, as in a size that is a power of two.
    fn share_with_holes(&mut self, block: u64, hole: u64, mix: &Mix) -> f64 {
        let step = block.saturating_add(hole).max(1);
        if step.is_power_of_two() && self.offset() == Extent::Bytes(0) {
            return 1.0;
        }
        (block as f64 / step as f64 / mix.largest_share()).min(1.0)
    }

    /// Converts the option `ss` to a steady state that ends the job; None without it, or if it is refused.
    fn steady(&mut self) -> Option<Steady> {
        let (value, opt) = self.text("ss")?;
        let window_ns = self.time("ss_dur", SECOND_NS).unwrap_or(0);
        let after_ns = self.time("ss_ramp", SECOND_NS).unwrap_or(0);
        if window_ns == 0 {
            self.note(opt, "no effect without ss_dur");
            return None;
        }
        let (figure, limit) = value.split_once(':').unwrap_or((value, ""));
        let (name, by_slope) =
            figure.strip_suffix("_slope").map_or((figure, false), |name| (name, true));
        let figure = match name {
            "iops" => SteadyFigure::Iops,
            "bw" => SteadyFigure::Bandwidth,
            "lat" => SteadyFigure::Latency,
            _ => {
                let words = format!("a steady state can't be judged by `{name}`");
                self.refuse(opt, words, "use iops, bw or lat, or these with _slope");
                return None;
            }
        };
        let percent = limit.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
        let Some(percent) = percent.filter(|n| *n > 0.0 && *n <= 100.0) else {
            let words = "the limit of a steady state must be a percentage of the mean";
            self.refuse(opt, words, "use the form ss=iops:5%");
            return None;
        };
        self.note(
            opt,
            "the steady state is judged for all clones of the job together; results cover the whole measurement",
        );
        let within = Percent::from_fraction(percent / 100.0);
        Some(Steady { figure, by_slope, within, window_ns, after_ns })
    }
}

/// Bytes that a clone moves in all. fio passes over its files `loops` times, and again until it has moved `bytes`
/// (`io_size`, or `size`); one pass moves at most `pass`, and at most `bytes`.
fn moved_in_passes(bytes: u64, pass: Option<u64>, loops: u64) -> u64 {
    let most = bytes.saturating_mul(loops);
    let pass = pass.map_or(bytes, |pass| pass.min(bytes)).max(1);
    loops.max(bytes.div_ceil(pass)).saturating_mul(pass).min(most)
}

/// Bytes that one pass over `bytes` bytes transfers. fio ends with the last block that fits into each file.
fn whole_blocks(bytes: u64, plan: &Plan) -> u64 {
    let Plan { mix, walk, region } = plan;
    let least = mix.sizes().min().unwrap_or(0);
    match mix.one_size() {
        Some(one) if one > 0 => {
            let files = if region.drawn.is_empty() { region.files.max(1) } else { 1 };
            let of_file = one.saturating_mul(files);
            if bytes < of_file { bytes } else { bytes - bytes % of_file }
        }
        // Nothing fits any more once less than the smallest block is left.
        None if matches!(walk, Walk::Sequential) && (1..=bytes).contains(&least) => {
            let align = mix.natural_align();
            (bytes - least) / align * align + align
        }
        _ => bytes,
    }
}
