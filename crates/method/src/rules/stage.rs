//! One stage: its act, its grid, its limits.

use super::{Defaults, active_range, wrong, wrong_because};
use crate::act::{Act, Ceiling, Cells, Fill, Points, Rounds, Series, Stage, Track, Which};
use crate::axis::{Axis, AxisKind};
use crate::grid::{Grid, Order, StateWish};
use crate::raw::{Given, RawBefore, RawStage, Text, Texts};
use iodyno_measure::metric::{NoMetric, Quantity};
use iodyno_measure::statistics::steady::SteadyLimits;
use iodyno_units::{nearest, parse_duration_ns, parse_percent};
use iodyno_workload::{Block, Percent, Spec, SpecError};
use serde_spanned::Spanned;
use std::collections::BTreeMap;

/// What a stage issues where it says nothing: single blocks anywhere.
const PLAIN: &str = "schema = 1\nblock = \"4KiB\"\nmix = { read = 1, write = 1 }\n[all]\naddresses = \"uniform\"\n[limits]\ntime = \"60s\"\nramp = \"0s\"";
/// The same in sequence.
const PLAIN_SEQUENTIAL: &str = "schema = 1\nblock = \"128KiB\"\nmix = { read = 1, write = 1 }\n[all]\naddresses = \"sequential\"\n[limits]\ntime = \"60s\"\nramp = \"0s\"";
/// Samples of a series at most: a day of seconds.
const SAMPLES_MAX: i64 = 86_400;
/// Points of a grid at most.
const POINTS_MAX: usize = 20_000;

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

struct Reader<'a> {
    raw: &'a RawStage,
    defaults: &'a Defaults,
    before: &'a [Stage],
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

    /// What is issued before the axes are laid over it.
    fn base(&self) -> Result<Vec<(String, Spec)>, SpecError> {
        let raw = self.raw;
        let mut all = match (&raw.workload, &raw.io, &raw.addresses) {
            (Some(_), Some(other), _) => {
                return Err(wrong(
                    other.span(),
                    "`io` and `workload` both say what is issued: keep one",
                ));
            }
            (Some(_), _, Some(other)) | (None, Some(_), Some(other)) => {
                return Err(wrong(
                    other.span(),
                    "the workload says how addresses are chosen: take this out",
                ));
            }
            (Some(named), None, None) => {
                let mut all = Vec::new();
                for name in &named.get_ref().values {
                    let found = self.defaults.workloads.get(&name.0).ok_or_else(|| {
                        wrong(named.span(), format!("there is no workload `{}`", name.0))
                    })?;
                    all.extend(found.iter().cloned());
                }
                all
            }
            (None, Some(io), None) => {
                let mut table = io.get_ref().clone();
                table.entry("schema").or_insert(toml::Value::Integer(1));
                let spec = Spec::from_toml(&table.to_string()).map_err(|errors| {
                    let first = errors.into_iter().next();
                    let (message, help) =
                        first.map_or((String::new(), None), |e| (e.message, e.help));
                    SpecError { span: io.span(), message, help }
                })?;
                vec![("io".to_owned(), spec)]
            }
            (None, None, addresses) => {
                let (name, text) = match addresses.as_ref().map(|a| a.get_ref().as_str()) {
                    None | Some("random") => ("random", PLAIN),
                    Some("sequential") => ("sequential", PLAIN_SEQUENTIAL),
                    Some(other) => {
                        let at = addresses.as_ref().map_or(0..0, Spanned::span);
                        let help = "`random` or `sequential`; others in a table `io`".to_owned();
                        return Err(wrong_because(
                            at,
                            format!("unknown addresses `{other}`"),
                            help,
                        ));
                    }
                };
                let spec = Spec::from_toml(text).map_err(|errors| {
                    errors.into_iter().next().unwrap_or_else(|| wrong(0..0, "no workload"))
                })?;
                vec![(name.to_owned(), spec)]
            }
        };
        let at = raw.act.span();
        let named = raw.workload.is_some();
        let active = match &raw.active {
            Some(given) => Some(active_range(given)?),
            None => self.defaults.active,
        };
        for (_, spec) in &mut all {
            let mut changed = spec.clone();
            // A workload of the catalog has its own threads and depth.
            if !named && raw.io.is_none() {
                changed = changed
                    .with_threads(self.defaults.threads)
                    .map_err(|e| wrong(at.clone(), e))?;
                changed =
                    changed.with_depth(self.defaults.depth).map_err(|e| wrong(at.clone(), e))?;
            }
            if let Some(active) = active {
                changed = changed.with_active(active).map_err(|e| wrong(at.clone(), e))?;
            }
            *spec = changed;
        }
        Ok(all)
    }

    /// The workload over its axes.
    fn grid(&self, time_ns: u64, state: StateWish) -> Result<Grid, SpecError> {
        let raw = self.raw;
        let mut base = self.base()?;
        let given: [(AxisKind, &Given<Texts>); 8] = [
            (AxisKind::Read, &raw.read),
            (AxisKind::Block, &raw.block),
            (AxisKind::Threads, &raw.threads),
            (AxisKind::Depth, &raw.depth),
            (AxisKind::Rate, &raw.rate),
            (AxisKind::Think, &raw.think),
            (AxisKind::Targets, &raw.targets),
            (AxisKind::Fill, &raw.fill),
        ];
        // As they stand in the file, the outermost first: in SNIA's tests their nesting is normative.
        let mut listed: Vec<(AxisKind, &Spanned<Texts>)> =
            given.iter().filter_map(|(kind, g)| g.as_ref().map(|g| (*kind, g))).collect();
        listed.sort_by_key(|(_, g)| g.span().start);
        let mut axes = Vec::new();
        if base.len() > 1 {
            let values = base.iter().map(|(name, _)| crate::axis::Value::Name(name.clone()));
            let axis = Axis { kind: AxisKind::Workload, values: values.collect() };
            let first = raw.workload.as_ref().map_or(0, |w| w.span().start);
            let place = listed.iter().filter(|(_, g)| g.span().start < first).count();
            axes.push((place, axis));
        }
        let mut all = Vec::new();
        for (kind, texts) in listed {
            let values = texts.get_ref().values.iter().map(|text| kind.value(&text.0));
            let values =
                values.collect::<Result<Vec<_>, _>>().map_err(|e| wrong(texts.span(), e))?;
            if values.is_empty() {
                return Err(wrong(texts.span(), "the list is empty"));
            }
            let is_axis = texts.get_ref().is_list
                || matches!(kind, AxisKind::Targets | AxisKind::Fill | AxisKind::Rate);
            if is_axis {
                all.push(Axis { kind, values });
                continue;
            }
            for (_, spec) in &mut base {
                let changed = crate::axis::applied(spec.clone(), kind, &values[0]);
                *spec = changed.map_err(|e| wrong(texts.span(), e))?;
            }
        }
        for (place, axis) in axes {
            all.insert(place.min(all.len()), axis);
        }
        if let Some(ramp) = &raw.ramp {
            let ns =
                parse_duration_ns(ramp.get_ref()).map_err(|e| wrong(ramp.span(), e.to_string()))?;
            let ns = (ns as f64 * self.defaults.scale) as u64;
            for (_, spec) in &mut base {
                *spec = spec.clone().with_ramp(ns).map_err(|e| wrong(ramp.span(), e))?;
            }
        }
        let shares = all
            .iter()
            .any(|axis| axis.values.iter().any(|v| matches!(v, crate::axis::Value::RateShare(_))));
        let rate_of = match (&raw.of, shares) {
            (Some(of), true) => Some(self.earlier(of)?),
            (Some(of), false) => {
                return Err(wrong(
                    of.span(),
                    "`of` says which stage's IOPS are 100 % of a rate, and no rate is a share",
                ));
            }
            (None, true) => {
                let help = "say `of = \"NAME\"`, a stage before this one whose most IOPS is 100 %";
                let at = raw.rate.as_ref().map_or(0..0, Spanned::span);
                return Err(wrong_because(at, "a rate in percent needs to know of what", help));
            }
            (None, false) => None,
        };
        let state = match &raw.state {
            None => state,
            Some(given) => match given.get_ref().as_str() {
                "own" => StateWish::Own,
                "fresh" => StateWish::Fresh,
                "carried" => StateWish::Carried,
                other => {
                    let help = "`own` (what the workload makes of the device after long), `fresh`, or `carried` (as the cell before left it)";
                    return Err(wrong_because(
                        given.span(),
                        format!("unknown state `{other}`"),
                        help,
                    ));
                }
            },
        };
        let settles = raw.settle.as_ref().is_none_or(|s| *s.get_ref());
        let grid = Grid { base, axes: all, time_ns, state, rate_of, settles };
        let n = grid.len();
        if n > POINTS_MAX {
            return Err(wrong(raw.act.span(), format!("{n} cells are more than {POINTS_MAX}")));
        }
        for index in 0..n {
            grid.point(index).map_err(|e| wrong(raw.act.span(), e))?;
        }
        Ok(grid)
    }

    fn earlier(&self, name: &Spanned<String>) -> Result<usize, SpecError> {
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
            grid: self.grid(time_ns, StateWish::Own)?,
            order,
            repeats,
            ceilings: self.ceilings()?,
        }))
    }

    fn rounds(&self) -> Result<Act, SpecError> {
        let time_ns = self.time(self.raw.time.as_ref(), "time")?;
        let grid = self.grid(time_ns, StateWish::Own)?;
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
        let grid = self.grid(time_ns, StateWish::Carried)?;
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
