//! A study of a paper: its systems, its workloads, its tables and figures (panels), and its published values. [`load`]
//! reads the study file and all files that it names, and creates a row for each value to simulate.

use crate::assign_provenance;
use crate::cell::CellKey;
use crate::conclusion::Conclusion;
use crate::implausible;
use crate::metric::Recipe;
use crate::panel::{Panel, panel};
use crate::provenance::Provenance;
use crate::published::{self, Figure, Key};
use crate::schema;
use crate::testbed::{self, Bench, MemberRates, Owned};
use crate::unit::Unit;
use crate::wanted::{Wanted, Workload};
use iodyno_catalog::{Entry, File, Kind, Problem, Record, find};
use iodyno_emulate::spec::Host;
use iodyno_units::OpKind;
use iodyno_workload::{Percent, Spec};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A study that reproduces the measurements of a published paper on emulated devices.
#[derive(Clone, Debug)]
pub struct Study {
    /// Name of the study in the catalog.
    pub name: String,
    /// Title of the paper.
    pub title: String,
    /// Publisher and year of the paper.
    pub source: String,
    /// Whether cells are measured in rounds, until the steady state of SNIA's specification.
    pub in_rounds: bool,
    /// Systems that the paper tests, and after them the baselines (null models). A baseline is one of these systems
    /// with another description of its devices.
    pub systems: Vec<Bench>,
    /// Workloads that the study file defines, for use in its tables and figures.
    pub workloads: Vec<Workload>,
    /// Data-sheet rates of single devices, for the null model (a prediction without a device model).
    pub members: Vec<MemberRates>,
    /// Tables and figures of the paper, in the order of the study file.
    pub panels: Vec<Panel>,
    /// Values published in the paper, in the order of their file.
    pub printed: Vec<Figure>,
    /// All rows, in the order of the panels (tables and figures of the paper). Rows outside of panels are at the end.
    pub rows: Vec<Wanted>,
    /// Conclusions of the paper, in the order of the study file.
    pub conclusions: Vec<Conclusion>,
    /// Parameters of all devices and servers of the study.
    pub parameters: Vec<Owned>,
}

impl Study {
    /// Keeps only the rows for which `keep` returns true. Cells that no remaining row needs are not simulated.
    pub fn retain(&mut self, keep: impl Fn(&Wanted) -> bool) {
        self.rows.retain(keep);
    }

    /// Cells from which a row is computed, including the cells that simulate the competitor of its system.
    pub(crate) fn cells(&self, row: &Wanted) -> Vec<CellKey> {
        let rival = self.competitor_of(row).map(|rival| rival.cells());
        [row.recipe.cells(), rival.unwrap_or_default()].concat()
    }

    /// The recipe of the row, applied to the competitor of its system; None if the system has no competitor.
    pub(crate) fn competitor_of(&self, row: &Wanted) -> Option<Recipe> {
        let rival = self.systems[row.at?.system].competitor?;
        Some(row.recipe.clone().on_system(rival))
    }

    /// Keeps only the rows of the named tables and figures.
    ///
    /// # Errors
    /// A name is unknown; the message lists the existing names.
    pub fn only(&mut self, figures: &[String]) -> Result<(), String> {
        let names: BTreeSet<&str> = self.rows.iter().map(|row| row.key.figure.as_str()).collect();
        if let Some(unknown) = figures.iter().find(|name| !names.contains(name.as_str())) {
            let all: Vec<&str> = names.into_iter().collect();
            let (study, all) = (&self.name, all.join("`, `"));
            return Err(format!("{study} has no figure `{unknown}`; it has `{all}`"));
        }
        self.retain(|row| figures.contains(&row.key.figure));
        Ok(())
    }
}

/// Reads a study, by its name in the catalog or by a path. Also reads all files that the study names.
///
/// # Errors
/// The name is unknown; or the study, its published values, a device or a server has an error, whose position the
/// message gives.
pub fn load(name_or_path: &str) -> Result<Study, Problem> {
    let file = find(Kind::Study, name_or_path)?;
    let raw = schema::read(&file)?;
    let figures = published_file(&file, &raw)?;
    study(&file, &raw, &figures)
}

/// Returns the title of a study without reading the files that it names.
///
/// # Errors
/// There is no such study, or its file has an error.
pub fn title(name_or_path: &str) -> Result<String, Problem> {
    Ok(schema::read(&find(Kind::Study, name_or_path)?)?.said("title").to_owned())
}

/// Finds the file of published values that a study names: in the catalog, or in the folder of the study file.
fn published_file(file: &File, raw: &Record) -> Result<File, Problem> {
    let name = raw.said("published");
    let is_path = name.contains('/') || Path::new(name).extension().is_some();
    let beside = Path::new(&file.origin).parent().filter(|_| is_path);
    let path = beside.map(|folder| folder.join(name).to_string_lossy().into_owned());
    let found = find(Kind::Published, path.as_deref().unwrap_or(name));
    // A file in the study's own folder belongs to the study.
    let is_own = !name.contains('/');
    found.map(|file| if is_own { file } else { file.named_by_file() }).map_err(|problem| {
        let help = problem.help().map(ToOwned::to_owned);
        let message = format!("the printed figures: {}", problem.message());
        Problem::at(file, raw.place("published"), message, help)
    })
}

/// Builds a study from its file and the file of published values.
pub(crate) fn study(file: &File, raw: &Record, figures: &File) -> Result<Study, Problem> {
    let mut printed = published::read(figures)?;
    for raw in raw.records("flagged") {
        flag(file, raw, &mut printed)?;
    }
    let mut parameters = Vec::new();
    let mut systems: Vec<Bench> = Vec::new();
    for system in raw.records("systems") {
        for built in testbed::benches(file, system, &mut parameters)? {
            refuse_twice(file, system, &built.name, systems.iter().map(|s| s.name.as_str()))?;
            systems.push(built);
        }
    }
    let competitors = raw.records("systems").filter(|system| system.get("competitor").is_some());
    for system in competitors {
        let built = testbed::competitor(file, system, &mut parameters)?;
        let rival = systems.len();
        let of = systems.iter_mut().find(|of| of.name == system.said("name"));
        if let Some(of) = of {
            of.competitor = Some(rival);
        }
        systems.push(built);
    }
    let mut workloads: Vec<Workload> = Vec::new();
    for raw in raw.records("workloads") {
        refuse_twice(file, raw, raw.said("name"), workloads.iter().map(|w| w.name.as_str()))?;
        workloads.push(workload(file, raw, &workloads)?);
    }
    let mut panels = Vec::new();
    let mut rows = Vec::new();
    let (mut keys, mut built) = (BTreeSet::new(), BTreeSet::new());
    for raw in raw.records("panels") {
        let (panel, wanted) = panel(file, raw, panels.len(), &systems, &workloads, &mut built)?;
        if let Some(twice) = wanted.iter().find(|row| !keys.insert(row.key.clone())) {
            let key = &twice.key;
            let message = format!("`{}` has a row for `{}` twice", key.figure, key.metric);
            let help = "panels of the same figure must not overlap".to_owned();
            return Err(Problem::at(file, raw.place("figure"), message, Some(help)));
        }
        panels.push(panel);
        rows.extend(wanted);
    }
    for raw in raw.records("claims") {
        rows.push(claim(file, raw, &rows)?);
    }
    for raw in raw.records("inputs") {
        rows.push(input(file, raw, &systems, &mut parameters)?);
    }
    let members = raw.records("members").map(MemberRates::read).collect();
    implausible::flag(&systems, &workloads, &mut printed);
    match_up(figures, &printed, &mut rows)?;
    assign_provenance::assign(file, raw, &parameters, &printed, &mut rows)?;
    let conclusions = raw.records("conclusions").map(|raw| Conclusion::read(file, raw, &rows));
    let conclusions = conclusions.collect::<Result<_, _>>()?;
    Ok(Study {
        name: file.name.clone(),
        title: raw.said("title").to_owned(),
        source: raw.said("source").to_owned(),
        in_rounds: raw.word("method") == Some("pts"),
        systems,
        workloads,
        members,
        panels,
        printed,
        rows,
        conclusions,
        parameters,
    })
}

fn refuse_twice<'a>(
    file: &File,
    raw: &Record,
    name: &str,
    mut before: impl Iterator<Item = &'a str>,
) -> Result<(), Problem> {
    if before.any(|b| b == name) {
        let message = format!("`{name}` is named twice");
        return Err(Problem::at(file, raw.place("name"), message, None));
    }
    Ok(())
}

fn workload(file: &File, raw: &Record, before: &[Workload]) -> Result<Workload, Problem> {
    let ops = raw.whole("ops").unwrap_or_default();
    let long_ops = raw.whole("long_ops").unwrap_or(ops);
    if long_ops < ops {
        let message = format!("`long_ops` must be at least `ops`, {ops}, not {long_ops}");
        return Err(Problem::at(file, raw.place("long_ops"), message, None));
    }
    let (read, addresses) = (raw.real("read"), raw.word("addresses"));
    let like = match (raw.text("like"), raw.text("spec")) {
        (Some(name), _) => Some(catalogued(file, raw, name)?),
        (None, Some(text)) => Some(Spec::from_toml(text).map_err(|errors| {
            let all: Vec<&str> = errors.iter().map(|e| e.message.as_str()).collect();
            Problem::at(file, raw.place("spec"), all.join("; "), None)
        })?),
        (None, None) if read.is_none() || addresses.is_none() => {
            let message = "a workload must have `like`, or `spec`, or both `read` and `addresses`";
            return Err(Problem::at(file, raw.place("name"), message, None));
        }
        (None, None) => None,
    };
    let share = |spec: &Spec| spec.kinds().find(|k| k.0 == OpKind::Read).map_or(0.0, |k| k.1);
    let small = |key: &str| raw.whole(key).and_then(|n| u32::try_from(n).ok());
    let beside = raw.text("beside").map(|name| {
        let message = || format!("the study defines no workload `{name}` before this one");
        let found = before.iter().position(|workload| workload.name == name);
        found.ok_or_else(|| Problem::at(file, raw.place("beside"), message(), None))
    });
    Ok(Workload {
        name: raw.said("name").to_owned(),
        read: read.or(like.as_ref().map(share)).unwrap_or_default(),
        random: addresses != Some("sequential"),
        like,
        block_bytes: small("block"),
        depth: small("depth"),
        threads: small("threads").filter(|threads| *threads > 0),
        files: small("files"),
        fill: raw.real("fill").map_or(Percent::ALL, Percent::from_fraction),
        ops,
        long_ops,
        bytes_max: raw.whole("bytes").unwrap_or(u64::MAX),
        within_bytes: raw.whole("within"),
        rate_iops: raw.real("rate"),
        message_bytes: small("message").filter(|bytes| *bytes > 0),
        beside: beside.transpose()?,
        percentiles: raw.word("percentiles").map(|word| match word {
            "read" => OpKind::Read,
            _ => OpKind::Write,
        }),
        null: raw
            .text("null")
            .map(|name| (name.to_owned(), raw.real("null_factor").unwrap_or(1.0))),
        aged_passes: small("aged").unwrap_or(0),
        scale: small("scale").unwrap_or(1),
        appends: raw.flag("appends") == Some(true),
        ramp_ns: raw.whole("ramp").unwrap_or_default(),
    })
}

/// Looks up a workload in the catalog by its name.
fn catalogued(file: &File, raw: &Record, name: &str) -> Result<Spec, Problem> {
    let at = |message: String| Problem::at(file, raw.place("like"), message, None);
    let found = find(Kind::Workload, name).map_err(|p| at(p.message().to_owned()))?;
    let found = found.named_by_file();
    Spec::from_toml(&found.text).map_err(|errors| {
        at(format!("the workload `{name}`: {}", Problem::of(&found, &errors).message()))
    })
}

/// Marks published values as excluded from scoring, according to an entry of the study file.
fn flag(file: &File, raw: &Record, printed: &mut [Figure]) -> Result<(), Problem> {
    let is_meant = |figure: &&mut Figure| {
        let key = &figure.key;
        (key.figure.as_str(), key.system.as_str()) == (raw.said("figure"), raw.said("system"))
            && (&*key.workload, &*key.metric) == (raw.said("workload"), raw.said("metric"))
    };
    let mut found = false;
    for figure in printed.iter_mut().filter(is_meant) {
        raw.said("why").clone_into(&mut figure.flag);
        found = true;
    }
    if found {
        return Ok(());
    }
    let message = "no printed figure matches this entry";
    let help = "the entry's keys must match those of a line in the file of figures".to_owned();
    Err(Problem::at(file, raw.place("figure"), message, Some(help)))
}

/// Creates a row for a published value that the model uses as an input, such as a parameter of a server.
fn input(
    file: &File,
    raw: &Record,
    systems: &[Bench],
    parameters: &mut Vec<Owned>,
) -> Result<Wanted, Problem> {
    let (name, metric) = (raw.said("system"), raw.said("metric"));
    let (given, unit, by) = if let Some(of) = raw.text("of") {
        let bench = systems.iter().find(|bench| bench.name == of);
        let number = match metric {
            MAX_SSDS => bench.and_then(|bench| bench.devices).map(f64::from),
            LINK => bench.and_then(|bench| bench.link_bytes_per_s),
            _ => None,
        };
        let unit = if metric == LINK { Unit::GigabytesPerSecond } else { Unit::One };
        let Some(number) = number else {
            let message = format!("`{of}` does not give `{metric}`");
            let help = format!(
                "`{MAX_SSDS}` and `{LINK}` are set by the keys `devices` and `link` of a system"
            );
            return Err(Problem::at(file, raw.place("of"), message, Some(help)));
        };
        (number, unit, Vec::new())
    } else {
        let host = testbed::host(file, name, raw.place("system"), parameters)?.host;
        let Some(given) = given(metric, &host) else {
            let message = format!("a server has no parameter `{metric}`");
            let help = format!("a study can list only one parameter of a server, `{UNBALANCED}`");
            return Err(Problem::at(file, raw.place("metric"), message, Some(help)));
        };
        (given, Unit::Ratio, vec!["host.unbalanced".to_owned()])
    };
    Ok(Wanted {
        key: Key {
            figure: raw.said("figure").to_owned(),
            system: name.to_owned(),
            workload: raw.said("workload").to_owned(),
            metric: metric.to_owned(),
            ..Key::default()
        },
        panel: None,
        metric: None,
        at: None,
        recipe: Recipe::Given(given),
        unit,
        printed: None,
        basis: Provenance::Input,
        by,
    })
}

/// Creates a row for a value in the paper's text: a mean over workloads. The mean is that of a system's metric, or of
/// the ratio of this metric between two systems.
fn claim(file: &File, raw: &Record, rows: &[Wanted]) -> Result<Wanted, Problem> {
    let workloads: Vec<&str> = match raw.items("of_workloads") {
        [] => vec![raw.said("workload")],
        named => named.iter().filter_map(Entry::text).collect(),
    };
    let row = |system: &str, workload: &str, at: &str| {
        let is_it = |row: &&Wanted| {
            let key = &row.key;
            key.figure == raw.said("of_figure")
                && (&*key.system, &*key.workload) == (system, workload)
                && key.metric == raw.said("of_metric")
        };
        let found: Vec<&Wanted> = rows.iter().filter(is_it).collect();
        let [one] = found.as_slice() else {
            let message = format!(
                "{} rows match `{}` of `{system}`, `{workload}`, in `{}`, but exactly one must match",
                found.len(),
                raw.said("of_metric"),
                raw.said("of_figure")
            );
            return Err(Problem::at(file, raw.place(at), message, None));
        };
        Ok(*one)
    };
    let number = |path: &str| raw.whole(path).and_then(|n| u32::try_from(n).ok());
    let (mut all, mut unit) = (Vec::new(), Unit::Ratio);
    for workload in workloads {
        let of = row(raw.said("of"), workload, "of")?;
        all.push(if let Some(other) = raw.text("against") {
            let other = row(other, raw.text("against_workload").unwrap_or(workload), "against")?;
            Recipe::Ratio(Box::new(of.recipe.clone()), Box::new(other.recipe.clone()))
        } else {
            unit = of.unit;
            of.recipe.clone()
        });
    }
    Ok(Wanted {
        key: Key {
            figure: raw.said("figure").to_owned(),
            system: raw.said("system").to_owned(),
            workload: raw.said("workload").to_owned(),
            metric: raw.said("metric").to_owned(),
            block_bytes: number("block"),
            devices: number("devices"),
            ..Key::default()
        },
        panel: None,
        metric: None,
        at: None,
        recipe: if all.len() == 1 { all.remove(0) } else { Recipe::Mean(all) },
        unit,
        printed: None,
        basis: Provenance::Predicted,
        by: Vec::new(),
    })
}

const UNBALANCED: &str = "unbalanced_memory_slowdown";
const MAX_SSDS: &str = "max_ssds";
const LINK: &str = "bandwidth_limit";

/// Value that a server's file gives for an input metric; None for other metrics.
fn given(metric: &str, host: &Host) -> Option<f64> {
    (metric == UNBALANCED).then_some(1.0 - host.unbalanced_share)
}

/// Assigns each published value to its row.
fn match_up(file: &File, printed: &[Figure], rows: &mut [Wanted]) -> Result<(), Problem> {
    let by_key: BTreeMap<Key, usize> =
        rows.iter().enumerate().map(|(i, row)| (row.key.clone(), i)).collect();
    for (i, figure) in printed.iter().enumerate() {
        let Some(&row) = by_key.get(&figure.key) else {
            let help = "add a panel with the figure's name, system, workload, axes and metric; see \
                        catalog/studies/FORMAT.md";
            let message = "no row of the study matches this published value";
            return Err(Problem::at(file, figure.span.clone(), message, Some(help.to_owned())));
        };
        let row = &mut rows[row];
        let dimension = row.unit.dimension();
        if figure.unit.dimension() != dimension {
            let message =
                format!("`{}` can't have the unit `{}`", figure.key.metric, figure.unit.name());
            return Err(Problem::at(file, figure.span.clone(), message, None));
        }
        row.unit = figure.unit;
        row.printed = Some(i);
    }
    Ok(())
}
