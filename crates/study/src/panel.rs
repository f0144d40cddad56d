//! A panel: one table or figure of the paper, given by its axes. Every combination of values on the axes becomes a row.

use crate::cell::CellKey;
use crate::metric::{Metric, Optimum, Recipe};
use crate::provenance::Provenance;
use crate::published::Key;
use crate::testbed::Bench;
use crate::wanted::{Wanted, Workload};
use iodyno_catalog::{Entry, File, Problem, Record};
use iodyno_units::{Precondition, human, nearest};
use iodyno_workload::Percent;
use std::collections::{BTreeMap, BTreeSet};

/// A table or figure of the paper that the study reproduces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Name of the table or figure in the paper, such as `Table 4`.
    pub figure: String,
    /// Title of the table or figure, such as `disk with replays`.
    pub title: String,
    /// Queue depths on the axis of the table or figure, ascending; empty if the depth does not vary.
    pub depths: Vec<u32>,
    /// Metrics that the table or figure shows, in display order.
    pub metrics: Vec<Metric>,
}

/// Reads a panel and creates its rows: one for each combination of metric, system, workload and values of the
/// axes. `built` caches combinations of system and number of devices that are known to be valid.
pub(crate) fn panel(
    file: &File,
    raw: &Record,
    index: usize,
    systems: &[Bench],
    workloads: &[Workload],
    built: &mut BTreeSet<(usize, u32)>,
) -> Result<(Panel, Vec<Wanted>), Problem> {
    let named_systems = named_systems(file, raw, systems)?;
    let workload_names: Vec<&str> = workloads.iter().map(|w| w.name.as_str()).collect();
    let names = raw.items("workloads").iter();
    let named_workloads = names
        .map(|name| position(file, name, "workload", &workload_names))
        .collect::<Result<Vec<usize>, _>>()?;
    let axes = Axes::read(file, raw)?;
    let metrics = axis(file, raw, "metrics", |name| Metric::named(name.text()?))?;
    axis(file, raw, "workloads", Entry::text)?;
    for (metric, at) in metrics.iter().zip(raw.items("metrics")) {
        check_metric(file, raw, *metric, at)?;
    }
    let sets: Vec<&[usize]> = if raw.flag("together") == Some(true) {
        vec![named_workloads.as_slice()]
    } else {
        named_workloads.chunks(1).collect()
    };
    let source = Source { file, raw, index, systems, workloads, axes: &axes };
    let mut rows = Vec::new();
    for &metric in &metrics {
        let points = source.points(metric);
        for &system in &named_systems {
            for &set in &sets {
                for point in &points {
                    let at = source.cell(system, set[0], point);
                    source.check_axes(&at, set)?;
                    let row = source.row(metric, &at, set);
                    rows.push(row.ok_or_else(|| source.not_defined(metric))?);
                }
            }
        }
    }
    check(file, raw, &rows, systems, workloads, built)?;
    let panel = Panel {
        figure: raw.said("figure").to_owned(),
        title: raw.said("title").to_owned(),
        depths: axes.depths,
        metrics,
    };
    Ok((panel, rows))
}

/// Values on each axis of a panel; empty for axes that the panel does not have.
struct Axes {
    blocks: Vec<u64>,
    depths: Vec<u32>,
    devices: Vec<u32>,
    thinks: Vec<u64>,
    threads: Vec<u32>,
    fills: Vec<Percent>,
    rates: Vec<u32>,
}

impl Axes {
    fn read(file: &File, raw: &Record) -> Result<Self, Problem> {
        let percent = |entry: &Entry| entry.real().map(Percent::from_fraction);
        Ok(Self {
            blocks: axis(file, raw, "block", Entry::whole)?,
            depths: axis(file, raw, "depth", small)?,
            devices: axis(file, raw, "devices", small)?,
            thinks: axis(file, raw, "think", Entry::whole)?,
            threads: axis(file, raw, "threads", small)?,
            fills: axis(file, raw, "fill", percent)?,
            rates: axis(file, raw, "rate", small)?,
        })
    }
}

/// A panel's entry in the study file, with everything to which it may refer.
struct Source<'a> {
    file: &'a File,
    raw: &'a Record,
    index: usize,
    systems: &'a [Bench],
    workloads: &'a [Workload],
    axes: &'a Axes,
}

/// Values of an axis, or only `other` if the panel does not have this axis.
const fn or_none<'a, T>(values: &'a [T], other: &'a T) -> &'a [T] {
    if values.is_empty() { core::slice::from_ref(other) } else { values }
}

/// Takes values for axes that the panel does not have from the cell's workload or system; 0 if these have
/// none either.
fn completed(raw: &Record, at: CellKey, systems: &[Bench], workloads: &[Workload]) -> CellKey {
    let (system, workload) = (&systems[at.system], &workloads[at.workload]);
    let other = |axis: &str, named: u32, own: Option<u32>| {
        if raw.get(axis).is_some() { named } else { own.unwrap_or(0) }
    };
    CellKey {
        block_bytes: other("block", at.block_bytes, workload.block_bytes),
        depth: other("depth", at.depth, workload.depth.or(system.depth)),
        devices: other("devices", at.devices, system.devices),
        threads: if raw.get("threads").is_some() {
            at.threads
        } else {
            workload.threads.unwrap_or(1)
        },
        fill: if raw.get("fill").is_some() { at.fill } else { workload.fill },
        ..at
    }
}

/// Value of a cell on the named axis: `block`, `depth` or `devices`.
fn of(at: &CellKey, axis: &str) -> u32 {
    match axis {
        "block" => at.block_bytes,
        "depth" => at.depth,
        _ => at.devices,
    }
}

/// Indices of the systems that a panel names, or of all systems if it names none. The name of an entry with
/// several arrays selects all of them.
fn named_systems(file: &File, raw: &Record, systems: &[Bench]) -> Result<Vec<usize>, Problem> {
    if raw.get("systems").is_none() {
        return Ok((0..systems.len()).filter(|&i| !systems[i].only_named).collect());
    }
    let all: Vec<&str> = systems.iter().map(|s| s.name.as_str()).collect();
    let mut found = Vec::new();
    for name in raw.items("systems") {
        let text = name.text().unwrap_or_default();
        let entry = |of: &Bench| of.array.is_some() && of.entry == text && of.name != text;
        let before = found.len();
        found.extend((0..systems.len()).filter(|&i| entry(&systems[i])));
        if found.len() == before {
            found.push(position(file, name, "system", &all)?);
        }
    }
    Ok(found)
}

impl Source<'_> {
    /// Whether the panel seeks an optimum operating point over depths and threads.
    fn is_best(&self) -> bool {
        self.raw.get("optimum_within").is_some()
    }

    /// All combinations of the axes' values, without system and workload. An axis over which the metric
    /// aggregates contributes only its first value.
    fn points(&self, metric: Metric) -> Vec<CellKey> {
        let axes = self.axes;
        let over_depths = self.is_best() || metric.over_depths();
        let depths = if over_depths { axes.depths.get(..1).unwrap_or(&[]) } else { &axes.depths };
        let threads = match axes.threads.as_slice() {
            [] => &[1][..],
            all if self.is_best() || metric.over_threads() => &all[..1],
            all => all,
        };
        let mut all = Vec::new();
        for &block in or_none(&axes.blocks, &0) {
            for &think_ns in or_none(&axes.thinks, &0) {
                for &fill in or_none(&axes.fills, &Percent::ALL) {
                    for &threads in threads {
                        for &depth in or_none(depths, &0) {
                            for &devices in or_none(&axes.devices, &0) {
                                let block_bytes = u32::try_from(block).unwrap_or(u32::MAX);
                                let at = |&beside_iops: &u32| CellKey {
                                    system: 0,
                                    workload: 0,
                                    think_ns,
                                    block_bytes,
                                    threads,
                                    depth,
                                    devices,
                                    before: Precondition::default(),
                                    long: false,
                                    ramp_ns: None,
                                    fill,
                                    beside_iops,
                                    span_ns: None,
                                    over_ns: None,
                                };
                                all.extend(or_none(&axes.rates, &0).iter().map(at));
                            }
                        }
                    }
                }
            }
        }
        all
    }

    /// Coordinates of the cell for a system and a workload at a point of the axes.
    fn cell(&self, system: usize, workload: usize, point: &CellKey) -> CellKey {
        CellKey {
            system,
            workload,
            before: match self.raw.word("written") {
                Some("fresh") => Precondition::Fresh,
                Some("sequential") => Precondition::Sequential,
                _ => Precondition::Workload,
            },
            long: self.raw.flag("long") == Some(true),
            ramp_ns: self.raw.whole("ramp"),
            span_ns: self.raw.whole("stands_for"),
            over_ns: self.raw.whole("over_time"),
            ..*point
        }
    }

    fn completed(&self, at: CellKey) -> CellKey {
        completed(self.raw, at, self.systems, self.workloads)
    }

    /// Checks that each axis that a cell needs has a value, from the panel, its systems or its workloads.
    fn check_axes(&self, at: &CellKey, set: &[usize]) -> Result<(), Problem> {
        for &workload in set {
            let at = self.completed(CellKey { workload, ..*at });
            let missing = |axis: &&str| self.raw.get(axis).is_none() && of(&at, axis) == 0;
            if let Some(axis) = ["block", "depth", "devices"].into_iter().find(missing) {
                let message = format!("`{axis}` is missing");
                let help = "set it in the panel, or in the panel's systems or workloads".to_owned();
                return Err(Problem::at(self.file, self.raw.place("figure"), message, Some(help)));
            }
        }
        Ok(())
    }

    fn not_defined(&self, metric: Metric) -> Problem {
        let message = format!("the panel can't show `{}`", metric.name());
        let help = if metric == Metric::MessagesPerS {
            "each of the panel's workloads needs a `message`, the size of a message"
        } else {
            "a panel with an optimum can show rates, bandwidths, latencies and outstanding operations"
        };
        Problem::at(self.file, self.raw.place("metrics"), message, Some(help.to_owned()))
    }

    /// Creates the row for a metric at a cell; None if the metric is undefined in this panel.
    fn row(&self, metric: Metric, at: &CellKey, set: &[usize]) -> Option<Wanted> {
        let at = self.completed(*at);
        let recipe = match set {
            [one] => self.recipe(metric, &at, *one)?,
            several => {
                let each = several.iter().map(|&workload| self.recipe(metric, &at, workload));
                metric.together(each.collect::<Option<_>>()?)
            }
        };
        Some(Wanted {
            key: self.key(metric, &at, set),
            panel: Some(self.index),
            metric: Some(metric),
            at: Some(at),
            recipe,
            unit: metric.unit(),
            printed: None,
            basis: Provenance::Predicted,
            by: Vec::new(),
        })
    }

    /// The recipe that computes a metric for one workload.
    fn recipe(&self, metric: Metric, at: &CellKey, workload: usize) -> Option<Recipe> {
        let cell = self.completed(CellKey { workload, ..*at });
        let depths = or_none(&self.axes.depths, &cell.depth);
        let threads = &self.axes.threads;
        let Some(ceiling_ns) = self.raw.whole("optimum_within") else {
            let threads = or_none(threads, &cell.threads);
            let smallest = self.systems[cell.system].members();
            if metric == Metric::MessagesPerS {
                let messages = cell.block_bytes / self.workloads[workload].message_bytes?;
                return Some(Recipe::Messages(messages, cell));
            }
            return metric.recipe(cell, depths, threads, smallest);
        };
        let at_depths =
            |threads: u32| depths.iter().map(move |&depth| CellKey { threads, depth, ..cell });
        let threads = or_none(threads, &1);
        let cells = threads.iter().flat_map(|&n| at_depths(n)).collect();
        Some(Recipe::AtOptimum(metric.at_optimum()?, Optimum { cells, ceiling_ns }))
    }

    /// Key by which the file of published values refers to the row.
    fn key(&self, metric: Metric, at: &CellKey, set: &[usize]) -> Key {
        let (raw, is_best) = (self.raw, self.is_best());
        let thinking = raw.get("think").map(|_| {
            let ns = at.think_ns;
            let (whole, unit) =
                if ns.is_multiple_of(1000) { (ns / 1000, "us") } else { (ns, "ns") };
            format!("+thinktime{whole}{unit}")
        });
        let filled = raw.get("fill").map(|_| format!("+fill{}", at.fill)).unwrap_or_default();
        let names: Vec<&str> = set.iter().map(|&w| self.workloads[w].name.as_str()).collect();
        let names_devices = raw.get("devices").is_some() || raw.flag("own_devices") == Some(true);
        let names_threads = !is_best && !self.axes.threads.is_empty() && !metric.over_threads();
        Key {
            figure: raw.said("figure").to_owned(),
            system: self.systems[at.system].name.clone(),
            workload: names.join("/").replace("{rate}", &at.beside_iops.to_string())
                + &thinking.unwrap_or_default()
                + &filled,
            block_bytes: raw.get("block").map(|_| at.block_bytes),
            queue_depth: raw
                .get("depth")
                .filter(|_| !is_best && !metric.over_depths())
                .map(|_| at.depth),
            threads: names_threads.then_some(at.threads),
            devices: (names_devices && !metric.over_devices()).then_some(at.devices),
            metric: metric.name().to_owned(),
        }
    }
}

/// Checks that a panel has the key, such as `think`, that a metric requires.
fn check_metric(file: &File, raw: &Record, metric: Metric, at: &Entry) -> Result<(), Problem> {
    let Some(key) = metric.needs() else { return Ok(()) };
    if raw.get(key).is_some() && raw.flag(key) != Some(false) {
        return Ok(());
    }
    let what = if key == "think" { "an axis `think`" } else { &format!("`{key}`") };
    let message = format!("`{}` needs {what}", metric.name());
    Err(Problem::at(file, at.span.clone(), message, None))
}

/// Index of a name in `all`. An unknown name is an error.
fn position(file: &File, name: &Entry, what: &str, all: &[&str]) -> Result<usize, Problem> {
    let text = name.text().unwrap_or_default();
    all.iter().position(|known| *known == text).ok_or_else(|| {
        let guess = nearest(text, all.iter().copied()).map(|n| format!("did you mean `{n}`? "));
        let help =
            format!("{}each {what} needs an entry in [[{what}s]]", guess.unwrap_or_default());
        Problem::at(
            file,
            name.span.clone(),
            format!("the study has no {what} `{text}`"),
            Some(help),
        )
    })
}

/// Maximum number of values of an axis.
const AXIS_MAX: usize = 64;

/// Reads the values of an axis; empty if the panel does not have it. Values must be distinct, and numbers
/// ascending, so that curves can be drawn from left to right.
fn axis<'a, T: Ord>(
    file: &File,
    raw: &'a Record,
    name: &str,
    value: impl Fn(&'a Entry) -> Option<T>,
) -> Result<Vec<T>, Problem> {
    let values: Vec<T> = raw.items(name).iter().filter_map(value).collect();
    let wrong = if raw.get(name).is_some() && !(1..=AXIS_MAX).contains(&values.len()) {
        format!("`{name}` must have 1 to {AXIS_MAX} values, not {}", values.len())
    } else if values.iter().collect::<BTreeSet<_>>().len() < values.len() {
        format!("`{name}` lists a value twice")
    } else if matches!(name, "threads" | "depth" | "devices" | "think" | "fill" | "rate")
        && !values.is_sorted()
    {
        format!("`{name}` must be in ascending order")
    } else {
        return Ok(values);
    };
    Err(Problem::at(file, raw.place(name), wrong, None))
}

fn small(entry: &Entry) -> Option<u32> {
    entry.whole().map(|whole| whole as u32)
}

/// Checks that the systems of all cells can be built, and that no row occurs twice.
fn check(
    file: &File,
    raw: &Record,
    rows: &[Wanted],
    systems: &[Bench],
    workloads: &[Workload],
    built: &mut BTreeSet<(usize, u32)>,
) -> Result<(), Problem> {
    let cells: BTreeSet<CellKey> = rows.iter().flat_map(|row| row.recipe.cells()).collect();
    for cell in &cells {
        let workload = &workloads[cell.workload];
        if workload.beside.is_none() && cell.beside_iops > 0 {
            let message = "`rate` applies only to workloads with `beside`";
            return Err(Problem::at(file, raw.place("rate"), message, None));
        }
        if let Err(why) = workload.spec(cell) {
            let message = format!("this workload can't be issued: {why}");
            return Err(Problem::at(file, raw.place("figure"), message, None));
        }
        if cell.devices == 0 {
            let message = "`devices` must be at least 1";
            return Err(Problem::at(file, raw.place("devices"), message, None));
        }
    }
    let (any, workload) = (cells.first(), |cell: &CellKey| &workloads[cell.workload]);
    let written = any.map(|cell| workload(cell).written(cell));
    let mut sizes = BTreeMap::new();
    for cell in &cells {
        let most: &mut u32 = sizes.entry(cell.system).or_default();
        *most = cell.devices.max(*most);
    }
    for (system, most) in sizes {
        let Some(written) = written.filter(|_| built.insert((system, most))) else { continue };
        if let Err(why) = systems[system].system(most, written, 1.0, 1, false) {
            let devices = human::counted(most.into(), "device");
            let name = &systems[system].name;
            let message = format!("{devices} can't be attached to `{name}`: {why}");
            return Err(Problem::at(file, raw.place("devices"), message, None));
        }
    }
    Ok(())
}
