//! Conversion of a stage's workloads and axes to a grid.

use super::stage::{PLAIN_SEQUENTIAL, Reader};
use super::{active_range, wrong, wrong_because};
use crate::axis::{Axis, AxisKind};
use crate::grid::Grid;
use iodyno_catalog::{Entry, FileError};
use iodyno_units::Precondition;
use iodyno_workload::Spec;

/// Default workload of a stage: random reads and writes of 4 KiB, as a workload file.
const PLAIN: &str = "schema = 1\nblock = \"4KiB\"\nmix = { read = 1, write = 1 }\n[all]\naddresses = \"uniform\"\n[limits]\ntime = \"60s\"\nramp = \"0s\"";

fn first(errors: Vec<FileError>) -> FileError {
    errors.into_iter().next().unwrap_or_else(|| wrong(0..0, "no workload"))
}

impl Reader<'_> {
    /// Workloads of the stage with their names, before the axes are applied.
    pub(super) fn base(&self) -> Result<Vec<(String, Spec)>, FileError> {
        let raw = self.raw;
        let mut all = match (raw.get("workload"), raw.get("io"), raw.get("addresses")) {
            (Some(_), Some(other), _) => {
                let message = "`io` and `workload` both say what is issued: keep one";
                return Err(wrong(other.span.clone(), message));
            }
            (Some(_), _, Some(other)) | (None, Some(_), Some(other)) => {
                let message =
                    "the workload determines how addresses are chosen: leave this key out";
                return Err(wrong(other.span.clone(), message));
            }
            (Some(named), None, None) => {
                let mut all = Vec::new();
                for name in named.items().iter().filter_map(Entry::text) {
                    let found = self.defaults.workloads.get(name).ok_or_else(|| {
                        wrong(named.span.clone(), format!("there is no workload `{name}`"))
                    })?;
                    all.extend(found.iter().cloned());
                }
                if all.is_empty() {
                    let help =
                        "name a workload, or leave `workload` out for random or sequential blocks";
                    return Err(wrong_because(named.span.clone(), "the list is empty", help));
                }
                all
            }
            (None, Some(io), None) => {
                let spec = Spec::from_record(io.record().unwrap_or(raw)).map_err(first)?;
                vec![("io".to_owned(), spec)]
            }
            (None, None, addresses) => {
                let (name, text) = match addresses.and_then(Entry::text) {
                    Some("sequential") => ("sequential", PLAIN_SEQUENTIAL),
                    _ => ("random", PLAIN),
                };
                vec![(name.to_owned(), Spec::from_toml(text).map_err(first)?)]
            }
        };
        let at = raw.place("do");
        let named = raw.get("workload").is_some();
        let active = active_range(raw)?.or(self.defaults.active);
        for (_, spec) in &mut all {
            let mut changed = spec.clone();
            // A workload from the catalog has its own threads and depth.
            if !named && raw.get("io").is_none() {
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

    /// Builds the stage's grid from its workloads and axes.
    pub(super) fn grid(&self, time_ns: u64, state: Precondition) -> Result<Grid, FileError> {
        let raw = self.raw;
        let mut base = self.base()?;
        // In the file's order, outermost first: in SNIA's tests the nesting is normative.
        let own = AxisKind::ALL.into_iter().filter(|kind| *kind != AxisKind::Workload);
        let mut listed: Vec<(AxisKind, &Entry)> =
            own.filter_map(|kind| Some((kind, raw.get(kind.name())?))).collect();
        listed.sort_by_key(|(_, entry)| entry.span.start);
        let mut axes = Vec::new();
        if base.len() > 1 {
            let values = base.iter().map(|(name, _)| crate::axis::Value::Name(name.clone()));
            let axis = Axis { kind: AxisKind::Workload, values: values.collect() };
            let first = raw.get("workload").map_or(0, |entry| entry.span.start);
            let place = listed.iter().filter(|(_, entry)| entry.span.start < first).count();
            axes.push((place, axis));
        }
        let mut all = Vec::new();
        for (kind, entry) in listed {
            let at = || entry.span.clone();
            let values = entry.items().iter().filter_map(|item| Some(kind.value(item.text()?)));
            let values = values.collect::<Result<Vec<_>, _>>().map_err(|e| wrong(at(), e))?;
            if values.is_empty() {
                return Err(wrong(at(), "the list is empty"));
            }
            let axis = Axis { kind, values };
            if let Some((i, value)) = axis.twice() {
                let help =
                    "each value is one cell: remove one of them, or use `repeats` to repeat cells";
                let what = format!(
                    "`{}` lists {value} twice, the second time at position {}",
                    kind.name(),
                    i + 1
                );
                return Err(wrong_because(at(), what, help));
            }
            let is_axis = entry.is_array()
                || matches!(
                    kind,
                    AxisKind::Targets | AxisKind::Fill | AxisKind::Rate | AxisKind::Engine
                );
            if is_axis {
                all.push(axis);
                continue;
            }
            for (_, spec) in &mut base {
                let changed = crate::axis::applied(spec.clone(), kind, &axis.values[0]);
                *spec = changed.map_err(|e| wrong(at(), e))?;
            }
        }
        for (place, axis) in axes {
            all.insert(place.min(all.len()), axis);
        }
        if let Some(ns) = raw.whole("ramp") {
            let ns = (ns as f64 * self.defaults.scale) as u64;
            for (_, spec) in &mut base {
                *spec = spec.clone().with_ramp(ns).map_err(|e| wrong(raw.place("ramp"), e))?;
            }
        }
        let shares = all
            .iter()
            .any(|axis| axis.values.iter().any(|v| matches!(v, crate::axis::Value::RateShare(_))));
        let rate_of = match (raw.text("of"), shares) {
            (Some(of), true) => Some(self.earlier(of)?),
            (Some(_), false) => {
                return Err(wrong(
                    raw.place("of"),
                    "`of` names the stage that rates in percent refer to, but no rate is in percent",
                ));
            }
            (None, true) => {
                let help = "add `of = \"NAME\"`: an earlier stage, whose highest IOPS are 100 %";
                return Err(wrong_because(
                    raw.place("rate"),
                    "a rate in percent needs an earlier stage to refer to",
                    help,
                ));
            }
            (None, false) => None,
        };
        let state = match raw.word("state") {
            None => state,
            Some("own") => Precondition::Workload,
            Some("fresh") => Precondition::Fresh,
            Some(_) => Precondition::Carried,
        };
        let settles = raw.flag("settle") != Some(false);
        let grid = Grid { base, axes: all, time_ns, state, rate_of, settles };
        grid.checked().map_err(|e| wrong(raw.place("do"), e))
    }
}
