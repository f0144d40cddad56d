//! What a connection sends: one thread sends acknowledgements, streams and snapshots, and alone waits for the client to take
//! them. What they answer is received in `receive.rs`.

use crate::shared::{Core, Ending, Shared, Task, wait};
use crate::snapshot::Snapshot;
use crate::stream::{Cursor, Progress};
use iodyno_msglog::protocol::{ErrorCode, Reply, ServerError};
use iodyno_nbd::stream::Stream;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// What the writer does next.
enum Work<'a> {
    Cursor(Box<Cursor<'a>>),
    Snapshot(Snapshot),
}

/// Sends what the client is owed, until the connection ends.
pub(crate) fn run(core: &Core, id: u64, stream: &Stream) {
    let storage = Arc::clone(&core.storage);
    let mut work: Option<Work<'_>> = None;
    let mut out = Vec::new();
    let bytes_max = core.limits.send_bytes;
    let mut error = None;
    loop {
        out.clear();
        if out.capacity() > 2 * bytes_max {
            out.shrink_to(bytes_max);
        }
        // What is owed at once.
        let mut guard = core.lock();
        let shared = &mut *guard;
        let persisted = shared.log.persisted();
        let is_broken = shared.log.is_broken() || shared.failure.is_some();
        let Some(inbox) = shared.connections.get_mut(&id) else { return };
        if let Some(sequence) = inbox.take_acknowledged(persisted) {
            Reply::Persisted { sequence }.encode(&mut out);
        }
        while let Some(Task::Frame(_)) = inbox.tasks.front()
            && let Some(Task::Frame(frame)) = inbox.tasks.pop_front()
        {
            out.extend_from_slice(&frame);
        }
        let waits_for_acks = !inbox.acks.is_empty() && !is_broken;
        match inbox.ending.clone() {
            Some(Ending::Gone) => break,
            Some(Ending::Error(_)) if waits_for_acks => {}
            Some(Ending::Error(found)) => error = Some(found),
            _ if !inbox.acks.is_empty() && is_broken => {
                let why = shared.failure.clone().unwrap_or_default();
                let words = format!("nothing more can be persisted: {why}");
                error = Some(ServerError::new(ErrorCode::Broken, 0, words));
            }
            Some(Ending::NoMoreRequests) if matches!(&work, Some(Work::Cursor(cursor)) if !cursor.is_bounded()) =>
            {
                work = None;
            }
            _ => {}
        }
        if error.is_none() && !matches!(inbox.ending, Some(Ending::Error(_))) {
            let taken = if work.is_none() { inbox.tasks.pop_front() } else { None };
            let is_refused = work.is_some()
                && matches!(inbox.tasks.front(), Some(Task::Read(_) | Task::Query(_)));
            if is_refused && matches!(&work, Some(Work::Cursor(cursor)) if !cursor.is_bounded()) {
                let words = "a subscription runs on this connection: use another one";
                error = Some(ServerError::new(ErrorCode::Busy, 0, words));
            }
            if work.is_some() && matches!(inbox.tasks.front(), Some(Task::Status)) {
                inbox.tasks.pop_front();
                let json = status(core, shared);
                Reply::Status { json: &json }.encode(&mut out);
            }
            match taken {
                Some(Task::Read(order)) => match Cursor::open(&storage, shared, order) {
                    Ok(cursor) => {
                        Reply::Stream { first: cursor.next() }.encode(&mut out);
                        work = Some(Work::Cursor(Box::new(cursor)));
                    }
                    Err(found) => error = Some(found),
                },
                Some(Task::Query(wanted)) => {
                    let snapshot = Snapshot::take(shared, wanted);
                    Reply::Snapshot { next: snapshot.next }.encode(&mut out);
                    work = Some(Work::Snapshot(snapshot));
                }
                Some(Task::Status) => {
                    let json = status(core, shared);
                    Reply::Status { json: &json }.encode(&mut out);
                }
                Some(Task::Frame(frame)) => out.extend_from_slice(&frame),
                None => {}
            }
        }
        drop(guard);

        // What the stream or the snapshot has.
        let mut is_up_to_date = true;
        if error.is_none() {
            match &mut work {
                Some(Work::Cursor(cursor)) => match cursor.advance(core, &mut out, bytes_max) {
                    Ok(Progress::More) => is_up_to_date = false,
                    Ok(Progress::UpToDate) => {}
                    Ok(Progress::Ended) => {
                        Reply::StreamEnd { next: cursor.next() }.encode(&mut out);
                        work = None;
                        is_up_to_date = false;
                    }
                    Err(found) => error = Some(found),
                },
                Some(Work::Snapshot(snapshot)) => {
                    is_up_to_date = false;
                    if !snapshot.advance(&mut out, bytes_max) {
                        Reply::SnapshotEnd { count: snapshot.count }.encode(&mut out);
                        work = None;
                    }
                }
                None => {}
            }
        }
        if let Some(error) = &error {
            error.as_reply().encode(&mut out);
        }
        let sent = match &error {
            Some(_) => stream.send(&out, Some(Instant::now() + core.limits.handshake)),
            None => stream.send_unless_stalled(&out, core.limits.stall),
        };
        if sent.is_err() {
            break;
        }
        if error.is_some() {
            break;
        }
        if !is_up_to_date || !out.is_empty() {
            continue;
        }
        if wait_for_work(core, id, work.as_ref()) {
            break;
        }
    }
    stream.end_sending();
    if error.is_some() {
        stream.linger(core.limits.linger);
    }
}

/// Waits until there is something to send. True: there never will be.
fn wait_for_work(core: &Core, id: u64, work: Option<&Work<'_>>) -> bool {
    let mut guard = core.lock();
    loop {
        let shared = &mut *guard;
        let (persisted, durable) = (shared.log.persisted(), shared.log.durable_position());
        let is_broken = shared.log.is_broken() || shared.failure.is_some();
        let Some(inbox) = shared.connections.get_mut(&id) else { return true };
        let follows_stream = match work {
            Some(Work::Cursor(cursor)) if cursor.position() < durable => return false,
            Some(Work::Cursor(cursor)) => cursor.is_bounded() || inbox.ending.is_none(),
            _ => false,
        };
        let has_due = inbox.acks.front().is_some_and(|(number, _)| *number < persisted);
        let has_failed = is_broken && !inbox.acks.is_empty();
        if has_due || has_failed {
            return false;
        }
        let has_task = match inbox.tasks.front() {
            None => false,
            Some(Task::Frame(_) | Task::Status) => true,
            Some(Task::Read(_) | Task::Query(_)) => {
                work.is_none() || matches!(work, Some(Work::Cursor(it)) if !it.is_bounded())
            }
        };
        if has_task && !matches!(inbox.ending, Some(Ending::Error(_))) {
            return false;
        }
        match &inbox.ending {
            Some(Ending::Gone) => return true,
            Some(Ending::Error(_)) if inbox.acks.is_empty() => return false,
            Some(Ending::NoMoreRequests) if inbox.acks.is_empty() && !follows_stream => {
                return true;
            }
            _ => {}
        }
        inbox.follows = !inbox.acks.is_empty() || follows_stream;
        let wake = Arc::clone(&inbox.wake);
        guard = wait(&wake, guard);
        if let Some(inbox) = guard.connections.get_mut(&id) {
            inbox.follows = false;
        }
    }
}

/// The server's state, as JSON.
fn status(core: &Core, shared: &Shared) -> String {
    let log = &shared.log;
    json!({
        "log": format!("{:016x}", core.layout.log_id),
        "durability": core.durability.name(),
        "next_message": log.next_message(),
        "persisted_next_message": log.persisted(),
        "position_bytes": log.durable_position(),
        "oldest_position_bytes": log.oldest_position(),
        "capacity_bytes": core.layout.slots() * core.layout.segment_bytes,
        "segment_bytes": core.layout.segment_bytes,
        "chunk_bytes": core.layout.chunk_bytes,
        "chunks_waiting": log.chunks_waiting(),
        "values": log.state().len(),
        "value_bytes": log.state().value_bytes(),
        "publishers": shared.publishers.len(),
        "connections": shared.connections.len(),
        "damages": core.damages.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "failure": shared.failure,
    })
    .to_string()
}
