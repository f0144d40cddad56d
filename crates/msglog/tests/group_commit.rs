//! Number of writes and flushes for a number of messages.

use iodyno_msglog::log::Tail;
use iodyno_msglog::{
    Action, CommitRule, Durability, Layout, Log, LogOptions, Message, MessageKind, State,
};

/// Appends a number of messages of 512 bytes at once, performs all operations, and counts writes and flushes.
fn carried_out(messages: u64, commit: CommitRule) -> (u64, u64) {
    let layout = Layout::new(1, 64 << 20, 1 << 20, 64 << 10, 4096).unwrap();
    let options = LogOptions { commit, ..LogOptions::default() };
    let mut log = Log::new(layout, options, Tail::empty(), State::default());
    for i in 0..messages {
        let body = [i as u8; 512];
        let message = Message {
            kind: MessageKind::Publish,
            publisher: 0,
            sequence: 0,
            time_ns: i,
            topic: "t",
            key: &[],
            body: &body,
        };
        log.append(&message, &mut || vec![0_u8; 64 << 10]).unwrap();
    }
    let (mut writes, mut flushes) = (0, 0);
    while let Some(action) = log.next_action() {
        match action {
            Action::Write { chunk, .. } => {
                writes += 1;
                log.written(chunk, true);
            }
            Action::Flush => {
                flushes += 1;
                log.flushed(true);
            }
        }
        while let Some(chunk) = log.next_persisted() {
            log.recycle(chunk.buffer);
        }
    }
    assert_eq!(log.persisted(), messages + 1, "all are persisted");
    (writes, flushes)
}

/// The last, partial chunk of a batch shares the flush of those before it; a group has a size limit; and with `Each`
/// each message has its own flush.
#[test]
fn a_batch_has_one_flush() {
    let rule = CommitRule::DEFAULT;
    // 120 records of 545 bytes fit into a chunk.
    assert_eq!(carried_out(1, rule), (1, 1));
    assert_eq!(carried_out(120, rule), (1, 1));
    assert_eq!(carried_out(128, rule), (2, 1));
    assert_eq!(carried_out(1024, rule), (9, 1));
    assert_eq!(carried_out(1024, CommitRule { chunks_max: 3, ..rule }), (9, 3));
    assert_eq!(carried_out(5, CommitRule { durability: Durability::Each, ..rule }), (5, 5));
    assert_eq!(carried_out(1024, CommitRule { durability: Durability::None, ..rule }), (9, 0));
    assert_eq!(carried_out(1024, CommitRule { fua: true, ..rule }), (9, 0));
}
