//! Reads the whole log on a target, before serving or checking it.

use crate::read_ahead::ReadingThreads;
use iodyno_msglog::recovery::{lost_descriptions, recover_ahead};
use iodyno_msglog::{Layout, OpenError, Recovered, Storage};
use std::sync::Arc;

/// Result of reading the whole log on a target.
#[derive(Debug)]
pub struct Found {
    /// End, state and damage of the log.
    pub recovered: Recovered,
    /// Highest publisher number in any record of the log.
    pub publisher_max: u64,
    /// Message number of the oldest message still in the log; `None` if the log has no messages.
    pub first_message: Option<u64>,
    /// Offsets of the damaged copies of the log's description, bytes from the start of the target. Either another
    /// program overwrote the copies, or the target lost them.
    pub lost_descriptions: Vec<u64>,
}

impl Found {
    /// Creates the result for a log that was just created.
    pub fn of_new(layout: Layout) -> Self {
        let recovered = Recovered::of_new(layout);
        Self { recovered, publisher_max: 0, first_message: None, lost_descriptions: Vec::new() }
    }
}

/// Reads the whole log on a target, to find the log's end, current values and publishers.
///
/// # Errors
/// The target does not contain a log, or I/O on the target fails.
pub fn open_log(storage: &Arc<dyn Storage>) -> Result<Found, OpenError> {
    let (mut publisher_max, mut first_message) = (0, None);
    let ahead = ReadingThreads::start(storage);
    let recovered = recover_ahead(&**storage, ahead, |chunk| {
        if chunk.header.messages > 0 {
            first_message.get_or_insert(chunk.header.first_message);
        }
        for record in chunk.records() {
            publisher_max = publisher_max.max(record.publisher);
        }
    })?;
    let lost_descriptions = lost_descriptions(&**storage, &recovered.layout)?;
    Ok(Found { recovered, publisher_max, first_message, lost_descriptions })
}
