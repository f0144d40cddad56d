//! A study: systems, workloads, panels of figures, and the printed figures to compare with ours. [`load`] reads
//! the file, the printed figures and all files that these name, and creates every row of the study.

use crate::assign_provenance;
use crate::metric::{Metric, Recipe};
use crate::panel::{Panel, panel};
use crate::provenance::Provenance;
use crate::published::{self, Figure, Key};
use crate::schema;
use crate::testbed::{self, Bench, Owned};
use crate::unit::{Dimension, Unit};
use crate::wanted::{Wanted, Workload};
use iodyno_catalog::{File, Kind, Problem, Record, find};
use iodyno_emulate::spec::Host;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A study that can be run.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its name in the catalog.
    pub name: String,
    /// The paper's title.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// Whether cells are measured in rounds, until the steady state of SNIA's specification.
    pub in_rounds: bool,
    /// The systems that were tested.
    pub systems: Vec<Bench>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The tables and figures, in the order of the file.
    pub panels: Vec<Panel>,
    /// The printed figures of the paper.
    pub printed: Vec<Figure>,
    /// Every row of the study, in the order of the panels; inputs at the end.
    pub rows: Vec<Wanted>,
    /// Every parameter of every device and server in it.
    pub parameters: Vec<Owned>,
}

/// Reads a study of the catalog by its name, or a file by its path, with all files that it names.
///
/// # Errors
/// The error in the study, its figures, a device or a server, at its place.
pub fn load(name_or_path: &str) -> Result<Study, Problem> {
    let file = find(Kind::Study, name_or_path)?;
    let raw = schema::read(&file)?;
    let figures = published_file(&file, &raw)?;
    study(&file, &raw, &figures)
}

/// The title of a study, without reading the files that it names.
///
/// # Errors
/// There is no such study, or its file has an error.
pub fn title(name_or_path: &str) -> Result<String, Problem> {
    Ok(schema::read(&find(Kind::Study, name_or_path)?)?.said("title").to_owned())
}

/// The file of printed figures that a study names: in the catalog, or beside the study's own file.
fn published_file(file: &File, raw: &Record) -> Result<File, Problem> {
    let name = raw.said("published");
    let is_path = name.contains('/') || Path::new(name).extension().is_some();
    let beside = Path::new(&file.origin).parent().filter(|_| is_path);
    let path = beside.map(|folder| folder.join(name).to_string_lossy().into_owned());
    find(Kind::Published, path.as_deref().unwrap_or(name)).map_err(|problem| {
        let help = problem.help().map(ToOwned::to_owned);
        let message = format!("the printed figures: {}", problem.message());
        Problem::at(file, raw.place("published"), message, help)
    })
}

/// Builds a study from its file and the file of its figures.
pub(crate) fn study(file: &File, raw: &Record, figures: &File) -> Result<Study, Problem> {
    let mut printed = published::read(figures)?;
    for raw in raw.records("flagged") {
        flag(file, raw, &mut printed)?;
    }
    let mut parameters = Vec::new();
    let mut systems: Vec<Bench> = Vec::new();
    for system in raw.records("systems") {
        let built = testbed::bench(file, system, &mut parameters)?;
        refuse_twice(file, system, systems.iter().map(|s| s.name.as_str()))?;
        systems.push(built);
    }
    let mut workloads: Vec<Workload> = Vec::new();
    for raw in raw.records("workloads") {
        refuse_twice(file, raw, workloads.iter().map(|w| w.name.as_str()))?;
        workloads.push(workload(file, raw)?);
    }
    let mut panels = Vec::new();
    let mut rows = Vec::new();
    let mut keys = BTreeSet::new();
    for raw in raw.records("panels") {
        let (panel, wanted) = panel(file, raw, panels.len(), &systems, &workloads)?;
        if let Some(twice) = wanted.iter().find(|row| !keys.insert(row.key.clone())) {
            let key = &twice.key;
            let message = format!("`{}` tells `{}` twice", key.figure, key.metric);
            let help = "panels of the same figure may not overlap".to_owned();
            return Err(Problem::at(file, raw.place("figure"), message, Some(help)));
        }
        panels.push(panel);
        rows.extend(wanted);
    }
    for raw in raw.records("inputs") {
        rows.push(input(file, raw, &mut parameters)?);
    }
    match_up(figures, &printed, &mut rows)?;
    assign_provenance::assign(file, raw, &parameters, &mut rows)?;
    Ok(Study {
        name: file.name.clone(),
        title: raw.said("title").to_owned(),
        source: raw.said("source").to_owned(),
        in_rounds: raw.word("method") == Some("pts"),
        systems,
        workloads,
        panels,
        printed,
        rows,
        parameters,
    })
}

fn refuse_twice<'a>(
    file: &File,
    raw: &Record,
    mut before: impl Iterator<Item = &'a str>,
) -> Result<(), Problem> {
    let name = raw.said("name");
    if before.any(|b| b == name) {
        let message = format!("`{name}` is named twice");
        return Err(Problem::at(file, raw.place("name"), message, None));
    }
    Ok(())
}

fn workload(file: &File, raw: &Record) -> Result<Workload, Problem> {
    let ops = raw.whole("ops").unwrap_or_default();
    let long_ops = raw.whole("long_ops").unwrap_or(ops);
    if long_ops < ops {
        let message = format!("`long_ops` is at least `ops`, {ops}, not {long_ops}");
        return Err(Problem::at(file, raw.place("long_ops"), message, None));
    }
    Ok(Workload {
        name: raw.said("name").to_owned(),
        read: raw.real("read").unwrap_or_default(),
        random: raw.word("addresses") == Some("random"),
        ops,
        long_ops,
        bytes_max: raw.whole("bytes").unwrap_or(u64::MAX),
        ramp_ns: raw.whole("ramp").unwrap_or_default(),
    })
}

/// Excludes printed figures from the scores.
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
    let message = "no printed figure is meant by this entry";
    let help = "its keys are those of a line in the file of figures".to_owned();
    Err(Problem::at(file, raw.place("figure"), message, Some(help)))
}

/// A row that the model took from the paper: the printed figure went into a server's file.
fn input(file: &File, raw: &Record, parameters: &mut Vec<Owned>) -> Result<Wanted, Problem> {
    let (name, metric) = (raw.said("system"), raw.said("metric"));
    let host = testbed::host(file, name, raw.place("system"), parameters)?.host;
    let Some(given) = given(metric, &host) else {
        let message = format!("no parameter of a server is `{metric}`");
        let help = format!("the only such metric is `{UNBALANCED}`");
        return Err(Problem::at(file, raw.place("metric"), message, Some(help)));
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
        unit: Unit::Ratio,
        printed: None,
        basis: Provenance::Input,
        by: vec!["host.unbalanced".to_owned()],
    })
}

const UNBALANCED: &str = "unbalanced_memory_slowdown";

/// The value of a metric in a server's file.
fn given(metric: &str, host: &Host) -> Option<f64> {
    (metric == UNBALANCED).then_some(1.0 - host.unbalanced_share)
}

/// Assigns each printed figure to its row.
fn match_up(file: &File, printed: &[Figure], rows: &mut [Wanted]) -> Result<(), Problem> {
    let by_key: BTreeMap<Key, usize> =
        rows.iter().enumerate().map(|(i, row)| (row.key.clone(), i)).collect();
    for (i, figure) in printed.iter().enumerate() {
        let Some(&row) = by_key.get(&figure.key) else {
            let help = "a panel of the study has to have its figure, system, workload, axes and \
                        metric; see docs/formats/study.md";
            let message = "the study does not give this figure";
            return Err(Problem::at(file, figure.span.clone(), message, Some(help.to_owned())));
        };
        let row = &mut rows[row];
        let dimension = row.metric.map_or(Dimension::Number, Metric::dimension);
        if figure.unit.dimension() != dimension {
            let message = format!("`{}` can't be in `{}`", figure.key.metric, figure.unit.name());
            return Err(Problem::at(file, figure.span.clone(), message, None));
        }
        row.unit = figure.unit;
        row.printed = Some(i);
    }
    Ok(())
}
