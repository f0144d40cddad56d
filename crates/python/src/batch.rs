//! Converts runs to Arrow record batches of their cells, intervals or histograms.

use crate::arrays::{Bins, Rows, fields};
use crate::error::raised;
use crate::table::Table;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use iodyno_measure::{Cell, ClassStats, Interval};
use iodyno_report::table::{self, Column, Rows as _, Values};
use pyo3::prelude::*;
use std::sync::Arc;

/// A table that runs are converted to.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Cells,
    Intervals,
    Histograms { each_interval: bool },
}

impl Kind {
    fn columns(self) -> Vec<Column> {
        let of = |name: &str, values| Column { name: name.to_owned(), values };
        match self {
            Self::Cells => table::cell_columns(),
            Self::Intervals => table::series_columns(),
            Self::Histograms { each_interval } => {
                let mut all = table::key_columns();
                if each_interval {
                    all.push(of("interval", Values::Counts));
                }
                all.extend(["kind", "latency"].map(|name| of(name, Values::Text)));
                all.push(of("count", Values::Counts));
                all.extend([of("min_ns", Values::Counts), of("mean_ns", Values::Numbers)]);
                all.push(of("max_ns", Values::Counts));
                all
            }
        }
    }

    pub(crate) fn schema(self) -> SchemaRef {
        let mut all = fields(&self.columns());
        if matches!(self, Self::Histograms { .. }) {
            all.push(Bins::field("buckets"));
        }
        Arc::new(Schema::new(all))
    }
}

/// Record batches under construction.
pub(crate) struct Batches {
    kind: Kind,
    rows: Rows,
    /// Buckets of the current batch.
    bins: Bins,
    full: Vec<Bins>,
}

impl Batches {
    pub(crate) fn new(kind: Kind) -> Self {
        let rows = Rows::new(&kind.columns());
        Self { kind, rows, bins: Bins::default(), full: Vec::new() }
    }

    pub(crate) fn add(&mut self, run: &iodyno_notebook::Run) {
        match self.kind {
            Kind::Cells => table::add_cells(run, &mut self.rows),
            Kind::Intervals => table::add_series(run, &mut self.rows),
            Kind::Histograms { each_interval: false } => {
                for cell in &run.cells {
                    self.add_histograms(run, cell, None, &cell.total());
                }
            }
            Kind::Histograms { each_interval: true } => {
                for cell in &run.cells {
                    for (at, interval) in cell.series.iter().enumerate() {
                        self.add_histograms(run, cell, Some(at as u64), interval);
                    }
                }
            }
        }
    }

    fn add_histograms(
        &mut self,
        run: &iodyno_notebook::Run,
        cell: &Cell,
        at: Option<u64>,
        interval: &Interval,
    ) {
        let is_known = |kind| at.is_none() || cell.has_latency_over_time(kind);
        let known = interval.iter().filter(|(kind, stats)| stats.ops() > 0 && is_known(*kind));
        for (kind, stats) in known {
            let both = |stats: &ClassStats| stats.response.is_some();
            let response = Some(("response", stats.response_time()));
            let service = both(stats).then_some(("service", &stats.service));
            for (latency, histogram) in response.into_iter().chain(service) {
                table::key_values(&mut self.rows, run, cell);
                if at.is_some() {
                    self.rows.count(at);
                }
                self.rows.text(Some(kind.name()));
                self.rows.text(Some(latency));
                self.rows.count(Some(histogram.count()));
                self.rows.count(histogram.min_ns());
                self.rows.number(histogram.mean_ns());
                self.rows.count(histogram.max_ns());
                self.rows.end();
                self.bins.add(histogram);
                if self.rows.has_ended_batch() {
                    self.full.push(std::mem::take(&mut self.bins));
                }
            }
        }
    }

    pub(crate) fn finish(self, schema: &SchemaRef) -> PyResult<Vec<RecordBatch>> {
        let mut bins = self.full.into_iter().chain([self.bins]);
        let batch = |mut columns: Vec<ArrayRef>| {
            if matches!(self.kind, Kind::Histograms { .. }) {
                columns.push(Arc::new(bins.next().unwrap_or_default().finish()));
            }
            RecordBatch::try_new(schema.clone(), columns).map_err(raised)
        };
        self.rows.finish().into_iter().map(batch).collect()
    }
}

/// Rows of a run's cells, intervals or histograms, by `kind`.
pub(crate) fn table_of(kind: Kind, run: &iodyno_notebook::Run) -> PyResult<Table> {
    let mut batches = Batches::new(kind);
    batches.add(run);
    let schema = kind.schema();
    let batches = batches.finish(&schema)?;
    Ok(Table::new(schema, batches))
}
