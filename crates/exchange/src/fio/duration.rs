//! When a job issues its operations, on which part of a target, and when it ends.

use super::Refusal;
use super::number::{count, size_text, time_text};
use super::reading::{KINDS, Reading, Walk};
use std::fmt::Write as _;

/// A part of a target, as an option gives it.
#[derive(Clone, Copy, PartialEq)]
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
        depth: u64,
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
        if let Some(opt) = self.opt("thinktime").filter(|_| think_ns > 0) {
            if by.is_some() {
                self.refuse(opt, "a rate has no think time", "remove thinktime, or the rate");
            } else if depth > 1 || blocks_before != 1 {
                let words = "a think time after several operations can't be honoured";
                let help =
                    "use iodepth=1 and thinktime_blocks=1, or `think_time` in a workload file";
                self.refuse(opt, words, help);
            }
            let text = format!(
                "\n[arrivals]\nkind = \"closed\"\nthink_time = \"{}\"\n",
                time_text(think_ns)
            );
            return (mix, text);
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

    /// The active range and the limits.
    pub(super) fn extent(
        &mut self,
        threads: u64,
        walk: &Walk,
        mix: &[(&str, f64)],
    ) -> (String, String) {
        let filesize = self.extent_of("filesize");
        let size = self.extent_of("size").or(filesize).filter(|size| *size != Extent::Bytes(0));
        let offset = self.extent_of("offset").unwrap_or(Extent::Bytes(0));
        let step = self.count("offset_increment").unwrap_or(0);
        let is_shared = self.opt("filename").is_some();
        if let Some((value, opt)) = self.text("filename")
            && value.replace("\\:", "").contains(':')
        {
            let words = "a job that goes over several files can't be honoured: each target has workers of its own";
            self.refuse(opt, words, "write a job for each file, or give one --on");
        }
        let mut clones = threads;
        if threads > 1 && is_shared {
            let place = self.opt("filename").map(|opt| opt.place.clone());
            match size {
                Some(Extent::Bytes(size)) if step == size => {}
                _ if step > 0 => {
                    if let Some(opt) = self.opt("offset_increment") {
                        let help = "give size the same value, so that the clones lie side by side";
                        self.refuse(
                            opt,
                            "clones with parts that overlap, or have gaps, can't be honoured",
                            help,
                        );
                    }
                }
                _ => {
                    clones = 1;
                    if let (Walk::Sequential, Some(place)) = (walk, place) {
                        let words = "the clones of a sequential job would all walk the same blocks; iodyno's workers begin apart";
                        let help = "remove filename, or set offset_increment to the value of size";
                        self.refused.push(Refusal::new(place, words, help));
                    }
                }
            }
        }
        if let (Some(Extent::Bytes(each)), Some(opt)) =
            (size, self.opt("size").or(self.opt("filesize")))
            && clones > 1
        {
            let words = format!(
                "size is that of each clone: {} in all for numjobs={threads}",
                size_text(each.saturating_mul(clones))
            );
            self.trap(&opt.place, words);
        }
        let times = |size: Extent| match size {
            Extent::Bytes(bytes) => Extent::Bytes(bytes.saturating_mul(clones)),
            Extent::Percent(percent) => Extent::Percent(percent),
        };
        let (start, end) = match (offset, size.map(times)) {
            (Extent::Bytes(start), Some(Extent::Bytes(size))) => {
                (size_text(start), size_text(start.saturating_add(size)))
            }
            (Extent::Percent(start), Some(Extent::Percent(size))) => {
                (format!("{start}%"), format!("{}%", (start + size).min(100)))
            }
            (Extent::Bytes(0), Some(Extent::Percent(size))) => {
                ("0%".to_owned(), format!("{size}%"))
            }
            (Extent::Bytes(start), None) => (size_text(start), "100%".to_owned()),
            (Extent::Percent(start), None) => (format!("{start}%"), "100%".to_owned()),
            (_, Some(_)) => {
                if let Some(opt) = self.opt("offset") {
                    let words = "offset and size are in different units";
                    self.refuse(opt, words, "give both in bytes, or both as percentages");
                }
                ("0%".to_owned(), "100%".to_owned())
            }
        };
        let limits = self.limits(size, threads, mix);
        (format!("active = \"{start}..{end}\""), limits)
    }

    fn limits(&mut self, size: Option<Extent>, threads: u64, mix: &[(&str, f64)]) -> String {
        let second = 1_000_000_000;
        let ramp_ns = self.time("ramp_time", second).unwrap_or(0);
        let runtime_ns = self.time("runtime", second).filter(|ns| *ns > 0);
        let loops = self.count("loops").unwrap_or(1).max(1);
        let mut limits = format!("ramp = \"{}\"\n", time_text(ramp_ns));
        if let Some(ns) = runtime_ns {
            let _ = writeln!(limits, "time = \"{}\"", time_text(ns));
        }
        if let Some(ops) = self.count("number_ios") {
            let _ = writeln!(limits, "ops = {}", ops.saturating_mul(threads));
        }
        if self.flag("time_based") {
            if runtime_ns.is_none()
                && let Some(opt) = self.opt("time_based")
            {
                self.refuse(opt, "`time_based` needs a runtime", "add runtime=30s");
            }
            return limits;
        }
        let moved = match self.extent_of("io_size").or(size) {
            Some(Extent::Bytes(bytes)) => Some(bytes.saturating_mul(threads).saturating_mul(loops)),
            _ => None,
        };
        let trims = mix.iter().any(|(kind, _)| *kind == "trim");
        match moved {
            Some(bytes) if !trims => {
                let _ = writeln!(limits, "bytes = \"{}\"", size_text(bytes));
            }
            _ if runtime_ns.is_some() => {
                if let Some(opt) = self.opt("runtime") {
                    self.note(opt, "the job ends by time alone, as with time_based");
                }
            }
            _ => {
                let words = format!(
                    "`{}` ends after one pass over its target, whose size is not known here",
                    self.section.name
                );
                let help = "add `runtime=30s` and `time_based`, or a size in bytes";
                self.refused.push(Refusal::new(self.section.place.clone(), words, help));
            }
        }
        limits
    }
}
