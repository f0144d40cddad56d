//! The exception of this module.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    iodyno,
    Error,
    PyException,
    "A notebook can't be read, or a request can't be met. The message has the remedy."
);

/// Converts an error to the exception, with the same message.
pub(crate) fn raised(error: impl std::fmt::Display) -> PyErr {
    Error::new_err(error.to_string())
}
