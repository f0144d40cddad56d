//! `log bench`: on a file, in memory and in virtual time; what it writes is a log, and what it prints is what a run has.

use crate::common::{Sandbox, iodyno};
use serde_json::Value;
