//! Documents with figures: the model of a report, and its output as one HTML file, as Markdown, and figure by
//! figure as SVG.
//!
//! A [`Document`] is sections of blocks; a [`Figure`] is data with axes and marks, and determines the content,
//! not the appearance. Callers make a document of a stored run, a comparison or a study; this crate draws it.
//!
//! **Invariant:** this crate knows nothing of runs, reads no clock, no file and no environment. The same
//! document gives the same bytes.

pub mod chart;
pub mod csv;
pub mod document;
pub mod figure;
mod figure_table;
pub mod html;
pub mod markdown;
mod name;
pub mod quantity;
pub mod table;
mod tone;

pub use document::{Block, Document, Embedded, Section};
pub use figure::{Axis, Figure, Mark, Matrix, Panel, Plot, Point, Scale, Series, Shape};
pub use quantity::Quantity;
pub use table::{Cell, Column, Row, Table, Tone};
