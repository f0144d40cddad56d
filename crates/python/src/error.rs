//! Converts errors to the exception of the Python package, `iodyno.Error`.

use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(iodyno._error, Error);

/// Converts an error to the exception, with the same message.
pub(crate) fn raised(error: impl std::fmt::Display) -> PyErr {
    Error::new_err(error.to_string())
}
