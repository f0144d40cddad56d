//! The State of the World: the current value by topic and key, and the publishers with their last sequences. Kept from
//! the log's records; nothing else changes it, so a rebuild from the log gives the same. Values are kept in `state/values.rs`.

mod values;

pub use values::Leaf;

use crate::message::{Message, MessageKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use values::Values;

/// The current value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Number of its message.
    pub number: u64,
    /// When it was published, ns since 1970.
    pub time_ns: u64,
    /// Its content.
    pub body: Arc<[u8]>,
    /// Segment of the latest record that holds it.
    segment: u64,
}

/// A publisher that the log knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    /// Its name. Empty where the record with it is damaged.
    pub name: Box<str>,
    /// Sequence of its last persisted message; 0 before the first.
    pub sequence: u64,
    /// Segment of the latest record with its name, and of the latest with its sequence: a message has only this.
    segments: [u64; 2],
}

/// See the file.
#[derive(Clone, Debug, Default)]
pub struct State {
    topics: BTreeMap<Box<str>, Values>,
    publishers: HashMap<u64, Publisher>,
    value_bytes: u64,
    superseded_bytes: u64,
}

/// What was there before does not count.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let Self { topics, publishers, value_bytes, superseded_bytes: _ } = self;
        (topics, publishers, value_bytes) == (&other.topics, &other.publishers, &other.value_bytes)
    }
}

impl Eq for State {}

/// Bytes that a value takes in the log, once more: see [`State::value_bytes`].
fn stored_bytes(topic: &str, key: &[u8], body: &[u8]) -> u64 {
    (crate::message::RECORD_HEADER_BYTES + topic.len() + key.len() + body.len()) as u64
}

impl State {
    /// Takes a record of the log in, in the log's order. `number` is that of a message, and not looked at for others.
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
        // Its name may follow: it was carried behind messages that were in flight.
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

    /// The current value of a key.
    pub fn get(&self, topic: &str, key: &[u8]) -> Option<&Value> {
        self.topics.get(topic)?.get(key)
    }

    /// Topics that have values, in their order.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.topics.keys().map(AsRef::as_ref)
    }

    /// Values of a topic, in the order of their keys.
    pub fn values(&self, topic: &str) -> impl Iterator<Item = (&[u8], &Value)> {
        let values = self.topics.get(topic).into_iter().flat_map(Values::iter);
        values.map(|(key, value)| (key.as_ref(), value))
    }

    /// The same in leaves that can be kept: what is changed later is changed in copies of them.
    pub fn leaves(&self, topic: &str) -> impl Iterator<Item = &Leaf> {
        self.topics.get(topic).into_iter().flat_map(Values::leaves)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.topics.values().map(Values::len).sum()
    }

    /// No key has a value.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Bytes of the log that hold current values: they are kept however old they are. Records of publishers are not in it;
    /// the log's server limits them to a quarter of a segment.
    pub fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    /// Bytes of values that others took the place of, and of leaves that were copied for that, since this was made: never less than
    /// before. Leaves that were kept at some time hold no more memory of their own than what has been added since.
    pub fn superseded_bytes(&self) -> u64 {
        self.superseded_bytes
    }

    /// A publisher by its number.
    pub fn publisher(&self, number: u64) -> Option<&Publisher> {
        self.publishers.get(&number)
    }

    /// All publishers with their numbers, in no order.
    pub fn publishers(&self) -> impl Iterator<Item = (u64, &Publisher)> {
        self.publishers.iter().map(|(&number, publisher)| (number, publisher))
    }

    /// What only `segment` holds, as records for a later one: values, but those of keys in `changing`, of which a later record
    /// exists that is not persisted yet; and publishers.
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
        // In the order of the log, so that they need no more chunks than there.
        let mut records: Vec<_> = values.collect();
        records.sort_unstable_by_key(|record| record.sequence);
        records.extend(publishers);
        records
    }
}

/// A record that owns its bytes.
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
    /// As it is appended.
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
