//! The operator's options for a method, and the form in which a run stores its method.

use crate::sweep::Sweep;
use iodyno_catalog::FileError;
use iodyno_workload::ActiveRange;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The operator's options for a method. Options that are not set follow the method file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// Group of settings to use, by its name in the method file; `None` for the first group.
    pub setting: Option<String>,
    /// Number of worker threads, for stages that do not set one; `None` for the method file's default.
    pub threads: Option<u32>,
    /// Queue depth per worker, for stages that do not set one; `None` for the method file's default.
    pub depth: Option<u32>,
    /// Active range in the notation of a method file, such as `0%..75%`; `None` for the active range of the file.
    pub active: Option<String>,
    /// Factor by which all durations are multiplied, above 0 and at most 1; `None` for 1.
    pub scale: Option<f64>,
}

impl Choice {
    /// Factor by which all durations are multiplied; 1 by default.
    pub fn factor(&self) -> f64 {
        self.scale.unwrap_or(1.0)
    }

    /// Returns an error if the factor of the durations is out of range.
    pub(crate) fn check_scale(&self) -> Result<(), FileError> {
        if self.scale.is_none_or(|scale| scale > 0.0 && scale <= 1.0) {
            return Ok(());
        }
        let help = "--scale 0.1 makes every time a tenth as long";
        Err(FileError::new(0..0, "the scale must be above 0 and at most 1").with_help(help))
    }

    /// Parses the chosen active range; `None` if none was chosen.
    pub(crate) fn active(&self) -> Result<Option<ActiveRange>, String> {
        self.active.as_deref().map(str::parse::<ActiveRange>).transpose()
    }
}

/// All inputs of a method. They are stored with a run, so that the method can be built again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MethodSource {
    pub name: String,
    /// Text of the method file; empty for a sweep.
    pub text: String,
    /// Sweep defined on the command line; `None` for a method file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// Text of each workload file to which the method refers, by the file's name.
    #[serde(default)]
    pub workloads: BTreeMap<String, String>,
    #[serde(default)]
    pub choice: Choice,
}
