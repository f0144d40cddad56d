//! What a client requested: which messages or values, and where a stream of them begins and ends.

use iodyno_msglog::protocol::{End, ErrorCode, ServerError, Start};
use iodyno_msglog::{Filter, Message};

/// Which messages or values a client wants.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Empty for all.
    topic: Box<str>,
    filter: Option<Filter>,
}

impl Wanted {
    pub(crate) fn new(topic: &str, filter: &str) -> Result<Self, ServerError> {
        let parsed = if filter.is_empty() { None } else { Some(Filter::parse(filter)) };
        let filter = parsed
            .transpose()
            .map_err(|error| ServerError::new(ErrorCode::Filter, 0, error.to_string()))?;
        Ok(Self { topic: topic.into(), filter })
    }

    pub(crate) fn matches(&self, number: u64, message: &Message<'_>) -> bool {
        self.takes_topic(message.topic)
            && self.filter.as_ref().is_none_or(|filter| filter.matches(number, message))
    }

    pub(crate) fn takes_topic(&self, topic: &str) -> bool {
        self.topic.is_empty() || *self.topic == *topic
    }
}

/// A stream as it was requested.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) start: Start,
    pub(crate) end: End,
    pub(crate) wanted: Wanted,
}
