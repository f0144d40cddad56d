//! Figures as data: axes, series, marks. `chart/` draws figures.
//!
//! Each figure can be shown alone, such as on a slide: it has a title, its conditions in one line, units on its axes,
//! and the underlying data.

use crate::{Quantity, Tone};

/// A self-contained figure: its data and the texts needed to understand it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Identifier for links and file names, unique in the document: lower-case letters, digits and dashes.
    pub id: String,
    /// Title of the figure, shown above the drawing.
    pub title: String,
    /// Content of the figure in a sentence or two, which screen readers read first.
    pub summary: String,
    /// One line on target and method, with the run's id, the number of runs and the verdict.
    pub conditions: String,
    /// Form of the drawing (plot, matrix or 3D columns), with its data.
    pub shape: Shape,
    /// Sentences that help to read the figure, shown below it.
    pub notes: Vec<String>,
}

/// Type of drawing, with its data.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A plot with x and y axes; several panels may share the x axis.
    Plot(Plot),
    /// A table with cells coloured by value.
    Matrix(Matrix),
    /// A matrix drawn as a 3D column chart, as in reports that follow SNIA's test specification.
    Columns(Matrix),
}

/// One or more panels, drawn one below the other, with a common horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Horizontal axis, shared by all panels.
    pub x: Axis,
    /// Panels from top to bottom.
    pub panels: Vec<Panel>,
    /// Named ranges of the horizontal axis: phases, the measurement window, stalls.
    pub spans: Vec<Span>,
}

/// One of the charts stacked in a plot, with its own vertical axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Vertical axis, shared by all series and the heat map of the panel.
    pub y: Axis,
    /// Series of points, in drawing order.
    pub series: Vec<Series>,
    /// Straight lines across the panel, such as a latency ceiling or a mean.
    pub rules: Vec<Rule>,
    /// Heat map drawn behind the series, such as counts by time and latency; `None` for no heat map.
    pub heat: Option<HeatMap>,
    /// Height of the panel as a multiple of the normal height.
    pub height: f64,
    /// Legend text for the warning sign, which is drawn at points of severity [`Tone::Warning`].
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
    /// Mapping of values to positions along the axis.
    pub scale: Scale,
    /// Fixed lower and upper end of the axis; `None` to derive them from the data. Panels to be compared need equal
    /// ranges.
    pub range: Option<(f64, f64)>,
}

/// Mapping of the values on an axis to positions.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Linear scale, which includes 0 if `zero` is set.
    Linear {
        /// Whether the axis includes 0, as bars require.
        zero: bool,
    },
    /// Logarithmic scale. Values of 0 or below have no position.
    Log,
    /// Scale of quantiles (0 to 1) by their number of nines: 0, 0.9, 0.99 and 0.999 are evenly spaced.
    Nines,
    /// Named categories; a value is the category's index, from 0. On a vertical axis the first is at the top.
    Categories(Vec<String>),
}

/// Points drawn with one mark and colour, under one name in the legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the series in the legend. Series with equal names, in any panel, share one legend entry.
    pub name: String,
    /// Shape of the points: line, dots, bars, band or interval.
    pub mark: Mark,
    /// Index of the colour and dash pattern. Related series in different panels should have the same index.
    pub color: usize,
    /// Points of the series, in the order in which a line connects them.
    pub points: Vec<Point>,
}

/// Graphic form of a series' points, such as a line or bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line, with a dot at each point if there are few points.
    Line,
    /// A line of dots, for an ideal or fitted curve, or a range with too few samples. It is not drawn with dashes,
    /// because these tell the series apart.
    Dashed,
    /// A step line, for values that apply until the next point.
    Step,
    /// Dots without a connecting line.
    Dots,
    /// Rings, larger than dots, for reference values; a dot of equal value stays visible inside.
    Hollow,
    /// Bars from 0; bars of several series stand side by side.
    Bars,
    /// Stacked bars: each stands on the bar of the previous series at the same x value.
    Stack,
    /// A filled band between the lower and upper ends of the points' intervals.
    Band,
    /// An estimate: a dot with its interval along the **horizontal** axis.
    Interval,
    /// An improvement with its horizontal interval, drawn as an upward triangle in the colour of [`Tone::Good`].
    Better,
    /// A deterioration with its horizontal interval, drawn as a downward triangle in the colour of [`Tone::Bad`].
    Worse,
    /// An inconclusive change with its horizontal interval, drawn as a ring in the colour of secondary text.
    Undecided,
}

/// A point of a series: its position, and optionally an interval, a label and a severity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Value on the horizontal axis; the index of a category on an axis of categories.
    pub x: f64,
    /// Value on the vertical axis. A value that is not finite interrupts the line.
    pub y: f64,
    /// Lower and upper end of the point's interval; vertical, or horizontal for marks with [`Mark::is_interval`].
    /// `None` for no interval.
    pub interval: Option<(f64, f64)>,
    /// Label of the point, such as a queue depth or rate; may be empty.
    pub label: String,
    /// Severity of the point. [`Tone::Warning`] and [`Tone::Bad`] are shown by a sign at the point.
    pub tone: Tone,
}

/// A named range of the horizontal axis, such as a phase or a stall.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Start of the range, in units of the axis.
    pub from: f64,
    /// End of the range, in units of the axis.
    pub to: f64,
    /// Name of the range, shown above the first panel if there is room.
    pub name: String,
    /// Severity, which determines the colour of the range and the sign before its name.
    pub tone: Tone,
}

/// A straight line across the whole panel, such as a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Value on the vertical axis at which the line is drawn; on the horizontal axis if `upright`.
    pub at: f64,
    /// Whether the line is vertical rather than horizontal.
    pub upright: bool,
    /// Name of the line, shown next to it; may be empty.
    pub name: String,
    /// Meaning of the line, such as a warning, which determines its colour and the sign before its name.
    pub tone: Tone,
}

/// A heat map: counts by position on both axes. Cells are coloured by the logarithm of their count, so that small
/// counts stay visible.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Edges of the columns on the horizontal axis: N + 1 edges for N columns.
    pub x_edges: Vec<f64>,
    /// Edges of the rows on the vertical axis, ascending: N + 1 edges for N rows.
    pub y_edges: Vec<f64>,
    /// Count in each cell: one list per column, with one count per row.
    pub counts: Vec<Vec<u64>>,
    /// Unit of the counts: `I/Os`.
    pub of: String,
}

/// A table of numbers: one value for each combination of a column and a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Title of the column axis, such as `share of reads`.
    pub columns_label: String,
    /// Names of the columns, from left to right.
    pub columns: Vec<String>,
    /// Title of the row axis, such as `block size`.
    pub rows_label: String,
    /// Names of the rows, from top to bottom.
    pub rows: Vec<String>,
    /// Quantity of the values, which determines their unit and format.
    pub quantity: Quantity,
    /// Values of the cells: one list per row, with one value per column; `None` for no value.
    pub values: Vec<Vec<Option<f64>>>,
    /// Values at both ends of the colour scale; `None` to derive them from the data. Matrices to be compared need
    /// equal ranges.
    pub range: Option<(f64, f64)>,
    /// Tooltip of each cell, such as its confidence interval. Same dimensions as `values`, or empty.
    pub notes: Vec<Vec<String>>,
}

impl Axis {
    /// Creates a linear axis that includes 0.
    pub fn from_zero(label: impl Into<String>, quantity: Quantity) -> Self {
        let scale = Scale::Linear { zero: true };
        Self { label: label.into(), quantity, scale, range: None }
    }

    /// Creates a logarithmic axis whose range follows from the data.
    pub fn log(label: impl Into<String>, quantity: Quantity) -> Self {
        Self { label: label.into(), quantity, scale: Scale::Log, range: None }
    }

    /// Creates an axis of named categories, in the given order.
    pub fn categories(label: impl Into<String>, names: Vec<String>) -> Self {
        let scale = Scale::Categories(names);
        Self { label: label.into(), quantity: Quantity::Count, scale, range: None }
    }
}

impl Mark {
    /// Whether the intervals of the points lie along the horizontal axis.
    pub const fn is_interval(self) -> bool {
        matches!(self, Self::Interval | Self::Better | Self::Worse | Self::Undecided)
    }
}

impl Panel {
    /// Creates a panel of normal height with series, but without rules or a heat map.
    pub fn new(y: Axis, series: Vec<Series>) -> Self {
        let warning = "with a warning";
        Self { y, series, rules: Vec::new(), heat: None, height: 1.0, warning }
    }
}

impl Point {
    /// Creates a point without interval, label and emphasis.
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}
