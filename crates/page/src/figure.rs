//! Figures as data: axes, series, marks. `chart/` draws them.
//!
//! Each figure carries all that it needs to be shown alone, such as on a slide: a title, its conditions in one
//! line, units on its axes, and the data behind it.

use crate::{Quantity, Tone};

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// A name for links and files, unique in its document: lower-case letters, digits and dashes.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its content in a sentence or two: the first text that a screen reader reads.
    pub summary: String,
    /// Target and method of the measurement, in one line; carries the run's id, n and the verdict.
    pub conditions: String,
    /// Its shape.
    pub shape: Shape,
    /// Remarks needed to read it.
    pub notes: Vec<String>,
}

/// The shape of a figure.
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
    /// Named stretches of the horizontal axis: phases, the measurement window, stalls.
    pub spans: Vec<Span>,
}

/// One vertical axis with the marks drawn over it.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The vertical axis.
    pub y: Axis,
    /// Its series, the first below.
    pub series: Vec<Series>,
    /// Lines across: a ceiling, a limit, a mean.
    pub rules: Vec<Rule>,
    /// A field of counts below the series: the number for each time and latency.
    pub heat: Option<HeatMap>,
    /// Its height as a share of a usual panel; 1 is usual.
    pub height: f64,
    /// Meaning of the sign around points with the tone Warning.
    pub warning: &'static str,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its quantity, without the unit: `latency`. A scale that is not linear is added by the drawing.
    pub label: String,
    /// The quantity of its numbers.
    pub quantity: Quantity,
    /// The mapping of values to positions.
    pub scale: Scale,
    /// Ends of the axis where they do not follow the data: compared panels have the same.
    pub range: Option<(f64, f64)>,
}

/// The mapping of values to positions on an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Even steps. With `zero` the axis begins at 0, as bars must.
    Linear {
        /// Begins at 0.
        zero: bool,
    },
    /// Even factors. Values that are not above 0 have no position.
    Log,
    /// Quantiles 0 to 1 by their nines: 0, 0.9, 0.99, 0.999 are evenly spaced.
    Nines,
    /// Named positions, one a category: the value is its number, from 0. A vertical axis has the first on top.
    Categories(Vec<String>),
}

/// Points of one kind, with one name in the legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend. Series of one name (over several panels, or the tail of one) are one entry.
    pub name: String,
    /// Its mark.
    pub mark: Mark,
    /// Its colour and dash, from 0; series of one subject have the same in all panels.
    pub color: usize,
    /// Its points, in order.
    pub points: Vec<Point>,
}

/// The mark of points.
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
    /// Rings, larger than dots, so that a dot of the same value is visible within: a reference value.
    Hollow,
    /// Bars from 0; side by side where there are several series.
    Bars,
    /// Bars on top of each other.
    Stack,
    /// The area between `low` and `high`.
    Band,
    /// A dot with a line from `low` to `high` along the **horizontal** axis: an estimate with its interval.
    Interval,
    /// As [`Mark::Interval`], of a change to the better: a triangle that points upwards, in the colour of good.
    Better,
    /// As [`Mark::Interval`], of a change to the worse: a triangle that points downwards, in the colour of bad.
    Worse,
    /// As [`Mark::Interval`], of an undecided change: a ring, in the colour of secondary text.
    Undecided,
}

/// A point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis. Not finite: a gap.
    pub y: f64,
    /// Ends of its interval, where it has one: vertical, unless [`Mark::is_interval`].
    pub interval: Option<(f64, f64)>,
    /// Its label: its depth, its rate; may be empty.
    pub label: String,
    /// Its tone; Warning and Bad get a sign.
    pub tone: Tone,
}

/// A stretch of the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Its name.
    pub name: String,
    /// Its tone.
    pub tone: Tone,
}

/// A line across a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its position on the vertical axis, or the horizontal one if it is upright.
    pub at: f64,
    /// It is upright.
    pub upright: bool,
    /// Its name.
    pub name: String,
    /// Its tone.
    pub tone: Tone,
}

/// Counts by position on both axes. The colour is by rank among the counts, so that rare ones are visible.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Edges of the columns on the horizontal axis, one more than there are columns.
    pub x_edges: Vec<f64>,
    /// Edges of the rows on the vertical axis, one more than there are rows, rising.
    pub y_edges: Vec<f64>,
    /// By column, then by row.
    pub counts: Vec<Vec<u64>>,
    /// The unit of the counts: `I/Os`.
    pub of: String,
}

/// Values by column and row.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// The quantity of the columns: `share of reads`.
    pub columns_label: String,
    /// Their names.
    pub columns: Vec<String>,
    /// The quantity of the rows: `block size`.
    pub rows_label: String,
    /// Their names.
    pub rows: Vec<String>,
    /// The quantity of the values.
    pub quantity: Quantity,
    /// By row, then by column; None where there is none.
    pub values: Vec<Vec<Option<f64>>>,
    /// Ends of the colours where they do not follow the values: compared tables have the same.
    pub range: Option<(f64, f64)>,
    /// Further words on a value, shown under the pointer: its interval. As `values`, or empty.
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

    /// An axis of named positions.
    pub fn categories(label: impl Into<String>, names: Vec<String>) -> Self {
        let scale = Scale::Categories(names);
        Self { label: label.into(), quantity: Quantity::Count, scale, range: None }
    }
}

impl Mark {
    /// It draws estimates whose intervals lie along the horizontal axis.
    pub const fn is_interval(self) -> bool {
        matches!(self, Self::Interval | Self::Better | Self::Worse | Self::Undecided)
    }
}

impl Panel {
    /// A panel of series alone, of the usual height.
    pub fn new(y: Axis, series: Vec<Series>) -> Self {
        let warning = "with a warning";
        Self { y, series, rules: Vec::new(), heat: None, height: 1.0, warning }
    }
}

impl Point {
    /// A point and nothing else.
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}
