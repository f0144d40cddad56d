//! `size --like`: derives the demand from a stored run. Refuses runs whose load a demand can't represent.

use crate::args::Size;
use crate::console::remark;
use crate::failure::Failure;
use crate::show;
use iodyno_measure::offered_rate::rate_met;
use iodyno_measure::statistics::within::{Within, within};
use iodyno_measure::summary::CONFIDENCE;
use iodyno_measure::{Cell, Histogram, Quantity, Role, Summary};
use iodyno_notebook::{Run, TargetRecord};
use iodyno_run::{RunRequest, Work};
use iodyno_sizing::Demand;
use iodyno_units::human;
use iodyno_units::text::{for_shell, listed};
use iodyno_workload::Spec;
use std::path::Path;

/// Derives the demand from the last measured cell of a run, over all of the run's targets. The flags --rate and --p99
/// override the rate and latency of the demand. Notes on standard error say which figures were taken.
pub(super) fn demand(
    selector: &str,
    flags: &Size,
    notebook: Option<&Path>,
) -> Result<Demand, Failure> {
    let notebook = show::open(notebook)?.ok_or_else(show::no_notebook)?;
    // Several runs may have the name: use the last one.
    let mut runs = notebook.load_several(selector)?;
    let run: Run = runs.pop().ok_or_else(|| Failure::input(format!("no run `{selector}`")))?;
    let measured = |cell: &&Cell| {
        let measures = |c: &Cell| c.key.place.as_ref().is_none_or(|p| p.role == Role::Measure);
        measures(cell) && cell.total().ops() > 0
    };
    let cells: Vec<&Cell> = run.cells.iter().filter(measured).collect();
    let merged = cells.iter().rev().find(|cell| cell.key.is_of_all_targets());
    let nothing = || Failure::input(format!("the run `{selector}` measured nothing"));
    let cell = *merged.or(cells.last()).ok_or_else(nothing)?;
    if let Some(why) = not_represented(&run, &cells, cell) {
        return Err(Failure::input(format!("--like: the run `{selector}` {why}")));
    }
    let of_cell = run.head.workloads.iter().find(|w| w.name == cell.key.workload);
    let record = of_cell.or(run.head.workloads.last()).ok_or_else(nothing)?;
    let spec: Spec = serde_json::from_value(record.spec.clone())
        .map_err(|e| Failure::notebook(format!("the workload of run {}: {e}", run.id)))?;
    let of_target = |target: &TargetRecord| {
        let described = target.description();
        described.opened_bytes.or(described.size_bytes)
    };
    let bytes = run.head.targets.iter().filter_map(of_target).sum();
    let active = iodyno_drive::active_range(&spec, bytes);
    let (rate_iops, p99_ns) = rate_and_p99(selector, cell, flags)?;
    Ok(Demand {
        like: Some(run.id.clone()),
        active_bytes: Some(active.end.saturating_sub(active.start))
            .map(|bytes| bytes.min(flags.capacity.unwrap_or(u64::MAX)))
            .filter(|bytes| *bytes > 0),
        ..Demand::new(record.name.clone(), spec, rate_iops, p99_ns)
    })
}

/// Explains why no demand can represent the load of a cell, and what to do instead; `None`: a demand can represent it.
fn not_represented(run: &Run, cells: &[&Cell], cell: &Cell) -> Option<String> {
    if cell.evidence.trace.is_some() {
        let replayed = match RunRequest::stored_in(&run.head) {
            Some(RunRequest { work: Work::Trace(trace), folder, .. }) => {
                for_shell(&folder.join(trace.path).to_string_lossy())
            }
            _ => "FILE".to_owned(),
        };
        return Some(format!(
            "replayed a trace, whose bursts and addresses `size` does not simulate: replay it on each candidate (`iodyno replay {replayed} --on 'model:…'`), or size for a workload like it at its highest rate (--workload, --rate, --p99)"
        ));
    }
    let others = cells.iter().filter(|of| of.key.name == cell.key.name);
    let others = others.map(|of| &of.evidence.beside).find(|others| !others.is_empty());
    if let Some(others) = others {
        let all =
            std::iter::once(cell.key.workload.as_str()).chain(others.iter().map(String::as_str));
        return Some(format!(
            "measured simultaneous workloads ({}), and `size` simulates one: name a run of one of them alone, or give --workload, --rate and --p99",
            listed(all, "and")
        ));
    }
    if cell.log.is_some() {
        return Some(
            "measured a message log: give its rate of messages with --log-rate, and --p99"
                .to_owned(),
        );
    }
    cell.evidence.other_tool.as_ref().map(|tool| {
        format!(
            "was measured by {}, so its workload is not known: give --workload, --rate and --p99",
            tool.program
        )
    })
}

/// Rate and p99 that the demand takes from a cell, in operations per second and ns, unless flags set them.
fn rate_and_p99(selector: &str, cell: &Cell, flags: &Size) -> Result<(f64, u64), Failure> {
    let summary = Summary::of(cell);
    let per_s = |iops: f64| format!("{}/s", human::count(iops));
    if flags.rate.is_none() && cell.key.place.as_ref().is_some_and(|place| place.is_trial) {
        return Err(Failure::input(format!(
            "--like: the run `{selector}` searched for a rate, and its last cell only tried one: set --rate and --p99"
        )));
    }
    let offered_iops = cell.key.offered_iops;
    let missed = offered_iops.filter(|_| rate_met(cell).is_some_and(|met| !met.is_met()));
    if let (Some(offered_iops), None) = (missed, flags.p99) {
        return Err(Failure::input(format!(
            "--like: the run `{selector}` missed its rate ({} of {}), so its queue grew, and its p99 depends on how long the run lasted: set --p99",
            per_s(summary.ops_per_s),
            per_s(offered_iops)
        )));
    }
    if let (Some(offered_iops), None) = (missed, flags.rate) {
        remark(
            "note",
            &format!(
                "the rate is the {} that the run offered, although only {} completed",
                per_s(offered_iops),
                per_s(summary.ops_per_s)
            ),
        );
    }
    let missing = |what: &str| {
        Failure::input(format!("the run `{selector}` gives no {what}: set it with --{what}"))
    };
    let rate_iops = flags.rate.or(offered_iops).unwrap_or(summary.ops_per_s);
    let rate_iops = Some(rate_iops).filter(|rate| *rate >= 1.0).ok_or_else(|| missing("rate"))?;
    if let Some(p99_ns) = flags.p99 {
        return Ok((rate_iops, p99_ns));
    }
    let p99_ns = summary.get(Quantity::Quantile(0.99)).ok_or_else(|| missing("p99"))?;
    Ok((rate_iops, highest_p99_ns(cell, p99_ns)))
}

/// Upper end of the confidence interval of a cell's p99, ns. The value itself is an unsuitable limit, because an equal
/// run exceeds it half of the time.
fn highest_p99_ns(cell: &Cell, p99_ns: f64) -> u64 {
    let parts: Vec<Vec<&Histogram>> = cell
        .series
        .iter()
        .map(|interval| interval.iter().map(|(_, class)| class.response_time()).collect())
        .collect();
    let found = within(&cell.total().response_time(), &parts, &[0.99], CONFIDENCE);
    let high_ns = found.into_iter().flatten().find_map(|of: Within| of.high_ns);
    let value = human::time_ns(p99_ns);
    let words = match high_ns {
        Some(ns) => format!(
            "the limit of p99, {}, is the upper end of the 95 % interval of the run's p99, {value}",
            human::time_ns(ns as f64)
        ),
        None => format!(
            "the limit is the run's p99, {value}: the run has too few operations for an upper end of its 95 % interval; a longer run has one"
        ),
    };
    remark("note", &words);
    high_ns.unwrap_or(p99_ns as u64)
}
