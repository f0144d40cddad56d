//! A snapshot of the current values: taken at once under the lock, a reference for each leaf, and encoded piece by piece.

use crate::shared::Shared;
use crate::wanted::Wanted;
use iodyno_msglog::protocol::Reply;
use iodyno_msglog::state::Leaf;
use iodyno_msglog::{Message, MessageKind};

/// A topic, and its values.
type Topic = (Box<str>, Vec<Leaf>);

/// See the file.
pub(crate) struct Snapshot {
    /// All messages below this number are in it.
    pub(crate) next: u64,
    topics: Vec<Topic>,
    wanted: Wanted,
    /// The next value: of which topic, in which leaf, and which of that.
    topic: usize,
    leaf: usize,
    value: usize,
    pub(crate) count: u64,
}

impl Snapshot {
    pub(crate) fn take(shared: &Shared, wanted: Wanted) -> Self {
        let state = shared.log.state();
        let topics = state
            .topics()
            .filter(|topic| wanted.takes_topic(topic))
            .map(|topic| (topic.into(), state.leaves(topic).cloned().collect()));
        Self {
            next: shared.log.persisted(),
            topics: topics.collect(),
            wanted,
            topic: 0,
            leaf: 0,
            value: 0,
            count: 0,
        }
    }

    /// Encodes values, until about `bytes_max` are there. False: all of them were encoded.
    pub(crate) fn advance(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> bool {
        while let Some((topic, leaves)) = self.topics.get(self.topic) {
            let Some(leaf) = leaves.get(self.leaf) else {
                (self.topic, self.leaf) = (self.topic + 1, 0);
                continue;
            };
            for (key, value) in leaf.iter().skip(self.value) {
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
            (self.leaf, self.value) = (self.leaf + 1, 0);
        }
        false
    }
}
