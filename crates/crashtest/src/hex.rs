//! Serde format of bytes as hexadecimal digits: names, paths and data need not be valid text.

use serde::{Deserialize as _, Deserializer, Serializer};

/// Serializes bytes as lower-case digits, two per byte.
pub(crate) fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, to: S) -> Result<S::Ok, S::Error> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let text: String = digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect();
    to.serialize_str(&text)
}

/// Deserializes digits of either case.
pub(crate) fn deserialize<'de, D: Deserializer<'de>, B: From<Vec<u8>>>(
    from: D,
) -> Result<B, D::Error> {
    let text = String::deserialize(from)?;
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let bytes: Option<Vec<u8>> = text
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
            _ => None,
        })
        .collect();
    let bytes = bytes.ok_or_else(|| serde::de::Error::custom("not pairs of hexadecimal digits"))?;
    Ok(bytes.into())
}

/// Serde format of a directory and a name in it, with the name as hexadecimal digits.
pub(crate) mod entry {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Entry {
        directory: u64,
        #[serde(with = "super")]
        name: Vec<u8>,
    }

    pub(crate) fn serialize<S: Serializer>(
        (directory, name): &(u64, Vec<u8>),
        to: S,
    ) -> Result<S::Ok, S::Error> {
        Entry { directory: *directory, name: name.clone() }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<(u64, Vec<u8>), D::Error> {
        Entry::deserialize(from).map(|entry| (entry.directory, entry.name))
    }
}
