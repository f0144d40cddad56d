//! What a job is made of: a workload at one combination of the lists of its run.

use super::parameters::{Definition, Value};
use crate::shared::name;

/// A combination of the values of a run's lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    /// Parameters of the lists, each with its value.
    pub(super) at: Vec<(&'static str, Value)>,
    /// I/O rate. None: as fast as possible.
    pub(super) rate: Option<Value>,
}

/// Ramp, duration and bytes of a run. Bytes are per target; None: no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) ramp_s: u64,
    pub(super) time_s: u64,
    pub(super) bytes: Option<u64>,
}

/// A workload at one combination of its run's lists.
pub(super) struct Case<'c> {
    pub(super) workload: &'c Definition,
    /// Whether the run has no other workload.
    pub(super) is_alone: bool,
    pub(super) storage: &'c [&'c Definition],
    pub(super) point: &'c Point,
    /// Share of the run's rate.
    pub(super) share: f64,
    pub(super) limits: Limits,
}

impl Case<'_> {
    /// Value of a parameter in the combination; None if its list is not of this parameter.
    pub(super) fn at(&self, key: &str) -> Option<Value> {
        self.point.at.iter().find(|(k, _)| *k == key).map(|(_, value)| value.clone())
    }

    /// Name of the job: the run, the values of the combination and, of several, the workload.
    pub(super) fn name(&self, run: &Definition) -> String {
        let mut parts = vec![run.name.as_str()];
        let values = self.point.at.iter().map(|(_, value)| value).chain(&self.point.rate);
        parts.extend(values.map(|value| value.text.as_str()));
        parts.extend((!self.is_alone).then_some(self.workload.name.as_str()));
        name(&parts.join("-"))
    }
}
