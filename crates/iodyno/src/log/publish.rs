//! `log publish`: publishes messages from arguments, or the lines of standard input.

use super::client::{Dialer, failure};
use crate::args::LogPublish;
use crate::console::{complain, remark};
use crate::failure::Failure;
use iodyno_msglog::MessageKind;
use iodyno_msglog::client::{AtLimit, ClientError, Publisher, PublisherOptions};
use iodyno_msglog::protocol::ErrorCode;
use iodyno_units::human::{self, counted};
use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::Duration;

/// Maximum size of an input line, bytes: the maximum size of a chunk.
const LINE_BYTES_MAX: u64 = 16 << 20;

pub(super) fn command(flags: &LogPublish) -> Result<ExitCode, Failure> {
    let dialer = Dialer::new(&flags.client)?;
    let options = PublisherOptions {
        name: flags.name.clone().unwrap_or_default(),
        token: dialer.token.clone(),
        held_bytes_max: flags.hold.try_into().unwrap_or(usize::MAX),
        at_limit: if flags.drop { AtLimit::Drop } else { AtLimit::Block },
        patience: Duration::from_nanos(flags.patience),
        on_retry: |error| remark("note", &format!("{error}; trying again")),
    };
    let is_settled = Cell::new(true);
    // If the client has retried, the failure says for how long. It does not retry if the log is full.
    let failure = |error: ClientError| {
        is_settled.set(settles(&error));
        let is_full = matches!(&error, ClientError::Server(error) if error.code == ErrorCode::Full);
        let was_patient = error.may_pass() && !is_full;
        let failure = failure(error);
        if was_patient {
            let patience = human::duration_ns(flags.patience);
            failure.with(&format!("; tried for {patience} (--patience)"))
        } else {
            failure
        }
    };
    let mut publisher = Publisher::open(|| dialer.dial(), options).map_err(failure)?;
    let skip = Cell::new(if flags.resume { publisher.persisted() } else { 0 });
    let publish = |publisher: &mut Publisher<_, _>, line: &[u8]| -> Result<(), Failure> {
        if skip.get() > 0 {
            skip.update(|left| left - 1);
            return Ok(());
        }
        let (kind, key, body) = if flags.delete {
            (MessageKind::Delete, line, &[][..])
        } else if flags.keyed {
            let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(|| {
                let line = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
                Failure::input(format!("--keyed: no tab after the key in `{line}`"))
            })?;
            (MessageKind::Publish, &line[..tab], &line[tab + 1..])
        } else {
            (MessageKind::Publish, flags.key.as_deref().unwrap_or_default().as_bytes(), line)
        };
        publisher.publish(kind, &flags.topic, key, body).map_err(failure)?;
        Ok(())
    };
    let all = if flags.messages.is_empty() {
        lines(&mut publisher, publish, |publisher| publisher.flush().map_err(failure))
    } else {
        flags.messages.iter().try_for_each(|message| publish(&mut publisher, message.as_bytes()))
    };
    if let Err(failure) = all.and_then(|()| publisher.finish().map_err(failure)) {
        // The messages before a bad one are published all the same.
        let is_exact = match failure.is_of_input().then(|| publisher.finish()) {
            Some(finished) => finished.err().is_none_or(|error| settles(&error)),
            None => is_settled.get(),
        };
        let at_least = if is_exact { "" } else { "at least " };
        let persisted = persisted(publisher.acknowledged());
        return Err(failure.with(&format!("; {at_least}{persisted}")));
    }
    let mut text = persisted(publisher.acknowledged());
    if flags.name.is_some() {
        let _ = write!(text, "; the publisher's last message is {}", publisher.persisted());
    }
    if publisher.dropped() > 0 {
        let _ = write!(text, "; dropped at the limit of --hold: {}", publisher.dropped());
    }
    if publisher.reconnects() > 0 {
        let times = counted(publisher.reconnects(), "time");
        let _ = write!(text, "; reconnected {times}");
    }
    complain(&(text + "\n"));
    Ok(ExitCode::SUCCESS)
}

fn persisted(count: u64) -> String {
    let are = if count == 1 { "is" } else { "are" };
    format!("{} {are} persisted", counted(count, "message"))
}

/// Whether the server has acknowledged all persisted messages before this error. It does so before it reports an error,
/// unless its log has failed.
fn settles(error: &ClientError) -> bool {
    matches!(error, ClientError::Server(error) if error.code != ErrorCode::Broken)
}

/// Publishes each line of standard input, without its newline. Before it waits for more input, it sends the
/// messages read so far.
fn lines<P>(
    publisher: &mut P,
    publish: impl Fn(&mut P, &[u8]) -> Result<(), Failure>,
    flush: impl Fn(&mut P) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let read = |e: std::io::Error| Failure::input(format!("standard input: {e}"));
    let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(read)?;
    let mut input = BufReader::with_capacity(256 << 10, File::from(input));
    let mut line = Vec::new();
    loop {
        if !input.buffer().contains(&b'\n') {
            flush(publisher)?;
        }
        line.clear();
        let mut limited = input.by_ref().take(LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut line).map_err(read)? == 0 {
            return Ok(());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        publish(publisher, &line)?;
    }
}
