//! The Python class `Histogram`: a latency histogram that can be merged with others.

use crate::arrays::Bins;
use crate::error::raised;
use crate::table::Table;
use arrow_array::RecordBatch;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Histogram of latencies in ns: 128 buckets per power of two, so percentiles are exact within 0.4 %. Histograms of
/// intervals, cells and runs merge with `+` or `sum`, and lose nothing. Percentiles can't be averaged: merge first.
#[pyclass(frozen, eq, module = "iodyno")]
#[derive(PartialEq)]
pub(crate) struct Histogram {
    pub(crate) inner: iodyno_measure::Histogram,
}

#[pymethods]
impl Histogram {
    /// Reads the bytes that `bytes(histogram)` returned. Without bytes, an empty histogram.
    #[new]
    #[pyo3(signature = (data=None))]
    fn new(data: Option<&[u8]>) -> PyResult<Self> {
        let inner = match data {
            None => iodyno_measure::Histogram::trimmed(),
            Some(data) => iodyno_measure::Histogram::from_bytes(data).map_err(raised)?,
        };
        Ok(Self { inner })
    }

    /// Number of recorded latencies.
    #[getter]
    fn count(&self) -> u64 {
        self.inner.count()
    }

    /// Smallest value, ns, exact; None when empty.
    #[getter]
    fn min_ns(&self) -> Option<u64> {
        self.inner.min_ns()
    }

    /// Arithmetic mean, ns, exact; None when empty.
    #[getter]
    fn mean_ns(&self) -> Option<f64> {
        self.inner.mean_ns()
    }

    /// Largest value, ns, exact; None when empty.
    #[getter]
    fn max_ns(&self) -> Option<u64> {
        self.inner.max_ns()
    }

    /// Value at a percentile (0 to 100), ns, within 0.4 %. None when empty, and if fewer than ten samples lie beyond
    /// it, unless `unsupported`.
    #[pyo3(signature = (percent, *, unsupported=false))]
    fn percentile(&self, percent: f64, unsupported: bool) -> PyResult<Option<u64>> {
        if !(0.0..=100.0).contains(&percent) {
            let text = format!("{percent} is not a percentile: use 0 to 100, such as 99.9");
            return Err(PyValueError::new_err(text));
        }
        let quantile = percent / 100.0;
        Ok(if unsupported {
            self.inner.quantile_ns(quantile)
        } else {
            self.inner.supported_quantile_ns(quantile)
        })
    }

    /// The non-empty buckets, lowest first: a Table with the columns `low_ns`, `width_ns` and `count`.
    fn buckets(&self) -> Table {
        let mut bins = Bins::default();
        bins.add(&self.inner);
        let batch = RecordBatch::from(bins.finish_flat());
        Table::new(batch.schema(), vec![batch])
    }

    fn __add__(&self, other: &Self) -> Self {
        let mut inner = self.inner.clone();
        inner.merge(&other.inner);
        Self { inner }
    }

    /// Adds to the 0 that `sum` begins with.
    fn __radd__(&self, other: u64) -> PyResult<Self> {
        match other {
            0 => Ok(Self { inner: self.inner.clone() }),
            _ => Err(raised("only a histogram can be added to a histogram")),
        }
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.to_bytes())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (Bound<'py, PyBytes>,)) {
        (slf.get_type().into_any(), (slf.get().__bytes__(slf.py()),))
    }

    fn __repr__(&self) -> String {
        let ns = |value: Option<u64>| value.map_or("None".to_owned(), |value| value.to_string());
        format!(
            "<iodyno.Histogram: {} values, p50 {} ns, p99 {} ns, max {} ns>",
            self.inner.count(),
            ns(self.inner.supported_quantile_ns(0.5)),
            ns(self.inner.supported_quantile_ns(0.99)),
            ns(self.inner.max_ns())
        )
    }
}
