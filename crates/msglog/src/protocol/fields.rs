//! Decoding and encoding of a frame's fields.

use thiserror::Error;

/// Reason why bytes are not a valid protocol frame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The frame's length is 0 or too large.
    #[error("a frame has {length} bytes, but 1 to {bytes_max} are allowed")]
    Length {
        /// Value of the frame's length field, bytes.
        length: usize,
        /// Maximum length allowed in this context, bytes.
        bytes_max: usize,
    },
    /// The frame's type code is unknown.
    #[error("a frame has the unknown kind {0}")]
    Kind(u8),
    /// The frame ends before or within a field.
    #[error("a frame of kind {kind} ends within `{field}`")]
    Short {
        /// Code of the frame's type.
        kind: u8,
        /// Name of the incomplete field.
        field: &'static str,
    },
    /// The frame has extra bytes after its last field.
    #[error("a frame of kind {kind} has {bytes} bytes after its last field")]
    Long {
        /// Code of the frame's type.
        kind: u8,
        /// Number of extra bytes.
        bytes: usize,
    },
    /// A field of the frame has an invalid value.
    #[error("in a frame of kind {kind}, `{field}` has the invalid value {found}")]
    Value {
        /// Code of the frame's type.
        kind: u8,
        /// Name of the field with the invalid value.
        field: &'static str,
        /// The invalid value, as text.
        found: String,
    },
}

/// Decoder for the fields of a frame, in order.
pub(super) struct Fields<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(kind: u8, rest: &'a [u8]) -> Self {
        Self { kind, rest }
    }

    fn bytes(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) =
            self.rest.split_at_checked(len).ok_or(Malformed::Short { kind: self.kind, field })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(field, N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        Ok(self.array::<1>(field)?[0])
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, Malformed> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub(super) fn fixed<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], Malformed> {
        self.array(field)
    }

    /// Decodes a byte string that is preceded by a 1-byte length.
    pub(super) fn short_bytes(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let len = self.u8(field)?;
        self.bytes(field, len.into())
    }

    /// Decodes a byte string that is preceded by a 2-byte length.
    pub(super) fn long_bytes(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let len = self.u16(field)?;
        self.bytes(field, len.into())
    }

    /// Decodes text that is preceded by a 1-byte length.
    pub(super) fn short_text(&mut self, field: &'static str) -> Result<&'a str, Malformed> {
        let bytes = self.short_bytes(field)?;
        self.text(field, bytes)
    }

    /// Decodes text that is preceded by a 2-byte length.
    pub(super) fn long_text(&mut self, field: &'static str) -> Result<&'a str, Malformed> {
        let bytes = self.long_bytes(field)?;
        self.text(field, bytes)
    }

    fn text(&self, field: &'static str, bytes: &'a [u8]) -> Result<&'a str, Malformed> {
        core::str::from_utf8(bytes).map_err(|_| self.wrong(field, &"text that is not UTF-8"))
    }

    /// Returns all remaining bytes of the frame.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// Creates the error for an invalid value of a field.
    pub(super) fn wrong(&self, field: &'static str, found: &dyn ToString) -> Malformed {
        Malformed::Value { kind: self.kind, field, found: found.to_string() }
    }

    /// Returns `value` if the frame has been decoded completely, otherwise an error.
    pub(super) fn end<T>(self, value: T) -> Result<T, Malformed> {
        match self.rest.len() {
            0 => Ok(value),
            bytes => Err(Malformed::Long { kind: self.kind, bytes }),
        }
    }
}

/// Encoder that appends fields to a frame. Bytes or text too long for a length field are truncated, a text at a
/// character boundary. Only the texts of errors can be too long.
pub(super) trait Put {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn short_bytes(&mut self, bytes: &[u8]);
    fn long_bytes(&mut self, bytes: &[u8]);
    fn short_text(&mut self, text: &str);
    fn long_text(&mut self, text: &str);
}

impl Put for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn short_bytes(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(u8::MAX.into())];
        Put::u8(self, bytes.len() as u8);
        self.extend_from_slice(bytes);
    }

    fn long_bytes(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(u16::MAX.into())];
        Put::u16(self, bytes.len() as u16);
        self.extend_from_slice(bytes);
    }

    fn short_text(&mut self, text: &str) {
        self.short_bytes(cut(text, u8::MAX.into()).as_bytes());
    }

    fn long_text(&mut self, text: &str) {
        self.long_bytes(cut(text, u16::MAX.into()).as_bytes());
    }
}

/// Truncates a text to at most `bytes_max` bytes, at a character boundary.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
