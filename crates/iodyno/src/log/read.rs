//! `log subscribe`, `log replay` and `log query`: print the messages that a server has persisted.

use super::client::{connect, failure};
use super::print::Printer;
use super::read_target;
use crate::args::{LogQuery, LogRead, LogReplay};
use crate::console::complain;
use crate::failure::Failure;
use iodyno_msglog::client::unexpected;
use iodyno_msglog::protocol::{End, Reply, Start};
use iodyno_units::human::counted;
use std::process::ExitCode;

pub(super) fn subscribe(flags: &LogRead) -> Result<ExitCode, Failure> {
    let end = flags.until.map_or(End::Never, End::Message);
    read(flags, start(flags.from.as_deref().unwrap_or("now"))?, end)
}

pub(super) fn replay(flags: &LogReplay) -> Result<ExitCode, Failure> {
    let start = start(flags.read.from.as_deref().unwrap_or("oldest"))?;
    if let Some(target) = &flags.on {
        return read_target::replay(target, &flags.read, start);
    }
    read(&flags.read, start, flags.read.until.map_or(End::Now, End::Message))
}

fn start(text: &str) -> Result<Start, Failure> {
    if let Ok(number) = text.parse() {
        return Ok(Start::Message(number));
    }
    match text {
        "now" => Ok(Start::Now),
        "oldest" => Ok(Start::Oldest),
        _ => {
            let time: jiff::Timestamp = text.parse().map_err(|e| {
                Failure::input(format!(
                    "--from {text}: {e}: use now, oldest, the number of a message, or a time such as 2026-11-23T08:00:00Z"
                ))
            })?;
            // Messages have times from 1970 on.
            let time_ns = u64::try_from(time.as_nanosecond().max(0));
            time_ns.map(Start::TimeNs).map_err(|_| {
                Failure::input(format!("--from {text}: a message's time is before the year 2554"))
            })
        }
    }
}

fn read(flags: &LogRead, start: Start, end: End) -> Result<ExitCode, Failure> {
    let mut connection = connect(&flags.client)?;
    let (topic, filter) = (flags.topic.as_deref(), flags.filter.as_deref());
    connection
        .read(start, end, topic.unwrap_or_default(), filter.unwrap_or_default())
        .map_err(failure)?;
    let mut printer = Printer::new(flags.output);
    let mut left = flags.count.unwrap_or(u64::MAX);
    while left > 0 && !printer.is_gone {
        left -= connection.put_received(&mut printer.lines, left).map_err(failure)?;
        printer.flush_if_full()?;
        if left == 0 || printer.is_gone {
            break;
        }
        if !connection.has_reply() {
            printer.flush()?;
        }
        match connection.reply().map_err(failure)? {
            Reply::Message { number, message } => {
                printer.lines.put(number, &message);
                left -= 1;
            }
            Reply::StreamEnd { next } => {
                printer.flush()?;
                complain(&format!("the next message is {next}\n"));
                break;
            }
            other => return Err(failure(unexpected(&other))),
        }
    }
    printer.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn query(flags: &LogQuery) -> Result<ExitCode, Failure> {
    let mut connection = connect(&flags.client)?;
    let (topic, filter) = (flags.topic.as_deref(), flags.filter.as_deref());
    let next =
        connection.query(topic.unwrap_or_default(), filter.unwrap_or_default()).map_err(failure)?;
    let mut printer = Printer::new(flags.output);
    loop {
        connection.put_received(&mut printer.lines, u64::MAX).map_err(failure)?;
        printer.flush_if_full()?;
        match connection.reply().map_err(failure)? {
            Reply::Value { number, message } => printer.lines.put(number, &message),
            Reply::SnapshotEnd { count } => {
                printer.flush()?;
                let values = counted(count, "value");
                complain(&format!(
                    "{values}; `iodyno log subscribe --from {next}` continues from here\n"
                ));
                return Ok(ExitCode::SUCCESS);
            }
            other => return Err(failure(unexpected(&other))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time that no message can have is an error; it must not select all messages.
    #[test]
    fn a_start_beyond_all_times_of_messages_is_refused() {
        let ns = |text: &str| match start(text) {
            Ok(Start::TimeNs(ns)) => Some(ns),
            _ => None,
        };
        assert_eq!(ns("1969-07-20T20:17:40Z"), Some(0));
        assert_eq!(ns("1970-01-01T00:00:01Z"), Some(1_000_000_000));
        assert!(ns("2554-01-01T00:00:00Z").is_some());
        for text in ["2555-01-01T00:00:00Z", "9999-12-30T00:00:00Z"] {
            assert_eq!(ns(text), None, "{text}");
            assert!(start(text).is_err(), "{text}");
        }
    }
}
