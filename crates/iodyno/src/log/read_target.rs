//! `log replay --on`: prints the messages of a target's log, without a server.

use super::check::{DAMAGED, cannot_open};
use super::print::Printer;
use crate::args::LogRead;
use crate::console::{complain, remark};
use crate::failure::Failure;
use iodyno_logserver::ReadingThreads;
use iodyno_logserver::storage::{self, Purpose};
use iodyno_msglog::Filter;
use iodyno_msglog::lines::Selection;
use iodyno_msglog::protocol::Start;
use iodyno_msglog::recovery::{self, ReplayFrom};
use iodyno_targets::TargetName;
use std::ops::ControlFlow;
use std::process::ExitCode;

pub(super) fn replay(
    target: &TargetName,
    flags: &LogRead,
    start: Start,
) -> Result<ExitCode, Failure> {
    let from = match start {
        Start::Now => {
            return Err(Failure::input("--from now: no new messages arrive without a server"));
        }
        Start::Oldest => ReplayFrom::Message(0),
        Start::Message(number) => ReplayFrom::Message(number),
        Start::TimeNs(time_ns) => ReplayFrom::TimeNs(time_ns),
    };
    let filter = flags.filter.as_deref().map(Filter::parse).transpose();
    let mut selection = Selection {
        topic: flags.topic.clone().unwrap_or_default(),
        filter: filter.map_err(|e| Failure::input(e.to_string()))?,
        from: match from {
            ReplayFrom::Message(number) => (number, 0),
            ReplayFrom::TimeNs(time_ns) => (0, time_ns),
        },
        until: flags.until.unwrap_or(u64::MAX),
        left: flags.count.unwrap_or(u64::MAX),
        first: None,
        next: None,
    };
    let mut printer = Printer::new(flags.output);
    let opened = storage::open(target, &Purpose::Read)?;
    let ahead = ReadingThreads::start(&opened.storage);
    let mut printed = Ok(());
    // Whether the log was left before its end.
    let mut has_ended = false;
    let read = recovery::replay(&*opened.storage, ahead, from, &mut |chunk| {
        let goes_on = selection.put(chunk, &mut printer.lines);
        printed = printer.flush_if_full();
        let ends = !goes_on || printer.is_gone || printed.is_err();
        has_ended |= ends;
        if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let found = read.map_err(|e| cannot_open(target, &e))?;
    printed?;
    printer.flush()?;
    if let ReplayFrom::Message(number) = from
        && number > found.next_message
        && found.damages.is_empty()
        && !has_ended
    {
        return Err(Failure::input(format!(
            "message {number} does not exist yet: the next message is {}; check that the bookmark belongs to this log",
            found.next_message
        )));
    }
    if let (ReplayFrom::Message(number), Some(first)) = (from, selection.first)
        && first > number.max(1)
    {
        remark("note", &format!("the oldest message still kept is {first}"));
    }
    for damage in &found.damages {
        remark("warning", &format!("{target}: the log is damaged {damage}"));
    }
    complain(&format!("the next message is {}\n", selection.next.unwrap_or(found.next_message)));
    Ok(if found.damages.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}
