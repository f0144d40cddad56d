//! `purge`: restores a target to its unwritten state, and reports the result.

use crate::args::{Cli, Purge};
use crate::console::{complain, print, print_json};
use crate::failure::Failure;
use crate::{show, signals};
use iodyno_notebook::Notebook;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::text::{clean, labelled};
use iodyno_targets::purge::{
    PurgeOptions, PurgeOutcome, PurgePlan, PurgeRecord, Verified, plan, purge,
};
use iodyno_targets::{Confirm, inspect};
use iodyno_units::human;
use iodyno_units::text::clean_lines;
use serde_json::json;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Exit code if the target was not erased.
const NOT_PURGED: u8 = 4;
/// Exit code if it is not safe to erase the target.
const REFUSED: u8 = 3;

pub(crate) fn command(flags: &Purge, cli: &Cli, style: Style) -> Result<ExitCode, Failure> {
    let inspection = inspect(&flags.target)?;
    let key = iodyno_run::written_key(&inspection);
    complain(&clean_lines(&announce(&plan(&inspection, flags.method))));
    let options = PurgeOptions { method: flags.method, confirm: Confirm(flags.destroy.clone()) };
    let stop = signals::stop_flag();
    let mut shown = 0;
    let mut progress = |share: Option<f64>| {
        let percent = (share.unwrap_or(0.0) * 100.0) as u32;
        // One line per 10 %: few enough for a log.
        if percent >= shown + 10 && percent < 100 {
            shown = percent - percent % 10;
            complain(&format!("  {shown} %\n"));
        }
        if stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let record = purge(inspection, &options, &mut progress);
    // A purge that failed half-way has changed the target, too; a refused one has not.
    if record.as_ref().err().is_none_or(|e| e.exit_code() != REFUSED) {
        forget_written(key.as_deref(), cli)?;
    }
    let record = record?;
    if flags.json {
        print_json(&json!({ "schema": 1, "purged": record.is_purged(), "record": record }))?;
    } else {
        print(&describe(&record, style))?;
    }
    Ok(if record.is_purged() { ExitCode::SUCCESS } else { ExitCode::from(NOT_PURGED) })
}

/// Removes the notebook's record of the content that earlier runs wrote, so that verification no longer
/// expects it.
fn forget_written(key: Option<&str>, cli: &Cli) -> Result<(), Failure> {
    let Some(key) = key else { return Ok(()) };
    match show::path(cli.notebook.as_deref()) {
        Ok(path) if path.exists() => Ok(Notebook::open(&path)?.forget_written(key)?),
        // Without a notebook, no run expects any content.
        _ => Ok(()),
    }
}

/// Lists the erase methods: the chosen one, and why others are impossible.
fn announce(plan: &PurgePlan) -> String {
    let mut text = format!("ways to purge {}, best first:\n", plan.target);
    for choice in &plan.choices {
        let mark = if Some(choice.method) == plan.chosen {
            "→"
        } else if choice.possible {
            "·"
        } else {
            "✗"
        };
        let _ = writeln!(text, "  {mark} {:<22} {}", choice.method.name(), choice.remark);
    }
    if let (None, Some(why)) = (plan.chosen, &plan.why_not) {
        let _ = writeln!(text, "  not possible: {why}");
    }
    text
}

fn describe(record: &PurgeRecord, style: Style) -> String {
    let mut text = clean(&record.target, usize::MAX, style) + "\n";
    let mut line = |label: &str, value: &str| text += &labelled(label, 10, value, style);
    let by = record.method.map_or(String::new(), |method| format!(" by {method}"));
    match &record.outcome {
        PurgeOutcome::Purged => {
            line("purged", &format!("yes,{by} in {}", human::duration_ns(record.duration_ns)));
        }
        PurgeOutcome::NotPossible(why) => line("purged", &format!("not possible: {why}")),
        PurgeOutcome::Failed(why) => line("purged", &format!("no,{by} failed: {why}")),
    }
    if record.outcome == PurgeOutcome::Purged {
        let words = match record.verified {
            Verified::Yes => "yes",
            Verified::No => "no: old data is still readable",
            Verified::Unknown => "unknown",
        };
        line("verified", words);
    }
    for lifted in &record.lifted {
        line("destroyed", &format!("despite: {lifted}"));
    }
    for evidence in &record.evidence {
        line("seen", evidence);
    }
    text
}
