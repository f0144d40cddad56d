//! Draws series as SVG paths: lines, steps, dots, bars, bands, intervals.
//!
//! Each series is a group of a few paths, whatever the number of points. Lines with very many points are thinned to
//! the first, lowest, highest and last point of each pixel column, which preserves every visible spike.

use std::fmt::Write as _;

use crate::{Mark, Series};

use super::labels::Taken;
use super::layout::{Area, Layout};
use super::legend;
use super::path::{Path, Position};

/// Number of points above which lines are thinned to their [`envelope`].
pub(super) const THIN_ABOVE: usize = 5000;
/// Half the width of an interval's end caps, in pixels.
const CAP: f64 = 3.5;

/// Context for drawing a series in its panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) layout: &'a Layout,
    /// Position and vertical axis of the panel.
    pub(super) panel: &'a Area,
    /// Index of the series' legend entry.
    pub(super) entry: usize,
    /// Index of the series among bars drawn side by side, and the number of such series.
    pub(super) slot: (usize, usize),
    /// Lower and upper end of each bar of a stacked series.
    pub(super) stack: &'a [(f64, f64)],
    /// Whether the line is thinned to its [`envelope`].
    pub(super) is_thinned: bool,
}

/// Drawn position of a point, at which a label or sign can be placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// Index of the point in its series.
    pub(super) point: usize,
    /// Position of the point in the picture.
    pub(super) at: Position,
    /// Right edge of the point's mark, in pixels.
    pub(super) end: f64,
}

/// Draws a series as an SVG group. Returns the positions of its points and marks the occupied areas.
pub(super) fn write(
    out: &mut String,
    series: &Series,
    place: Place,
    taken: &mut Taken,
) -> Vec<Spot> {
    let dense = if legend::is_dense(series) { " dense" } else { "" };
    let _ = write!(
        out,
        r#"<g class="series s{0} c{1} {2}{dense}" data-series="{0}">"#,
        place.entry,
        series.color % legend::COLORS,
        legend::class(series.mark)
    );
    let spots = match series.mark {
        Mark::Line | Mark::Dashed | Mark::Step => line(out, series, place, taken),
        Mark::Dots | Mark::Hollow => dots(out, series, place, taken),
        Mark::Bars | Mark::Stack => bars(out, series, place, taken),
        Mark::Band => band(out, series, place),
        _ => intervals(out, series, place, taken),
    };
    out.push_str("</g>\n");
    spots
}

/// Positions of the points, split into runs at gaps.
fn runs(series: &Series, place: Place) -> Vec<Vec<Spot>> {
    let mut runs = vec![Vec::new()];
    // On a logarithmic axis, a step with the value 0 lies at the foot of the panel, as bars do, instead of leaving a
    // gap. This shows the end of a histogram.
    let foot = |y: f64| {
        let is_none = series.mark == Mark::Step && y == 0.0;
        is_none.then_some(place.panel.y + place.panel.height)
    };
    for (i, point) in series.points.iter().enumerate() {
        let y = place.panel.ruler.place(point.y).or_else(|| foot(point.y));
        let at = place.layout.x.place(point.x).zip(y).map(|(x, y)| Position { x, y });
        match (at, runs.last_mut()) {
            (Some(at), Some(run)) => run.push(Spot { point: i, at, end: at.x }),
            (None, Some(run)) if !run.is_empty() => runs.push(Vec::new()),
            _ => {}
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

fn is_inside(place: Place, at: Position) -> bool {
    place.layout.x.holds(at.x) && place.panel.ruler.holds(at.y)
}

fn line(out: &mut String, series: &Series, place: Place, taken: &mut Taken) -> Vec<Spot> {
    let mut path = Path::default();
    let mut dots = Path::default();
    let mut spots = Vec::new();
    let has_dots = series.points.len() <= legend::DOTS_UP_TO && series.mark == Mark::Line;
    for run in runs(series, place) {
        let places: Vec<Position> = run.iter().map(|s| s.at).collect();
        let places = if place.is_thinned { envelope(&places) } else { places };
        if let [alone] = places[..] {
            // A point between gaps has no line. It is a stroke like the line's, because a dot is another mark.
            if is_inside(place, alone) && !has_dots {
                let half = (nearest_gap(series, place, run[0].point) / 2.0).clamp(1.5, 4.0);
                let right = place.panel.x + place.panel.width;
                path.move_to((alone.x - half).max(place.panel.x), alone.y);
                path.line_to((alone.x + half).min(right), alone.y);
            }
        } else {
            path.move_to(places[0].x, places[0].y);
            for pair in places.windows(2) {
                if series.mark == Mark::Step {
                    path.line_to(pair[1].x, pair[0].y);
                }
                path.line_to(pair[1].x, pair[1].y);
                if series.points.len() <= 2000 {
                    taken.line(pair[0], pair[1]);
                }
            }
        }
        for spot in run.into_iter().filter(|s| is_inside(place, s.at)) {
            if has_dots {
                dots.dot(spot.at.x, spot.at.y);
                taken.dot(spot.at.x, spot.at.y);
            }
            spots.push(spot);
        }
    }
    path.write(out, "l");
    whiskers(out, series, place);
    dots.write(out, "p");
    spots
}

/// Horizontal distance from a point to the nearer of its neighbours, in pixels; infinite without neighbours.
fn nearest_gap(series: &Series, place: Place, point: usize) -> f64 {
    let x = |i: usize| series.points.get(i).and_then(|p| place.layout.x.place(p.x));
    let gap = |i: usize| Some((x(i)? - x(point)?).abs()).filter(|gap| *gap > 0.0);
    let gaps = [point.checked_sub(1).and_then(gap), gap(point + 1)];
    gaps.into_iter().flatten().fold(f64::INFINITY, f64::min)
}

fn dots(out: &mut String, series: &Series, place: Place, taken: &mut Taken) -> Vec<Spot> {
    let mut path = Path::default();
    let mut spots = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for spot in runs(series, place).into_iter().flatten().filter(|s| is_inside(place, s.at)) {
        let Position { x, y } = spot.at;
        // Dots in the same half pixel are merged.
        if place.is_thinned && !seen.insert(((x * 2.0).round() as i64, (y * 2.0).round() as i64)) {
            continue;
        }
        path.dot(x, y);
        if series.points.len() <= 400 {
            taken.dot(x, y);
        }
        spots.push(spot);
    }
    whiskers(out, series, place);
    path.write(out, "p");
    if series.mark == Mark::Hollow {
        path.write(out, "inside");
    }
    spots
}

/// Draws the vertical intervals of points as whiskers.
fn whiskers(out: &mut String, series: &Series, place: Place) {
    let mut path = Path::default();
    for point in &series.points {
        let Some((low, high)) = point.interval else { continue };
        let ruler = place.panel.ruler;
        let ends = ruler.place_within(low).zip(ruler.place_within(high));
        let (Some(x), Some((low, high))) = (place.layout.x.place(point.x), ends) else { continue };
        if place.layout.x.holds(x) {
            whisker(&mut path, place, x, low, high, false);
        }
    }
    path.write(out, "w");
}

/// Adds a vertical whisker from `low` to `high`, clipped to the panel. Omits the end caps of a short whisker, unless it
/// stands on a bar (`is_bar`).
fn whisker(path: &mut Path, place: Place, x: f64, low: f64, high: f64, is_bar: bool) {
    let (left, right) = (place.panel.x, place.panel.x + place.panel.width);
    let (a, b) = ((x - CAP).max(left), (x + CAP).min(right));
    // Caps within a dot would only make it look square.
    let has_ends = (high - low).abs() > 9.0 || is_bar;
    if has_ends {
        path.move_to(a, low);
        path.line_to(b, low);
    }
    path.move_to(x, low);
    path.line_to(x, high);
    if has_ends {
        path.move_to(a, high);
        path.line_to(b, high);
    }
}

fn bars(out: &mut String, series: &Series, place: Place, taken: &mut Taken) -> Vec<Spot> {
    let (slot, slots) = if series.mark == Mark::Stack { (0, 1) } else { place.slot };
    let all = place.layout.bar_width;
    let wide = all / slots as f64;
    let ruler = place.panel.ruler;
    // On a logarithmic axis, where zero has no position, bars begin at the foot of the panel.
    let foot = ruler.place_within(0.0).unwrap_or(place.panel.y + place.panel.height);
    let mut path = Path::default();
    let mut whiskers = Path::default();
    let mut spots = Vec::new();
    let (left, right) = (place.panel.x, place.panel.x + place.panel.width);
    for (i, point) in series.points.iter().enumerate() {
        let Some(middle) = place.layout.x.place(point.x).filter(|&x| place.layout.x.holds(x))
        else {
            continue;
        };
        let (from, to) = match place.stack.get(i) {
            Some(&(from, to)) if point.y.is_finite() => {
                (ruler.place_within(from).unwrap_or(foot), ruler.place_within(to))
            }
            Some(_) => continue,
            None => (foot, ruler.place_within(point.y)),
        };
        let Some(to) = to else { continue };
        let x = middle - all / 2.0 + wide * slot as f64;
        // A thin gap between neighbours, if they are wide enough.
        let inset = if wide > 6.0 { 0.5 } else { 0.0 };
        let (a, b) = ((x + inset).clamp(left, right), (x + wide - inset).clamp(left, right));
        path.rect(Position { x: a, y: from }, Position { x: b, y: to });
        let center = f64::midpoint(a, b);
        let mut top = to.min(from);
        if let Some((low, high)) = point.interval
            && let Some((low, high)) = ruler.place_within(low).zip(ruler.place_within(high))
        {
            whisker(&mut whiskers, place, center, low, high, true);
            taken.line(Position { x: center, y: low }, Position { x: center, y: high });
            top = top.min(low).min(high);
        }
        spots.push(Spot { point: i, at: Position { x: center, y: top }, end: b });
    }
    path.write(out, "b");
    whiskers.write(out, "w over");
    spots
}

fn band(out: &mut String, series: &Series, place: Place) -> Vec<Spot> {
    let mut path = Path::default();
    let mut run: Vec<(f64, f64, f64)> = Vec::new();
    let finish = |run: &mut Vec<(f64, f64, f64)>, path: &mut Path| {
        if run.len() > 1 {
            let upper: Vec<_> = run.iter().map(|&(x, _, high)| Position { x, y: high }).collect();
            let lower: Vec<_> =
                run.iter().rev().map(|&(x, low, _)| Position { x, y: low }).collect();
            let [upper, lower] =
                [upper, lower].map(|side| if place.is_thinned { envelope(&side) } else { side });
            path.move_to(upper[0].x, upper[0].y);
            for &Position { x, y } in upper[1..].iter().chain(&lower) {
                path.line_to(x, y);
            }
            path.close();
        }
        run.clear();
    };
    for point in &series.points {
        let ruler = place.panel.ruler;
        let ends = point.interval.and_then(|(low, high)| ruler.place(low).zip(ruler.place(high)));
        match (place.layout.x.place(point.x), ends) {
            (Some(x), Some((low, high))) => run.push((x, low, high)),
            _ => finish(&mut run, &mut path),
        }
    }
    finish(&mut run, &mut path);
    path.write(out, "a");
    Vec::new()
}

fn intervals(out: &mut String, series: &Series, place: Place, taken: &mut Taken) -> Vec<Spot> {
    let (mut lines, mut dots) = (Path::default(), Path::default());
    let mut spots = Vec::new();
    let x = place.layout.x;
    let (top, bottom) = (place.panel.y, place.panel.y + place.panel.height);
    for (i, point) in series.points.iter().enumerate() {
        let Some(y) = place.panel.ruler.place(point.y).filter(|&y| place.panel.ruler.holds(y))
        else {
            continue;
        };
        let ends = point.interval.and_then(|(l, h)| x.place_within(l).zip(x.place_within(h)));
        if let Some((low, high)) = ends {
            let (a, b) = ((y - CAP).max(top), (y + CAP).min(bottom));
            lines.move_to(low, a);
            lines.line_to(low, b);
            lines.move_to(low, y);
            lines.line_to(high, y);
            lines.move_to(high, a);
            lines.line_to(high, b);
            taken.line(Position { x: low, y }, Position { x: high, y });
        }
        if let Some(at) = x.place(point.x).filter(|&at| x.holds(at)) {
            dots.dot(at, y);
            taken.dot(at, y);
            let end = ends.map_or(at, |(_, high)| high.max(at));
            spots.push(Spot { point: i, at: Position { x: at, y }, end });
        }
    }
    lines.write(out, "w");
    // Triangles are drawn with the labels, since a zoom would stretch them.
    if !matches!(series.mark, Mark::Better | Mark::Worse) {
        dots.write(out, "p");
    }
    if series.mark == Mark::Undecided {
        dots.write(out, "inside");
    }
    spots
}

/// Thins a line: of each run of positions within one pixel column it keeps the first, lowest, highest and
/// last.
pub(super) fn envelope(places: &[Position]) -> Vec<Position> {
    let mut out = Vec::new();
    let mut start = 0;
    while start < places.len() {
        let column = |i: usize| places[i].x.floor() as i64;
        let len = (start..places.len()).take_while(|&i| column(i) == column(start)).count();
        let end = start + len;
        let by_height = |&a: &usize, &b: &usize| places[a].y.total_cmp(&places[b].y);
        let least = (start..end).min_by(by_height).unwrap_or(start);
        let most = (start..end).max_by(by_height).unwrap_or(start);
        let mut kept = [start, least, most, end - 1];
        kept.sort_unstable();
        let mut before = None;
        for i in kept {
            if before != Some(i) {
                out.push(places[i]);
            }
            before = Some(i);
        }
        start = end;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_envelope_keeps_extremes_and_is_bounded(
            points in prop::collection::vec((0.0_f64..50.0, -1e3_f64..1e3), 1..3000)
        ) {
            let mut points: Vec<_> =
                points.into_iter().map(|(x, y)| Position { x, y }).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let kept = envelope(&points);
            prop_assert!(kept.len() <= 4 * 50);
            prop_assert_eq!(kept[0], points[0]);
            prop_assert_eq!(kept.last(), points.last());
            for column in 0..50 {
                let ends = |of: &[Position]| {
                    of.iter().filter(|p| p.x.floor() as i32 == column).fold(
                        (f64::INFINITY, f64::NEG_INFINITY),
                        |(low, high), p| (low.min(p.y), high.max(p.y)),
                    )
                };
                prop_assert_eq!(ends(&kept), ends(&points));
            }
        }
    }
}
