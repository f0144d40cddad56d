//! `log subscribe`, `log replay` and `log query`: what is persisted, printed.

use super::client::{connect, failure};
use crate::args::{LogOutput, LogQuery, LogRead};
use crate::complain;
use crate::failure::Failure;
use iodyno_msglog::client::unexpected;
use iodyno_msglog::protocol::{End, Reply, Start};
use iodyno_msglog::{Message, MessageKind};
use iodyno_units::text::clean;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Text that is gathered before it is printed, where more is there at once.
const OUTPUT_BYTES: usize = 64 << 10;

pub(super) fn subscribe(flags: &LogRead) -> Result<ExitCode, Failure> {
    let end = flags.until.map_or(End::Never, End::Message);
    read(flags, start(flags.from.as_deref().unwrap_or("now"))?, end)
}

pub(super) fn replay(flags: &LogRead) -> Result<ExitCode, Failure> {
    let end = flags.until.map_or(End::Now, End::Message);
    read(flags, start(flags.from.as_deref().unwrap_or("oldest"))?, end)
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
                    "--from {text}: {e}: write now, oldest, the number of a message, or a time such as 2026-11-23T08:00:00Z"
                ))
            })?;
            Ok(Start::TimeNs(u64::try_from(time.as_nanosecond()).unwrap_or(0)))
        }
    }
}

fn read(flags: &LogRead, start: Start, end: End) -> Result<ExitCode, Failure> {
    let mut connection = connect(&flags.client)?;
    let (topic, filter) = (flags.topic.as_deref(), flags.filter.as_deref());
    connection
        .read(start, end, topic.unwrap_or_default(), filter.unwrap_or_default())
        .map_err(failure)?;
    let mut printer = Printer { form: flags.output, text: Vec::new(), is_gone: false };
    let mut left = flags.count.unwrap_or(u64::MAX);
    while left > 0 && !printer.is_gone {
        if !connection.has_reply() {
            printer.flush()?;
        }
        match connection.reply().map_err(failure)? {
            Reply::Message { number, message } => {
                printer.put(number, &message)?;
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
    let mut printer = Printer { form: flags.output, text: Vec::new(), is_gone: false };
    loop {
        match connection.reply().map_err(failure)? {
            Reply::Value { number, message } => printer.put(number, &message)?,
            Reply::SnapshotEnd { count } => {
                printer.flush()?;
                complain(&format!(
                    "{count} values; `iodyno log subscribe --from {next}` gives what follows\n"
                ));
                return Ok(ExitCode::SUCCESS);
            }
            other => return Err(failure(unexpected(&other))),
        }
    }
}

/// Prints messages.
struct Printer {
    form: LogOutput,
    text: Vec<u8>,
    /// The reader of the output has closed it.
    is_gone: bool,
}

impl Printer {
    fn put(&mut self, number: u64, message: &Message<'_>) -> Result<(), Failure> {
        if self.form.bodies {
            self.text.extend_from_slice(message.body);
        } else if self.form.json {
            let document = json!({
                "number": number,
                "time_ns": message.time_ns,
                "publisher": message.publisher,
                "sequence": message.sequence,
                "kind": kind(message),
                "topic": message.topic,
                "key": value(message.key),
                "body": value(message.body),
            });
            self.text.extend_from_slice(document.to_string().as_bytes());
        } else {
            let time = i128::from(message.time_ns);
            let time = jiff::Timestamp::from_nanosecond(time)
                .map_or_else(|_| message.time_ns.to_string(), |time| format!("{time:.6}"));
            let key = String::from_utf8_lossy(message.key);
            let body = String::from_utf8_lossy(message.body);
            let mut line = format!("{number}\t{time}\t{}\t{}", clean(message.topic), clean(&key));
            match message.kind {
                MessageKind::Delete => line.push_str("\t(deleted)"),
                _ => {
                    let _ = write!(line, "\t{}", clean(&body));
                }
            }
            self.text.extend_from_slice(line.as_bytes());
        }
        self.text.push(b'\n');
        if self.text.len() >= OUTPUT_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let written = out.write_all(&self.text).and_then(|()| out.flush());
        self.text.clear();
        match written {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.is_gone = true;
                Ok(())
            }
            Err(e) => Err(Failure::output("standard output", &e)),
            Ok(()) => Ok(()),
        }
    }
}

fn kind(message: &Message<'_>) -> &'static str {
    if message.kind == MessageKind::Delete { "delete" } else { "publish" }
}

/// Text as it is; other bytes as hexadecimal digits in an object.
fn value(bytes: &[u8]) -> serde_json::Value {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return json!(text);
    }
    let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    json!({ "hex": hex })
}
