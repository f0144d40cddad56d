//! Tests the conclusions of a paper on the simulated values. Each conclusion is expressed as comparisons between rows
//! of the study.
//!
//! A comparison can't be decided if its values are within two standard errors of the limit that it tests.

use crate::published::Key;
use crate::unit::Unit;
use crate::wanted::Wanted;
use core::fmt::Write as _;
use core::ops::Range;
use iodyno_catalog::{File, Problem, Record};
use iodyno_units::human;

/// Minimum distance from the limit, in standard errors, for a comparison to be decided.
const UNDECIDED_ERRORS: f64 = 2.0;

/// A conclusion of the published paper, with comparisons that test it.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// The conclusion in the words of the study file, as one sentence.
    pub says: String,
    /// Comparisons that must all hold for the conclusion to hold. Empty if the conclusion can't be tested.
    comparisons: Vec<Comparison>,
    /// Reason why the conclusion can't be tested; empty if it can.
    untestable: String,
}

/// A comparison of several simulated values.
#[derive(Clone, Debug, PartialEq)]
struct Comparison {
    figures: Vec<Operand>,
    relation: Relation,
    /// Description of what the compared values have in common, for the evidence.
    of: String,
}

/// Claimed relation between several values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    /// Each value is more than this factor times the next value.
    Descending(f64),
    /// The largest value exceeds the smallest by at most this fraction.
    Alike(f64),
}

/// A value to compare: the value of a row, or the ratio of two rows.
#[derive(Clone, Debug, PartialEq)]
struct Operand {
    of: Key,
    over: Option<Key>,
    name: String,
}

/// The result of testing a conclusion of the paper on simulated values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// All comparisons hold.
    Holds,
    /// Values are missing, or too close to a limit to decide.
    Untestable,
    /// At least one comparison is clearly violated.
    DoesNotHold,
}

impl Verdict {
    /// The verdict as text for display.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Untestable => "can't be tested",
            Self::DoesNotHold => "does not hold",
        }
    }

    /// The verdict's name in JSON documents.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Untestable => "untestable",
            Self::DoesNotHold => "does_not_hold",
        }
    }
}

/// A conclusion with the result of its test.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding<'a> {
    /// The conclusion, as stated in the study file.
    pub conclusion: &'a Conclusion,
    /// Whether the simulated values support the conclusion.
    pub verdict: Verdict,
    /// The simulated values that were compared, or the reason why the conclusion can't be tested.
    pub evidence: String,
}

/// Counts the conclusions by verdict: `2 hold, 1 does not hold, 0 can't be tested`.
pub(crate) fn summary(findings: &[Finding<'_>]) -> String {
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let verb = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    [
        verb(count(Verdict::Holds), "holds", "hold"),
        verb(count(Verdict::DoesNotHold), "does not hold", "do not hold"),
        format!("{} can't be tested", count(Verdict::Untestable)),
    ]
    .join(", ")
}

impl Conclusion {
    /// Reads a conclusion from the study file. Each value that it compares must identify exactly one row.
    pub(crate) fn read(file: &File, raw: &Record, rows: &[Wanted]) -> Result<Self, Problem> {
        let comparisons = raw.records("tests").map(|raw| comparison(file, raw, rows));
        let comparisons = comparisons.collect::<Result<Vec<_>, _>>()?;
        if comparisons.is_empty() == raw.get("untestable").is_none() {
            let message = "a conclusion must have either `tests` or `untestable`";
            return Err(Problem::at(file, raw.place("says"), message, None));
        }
        Ok(Self {
            says: raw.said("says").to_owned(),
            comparisons,
            untestable: raw.text("untestable").unwrap_or_default().to_owned(),
        })
    }

    /// Whether a comparison of the conclusion uses this row.
    pub fn needs(&self, row: &Wanted) -> bool {
        let mut operands = self.comparisons.iter().flat_map(|comparison| &comparison.figures);
        operands.any(|figure| figure.of == row.key || figure.over.as_ref() == Some(&row.key))
    }

    /// Tests the conclusion on the simulated values in `rows`, which correspond to the rows in `wanted`.
    pub(crate) fn test(&self, wanted: &[Wanted], rows: &[Simulated]) -> Finding<'_> {
        let mut verdict = Verdict::Holds;
        let mut evidence = Vec::new();
        for comparison in &self.comparisons {
            let (found, text) = comparison.test(wanted, rows);
            verdict = verdict.max(found);
            evidence.push(text);
        }
        if self.comparisons.is_empty() {
            (verdict, evidence) = (Verdict::Untestable, vec![self.untestable.clone()]);
        }
        Finding { conclusion: self, verdict, evidence: evidence.join("; ") }
    }
}

fn comparison(file: &File, raw: &Record, rows: &[Wanted]) -> Result<Comparison, Problem> {
    let (descending, alike) = (raw.records("descending"), raw.records("alike"));
    let all: Vec<&Record> = descending.chain(alike).collect();
    let is_alike = raw.get("alike").is_some();
    let wrong = if is_alike == raw.get("descending").is_some() {
        Some("a comparison must have either `descending` or `alike`")
    } else if raw.get("factor").is_some() && is_alike {
        Some("`factor` belongs to `descending`; `alike` takes a `share`")
    } else if raw.get("share").is_some() != is_alike {
        Some("`alike` requires a `share`, and `descending` takes a `factor`")
    } else if all.len() < 2 {
        Some("a comparison needs at least two figures")
    } else {
        None
    };
    if let Some(message) = wrong {
        let key = if raw.get("alike").is_some() { "alike" } else { "descending" };
        return Err(Problem::at(file, raw.place(key), message, None));
    }
    let relation = if is_alike {
        Relation::Alike(raw.real("share").unwrap_or_default())
    } else {
        Relation::Descending(raw.real("factor").unwrap_or(1.0))
    };
    let figures = all.into_iter().map(|own| operand(file, raw, own, rows));
    let over = raw.get("over").and_then(|entry| entry.record());
    let over = over.map(|over| format!(" over {}", name(&[over]))).unwrap_or_default();
    let of = name(&[raw]) + &over;
    Ok(Comparison { figures: figures.collect::<Result<_, _>>()?, relation, of })
}

fn operand(file: &File, all: &Record, own: &Record, rows: &[Wanted]) -> Result<Operand, Problem> {
    let of = |asked: &[&Record], at: &Record| {
        let found: Vec<&Key> =
            rows.iter().map(|row| &row.key).filter(|key| is_meant(asked, key)).collect();
        // If several rows match, prefer the one without other numbers in its key, such as a row at an optimum.
        let plain = |key: &&&Key| is_for_no_other(asked, key);
        let one = if found.len() > 1 {
            found.iter().filter(plain).collect()
        } else {
            found.iter().collect::<Vec<_>>()
        };
        if let [one] = one.as_slice() {
            return Ok((**one).clone());
        }
        let message = format!(
            "this figure matches {} rows of the study, but must match exactly one",
            found.len()
        );
        let help = "the figure's keys and those of its `tests` must match those of a row: figure, system, workload, block, \
                    depth, threads, devices, metric";
        Err(Problem::at(file, whole(at), message, Some(help.to_owned())))
    };
    let over_of = |record: &Record| record.get("over").and_then(|entry| entry.record().cloned());
    let own_over = over_of(own);
    let name = match &own_over {
        Some(over) => format!("{} over {}", name(&[own]), name(&[over])),
        None => name(&[own]),
    };
    let over = own_over.or_else(|| over_of(all));
    let divisor = over.map(|over| of(&[&over, own, all], own)).transpose()?;
    Ok(Operand { of: of(&[own, all], own)?, over: divisor, name })
}

/// Byte range of a whole TOML table in the file.
fn whole(of: &Record) -> Range<usize> {
    of.place("")
}

const TEXTS: [&str; 4] = ["figure", "system", "workload", "metric"];
const NUMBERS: [&str; 4] = ["block", "depth", "threads", "devices"];

/// Whether the row with this key matches every value in `asked`. If several records give the same field, such as
/// `block`, the first one counts.
fn is_meant(asked: &[&Record], key: &Key) -> bool {
    let texts = [&key.figure, &key.system, &key.workload, &key.metric];
    let numbers = [key.block_bytes, key.queue_depth, key.threads, key.devices];
    let text = |path: &str| asked.iter().find_map(|record| record.text(path));
    let number = |path: &str| asked.iter().find_map(|record| record.whole(path));
    TEXTS.iter().zip(texts).all(|(path, has)| text(path).is_none_or(|asked| asked == has))
        && NUMBERS
            .iter()
            .zip(numbers)
            .all(|(path, has)| number(path).is_none_or(|asked| has.map(u64::from) == Some(asked)))
}

/// Whether `asked` specifies every number that the row's key has (block size, depth, threads, devices).
fn is_for_no_other(asked: &[&Record], key: &Key) -> bool {
    let numbers = [key.block_bytes, key.queue_depth, key.threads, key.devices];
    let is_asked = |path: &str| asked.iter().any(|record| record.get(path).is_some());
    NUMBERS.iter().zip(numbers).all(|(path, has)| has.is_none() || is_asked(path))
}

/// Describes the values in `asked` records for messages: system, workload, metric and numbers.
fn name(of: &[&Record]) -> String {
    let mut words = Vec::new();
    for record in of {
        words.extend(
            ["system", "workload"]
                .iter()
                .filter_map(|path| record.text(path))
                .map(ToOwned::to_owned),
        );
        words.extend(record.text("metric").map(|metric| metric.replace('_', " ")));
        words.extend(record.whole("block").map(human::size));
        let counted = |path: &str, one: &str| {
            record.whole(path).map(|n| format!("{n} {one}{}", if n == 1 { "" } else { "s" }))
        };
        words.extend(record.whole("depth").map(|depth| format!("depth {depth}")));
        words.extend(counted("threads", "thread"));
        words.extend(counted("devices", "device"));
    }
    words.join(" ")
}

/// Simulated value of a row, with its standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simulated {
    /// Value in the row's unit; None if it was not simulated, or there are too few samples.
    pub(crate) ours: Option<f64>,
    /// Standard error as a fraction of the value; None if unknown.
    pub(crate) standard_error: Option<f64>,
}

/// The value of an operand, with its standard error.
struct Value {
    /// Value in the base unit of its dimension: 1/s, bytes/s, ns or a bare number.
    number: f64,
    /// Standard error as a fraction of the value; 0 if unknown.
    standard_error: f64,
    unit: Unit,
}

impl Operand {
    /// Simulated value of the operand; None if it was not simulated, or there are too few samples.
    fn value(&self, wanted: &[Wanted], rows: &[Simulated]) -> Option<Value> {
        let find = |key: &Key| {
            let (wanted, row) = wanted.iter().zip(rows).find(|(wanted, _)| wanted.key == *key)?;
            let error = row.standard_error.filter(|error| error.is_finite()).unwrap_or(0.0);
            let value = row.ours? * wanted.unit.scale();
            Some(Value { number: value, standard_error: error, unit: wanted.unit })
        };
        let of = find(&self.of)?;
        let Some(over) = &self.over else { return Some(of) };
        let over = find(over)?;
        (over.number > 0.0).then(|| Value {
            number: of.number / over.number,
            standard_error: of.standard_error.hypot(over.standard_error),
            unit: Unit::Ratio,
        })
    }
}

impl Comparison {
    fn test(&self, wanted: &[Wanted], rows: &[Simulated]) -> (Verdict, String) {
        let values: Vec<Option<Value>> =
            self.figures.iter().map(|figure| figure.value(wanted, rows)).collect();
        let Some(values) = values.into_iter().collect::<Option<Vec<Value>>>() else {
            return (
                Verdict::Untestable,
                format!("no simulated figure for {}", self.missing(wanted, rows)),
            );
        };
        let (found, limit) = match self.relation {
            Relation::Descending(factor) => {
                let pairs = values.windows(2).map(|pair| decide(&pair[0], &pair[1], factor));
                let limit = if (factor - 1.0).abs() < f64::EPSILON {
                    String::new()
                } else {
                    format!(", at least {factor} ×")
                };
                (pairs.max().unwrap_or(Verdict::Untestable), limit)
            }
            Relation::Alike(share) => {
                let by = |a: &&Value, b: &&Value| a.number.total_cmp(&b.number);
                let (low, high) = (values.iter().min_by(by), values.iter().max_by(by));
                let found = low.zip(high).map_or(Verdict::Untestable, |(low, high)| {
                    match decide(high, low, 1.0 + share) {
                        Verdict::Holds => Verdict::DoesNotHold,
                        Verdict::DoesNotHold => Verdict::Holds,
                        Verdict::Untestable => Verdict::Untestable,
                    }
                });
                (found, format!(", within {} %", human::three_digits(share * 100.0)))
            }
        };
        let mut text = if self.of.is_empty() { String::new() } else { format!("{}: ", self.of) };
        for (i, (figure, value)) in self.figures.iter().zip(&values).enumerate() {
            let between = if i == 0 { "" } else { ", " };
            let space = if figure.name.is_empty() { "" } else { " " };
            let _ = write!(
                text,
                "{between}{}{space}{}",
                figure.name,
                value.unit.quantity().words(value.number)
            );
        }
        text += &limit;
        if found == Verdict::Untestable {
            text += "; the difference is within the standard error";
        }
        (found, text)
    }

    /// Names the first operand that has no value.
    fn missing(&self, wanted: &[Wanted], rows: &[Simulated]) -> String {
        let missing = self.figures.iter().find(|figure| figure.value(wanted, rows).is_none());
        missing.map_or(String::new(), |operand| {
            let key = &operand.of;
            format!("{} {} {} ({})", key.system, key.workload, key.metric, key.figure)
        })
    }
}

/// Whether `a` is more than `factor` times `b`. Untestable if the difference is within two standard errors.
fn decide(a: &Value, b: &Value, factor: f64) -> Verdict {
    let ratio = a.number / b.number;
    let error = a.standard_error.hypot(b.standard_error) * ratio;
    if !ratio.is_finite() || (error > 0.0 && (ratio - factor).abs() <= UNDECIDED_ERRORS * error) {
        Verdict::Untestable
    } else if ratio > factor {
        Verdict::Holds
    } else {
        Verdict::DoesNotHold
    }
}
