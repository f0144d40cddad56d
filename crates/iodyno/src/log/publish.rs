//! `log publish`.

use super::client::{Dialer, failure};
use crate::args::LogPublish;
use crate::failure::Failure;
use crate::{complain, signals};
use iodyno_msglog::MessageKind;
use iodyno_msglog::client::{AtLimit, Publisher, PublisherOptions};
use std::io::{BufRead as _, Read as _};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The longest line, bytes: no chunk holds more.
const LINE_BYTES_MAX: u64 = 16 << 20;

pub(super) fn command(flags: &LogPublish) -> Result<ExitCode, Failure> {
    let dialer = Dialer::new(&flags.client)?;
    let options = PublisherOptions {
        name: flags.name.clone().unwrap_or_default(),
        token: dialer.token.clone(),
        held_bytes_max: flags.hold.try_into().unwrap_or(usize::MAX),
        at_limit: if flags.drop { AtLimit::Drop } else { AtLimit::Block },
        patience: Duration::from_nanos(flags.patience),
    };
    let mut publisher = Publisher::open(|| dialer.dial(), options).map_err(failure)?;
    let mut skip = if flags.resume { publisher.persisted() } else { 0 };
    let mut published = 0_u64;
    let mut publish = |line: &[u8]| -> Result<(), Failure> {
        if skip > 0 {
            skip -= 1;
            return Ok(());
        }
        let (kind, key, body) = if flags.delete {
            (MessageKind::Delete, line, &[][..])
        } else if flags.keyed {
            let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(|| {
                let line = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
                Failure::input(format!("--keyed: there is no tab behind a key in `{line}`"))
            })?;
            (MessageKind::Publish, &line[..tab], &line[tab + 1..])
        } else {
            (MessageKind::Publish, flags.key.as_deref().unwrap_or_default().as_bytes(), line)
        };
        let sequence = publisher.publish(kind, &flags.topic, key, body).map_err(failure)?;
        published += u64::from(sequence.is_some());
        Ok(())
    };
    if flags.messages.is_empty() {
        lines(&mut publish)?;
    } else {
        for message in &flags.messages {
            publish(message.as_bytes())?;
        }
    }
    publisher.finish().map_err(failure)?;
    let mut text = format!("{published} messages are persisted");
    if flags.name.is_some() {
        text += &format!("; the publisher's last is {}", publisher.persisted());
    }
    if publisher.dropped() > 0 {
        text += &format!("; {} were dropped at the limit of --hold", publisher.dropped());
    }
    if publisher.reconnects() > 0 {
        text += &format!("; the connection was made again {} times", publisher.reconnects());
    }
    complain(&(text + "\n"));
    Ok(ExitCode::SUCCESS)
}

/// The lines of standard input, without their ends; until a signal comes.
fn lines(publish: &mut impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
    let stop = signals::stop_flag();
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    let read = |e: std::io::Error| Failure::input(format!("standard input: {e}"));
    while !stop.load(Ordering::Relaxed) {
        line.clear();
        let mut limited = input.by_ref().take(LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut line).map_err(read)? == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        publish(&line)?;
    }
    Ok(())
}
