//! Thresholds: a user's requirements on figures, and whether a finished run meets them.
//!
//! ```text
//! p99<500us                  every kind of operation, in every cell
//! write.p99.9 <= 2ms         writes, in every cell that writes
//! random-*: iops > 100k      cells whose names match the pattern
//! read: bandwidth>=1GB/s     the same as read.bandwidth>=1GB/s
//! ```
//!
//! A threshold has one outcome for each figure of each cell that it covers. Repeats of a cell are judged together. For
//! several targets, the merged cell is judged.
//!
//! A threshold holds only if the samples prove it. It does not hold for a percentile with too few samples, for a
//! cell that is INVALID, or for a name that no cell has; the outcome then states the reason. The outcome is close if
//! the limit lies within the 95 % confidence interval of the figure.

mod certainty;

pub use certainty::Between;

use crate::cell::representative;
use crate::metric::{Counted, Metric, kind_named};
use crate::{Cell, CellKey, Ended, Level};
use iodyno_units::{parse_bandwidth_bytes_per_s, parse_duration_ns, parse_rate_iops};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Comparison operator of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// `<`: the figure must be below the value.
    Below,
    /// `<=`: the figure must not exceed the value.
    AtMost,
    /// `>`: the figure must exceed the value.
    Above,
    /// `>=`: the figure must be at least the value.
    AtLeast,
}

impl Bound {
    /// Operator as written in a threshold, such as `<=`.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Below => "<",
            Self::AtMost => "<=",
            Self::Above => ">",
            Self::AtLeast => ">=",
        }
    }

    fn holds(self, figure: f64, value: f64) -> bool {
        match self {
            Self::Below => figure < value,
            Self::AtMost => figure <= value,
            Self::Above => figure > value,
            Self::AtLeast => figure >= value,
        }
    }
}

/// Limit that a measured figure must meet, such as `p99<1ms`. Serialised as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Threshold {
    /// The threshold's text as the user wrote it.
    text: String,
    /// Pattern of cell names, with `*` and `?`; None for all cells.
    pub cells: Option<String>,
    /// Metric that is compared with the value.
    pub metric: Metric,
    /// Operator that compares the measured figure with `value`.
    pub bound: Bound,
    /// Limit in the unit of the metric (ns, operations per second or bytes per second); above 0.
    pub value: f64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThresholdError {
    text: String,
    /// Byte range of the invalid part within the threshold's text.
    pub span: Range<usize>,
    /// Reason for the error, with the correct form of a threshold.
    pub why: String,
}

impl fmt::Display for ThresholdError {
    /// Formats the reason and the threshold's text with the invalid part marked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = |bytes: &str| bytes.chars().count();
        let before = columns(&self.text[..self.span.start]);
        let marks = columns(&self.text[self.span.clone()]).max(1);
        write!(f, "{}\n  {}\n  {:before$}{}", self.why, self.text, "", "^".repeat(marks))
    }
}

impl std::error::Error for ThresholdError {}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Threshold> for String {
    fn from(threshold: Threshold) -> Self {
        threshold.text
    }
}

impl TryFrom<String> for Threshold {
    type Error = ThresholdError;

    fn try_from(text: String) -> Result<Self, ThresholdError> {
        text.parse()
    }
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let wrong =
            |span: Range<usize>, why: String| ThresholdError { text: text.to_owned(), span, why };
        // Trims a range, and returns it with its position.
        let part = |range: Range<usize>| {
            let whole = &text[range.clone()];
            let start = range.start + whole.len() - whole.trim_start().len();
            start..start + whole.trim().len()
        };
        let Some(sign) = text.find(['<', '>']) else {
            let why = if text.contains('=') {
                "a measured figure never equals a value exactly: use <, <=, > or >="
            } else {
                "the threshold has no < or >: give it in quotes, such as 'p99<500us', because a shell reads < and > as redirections"
            };
            return Err(wrong(part(0..text.len()), why.to_owned()));
        };
        let or_equal = text[sign + 1..].starts_with('=');
        let bound = match (&text[sign..=sign], or_equal) {
            ("<", false) => Bound::Below,
            ("<", true) => Bound::AtMost,
            (_, false) => Bound::Above,
            (_, true) => Bound::AtLeast,
        };
        let value_at = part(sign + 1 + usize::from(or_equal)..text.len());
        let (scope_at, metric_at) = match text[..sign].rfind(':') {
            Some(colon) => (Some(part(0..colon)), part(colon + 1..sign)),
            None => (None, part(0..sign)),
        };
        if metric_at.is_empty() {
            let why = "no metric precedes the < or >: give one, such as p99<500us";
            return Err(wrong(sign..sign + bound.sign().len(), why.to_owned()));
        }
        let mut metric: Metric = text[metric_at.clone()]
            .parse()
            .map_err(|e: crate::metric::NoMetric| wrong(metric_at.clone(), e.to_string()))?;
        let mut cells = None;
        if let Some(at) = scope_at {
            let scope = &text[at.clone()];
            match (kind_named(scope), metric.kind) {
                (Some(_), Some(_)) => {
                    let why = "the kind of operation is given twice".to_owned();
                    return Err(wrong(at, why));
                }
                (Some(kind), None) => metric.kind = Some(kind),
                (None, _) if scope.is_empty() => {
                    let why = "the cell name before the colon is missing: give a name or pattern, such as random-*, or leave the colon out";
                    return Err(wrong(0..text.len().min(at.start + 1), why.to_owned()));
                }
                (None, _) => cells = Some(scope.to_owned()),
            }
        }
        let value = &text[value_at.clone()];
        let parsed = if value.is_empty() {
            Err(format!("no value follows {}", bound.sign()))
        } else {
            read_value(metric, value)
        };
        match parsed {
            Ok(v) => Ok(Self { text: text.trim().to_owned(), cells, metric, bound, value: v }),
            Err(why) if value.is_empty() => Err(wrong(sign..text.len(), why)),
            Err(why) => Err(wrong(value_at, why)),
        }
    }
}

/// Parses the value of a threshold, in the unit of `metric`.
fn read_value(metric: Metric, text: &str) -> Result<f64, String> {
    use crate::Quantity;
    match metric.quantity {
        Quantity::Iops => parse_rate_iops(text).map_err(|e| e.to_string()),
        Quantity::Bandwidth => parse_bandwidth_bytes_per_s(text).map_err(|e| e.to_string()),
        Quantity::Mean | Quantity::Quantile(_) | Quantity::Max => match parse_duration_ns(text) {
            Ok(0) => Err("a latency must be above 0".to_owned()),
            Ok(ns) => Ok(ns as f64),
            Err(e) => Err(e.to_string()),
        },
    }
}

/// Result of comparing one figure with a threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<'a> {
    pub threshold: &'a Threshold,
    /// Key of the judged cell, or of its first repeat; None if the threshold matches no cell.
    pub cell: Option<&'a CellKey>,
    /// Number of repeats of the cell that were judged together.
    pub repeats: usize,
    /// Judged metric, including the kind of operation.
    pub metric: Metric,
    /// Measured value of the metric; None if there is none.
    pub value: Option<f64>,
    /// Whether the measured value meets the threshold; false without a value.
    pub held: bool,
    /// Confidence interval of `value` ([`CONFIDENCE`](crate::summary::CONFIDENCE)); None if it is unknown.
    pub interval: Option<Between>,
    /// Reason why there is no measured value; None if there is one.
    pub why: Option<String>,
}

impl Outcome<'_> {
    /// Whether the limit lies within the confidence interval of the figure, so that the sampling error alone can decide
    /// the outcome.
    pub fn is_close(&self) -> bool {
        let Threshold { bound, value, .. } = self.threshold;
        self.interval.is_some_and(|interval| interval.crosses(*bound, *value))
    }
}

/// Judges the cells of a run, each with its requested repeats. Returns at least one outcome per threshold, in the order
/// of `thresholds`. For a run of a method, use [`judge_groups`]: only its stages say which rounds are repeats.
pub fn judge<'a>(thresholds: &'a [Threshold], cells: &'a [Cell]) -> Vec<Outcome<'a>> {
    judge_groups(thresholds, cells, &with_repeats(cells))
}

/// Judges `groups` of the cells of a run. A group is a cell and its repeats, which are judged together; cells in no
/// group are not judged. Returns at least one outcome per threshold, in the order of `thresholds`.
pub fn judge_groups<'a>(
    thresholds: &'a [Threshold],
    cells: &'a [Cell],
    groups: &[Vec<&'a Cell>],
) -> Vec<Outcome<'a>> {
    let speaks = representative(cells);
    let mut outcomes = Vec::new();
    for threshold in thresholds {
        let before = outcomes.len();
        let meant: Vec<_> = groups
            .iter()
            .filter(|g| speaks(&g[0].key))
            .filter(|g| threshold.cells.as_ref().is_none_or(|like| is_like(like, &g[0].key.name)))
            .collect();
        for group in &meant {
            outcomes.extend(judge_cell(threshold, group));
        }
        if outcomes.len() == before {
            let why = match (&threshold.cells, threshold.metric.kind) {
                (Some(like), _) if meant.is_empty() => {
                    format!("no cell has a name that matches {like}")
                }
                (_, Some(kind)) if !meant.is_empty() => {
                    format!("no cell in this run issued a {}", kind.name())
                }
                _ => "nothing was measured".to_owned(),
            };
            outcomes.push(Outcome {
                threshold,
                cell: None,
                repeats: 0,
                metric: threshold.metric,
                value: None,
                held: false,
                interval: None,
                why: Some(why),
            });
        }
    }
    outcomes
}

fn judge_cell<'a>(threshold: &'a Threshold, group: &[&'a Cell]) -> Vec<Outcome<'a>> {
    let outcome = |metric, figure: Result<f64, String>| {
        let value = figure.as_ref().ok().copied();
        Outcome {
            threshold,
            cell: Some(&group[0].key),
            repeats: group.len(),
            metric,
            value,
            held: value.is_some_and(|v| threshold.bound.holds(v, threshold.value)),
            interval: value.and_then(|_| certainty::interval(group, metric)),
            why: figure.err(),
        }
    };
    if let Some(why) = group.iter().find_map(|cell| unusable(cell)) {
        return vec![outcome(threshold.metric, Err(why))];
    }
    let counted = Counted::of(group.iter().copied());
    let figures = counted.figures(threshold.metric);
    figures.into_iter().map(|metric| outcome(metric, counted.value(metric))).collect()
}

/// Reason why a cell's figures must not be used; None if they may be used.
pub fn unusable(cell: &Cell) -> Option<String> {
    let codes: Vec<&str> = cell
        .verdicts
        .iter()
        .filter(|v| v.level == Level::Invalid)
        .map(|v| v.code.as_str())
        .collect();
    if !codes.is_empty() {
        return Some(format!("the cell is INVALID ({})", codes.join(", ")));
    }
    match cell.ended {
        Ended::Time | Ended::Ops | Ended::Bytes | Ended::Settled => None,
        Ended::Interrupted => Some("the cell was interrupted".to_owned()),
        Ended::Errors => Some("the cell was stopped by errors".to_owned()),
        Ended::Hung => Some("the target stopped answering".to_owned()),
        Ended::Crashed => Some("the process died while measuring the cell".to_owned()),
        Ended::Running => Some("the cell is still running".to_owned()),
    }
}

/// Groups each cell of a run with its repeats, in the order of the first cell of each group.
pub fn with_repeats(cells: &[Cell]) -> Vec<Vec<&Cell>> {
    let mut groups: Vec<(CellKey, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let coordinates = cell.key.coordinates();
        // A list may hold a cell twice; only requested repeats are grouped.
        let is_of = |(key, group): &(CellKey, Vec<&Cell>)| {
            *key == coordinates && group.iter().all(|c| c.key.repeat != cell.key.repeat)
        };
        match groups.iter_mut().find(|group| is_of(group)) {
            Some((_, group)) => group.push(cell),
            None => groups.push((coordinates, vec![cell])),
        }
    }
    groups.into_iter().map(|group| group.1).collect()
}

/// Whether `name` matches a pattern in which `*` matches any text and `?` any character.
pub fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // reach[i]: whether the pattern so far covers the first i characters of the name.
    let mut reach = vec![false; name.len() + 1];
    reach[0] = true;
    for c in pattern {
        let mut next = vec![false; name.len() + 1];
        let mut any = false;
        for i in 0..=name.len() {
            any |= reach[i];
            next[i] = match c {
                '*' => any,
                _ => i > 0 && reach[i - 1] && (c == '?' || c == name[i - 1]),
            };
        }
        reach = next;
    }
    reach[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interval, Verdict};
    use iodyno_units::OpKind;

    fn parse(text: &str) -> Threshold {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn thresholds_are_read() {
        let t = parse(" random-*: read.p99.9 <= 1ms500us ");
        assert_eq!(t.cells.as_deref(), Some("random-*"));
        assert_eq!(
            (t.metric.to_string().as_str(), t.bound, t.value),
            ("read.p99.9", Bound::AtMost, 1.5e6)
        );
        assert_eq!(t.to_string(), "random-*: read.p99.9 <= 1ms500us");
        assert_eq!(parse("write: iops>100k").metric.kind, Some(OpKind::Write));
        assert_eq!(
            (parse("iops>100k/s").value, parse("bandwidth>=1GiB/s").value),
            (1e5, 1_073_741_824.0)
        );
        let json = serde_json::to_string(&t).unwrap();
        assert_eq!(serde_json::from_str::<Threshold>(&json).unwrap(), t);
    }

    /// The error of each invalid threshold marks the invalid part.
    #[test]
    fn errors_mark_their_position() {
        for (text, part, says) in [
            ("p99", "p99", "in quotes"),
            ("p99=5ms", "p99=5ms", "never equals"),
            ("p99<500", "500", "no unit of time"),
            ("p99<", "<", "no value"),
            ("  p99us < 5ms", "p99us", "not a metric"),
            ("reed.p99<5ms", "reed.p99", "not a kind of operation"),
            ("iops>5ms", "5ms", "is not a rate"),
            ("bandwidth>5GB", "5GB", "not a bandwidth"),
            (":p99<5ms", ":", "before the colon"),
            ("<5ms", "<", "no metric precedes"),
            ("read:write.p99<5ms", "read", "twice"),
            ("max<0ns", "0ns", "above 0"),
            ("p99<=>5ms", ">5ms", "not a duration"),
            ("µ.p99<5ms", "µ.p99", "not a kind"),
        ] {
            let e = text.parse::<Threshold>().unwrap_err();
            assert_eq!(&text[e.span.clone()], part, "{text}");
            assert!(e.why.contains(says), "{text}: {}", e.why);
        }
        let shown = "cell: p99<500".parse::<Threshold>().unwrap_err().to_string();
        assert!(shown.ends_with("\n  cell: p99<500\n            ^^^"), "{shown}");
    }

    fn cell(name: &str, repeat: u32, kinds: &[(OpKind, u64, u64)]) -> Cell {
        let mut interval = Interval::default();
        for &(kind, ns, n) in kinds {
            interval.class_mut(kind).service.record_n(ns, n);
        }
        Cell {
            key: CellKey { name: name.to_owned(), repeat, ..CellKey::default() },
            window_ns: 1_000_000_000,
            series: vec![interval],
            ..Cell::default()
        }
    }

    fn outcomes(text: &str, cells: &[Cell]) -> Vec<(String, bool, Option<f64>, String)> {
        judge(&[parse(text)], cells)
            .into_iter()
            .map(|o| {
                let name = o.cell.map_or_else(String::new, |c| c.name.clone());
                (format!("{name} {}", o.metric), o.held, o.value, o.why.unwrap_or_default())
            })
            .collect()
    }

    #[test]
    fn cells_are_judged() {
        let cells = [
            cell("a", 0, &[(OpKind::Read, 100_000, 2_000), (OpKind::Write, 900_000, 2_000)]),
            cell("b", 0, &[(OpKind::Read, 100_000, 500)]),
            cell("b", 1, &[(OpKind::Read, 100_000, 600)]),
        ];
        // A latency without a kind: one outcome per kind; a cell and its repeats: one together.
        let of = outcomes("p99<500us", &cells);
        let held: Vec<_> = of.iter().map(|o| (o.0.as_str(), o.1)).collect();
        assert_eq!(held, [("a read.p99", true), ("a write.p99", false), ("b read.p99", true)]);
        let of = outcomes("iops>1k", &cells);
        assert_eq!((of[1].1, of[1].2), (false, Some(550.0)), "the rate of both repeats");
        // A threshold on an unsupported figure does not hold, in either direction.
        for text in ["b: p99.9<500s", "b: p99.9>1ns"] {
            let of = outcomes(text, &cells);
            assert!(!of[0].1 && of[0].2.is_none() && of[0].3.contains("1100 read"), "{of:?}");
        }
        // A threshold that covers no cell does not hold.
        assert_eq!(outcomes("write.mean<1ms", &cells).len(), 1, "b does not write");
        assert!(outcomes("b: write.mean<1s", &cells)[0].3.contains("issued a write"));
        assert!(outcomes("c*: mean<1s", &cells)[0].3.contains("c*"));
        assert!(!outcomes("mean<1s", &[])[0].1);
        assert_eq!(outcomes("?: max<=100us", &cells).iter().filter(|o| o.1).count(), 2);
    }

    /// An outcome is close if the limit lies within the confidence interval of its figure, on either side of the
    /// figure.
    #[test]
    fn a_limit_within_the_interval_is_close() {
        // 40 intervals of 100 ms: rates from 900/s to 1100/s, their mean and percentiles within a few percent.
        let mut wide = cell("a", 0, &[]);
        (wide.window_ns, wide.interval_ns) = (4_000_000_000, 100_000_000);
        wide.series = (0..40_u64)
            .map(|i| {
                let mut interval = Interval::default();
                let (read, n) = (interval.class_mut(OpKind::Read), 90 + 7 * i % 21);
                (0..n).for_each(|k| read.service.record_n(100_000 + 1_000 * (k * 37 % 90), 1));
                read.bytes = n * 4096;
                interval
            })
            .collect();
        let close = |text: &str, cells: &[Cell]| {
            let threshold = [parse(text)];
            let of = judge(&threshold, cells);
            (of[0].held, of[0].is_close())
        };
        let ops: u64 = wide.series.iter().map(|i| i.ios(wide.io_kinds())).sum();
        let (rate, p50) = (ops as f64 / 4.0, outcomes("p50<1s", &[wide.clone()])[0].2.unwrap());
        let one = [wide.clone()];
        for (text, expected) in [
            (format!("iops>{}", rate * 0.5), (true, false)),
            (format!("iops>{}", rate * 0.999), (true, true)),
            (format!("iops>{}", rate * 1.001), (false, true)),
            (format!("iops>{}", rate * 2.0), (false, false)),
            (format!("read.iops<{}", rate * 1.001), (true, true)),
            (format!("bandwidth>={}KiB/s", rate * 0.999 * 4.0), (true, true)),
            (format!("p50<{}ns", p50 as u64 + 1), (true, true)),
            (format!("p50<={}ns", p50 as u64 - 1), (false, true)),
            (format!("p50<{}ns", p50 as u64 * 2), (true, false)),
            // Of one window neither has an interval.
            (format!("mean<{}ns", 1_000_000), (true, false)),
            (format!("max<{}ns", 1_000_000), (true, false)),
        ] {
            assert_eq!(close(&text, &one), expected, "{text}");
        }
        // 550 ± 635 per second, by Student's t of two repeats: 12.7 × 50.
        let two = [500, 600].map(|n| cell("b", u32::from(n == 600), &[(OpKind::Read, 100_000, n)]));
        assert_eq!(close("iops>10", &two), (true, true));
        assert_eq!(close("iops<1200", &two), (true, false));
        assert_eq!(close("iops<1100", &two), (true, true));
        assert_eq!(close("p50<1ms", &two), (true, false), "equal percentiles");
        // 100 and 110 µs: ± 64 µs.
        let two = [100, 110].map(|us| cell("b", us, &[(OpKind::Read, u64::from(us) * 1_000, 500)]));
        assert_eq!(close("p50<150us", &two), (true, true));
        assert_eq!(close("p50<200us", &two), (true, false));
    }

    #[test]
    fn unusable_figures_are_not_held() {
        let mut bad = cell("a", 0, &[(OpKind::Read, 100_000, 2_000)]);
        let (code, text) = ("ERRORS".to_owned(), String::new());
        bad.verdicts.push(Verdict { code, level: Level::Invalid, text });
        let of = outcomes("iops>1", &[bad]);
        assert!(!of[0].1 && of[0].3.contains("ERRORS"), "{of:?}");
        let cut = Cell { ended: Ended::Crashed, ..cell("a", 0, &[(OpKind::Read, 1_000, 2_000)]) };
        assert!(!outcomes("iops>1", &[cut])[0].1);
    }

    /// Groups decide which cells are judged, and which together: here the last two rounds of a method's cell, whose
    /// first round was transient.
    #[test]
    fn given_groups_are_judged_together() {
        let rounds = [9_000, 500, 600].map(|ops| cell("a", 0, &[(OpKind::Read, 100_000, ops)]));
        let threshold = [parse("iops<560")];
        let groups = [rounds[1..].iter().collect::<Vec<_>>()];
        let of = judge_groups(&threshold, &rounds, &groups);
        assert_eq!((of.len(), of[0].repeats, of[0].value), (1, 2, Some(550.0)));
        assert!(of[0].held && of[0].is_close(), "{of:?}");
        assert_eq!(judge(&threshold, &rounds).len(), 3, "rounds are no requested repeats");
    }

    /// With several targets, the merged cell is judged.
    #[test]
    fn merged_cells_are_judged() {
        let mut cells: Vec<Cell> =
            (0..3).map(|_| cell("a", 0, &[(OpKind::Read, 1_000, 1_000)])).collect();
        for (cell, target) in cells.iter_mut().zip(["x", "y", "all (2 targets)"]) {
            target.clone_into(&mut cell.key.target);
        }
        let of = judge(std::slice::from_ref(&parse("iops>1")), &cells).len();
        assert_eq!(of, 1);
        assert_eq!(with_repeats(&cells).len(), 3);
    }

    #[test]
    fn patterns() {
        for (pattern, name, like) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("?", "µ", true),
            ("**b*", "abc", true),
            ("random-read", "random-reads", false),
            ("", "a", false),
        ] {
            assert_eq!(is_like(pattern, name), like, "{pattern} {name}");
        }
    }
}
