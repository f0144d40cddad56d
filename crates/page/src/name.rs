//! Names that are safe as the id of an element and as the name of a file, from any text.

/// ASCII letters, digits, `-` and `_` as they are, everything else as `-`; never empty, at most 100 long.
pub(crate) fn safe(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let safe: String = name.chars().take(100).map(keep).collect();
    if safe.is_empty() { "unnamed".to_owned() } else { safe }
}
