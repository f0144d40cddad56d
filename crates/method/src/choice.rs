//! The operator's choices for a method, and a method as stored with a run.

use crate::sweep::Sweep;
use iodyno_catalog::FileError;
use iodyno_workload::ActiveRange;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The operator's choices. The method file decides those left open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// Name of the file's settings to use; `None`: the first.
    pub setting: Option<String>,
    /// Worker threads for stages that leave them open.
    pub threads: Option<u32>,
    /// Outstanding operations per worker for stages that leave them open.
    pub depth: Option<u32>,
    /// Active range, as written in a method file, such as `0%..75%`.
    pub active: Option<String>,
    /// Factor on all times; above 0, at most 1. `None`: 1.
    pub scale: Option<f64>,
}

impl Choice {
    /// Factor on all times.
    pub fn factor(&self) -> f64 {
        self.scale.unwrap_or(1.0)
    }

    /// Fails if the scale is out of range.
    pub(crate) fn check_scale(&self) -> Result<(), FileError> {
        if self.scale.is_none_or(|scale| scale > 0.0 && scale <= 1.0) {
            return Ok(());
        }
        let help = "--scale 0.1 makes every time a tenth as long";
        Err(FileError::new(0..0, "the scale must be above 0 and at most 1").with_help(help))
    }

    /// The chosen active range, if any.
    pub(crate) fn active(&self) -> Result<Option<ActiveRange>, String> {
        self.active.as_deref().map(str::parse::<ActiveRange>).transpose()
    }
}

/// A method as stored with a run: all of its inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MethodSource {
    /// Name of the method.
    pub name: String,
    /// Text of the method file; empty with `sweep`.
    pub text: String,
    /// The sweep, for a method without a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// Text of each workload file that the method names, by name.
    #[serde(default)]
    pub workloads: BTreeMap<String, String>,
    /// The operator's choices.
    #[serde(default)]
    pub choice: Choice,
}
