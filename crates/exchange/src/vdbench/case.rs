//! Types for a case: one workload of a vdbench run at one combination of the run's `for…` lists. Each case becomes a
//! job.

use super::parameters::{Definition, Value};
use crate::shared::name;

/// One combination of values from the lists in a run definition, such as a transfer size and a thread count.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    /// Each parameter that has a list, with its value in this combination.
    pub(super) at: Vec<(&'static str, Value)>,
    /// I/O rate; None: as fast as possible.
    pub(super) rate: Option<Value>,
}

/// Ramp, duration, and maximum number of bytes per target (None: no limit) of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) ramp_s: u64,
    pub(super) time_s: u64,
    pub(super) bytes: Option<u64>,
}

/// One workload of a run at one combination of the run's lists. It becomes a job.
pub(super) struct Case<'c> {
    pub(super) workload: &'c Definition,
    /// Whether the run has only this workload.
    pub(super) is_alone: bool,
    pub(super) storage: &'c [&'c Definition],
    pub(super) point: &'c Point,
    /// This workload's fraction of the run's rate, from 0 to 1.
    pub(super) share: f64,
    pub(super) limits: Limits,
}

impl Case<'_> {
    /// Value of a parameter in this combination; None if the run has no list for it.
    pub(super) fn at(&self, key: &str) -> Option<Value> {
        self.point.at.iter().find(|(k, _)| *k == key).map(|(_, value)| value.clone())
    }

    /// Name of the job: name of the run, values of the combination and, if the run has several workloads, name of
    /// the workload.
    pub(super) fn name(&self, run: &Definition) -> String {
        let mut parts = vec![run.name.as_str()];
        let values = self.point.at.iter().map(|(_, value)| value).chain(&self.point.rate);
        parts.extend(values.map(|value| value.text.as_str()));
        parts.extend((!self.is_alone).then_some(self.workload.name.as_str()));
        name(&parts.join("-"))
    }
}
