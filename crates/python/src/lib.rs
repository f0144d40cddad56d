//! The Python module `iodyno._native`: runs, cells, intervals and histograms of a notebook as Arrow.
//!
//! Arrow's PyCapsule protocol hands buffers to Polars, pandas, pyarrow and DuckDB without a copy. Histograms stay in
//! Rust, where they merge and give percentiles. `clients/python` has the package around this module: type stubs,
//! functions that run the command `iodyno`, disks served for tests, and a client of the message log.
//!
//! **Invariant:** this crate only reads notebooks, and computes nothing itself: figures come from `measure`, tables and
//! pages from `report`.

#![forbid(unsafe_code)]

mod arrays;
mod batch;
mod comparison;
mod error;
mod histogram;
mod notebook;
mod run;
mod selected_cells;
mod selected_runs;
mod table;

use pyo3::prelude::*;

/// Registers the module's classes with Python.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<notebook::Notebook>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<histogram::Histogram>()?;
    module.add_class::<comparison::Comparison>()?;
    module.add_class::<table::Table>()
}
