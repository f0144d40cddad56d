//! Parses fio's log files (`write_lat_log`, `write_iops_log`, `write_bw_log`, `write_hist_log`). Sources: "Log File
//! Formats" in fio's `HOWTO.rst`; `flush_samples` and `flush_hist_samples` in fio's `iolog.c`.

use iodyno_catalog::Problem;
use iodyno_units::OpKind;
use std::path::Path;

/// Maximum time of a row, ms. Times count from 1970 with `log_unix_epoch`.
const TIME_MS_MAX: u64 = 1 << 42;

#[derive(Clone, Debug)]
pub struct LogFile {
    /// Path of the file. The file name, such as `NAME_clat.1.log`, determines the kind of log and the job.
    pub origin: String,
    /// Unparsed contents of the file.
    pub text: String,
}

/// Kind of a log, according to its file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogKind {
    CompletionLatency,
    TotalLatency,
    SubmissionLatency,
    Histogram,
    Iops,
    Bandwidth,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    /// Number of the line, from 1.
    pub(super) line: usize,
    /// End of the row's window, or completion of its I/O, ms since the start of the job.
    pub(super) time_ms: u64,
    pub(super) kind: OpKind,
    /// Latency in ns, I/Os per second or KiB/s; 0 in a histogram log.
    pub(super) value: u64,
    /// Block size, bytes; 0: the row is the average of a window.
    pub(super) block_bytes: u64,
    /// Counts of a histogram log, separated by commas; empty for other logs.
    pub(super) counts: &'a str,
}

impl LogFile {
    /// Kind of the log and number of its job, from 1 (None: all jobs). For example, `name_clat.1.log` has the
    /// completion latencies of job 1.
    ///
    /// # Errors
    /// The file name is not one of fio's.
    pub(super) fn kind(&self) -> Result<(LogKind, Option<u32>), Problem> {
        let name = Path::new(&self.origin).file_name().map(|name| name.to_string_lossy());
        let name = name.unwrap_or_default();
        let known = || {
            let stem = name.strip_suffix(".log")?;
            let (stem, number) = match stem.rsplit_once('.') {
                Some((stem, number)) if number.bytes().all(|b| b.is_ascii_digit()) => {
                    (stem, Some(number.parse().ok()?))
                }
                _ => (stem, None),
            };
            let kinds = [
                ("_clat_hist", LogKind::Histogram),
                ("_clat", LogKind::CompletionLatency),
                ("_slat", LogKind::SubmissionLatency),
                ("_lat", LogKind::TotalLatency),
                ("_iops", LogKind::Iops),
                ("_bw", LogKind::Bandwidth),
            ];
            let kind = kinds.into_iter().find(|(end, _)| stem.ends_with(end))?.1;
            Some((kind, number))
        };
        known().ok_or_else(|| {
            Problem::new(&self.origin, "this is not the file name of a fio log")
                .with_help("keep the name that fio gave the log, such as `NAME_clat.1.log`: it tells the kind of log and the job")
        })
    }

    /// Rows of a log of the given kind, in the order of the file. `has_maxima`: fio wrote the maximum of each window
    /// after the average (`log_window_value=both`).
    pub(super) fn rows(
        &self,
        kind: LogKind,
        has_maxima: bool,
    ) -> impl Iterator<Item = Result<Row<'_>, Problem>> {
        let lines = self.text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines.map(move |(at, line)| {
            let row = match kind {
                LogKind::Histogram => histogram_row(line),
                _ => value_row(line, has_maxima),
            };
            let row = row.filter(|row| row.time_ms <= TIME_MS_MAX);
            row.map(|row| Row { line: at + 1, ..row }).ok_or_else(|| {
                let form = match kind {
                    LogKind::Histogram => "time, direction, block size, counts",
                    _ => "time, value, direction, block size",
                };
                self.wrong(at + 1, format!("not a row of a fio log: a row begins `{form}`"))
                    .with_help("give the unchanged log; if fio was killed, the last row may be incomplete: remove it")
            })
        })
    }

    /// Creates an error for a line of the file.
    pub(super) fn wrong(&self, line: usize, message: impl Into<String>) -> Problem {
        Problem::new(format!("{}:{line}", self.origin), message)
    }
}

/// Parses the next field of a row, and removes it.
fn number(rest: &mut &str) -> Option<u64> {
    let (field, tail) = rest.split_once(',').unwrap_or((rest, ""));
    *rest = tail;
    field.trim().parse().ok()
}

fn direction(number: u64) -> Option<OpKind> {
    [OpKind::Read, OpKind::Write, OpKind::Trim].get(usize::try_from(number).ok()?).copied()
}

fn value_row(line: &str, has_maximum: bool) -> Option<Row<'_>> {
    let mut rest = line;
    let (time_ms, value) = (number(&mut rest)?, number(&mut rest)?);
    if has_maximum {
        number(&mut rest)?;
    }
    let kind = direction(number(&mut rest)?)?;
    let block_bytes = number(&mut rest)?;
    Some(Row { line: 0, time_ms, kind, value, block_bytes, counts: "" })
}

fn histogram_row(line: &str) -> Option<Row<'_>> {
    let mut rest = line;
    let time_ms = number(&mut rest)?;
    let kind = direction(number(&mut rest)?)?;
    let block_bytes = number(&mut rest)?;
    Some(Row { line: 0, time_ms, kind, value: 0, block_bytes, counts: rest })
}

/// Number of bins per row of a histogram log at full resolution (without `log_hist_coarseness`): 29 groups of 64.
const BINS: usize = 29 << 6;

/// Latencies of a row of a histogram log: midpoints of the bins in ns, each with its count. None if a count is not a
/// number, or the number of bins is wrong (`log_hist_coarseness`).
pub(super) fn bins(counts: &str) -> Option<Vec<(u64, u64)>> {
    let mut values = Vec::new();
    let mut bins = 0;
    for (bin, count) in counts.split(',').enumerate() {
        let count: u64 = count.trim().parse().ok().filter(|n| *n < 1 << 44)?;
        bins = bin + 1;
        if count > 0 && bin < BINS {
            values.push((middle_ns(bin as u64), count));
        }
    }
    (bins == BINS).then_some(values)
}

/// Midpoint of a fio bin, ns (`plat_idx_to_val` in `stat.c`).
fn middle_ns(bin: u64) -> u64 {
    if bin < 128 {
        return bin;
    }
    let shift = bin / 64 - 1;
    let low = (64 + bin % 64) << shift;
    low + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_kind_and_the_job() {
        let kind = |origin: &str| LogFile { origin: origin.to_owned(), text: String::new() }.kind();
        for (name, expected) in [
            ("a_clat.12.log", (LogKind::CompletionLatency, Some(12))),
            ("/x/my.job_clat_hist.1.log", (LogKind::Histogram, Some(1))),
            ("a_lat.log", (LogKind::TotalLatency, None)),
            ("a_slat.2.log", (LogKind::SubmissionLatency, Some(2))),
            ("a_b_iops.3.log", (LogKind::Iops, Some(3))),
            ("a_bw.1.log", (LogKind::Bandwidth, Some(1))),
        ] {
            assert_eq!(kind(name).unwrap(), expected, "{name}");
        }
        for name in ["a.log", "a_clat.1.txt", "a_clat.99999999999.log", ""] {
            assert!(kind(name).unwrap_err().help().is_some(), "{name}");
        }
    }

    /// Values from fio's `stat.c`: 64 bins per power of two; the first 128 are 1 ns wide.
    #[test]
    fn bins_have_the_middles_of_fio() {
        let mut next = 0;
        for bin in 0..29 * 64_u64 {
            let width = if bin < 128 { 1 } else { 1 << (bin / 64 - 1) };
            assert_eq!(middle_ns(bin), next + width / 2, "{bin}");
            next += width;
        }
        assert_eq!(next, 1 << 34);
    }
}
