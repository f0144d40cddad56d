//! Figures as data: axes, series, marks. `chart/` draws them.
//!
//! Each figure can be shown alone, such as on a slide: it has a title, its conditions in one line, units on its axes,
//! and the underlying data.

use crate::{Quantity, Tone};

/// A figure: the data, and all texts needed to understand it by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name for links and files, unique in the document: lower-case letters, digits and dashes.
    pub id: String,
    /// Title, shown above the drawing.
    pub title: String,
    /// Content in a sentence or two: the first text that a screen reader reads.
    pub summary: String,
    /// Target and method of the measurement, in one line, with the run's id, n and the verdict.
    pub conditions: String,
    /// The data, as a plot or a matrix.
    pub shape: Shape,
    /// Sentences that a reader of the figure needs, shown below it.
    pub notes: Vec<String>,
}

/// Kind of drawing, with its data.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Marks between two axes; several panels may share the horizontal one.
    Plot(Plot),
    /// A table whose cells are coloured by value.
    Matrix(Matrix),
    /// A matrix drawn as columns on a plane, as in SNIA's pages.
    Columns(Matrix),
}

/// One or several panels over a common horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Horizontal axis, shared by all panels.
    pub x: Axis,
    /// Panels from top to bottom.
    pub panels: Vec<Panel>,
    /// Named ranges of the horizontal axis: phases, the measurement window, stalls.
    pub spans: Vec<Span>,
}

/// A vertical axis with the marks drawn over it.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Vertical axis of the panel.
    pub y: Axis,
    /// Series, drawn in this order.
    pub series: Vec<Series>,
    /// Lines across the panel: a ceiling, a limit, a mean.
    pub rules: Vec<Rule>,
    /// A heat map below the series: counts by time and latency.
    pub heat: Option<HeatMap>,
    /// Height, as a multiple of a normal panel's.
    pub height: f64,
    /// Meaning of the sign around points with the tone Warning.
    pub warning: &'static str,
}

/// An axis of a plot: its name, quantity, scale and range.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Name of the quantity, without the unit: `latency`. The drawing adds `log` for a logarithmic
    /// scale.
    pub label: String,
    /// Quantity of the values. It determines their unit and format.
    pub quantity: Quantity,
    /// Mapping of values to positions.
    pub scale: Scale,
    /// Ends of the axis; `None`: from the data. Panels to be compared have the same.
    pub range: Option<(f64, f64)>,
}

/// Mapping of values to positions on an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Linear. With `zero` the axis begins at 0, as bars need.
    Linear {
        /// The axis begins at 0.
        zero: bool,
    },
    /// Logarithmic. Values of 0 or below have no position.
    Log,
    /// Quantiles from 0 to 1 by their nines: 0, 0.9, 0.99, 0.999 are evenly spaced.
    Nines,
    /// Named positions: a value is the category's index, from 0. A vertical axis has the first on top.
    Categories(Vec<String>),
}

/// Points of one kind, with one name in the legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend. Series of the same name (in several panels, or the tail of one) share an entry.
    pub name: String,
    /// How the points are drawn.
    pub mark: Mark,
    /// Index of colour and dash; series of one subject have the same in all panels.
    pub color: usize,
    /// Points, in the order in which a line connects them.
    pub points: Vec<Point>,
}

/// How the points of a series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line, with a dot at each point if there are few.
    Line,
    /// A dashed line: an ideal, a law, a part that the samples don't support.
    Dashed,
    /// Horizontal from each point to the next: a value that holds for an interval.
    Step,
    /// Dots without a connecting line.
    Dots,
    /// Rings, larger than dots, so that a dot of equal value is visible inside: a reference value.
    Hollow,
    /// Bars from 0, side by side if there are several series.
    Bars,
    /// Bars on top of those of the series before, at the same position.
    Stack,
    /// The area between the ends of the intervals.
    Band,
    /// A dot with its interval along the **horizontal** axis: an estimate.
    Interval,
    /// Like [`Mark::Interval`], for a change to the better: a triangle that points upwards, in the colour of good.
    Better,
    /// Like [`Mark::Interval`], for a change to the worse: a triangle that points downwards, in the colour of bad.
    Worse,
    /// Like [`Mark::Interval`], for an undecided change: a ring, in the colour of secondary text.
    Undecided,
}

/// A point of a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Value on the horizontal axis.
    pub x: f64,
    /// Value on the vertical axis. A value that is not finite leaves a gap.
    pub y: f64,
    /// Ends of the interval, if any: vertical, unless [`Mark::is_interval`].
    pub interval: Option<(f64, f64)>,
    /// Label, such as a queue depth or rate; may be empty.
    pub label: String,
    /// Tone; Warning and Bad are drawn with a sign.
    pub tone: Tone,
}

/// A range of the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Start on the horizontal axis.
    pub from: f64,
    /// End on the horizontal axis.
    pub to: f64,
    /// Name, shown above the first panel if it fits.
    pub name: String,
    /// Tone, shown as the colour of the range and a sign before its name.
    pub tone: Tone,
}

/// A straight line across a panel, such as a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Position on the vertical axis, or on the horizontal one if upright.
    pub at: f64,
    /// Whether the line is vertical rather than horizontal.
    pub upright: bool,
    /// Name, shown at the line; may be empty.
    pub name: String,
    /// Tone, shown as the colour of the line and a sign before its name.
    pub tone: Tone,
}

/// Counts by position on both axes. Coloured by rank among the counts, so that rare ones are visible.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Edges of the columns on the horizontal axis, one more than columns.
    pub x_edges: Vec<f64>,
    /// Edges of the rows on the vertical axis, one more than rows, ascending.
    pub y_edges: Vec<f64>,
    /// Counts by column, then by row.
    pub counts: Vec<Vec<u64>>,
    /// Unit of the counts: `I/Os`.
    pub of: String,
}

/// A value for each combination of a column and a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Quantity of the columns: `share of reads`.
    pub columns_label: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Quantity of the rows: `block size`.
    pub rows_label: String,
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Quantity of the values in the cells.
    pub quantity: Quantity,
    /// Values by row, then by column; `None`: no value.
    pub values: Vec<Vec<Option<f64>>>,
    /// Ends of the colour ramp; `None`: from the values. Tables to be compared have the same.
    pub range: Option<(f64, f64)>,
    /// Details of each value, such as its interval, shown under the pointer. Shaped like `values`, or empty.
    pub notes: Vec<Vec<String>>,
}

impl Axis {
    /// A linear axis from 0.
    pub fn from_zero(label: impl Into<String>, quantity: Quantity) -> Self {
        let scale = Scale::Linear { zero: true };
        Self { label: label.into(), quantity, scale, range: None }
    }

    /// An axis with a logarithmic scale.
    pub fn log(label: impl Into<String>, quantity: Quantity) -> Self {
        Self { label: label.into(), quantity, scale: Scale::Log, range: None }
    }

    /// An axis of named positions.
    pub fn categories(label: impl Into<String>, names: Vec<String>) -> Self {
        let scale = Scale::Categories(names);
        Self { label: label.into(), quantity: Quantity::Count, scale, range: None }
    }
}

impl Mark {
    /// True for estimates, whose intervals lie along the horizontal axis.
    pub const fn is_interval(self) -> bool {
        matches!(self, Self::Interval | Self::Better | Self::Worse | Self::Undecided)
    }
}

impl Panel {
    /// A panel with series only, of the usual height.
    pub fn new(y: Axis, series: Vec<Series>) -> Self {
        let warning = "with a warning";
        Self { y, series, rules: Vec::new(), heat: None, height: 1.0, warning }
    }
}

impl Point {
    /// A point without interval, label or tone.
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}
