//! Sections of operating points: their confidence levels, alone and beside those of other targets, and the
//! distributions of their response times.

use super::distribution::{self, of_cells};
use super::grid;
use super::labels;
use super::stage::{Stage, nine};
use iodyno_method::Findings;
use iodyno_method::findings::{NINES, PointFinding, Row, Showed};
use iodyno_notebook::Run;
use iodyno_page::{
    Axis, Block, Figure, Mark, Panel, Plot, Point, Quantity, Section, Series, Shape,
};
use iodyno_units::human;

/// The blocks for operating points.
pub(super) fn blocks(stage: &Stage<'_>, points: &[PointFinding]) -> Vec<Block> {
    let named: Vec<(String, &Row)> =
        points.iter().map(|p| (format!("{} (OIO {})", p.which, p.row.oio), &p.row)).collect();
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
    blocks.push(Block::Table(grid::table_of(&names, &rows)));
    blocks
}

/// The confidence level plot compare: each kind of point of every target, side by side.
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
                let name = format!("{} (OIO {})", subject.target, point.row.oio);
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

/// Percentiles as dots, one line for each row. Bars would suit a linear axis; over decades only dots are
/// honest.
fn levels(id: &str, title: &str, conditions: String, rows: &[(String, &Row)]) -> Option<Figure> {
    let mut names: Vec<String> = vec!["mean".to_owned()];
    names.extend(NINES.iter().map(|(_, label)| (*label).to_owned()));
    names.push("max".to_owned());
    let values = |row: &Row| -> Vec<Option<f64>> {
        let mut all = vec![row.mean_ns];
        all.extend((0..NINES.len()).map(|i| nine(row, i)));
        all.push(row.max_ns.map(|ns| ns as f64));
        all
    };
    let known: Vec<f64> = rows.iter().flat_map(|(_, r)| values(r)).flatten().collect();
    let (low, high) =
        known.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), x| (l.min(*x), h.max(*x)));
    if known.is_empty() {
        return None;
    }
    let is_wide = high > low * 20.0;
    let series = rows.iter().enumerate().map(|(color, (name, row))| Series {
        name: name.clone(),
        mark: if is_wide { Mark::Line } else { Mark::Bars },
        color,
        points: values(row)
            .into_iter()
            .enumerate()
            .map(|(i, ns)| Point::at(i as f64, ns.unwrap_or(f64::NAN)))
            .collect(),
    });
    let axis = if is_wide {
        Axis::log("response time", Quantity::LatencyNs)
    } else {
        Axis::from_zero("response time", Quantity::LatencyNs)
    };
    let said = rows.iter().filter_map(|(name, row)| {
        let (i, ns) = (1..NINES.len()).rev().find_map(|i| nine(row, i).map(|ns| (i, ns)))?;
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
