//! A snapshot of the current values: taken at once under the lock, by reference, and encoded piece by piece.

use crate::shared::Shared;
use crate::wanted::Wanted;
use iodyno_msglog::protocol::Reply;
use iodyno_msglog::state::Value;
use iodyno_msglog::{Message, MessageKind};
use std::sync::Arc;

/// A topic, and its keys with their values.
type Topic = (Box<str>, Vec<(Arc<[u8]>, Value)>);

/// See the file.
pub(crate) struct Snapshot {
    /// All messages below this number are in it.
    pub(crate) next: u64,
    topics: Vec<Topic>,
    wanted: Wanted,
    topic: usize,
    value: usize,
    pub(crate) count: u64,
}

impl Snapshot {
    pub(crate) fn take(shared: &Shared, wanted: Wanted) -> Self {
        let state = shared.log.state();
        let topics = state.topics().filter(|topic| wanted.takes_topic(topic)).map(|topic| {
            let values = state.shared_values(topic);
            (topic.into(), values.map(|(key, value)| (Arc::clone(key), value.clone())).collect())
        });
        Self {
            next: shared.log.persisted(),
            topics: topics.collect(),
            wanted,
            topic: 0,
            value: 0,
            count: 0,
        }
    }

    /// Encodes values, until about `bytes_max` are there. False: all of them were encoded.
    pub(crate) fn advance(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> bool {
        while let Some((topic, values)) = self.topics.get(self.topic) {
            for (key, value) in &values[self.value..] {
                if out.len() >= bytes_max {
                    return true;
                }
                self.value += 1;
                let message = Message {
                    kind: MessageKind::Publish,
                    publisher: 0,
                    sequence: 0,
                    time_ns: value.time_ns,
                    topic,
                    key,
                    body: &value.body,
                };
                if self.wanted.matches(value.number, &message) {
                    Reply::Value { number: value.number, message }.encode(out);
                    self.count += 1;
                }
            }
            self.topic += 1;
            self.value = 0;
        }
        false
    }
}
