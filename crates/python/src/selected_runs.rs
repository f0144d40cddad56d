//! Argument by which a Python caller selects runs: a name, an id, a `Run`, or a list of them.

use crate::run::Run;
use pyo3::prelude::*;

/// Runs: a selector as on the command line (`last`, `last~1`, an id or its beginning, a name), a Run, or a list of
/// these.
pub(crate) struct Runs(String);

impl Runs {
    /// Selectors with commas between them; empty for an empty list.
    pub(crate) fn list(&self) -> &str {
        &self.0
    }
}

impl FromPyObject<'_, '_> for Runs {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(run) = object.cast::<Run>() {
            return Ok(Self(run.get().inner.id.clone()));
        }
        if let Ok(text) = object.extract::<String>() {
            return Ok(Self(text));
        }
        let mut words = Vec::new();
        for item in object.try_iter()? {
            words.push(item?.extract::<Self>()?.0);
        }
        Ok(Self(words.join(",")))
    }
}
