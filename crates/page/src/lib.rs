//! Renders documents with figures as one HTML file, Markdown or CSV, and single figures as SVG. Also formats text for a
//! terminal ([`terminal`]).
//!
//! A [`Document`] consists of sections, which consist of blocks. A [`Figure`] consists of data, axes and marks, without
//! positions or fonts. Higher crates build documents about runs, comparisons and studies.
//!
//! **Invariant:** this crate knows nothing of runs, and reads no clock, files or environment variables. Equal documents
//! give equal bytes.

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
