//! Formats messages as lines (as text, as JSON, or only their bodies), and selects which messages of a log to format.

use crate::chunk::Chunk;
use crate::filter::Filter;
use crate::message::{Message, MessageKind};
use iodyno_units::text::clean;
use std::io::Write as _;

/// Amount of text in the buffer from which the caller should print it, bytes.
const FULL_BYTES: usize = 64 << 10;
const SECOND_NS: u64 = 1_000_000_000;

/// Output format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineForm {
    /// One line per message: number, time, topic, key and body, separated by tabs.
    Text,
    /// One JSON object per message, with all its fields.
    Json,
    /// A line contains only the message's body, unchanged.
    Body,
}

/// Buffer of formatted lines to be printed.
#[derive(Debug)]
pub struct Lines {
    form: LineForm,
    text: Vec<u8>,
    /// Time of the last message, s since 1970, and its cached text. Most messages fall in the same second as the
    /// previous one.
    second: (u64, String),
}

impl Lines {
    /// Creates an empty buffer of lines in this format.
    pub fn new(form: LineForm) -> Self {
        Self { form, text: Vec::new(), second: (u64::MAX, String::new()) }
    }

    /// The lines formatted so far, for the caller to print.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Empties the buffer, after its lines have been printed.
    pub fn clear(&mut self) {
        self.text.clear();
    }

    /// Whether the buffer has so much text that it should be printed.
    pub fn is_full(&self) -> bool {
        self.text.len() >= FULL_BYTES
    }

    /// Appends a message in the format of this buffer.
    pub fn put(&mut self, number: u64, message: &Message<'_>) {
        match self.form {
            LineForm::Text => self.put_line(number, message),
            LineForm::Json => self.put_json(number, message),
            LineForm::Body => self.text.extend_from_slice(message.body),
        }
        self.text.push(b'\n');
    }

    fn put_line(&mut self, number: u64, message: &Message<'_>) {
        let second = message.time_ns / SECOND_NS;
        if second != self.second.0 {
            let time = jiff::Timestamp::from_second(second as i64);
            let words = time.map_or_else(|_| second.to_string(), |time| time.to_string());
            self.second = (second, words.trim_end_matches('Z').to_owned());
        }
        let micros = message.time_ns % SECOND_NS / 1000;
        // Writing to memory can't fail.
        let _ = write!(self.text, "{number}\t{}.{micros:06}Z\t", self.second.1);
        for field in [message.topic.as_bytes(), message.key] {
            self.put_text(field);
            self.text.push(b'\t');
        }
        match message.kind {
            MessageKind::Delete => self.text.extend_from_slice(b"(deleted)"),
            _ => self.put_text(message.body),
        }
    }

    fn put_text(&mut self, bytes: &[u8]) {
        // In most messages nothing is replaced.
        let text = String::from_utf8_lossy(bytes);
        self.text.extend_from_slice(clean(&text).as_bytes());
    }

    /// Appends a message as a JSON object, with keys in alphabetical order.
    fn put_json(&mut self, number: u64, message: &Message<'_>) {
        let kind = if message.kind == MessageKind::Delete { "delete" } else { "publish" };
        let Message { publisher, sequence, time_ns, .. } = *message;
        self.text.extend_from_slice(b"{\"body\":");
        self.put_json_bytes(message.body);
        self.text.extend_from_slice(b",\"key\":");
        self.put_json_bytes(message.key);
        // Writing to memory can't fail.
        let _ = write!(
            self.text,
            ",\"kind\":\"{kind}\",\"number\":{number},\"publisher\":{publisher},\"sequence\":{sequence},\"time_ns\":{time_ns},\"topic\":"
        );
        self.put_json_bytes(message.topic.as_bytes());
        self.text.push(b'}');
    }

    /// Appends bytes as a JSON string if they are UTF-8, otherwise as an object with hexadecimal digits.
    fn put_json_bytes(&mut self, bytes: &[u8]) {
        if let Ok(text) = std::str::from_utf8(bytes) {
            // A string always has a JSON form, and writing to memory can't fail.
            let _ = serde_json::to_writer(&mut self.text, text);
            return;
        }
        self.text.extend_from_slice(b"{\"hex\":\"");
        for &byte in bytes {
            let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
            self.text.extend([digit(byte >> 4), digit(byte & 15)]);
        }
        self.text.extend_from_slice(b"\"}");
    }
}

/// Selection of messages from a log: its conditions and its progress.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Topic of the selected messages; empty: all topics.
    pub topic: String,
    /// Filter that selected messages must match; `None`: no filter.
    pub filter: Option<Filter>,
    /// Lowest number, and earliest time (ns since 1970), of a selected message.
    pub from: (u64, u64),
    /// Exclusive upper bound of a selected message's number.
    pub until: u64,
    /// Maximum number of messages still to be selected.
    pub left: u64,
    /// Number of the first message that was examined, whether selected or not; `None` if there was none.
    pub first: Option<u64>,
    /// Number of the first message after the end of the selection; `None` if the selection has not ended.
    pub next: Option<u64>,
}

impl Selection {
    /// Appends the selected messages of a chunk to `lines`. Returns false once the selection is complete.
    pub fn put(&mut self, chunk: &Chunk<'_>, lines: &mut Lines) -> bool {
        for (number, message) in chunk.messages() {
            self.first.get_or_insert(number);
            if number >= self.until || self.left == 0 {
                self.next = Some(number);
                return false;
            }
            let is_wanted = number >= self.from.0
                && message.time_ns >= self.from.1
                && (self.topic.is_empty() || self.topic == message.topic)
                && self.filter.as_ref().is_none_or(|filter| filter.matches(number, &message));
            if is_wanted {
                lines.put(number, &message);
                self.left -= 1;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME_NS: u64 = 1_763_884_800_123_456_789;

    fn line(form: LineForm, kind: MessageKind, key: &[u8], body: &[u8]) -> String {
        let mut lines = Lines::new(form);
        let of = |time_ns| Message {
            kind,
            publisher: 7,
            sequence: 42,
            time_ns,
            topic: "orders\u{1b}",
            key,
            body,
        };
        // The text of a second is kept only for the next message.
        lines.put(8, &of(TIME_NS - SECOND_NS));
        lines.clear();
        lines.put(9, &of(TIME_NS));
        String::from_utf8(lines.text().to_vec()).unwrap()
    }

    #[test]
    fn a_line_is_one_line_of_what_can_be_seen() {
        let text = |kind, body| line(LineForm::Text, kind, b"A-7", body);
        let before = "9\t2025-11-23T08:00:00.123456Z\torders\\u{1b}\tA-7\t";
        assert_eq!(text(MessageKind::Publish, b"10 \xff\n"), format!("{before}10 \u{fffd}\\n\n"));
        assert_eq!(text(MessageKind::Delete, b""), format!("{before}(deleted)\n"));
    }

    #[test]
    fn json_holds_every_byte_and_bodies_are_as_they_are() {
        let json = line(LineForm::Json, MessageKind::Delete, b"\x00\xa5\xff", b"a\"\n");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        let expected = serde_json::json!({
            "body": "a\"\n", "key": {"hex": "00a5ff"}, "kind": "delete", "number": 9, "publisher": 7,
            "sequence": 42, "time_ns": TIME_NS, "topic": "orders\u{1b}",
        });
        assert_eq!(read, expected);
        let mut bodies = Lines::new(LineForm::Body);
        let message = Message {
            kind: MessageKind::Publish,
            publisher: 0,
            sequence: 0,
            time_ns: 0,
            topic: "",
            key: &[],
            body: b"\xff\x00",
        };
        bodies.put(1, &message);
        assert_eq!(bodies.text(), b"\xff\x00\n");
    }
}
