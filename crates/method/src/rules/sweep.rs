//! Conversion of a sweep on the command line to a method of one stage.

use super::stage::PLAIN_SEQUENTIAL;
use super::workload;
use crate::axis::{Axis, AxisKind, Value};
use crate::choice::MethodSource;
use crate::grid::Grid;
use crate::next_step::Method;
use crate::rate_search::{LatencyLimit, RateSearch};
use crate::stage::{Act, Cells, Fill, Stage};
use crate::sweep::Sweep;
use iodyno_catalog::FileError;
use iodyno_measure::metric::Metric;
use iodyno_units::Precondition;
use iodyno_workload::{ArrivalKind, Percent, Spec};

/// Queue depth of a fill before a sweep.
const FILL_DEPTH: u32 = 32;

/// Creates the method that carries out a sweep.
///
/// # Errors
/// The violated rule, without a position in a file.
pub(super) fn method(sweep: &Sweep, source: MethodSource) -> Result<Method, FileError> {
    let wrong = |message: String| FileError::new(0..0, message);
    source.choice.check_scale()?;
    let scaled = |ns: u64| (ns as f64 * source.choice.factor()) as u64;
    let mut base = Vec::new();
    for (name, text) in &source.workloads {
        base.extend(workload(name, text, &source.workloads)?);
    }
    let time_ns = base.iter().filter_map(|(_, spec)| spec.limits().time_ns).max();
    let time_ns = time_ns.ok_or_else(|| {
        FileError::new(0..0, "the cells of a sweep need a time limit").with_help("give --time")
    })?;
    for (_, spec) in &mut base {
        let ramp_ns = scaled(spec.limits().ramp_ns);
        *spec = spec.clone().with_ramp(ramp_ns).map_err(wrong)?;
    }
    // Overrides give all workloads the same active range.
    let active = base[0].1.active();
    let mut axes = sweep.axes.clone();
    if axes.iter().flat_map(|axis| &axis.values).any(|v| matches!(v, Value::RateShare(_))) {
        return Err(FileError::new(0..0, "a sweep can't have a rate in percent")
            .with_help("give operations per second, such as 50k/s"));
    }
    if base.len() > 1 {
        let values = base.iter().map(|(name, _)| Value::Name(name.clone())).collect();
        axes.insert(0, Axis { kind: AxisKind::Workload, values });
    }
    let grid = Grid {
        base,
        axes,
        time_ns: scaled(time_ns).max(1),
        state: Precondition::Workload,
        settles: true,
        rate_of: None,
    };
    let grid = grid.checked().map_err(wrong)?;
    let act = match sweep.find_rate {
        Some(_) if grid.len() != 1 => {
            return Err(FileError::new(
                0..0,
                "a search for the highest rate needs exactly one cell",
            )
            .with_help("name a single workload, not a group, and vary nothing"));
        }
        Some(_) if matches!(grid.base[0].1.arrivals(), ArrivalKind::Open { .. }) => {
            return Err(FileError::new(
                0..0,
                "the rate can't be given, because the search sets it",
            )
            .with_help("leave the rate out, and use a workload without `arrivals`"));
        }
        Some(LatencyLimit { metric: Metric { kind: Some(kind), .. }, .. })
            if !grid.base[0].1.issues(kind) =>
        {
            let words = format!(
                "the latency of {}s can't be searched for, because the workload never issues one",
                kind.name()
            );
            return Err(FileError::new(0..0, words)
                .with_help("name a kind of operation that the workload issues, or none"));
        }
        Some(limit) => Act::RateSearch(RateSearch { grid, limit }),
        None => Act::Cells(Cells {
            grid,
            order: sweep.order,
            repeats: sweep.repeats,
            ceilings: sweep.ceilings.clone(),
        }),
    };
    let name = if sweep.find_rate.is_some() { "rate search" } else { "sweep" };
    let mut stages = vec![Stage { name: name.to_owned(), act }];
    if sweep.fill_passes > 0 {
        let spec = Spec::from_toml(PLAIN_SEQUENTIAL).map_err(|mut errors| errors.remove(0))?;
        let spec = spec.with_read_share(Percent::ZERO).map_err(wrong)?;
        let spec = spec.with_depth(FILL_DEPTH).map_err(wrong)?;
        let spec = spec.with_active(active).map_err(wrong)?;
        let fill = Fill { spec, passes: sweep.fill_passes };
        stages.insert(0, Stage { name: "fill".to_owned(), act: Act::Fill(fill) });
    }
    Ok(Method {
        about: format!("a {}", source.name),
        source,
        standard: None,
        reuse: false,
        setting: None,
        thresholds: Vec::new(),
        stages,
    })
}
