//! Arguments by which a Python caller selects cells, a kind of operation, and response or service times.

use crate::error::raised;
use iodyno_measure::{Cell, ClassStats};
use iodyno_units::OpKind;
use pyo3::prelude::*;

/// One of a cell's two latencies.
#[derive(Clone, Copy)]
pub(crate) enum Latency {
    /// Response time: from the intended start to completion in open loop; the service time in closed loop.
    Response,
    /// Service time: from submission to completion.
    Service,
}

impl Latency {
    pub(crate) fn parse(text: &str) -> PyResult<Self> {
        match text {
            "response" => Ok(Self::Response),
            "service" => Ok(Self::Service),
            _ => Err(raised(format!("`{text}` is not a latency: use `response` or `service`"))),
        }
    }

    pub(crate) fn of(self, stats: &ClassStats) -> &iodyno_measure::Histogram {
        match self {
            Self::Response => stats.response_time(),
            Self::Service => &stats.service,
        }
    }
}

/// Selection of cells and operations whose latencies are merged. `None` selects all.
pub(crate) struct Cells<'a> {
    pub(crate) cell: Option<&'a str>,
    pub(crate) target: Option<&'a str>,
    pub(crate) kind: Option<OpKind>,
    pub(crate) latency: Latency,
}

impl<'a> Cells<'a> {
    pub(crate) fn parse(
        cell: Option<&'a str>,
        target: Option<&'a str>,
        kind: Option<&str>,
        latency: &str,
    ) -> PyResult<Self> {
        let known = |text: &str| {
            let found = OpKind::ALL.into_iter().find(|kind| kind.name() == text);
            found.ok_or_else(|| {
                let names = OpKind::ALL.map(OpKind::name).join(", ");
                raised(format!("`{text}` is not a kind of operation: use one of {names}"))
            })
        };
        let kind = kind.map(known).transpose()?;
        Ok(Self { cell, target, kind, latency: Latency::parse(latency)? })
    }

    /// Adds the latencies of a run to a histogram. Returns whether a cell matched. Without a target, cells that merge
    /// several targets are left out, since the cells of each target are counted.
    pub(crate) fn add(
        &self,
        run: &iodyno_notebook::Run,
        sum: &mut iodyno_measure::Histogram,
    ) -> bool {
        let matches = |cell: &&Cell| {
            self.cell.is_none_or(|name| cell.key.name == name)
                && match self.target {
                    Some(target) => cell.key.target == target,
                    None => !cell.key.is_of_all_targets(),
                }
        };
        let mut found = false;
        for cell in run.cells.iter().filter(matches) {
            found = true;
            for (kind, stats) in cell.series.iter().flat_map(iodyno_measure::Interval::iter) {
                if self.kind.is_none_or(|wanted| wanted == kind) {
                    sum.merge(self.latency.of(stats));
                }
            }
        }
        found
    }

    /// The exception for runs without a matching cell.
    pub(crate) fn none_found(&self, runs: &[&iodyno_notebook::Run]) -> PyErr {
        let mut names: Vec<&str> =
            runs.iter().flat_map(|run| &run.cells).map(|cell| cell.key.name.as_str()).collect();
        names.dedup();
        names.truncate(10);
        let cell = self.cell.map_or(String::new(), |name| format!(" named `{name}`"));
        let target = self.target.map_or(String::new(), |name| format!(" on `{name}`"));
        raised(format!("there is no cell{cell}{target}: the cells are {}", names.join(", ")))
    }
}
