//! Conversion of a method file to a method. Parses every value, looks up every name, and reports every error at its
//! position.

mod grid;
mod stage;
mod sweep;

use crate::choice::{Choice, MethodSource};
use crate::next_step::Method;
use crate::schema::METHOD;
use crate::stage::{Act, Stage};
use core::ops::Range;
use iodyno_catalog::{FileError, Reader, Record};
use iodyno_measure::Threshold;
use iodyno_workload::{ActiveRange, Spec, Workload};
use std::collections::BTreeMap;

/// Maximum number of stages in a method; methods are written by hand.
const STAGES_MAX: usize = 100;

/// Creates an error at a position in the method file.
pub(crate) fn wrong(span: Range<usize>, message: impl Into<String>) -> FileError {
    FileError::new(span, message)
}

/// Creates an error at a position in the method file, with a remedy.
pub(crate) fn wrong_because(
    span: Range<usize>,
    message: impl Into<String>,
    help: impl Into<String>,
) -> FileError {
    FileError::new(span, message).with_help(help)
}

/// Default values for keys that a stage omits.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) threads: u32,
    pub(crate) depth: u32,
    pub(crate) active: Option<ActiveRange>,
    /// Factor by which all durations are multiplied.
    pub(crate) scale: f64,
    /// Parsed workload files that the method refers to, by name. A file may contain several workloads.
    pub(crate) workloads: BTreeMap<String, Vec<(String, Spec)>>,
}

impl Method {
    /// Parses and validates a method. `source` contains the method file or the sweep, and the operator's options.
    ///
    /// # Errors
    /// All errors found. An error in the operator's options has an empty position.
    pub fn new(source: MethodSource) -> Result<Self, Vec<FileError>> {
        if let Some(sweep) = source.sweep.clone() {
            return sweep::method(&sweep, source).map_err(|e| vec![e]);
        }
        let mut reader = Reader::default();
        let record = reader.file(&source.text, None, METHOD).unwrap_or_default();
        reader.finish()?;
        let one = |e| vec![e];
        let (setting, defaults) = defaults(&record, &source).map_err(one)?;
        let thresholds = record
            .items("require")
            .iter()
            .map(|it| {
                let text = it.text().unwrap_or_default();
                text.parse().map_err(|e| wrong(it.span.clone(), format!("{e}")))
            })
            .collect::<Result<Vec<Threshold>, FileError>>()
            .map_err(one)?;
        let span = record.place("stages");
        if !(1..=STAGES_MAX).contains(&record.items("stages").len()) {
            let message = format!("a method must have 1 to {STAGES_MAX} stages");
            return Err(vec![wrong(span, message)]);
        }
        let (mut stages, mut errors): (Vec<Stage>, Vec<FileError>) = (Vec::new(), Vec::new());
        for raw in record.records("stages") {
            match stage::stage(raw, &defaults, &stages) {
                Ok(stage) if stages.iter().any(|s| s.name == stage.name) => {
                    let key = if raw.get("name").is_some() { "name" } else { "do" };
                    let message = format!("two stages are called `{}`", stage.name);
                    let help = "give each a `name` of its own";
                    errors.push(wrong_because(raw.place(key), message, help));
                }
                Ok(stage) => stages.push(stage),
                // The effect of an invalid stage is unknown, and later stages may depend on it.
                Err(e) => {
                    errors.push(e);
                    break;
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        if stages.iter().all(|s| matches!(s.act, Act::Purge | Act::Wait { .. })) {
            return Err(vec![wrong(span, "the method does no I/O")]);
        }
        Ok(Self {
            source,
            about: record.text("about").unwrap_or_default().to_owned(),
            standard: record.text("standard").map(str::to_owned),
            reuse: record.flag("reuse") == Some(true),
            setting,
            thresholds,
            stages,
        })
    }

    /// Names of the workload files to which the text of a method file refers.
    pub fn workloads_named(text: &str) -> Vec<String> {
        workloads_named(text)
    }

    /// Describes how the operator's options deviate from the method: shorter durations, or an active range other than
    /// that of the published specification.
    pub fn deviations(&self) -> Vec<String> {
        deviations(&self.source.choice, self.standard.as_deref())
    }
}

/// Selects the group of settings in effect. Returns its name, and the default values for all stages, which come from
/// the group and from the operator's options.
fn defaults(
    record: &Record,
    source: &MethodSource,
) -> Result<(Option<String>, Defaults), FileError> {
    let choice = &source.choice;
    let name = |setting: &Record| setting.text("name").unwrap_or_default().to_owned();
    let chosen = match &choice.setting {
        None => record.records("settings").next(),
        Some(wanted) => {
            let known = record.records("settings").find(|setting| name(setting) == *wanted);
            if known.is_none() {
                let names: Vec<String> = record.records("settings").map(name).collect();
                let message = format!("the method has no settings called `{wanted}`");
                let help = if names.is_empty() {
                    "the method has no settings: leave --setting out".to_owned()
                } else {
                    format!("it has {}", names.join(" and "))
                };
                return Err(wrong_because(0..0, message, help));
            }
            known
        }
    };
    let count = |setting: &Record, path: &str| -> Result<Option<u32>, FileError> {
        let Some(text) = setting.text(path) else { return Ok(None) };
        let n = text.parse().ok().filter(|n| *n > 0);
        n.map(Some).ok_or_else(|| wrong(setting.place(path), "expected a whole number, 1 or above"))
    };
    let (mut threads, mut depth, mut active) = (None, None, None);
    if let Some(setting) = chosen {
        threads = count(setting, "threads")?;
        depth = count(setting, "depth")?;
        active = active_range(setting)?;
    }
    let own_active = choice.active().map_err(|e| wrong(0..0, e))?;
    choice.check_scale()?;
    let workloads = source
        .workloads
        .iter()
        .map(|(name, text)| Ok((name.clone(), workload(name, text, &source.workloads)?)))
        .collect::<Result<_, FileError>>()?;
    let defaults = Defaults {
        threads: choice.threads.or(threads).unwrap_or(1),
        depth: choice.depth.or(depth).unwrap_or(1),
        active: own_active.or(active),
        scale: choice.factor(),
        workloads,
    };
    Ok((chosen.map(name), defaults))
}

/// Parses the active range of a stage or a group of settings; `None` if it is not given.
pub(crate) fn active_range(of: &Record) -> Result<Option<ActiveRange>, FileError> {
    let read = of.text("active").map(str::parse::<ActiveRange>);
    read.transpose().map_err(|e| wrong(of.place("active"), e))
}

/// Parses a workload file. A group of workloads refers to other files, whose texts are in `all`.
fn workload(
    name: &str,
    text: &str,
    all: &BTreeMap<String, String>,
) -> Result<Vec<(String, Spec)>, FileError> {
    let fail = |why: String| wrong(0..0, format!("the workload `{name}`: {why}"));
    let said =
        |errors: Vec<FileError>| errors.first().map_or_else(String::new, ToString::to_string);
    match Workload::from_toml(text).map_err(|e| fail(said(e)))? {
        Workload::Single(spec) => Ok(vec![(name.to_owned(), *spec)]),
        Workload::Group(group) => {
            let mut members = Vec::new();
            for member in group.members {
                let text = all.get(&member.name).ok_or_else(|| {
                    fail(format!(
                        "this group lists the workload `{}`, which does not exist",
                        member.name
                    ))
                })?;
                let spec = Spec::from_toml(text).map_err(|e| fail(said(e)))?;
                members.push((member.name, spec));
            }
            Ok(members)
        }
    }
}

/// Names of the workload files to which a method's text refers, so that they can be loaded before the method
/// is parsed. Empty if the text is invalid.
pub(crate) fn workloads_named(text: &str) -> Vec<String> {
    let Some(record) = Reader::default().file(text, None, METHOD) else { return Vec::new() };
    let named = record.records("stages").flat_map(|stage| stage.items("workload"));
    named.filter_map(|name| name.text().map(str::to_owned)).collect()
}

/// Lists the operator's options that deviate from the method file, as text.
pub(crate) fn deviations(choice: &Choice, standard: Option<&str>) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(scale) = choice.scale.filter(|s| *s < 1.0) {
        all.push(format!("all durations of the method are multiplied by {scale}"));
    }
    if let (Some(active), Some(standard)) = (&choice.active, standard) {
        all.push(format!("the active range is {active} instead of the one in {standard}"));
    }
    all
}
