//! The state of a log: the current values by topic and key, and the publishers with their last sequence numbers. It
//! depends on the log's records alone, so it can be rebuilt from the log. `state/values.rs` stores the values.

mod values;

pub use values::Leaf;

use crate::message::{Message, MessageKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use values::Values;

/// The current value of a key in a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Number of the message that set the value.
    pub number: u64,
    /// Publication time of the value's message, ns since 1970.
    pub time_ns: u64,
    /// Content of the value: the body of its message.
    pub body: Arc<[u8]>,
    /// Segment of the log with the latest record of this value.
    segment: u64,
}

/// Name and last sequence number of a publisher. With them, the log detects messages that are published twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    /// Name of the publisher; empty if the record with the name is damaged.
    pub name: Box<str>,
    /// Sequence number of the publisher's last persisted message; 0 if it has none.
    pub sequence: u64,
    /// Two segments: that of the latest record with the publisher's name, and that of the latest record with its
    /// sequence number.
    segments: [u64; 2],
}

/// State that the log's records define: the current values by topic and key, and the publishers.
#[derive(Clone, Debug, Default)]
pub struct State {
    topics: BTreeMap<Box<str>, Values>,
    publishers: HashMap<u64, Publisher>,
    value_bytes: u64,
    superseded_bytes: u64,
}

/// Compares values and publishers only; `superseded_bytes` is ignored.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let Self { topics, publishers, value_bytes, superseded_bytes: _ } = self;
        (topics, publishers, value_bytes) == (&other.topics, &other.publishers, &other.value_bytes)
    }
}

impl Eq for State {}

/// Length of a value's record in the log, bytes; see [`State::value_bytes`].
fn stored_bytes(topic: &str, key: &[u8], body: &[u8]) -> u64 {
    (crate::message::RECORD_HEADER_BYTES + topic.len() + key.len() + body.len()) as u64
}

impl State {
    /// Applies a record to the current values and publishers. Records must come in the log's order. `number` is
    /// the message's number, ignored for records that are not messages.
    pub fn apply(&mut self, record: &Message<'_>, number: u64, segment: u64) {
        match record.kind {
            MessageKind::Publish | MessageKind::CarriedValue if !record.key.is_empty() => {
                let number =
                    if record.kind == MessageKind::Publish { number } else { record.sequence };
                let value =
                    Value { number, time_ns: record.time_ns, body: record.body.into(), segment };
                self.value_bytes += stored_bytes(record.topic, record.key, record.body);
                if !self.topics.contains_key(record.topic) {
                    self.topics.insert(record.topic.into(), Values::default());
                }
                let Some(values) = self.topics.get_mut(record.topic) else { return };
                let old = values.insert(record.key, value, &mut self.superseded_bytes);
                if let Some(old) = old {
                    let old_bytes = stored_bytes(record.topic, record.key, &old.body);
                    self.value_bytes -= old_bytes;
                    self.superseded_bytes += old_bytes;
                }
            }
            MessageKind::Delete => self.remove(record.topic, record.key),
            MessageKind::Publish | MessageKind::CarriedValue | MessageKind::Publisher => {}
        }
        if record.publisher == 0 {
            return;
        }
        // The record with its name may come later, if it was carried after messages that were in flight.
        let publisher = self.publishers.entry(record.publisher).or_insert_with(|| Publisher {
            name: Box::default(),
            sequence: 0,
            segments: [segment; 2],
        });
        if record.kind == MessageKind::Publisher {
            publisher.name = String::from_utf8_lossy(record.key).into();
            publisher.segments[0] = segment;
        }
        if record.sequence >= publisher.sequence {
            (publisher.sequence, publisher.segments[1]) = (record.sequence, segment);
        }
    }

    fn remove(&mut self, topic: &str, key: &[u8]) {
        let Some(values) = self.topics.get_mut(topic) else { return };
        if let Some(old) = values.remove(key, &mut self.superseded_bytes) {
            let old_bytes = stored_bytes(topic, key, &old.body);
            self.value_bytes -= old_bytes;
            self.superseded_bytes += old_bytes;
        }
        if values.is_empty() {
            self.topics.remove(topic);
        }
    }

    pub fn get(&self, topic: &str, key: &[u8]) -> Option<&Value> {
        self.topics.get(topic)?.get(key)
    }

    /// Topics that have values, in alphabetical order.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.topics.keys().map(AsRef::as_ref)
    }

    /// Keys and current values of a topic, in the order of the keys.
    pub fn values(&self, topic: &str) -> impl Iterator<Item = (&[u8], &Value)> {
        let values = self.topics.get(topic).into_iter().flat_map(Values::iter);
        values.map(|(key, value)| (key.as_ref(), value))
    }

    /// Current values of a topic, in shared blocks that a snapshot may keep (copy-on-write).
    pub fn leaves(&self, topic: &str) -> impl Iterator<Item = &Leaf> {
        self.topics.get(topic).into_iter().flat_map(Values::leaves)
    }

    /// Number of current values, in all topics together.
    pub fn len(&self) -> usize {
        self.topics.values().map(Values::len).sum()
    }

    /// Whether no key has a value. Publishers do not count.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Space in the log that current values occupy, bytes. Current values are retained regardless of age. Records of
    /// publishers are not included; the log's server limits them to a quarter of a segment.
    pub fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    /// Total size of superseded values and of copied blocks (copy-on-write, see [`State::leaves`]) since this state was
    /// created, bytes. The increase since a snapshot is an upper bound of the extra memory that the snapshot occupies.
    pub fn superseded_bytes(&self) -> u64 {
        self.superseded_bytes
    }

    /// The publisher with this number; `None` if the log has no such publisher.
    pub fn publisher(&self, number: u64) -> Option<&Publisher> {
        self.publishers.get(&number)
    }

    /// All publishers with their numbers, in no particular order.
    pub fn publishers(&self) -> impl Iterator<Item = (u64, &Publisher)> {
        self.publishers.iter().map(|(&number, publisher)| (number, publisher))
    }

    /// Returns the values and publishers whose latest record is in `segment`, as records to be copied to a later
    /// segment. Keys for which `is_changing` returns true are omitted, because they have a newer record that is
    /// not yet persisted.
    pub fn carried_from(
        &self,
        segment: u64,
        is_changing: impl Fn(&str, &[u8]) -> bool,
    ) -> Vec<OwnedRecord> {
        let values = self
            .topics
            .iter()
            .flat_map(|(topic, values)| values.iter().map(move |(key, value)| (topic, key, value)));
        let values = values
            .filter(|(topic, key, value)| value.segment == segment && !is_changing(topic, key))
            .map(|(topic, key, value)| OwnedRecord {
                kind: MessageKind::CarriedValue,
                publisher: 0,
                sequence: value.number,
                time_ns: value.time_ns,
                topic: topic.clone(),
                key: key.clone(),
                body: value.body.clone(),
            });
        let publishers =
            self.publishers.iter().filter(|(_, it)| it.segments.contains(&segment)).map(
                |(&number, publisher)| OwnedRecord {
                    kind: MessageKind::Publisher,
                    publisher: number,
                    sequence: publisher.sequence,
                    time_ns: 0,
                    topic: Box::default(),
                    key: publisher.name.as_bytes().into(),
                    body: Arc::default(),
                },
            );
        // In the log's order, so that they need no more chunks than before.
        let mut records: Vec<_> = values.collect();
        records.sort_unstable_by_key(|record| record.sequence);
        records.extend(publishers);
        records
    }
}

/// A record that owns its content. [`Self::as_message`] borrows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    kind: MessageKind,
    publisher: u64,
    sequence: u64,
    time_ns: u64,
    topic: Box<str>,
    key: Arc<[u8]>,
    body: Arc<[u8]>,
}

impl OwnedRecord {
    /// Borrows the record as a message, to append it to the log.
    pub fn as_message(&self) -> Message<'_> {
        let Self { kind, publisher, sequence, time_ns, .. } = *self;
        Message {
            kind,
            publisher,
            sequence,
            time_ns,
            topic: &self.topic,
            key: &self.key,
            body: &self.body,
        }
    }
}
