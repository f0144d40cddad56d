//! From a method file to a method: every value is read, every name looked up, and everything that is
//! wrong is said at its place.

mod grid;
mod stage;

use crate::choice::{Choice, MethodSource};
use crate::next_step::Method;
use crate::raw::{RawMethod, RawSetting, Text};
use crate::stage::{Act, Stage};
use core::ops::Range;
use iodyno_measure::Threshold;
use iodyno_workload::{ActiveRange, Spec, SpecError, Workload};
use serde_spanned::Spanned;
use std::collections::BTreeMap;

/// The only version of the form.
const SCHEMA: i64 = 1;
/// Stages at most: a method is written by hand.
const STAGES_MAX: usize = 100;

/// One thing that is wrong, at a place of the text.
pub(crate) fn wrong(span: Range<usize>, message: impl Into<String>) -> SpecError {
    SpecError { span, message: message.into(), help: None }
}

/// The same with a way to mend it.
pub(crate) fn wrong_because(
    span: Range<usize>,
    message: impl Into<String>,
    help: impl Into<String>,
) -> SpecError {
    SpecError { span, message: message.into(), help: Some(help.into()) }
}

/// What stages leave open.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) threads: u32,
    pub(crate) depth: u32,
    pub(crate) active: Option<ActiveRange>,
    /// The factor on every time.
    pub(crate) scale: f64,
    /// The workload files that the method names, read.
    pub(crate) workloads: BTreeMap<String, Vec<(String, Spec)>>,
}

impl Method {
    /// Reads a method with what was chosen beside it.
    ///
    /// # Errors
    /// Everything that is wrong; an empty place stands for the choice.
    pub fn new(source: MethodSource) -> Result<Self, Vec<SpecError>> {
        let raw: RawMethod = toml::from_str(&source.text)
            .map_err(|e| vec![wrong(e.span().unwrap_or(0..0), e.message().to_owned())])?;
        if *raw.schema.get_ref() != SCHEMA {
            let message = format!("schema {} is not known here", raw.schema.get_ref());
            let help = format!("this version reads schema {SCHEMA}");
            return Err(vec![wrong_because(raw.schema.span(), message, help)]);
        }
        let one = |e| vec![e];
        let (setting, defaults) = defaults(&raw.settings, &source).map_err(one)?;
        let thresholds = raw
            .require
            .iter()
            .map(|text| text.get_ref().parse().map_err(|e| wrong(text.span(), format!("{e}"))))
            .collect::<Result<Vec<Threshold>, SpecError>>()
            .map_err(one)?;
        let span = raw.stages.span();
        let raw_stages = raw.stages.into_inner();
        if raw_stages.is_empty() || raw_stages.len() > STAGES_MAX {
            let message = format!("a method has 1 to {STAGES_MAX} stages");
            return Err(vec![wrong(span, message)]);
        }
        let (mut stages, mut errors): (Vec<Stage>, Vec<SpecError>) = (Vec::new(), Vec::new());
        for raw in raw_stages {
            match stage::stage(&raw, &defaults, &stages) {
                Ok(stage) if stages.iter().any(|s| s.name == stage.name) => {
                    let at = raw.name.as_ref().map_or_else(|| raw.act.span(), Spanned::span);
                    let message = format!("two stages are called `{}`", stage.name);
                    errors.push(wrong_because(at, message, "give each a `name` of its own"));
                }
                Ok(stage) => stages.push(stage),
                // What a broken stage would have been is not known: later ones may lean on it.
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
            about: raw.about,
            standard: raw.standard,
            reuse: raw.reuse,
            setting,
            thresholds,
            stages,
        })
    }

    /// The names of the workload files that a method's text mentions.
    pub fn workloads_named(text: &str) -> Vec<String> {
        workloads_named(text)
    }

    /// In how far the run of it deviates from the file, in words.
    pub fn deviations(&self) -> Vec<String> {
        deviations(&self.source.choice, self.standard.as_deref())
    }
}

/// The chosen settings, and what they and the operator decide for all stages.
fn defaults(
    settings: &[RawSetting],
    source: &MethodSource,
) -> Result<(Option<String>, Defaults), SpecError> {
    let choice = &source.choice;
    let chosen = match &choice.setting {
        None => settings.first(),
        Some(name) => {
            let known = settings.iter().find(|s| s.name.get_ref() == name);
            if known.is_none() {
                let names: Vec<&str> = settings.iter().map(|s| s.name.get_ref().as_str()).collect();
                let message = format!("the method has no settings called `{name}`");
                let help = if names.is_empty() {
                    "it has none at all: leave --setting out".to_owned()
                } else {
                    format!("it has {}", names.join(" and "))
                };
                return Err(wrong_because(0..0, message, help));
            }
            known
        }
    };
    let count = |given: Option<&Spanned<Text>>| -> Result<Option<u32>, SpecError> {
        let Some(given) = given else { return Ok(None) };
        let n = given.get_ref().0.parse().ok().filter(|n| *n > 0);
        n.map(Some).ok_or_else(|| wrong(given.span(), "expected a whole number, 1 or above"))
    };
    let (mut threads, mut depth, mut active) = (None, None, None);
    if let Some(setting) = chosen {
        threads = count(setting.threads.as_ref())?;
        depth = count(setting.depth.as_ref())?;
        if let Some(given) = &setting.active {
            active = Some(active_range(given)?);
        }
    }
    let own_active = choice.active().map_err(|e| wrong(0..0, e))?;
    if choice.scale.is_some_and(|scale| !(scale > 0.0 && scale <= 1.0)) {
        return Err(wrong_because(
            0..0,
            "a scale is above 0 and at most 1",
            "--scale 0.1 makes every time a tenth as long",
        ));
    }
    let workloads = source
        .workloads
        .iter()
        .map(|(name, text)| Ok((name.clone(), workload(name, text, &source.workloads)?)))
        .collect::<Result<_, SpecError>>()?;
    let defaults = Defaults {
        threads: choice.threads.or(threads).unwrap_or(1),
        depth: choice.depth.or(depth).unwrap_or(1),
        active: own_active.or(active),
        scale: choice.factor(),
        workloads,
    };
    Ok((chosen.map(|s| s.name.get_ref().clone()), defaults))
}

pub(crate) fn active_range(given: &Spanned<String>) -> Result<ActiveRange, SpecError> {
    given.get_ref().parse::<ActiveRange>().map_err(|e| wrong(given.span(), e))
}

/// The single workloads of a file: itself, or its members, whose texts are there too.
fn workload(
    name: &str,
    text: &str,
    all: &BTreeMap<String, String>,
) -> Result<Vec<(String, Spec)>, SpecError> {
    let fail = |why: String| wrong(0..0, format!("the workload `{name}`: {why}"));
    let said =
        |errors: Vec<SpecError>| errors.first().map_or_else(String::new, ToString::to_string);
    match Workload::from_toml(text).map_err(|e| fail(said(e)))? {
        Workload::Single(spec) => Ok(vec![(name.to_owned(), *spec)]),
        Workload::Group(group) => {
            let mut members = Vec::new();
            for member in group.members {
                let text = all
                    .get(&member.name)
                    .ok_or_else(|| fail(format!("its member `{}` is missing", member.name)))?;
                let spec = Spec::from_toml(text).map_err(|e| fail(said(e)))?;
                members.push((member.name, spec));
            }
            Ok(members)
        }
    }
}

/// The names of the workload files that a method's text mentions, so that they can be found before it is
/// read. Empty where the text can't be read at all.
pub(crate) fn workloads_named(text: &str) -> Vec<String> {
    let Ok(raw) = toml::from_str::<RawMethod>(text) else { return Vec::new() };
    let stages = raw.stages.into_inner();
    let named = stages.into_iter().filter_map(|stage| stage.workload);
    named.flat_map(|given| given.into_inner().values).map(|text| text.0).collect()
}

/// A choice that changes what the file says, in words: for the record of deviations.
pub(crate) fn deviations(choice: &Choice, standard: Option<&str>) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(scale) = choice.scale.filter(|s| *s < 1.0) {
        all.push(format!("every time is {scale} of what the method says"));
    }
    if let (Some(active), Some(standard)) = (&choice.active, standard) {
        all.push(format!("the active range is {active}, not that of {standard}"));
    }
    all
}
