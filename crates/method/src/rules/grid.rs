//! What a stage issues, and the axes over it.

use super::stage::{PLAIN_SEQUENTIAL, Reader};
use super::{active_range, wrong, wrong_because};
use crate::axis::{Axis, AxisKind};
use crate::grid::Grid;
use crate::raw::{Given, Texts};
use iodyno_units::{Precondition, parse_duration_ns};
use iodyno_workload::{Spec, SpecError};
use serde_spanned::Spanned;

/// What a stage issues where it says nothing: single blocks anywhere.
const PLAIN: &str = "schema = 1\nblock = \"4KiB\"\nmix = { read = 1, write = 1 }\n[all]\naddresses = \"uniform\"\n[limits]\ntime = \"60s\"\nramp = \"0s\"";
/// Points of a grid at most.
const POINTS_MAX: usize = 20_000;

impl Reader<'_> {
    /// What is issued before the axes are laid over it.
    pub(super) fn base(&self) -> Result<Vec<(String, Spec)>, SpecError> {
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
    pub(super) fn grid(&self, time_ns: u64, state: Precondition) -> Result<Grid, SpecError> {
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
            if let Some((at, value)) =
                values.iter().enumerate().find(|(at, value)| values[..*at].contains(value))
            {
                let help = "each value is one cell: take one of them out, or use `repeats` for the same cell again";
                let what = format!("`{}` has {value} twice, as its value {}", kind.name(), at + 1);
                return Err(wrong_because(texts.span(), what, help));
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
            Some(given) => {
                let help = "`own` (what the workload makes of the device after long), `fresh`, or `carried` (as the cell before left it)";
                let word = given.get_ref().as_str();
                Precondition::of_word(word, &["own", "fresh", "carried"]).ok_or_else(|| {
                    wrong_because(given.span(), format!("unknown state `{word}`"), help)
                })?
            }
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
}
