//! Converts any text to a name that is safe as an HTML id and as a file name.

/// Converts a name to a safe identifier of 1 to 100 characters: replaces all but ASCII letters, digits, `-`
/// and `_` by `-`.
pub(crate) fn safe(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let safe: String = name.chars().take(100).map(keep).collect();
    if safe.is_empty() { "unnamed".to_owned() } else { safe }
}
