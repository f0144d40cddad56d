//! Lists the combinations of a vdbench run's `for…` lists and I/O rates.

use super::MAX_GROUPS;
use super::case::Point;
use super::parameters::{Kind, Parameter, Value};
use super::run::{Reading, canonical, first};

impl Reading<'_, '_> {
    /// Expands the ranges in a list of values: `100-1000,100` with a step, `1-64,d` or `64-1,d` by doubling or
    /// halving. As in vdbench (`Var_parms`), a list can contain several ranges, and a descending range with a
    /// step is only its first value.
    fn expanded(&mut self, parameter: &Parameter) -> Vec<Value> {
        let mut all = Vec::new();
        let mut values = parameter.values.iter();
        while let Some(value) = values.next() {
            let range = value.text.split_once('-').filter(|(from, _)| !from.is_empty());
            let Some((from, to)) = range else {
                all.push(value.clone());
                continue;
            };
            let end = |text: &str| Value { text: text.to_owned(), span: value.span.clone() };
            let (Some(from), Some(to)) = (self.number(&end(from)), self.number(&end(to))) else {
                return Vec::new();
            };
            let Some(numbers) = self.range(value, from, to, values.next()) else {
                return Vec::new();
            };
            all.extend(numbers.into_iter().map(|number| end(&number.to_string())));
        }
        all
    }

    /// Numbers in the range from `from` to `to`, with `step` between them. Stops when there are more numbers than a
    /// file may have groups. None if the step is refused.
    fn range(
        &mut self,
        value: &Value,
        from: f64,
        to: f64,
        step: Option<&Value>,
    ) -> Option<Vec<f64>> {
        let by = match step.map(|step| step.text.as_str()) {
            Some("d") if from <= 0.0 || to <= 0.0 => {
                let words = format!("the range `{}` doubles or halves forever", value.text);
                self.found.refuse(&value.span, words, "begin and end it above 0");
                return None;
            }
            Some("d") => None,
            _ => {
                let by = step.and_then(|step| self.number(step)).filter(|by| *by > 0.0);
                if by.is_none() {
                    let words = format!("the range `{}` has no step above 0", value.text);
                    let help = "give the step after the range, as in (1-8,1), or d for doubling, as in (1-8,d)";
                    self.found.refuse(&value.span, words, help);
                    return None;
                }
                by
            }
        };
        if by.is_some() && from > to {
            let words = format!(
                "the range `{}` descends with a fixed step, so vdbench uses only its first value; only a range with the step `d` (halving) can descend",
                value.text
            );
            self.found.note(&value.span, words);
        }
        let goes_on = |number: f64| match by {
            None if from >= to => number >= to,
            _ => number <= to,
        };
        let mut all = vec![from];
        let mut at = from;
        loop {
            at = match by {
                Some(by) => at + by,
                None if from < to => at * 2.0,
                None => at / 2.0,
            };
            if !goes_on(at) || all.len() > MAX_GROUPS {
                return Some(all);
            }
            all.push(at);
        }
    }

    /// Returns all combinations of the values in the run's lists, each with every rate, in the order of the
    /// lists.
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
            self.found.refuse(&self.run.span, words, "set `iorate=max`, or `iorate=1000`");
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
                        self.found.refuse(&value.span, "a rate must be above 0", "");
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
