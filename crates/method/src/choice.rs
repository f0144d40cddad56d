//! The operator's choices for a method, and a method as it is stored with a run.

use crate::sweep::Sweep;
use iodyno_catalog::FileError;
use iodyno_workload::ActiveRange;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The operator's choices. The file decides the open ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// The chosen settings of the file; None for the first.
    pub setting: Option<String>,
    /// Worker threads, where a stage leaves them open.
    pub threads: Option<u32>,
    /// Outstanding operations of each worker, where a stage leaves them open.
    pub depth: Option<u32>,
    /// The active range in a method file's words, such as `0%..75%`.
    pub active: Option<String>,
    /// Every time is multiplied by this; above 0, at most 1. None for 1.
    pub scale: Option<f64>,
}

impl Choice {
    /// The factor on every time.
    pub fn factor(&self) -> f64 {
        self.scale.unwrap_or(1.0)
    }

    /// Refuses a scale out of its range.
    pub(crate) fn check_scale(&self) -> Result<(), FileError> {
        if self.scale.is_none_or(|scale| scale > 0.0 && scale <= 1.0) {
            return Ok(());
        }
        let help = "--scale 0.1 makes every time a tenth as long";
        Err(FileError::new(0..0, "a scale is above 0 and at most 1").with_help(help))
    }

    /// The active range, if one was chosen.
    pub(crate) fn active(&self) -> Result<Option<ActiveRange>, String> {
        self.active.as_deref().map(str::parse::<ActiveRange>).transpose()
    }
}

/// A method as it is stored with a run: all of its inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MethodSource {
    /// Its name.
    pub name: String,
    /// The file's text; empty where `sweep` is there.
    pub text: String,
    /// A method that comes from no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// The workload files that it names, as they were: name to text.
    #[serde(default)]
    pub workloads: BTreeMap<String, String>,
    /// The operator's choices.
    #[serde(default)]
    pub choice: Choice,
}
