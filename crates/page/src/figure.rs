//! Figures as data: axes, series, marks. How they are drawn is in `chart/`.
//!
//! Each figure carries what it needs to stand alone in somebody's slides: a title, its conditions in one
//! line, units on its axes, and the data behind it.

use crate::{Quantity, Tone};

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// A name for links and files, unique in its document: lower-case letters, digits and dashes.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What is to be seen in it, in a sentence or two: the first thing that a screen reader says.
    pub summary: String,
    /// What it was measured on and how, in one line; carries the run's id, n and the verdict.
    pub conditions: String,
    /// What is drawn.
    pub shape: Shape,
    /// What must be known to read it.
    pub notes: Vec<String>,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Marks between two axes; several panels share the horizontal one.
    Plot(Plot),
    /// A table whose cells are coloured by their value.
    Matrix(Matrix),
    /// The same as columns standing on a plane, as SNIA's pages draw it.
    Columns(Matrix),
}

/// One or several panels over one horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// The horizontal axis.
    pub x: Axis,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// Stretches of the horizontal axis that are named: phases, the measurement window, stalls.
    pub spans: Vec<Span>,
}

/// One pair of axes with what is drawn between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, the first below.
    pub series: Vec<Series>,
    /// Lines across: a ceiling, a limit, a mean.
    pub rules: Vec<Rule>,
    /// A field of counts below the series: how many fell into each time and each latency.
    pub heat: Option<HeatMap>,
    /// Its height as a share of a usual panel; 1 is usual.
    pub height: f64,
    /// What the signs of points with [`Tone::Warning`] and [`Tone::Bad`] mean here, for the legend. None for
    /// values that warnings are about and values that are invalid. Of several panels the first that says it
    /// speaks for all.
    pub signs: Option<[String; 2]>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows, without the unit: `latency`. A scale that is not linear is added by the drawing.
    pub label: String,
    /// What its numbers count.
    pub quantity: Quantity,
    /// How values become places.
    pub scale: Scale,
    /// Ends of the axis where they are not to follow the data: compared panels have the same.
    pub range: Option<(f64, f64)>,
}

/// How values become places on an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Even steps. With `zero` the axis begins at 0, as bars must.
    Linear {
        /// Begins at 0.
        zero: bool,
    },
    /// Even factors. Values that are not above 0 have no place.
    Log,
    /// Quantiles 0 to 1 by their nines: 0, 0.9, 0.99, 0.999 are evenly spaced.
    Nines,
    /// Named places, one a category: the value is its number, from 0. A vertical axis has the first on top.
    Categories(Vec<String>),
}

/// Points of one kind, with one name in the legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend. Series of one name (over several panels, or the tail of one) are one entry.
    pub name: String,
    /// How they are drawn.
    pub mark: Mark,
    /// Which colour and dash, from 0; series of one subject have the same in all panels.
    pub color: usize,
    /// Its points, in order.
    pub points: Vec<Point>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line through them, with a dot at each where there are few.
    Line,
    /// A line that is dashed: an ideal, a law, a part that the samples don't support.
    Dashed,
    /// Level from each point to the next: a value that holds for an interval.
    Step,
    /// Dots alone.
    Dots,
    /// Bars from 0; side by side where there are several series.
    Bars,
    /// Bars on top of each other.
    Stack,
    /// The area between `low` and `high`.
    Band,
    /// A dot with a line from `low` to `high` along the **horizontal** axis: an estimate with its interval.
    Interval,
}

/// A point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis. Not finite: a gap.
    pub y: f64,
    /// Ends of its interval, where it has one: vertical, but for [`Mark::Interval`].
    pub interval: Option<(f64, f64)>,
    /// What stands beside it: its depth, its rate; may be empty.
    pub label: String,
    /// It is to be taken so; Warning and Bad get a sign.
    pub tone: Tone,
}

/// A stretch of the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// What it is.
    pub name: String,
    /// How it is to be taken.
    pub tone: Tone,
}

/// A line across a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Where, on the vertical axis, or the horizontal one if it stands.
    pub at: f64,
    /// It stands upright.
    pub upright: bool,
    /// What it is.
    pub name: String,
    /// How it is to be taken.
    pub tone: Tone,
}

/// Counts by place on both axes. The colour is by rank among the counts, so that rare ones are seen.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Edges of the columns on the horizontal axis, one more than there are columns.
    pub x_edges: Vec<f64>,
    /// Edges of the rows on the vertical axis, one more than there are rows, rising.
    pub y_edges: Vec<f64>,
    /// By column, then by row.
    pub counts: Vec<Vec<u64>>,
    /// What is counted: `I/Os`.
    pub of: String,
}

/// Values by column and row.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// What the columns are: `share of reads`.
    pub columns_label: String,
    /// Their names.
    pub columns: Vec<String>,
    /// What the rows are: `block size`.
    pub rows_label: String,
    /// Their names.
    pub rows: Vec<String>,
    /// What the values count.
    pub quantity: Quantity,
    /// By row, then by column; None where there is none.
    pub values: Vec<Vec<Option<f64>>>,
    /// Ends of the colours where they are not to follow the values: compared tables have the same.
    pub range: Option<(f64, f64)>,
    /// More words on a value, shown when it is pointed at: its interval. As `values`, or empty.
    pub notes: Vec<Vec<String>>,
}

impl Axis {
    /// An axis of even steps from 0.
    pub fn from_zero(label: impl Into<String>, quantity: Quantity) -> Self {
        let scale = Scale::Linear { zero: true };
        Self { label: label.into(), quantity, scale, range: None }
    }

    /// An axis of even factors.
    pub fn log(label: impl Into<String>, quantity: Quantity) -> Self {
        Self { label: label.into(), quantity, scale: Scale::Log, range: None }
    }

    /// An axis of named places.
    pub fn categories(label: impl Into<String>, names: Vec<String>) -> Self {
        let scale = Scale::Categories(names);
        Self { label: label.into(), quantity: Quantity::Count, scale, range: None }
    }
}

impl Panel {
    /// A panel of series alone, of the usual height.
    pub fn new(y: Axis, series: Vec<Series>) -> Self {
        Self { y, series, rules: Vec::new(), heat: None, height: 1.0, signs: None }
    }
}

impl Point {
    /// A point and nothing else.
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}
