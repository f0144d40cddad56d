//! Creates the `steadystate` object of a job in fio's JSON. For a job with a steady state rule, it has one value per
//! second of the last window; for a quantity that a method tracks, one value per round of the measurement window.
//!
//! Keys and units are fio's. Unlike fio, which pads the arrays of incomplete windows with zeroes and includes them in
//! the means, the arrays contain only measured values.

use crate::method;
use iodyno_measure::statistics::steady::SteadyLimits;
use iodyno_measure::statistics::steps::{Excursion, Step, Steps};
use iodyno_measure::{Cell, Ended, Quantity, Role};
use iodyno_method::findings::{RoundsFinding, Showed};
use iodyno_notebook::Run;
use iodyno_units::{parse_duration_ns, parse_percent};
use serde_json::{Map, Value, json};

/// Quantity that a steady state rule tracks, and its name in fio.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    Iops,
    Bandwidth,
    Latency,
}

impl Figure {
    const fn name(self) -> &'static str {
        match self {
            Self::Iops => "iops",
            Self::Bandwidth => "bw",
            Self::Latency => "lat",
        }
    }

    const fn of(self, step: &Step) -> f64 {
        match self {
            Self::Iops => step.iops,
            Self::Bandwidth => step.bytes_per_s,
            Self::Latency => step.mean_ns,
        }
    }
}

/// A steady state rule, with the measured values in its last window.
struct Window {
    figure: Figure,
    by_slope: bool,
    /// Limit for the deviation or slope, as a fraction of the mean.
    within: f64,
    duration_ns: u64,
    is_attained: bool,
    steps: Vec<Step>,
}

impl Window {
    fn values(&self) -> Vec<f64> {
        self.steps.iter().map(|step| self.figure.of(step)).collect()
    }

    /// Formats fio's object `steadystate`. `criterion` is the deviation or slope as a fraction of the mean, which
    /// fio compares with the limit.
    fn json(&self, criterion: f64, deviation: f64, slope: f64) -> Value {
        let mean = |of: fn(&Step) -> f64| {
            self.steps.iter().map(of).sum::<f64>() / self.steps.len().max(1) as f64
        };
        let whole = |of: fn(&Step) -> f64| self.steps.iter().map(|s| of(s) as u64).collect();
        let mut data = Map::new();
        let iops: Vec<u64> = whole(|step| step.iops);
        let bytes_per_s: Vec<u64> = whole(|step| step.bytes_per_s);
        let mean_ns: Vec<u64> = whole(|step| step.mean_ns);
        data.insert("bw_mean".to_owned(), json!(mean(|step| step.bytes_per_s) as u64));
        data.insert("iops_mean".to_owned(), json!(mean(|step| step.iops) as u64));
        if self.figure == Figure::Latency {
            data.insert("lat_mean".to_owned(), json!(mean(|step| step.mean_ns) as u64));
            data.insert("lat_ns".to_owned(), json!(mean_ns));
        }
        data.insert("iops".to_owned(), json!(iops));
        data.insert("bw".to_owned(), json!(bytes_per_s));
        let by = if self.by_slope { "_slope" } else { "" };
        json!({
            "ss": format!("{}{by}:{:.6}%", self.figure.name(), self.within * 100.0),
            "duration": (self.duration_ns + 500_000_000) / 1_000_000_000,
            "attained": u8::from(self.is_attained),
            "criterion": format!("{:.6}%", criterion * 100.0),
            "max_deviation": deviation,
            "slope": slope,
            "data": data,
        })
    }
}

/// A steady state rule that may end a job.
pub(super) struct Rule {
    figure: Figure,
    by_slope: bool,
    /// Limit for the deviation or slope, in % of the mean, as written in the workload.
    within: String,
    /// Length of the window in which the rate or latency must be steady, ns.
    pub(super) window_ns: u64,
    /// Time from the start of the job to the first window, ns.
    pub(super) after_ns: u64,
}

impl Rule {
    /// Reads a rule from a workload's `limits.steady`; None if there is none, or it can't be read.
    pub(super) fn of(rule: &Value) -> Option<Self> {
        let text = |key: &str| rule[key].as_str();
        let duration_ns = |key: &str| text(key).and_then(|text| parse_duration_ns(text).ok());
        Some(Self {
            figure: match text("of")? {
                "bandwidth" => Figure::Bandwidth,
                "latency" => Figure::Latency,
                _ => Figure::Iops,
            },
            by_slope: text("by") == Some("slope"),
            within: text("within")?.to_owned(),
            window_ns: duration_ns("window")?,
            after_ns: duration_ns("after").unwrap_or(0),
        })
    }

    /// Formats the rule for fio's option `steadystate`: quantity and limit.
    pub(super) fn limit(&self) -> String {
        let by = if self.by_slope { "_slope" } else { "" };
        format!("{}{by}:{}", self.figure.name(), self.within)
    }
}

/// Returns fio's object `steadystate` for a cell whose job may end early by `rule`; None if the limit can't
/// be read.
pub(super) fn of_cell(cell: &Cell, rule: &Rule) -> Option<Value> {
    let within = parse_percent(&rule.within).ok()?;
    let steps = Steps::new(cell.interval_ns, rule.after_ns);
    let count = steps.of_window(rule.window_ns);
    let mut window = Window {
        figure: rule.figure,
        by_slope: rule.by_slope,
        within,
        duration_ns: rule.window_ns,
        is_attained: false,
        steps: steps.last(&cell.series, steps.complete(cell.window_ns), count),
    };
    // fio does not judge before a window is complete.
    let found = Excursion::of(&window.values()).filter(|_| window.steps.len() == count);
    let (deviation, slope, mean) = match found {
        None => (0.0, 0.0, 1.0),
        Some(found) if window.by_slope => (0.0, found.slope, found.mean),
        Some(found) => (found.deviation, 0.0, found.mean),
    };
    let criterion = if window.by_slope { slope } else { deviation } / mean;
    // The job may have ended for another reason.
    window.is_attained =
        cell.ended == Ended::Settled && found.is_some() && criterion.abs() < within;
    Some(window.json(criterion, deviation, slope))
}

/// Returns fio's objects `steadystate` for the cells that the method tracks. Each object is assigned to the index of
/// the cell in its stage's last round, and has one sample per round.
pub(super) fn of_method(run: &Run) -> Vec<(usize, Value)> {
    let Some(findings) = method::findings_of(run) else { return Vec::new() };
    let mut all = Vec::new();
    for (subject, stages) in findings.subjects.iter().map(|s| &s.stages).enumerate() {
        for (stage, finding) in stages.iter().enumerate() {
            if let Some(Showed::Rounds(rounds)) = &finding.showed {
                all.extend(of_rounds(run, subject as u32, stage as u32, rounds));
            }
        }
    }
    all
}

fn of_rounds(run: &Run, subject: u32, stage: u32, rounds: &RoundsFinding) -> Vec<(usize, Value)> {
    let Some(steady) = rounds.steady.as_ref().filter(|_| rounds.rounds > 0) else {
        return Vec::new();
    };
    let limits = steady.limits;
    let mut all = Vec::new();
    for variable in &rounds.variables {
        let is_of = |cell: &Cell| {
            cell.key.place.as_ref().is_some_and(|place| {
                (place.subject, place.stage) == (subject, stage)
                    && place.role == Role::Measure
                    && place.index as usize == variable.point
                    && place.round + 1 >= rounds.window_first
                    && place.round < rounds.rounds
            })
        };
        let is_last = |cell: &Cell| {
            cell.key.place.as_ref().is_some_and(|place| place.round + 1 == rounds.rounds)
        };
        for (number, cell) in run.cells.iter().enumerate().filter(|(_, c)| is_of(c) && is_last(c)) {
            let window = run.cells.iter().filter(|other| {
                is_of(other)
                    && other.key.target == cell.key.target
                    && other.key.name == cell.key.name
            });
            let window: Vec<&Cell> = window.collect();
            all.push((number, of_window(&window, variable.quantity, &limits, rounds)));
        }
    }
    all
}

/// Returns fio's object `steadystate` for a tracked quantity. `cells` has one cell per round of the window.
fn of_window(
    cells: &[&Cell],
    quantity: Quantity,
    limits: &SteadyLimits,
    rounds: &RoundsFinding,
) -> Value {
    let step = |cell: &&Cell| {
        let total = cell.total();
        let step = Step::of(&total, cell.window_ns);
        let tail_ns = match quantity {
            Quantity::Quantile(q) => total.response_time().quantile_ns(q),
            Quantity::Max => total.response_time().max_ns(),
            _ => None,
        };
        Step { mean_ns: tail_ns.map_or(step.mean_ns, |ns| ns as f64), ..step }
    };
    let window = Window {
        figure: match quantity {
            Quantity::Iops => Figure::Iops,
            Quantity::Bandwidth => Figure::Bandwidth,
            _ => Figure::Latency,
        },
        by_slope: false,
        within: limits.range_share_max,
        duration_ns: cells.iter().map(|cell| cell.window_ns).sum(),
        is_attained: rounds.reached(),
        steps: cells.iter().map(step).collect(),
    };
    let values = window.values();
    let range = values.iter().copied().fold(0.0, f64::max)
        - values.iter().copied().fold(f64::INFINITY, f64::min);
    let found = Excursion::of(&values);
    let mean = found.map_or(1.0, |found| found.mean);
    let slope = found.map_or(0.0, |found| found.slope);
    let mut out = window.json(
        found.map_or(0.0, |_| range / mean),
        found.map_or(0.0, |found| found.deviation),
        slope,
    );
    out["iodyno"] = json!({
        "each_value": "a round",
        "rounds": [rounds.window_first, rounds.rounds],
        "limits": rounds.limits,
        "range_percent": found.map(|_| range / mean * 100.0),
        "slope_percent": found.map(|_| slope.abs() * (values.len() as f64 - 1.0) / mean * 100.0),
    });
    out
}
