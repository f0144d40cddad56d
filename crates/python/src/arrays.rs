//! Builds Arrow arrays from the rows of a table, and from histograms.

use arrow_array::builder::{Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, ListArray, StructArray, UInt64Array};
use arrow_schema::{DataType, Field, Fields};
use iodyno_measure::Histogram;
use iodyno_report::table::{self, Column, Values};
use std::sync::Arc;

enum Builder {
    Text(StringBuilder),
    Counts(UInt64Builder),
    Numbers(Float64Builder),
}

/// Maximum number of rows of a record batch. Offsets of texts and lists have 32 bits. At this limit, a batch has less
/// than 2 GiB of text in a column (a text has at most some KiB) and fewer than 2^31 buckets (a histogram has at most
/// some thousands).
const BATCH_ROWS_MAX: usize = 1 << 16;

/// Columns under construction, cut into batches.
pub(crate) struct Rows {
    columns: Vec<Builder>,
    at: usize,
    /// Number of rows of the current batch.
    count: usize,
    full: Vec<Vec<ArrayRef>>,
}

impl Rows {
    pub(crate) fn new(columns: &[Column]) -> Self {
        let builder = |column: &Column| match column.values {
            Values::Text => Builder::Text(StringBuilder::new()),
            Values::Counts => Builder::Counts(UInt64Builder::new()),
            Values::Numbers => Builder::Numbers(Float64Builder::new()),
        };
        let columns = columns.iter().map(builder).collect();
        Self { columns, at: 0, count: 0, full: Vec::new() }
    }

    /// Whether the last row has ended a batch.
    pub(crate) fn has_ended_batch(&self) -> bool {
        self.count == 0
    }

    /// Ends the current batch, which may be empty.
    fn end_batch(&mut self) {
        let array = |builder: &mut Builder| -> ArrayRef {
            match builder {
                Builder::Text(builder) => Arc::new(builder.finish()),
                Builder::Counts(builder) => Arc::new(builder.finish()),
                Builder::Numbers(builder) => Arc::new(builder.finish()),
            }
        };
        self.full.push(self.columns.iter_mut().map(array).collect());
        self.count = 0;
    }

    /// The columns of each batch as arrays.
    pub(crate) fn finish(mut self) -> Vec<Vec<ArrayRef>> {
        if self.count > 0 || self.full.is_empty() {
            self.end_batch();
        }
        self.full
    }

    fn next(&mut self) -> &mut Builder {
        self.at += 1;
        &mut self.columns[self.at - 1]
    }
}

const WRONG_TYPE: &str = "each value of a row must have the type of its column";

impl table::Rows for Rows {
    fn text(&mut self, value: Option<&str>) {
        let Builder::Text(builder) = self.next() else { unreachable!("{WRONG_TYPE}") };
        builder.append_option(value);
    }

    fn count(&mut self, value: Option<u64>) {
        let Builder::Counts(builder) = self.next() else { unreachable!("{WRONG_TYPE}") };
        builder.append_option(value);
    }

    fn number(&mut self, value: Option<f64>) {
        let Builder::Numbers(builder) = self.next() else { unreachable!("{WRONG_TYPE}") };
        builder.append_option(value);
    }

    fn end(&mut self) {
        debug_assert_eq!(self.at, self.columns.len());
        self.at = 0;
        self.count += 1;
        if self.count == BATCH_ROWS_MAX {
            self.end_batch();
        }
    }
}

/// Arrow fields of columns; all allow null.
pub(crate) fn fields(columns: &[Column]) -> Vec<Field> {
    let field = |column: &Column| {
        let kind = match column.values {
            Values::Text => DataType::Utf8,
            Values::Counts => DataType::UInt64,
            Values::Numbers => DataType::Float64,
        };
        Field::new(&column.name, kind, true)
    };
    columns.iter().map(field).collect()
}

/// Non-empty buckets of histograms: the buffers of an Arrow list of structs.
#[derive(Default)]
pub(crate) struct Bins {
    ends: Vec<usize>,
    low_ns: Vec<u64>,
    width_ns: Vec<u64>,
    counts: Vec<u64>,
}

impl Bins {
    /// Adds the buckets of a histogram.
    pub(crate) fn add(&mut self, histogram: &Histogram) {
        for bucket in histogram.buckets() {
            self.low_ns.push(bucket.low_ns);
            self.width_ns.push(bucket.width_ns);
            self.counts.push(bucket.count);
        }
        self.ends.push(self.counts.len());
    }

    fn fields() -> Fields {
        let of = |name| Field::new(name, DataType::UInt64, false);
        Fields::from(vec![of("low_ns"), of("width_ns"), of("count")])
    }

    /// Arrow field of a list of buckets per row.
    pub(crate) fn field(name: &str) -> Field {
        Field::new_list(name, Field::new("item", DataType::Struct(Self::fields()), false), false)
    }

    /// All buckets in one array.
    pub(crate) fn finish_flat(self) -> StructArray {
        let column = |values| -> ArrayRef { Arc::new(UInt64Array::from(values)) };
        let columns = [self.low_ns, self.width_ns, self.counts].map(column).to_vec();
        StructArray::new(Self::fields(), columns, None)
    }

    /// One list of buckets per histogram.
    pub(crate) fn finish(mut self) -> ListArray {
        let ends = std::mem::take(&mut self.ends);
        let lengths = ends.iter().scan(0, |from, end| Some(end - std::mem::replace(from, *end)));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths(lengths);
        let item = Field::new("item", DataType::Struct(Self::fields()), false);
        ListArray::new(Arc::new(item), offsets, Arc::new(self.finish_flat()), None)
    }
}
