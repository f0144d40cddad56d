//! Charts the breakdown of I/O latency into phases. Emulated storage reports each phase. For real storage, the
//! workers' timestamps separate submission and reaping from the time between them. If submission performs the I/O
//! itself (pread, a mapping, memory), processor time is separated from the rest.

use super::labels;
use iodyno_measure::{Cell, Spent, SpentOf};
use iodyno_notebook::Run;
use iodyno_page::{Axis, Figure, Mark, Panel, Plot, Point, Quantity, Series, Shape};
use iodyno_units::{OpKind, human};

/// Maximum number of cells in a figure.
const CELLS_MAX: usize = 16;
/// Maximum number of phases in a figure, limited by the colours. With more phases, the last colour sums the
/// shortest ones.
const PHASES_MAX: usize = 8;

/// If one phase exceeds this fraction of every bar, the figure is drawn with less height.
const PLAIN_SHARE: f64 = 0.97;

/// Name of the phase in which a worker submits the I/O.
const SUBMISSION: &str = "submission";
/// Name of the phase in which workers spend their own processor time in user mode.
const USER: &str = "iodyno: prepare, submit and reap";

/// Minimum difference between a mean latency and the sum of its phases that is mentioned, as a fraction.
const DIFFERENCE_MIN: f64 = 0.02;

/// A bar of the latency breakdown.
#[derive(Default)]
struct Bar {
    name: String,
    /// Name and mean duration of each phase, ns.
    phases: Vec<(String, f64)>,
    /// Whether the phases are those of one flash page, of several that an I/O reads in parallel.
    is_per_page: bool,
    /// Mean latency of the I/Os, ns; None if the phases add up to it by definition.
    latency_ns: Option<f64>,
}

impl Bar {
    fn total_ns(&self) -> f64 {
        self.phases.iter().map(|phase| phase.1).sum()
    }

    /// Fraction of the bar's total time that the named phase takes.
    fn share(&self, name: &str) -> f64 {
        let mine = self.phases.iter().filter(|phase| phase.0 == name);
        mine.map(|phase| phase.1).sum::<f64>() / self.total_ns()
    }

    /// The bar's total time and what it is of: `143 µs per page`.
    fn total(&self) -> String {
        let of = if self.is_per_page { " per page" } else { "" };
        format!("{}{of}", human::time_ns(self.total_ns()))
    }

    /// Describes the longest phase: `NAME: 80 µs of 95 µs are PHASE`. Mentions the mean latency if it differs.
    fn largest(&self) -> Option<String> {
        let part = self.phases.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let differs = |ns: &f64| (ns / self.total_ns() - 1.0).abs() > DIFFERENCE_MIN;
        let latency = self.latency_ns.filter(differs);
        let latency = latency.map_or(String::new(), |ns| {
            format!(" (mean latency of an I/O: {})", human::time_ns(ns))
        });
        let (largest, total) = (human::time_ns(part.1), self.total());
        Some(format!("{}: {largest} of {total} are {}{latency}", self.name, part.0))
    }
}

/// Selects at most [`CELLS_MAX`] groups, evenly spaced, with the first, the last and the one of the highest load.
fn spread<'a, 'b>(groups: &'a [(String, Vec<&'b Cell>)]) -> Vec<&'a (String, Vec<&'b Cell>)> {
    let all: Vec<_> =
        groups.iter().filter(|(_, cells)| cells.iter().any(|c| c.total().ops() > 0)).collect();
    if all.len() <= CELLS_MAX {
        return all;
    }
    let last = CELLS_MAX - 1;
    let mut places: Vec<usize> = (0..=last).map(|i| i * (all.len() - 1) / last).collect();
    let load = |i: &usize| all[*i].1.iter().map(|c| c.oio_mean()).fold(0.0, f64::max);
    let heaviest = (0..all.len()).rev().max_by(|a, b| load(a).total_cmp(&load(b)));
    if let Some(heaviest) = heaviest.filter(|i| !places.contains(i)) {
        // Not in place of the first or the last.
        if let Some(nearest) = places[1..last].iter_mut().min_by_key(|i| i.abs_diff(heaviest)) {
            *nearest = heaviest;
        }
    }
    places.into_iter().map(|i| all[i]).collect()
}

/// Draws one bar per group of cells and kind of operation. Each group has the cells of one point, and its
/// name.
pub(super) fn figure(run: &Run, id: &str, groups: &[(String, Vec<&Cell>)]) -> Option<Figure> {
    let all = groups.iter().filter(|(_, cells)| cells.iter().any(|c| c.total().ops() > 0)).count();
    let groups = spread(groups);
    let cells: Vec<&Cell> = groups.iter().flat_map(|(_, cells)| cells).copied().collect();
    let is_emulated = cells.iter().any(|c| c.evidence.virtual_time);
    let bars: Vec<Bar> = if is_emulated {
        groups.iter().flat_map(|(name, cells)| emulated(name, cells)).collect()
    } else {
        groups
            .iter()
            .filter_map(|(name, cells)| stamped(name, cells).or_else(|| charged(name, cells)))
            .collect()
    };
    if bars.is_empty() {
        return None;
    }
    let said = summary(&bars);
    let phases = phases(&bars);
    let is_plain =
        bars.iter().all(|bar| phases.iter().any(|(name, _)| bar.share(name) > PLAIN_SHARE));
    let named = |bar: &Bar| format!("{} ({})", bar.name, bar.total());
    let share = Axis {
        range: Some((0.0, 1.0)),
        ..Axis::from_zero("share of the time of an I/O", Quantity::Share)
    };
    let mut panel = Panel::new(share, stacks(&bars, &phases));
    panel.height = if is_plain { 0.35 } else { 1.0 };
    Some(Figure {
        id: id.to_owned(),
        title: if bars.iter().any(|bar| bar.is_per_page) {
            "Where the time of an I/O goes (reads: of a page)".to_owned()
        } else {
            "Where the time of an I/O goes".to_owned()
        },
        summary: said,
        conditions: labels::line_of(run, None, cells.iter().copied()),
        shape: Shape::Plot(Plot {
            x: Axis::categories("", bars.iter().map(named).collect()),
            panels: vec![panel],
            spans: Vec::new(),
        }),
        notes: notes(&phases, is_emulated, (groups.len(), all)),
    })
}

/// Describes the longest phase of the first, the middle and the last bar.
fn summary(bars: &[Bar]) -> String {
    let mut places = vec![0, bars.len() / 2, bars.len() - 1];
    places.dedup();
    let said: Vec<String> = places.into_iter().filter_map(|i| bars[i].largest()).collect();
    format!("{}.", said.join("; "))
}

/// All phases in the order of the I/O path, each with its time summed over the bars, ns.
fn phases(bars: &[Bar]) -> Vec<(String, f64)> {
    let mut phases: Vec<(String, f64)> = Vec::new();
    for (name, ns) in bars.iter().flat_map(|bar| &bar.phases) {
        match phases.iter_mut().find(|phase| phase.0 == *name) {
            Some(phase) => phase.1 += ns,
            None => phases.push((name.clone(), *ns)),
        }
    }
    phases
}

/// Returns the segments of the bars. All bars have the same height, since latencies differ by orders of
/// magnitude; segments are fractions of a bar.
fn stacks(bars: &[Bar], phases: &[(String, f64)]) -> Vec<Series> {
    // The longest phases have colours of their own, in the order of the I/O path.
    let mut by_size: Vec<usize> = (0..phases.len()).collect();
    by_size.sort_by(|a, b| phases[*b].1.total_cmp(&phases[*a].1));
    let keep = if phases.len() > PHASES_MAX { PHASES_MAX - 1 } else { PHASES_MAX };
    let kept = &by_size[..by_size.len().min(keep)];
    let stack = |name: &str, color, of: &dyn Fn(&Bar) -> f64| Series {
        name: name.to_owned(),
        mark: Mark::Stack,
        color,
        points: bars.iter().enumerate().map(|(x, bar)| Point::at(x as f64, of(bar))).collect(),
    };
    let mut series = Vec::new();
    for (i, (name, _)) in phases.iter().enumerate().filter(|(i, _)| kept.contains(i)) {
        let rank = kept.iter().position(|k| *k == i).unwrap_or(0);
        // If every phase has a colour, it follows from the phase's place on the I/O path, in every report.
        let color = if phases.len() > PHASES_MAX { rank } else { i };
        series.push(stack(name, color, &|bar| bar.share(name)));
    }
    if kept.len() < phases.len() {
        let others = || phases.iter().enumerate().filter(|(i, _)| !kept.contains(i));
        let rest = |bar: &Bar| others().map(|(_, (name, _))| bar.share(name)).sum();
        series.push(stack("all else", PHASES_MAX - 1, &rest));
    }
    series
}

/// Notes that explain how the phases were measured, and how many of all points are drawn.
fn notes(
    phases: &[(String, f64)],
    is_emulated: bool,
    (drawn, points): (usize, usize),
) -> Vec<String> {
    let has = |part: &str| phases.iter().any(|phase| phase.0 == part);
    let all = [
        (
            is_emulated,
            "Means per I/O over the measured window; for a read of several pages in parallel, means per page.",
        ),
        (
            has(SUBMISSION),
            "From the workers' timestamps, taken about once a millisecond. Submission is part of the latency, and ends when the system call that submitted the batch of I/Os returns. An I/O that hits the page cache completes in this call, so submission is its whole latency. Reaping (from the detection of the completion until it is counted) is not part of the latency. Time in the device can't be separated from time in the kernel or in queues.",
        ),
        (
            has(USER),
            "Processor time is that of the workers divided by their I/Os. With several outstanding I/Os, the processor time of one overlaps with the wait for others. The remainder is time in the device and in queues.",
        ),
    ];
    let left_out = (drawn < points).then(|| {
        format!(
            "{drawn} of {points} points are drawn, evenly spaced; the highest load is one of them."
        )
    });
    let told = all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text.to_owned());
    left_out.into_iter().chain(told).collect()
}

/// Bars of an emulated point: one for reads and one for writes, if both occur.
fn emulated(name: &str, cells: &[&Cell]) -> Vec<Bar> {
    let parts = |wanted: &[SpentOf]| -> Vec<(String, f64)> {
        let mine = |s: &&Spent| wanted.contains(&s.of) && s.count > 0 && s.total_ns > 0;
        let mut sums: Vec<(&Spent, f64, f64)> = Vec::new();
        for spent in cells.iter().flat_map(|c| &c.evidence.spent).filter(mine) {
            let (total, count) = (spent.total_ns as f64, spent.count as f64);
            match sums.iter_mut().find(|s| s.0.phase == spent.phase && s.0.of == spent.of) {
                Some(sum) => (sum.1, sum.2) = (sum.1 + total, sum.2 + count),
                None => sums.push((spent, total, count)),
            }
        }
        sums.into_iter().map(|(s, total, count)| (s.phase.clone(), total / count)).collect()
    };
    let count = |of: SpentOf| {
        let spent = cells.iter().flat_map(|c| &c.evidence.spent).filter(move |s| s.of == of);
        spent.map(|s| s.count).max().unwrap_or(0)
    };
    let latency_ns = |kind: OpKind| {
        let stats = cells.iter().flat_map(|c| c.series.iter()).filter_map(|i| i.class(kind));
        let (ops, sum_ns) = stats.fold((0.0, 0.0), |(ops, sum), stats| {
            (ops + stats.ops() as f64, sum + stats.service.sum_ns() as f64)
        });
        (ops > 0.0).then_some(sum_ns / ops)
    };
    let is_per_page = count(SpentOf::Page) > count(SpentOf::Read);
    let reads = parts(&[SpentOf::Read, SpentOf::Page]);
    let writes = parts(&[SpentOf::Write]);
    let both = !reads.is_empty() && !writes.is_empty();
    let named = |kind: &str| if both { format!("{name}, {kind}") } else { name.to_owned() };
    let bars = [("read", reads, OpKind::Read), ("write", writes, OpKind::Write)];
    bars.into_iter()
        .filter(|(_, phases, _)| !phases.is_empty())
        .map(|(name, phases, kind)| Bar {
            name: named(name),
            phases,
            is_per_page: is_per_page && kind == OpKind::Read,
            latency_ns: latency_ns(kind),
        })
        .collect()
}

/// Mean latency over all operations of the cells, ns, and the number of operations.
fn mean_ns(cells: &[&Cell]) -> (f64, f64) {
    let (mut ops, mut sum_ns) = (0.0, 0.0);
    for cell in cells {
        let total = cell.total();
        ops += total.ops() as f64;
        sum_ns += total.iter().map(|(_, s)| s.service.sum_ns() as f64).sum::<f64>();
    }
    (sum_ns / ops, ops)
}

/// Bar for cells with an asynchronous engine, from the workers' timestamps. It has three phases: submission; device,
/// kernel and waiting; reaping. None if timestamps are missing.
fn stamped(name: &str, cells: &[&Cell]) -> Option<Bar> {
    let mean_of = |phase: &str| {
        let spent = cells.iter().flat_map(|c| &c.evidence.spent);
        let (mut total, mut count) = (0.0, 0.0);
        for s in spent.filter(|s| s.of == SpentOf::Operation && s.phase == phase) {
            (total, count) = (total + s.total_ns as f64, count + s.count as f64);
        }
        (count > 0.0).then(|| total / count)
    };
    let (submission_ns, reaping_ns) = (mean_of("submission")?, mean_of("reaping")?);
    let (mean_ns, _) = mean_ns(cells);
    let phases = vec![
        (SUBMISSION.to_owned(), submission_ns.min(mean_ns)),
        ("device, kernel and waiting".to_owned(), (mean_ns - submission_ns).max(0.0)),
        ("reaping".to_owned(), reaping_ns),
    ];
    Some(Bar { name: name.to_owned(), phases, ..Bar::default() })
}

/// Bar for cells with a synchronous engine: processor time in user mode and in the kernel, and the rest of
/// the mean latency. None if the processor times are not known.
fn charged(name: &str, cells: &[&Cell]) -> Option<Bar> {
    let sum = |of: &dyn Fn(&Cell) -> f64| cells.iter().map(|c| of(c)).sum::<f64>();
    let (mean_ns, ops) = mean_ns(cells);
    let user_ns = sum(&|c| c.resources.cpu_user_ns.iter().sum::<u64>() as f64) / ops;
    let kernel_ns = sum(&|c| c.resources.cpu_system_ns.iter().sum::<u64>() as f64) / ops;
    let is_known = cells.iter().all(|c| !c.evidence.in_process && !c.evidence.virtual_time)
        && user_ns + kernel_ns > 0.0
        && user_ns + kernel_ns <= mean_ns;
    is_known.then(|| {
        let phases = vec![
            (USER.to_owned(), user_ns),
            ("kernel part of the workers' processor time".to_owned(), kernel_ns),
            ("device and waiting".to_owned(), mean_ns - user_ns - kernel_ns),
        ];
        Bar { name: name.to_owned(), phases, ..Bar::default() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_measure::{Evidence, Interval};

    /// Creates two cells of one point: 100 operations of 10 µs and 300 of 30 µs, with a mean of 25 µs.
    fn cells(spent: [&[(&str, u64, u64)]; 2]) -> Vec<Cell> {
        let each = [(100, 10_000), (300, 30_000)].into_iter().zip(spent);
        each.map(|((ops, latency_ns), spent)| {
            let mut interval = Interval::default();
            interval.class_mut(OpKind::Read).service.record_n(latency_ns, ops);
            let spent = spent.iter().map(|(phase, total_ns, count)| Spent {
                phase: (*phase).to_owned(),
                of: SpentOf::Operation,
                total_ns: *total_ns,
                count: *count,
            });
            let evidence = Evidence { spent: spent.collect(), ..Evidence::default() };
            let mut cell = Cell { series: vec![interval], evidence, ..Cell::default() };
            cell.resources.cpu_user_ns = vec![ops * 1_000];
            cell.resources.cpu_system_ns = vec![ops * 4_000, ops * 1_000];
            cell
        })
        .collect()
    }

    #[test]
    fn stamps_are_weighed_by_their_operations_and_the_rest_is_the_device() {
        let cells = cells([
            &[("submission", 40_000, 10), ("reaping", 1_000, 10)],
            &[("submission", 60_000, 40), ("reaping", 14_000, 40)],
        ]);
        let parts = stamped("point", &cells.iter().collect::<Vec<_>>()).unwrap().phases;
        let of = |i: usize| (parts[i].0.as_str(), parts[i].1);
        assert_eq!(of(0), (SUBMISSION, 2_000.0));
        assert_eq!(of(1), ("device, kernel and waiting", 23_000.0));
        assert_eq!(of(2), ("reaping", 300.0));
        assert_eq!(parts.len(), 3);
    }

    #[test]
    fn without_stamps_the_processor_time_is_told() {
        let cells = cells([&[], &[]]);
        let cells: Vec<&Cell> = cells.iter().collect();
        assert!(stamped("point", &cells).is_none());
        let parts = charged("point", &cells).unwrap().phases;
        assert_eq!(parts.iter().map(|p| p.1).collect::<Vec<_>>(), [1_000.0, 5_000.0, 19_000.0]);
    }

    /// A read of several pages takes longer than the phases of one, and a long sweep keeps its highest load.
    #[test]
    fn totals_are_per_page_and_points_are_spread_over_the_sweep() {
        let mut cells = cells([&[], &[]]);
        let spent = |phase: &str, of, total_ns, count| Spent {
            phase: phase.to_owned(),
            of,
            total_ns,
            count,
        };
        cells[0].evidence.spent = vec![
            spent("controller", SpentOf::Read, 100 * 2_000, 100),
            spent("die", SpentOf::Page, 400 * 6_000, 400),
        ];
        let bars = emulated("point", &[&cells[0]]);
        assert_eq!(
            bars[0].largest().unwrap(),
            "point: 6.00 µs of 8.00 µs per page are die (mean latency of an I/O: 10.0 µs)"
        );
        cells[0].window_ns = 1_000_000;
        cells[1].window_ns = 1_000_000;
        cells[1].resources.outstanding_area_ns = 32_000_000;
        let group = |i: usize| (i.to_string(), vec![&cells[usize::from(i == 22)]]);
        let groups: Vec<_> = (0..40).map(group).collect();
        let names: Vec<&str> = spread(&groups).iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[15]), (16, "0", "39"));
        assert!(names.contains(&"22") && !names.contains(&"23"), "{names:?}");
        assert_eq!(spread(&groups[..16]).len(), 16);
    }
}
