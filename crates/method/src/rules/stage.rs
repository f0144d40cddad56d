//! One stage: its act, its grid, its limits.

use super::{Defaults, active_range, wrong, wrong_because};
use crate::axis::AxisKind;
use crate::grid::{Grid, Order};
use crate::raw::{Given, RawBefore, RawStage, Text, Texts};
use crate::stage::{Act, Ceiling, Cells, Fill, Points, Rounds, Series, Stage, Track, Which};
use iodyno_measure::metric::{NoMetric, Quantity};
use iodyno_measure::statistics::steady::SteadyLimits;
use iodyno_units::{Precondition, nearest, parse_duration_ns, parse_percent};
use iodyno_workload::{Block, Percent, Spec, SpecError};
use serde_spanned::Spanned;
use std::collections::BTreeMap;

/// The same in sequence.
pub(super) const PLAIN_SEQUENTIAL: &str = "schema = 1\nblock = \"128KiB\"\nmix = { read = 1, write = 1 }\n[all]\naddresses = \"sequential\"\n[limits]\ntime = \"60s\"\nramp = \"0s\"";
/// Samples of a series at most: a day of seconds.
const SAMPLES_MAX: i64 = 86_400;
const ACTS: [&str; 7] = ["purge", "fill", "wait", "cells", "rounds", "series", "points"];

pub(super) fn stage(
    raw: &RawStage,
    defaults: &Defaults,
    before: &[Stage],
) -> Result<Stage, SpecError> {
    let verb = raw.act.get_ref().as_str();
    let reader = Reader { raw, defaults, before };
    if ACTS.contains(&verb) {
        only_known_keys(raw, verb)?;
    }
    let act = match verb {
        "purge" => Act::Purge,
        "fill" => reader.fill()?,
        "wait" => Act::Wait { ns: reader.time(raw.time.as_ref(), "time")? },
        "cells" => reader.cells()?,
        "rounds" => reader.rounds()?,
        "series" => reader.series()?,
        "points" => reader.points()?,
        other => {
            let near = nearest(other, ACTS).map_or(String::new(), |n| format!("; `{n}` is near"));
            let message = format!("a stage can't `{other}`");
            let help = format!("it can {}{near}", ACTS.join(", "));
            return Err(wrong_because(raw.act.span(), message, help));
        }
    };
    let name = raw.name.as_ref().map_or_else(
        || {
            let alike = before.iter().filter(|s| s.name.starts_with(verb)).count();
            if alike == 0 { verb.to_owned() } else { format!("{verb}-{}", alike + 1) }
        },
        |name| name.get_ref().clone(),
    );
    Ok(Stage { name, act })
}

/// A key that has no meaning in a stage is a mistake: what it was meant to do would not happen.
fn only_known_keys(raw: &RawStage, verb: &str) -> Result<(), SpecError> {
    const GRID: &str = "io addresses active state workload read block threads depth rate think targets fill time ramp of";
    let of_act = match verb {
        "fill" => "block threads depth active passes",
        "wait" => "time",
        "cells" => "GRID order repeats settle ceiling",
        "rounds" => "GRID settle rounds window range slope track before ceiling",
        "series" => "GRID samples wait fills steady_every window range slope",
        "points" => "of choose time before ceiling",
        _ => "",
    };
    let mut given: Vec<(&str, core::ops::Range<usize>)> = Vec::new();
    macro_rules! note {
        ($($key:ident),+) => { $(if let Some(value) = &raw.$key { given.push((stringify!($key), value.span())); })+ };
    }
    note!(
        io, addresses, active, state, workload, read, block, threads, depth, rate, think, targets,
        fill
    );
    note!(
        time, ramp, order, repeats, passes, rounds, window, range, slope, before, samples, wait,
        fills
    );
    note!(steady_every, of, choose, settle);
    given.extend(raw.track.first().map(|track| ("track", track.span())));
    given.extend(raw.ceiling.values().next().map(|ceiling| ("ceiling", ceiling.span())));
    let known = |key: &str| {
        of_act.split(' ').any(|k| k == key)
            || of_act.starts_with("GRID") && GRID.split(' ').any(|k| k == key)
    };
    match given.into_iter().find(|(key, _)| !known(key)) {
        None => Ok(()),
        Some((key, span)) => {
            let message = format!("`{key}` has no effect in a stage that does `{verb}`");
            Err(wrong_because(
                span,
                message,
                "take it out, or move it to the stage that it is meant for",
            ))
        }
    }
}

pub(super) struct Reader<'a> {
    pub(super) raw: &'a RawStage,
    pub(super) defaults: &'a Defaults,
    pub(super) before: &'a [Stage],
}

impl Reader<'_> {
    fn missing(&self, key: &str, example: &str) -> SpecError {
        let message = format!("`{key}` is missing");
        wrong_because(
            self.raw.act.span(),
            message,
            format!("say, for example, `{key} = {example}`"),
        )
    }

    /// A duration, scaled.
    fn time(&self, given: Option<&Spanned<String>>, key: &str) -> Result<u64, SpecError> {
        let given = given.ok_or_else(|| self.missing(key, "\"60s\""))?;
        let ns =
            parse_duration_ns(given.get_ref()).map_err(|e| wrong(given.span(), e.to_string()))?;
        if ns == 0 {
            return Err(wrong(given.span(), "a time is above 0"));
        }
        Ok(((ns as f64 * self.defaults.scale) as u64).max(1))
    }

    fn whole(
        given: Option<&Spanned<i64>>,
        least: i64,
        most: i64,
    ) -> Result<Option<u32>, SpecError> {
        let Some(given) = given else { return Ok(None) };
        let n = *given.get_ref();
        if !(least..=most).contains(&n) {
            return Err(wrong(given.span(), format!("expected {least} to {most}")));
        }
        Ok(Some(n as u32))
    }

    pub(super) fn earlier(&self, name: &Spanned<String>) -> Result<usize, SpecError> {
        let found = self.before.iter().position(|stage| stage.name == *name.get_ref());
        match found.map(|i| (i, &self.before[i].act)) {
            Some((i, Act::Cells(_) | Act::Rounds(_))) => Ok(i),
            Some(_) => Err(wrong(name.span(), format!("`{}` measures no grid", name.get_ref()))),
            None => {
                let names: Vec<&str> = self.before.iter().map(|s| s.name.as_str()).collect();
                let message = format!("no stage before this one is called `{}`", name.get_ref());
                Err(wrong_because(name.span(), message, format!("there are {}", names.join(", "))))
            }
        }
    }

    fn ceilings(&self) -> Result<Vec<Ceiling>, SpecError> {
        let one = |(name, given): (&String, &Spanned<String>)| {
            let of: Quantity =
                name.parse().map_err(|e: NoMetric| wrong(given.span(), e.to_string()))?;
            if !of.is_latency() {
                return Err(wrong(
                    given.span(),
                    format!("a ceiling is over a latency, and {name} is none"),
                ));
            }
            let ns = parse_duration_ns(given.get_ref())
                .map_err(|e| wrong(given.span(), e.to_string()))?;
            if ns == 0 {
                return Err(wrong(
                    given.span(),
                    format!("a ceiling of 0 for {name} holds for no point: give a time above 0"),
                ));
            }
            Ok(Ceiling { of, ns })
        };
        self.raw.ceiling.iter().map(one).collect()
    }

    fn limits(&self) -> Result<SteadyLimits, SpecError> {
        let raw = self.raw;
        let mut limits = SteadyLimits::PTS;
        if let Some(n) = Self::whole(raw.window.as_ref(), 2, 1000)? {
            limits.window_rounds = n;
        }
        if let Some(n) = Self::whole(raw.rounds.as_ref(), 2, 10_000)? {
            limits.rounds_max = n;
        }
        let share = |given: &Given<String>| -> Result<Option<f64>, SpecError> {
            let Some(given) = given else { return Ok(None) };
            let share =
                parse_percent(given.get_ref()).map_err(|e| wrong(given.span(), e.to_string()))?;
            if share > 0.0 {
                Ok(Some(share))
            } else {
                Err(wrong(given.span(), "a limit is above 0 %"))
            }
        };
        if let Some(share) = share(&raw.range)? {
            limits.range_share_max = share;
        }
        if let Some(share) = share(&raw.slope)? {
            limits.slope_share_max = share;
        }
        if limits.rounds_max < limits.window_rounds {
            let at = raw.rounds.as_ref().or(raw.window.as_ref()).map_or(0..0, Spanned::span);
            return Err(wrong(at, "there are fewer rounds than a window has"));
        }
        Ok(limits)
    }

    fn before(&self) -> Result<Option<(Spec, u64)>, SpecError> {
        let Some(given) = &self.raw.before else { return Ok(None) };
        let RawBefore { time, read, block, threads, depth } = given.get_ref();
        let ns = self.time(Some(time), "time")?;
        let mut spec = self.base()?.swap_remove(0).1;
        if self.raw.io.is_none() && read.is_none() {
            spec = spec.with_read_share(Percent::ZERO).map_err(|e| wrong(given.span(), e))?;
        }
        let each: [(AxisKind, &Given<Text>); 4] = [
            (AxisKind::Read, read),
            (AxisKind::Block, block),
            (AxisKind::Threads, threads),
            (AxisKind::Depth, depth),
        ];
        for (kind, given) in each {
            let Some(given) = given else { continue };
            let value = kind.value(&given.get_ref().0).map_err(|e| wrong(given.span(), e))?;
            spec = crate::axis::applied(spec, kind, &value).map_err(|e| wrong(given.span(), e))?;
        }
        let spec = spec.with_time(ns).map_err(|e| wrong(given.span(), e))?;
        Ok(Some((spec, ns)))
    }

    fn fill(&self) -> Result<Act, SpecError> {
        let raw = self.raw;
        let at = raw.act.span();
        // What can be proven afterwards: a map counts to three.
        let passes = Self::whole(raw.passes.as_ref(), 1, 3)?.unwrap_or(2) as u8;
        let first =
            |given: &Given<Texts>| -> Result<Option<(String, core::ops::Range<usize>)>, SpecError> {
                let Some(given) = given else { return Ok(None) };
                match given.get_ref().values.as_slice() {
                    [one] => Ok(Some((one.0.clone(), given.span()))),
                    _ => Err(wrong(given.span(), "a fill has one value here")),
                }
            };
        let spec = Spec::from_toml(PLAIN_SEQUENTIAL);
        let mut spec = spec.map_err(|_| wrong(at.clone(), "no workload"))?;
        spec = spec.with_read_share(Percent::ZERO).map_err(|e| wrong(at.clone(), e))?;
        spec = spec.with_threads(self.defaults.threads).map_err(|e| wrong(at.clone(), e))?;
        spec = spec.with_depth(self.defaults.depth).map_err(|e| wrong(at.clone(), e))?;
        let each = [
            (AxisKind::Block, &raw.block),
            (AxisKind::Threads, &raw.threads),
            (AxisKind::Depth, &raw.depth),
        ];
        for (kind, given) in each {
            if let Some((text, span)) = first(given)? {
                let value = kind.value(&text).map_err(|e| wrong(span.clone(), e))?;
                spec = crate::axis::applied(spec, kind, &value).map_err(|e| wrong(span, e))?;
            }
        }
        let block_bytes = spec.max_data_bytes();
        spec = spec
            .with_block(vec![Block { bytes: block_bytes, share: 1.0 }])
            .map_err(|e| wrong(at.clone(), e))?;
        let active = match &raw.active {
            Some(given) => Some(active_range(given)?),
            None => self.defaults.active,
        };
        if let Some(active) = active {
            spec = spec.with_active(active).map_err(|e| wrong(at, e))?;
        }
        Ok(Act::Fill(Fill { spec, passes }))
    }

    fn cells(&self) -> Result<Act, SpecError> {
        let time_ns = self.time(self.raw.time.as_ref(), "time")?;
        let order = match self.raw.order.as_ref().map(|o| (o.get_ref().as_str(), o.span())) {
            None | Some(("given", _)) => Order::Given,
            Some(("random", _)) => Order::Random,
            Some(("abba", _)) => Order::Abba,
            Some((other, span)) => {
                let help = "`given`, `random` (seeded) or `abba` (there and back)";
                return Err(wrong_because(span, format!("unknown order `{other}`"), help));
            }
        };
        let repeats = Self::whole(self.raw.repeats.as_ref(), 1, 1000)?.unwrap_or(1);
        Ok(Act::Cells(Cells {
            grid: self.grid(time_ns, Precondition::Workload)?,
            order,
            repeats,
            ceilings: self.ceilings()?,
        }))
    }

    fn rounds(&self) -> Result<Act, SpecError> {
        let time_ns = self.time(self.raw.time.as_ref(), "time")?;
        let grid = self.grid(time_ns, Precondition::Workload)?;
        if self.raw.track.is_empty() {
            return Err(
                self.missing("track", "[{ read = \"0%\", block = \"4KiB\", measure = \"iops\" }]")
            );
        }
        let track = self.raw.track.iter().map(|t| track(&grid, t)).collect::<Result<_, _>>()?;
        Ok(Act::Rounds(Rounds {
            grid,
            before: self.before()?,
            track,
            limits: self.limits()?,
            ceilings: self.ceilings()?,
        }))
    }

    fn series(&self) -> Result<Act, SpecError> {
        let raw = self.raw;
        let time_ns = self.time(raw.time.as_ref(), "time")?;
        let grid = self.grid(time_ns, Precondition::Carried)?;
        if grid.len() != 1 {
            return Err(wrong(
                raw.act.span(),
                "a series is of one workload: give one value on each axis",
            ));
        }
        let samples_max = Self::whole(raw.samples.as_ref(), 1, SAMPLES_MAX)?
            .ok_or_else(|| self.missing("samples", "60"))?;
        let wait_ns = match &raw.wait {
            Some(_) => self.time(raw.wait.as_ref(), "wait")?,
            None => 0,
        };
        let fills_max = match &raw.fills {
            Some(given) if *given.get_ref() > 0.0 => Some(*given.get_ref()),
            Some(given) => return Err(wrong(given.span(), "`fills` is above 0")),
            None => None,
        };
        Ok(Act::Series(Series {
            grid,
            samples_max,
            wait_ns,
            fills_max,
            steady_every: Self::whole(raw.steady_every.as_ref(), 1, 1000)?,
            limits: self.limits()?,
        }))
    }

    fn points(&self) -> Result<Act, SpecError> {
        let raw = self.raw;
        let of = raw.of.as_ref().ok_or_else(|| self.missing("of", "\"a stage before\""))?;
        let of = self.earlier(of)?;
        let given = raw.choose.as_ref().ok_or_else(|| self.missing("choose", "[\"optimal\"]"))?;
        let which = |text: &Text| {
            [Which::Max, Which::Optimal, Which::Mid, Which::Min]
                .into_iter()
                .find(|w| w.name() == text.0)
                .ok_or_else(|| {
                    let message = format!("no point is called `{}`", text.0);
                    wrong_because(given.span(), message, "there are max, optimal, mid and min")
                })
        };
        let choose = given.get_ref().values.iter().map(which).collect::<Result<Vec<_>, _>>()?;
        if choose.is_empty() {
            return Err(wrong(given.span(), "the list is empty"));
        }
        let mut ceilings = self.ceilings()?;
        if ceilings.is_empty() {
            match &self.before[of].act {
                Act::Cells(cells) => ceilings.clone_from(&cells.ceilings),
                Act::Rounds(rounds) => ceilings.clone_from(&rounds.ceilings),
                _ => {}
            }
        }
        let time_ns = self.time(raw.time.as_ref(), "time")?;
        Ok(Act::Points(Points { of, choose, ceilings, time_ns, before: self.before()? }))
    }
}

/// A tracking variable: the point with these values, and which figure of it.
fn track(
    grid: &Grid,
    given: &Spanned<BTreeMap<String, Spanned<Text>>>,
) -> Result<Track, SpecError> {
    let mut quantity = Quantity::Iops;
    let mut wanted: Vec<(AxisKind, crate::axis::Value)> = Vec::new();
    for (key, value) in given.get_ref() {
        if key == "measure" {
            quantity = value
                .get_ref()
                .0
                .parse()
                .map_err(|e: NoMetric| wrong(value.span(), e.to_string()))?;
            continue;
        }
        let kind = AxisKind::ALL.into_iter().find(|kind| kind.name() == key);
        let Some(kind) = kind.filter(|k| grid.axes.iter().any(|axis| axis.kind == *k)) else {
            let axes: Vec<&str> = grid.axes.iter().map(|axis| axis.kind.name()).collect();
            let help = format!("the axes are {}, and `measure` says which figure", axes.join(", "));
            return Err(wrong_because(
                value.span(),
                format!("`{key}` is no axis of this stage"),
                help,
            ));
        };
        let parsed = kind.value(&value.get_ref().0).map_err(|e| wrong(value.span(), e))?;
        wanted.push((kind, parsed));
    }
    let mut found = None;
    for index in 0..grid.len() {
        let point = grid.point(index).map_err(|e| wrong(given.span(), e))?;
        let fits = wanted.iter().all(|(kind, value)| {
            let place = grid.axes.iter().position(|axis| axis.kind == *kind);
            place.is_some_and(|i| grid.axes[i].values[point.at[i]] == *value)
        });
        if fits {
            if found.is_some() {
                let help = "name a value on every axis";
                return Err(wrong_because(given.span(), "several cells fit this", help));
            }
            found = Some((index, point.name));
        }
    }
    let Some((point, name)) = found else {
        return Err(wrong(given.span(), "no cell of this stage has these values"));
    };
    Ok(Track { point, quantity, name: format!("{quantity} of {name}") })
}
