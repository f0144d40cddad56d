//! Judges cells that another program measured, such as fio.

use super::{Level, Say};
use crate::cell::Cell;
use iodyno_units::text::listed;

/// Reports a cell that another program measured, and latencies that its files do not contain.
pub(super) fn other_tool(cell: &Cell, say: &mut Say) {
    let Some(tool) = &cell.evidence.other_tool else { return };
    say(
        "OTHER_TOOL",
        Level::Warning,
        format!(
            "results of {}, imported from a file without a record of whether the I/O reached the storage, of the storage's state, or of disturbances; only the rates over time and the number of samples are checked",
            tool.program
        ),
    );
    if tool.only_percentiles {
        say(
            "ONLY_PERCENTILES",
            Level::Warning,
            "only some percentiles of the latencies are known: those that the program printed for one job are exact, others and those of several jobs together are upper bounds, and none has a confidence interval; fio keeps the distribution with --output-format=json+".to_owned(),
        );
    }
    if !tool.spread_evenly.is_empty() {
        let kinds = listed(&tool.spread_evenly, "and");
        say(
            "LATENCY_OVER_TIME_UNKNOWN",
            Level::Note,
            format!(
                "the latencies of each interval are unknown ({kinds}): percentiles over time are not shown; fio keeps them with write_hist_log and log_hist_msec"
            ),
        );
    }
}
