//! Finds fio's JSON output in a text, and parses the imported fields.

use iodyno_catalog::Problem;
use iodyno_units::OpKind;
use iodyno_units::text::quoted;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// Maximum number of entries in `jobs` or `client_stats`.
const JOBS_MAX: usize = 4096;
/// Maximum number of operations per job and direction. The sum over [`JOBS_MAX`] jobs fits in 64 bits.
const OPS_MAX: u64 = 1 << 44;
/// Maximum amount of data per job and direction, bytes: 2 PiB. The sum over [`JOBS_MAX`] jobs fits in 64 bits.
const BYTES_MAX: u64 = 1 << 51;
/// Maximum run time, ms: 34 years.
const TIME_MS_MAX: u64 = 1 << 40;
/// Maximum latency, ns: 36 years.
const LATENCY_NS_MAX: u64 = 1 << 60;

/// Maximum number of bins of a latency: fio has 29 groups of 64.
const BINS_MAX: usize = 29 << 6;

/// Options by name. fio omits options that were given without a value.
pub(super) type Options = BTreeMap<String, String>;

/// fio's output with `--output-format=json` or `json+`.
#[derive(Debug, Deserialize)]
pub(super) struct Output {
    #[serde(rename = "fio version")]
    pub(super) version: String,
    /// Time at which fio printed the output, s since 1970.
    #[serde(default)]
    timestamp: u64,
    /// Time at which fio printed the output, ms since 1970; 0 before fio 3.0.
    #[serde(default)]
    timestamp_ms: u64,
    #[serde(rename = "global options", default)]
    pub(super) global: Options,
    #[serde(default)]
    jobs: Vec<Job>,
    /// Jobs of `fio --client`, and the entry `All clients`, their sum.
    #[serde(default)]
    client_stats: Vec<Job>,
    #[serde(default)]
    pub(super) disk_util: Vec<Disk>,
}

/// A block device in fio's `disk_util`.
#[derive(Debug, Deserialize)]
pub(super) struct Disk {
    pub(super) name: String,
}

/// A job. With `group_reporting`, a group of jobs under the name of the first one.
#[derive(Debug, Deserialize)]
pub(super) struct Job {
    /// None for an entry without a job: fio 3.33 adds one if only the last jobs set `group_reporting`.
    jobname: Option<String>,
    #[serde(default)]
    pub(super) groupid: i64,
    /// errno of the error that ended the job or, with `continue_on_error`, of the first failed operation; 0: none.
    #[serde(default)]
    pub(super) error: i32,
    /// Time since the start of fio, s.
    #[serde(default)]
    pub(super) elapsed: u64,
    /// Start of the job, ms since 1970; None before fio 3.34.
    #[serde(rename = "job_start")]
    pub(super) start: Option<u64>,
    #[serde(rename = "job options", default)]
    pub(super) options: Options,
    pub(super) hostname: Option<String>,
    pub(super) read: Option<Direction>,
    pub(super) write: Option<Direction>,
    pub(super) trim: Option<Direction>,
    pub(super) sync: Option<Sync>,
    /// Sum of all directions; only present with `unified_rw_reporting`.
    pub(super) mixed: Option<IgnoredAny>,
    /// Run time, summed over the threads, ms.
    #[serde(rename = "job_runtime", default)]
    pub(super) runtime: u64,
    /// CPU time in user mode, % of `runtime`.
    #[serde(default)]
    pub(super) usr_cpu: f64,
    /// CPU time in the kernel, % of `runtime`.
    #[serde(default)]
    pub(super) sys_cpu: f64,
    /// Number of failed operations; 0 without `continue_on_error`.
    #[serde(default)]
    pub(super) total_err: u64,
}

/// A direction of a job: reads, writes or trims.
#[derive(Debug, Deserialize)]
pub(super) struct Direction {
    pub(super) io_bytes: u64,
    pub(super) total_ios: u64,
    /// Run time, ms.
    pub(super) runtime: u64,
    /// Completion latency: from the end of submission to completion.
    pub(super) clat_ns: Option<Latency>,
    /// Total latency: from before submission to completion.
    pub(super) lat_ns: Option<Latency>,
}

/// Syncs of a job, for example due to `fsync=8`.
#[derive(Debug, Deserialize)]
pub(super) struct Sync {
    pub(super) total_ios: u64,
    pub(super) lat_ns: Option<Latency>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Latency {
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) mean: f64,
    /// Number of recorded latencies; `None`: this version of fio does not print it.
    #[serde(rename = "N")]
    pub(super) count: Option<u64>,
    /// Latency at each percentile, ns; empty without `clat_percentiles` or `lat_percentiles`.
    pub(super) percentile: BTreeMap<String, u64>,
    /// Number of latencies per bin, by the midpoint of the bin, ns; empty without `json+`.
    pub(super) bins: BTreeMap<u64, u64>,
}

/// Whether a text contains fio's JSON.
pub(super) fn is_in(text: &str) -> bool {
    text.contains("\"fio version\"")
}

/// Parses the last complete JSON output in a text, which may contain several (`--status-interval`) or other text
/// (`json,normal`). Also returns remarks.
///
/// # Errors
/// No output is found, or it is damaged or from a fio before 3.0, or a number is out of range.
pub(super) fn last(origin: &str, text: &str) -> Result<(Output, Vec<String>), Problem> {
    let (mut found, mut count, mut from) = (None, 0_u64, 0);
    let mut remarks = Vec::new();
    while let Some(start) = next_object(text, from) {
        let mut objects = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Output>();
        match objects.next() {
            Some(Ok(output)) => (found, count) = (Some(output), count + 1),
            Some(Err(error)) if error.is_eof() && found.is_some() => {
                remarks.push(
                    "the last output in the file is incomplete: the one before it was imported"
                        .to_owned(),
                );
                break;
            }
            Some(Err(error)) => return Err(damaged(origin, text, start, &error)),
            None => break,
        }
        from = start + objects.byte_offset();
    }
    let Some(output) = found else {
        let help = "give the file that `fio --output-format=json+ --output=FILE` wrote";
        return Err(Problem::new(origin, "contains no JSON output of fio").with_help(help));
    };
    if count > 1 {
        remarks.insert(
            0,
            format!("the file holds {count} outputs (--status-interval): the last one, which covers the whole run, was imported"),
        );
    }
    check(origin, &output)?;
    let nameless = output.jobs.iter().filter(|job| job.jobname.is_none()).count();
    if nameless > 0 {
        remarks.push(format!(
            "left out: {nameless} of {} entries, without a job name: fio 3.33 writes them if only the last jobs set group_reporting",
            output.jobs.len()
        ));
    }
    Ok((output, remarks))
}

/// Position of the next line from `from` on that begins with a brace.
fn next_object(text: &str, from: usize) -> Option<usize> {
    let rest = &text[from..];
    let at_start = from == 0 || text[..from].ends_with('\n');
    if at_start && rest.starts_with('{') {
        return Some(from);
    }
    rest.find("\n{").map(|at| from + at + 1)
}

fn damaged(origin: &str, text: &str, start: usize, error: &serde_json::Error) -> Problem {
    let line = text[..start].matches('\n').count() + error.line();
    let words = error.to_string();
    // serde_json appends the position within the object.
    let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words);
    let at = format!("{origin}:{line}:{}", error.column().max(1));
    if error.is_eof() {
        return Problem::new(at, "the JSON is cut short")
            .with_help("give a complete output; a full disk or a killed fio truncates it");
    }
    Problem::new(at, words).with_help("give the unchanged JSON output of fio 3.0 or later")
}

fn check(origin: &str, output: &Output) -> Result<(), Problem> {
    let wrong = |what: String| {
        Problem::new(origin, what).with_help("give the unchanged JSON output of fio 3.0 or later")
    };
    let version = output.version.strip_prefix("fio-").unwrap_or(&output.version);
    let major: Option<u32> = version.split('.').next().and_then(|word| word.parse().ok());
    if let Some(major @ 0..3) = major {
        return Err(wrong(format!("written by fio {major}, whose latencies have other units")));
    }
    if output.jobs.len().max(output.client_stats.len()) > JOBS_MAX {
        return Err(wrong(format!("has more than {JOBS_MAX} jobs")));
    }
    if output.ended_ms() > TIME_MS_MAX << 2 {
        return Err(wrong("the output's timestamp is out of range".to_owned()));
    }
    for job in output.all_jobs() {
        if let Some(what) = out_of_range(job) {
            let name = quoted(job.name(), 60);
            return Err(wrong(format!("`{what}` of job `{name}` is out of range")));
        }
    }
    Ok(())
}

/// Name of the first number that is out of range.
fn out_of_range(job: &Job) -> Option<&'static str> {
    let time_ms = job.runtime.max(job.elapsed.saturating_mul(1000));
    // The sum over the threads.
    if time_ms > TIME_MS_MAX << 12 || job.start > Some(TIME_MS_MAX << 2) {
        return Some("job_runtime");
    }
    if job.total_err > OPS_MAX {
        return Some("total_err");
    }
    if ![job.usr_cpu, job.sys_cpu].iter().all(|share| (0.0..=1e6).contains(share)) {
        return Some("usr_cpu");
    }
    let directions = || [&job.read, &job.write, &job.trim].into_iter().flatten();
    let is_far = |one: &Direction| {
        one.total_ios > OPS_MAX || one.io_bytes > BYTES_MAX || one.runtime > TIME_MS_MAX
    };
    let syncs = job.sync.iter();
    if directions().any(is_far) || syncs.clone().any(|sync| sync.total_ios > OPS_MAX) {
        return Some("total_ios");
    }
    let latencies = directions().flat_map(|one| [&one.clat_ns, &one.lat_ns]);
    let latencies = latencies.chain(syncs.map(|sync| &sync.lat_ns)).flatten();
    let is_far = |of: &Latency| {
        let values = of.percentile.values().chain(of.bins.keys()).chain([&of.min, &of.max]);
        let counted = of.bins.values().fold(0_u64, |sum, n| sum.saturating_add(*n));
        values.max() > Some(&LATENCY_NS_MAX)
            || of.bins.len().max(of.percentile.len()) > BINS_MAX
            || of.count.unwrap_or(0).max(counted) > OPS_MAX
            || of.min > of.max
            || !(0.0..=LATENCY_NS_MAX as f64).contains(&of.mean)
    };
    latencies.into_iter().any(is_far).then_some("lat_ns")
}

impl Job {
    /// Name of the job; empty if the entry has none.
    pub(super) fn name(&self) -> &str {
        self.jobname.as_deref().unwrap_or_default()
    }

    /// Directions (reads, writes, trims) that the output contains, with their kind of operation.
    pub(super) fn directions(&self) -> impl Iterator<Item = (OpKind, &Direction)> {
        let all =
            [(OpKind::Read, &self.read), (OpKind::Write, &self.write), (OpKind::Trim, &self.trim)];
        all.into_iter().filter_map(|(kind, of)| Some((kind, of.as_ref()?)))
    }
}

impl Output {
    /// Jobs in the order of the file, without the entry `All clients` and entries without a name.
    pub(super) fn all_jobs(&self) -> impl Iterator<Item = &Job> + Clone {
        let of_clients = self.client_stats.iter().filter(|job| job.name() != "All clients");
        self.jobs.iter().chain(of_clients).filter(|job| job.jobname.is_some())
    }

    /// Time at which fio printed the output, ms since 1970.
    pub(super) fn ended_ms(&self) -> u64 {
        match self.timestamp_ms {
            0 => self.timestamp.saturating_mul(1000),
            ms => ms,
        }
    }

    /// Value of an option, from the job or else from the global options.
    pub(super) fn option<'a>(&'a self, job: &'a Job, name: &str) -> Option<&'a str> {
        job.options.get(name).or_else(|| self.global.get(name)).map(String::as_str)
    }
}
