//! Documents with figures, written as one HTML file, as Markdown, as CSV, or figure by figure as SVG; and text for a
//! terminal ([`terminal`]).
//!
//! A [`Document`] consists of sections, which consist of blocks. A [`Figure`] is data with axes and marks; it defines
//! its content, not its looks. Higher crates make documents of their subjects (a stored run, a comparison, a study);
//! this crate draws them.
//!
//! **Invariant:** this crate knows nothing of runs and reads no clock, file or environment. Equal documents give equal
//! bytes.

#![forbid(unsafe_code)]

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
pub mod terminal;
mod tone;

pub use document::{Block, Document, Embedded, Section, Views};
pub use figure::{Axis, Figure, Mark, Matrix, Panel, Plot, Point, Scale, Series, Shape};
pub use quantity::Quantity;
pub use table::{Cell, Column, Row, Table, Tone};
