//! Converts one of vdbench's workloads, its storage and one combination of its run's lists to a job.

use super::parameters::{Definition, Value};
use super::points::Point;
use super::run::{Limits, Reading, find, first};
use crate::fio::Job;
use crate::found::{name, quoted};
use crate::size_text::size_text;
use std::fmt::Write as _;
use std::ops::Range;

/// Maximum number of block sizes to which a range expands.
const MAX_SIZES: usize = 64;

/// Block sizes in bytes, with their shares.
type Sizes = Vec<(u64, f64)>;

/// Order of addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Walk {
    Random,
    Sequential,
    /// Sequential, once to the end.
    ToEnd,
    /// Percentage of the operations that jump to a random address; the others are sequential.
    Jumps(f64),
}

impl Reading<'_, '_> {
    pub(super) fn job(
        &mut self,
        workload: &Definition,
        alone: bool,
        storage: &[&Definition],
        point: &Point,
        share: f64,
        limits: Limits,
    ) -> Option<Job> {
        let one = *storage.first()?;
        let run = self.run;
        let of_point = |key: &str| point.at.iter().find(|(k, _)| *k == key).map(|(_, v)| v.clone());
        let value_of = |definition: &Definition, key: &str| {
            find(definition, key).and_then(|parameter| parameter.values.first().cloned())
        };

        let threads = of_point("threads").or_else(|| value_of(one, "threads"));
        let threads = match &threads {
            Some(value) => self.whole(value)?,
            None => 8,
        };
        let sizes = match of_point("xfersize") {
            Some(value) => vec![(self.whole(&value)?, 1.0)],
            None => self.sizes(workload)?,
        };
        let reads = self.read_percent(workload, of_point("rdpct"))?;
        let walk = self.walk(workload, of_point("seekpct"))?;
        let (direct, is_durable) = self.open_flags([run, workload, one]);
        let compression = match of_point("compratio") {
            Some(value) => self.number(&value)?,
            None => self.general.compression,
        };
        let lun = find(one, "lun").map(|parameter| first(parameter).to_owned());
        let largest = sizes.iter().map(|(bytes, _)| *bytes).max().unwrap_or(4096);
        let is_raw = lun.as_ref().is_some_and(|lun| lun.starts_with("/dev/"));
        let (start, end, bytes) = self.extent(workload, one, if is_raw { largest } else { 0 })?;
        let rate = match &point.rate {
            None => None,
            Some(value) => Some(self.number(value)? * share / storage.len() as f64),
        };
        let process = self.process(rate.is_some());
        self.traps(one, direct, reads, is_raw, storage.len(), rate.is_some());

        let points =
            point.at.iter().map(|(_, value)| &value.text).chain(point.rate.iter().map(|v| &v.text));
        let mut title = run.name.clone();
        for part in points.chain((!alone).then_some(&workload.name)) {
            let _ = write!(title, "-{part}");
        }
        let title = name(&title);
        let mut toml = String::from("schema = 1\n");
        let about = format!("{title} of vdbench's {}", self.found.file.origin);
        let _ = writeln!(toml, "about = {}", quoted(&about));
        // Sequential operations continue from the previous one of any thread: one worker, with the threads as depth.
        let is_one = matches!(walk, Walk::Jumps(_)) && threads > 1;
        let (workers, depth) = if is_one { (1, threads) } else { (threads, 1) };
        let _ = writeln!(toml, "threads = {workers}\ndepth = {depth}");
        let _ = writeln!(toml, "block = {}", list(&sizes));
        if let Some(value) = value_of(one, "align") {
            let align = self.whole(&value)?;
            let _ = writeln!(toml, "align = \"{}\"", size_text(align));
        }
        let _ = writeln!(toml, "active = \"{start}..{end}\"");
        let shares = [("read", reads), ("write", 100.0 - reads)];
        let shares = shares.iter().filter(|(_, share)| *share > 0.0);
        let shares: Vec<_> = shares.map(|(kind, share)| format!("{kind} = {share}")).collect();
        let _ = writeln!(toml, "mix = {{ {} }}", shares.join(", "));
        let addresses = match walk {
            Walk::Random => "\"uniform\"".to_owned(),
            Walk::Sequential | Walk::ToEnd => {
                "{ pattern = \"sequential\", shared = true }".to_owned()
            }
            Walk::Jumps(percent) => {
                format!("{{ pattern = \"sequential\", jump = \"{percent:.4}%\" }}")
            }
        };
        let _ = write!(toml, "\n[all]\naddresses = {addresses}\n");
        if is_durable && reads < 100.0 {
            toml.push_str("\n[write]\nfua = \"100%\"\n");
        }
        if let Some(rate) = rate {
            let _ = write!(
                toml,
                "\n[arrivals]\nkind = \"open\"\nrate = {rate}\nprocess = \"{process}\"\n"
            );
        }
        if self.general.validate {
            toml.push_str("\n[content]\nkind = \"verifiable\"\n");
        } else if compression > 1.0 {
            let percent = (100.0 - 100.0 / compression).clamp(0.0, 100.0);
            let _ = write!(
                toml,
                "\n[content]\nkind = \"compressible\"\ncompressible = \"{percent:.4}%\"\n"
            );
        }
        let Limits { ramp_s, time_s, bytes: most } = limits;
        let _ = write!(toml, "\n[limits]\nramp = \"{ramp_s}s\"\ntime = \"{time_s}s\"\n");
        let to_end = bytes.filter(|_| walk == Walk::ToEnd);
        if walk == Walk::ToEnd && to_end.is_none() {
            let words =
                format!("the size of `{}` is not known, but `seekpct=eof` needs it", one.name);
            let help = "give the storage its size, such as `size=10g`";
            self.found.refuse(&one.span, words, help);
        }
        if let Some(bytes) = [most, to_end].into_iter().flatten().min() {
            let _ = writeln!(toml, "bytes = \"{}\"", size_text(bytes));
        }

        let place = |definition: &Definition, key: &str| -> Range<usize> {
            find(definition, key).map_or_else(|| definition.span.clone(), |p| p.span.clone())
        };
        let (of_run, of_workload) = (place(run, "xfersize"), place(workload, "xfersize"));
        let sizes_at = if of_point("xfersize").is_some() { of_run } else { of_workload };
        let threads_at = if of_point("threads").is_some() { run } else { one };
        let place_of = |key: &str| match key {
            "block" => sizes_at.clone(),
            "threads" => place(threads_at, "threads"),
            "align" => place(one, "align"),
            "active" => place(one, "size"),
            "mix" => place(workload, "rdpct"),
            "addresses" => place(workload, "seekpct"),
            "rate" => place(run, "iorate"),
            "time" => place(run, "elapsed"),
            "ramp" => place(run, "warmup"),
            "bytes" => place(run, "maxdata"),
            _ => run.span.clone(),
        };
        let spec = self.found.spec(&toml, place_of)?;
        let notes = self.found.notes.clone();
        let traps = self.found.traps.clone();
        Some(Job {
            name: title,
            toml,
            spec,
            engine: (!is_one).then_some("psync"),
            direct,
            uncached: false,
            drop_cache: None,
            filename: lun,
            file: None,
            notes,
            traps,
            check: None,
        })
    }

    /// `xfersize`: one size, sizes with their shares, or a range of sizes with a step.
    fn sizes(&mut self, workload: &Definition) -> Option<Sizes> {
        let Some(parameter) = find(workload, "xfersize") else { return Some(vec![(4096, 1.0)]) };
        let mut numbers = Vec::new();
        for value in &parameter.values {
            numbers.push(self.whole(value)?);
        }
        match numbers.as_slice() {
            [bytes] => Some(vec![(*bytes, 1.0)]),
            [least, most, step] => {
                let count = most.saturating_sub(*least) / (*step).max(1) + 1;
                if *step == 0 || least > most || count > MAX_SIZES as u64 {
                    let words = format!(
                        "a range must ascend by a step above 0 and have at most {MAX_SIZES} sizes"
                    );
                    self.found.refuse(&parameter.span, words, "write sizes with their shares");
                    return None;
                }
                Some((0..count).map(|i| (least + i * step, 1.0)).collect())
            }
            pairs if pairs.len() % 2 == 0 => {
                let all: Sizes = pairs.chunks(2).map(|pair| (pair[0], pair[1] as f64)).collect();
                let sum: f64 = all.iter().map(|(_, share)| share).sum();
                if (sum - 100.0).abs() > 0.001 {
                    let words = format!("the shares of the sizes add up to {sum} %, not to 100 %");
                    self.found.refuse(&parameter.span, words, "");
                    return None;
                }
                Some(all.into_iter().filter(|(_, share)| *share > 0.0).collect())
            }
            _ => {
                let words = "this is not a list of sizes with their shares";
                self.found.refuse(&parameter.span, words, "write it as (4k,60,8k,40)");
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
                // A workload keeps four decimals.
                Ok(percent) if (0.0001..100.0).contains(&percent) => {
                    let words = "the threads become one worker with as many I/Os in flight: a sequential I/O follows the previous one, whichever thread issued it";
                    self.found.note(&value.span, words);
                    Some(Walk::Jumps(percent))
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
    /// workload, which override those of the storage.
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
                    let words =
                        "each write is durable when it completes (RWF_DSYNC, FUA), as with O_DSYNC";
                    self.found.note(&value.span, words);
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

    /// Start and end of the active range in the syntax of workload files, and its length in bytes; None if unknown. The
    /// range begins after `skipped_bytes` of the storage.
    fn extent(
        &mut self,
        workload: &Definition,
        storage: &Definition,
        skipped_bytes: u64,
    ) -> Option<(String, String, Option<u64>)> {
        let size = match find(storage, "size").and_then(|p| p.values.first()) {
            Some(value) => Some(self.whole(value)?),
            None => None,
        };
        let whole = |size: Option<u64>| {
            let end = size.map_or_else(|| "100%".to_owned(), size_text);
            let length = size.map(|size| size.saturating_sub(skipped_bytes));
            (size_text(skipped_bytes), end, length)
        };
        let Some(parameter) = find(workload, "range").or_else(|| find(storage, "range")) else {
            return Some(whole(size));
        };
        let [from, to] = parameter.values.as_slice() else {
            self.found.refuse(&parameter.span, "a range needs a start and an end", "");
            return None;
        };
        let (from, to) = (self.number(from)?, self.number(to)?);
        if from > 200.0 || to > 200.0 {
            let (start, end) = (from.max(0.0) as u64, to.max(0.0) as u64);
            let length = end.saturating_sub(start.max(skipped_bytes));
            return Some((size_text(start.max(skipped_bytes)), size_text(end), Some(length)));
        }
        if !(0.0..=100.0).contains(&from) || !(0.0..=100.0).contains(&to) {
            let words = "a range that crosses the end of the storage can't be honoured";
            self.found.refuse(&parameter.span, words, "give percentages from 0 to 100, or bytes");
            return None;
        }
        match size {
            Some(size) => {
                let at = |percent: f64| (size as f64 * percent / 100.0) as u64;
                let (start, end) = (at(from).max(skipped_bytes), at(to));
                Some((size_text(start), size_text(end), Some(end.saturating_sub(start))))
            }
            None if from == 0.0 && skipped_bytes > 0 => {
                Some((size_text(skipped_bytes), format!("{to}%"), None))
            }
            None => Some((format!("{from}%"), format!("{to}%"), None)),
        }
    }

    fn process(&mut self, is_open: bool) -> &'static str {
        let Some(value) = find(self.run, "distribution").and_then(|p| p.values.first()) else {
            return "poisson";
        };
        let is = |word: &str| !value.text.is_empty() && word.starts_with(value.text.as_str());
        if is("exponential") || is("deterministic") {
            if !is_open {
                self.found.note(&value.span, "no effect without a rate");
            }
            return if is("deterministic") { "constant" } else { "poisson" };
        }
        let words = format!("the distribution `{}` can't be honoured", value.text);
        self.found.refuse(&value.span, words, "give exponential or deterministic");
        "poisson"
    }

    /// Adds notes and warnings about the run.
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
            let words = "reads of blocks that were never written may not touch the medium: vdbench writes a new file first, iodyno does with --fill";
            self.found.judged_trap(&storage.span, words);
        }
        if is_open {
            let words = "vdbench's response time begins when a thread takes the I/O from its queue, like iodyno's service time; iodyno's response time includes the wait in the queue";
            self.found.trap(&run.span, words);
        }
        if reads < 100.0 && self.general.compression <= 1.0 && !self.general.validate {
            let words = "vdbench writes the same buffer over and over: a device that deduplicates may not store it; iodyno's blocks are all different";
            self.found.trap(&run.span, words);
        }
    }
}

/// Formats sizes in the syntax of workload files.
fn list(sizes: &[(u64, f64)]) -> String {
    if let [(bytes, _)] = sizes {
        return format!("\"{}\"", size_text(*bytes));
    }
    let all = sizes
        .iter()
        .map(|(bytes, share)| format!("{{ size = \"{}\", share = {share} }}", size_text(*bytes)));
    format!("[{}]", all.collect::<Vec<_>>().join(", "))
}
