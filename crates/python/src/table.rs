//! The Python class `Table`: Arrow record batches with a common schema.

use crate::error::raised;
use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, TimestampMillisecondType, UInt64Type};
use arrow_array::{Array, RecordBatch, RecordBatchIterator};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, SchemaRef};
use pyo3::exceptions::PyModuleNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

/// A table in Arrow's format. Polars, pyarrow, DuckDB and pandas read it without a copy:
/// `polars.DataFrame(cells)`, `pyarrow.table(cells)`, `duckdb.sql("from cells")`, `cells.to_pandas()`.
#[pyclass(frozen, module = "iodyno")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

#[pymethods]
impl Table {
    /// Names of the columns, from left to right.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    fn __len__(&self) -> usize {
        self.rows()
    }

    fn __repr__(&self) -> String {
        format!("<iodyno.Table: {} rows of {}>", self.rows(), self.column_names().join(", "))
    }

    /// Exports the table as an Arrow stream (the PyCapsule protocol). `requested_schema` is ignored, as the protocol
    /// permits.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Exports the schema (the PyCapsule protocol).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(raised)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The table as a pandas DataFrame. Needs pandas and pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_pyarrow(slf)?.call_method0("to_pandas")
    }

    /// The table as a pyarrow Table. Needs pyarrow.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        needed(slf.py(), "pyarrow")?.call_method1("table", (slf,))
    }

    /// The table as a Polars DataFrame. Needs Polars.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        needed(slf.py(), "polars")?.call_method1("DataFrame", (slf,))
    }

    /// The rows as dicts, for use without further packages. Timestamps become datetimes in UTC.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for batch in &self.batches {
            for at in 0..batch.num_rows() {
                let row = PyDict::new(py);
                for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
                    row.set_item(field.name(), value(py, column, at)?)?;
                }
                rows.append(row)?;
            }
        }
        Ok(rows)
    }
}

/// A datetime in UTC from ms since 1970.
pub(crate) fn utc(py: Python<'_>, ms: i64) -> PyResult<Bound<'_, PyAny>> {
    let datetime = py.import("datetime")?;
    let utc = datetime.getattr("timezone")?.getattr("utc")?;
    datetime.getattr("datetime")?.call_method1("fromtimestamp", (ms as f64 / 1e3, utc))
}

/// Converts an element of an array to a Python object. Supports the types of arrays that tables have.
fn value<'py>(py: Python<'py>, array: &dyn Array, at: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(at) {
        return Ok(py.None().into_bound(py));
    }
    Ok(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(at).into_pyobject(py)?.into_any(),
        DataType::UInt64 => {
            array.as_primitive::<UInt64Type>().value(at).into_pyobject(py)?.into_any()
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().value(at).into_pyobject(py)?.into_any()
        }
        DataType::Timestamp(..) => {
            let ms = array.as_primitive::<TimestampMillisecondType>().value(at);
            utc(py, ms)?
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(at);
            let list = PyList::empty(py);
            for at in 0..items.len() {
                list.append(value(py, &items, at)?)?;
            }
            list.into_any()
        }
        DataType::Struct(fields) => {
            let dict = PyDict::new(py);
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                dict.set_item(field.name(), value(py, column, at)?)?;
            }
            dict.into_any()
        }
        other => return Err(raised(format!("a column of type {other} has no Python values"))),
    })
}

/// Imports a package that this one does not require.
fn needed<'py>(py: Python<'py>, package: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(package).map_err(|error| {
        if error.is_instance_of::<PyModuleNotFoundError>(py) {
            let what =
                format!("this form of a table needs the package {package}: pip install {package}");
            PyModuleNotFoundError::new_err(what)
        } else {
            error
        }
    })
}
