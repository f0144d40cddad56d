//! Parameters of a client's request: topic and filter of messages or values, and start and end of a stream.

use crate::memory::Charge;
use iodyno_msglog::filter::FILTER_MEMORY_FACTOR;
use iodyno_msglog::protocol::{End, ErrorCode, ServerError, Start};
use iodyno_msglog::{Effort, Filter, Message};

/// Memory that needs no reservation, bytes: this much for a connection's filter, and as much for its queued
/// requests.
pub(crate) const FREE_BYTES: usize = 16 << 10;
/// Maximum number of evaluation steps of a filter for one message.
const MESSAGE_STEPS: u64 = 64 << 20;

/// Topic and filter of a client's request, as text.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Topic to match exactly; empty: all topics.
    topic: Box<str>,
    /// Text of the filter; empty: no filter.
    filter: Box<str>,
    _charge: Option<Charge>,
}

impl Selection {
    pub(crate) fn new(topic: &str, filter: &str, charge: Option<Charge>) -> Self {
        Self { topic: topic.into(), filter: filter.into(), _charge: charge }
    }

    /// Total length of the topic and the filter, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.topic.len() + self.filter.len()
    }

    /// Memory to reserve for the parsed filter, bytes: an upper bound minus [`FREE_BYTES`].
    pub(crate) fn parsed_bytes(&self) -> usize {
        (self.filter.len() * FILTER_MEMORY_FACTOR).saturating_sub(FREE_BYTES)
    }

    /// Parses the filter. `charge` must be a reservation of at least [`Self::parsed_bytes`].
    pub(crate) fn parse(self, mut charge: Charge) -> Result<Wanted, ServerError> {
        let is_any = !self.filter.is_empty();
        let filter = is_any.then(|| Filter::parse(&self.filter)).transpose();
        let filter = filter.map_err(|e| ServerError::new(ErrorCode::Filter, 0, e.to_string()))?;
        let parsed_bytes = filter.as_ref().map_or(0, Filter::memory_bytes);
        // The parsed filter needs no more than was charged, usually less.
        charge.resize(parsed_bytes.saturating_sub(FREE_BYTES).min(charge.bytes()));
        Ok(Wanted { topic: self.topic, filter, _charge: charge })
    }
}

/// Topic and filter of a client's request, with the filter parsed.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Topic to match exactly; empty: all topics.
    topic: Box<str>,
    filter: Option<Filter>,
    _charge: Charge,
}

impl Wanted {
    /// Whether there is no filter, so that only the topic decides, as in most streams.
    #[inline]
    pub(crate) const fn is_by_topic(&self) -> bool {
        self.filter.is_none()
    }

    /// Whether a message matches topic and filter. Adds the number of evaluation steps to `steps`.
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

/// A client's request for a stream: its start, its end, and the selection of messages.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) start: Start,
    pub(crate) end: End,
    pub(crate) wanted: Wanted,
}
