//! A study: systems, workloads, panels of figures, and the printed figures to hold against ours.
//! [`load`] reads the file, the printed figures and all that they name, and lays out every row that
//! the study tells.

use crate::assign_provenance;
use crate::metric::{Metric, Recipe};
use crate::panel::{Panel, panel};
use crate::provenance::Provenance;
use crate::published::{self, Figure, Key};
use crate::raw::{Addresses, Method, RawFlag, RawInput, RawStudy, RawWorkload};
use crate::testbed::{self, Bench, Owned};
use crate::unit::{Dimension, Unit};
use crate::wanted::{Wanted, Workload};
use iodyno_catalog::{File, Kind, Problem, find, parse};
use iodyno_emulate::spec::Host;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The version of the file's form that this program reads.
pub const SCHEMA: u64 = 1;

/// A study that can be run.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its name in the catalog.
    pub name: String,
    /// The paper's.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// Cells are measured in rounds, until the steady state of SNIA's specification.
    pub in_rounds: bool,
    /// The systems that were tested.
    pub systems: Vec<Bench>,
    /// What was issued.
    pub workloads: Vec<Workload>,
    /// The tables and figures, in the order of the file.
    pub panels: Vec<Panel>,
    /// What the paper printed.
    pub printed: Vec<Figure>,
    /// Every row that the study tells, in the order of the panels; inputs at the end.
    pub rows: Vec<Wanted>,
    /// Every parameter of every device and server in it.
    pub parameters: Vec<Owned>,
}

/// Reads a study of the catalog by its name, or a file by its path, with all that it names.
///
/// # Errors
/// What is wrong with the study, its figures, a device or a server, at its place.
pub fn load(name_or_path: &str) -> Result<Study, Problem> {
    let file = find(Kind::Study, name_or_path)?;
    let raw: RawStudy = parse(&file)?;
    let figures = published_file(&file, &raw)?;
    study(&file, &raw, &figures)
}

/// The title of a study, without what it names.
///
/// # Errors
/// That there is no such study, or what is wrong with its file.
pub fn title(name_or_path: &str) -> Result<String, Problem> {
    let raw: RawStudy = parse(&find(Kind::Study, name_or_path)?)?;
    Ok(raw.title)
}

/// The file of printed figures that a study names: of the catalog, or beside the study's own file.
fn published_file(file: &File, raw: &RawStudy) -> Result<File, Problem> {
    let name = raw.published.get_ref();
    let is_path = name.contains('/') || Path::new(name).extension().is_some();
    let beside = Path::new(&file.origin).parent().filter(|_| is_path);
    let path = beside.map(|folder| folder.join(name).to_string_lossy().into_owned());
    find(Kind::Published, path.as_deref().unwrap_or(name)).map_err(|problem| {
        let help = problem.help().map(ToOwned::to_owned);
        let message = format!("the printed figures: {}", problem.message());
        Problem::at(file, raw.published.span(), message, help)
    })
}

/// Puts a study together from its file and the file of its figures.
pub(crate) fn study(file: &File, raw: &RawStudy, figures: &File) -> Result<Study, Problem> {
    if *raw.schema.get_ref() != SCHEMA {
        let message = format!("`schema` is {SCHEMA}, not {}", raw.schema.get_ref());
        return Err(Problem::at(file, raw.schema.span(), message, None));
    }
    if raw.kind.get_ref() != "study" {
        let message = format!("this is no study: `kind` is \"{}\"", raw.kind.get_ref());
        return Err(Problem::at(file, raw.kind.span(), message, None));
    }
    let mut printed = published::read(figures)?;
    for raw in &raw.flagged {
        flag(file, raw, &mut printed)?;
    }
    let mut parameters = Vec::new();
    let mut systems: Vec<Bench> = Vec::new();
    for system in &raw.systems {
        let built = testbed::bench(file, system, &mut parameters)?;
        refuse_twice(file, &system.name, systems.iter().map(|s| s.name.as_str()))?;
        systems.push(built);
    }
    let mut workloads: Vec<Workload> = Vec::new();
    for raw in &raw.workloads {
        refuse_twice(file, &raw.name, workloads.iter().map(|w| w.name.as_str()))?;
        workloads.push(workload(file, raw)?);
    }
    let mut panels = Vec::new();
    let mut rows = Vec::new();
    let mut keys = BTreeSet::new();
    for raw in &raw.panels {
        let (panel, wanted) = panel(file, raw, panels.len(), &systems, &workloads)?;
        if let Some(twice) = wanted.iter().find(|row| !keys.insert(row.key.clone())) {
            let key = &twice.key;
            let message = format!("`{}` tells `{}` twice", key.figure, key.metric);
            let help = "panels of the same figure may not overlap".to_owned();
            return Err(Problem::at(file, raw.figure.span(), message, Some(help)));
        }
        panels.push(panel);
        rows.extend(wanted);
    }
    for raw in &raw.inputs {
        rows.push(input(file, raw, &mut parameters)?);
    }
    match_up(figures, &printed, &mut rows)?;
    assign_provenance::assign(file, &raw.basis, &parameters, &mut rows)?;
    Ok(Study {
        name: file.name.clone(),
        title: raw.title.clone(),
        source: raw.source.clone(),
        in_rounds: raw.method == Method::Pts,
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
    name: &serde_spanned::Spanned<String>,
    mut before: impl Iterator<Item = &'a str>,
) -> Result<(), Problem> {
    if before.any(|b| b == name.get_ref()) {
        let message = format!("`{}` is named twice", name.get_ref());
        return Err(Problem::at(file, name.span(), message, None));
    }
    Ok(())
}

fn workload(file: &File, raw: &RawWorkload) -> Result<Workload, Problem> {
    let ops = *raw.ops.get_ref();
    if !(100..=1_000_000_000).contains(&ops) {
        let message = format!("`ops` is a whole number from 100 to 10^9, not {ops}");
        return Err(Problem::at(file, raw.ops.span(), message, None));
    }
    let long_ops = raw.long_ops.as_ref().map_or(ops, |n| *n.get_ref());
    if let Some(raw) =
        raw.long_ops.as_ref().filter(|n| !(ops..=1_000_000_000).contains(n.get_ref()))
    {
        let message = format!("`long_ops` is a whole number from `ops` to 10^9, not {long_ops}");
        return Err(Problem::at(file, raw.span(), message, None));
    }
    Ok(Workload {
        name: raw.name.get_ref().clone(),
        read: raw.read.get_ref().0,
        random: *raw.addresses.get_ref() == Addresses::Random,
        ops,
        long_ops,
        bytes_max: raw.bytes.as_ref().map_or(u64::MAX, |bytes| bytes.get_ref().0),
        ramp_ns: raw.ramp.get_ref().0,
    })
}

/// Takes printed figures out of the scores.
fn flag(file: &File, raw: &RawFlag, printed: &mut [Figure]) -> Result<(), Problem> {
    if raw.why.get_ref().trim().is_empty() {
        let message = "`why` says nothing: a figure is not left out without a reason";
        return Err(Problem::at(file, raw.why.span(), message, None));
    }
    let is_meant = |figure: &&mut Figure| {
        let key = &figure.key;
        (key.figure.as_str(), key.system.as_str()) == (raw.figure.get_ref(), &raw.system)
            && (key.workload.as_str(), key.metric.as_str()) == (&raw.workload, &raw.metric)
    };
    let mut found = false;
    for figure in printed.iter_mut().filter(is_meant) {
        figure.flag.clone_from(raw.why.get_ref());
        found = true;
    }
    if found {
        return Ok(());
    }
    let message = "no printed figure is meant by this entry";
    let help = "its keys are those of a line in the file of figures".to_owned();
    Err(Problem::at(file, raw.figure.span(), message, Some(help)))
}

/// A row that the model took from the paper: what is printed went into a server's file.
fn input(file: &File, raw: &RawInput, parameters: &mut Vec<Owned>) -> Result<Wanted, Problem> {
    let name = raw.system.get_ref();
    let host = testbed::host(file, name, raw.system.span(), parameters)?.host;
    let Some(given) = given(raw.metric.get_ref(), &host) else {
        let message = format!("no parameter of a server is `{}`", raw.metric.get_ref());
        let help = format!("the only such metric is `{UNBALANCED}`");
        return Err(Problem::at(file, raw.metric.span(), message, Some(help)));
    };
    Ok(Wanted {
        key: Key {
            figure: raw.figure.clone(),
            system: name.clone(),
            workload: raw.workload.clone(),
            metric: raw.metric.get_ref().clone(),
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

/// What a server's file says of a metric.
fn given(metric: &str, host: &Host) -> Option<f64> {
    (metric == UNBALANCED).then_some(1.0 - host.unbalanced_share)
}

/// Puts each printed figure beside the row that gives it.
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
