//! Conversion of one stage of a method file: its act (kind of stage), its grid and its limits.

use super::{Defaults, active_range, wrong, wrong_because};
use crate::axis::{AxisKind, applied};
use crate::grid::{Grid, Order};
use crate::stage::{Act, Ceiling, Cells, Fill, Points, Rounds, Series, Stage, Track, Which};
use iodyno_catalog::{Entry, FileError, Record};
use iodyno_measure::metric::{NoMetric, Quantity};
use iodyno_measure::statistics::steady::SteadyLimits;
use iodyno_units::Precondition;
use iodyno_workload::{Block, Percent, Spec};

/// Default sequential workload of a stage: reads and writes of 128 KiB, as a workload file.
pub(super) const PLAIN_SEQUENTIAL: &str = "schema = 1\nblock = \"128KiB\"\nmix = { read = 1, write = 1 }\n[all]\naddresses = \"sequential\"\n[limits]\ntime = \"60s\"\nramp = \"0s\"";

pub(super) fn stage(
    raw: &Record,
    defaults: &Defaults,
    before: &[Stage],
) -> Result<Stage, FileError> {
    let verb = raw.word("do").unwrap_or_default();
    let reader = Reader { raw, defaults, before };
    let act = match verb {
        "fill" => reader.fill()?,
        "wait" => Act::Wait { ns: reader.time("time") },
        "cells" => reader.cells()?,
        "rounds" => reader.rounds()?,
        "series" => reader.series()?,
        "points" => reader.points()?,
        _ => Act::Purge,
    };
    let name = raw.text("name").map_or_else(
        || {
            let alike = before.iter().filter(|s| s.name.starts_with(verb)).count();
            if alike == 0 { verb.to_owned() } else { format!("{verb}-{}", alike + 1) }
        },
        str::to_owned,
    );
    Ok(Stage { name, act })
}

pub(super) struct Reader<'a> {
    pub(super) raw: &'a Record,
    pub(super) defaults: &'a Defaults,
    pub(super) before: &'a [Stage],
}

impl Reader<'_> {
    /// Reads the duration under the stage's key `path`, ns. Returns the duration times the operator's factor
    /// (`--scale`), at least 1.
    fn time(&self, path: &str) -> u64 {
        let ns = self.raw.whole(path).unwrap_or(1);
        ((ns as f64 * self.defaults.scale) as u64).max(1)
    }

    fn count(&self, path: &str) -> Option<u32> {
        self.raw.whole(path).map(|count| count as u32)
    }

    /// Index of the earlier grid stage `name`, to which the key `of` refers.
    pub(super) fn earlier(&self, name: &str) -> Result<usize, FileError> {
        let at = self.raw.place("of");
        let found = self.before.iter().position(|stage| stage.name == name);
        match found.map(|i| (i, &self.before[i].act)) {
            Some((i, Act::Cells(_) | Act::Rounds(_))) => Ok(i),
            Some(_) => Err(wrong(at, format!("`{name}` measures no grid"))),
            None => {
                let names: Vec<&str> = self.before.iter().map(|s| s.name.as_str()).collect();
                let message = format!("no stage before this one is called `{name}`");
                Err(wrong_because(at, message, format!("there are {}", names.join(", "))))
            }
        }
    }

    fn ceilings(&self) -> Result<Vec<Ceiling>, FileError> {
        let one = |(name, entry): &(String, Entry)| {
            let at = entry.span.clone();
            Ceiling::new(name, entry.whole().unwrap_or(1)).map_err(|e| wrong(at, e))
        };
        self.raw.get("ceiling").map_or(&[][..], Entry::map).iter().map(one).collect()
    }

    fn limits(&self) -> Result<SteadyLimits, FileError> {
        let mut limits = SteadyLimits::PTS;
        limits.window_rounds = self.count("window").unwrap_or(limits.window_rounds);
        limits.rounds_max = self.count("rounds").unwrap_or(limits.rounds_max);
        for (path, limit) in
            [("range", &mut limits.range_share_max), ("slope", &mut limits.slope_share_max)]
        {
            *limit = self.raw.real(path).unwrap_or(*limit);
            if *limit <= 0.0 {
                return Err(wrong(self.raw.place(path), "a limit must be above 0 %"));
            }
        }
        if limits.rounds_max < limits.window_rounds {
            let key = if self.raw.get("rounds").is_some() { "rounds" } else { "window" };
            return Err(wrong(
                self.raw.place(key),
                "`rounds` must be at least as large as `window`",
            ));
        }
        Ok(limits)
    }

    /// Reads the writes before each round or point of `grid`: the grid's workload, as writes.
    fn before(&self, grid: &Grid) -> Result<Option<(Spec, u64)>, FileError> {
        let raw = self.raw;
        let (Some(_), Some((_, base))) = (raw.get("before"), grid.base.first()) else {
            return Ok(None);
        };
        let at = || raw.place("before");
        let ns = self.time("before.time");
        let mut spec = base.clone();
        if raw.get("io").is_none() && raw.get("before.read").is_none() {
            spec = spec.with_read_share(Percent::ZERO).map_err(|e| wrong(at(), e))?;
        }
        for kind in [AxisKind::Read, AxisKind::Block, AxisKind::Threads, AxisKind::Depth] {
            let path = format!("before.{}", kind.name());
            let Some(text) = raw.text(&path) else { continue };
            let applied = kind.value(text).and_then(|value| applied(spec, kind, &value));
            spec = applied.map_err(|e| wrong(raw.place(&path), e))?;
        }
        // Writes before the window would come on top of the given time.
        let spec = spec.with_time(ns).and_then(|spec| spec.with_ramp(0));
        Ok(Some((spec.map_err(|e| wrong(at(), e))?, ns)))
    }

    fn fill(&self) -> Result<Act, FileError> {
        let raw = self.raw;
        let at = || raw.place("do");
        let spec = Spec::from_toml(PLAIN_SEQUENTIAL);
        let mut spec = spec.map_err(|_| wrong(at(), "no workload"))?;
        spec = spec.with_read_share(Percent::ZERO).map_err(|e| wrong(at(), e))?;
        spec = spec.with_threads(self.defaults.threads).map_err(|e| wrong(at(), e))?;
        spec = spec.with_depth(self.defaults.depth).map_err(|e| wrong(at(), e))?;
        for kind in [AxisKind::Block, AxisKind::Threads, AxisKind::Depth] {
            let Some(given) = raw.get(kind.name()) else { continue };
            let [one] = given.items() else {
                return Err(wrong(given.span.clone(), "a fill takes only one value of this key"));
            };
            let value = kind.value(one.text().unwrap_or_default());
            let applied = value.and_then(|value| applied(spec, kind, &value));
            spec = applied.map_err(|e| wrong(given.span.clone(), e))?;
        }
        let block_bytes = spec.max_data_bytes();
        spec = spec
            .with_block(vec![Block { bytes: block_bytes, share: 1.0 }])
            .map_err(|e| wrong(at(), e))?;
        if let Some(active) = active_range(raw)?.or(self.defaults.active) {
            spec = spec.with_active(active).map_err(|e| wrong(at(), e))?;
        }
        Ok(Act::Fill(Fill { spec, passes: self.count("passes").unwrap_or(2) as u8 }))
    }

    fn cells(&self) -> Result<Act, FileError> {
        let order = Order::ALL.into_iter().find(|o| self.raw.word("order") == Some(o.name()));
        let grid = self.grid(self.time("time"), Precondition::Workload)?;
        let ceilings = self.ceilings()?;
        let other = grid.axes.iter().find(|axis| !axis.kind.is_load());
        if let Some(axis) = other.filter(|_| !ceilings.is_empty()) {
            let message = format!(
                "`ceiling` selects the best load of one workload, but this stage also varies `{}`",
                axis.kind.name()
            );
            let help = "vary only depth, threads and rate: leave `ceiling` out, or make a stage for each of the other values; a `points` stage has a `ceiling` of its own";
            return Err(wrong_because(self.raw.place("ceiling"), message, help));
        }
        Ok(Act::Cells(Cells {
            grid,
            order: order.unwrap_or_default(),
            repeats: self.count("repeats").unwrap_or(1),
            ceilings,
        }))
    }

    fn rounds(&self) -> Result<Act, FileError> {
        let grid = self.grid(self.time("time"), Precondition::Workload)?;
        let tracks = self.raw.records("track").map(|track| self::track(&grid, track));
        let track = tracks.collect::<Result<Vec<_>, _>>()?;
        if track.is_empty() {
            return Err(wrong(self.raw.place("track"), "the list is empty"));
        }
        Ok(Act::Rounds(Rounds {
            before: self.before(&grid)?,
            grid,
            track,
            limits: self.limits()?,
            ceilings: self.ceilings()?,
        }))
    }

    fn series(&self) -> Result<Act, FileError> {
        let raw = self.raw;
        let grid = self.grid(self.time("time"), Precondition::Carried)?;
        if grid.len() != 1 {
            let message = "a series measures only one workload: give one value on each axis";
            return Err(wrong(raw.place("do"), message));
        }
        let fills_max = raw.real("fills");
        if fills_max.is_some_and(|fills| fills <= 0.0) {
            return Err(wrong(raw.place("fills"), "`fills` must be above 0"));
        }
        Ok(Act::Series(Series {
            grid,
            samples_max: self.count("samples").unwrap_or(1),
            wait_ns: raw.get("wait").map_or(0, |_| self.time("wait")),
            fills_max,
            steady_every: self.count("steady_every"),
            limits: self.limits()?,
        }))
    }

    fn points(&self) -> Result<Act, FileError> {
        let raw = self.raw;
        let of = raw.text("of").ok_or_else(|| {
            let help = "name the earlier stage whose points are chosen: `of = \"NAME\"`";
            wrong_because(raw.place("do"), "the key `of` is missing", help)
        })?;
        let of = self.earlier(of)?;
        let all = [Which::Max, Which::Optimal, Which::Mid, Which::Min];
        let named = |item: &Entry| all.into_iter().find(|which| item.text() == Some(which.name()));
        let choose: Vec<Which> = raw.items("choose").iter().filter_map(named).collect();
        if choose.is_empty() {
            return Err(wrong(raw.place("choose"), "the list is empty"));
        }
        let mut ceilings = self.ceilings()?;
        if ceilings.is_empty() {
            match &self.before[of].act {
                Act::Cells(cells) => ceilings.clone_from(&cells.ceilings),
                Act::Rounds(rounds) => ceilings.clone_from(&rounds.ceilings),
                _ => {}
            }
        }
        let time_ns = self.time("time");
        let before = match &self.before[of].act {
            Act::Cells(Cells { grid, .. }) | Act::Rounds(Rounds { grid, .. }) => {
                self.before(grid)?
            }
            _ => None,
        };
        Ok(Act::Points(Points { of, choose, ceilings, time_ns, before }))
    }
}

/// Parses a tracking variable: the grid point that it names by axis values, and the measured quantity.
fn track(grid: &Grid, given: &Record) -> Result<Track, FileError> {
    let mut quantity = Quantity::Iops;
    let mut wanted: Vec<(AxisKind, crate::axis::Value)> = Vec::new();
    for (key, entry) in given.entries() {
        let (text, at) = (entry.text().unwrap_or_default(), || entry.span.clone());
        if key == "measure" {
            quantity = text.parse().map_err(|e: NoMetric| wrong(at(), e.to_string()))?;
            continue;
        }
        let kind = AxisKind::ALL.into_iter().find(|kind| kind.name() == key);
        let Some(kind) = kind.filter(|k| grid.axes.iter().any(|axis| axis.kind == *k)) else {
            let axes: Vec<&str> = grid.axes.iter().map(|axis| axis.kind.name()).collect();
            let help = format!(
                "the axes of this stage are {}; the measured quantity is chosen by the key `measure`",
                axes.join(", ")
            );
            return Err(wrong_because(at(), format!("`{key}` is not an axis of this stage"), help));
        };
        wanted.push((kind, kind.value(text).map_err(|e| wrong(at(), e))?));
    }
    let at = || given.place("");
    let mut found = None;
    for index in 0..grid.len() {
        let point = grid.point(index).map_err(|e| wrong(at(), e))?;
        let fits = wanted.iter().all(|(kind, value)| {
            let place = grid.axes.iter().position(|axis| axis.kind == *kind);
            place.is_some_and(|i| grid.axes[i].values[point.at[i]] == *value)
        });
        if fits {
            if found.is_some() {
                let help = "name a value on every axis";
                return Err(wrong_because(at(), "several cells have these values", help));
            }
            found = Some((index, point.name));
        }
    }
    let Some((point, name)) = found else {
        return Err(wrong(at(), "no cell of this stage has these values"));
    };
    Ok(Track { point, quantity, name: format!("{quantity} of {name}") })
}
