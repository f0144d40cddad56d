//! Converts a vdbench workload, at one combination of its run's `for…` lists, to a job.

use super::case::{Case, Limits};
use super::parameters::{Definition, Value};
use super::run::{Reading, find, first};
use crate::fio::Job;
use crate::found::{Made, read_write_mix};
use crate::shared::{DURABLE, SECOND_NS, about};
use iodyno_workload::{
    ActiveRange, ArrivalKind, Block, Content, Draft, Edge, Pattern, Percent, Process,
};
use std::ops::Range;

/// Maximum number of block sizes that a range may contain.
const MAX_SIZES: usize = 64;

fn value_of(definition: &Definition, key: &str) -> Option<Value> {
    find(definition, key).and_then(|parameter| parameter.values.first().cloned())
}

/// Order in which a workload visits addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Walk {
    Random,
    Sequential,
    /// Sequential, ending at the end of the range.
    ToEnd,
    /// Sequential, except that this fraction of the operations jumps to a random address.
    Jumps(Percent),
}

impl Reading<'_, '_> {
    pub(super) fn job(&mut self, case: &Case<'_>) -> Option<Job> {
        let one = *case.storage.first()?;
        let threads = match case.at("threads").or_else(|| value_of(one, "threads")) {
            Some(value) => self.whole(&value)?,
            None => 8,
        };
        let sizes = match case.at("xfersize") {
            Some(value) => vec![Block::new(self.whole(&value)?, 1.0)],
            None => self.sizes(case.workload)?,
        };
        let reads = self.read_percent(case.workload, case.at("rdpct"))?;
        let walk = self.walk(case.workload, case.at("seekpct"))?;
        let (direct, is_durable) = self.open_flags([self.run, case.workload, one]);
        let content = self.content(case)?;
        let lun = find(one, "lun").map(|parameter| first(parameter).to_owned());
        let is_raw = lun.as_ref().is_some_and(|lun| lun.starts_with("/dev/"));
        let largest = sizes.iter().map(|block| block.bytes).max().unwrap_or(4096);
        let skipped_bytes = if is_raw { largest.into() } else { 0 };
        let (active, active_bytes) = self.extent(case.workload, one, skipped_bytes)?;
        let rate_iops = match &case.point.rate {
            None => None,
            Some(value) => Some(self.number(value)? * case.share / case.storage.len() as f64),
        };
        let process = self.process(rate_iops.is_some());
        self.traps(one, direct, reads, is_raw, case.storage.len(), rate_iops.is_some());

        let name = case.name(self.run);
        let mut workload =
            Draft::new(about(&format!("{name} of vdbench's {}", self.found.file.origin)));
        // Sequential operations continue from the previous one of any thread: one worker, with the threads as depth.
        let is_one = matches!(walk, Walk::Jumps(_)) && threads > 1;
        let (workers, depth) = if is_one { (1, threads) } else { (threads, 1) };
        workload.threads(workers);
        workload.depth(depth);
        workload.blocks(sizes.clone());
        if let Some(value) = value_of(one, "align") {
            workload.align(Some(self.whole(&value)?));
        }
        workload.active(active);
        read_write_mix(&mut workload, reads);
        workload.addresses(match walk {
            Walk::Random => Pattern::Uniform { once_per_pass: false },
            Walk::Sequential | Walk::ToEnd => Pattern::Sequential { shared: true, run: None },
            Walk::Jumps(share) => Pattern::Jumps { share },
        });
        if is_durable && reads < 100.0 {
            workload.fua(Percent::ALL);
        }
        if let Some(rate_iops) = rate_iops {
            workload.arrivals(ArrivalKind::Open { rate_iops, process });
        }
        workload.content(content);
        let pass_bytes = active_bytes.map(|bytes| bytes_of_pass(bytes, &sizes));
        workload.limits(self.end(case, one, pass_bytes, walk));
        let engine = (!is_one).then_some("psync");
        let made = Made { name, workload, engine, direct, filename: lun };
        let options = self.options(case, one);
        self.found.job(made, &options, &self.run.span)
    }

    /// For each key of the workload, the position of the parameter that sets it.
    fn options(&self, case: &Case<'_>, storage: &Definition) -> [(&'static str, Range<usize>); 10] {
        let of_list = |key: &str, other| if case.at(key).is_some() { self.run } else { other };
        [
            ("block", of_list("xfersize", case.workload), "xfersize"),
            ("threads", of_list("threads", storage), "threads"),
            ("align", storage, "align"),
            ("active", storage, "size"),
            ("mix", case.workload, "rdpct"),
            ("addresses", case.workload, "seekpct"),
            ("arrivals.rate", self.run, "iorate"),
            ("limits.time", self.run, "elapsed"),
            ("limits.ramp", self.run, "warmup"),
            ("limits.bytes", self.run, "maxdata"),
        ]
        .map(|(key, definition, parameter)| {
            let span = find(definition, parameter).map_or(&definition.span, |p| &p.span);
            (key, span.clone())
        })
    }

    fn content(&mut self, case: &Case<'_>) -> Option<Content> {
        let ratio = match case.at("compratio") {
            Some(value) => self.number(&value)?,
            None => self.general.compression,
        };
        Some(if self.general.validate {
            Content::Verifiable
        } else if ratio > 1.0 {
            let compressible = Percent::from_fraction(1.0 - 1.0 / ratio);
            Content::Compressible { compressible, dedupable: Percent::ZERO }
        } else {
            Content::Incompressible
        })
    }

    /// Limits of the workload. With [`Walk::ToEnd`], the workload also ends after `pass_bytes`, ramp included.
    fn end(
        &mut self,
        case: &Case<'_>,
        storage: &Definition,
        pass_bytes: Option<u64>,
        walk: Walk,
    ) -> iodyno_workload::Limits {
        let to_end = pass_bytes.filter(|_| walk == Walk::ToEnd);
        if walk == Walk::ToEnd && to_end.is_none() {
            let words =
                format!("the size of `{}` is not known, but `seekpct=eof` needs it", storage.name);
            let help = "give the storage its size, such as `size=10g`";
            self.found.refuse(&storage.span, words, help);
        }
        let Limits { ramp_s, time_s, bytes } = case.limits;
        let ramp_counts =
            ramp_s > 0 && to_end.is_some_and(|end| bytes.is_none_or(|max| end <= max));
        if ramp_counts {
            self.found.note(&self.run.span, "the warm-up's I/O counts towards the end of the storage; if the warm-up alone reaches it, it begins again, and a whole pass is measured");
        }
        iodyno_workload::Limits {
            ramp_ns: ramp_s.saturating_mul(SECOND_NS),
            time_ns: Some(time_s.saturating_mul(SECOND_NS)),
            ramp_counts,
            bytes: [bytes, to_end].into_iter().flatten().min(),
            ..iodyno_workload::Limits::UNLIMITED
        }
    }

    /// Parses `xfersize`: a single size, sizes with percentages, or a range of sizes with a step.
    fn sizes(&mut self, workload: &Definition) -> Option<Vec<Block>> {
        let Some(parameter) = find(workload, "xfersize") else {
            return Some(vec![Block::new(4096, 1.0)]);
        };
        let mut numbers = Vec::new();
        for value in &parameter.values {
            numbers.push(self.whole(value)?);
        }
        match numbers.as_slice() {
            [bytes] => Some(vec![Block::new(*bytes, 1.0)]),
            [least, most, step] => {
                let count = most.saturating_sub(*least) / (*step).max(1) + 1;
                if *step == 0 || least > most || count > MAX_SIZES as u64 {
                    let words = format!(
                        "a range must ascend by a step above 0 and have at most {MAX_SIZES} sizes"
                    );
                    self.found.refuse(&parameter.span, words, "give sizes with their shares");
                    return None;
                }
                Some((0..count).map(|i| Block::new(least + i * step, 1.0)).collect())
            }
            pairs if pairs.len() % 2 == 0 => {
                let all = pairs.chunks(2).map(|pair| Block::new(pair[0], pair[1] as f64));
                let sum: f64 = all.clone().map(|block| block.share).sum();
                if (sum - 100.0).abs() > 0.001 {
                    let words = format!("the shares of the sizes add up to {sum} %, not to 100 %");
                    self.found.refuse(&parameter.span, words, "");
                    return None;
                }
                Some(all.filter(|block| block.share > 0.0).collect())
            }
            _ => {
                let words = "this is not a list of sizes with their shares";
                self.found.refuse(&parameter.span, words, "use the form (4k,60,8k,40)");
                None
            }
        }
    }

    fn read_percent(&mut self, workload: &Definition, of_point: Option<Value>) -> Option<f64> {
        let of = |key: &str| find(workload, key).and_then(|p| p.values.first().cloned());
        let (value, is_write) =
            match (of_point, of("rdpct").or(of("readpct")), of("wrpct").or(of("writepct"))) {
                (Some(value), ..) | (None, Some(value), _) => (value, false),
                (None, None, Some(value)) => (value, true),
                (None, None, None) => return Some(100.0),
            };
        let percent = self.number(&value)?;
        if !(0.0..=100.0).contains(&percent) {
            let words = format!("`{}` is not a percentage from 0 to 100", value.text);
            self.found.refuse(&value.span, words, "");
            return None;
        }
        Some(if is_write { 100.0 - percent } else { percent })
    }

    fn walk(&mut self, workload: &Definition, of_point: Option<Value>) -> Option<Walk> {
        let own = find(workload, "seekpct").and_then(|p| p.values.first().cloned());
        let Some(value) = of_point.or(own) else { return Some(Walk::Random) };
        match value.text.to_ascii_lowercase().as_str() {
            "random" | "rand" | "ran" => Some(Walk::Random),
            "seq" | "sequential" => Some(Walk::Sequential),
            "-1" | "eof" => Some(Walk::ToEnd),
            text => match text.parse::<f64>() {
                Ok(0.0) => Some(Walk::Sequential),
                Ok(100.0) => Some(Walk::Random),
                Ok(percent) if percent > 0.0 && percent < 100.0 => {
                    let words = "the threads become one worker with the same number of I/Os in flight: a sequential I/O follows the previous one, whichever thread issued it";
                    self.found.note(&value.span, words);
                    Some(Walk::Jumps(Percent::from_fraction(percent / 100.0)))
                }
                _ => {
                    let words = format!("`seekpct={}` can't be honoured", value.text);
                    let help = "give a percentage, random, sequential or eof";
                    self.found.refuse(&value.span, words, help);
                    None
                }
            },
        }
    }

    /// Whether the page cache is bypassed, and whether writes are durable. Flags of the run override those of the
    /// workload, which override those of the storage definition.
    fn open_flags(&mut self, definitions: [&Definition; 3]) -> (bool, bool) {
        let (mut direct, mut durable) = (false, false);
        let Some(parameter) = definitions.into_iter().find_map(|d| find(d, "openflags")) else {
            return (false, false);
        };
        for value in &parameter.values {
            match value.text.to_ascii_lowercase().as_str() {
                "o_direct" | "directio" => direct = true,
                "o_sync" | "o_dsync" | "o_rsync" => {
                    durable = true;
                    self.found.note(&value.span, DURABLE);
                }
                "fsync" => {
                    self.found.note(&value.span, "iodyno does not flush a file when it is closed");
                }
                "directio_off" | "clear_cache" | "clearcache" => {
                    self.found.note(&value.span, "a flag of Solaris, without effect");
                }
                _ => {
                    let words = format!("`{}` can't be honoured", value.text);
                    self.found.refuse(&value.span, words, "give o_direct, o_sync or o_dsync");
                }
            }
        }
        (direct, durable)
    }

    /// The active range, and its length in bytes (None if unknown). It begins at least `skipped_bytes` after the
    /// start of the storage. Returns None if a parameter is refused.
    fn extent(
        &mut self,
        workload: &Definition,
        storage: &Definition,
        skipped_bytes: u64,
    ) -> Option<(ActiveRange, Option<u64>)> {
        let size = match value_of(storage, "size") {
            Some(value) => Some(self.whole(&value)?),
            None => None,
        };
        let in_bytes = |start: u64, end: u64| {
            let start = start.max(skipped_bytes);
            let active = ActiveRange::between(Edge::Bytes(start), Edge::Bytes(end));
            Some((active, Some(end.saturating_sub(start))))
        };
        let share = |percent: f64| Edge::Share(Percent::from_fraction(percent / 100.0));
        let Some(parameter) = find(workload, "range").or_else(|| find(storage, "range")) else {
            return match size {
                Some(bytes) => in_bytes(0, bytes),
                None => {
                    Some((ActiveRange::between(Edge::Bytes(skipped_bytes), share(100.0)), None))
                }
            };
        };
        let [from, to] = parameter.values.as_slice() else {
            self.found.refuse(&parameter.span, "a range needs a start and an end", "");
            return None;
        };
        let (from, to) = (self.number(from)?, self.number(to)?);
        if from > 200.0 || to > 200.0 {
            return in_bytes(from.max(0.0) as u64, to.max(0.0) as u64);
        }
        if !(0.0..=100.0).contains(&from) || !(0.0..=100.0).contains(&to) {
            let words = "a range that crosses the end of the storage can't be honoured";
            self.found.refuse(&parameter.span, words, "give percentages from 0 to 100, or bytes");
            return None;
        }
        if let Some(size) = size {
            let at = |percent: f64| (size as f64 * percent / 100.0) as u64;
            return in_bytes(at(from), at(to));
        }
        let skips = from == 0.0 && skipped_bytes > 0;
        let start = if skips { Edge::Bytes(skipped_bytes) } else { share(from) };
        Some((ActiveRange::between(start, share(to)), None))
    }

    fn process(&mut self, is_open: bool) -> Process {
        let Some(value) = find(self.run, "distribution").and_then(|p| p.values.first()) else {
            return Process::Poisson;
        };
        let is = |word: &str| !value.text.is_empty() && word.starts_with(value.text.as_str());
        if is("exponential") || is("deterministic") {
            if !is_open {
                self.found.note(&value.span, "no effect without a rate");
            }
            return if is("deterministic") { Process::Constant } else { Process::Poisson };
        }
        let words = format!("the distribution `{}` can't be honoured", value.text);
        self.found.refuse(&value.span, words, "give exponential or deterministic");
        Process::Poisson
    }

    /// Adds notes and warnings where vdbench and iodyno differ, or where the job might not measure the device.
    fn traps(
        &mut self,
        storage: &Definition,
        direct: bool,
        reads: f64,
        is_raw: bool,
        targets: usize,
        is_open: bool,
    ) {
        let run = self.run;
        if targets > 1 {
            let words = format!(
                "{targets} targets, each with its own threads: give one --on per target; a rate is divided evenly"
            );
            self.found.note(&run.span, words);
        }
        if is_raw {
            let words =
                "vdbench never touches the first block of a raw device; the range begins after it";
            self.found.note(&storage.span, words);
        }
        if !direct {
            let words = "without openflags=o_direct I/O is buffered, and measures the page cache";
            self.found.judged_trap(&storage.span, words);
        }
        if reads > 0.0 {
            let words = "reads of blocks that were never written might not reach the medium: vdbench first writes a new file; iodyno does so with --fill";
            self.found.judged_trap(&storage.span, words);
        }
        if is_open {
            let words = "vdbench's response time begins when a thread takes the I/O from its queue, like iodyno's service time; iodyno's response time includes the wait in the queue";
            self.found.trap(&run.span, words);
        }
        if reads < 100.0 && self.general.compression <= 1.0 && !self.general.validate {
            let words = "vdbench writes the same buffer over and over: a device that deduplicates might not store it; iodyno's blocks are all different";
            self.found.trap(&run.span, words);
        }
    }
}

/// Bytes of one sequential pass over `bytes` bytes: each operation, whatever its size, takes the place of a block of the
/// largest size.
fn bytes_of_pass(bytes: u64, sizes: &[Block]) -> u64 {
    let largest = sizes.iter().map(|block| u64::from(block.bytes)).max().unwrap_or(1).max(1);
    let shares: f64 = sizes.iter().map(|block| block.share).sum();
    let sum: f64 = sizes.iter().map(|block| f64::from(block.bytes) * block.share).sum();
    ((bytes / largest) as f64 * (sum / shares)).round().max(1.0) as u64
}
