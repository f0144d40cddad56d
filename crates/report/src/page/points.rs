//! Sections for a method's operating points: latency percentiles, a comparison of the percentiles of several targets,
//! and distributions of response times.

use super::distribution::{self, of_cells};
use super::grid;
use super::labels;
use super::stage::{Stage, kind_nine, nine};
use crate::kinds::plural;
use crate::point_figures;
use iodyno_measure::KindSummary;
use iodyno_method::Findings;
use iodyno_method::findings::{NINES, PointFinding, Row, Showed, kinds_apart};
use iodyno_notebook::Run;
use iodyno_page::{
    Axis, Block, Figure, Mark, Panel, Plot, Point, Quantity, Section, Series, Shape,
};
use iodyno_units::human;

/// Draws the figures and the table of a stage's operating points.
pub(super) fn blocks(stage: &Stage<'_>, points: &[PointFinding]) -> Vec<Block> {
    let named: Vec<(String, &Row)> = points
        .iter()
        .map(|p| (format!("{} (OIO {})", p.which, point_figures::oio(&p.row)), &p.row))
        .collect();
    let mut blocks = Vec::new();
    let id = format!("{}-levels", stage.id);
    blocks.extend(
        levels(&id, &stage.titled("Confidence levels"), stage.line(), &named).map(Block::Figure),
    );
    let curves = of_cells(stage.run, stage.cells.iter().copied());
    let figure = distribution::histogram(&format!("{}-histogram", stage.id), stage.line(), curves);
    blocks.extend(figure.map(Block::Figure));
    let rows: Vec<(Vec<String>, &Row)> = points
        .iter()
        .map(|p| {
            let kept = match (p.ceilings.as_slice(), p.keeps) {
                ([], _) => "no ceiling".to_owned(),
                (ceilings, true) => format!("keeps {}", ceilings.join(" and ")),
                (ceilings, false) => format!("over {}", ceilings.join(" and ")),
            };
            (vec![p.which.to_owned(), p.chosen.clone(), kept], &p.row)
        })
        .collect();
    let names = ["point", "chosen", "ceiling"].map(str::to_owned);
    let apart = kinds_apart(points.iter().map(|p| &p.row));
    blocks.push(Block::Table(grid::table_of(&names, &rows, &apart)));
    blocks
}

/// Section that compares the latency percentiles of all targets at each kind of operating point. None for a
/// single target.
pub(super) fn side_by_side(run: &Run, findings: &Findings) -> Option<Section> {
    if findings.subjects.len() < 2 {
        return None;
    }
    let mut kinds: Vec<&str> = Vec::new();
    let mut all: Vec<(&str, String, &Row)> = Vec::new();
    for subject in &findings.subjects {
        for stage in &subject.stages {
            let Some(Showed::Points { points }) = &stage.showed else { continue };
            for point in points {
                if !kinds.contains(&point.which) {
                    kinds.push(point.which);
                }
                let name = format!("{} (OIO {})", subject.target, point_figures::oio(&point.row));
                all.push((point.which, name, &point.row));
            }
        }
    }
    let blocks: Vec<Block> = kinds
        .iter()
        .filter_map(|kind| {
            let mine: Vec<(String, &Row)> = all
                .iter()
                .filter(|(k, _, _)| k == kind)
                .map(|(_, name, row)| (name.clone(), *row))
                .collect();
            let title = format!("Confidence levels compared: {kind}");
            let id = format!("levels-{}", labels::slug(kind));
            levels(&id, &title, labels::line_of(run, findings.level(), run.cells.iter()), &mine)
                .map(Block::Figure)
        })
        .collect();
    (!blocks.is_empty()).then(|| Section {
        id: "levels".to_owned(),
        title: "Confidence levels side by side".to_owned(),
        blocks,
        folded: false,
    })
}

/// Mean, percentiles and maximum of a row's latency, ns, with the name of the line. One line per kind of
/// operation if the row has several.
fn level_lines(name: &str, row: &Row) -> Vec<(String, Vec<Option<f64>>)> {
    let levels = |mean_ns, nine: &dyn Fn(usize) -> Option<f64>, max_ns: Option<u64>| {
        let nines = (0..NINES.len()).map(nine);
        let ends = (std::iter::once(mean_ns), std::iter::once(max_ns.map(|ns| ns as f64)));
        ends.0.chain(nines).chain(ends.1).collect::<Vec<_>>()
    };
    if row.kinds.len() < 2 {
        return vec![(name.to_owned(), levels(row.mean_ns, &|i| nine(row, i), row.max_ns))];
    }
    let of_kind = |of: &KindSummary| {
        let nine = |i| kind_nine(row, of.kind, i);
        let latency = &of.response_time;
        let name = format!("{name}, {}", plural(of.kind));
        (name, levels(latency.mean_ns, &nine, latency.max_ns))
    };
    row.kinds.iter().map(of_kind).collect()
}

/// Draws latency percentiles as dots, one line per row. Bars would mislead on a logarithmic axis.
fn levels(id: &str, title: &str, conditions: String, rows: &[(String, &Row)]) -> Option<Figure> {
    let mut names: Vec<String> = vec!["mean".to_owned()];
    names.extend(NINES.iter().map(|(_, label)| (*label).to_owned()));
    names.push("max".to_owned());
    let lines: Vec<(String, Vec<Option<f64>>)> =
        rows.iter().flat_map(|(name, row)| level_lines(name, row)).collect();
    let known: Vec<f64> = lines.iter().flat_map(|(_, values)| values).flatten().copied().collect();
    let (low, high) =
        known.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), x| (l.min(*x), h.max(*x)));
    if known.is_empty() {
        return None;
    }
    let is_wide = high > low * 20.0;
    let series = lines.iter().enumerate().map(|(color, (name, values))| Series {
        name: name.clone(),
        mark: if is_wide { Mark::Line } else { Mark::Bars },
        color,
        points: values
            .iter()
            .enumerate()
            .map(|(i, ns)| Point::at(i as f64, ns.unwrap_or(f64::NAN)))
            .collect(),
    });
    let axis = if is_wide {
        Axis::log("response time", Quantity::LatencyNs)
    } else {
        Axis::from_zero("response time", Quantity::LatencyNs)
    };
    let said = lines.iter().filter_map(|(name, values)| {
        let (i, ns) = (1..NINES.len()).rev().find_map(|i| values[1 + i].map(|ns| (i, ns)))?;
        Some(format!("{name}: {} {}", NINES[i].1, human::time_ns(ns)))
    });
    Some(Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        summary: said.collect::<Vec<_>>().join("; "),
        conditions,
        shape: Shape::Plot(Plot {
            x: Axis::categories("", names),
            panels: vec![Panel::new(axis, series.collect())],
            spans: Vec::new(),
        }),
        notes: Vec::new(),
    })
}
