//! `log check`: checks a log on a target, and reports damage.

use super::create::words;
use crate::args::LogCheck;
use crate::console::{print, print_json};
use crate::failure::Failure;
use iodyno_logserver::storage::{self, Purpose};
use iodyno_logserver::{Found, open_log};
use iodyno_msglog::OpenError;
use iodyno_targets::TargetName;
use iodyno_units::human::{self, counted};
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Exit code for a damaged log.
pub(super) const DAMAGED: u8 = 4;

pub(super) fn command(flags: &LogCheck) -> Result<ExitCode, Failure> {
    let target = &flags.target;
    let opened = storage::open(target, &Purpose::Read)?;
    let found = open_log(&opened.storage).map_err(|e| cannot_open(target, &e))?;
    let is_damaged = !found.recovered.damages.is_empty() || !found.lost_descriptions.is_empty();
    let code = if is_damaged { ExitCode::from(DAMAGED) } else { ExitCode::SUCCESS };
    if flags.json {
        print_json(&document(target, &found))?;
    } else {
        let mut text = words(target, &found.recovered.layout) + "\n";
        describe(&mut text, &found);
        print(&text)?;
    }
    Ok(code)
}

/// Creates the failure for a target that does not contain a readable log.
pub(super) fn cannot_open(target: &TargetName, error: &OpenError) -> Failure {
    let text = format!("{target}: {error}");
    match error {
        OpenError::NoLog => {
            Failure::input(format!("{text}; `iodyno log create {target}` makes one"))
        }
        OpenError::Read { .. } => Failure::target(format!(
            "{text}; try again once it can be read, or restore the log from a copy"
        )),
        OpenError::Truncated { .. } | OpenError::Flush(_) => Failure::target(text),
    }
}

/// Appends a description of what recovery found in the log, as lines.
pub(super) fn describe(text: &mut String, found: &Found) {
    let recovered = &found.recovered;
    let tail = &recovered.tail;
    let messages = match found.first_message {
        None => "no messages".to_owned(),
        Some(first) if recovered.messages == 1 => format!("1 message: {first}"),
        Some(first) => {
            let count = counted(recovered.messages, "message");
            let last = tail.next_message.saturating_sub(1);
            format!("{count}: {first} to {last}")
        }
    };
    let chunks = counted(recovered.chunks, "chunk");
    let _ = writeln!(text, "holds   {messages}; {} in {chunks}", held(found));
    let _ = writeln!(
        text,
        "state   {} ({}), {}",
        counted(recovered.state.len() as u64, "current value"),
        human::size(recovered.state.value_bytes()),
        counted(recovered.state.publishers().count() as u64, "publisher")
    );
    let at = recovered.layout.offset_bytes(tail.position);
    let _ =
        write!(text, "end     at byte {at} of the target (position {} of the log)", tail.position);
    match &recovered.cut {
        Some(why) => {
            let _ = writeln!(text, ": {why}; that chunk was never acknowledged, and is discarded");
        }
        None => text.push('\n'),
    }
    for offset in &found.lost_descriptions {
        let _ = writeln!(
            text,
            "damage  at byte {offset} of the target: this copy of the log's description is lost"
        );
    }
    for damage in &recovered.damages {
        let _ = writeln!(text, "damage  {damage}");
    }
}

fn held(found: &Found) -> String {
    let recovered = &found.recovered;
    let start = recovered.layout.segment_start(recovered.tail.oldest_segment);
    human::size(recovered.tail.position.saturating_sub(start))
}

fn document(target: &TargetName, found: &Found) -> serde_json::Value {
    let recovered = &found.recovered;
    let (layout, tail) = (&recovered.layout, &recovered.tail);
    let damages = recovered.damages.iter().map(|damage| {
        json!({
            "offset_bytes": damage.offset_bytes,
            "position_bytes": damage.position,
            "length_bytes": damage.length_bytes,
            "first_missing": damage.messages.map(|(first, _)| first),
            "missing": damage.messages.map(|(first, end)| end.saturating_sub(first)),
            "what": damage.what.to_string(),
        })
    });
    json!({
        "schema": 1,
        "target": target.to_string(),
        "log": format!("{:016x}", layout.log_id),
        "capacity_bytes": layout.capacity_bytes,
        "segment_bytes": layout.segment_bytes,
        "chunk_bytes": layout.chunk_bytes,
        "block_bytes": layout.align_bytes,
        "messages": recovered.messages,
        "first_message": found.first_message,
        "next_message": tail.next_message,
        "chunks": recovered.chunks,
        "values": recovered.state.len(),
        "publishers": recovered.state.publishers().count(),
        "end_position_bytes": tail.position,
        "end_offset_bytes": layout.offset_bytes(tail.position),
        "cut": recovered.cut.as_ref().map(ToString::to_string),
        "lost_descriptions": found.lost_descriptions,
        "damages": damages.collect::<Vec<_>>(),
    })
}
