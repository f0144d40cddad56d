//! Ids of runs: their creation, and the selection of a run by a user.
//!
//! An id is ten characters of Crockford's base 32 in lower case: digits and letters without `i`, `l`, `o` and `u`, so
//! that none can be mistaken for another when read out or typed. It has 50 random bits; the file's UNIQUE constraint
//! catches the improbable collision.

/// The 32 characters that a run's id may contain; `i`, `l`, `o` and `u` are left out.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Number of characters in a run's id.
pub(crate) const LENGTH: usize = 10;

/// Id of an imported run: the low 50 bits of `digest`, a hash of the imported files. Repeated imports of the same files
/// give the same id.
pub fn id_of_digest(digest: u64) -> String {
    from_random(digest)
}

/// Encodes the low 50 bits of `random` as a run's id.
pub(crate) fn from_random(random: u64) -> String {
    (0..LENGTH).map(|i| char::from(ALPHABET[(random >> (5 * i)) as usize % 32])).collect()
}

/// Whether a text has the form of a run's id, as [`from_random`] returns it.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == LENGTH && text.bytes().all(|b| ALPHABET.contains(&b))
}

/// A user's selection of a run, as parsed from the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Selector {
    /// The latest run (0), or the N-th run before it.
    Last(u32),
    /// The run whose id starts with this text, in lower case.
    Prefix(String),
    /// Text that is neither `last` nor a possible prefix of an id.
    Nonsense,
}

/// Checks a name for a run. Commands accept the name in place of the run's id.
///
/// # Errors
/// The name is empty, longer than 100 characters, could be taken for `last` or a list of runs, or has line ends.
pub fn check_name(text: &str) -> Result<(), String> {
    let is_taken = text.trim().to_ascii_lowercase().starts_with("last");
    let is_odd = text.trim() != text || text.contains(|c: char| c == ',' || c.is_control());
    match text.chars().count() {
        1..=100 if !is_taken && !is_odd => Ok(()),
        _ => Err("use 1 to 100 characters without commas, line ends or surrounding blanks, not beginning with `last`".to_owned()),
    }
}

/// Parses a user's selector of a run. `last` can't be confused with an id, because ids do not contain `l`.
pub(crate) fn select(text: &str) -> Selector {
    let text = text.trim().to_ascii_lowercase();
    if let Some(back) = text.strip_prefix("last") {
        match back.strip_prefix('~').map(str::parse) {
            None if back.is_empty() => Selector::Last(0),
            Some(Ok(back)) => Selector::Last(back),
            _ => Selector::Nonsense,
        }
    } else if !text.is_empty()
        && text.len() <= LENGTH
        && text.bytes().all(|b| ALPHABET.contains(&b))
    {
        Selector::Prefix(text)
    } else {
        Selector::Nonsense
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_use_every_bit_and_select_themselves() {
        assert_eq!(from_random(0), "0000000000");
        assert_eq!(from_random(u64::MAX), "zzzzzzzzzz");
        assert_eq!(from_random(1 << 49), "000000000g");
        let id = from_random(0x1234_5678_9ABC_DEF0);
        assert_eq!(select(&id.to_uppercase()), Selector::Prefix(id));
        assert_eq!(select(" last "), Selector::Last(0));
        assert_eq!(select("last~12"), Selector::Last(12));
        for text in ["", "lastly", "last~", "last~-1", "last1", "a'; DROP", "00000000000", "%", "é"]
        {
            assert_eq!(select(text), Selector::Nonsense, "{text}");
        }
    }
}
