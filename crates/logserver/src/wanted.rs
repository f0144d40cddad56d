//! What a client requested: which messages or values, and where a stream of them begins and ends.

use crate::memory::Charge;
use iodyno_msglog::filter::FILTER_MEMORY_FACTOR;
use iodyno_msglog::protocol::{End, ErrorCode, ServerError, Start};
use iodyno_msglog::{Effort, Filter, Message};

/// Bytes that a connection's filter, and its waiting requests, each may have without a charge.
pub(crate) const FREE_BYTES: usize = 16 << 10;
/// Steps that a filter may take for one message.
const MESSAGE_STEPS: u64 = 64 << 20;

/// Which messages or values a client wants, as it was received.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Empty for all.
    topic: Box<str>,
    /// Empty for all.
    filter: Box<str>,
    _charge: Option<Charge>,
}

impl Selection {
    pub(crate) fn new(topic: &str, filter: &str, charge: Option<Charge>) -> Self {
        Self { topic: topic.into(), filter: filter.into(), _charge: charge }
    }

    /// Bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        self.topic.len() + self.filter.len()
    }

    /// Memory that it takes once its filter is parsed, at most, beyond what is free.
    pub(crate) fn parsed_bytes(&self) -> usize {
        (self.filter.len() * FILTER_MEMORY_FACTOR).saturating_sub(FREE_BYTES)
    }

    /// Parses the filter, in memory that was taken for that.
    pub(crate) fn parse(self, mut charge: Charge) -> Result<Wanted, ServerError> {
        let is_any = !self.filter.is_empty();
        let filter = is_any.then(|| Filter::parse(&self.filter)).transpose();
        let filter = filter.map_err(|e| ServerError::new(ErrorCode::Filter, 0, e.to_string()))?;
        let parsed_bytes = filter.as_ref().map_or(0, Filter::memory_bytes);
        // It only becomes less.
        charge.resize(parsed_bytes.saturating_sub(FREE_BYTES).min(charge.bytes()));
        Ok(Wanted { topic: self.topic, filter, _charge: charge })
    }
}

/// Which messages or values a client wants.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Empty for all.
    topic: Box<str>,
    filter: Option<Filter>,
    _charge: Charge,
}

impl Wanted {
    /// Whether the topic alone decides: most streams have no filter.
    #[inline]
    pub(crate) const fn is_by_topic(&self) -> bool {
        self.filter.is_none()
    }

    /// Whether it takes a message, and the steps that it took to find out are added.
    pub(crate) fn matches(
        &self,
        number: u64,
        message: &Message<'_>,
        steps: &mut u64,
    ) -> Result<bool, ServerError> {
        if !self.takes_topic(message.topic) {
            return Ok(false);
        }
        let Some(filter) = &self.filter else { return Ok(true) };
        let effort = Effort::new(MESSAGE_STEPS);
        let result = filter.matches_within(number, message, &effort);
        *steps += MESSAGE_STEPS - effort.left();
        result.map_err(|e| {
            ServerError::new(ErrorCode::Filter, number, format!("message {number}: {e}"))
        })
    }

    #[inline]
    pub(crate) fn takes_topic(&self, topic: &str) -> bool {
        self.topic.is_empty() || *self.topic == *topic
    }
}

/// A stream as it was requested.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) start: Start,
    pub(crate) end: End,
    pub(crate) wanted: Wanted,
}
