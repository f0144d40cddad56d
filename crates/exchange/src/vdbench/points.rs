//! The combinations of a run's `for…` lists and I/O rates.

use super::MAX_GROUPS;
use super::parameters::{Kind, Parameter, Value};
use super::run::{Reading, canonical, first};

/// One combination of a run's lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    /// The list's parameter, and the value of it.
    pub(super) at: Vec<(&'static str, Value)>,
    /// None: as fast as possible.
    pub(super) rate: Option<Value>,
}

impl Reading<'_, '_> {
    /// The values of a list: as they stand, or from a range `(100-1000,100)`, or `(1-64,d)`, which doubles.
    fn expanded(&mut self, parameter: &Parameter) -> Vec<Value> {
        let values = &parameter.values;
        let [range, step] = values.as_slice() else { return values.clone() };
        let Some((from, to)) = range.text.split_once('-').filter(|(from, _)| !from.is_empty())
        else {
            return values.clone();
        };
        let value = |text: &str| Value { text: text.to_owned(), span: range.span.clone() };
        let (Some(mut at), Some(to)) = (self.whole(&value(from)), self.whole(&value(to))) else {
            return Vec::new();
        };
        let doubles = step.text == "d";
        let by = if doubles { Some(0) } else { self.whole(step) };
        let Some(by) = by.filter(|by| doubles || *by > 0) else {
            self.found.refuse(&step.span, "the step is above 0", "");
            return Vec::new();
        };
        let mut all = Vec::new();
        while at <= to && all.len() <= MAX_GROUPS {
            all.push(value(&at.to_string()));
            let next = if doubles { at.saturating_mul(2) } else { at.saturating_add(by) };
            if next <= at {
                break;
            }
            at = next;
        }
        all
    }

    /// All combinations of the run's lists, in the order in which they stand, with each rate.
    pub(super) fn points(&mut self) -> Vec<Point> {
        let mut points = vec![Point::default()];
        let mut rates = None;
        for parameter in &self.run.parameters {
            match canonical(Kind::Run, &parameter.key) {
                Some(key @ ("xfersize" | "threads" | "rdpct" | "seekpct" | "compratio")) => {
                    let values = self.expanded(parameter);
                    points = self.times(&points, parameter, |point| {
                        let with = |value: &Value| {
                            let mut more = point.clone();
                            more.at.retain(|(k, _)| *k != key);
                            more.at.push((key, value.clone()));
                            more
                        };
                        values.iter().map(with).collect()
                    });
                }
                Some("iorate") => rates = Some(parameter),
                _ => {}
            }
        }
        let Some(parameter) = rates else {
            let words = "the run has no I/O rate";
            self.found.refuse(&self.run.span, words, "write `iorate=max`, or `iorate=1000`");
            return Vec::new();
        };
        match first(parameter) {
            "max" if parameter.values.len() == 1 => points,
            "curve" => {
                let words = "a curve can't be honoured: its rates are shares of a maximum that is measured first";
                let help = "give iorate=max, or rates; `iodyno run load-latency` draws a curve";
                self.found.refuse(&parameter.span, words, help);
                Vec::new()
            }
            _ => {
                let values = self.expanded(parameter);
                for value in &values {
                    let is_above = self.number(value).is_some_and(|rate| rate > 0.0);
                    if !is_above {
                        self.found.refuse(&value.span, "a rate is above 0", "");
                    }
                }
                self.times(&points, parameter, |point| {
                    let with = |value: &Value| Point { rate: Some(value.clone()), ..point.clone() };
                    values.iter().map(with).collect()
                })
            }
        }
    }

    fn times(
        &mut self,
        points: &[Point],
        parameter: &Parameter,
        with: impl Fn(&Point) -> Vec<Point>,
    ) -> Vec<Point> {
        let mut all = Vec::new();
        for point in points {
            all.extend(with(point));
            if all.len() > MAX_GROUPS {
                let words = format!("the run has more than {MAX_GROUPS} combinations");
                self.found.refuse(&parameter.span, words, "shorten its lists");
                return Vec::new();
            }
        }
        all
    }
}
