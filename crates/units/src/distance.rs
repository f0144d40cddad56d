//! Suggests the name that a user most likely meant, given a mistyped one.

/// Returns the name in `names` that the user most likely meant by `typed`; `None` if none is close. The first
/// choice is the name with the smallest edit distance, if the distance is 1, or at most a third of the typed
/// length. The second is the only name that begins with `typed`. If no name does, the third is the only name
/// that `typed` abbreviates: `randread` abbreviates `random-read`.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (typed.chars().count() / 3).max(1);
    let (mut begun, mut shortened) = (Vec::new(), Vec::new());
    let mut best: Option<(usize, &str)> = None;
    for name in names {
        let edits = distance(typed, name);
        if edits <= allowed && best.is_none_or(|(least, _)| edits < least) {
            best = Some((edits, name));
        }
        if !typed.is_empty() && name.starts_with(typed) {
            begun.push(name);
        }
        if shortens(typed, name) {
            shortened.push(name);
        }
    }
    match (best, begun.as_slice(), shortened.as_slice()) {
        (Some((_, name)), ..) => Some(name),
        (None, &[only], _) | (None, [], &[only]) => Some(only),
        _ => None,
    }
}

/// Whether `typed` is `name` with some letters omitted: not the first letter, and fewer than half.
fn shortens(typed: &str, name: &str) -> bool {
    let mut letters = name.chars();
    let in_order = typed.chars().all(|t| letters.any(|n| n == t));
    in_order
        && typed.chars().next() == name.chars().next()
        && 2 * typed.chars().count() > name.chars().count()
}

/// Edit distance between `a` and `b`. Inserting, removing or replacing a character and swapping two
/// neighbours each count 1 (optimal string alignment). `_` equals `-`, and case is ignored.
fn distance(a: &str, b: &str) -> usize {
    let chars = |text: &str| -> Vec<char> {
        text.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    let (a, b) = (chars(a), chars(b));
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = last;
        last = row;
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        for (a, b, edits) in [
            ("", "abc", 3),
            ("depth", "depth", 0),
            ("dpeth", "depth", 1),
            ("block_size", "block", 5),
            ("kitten", "sitting", 3),
            ("think-time", "think_time", 0),
            ("Read", "read", 0),
        ] {
            assert_eq!(distance(a, b), edits, "{a} {b}");
            assert_eq!(distance(b, a), edits, "{b} {a}");
        }
    }

    #[test]
    fn the_nearest_is_near_or_the_only_completion() {
        let names = ["random-read", "random-write", "seq-read", "seq-write"];
        assert_eq!(nearest("random-raed", names), Some("random-read"));
        assert_eq!(nearest("seq_write", names), Some("seq-write"));
        assert_eq!(nearest("random-w", names), Some("random-write"));
        assert_eq!(nearest("randread", names), Some("random-read"));
        assert_eq!(nearest("randwrite", names), Some("random-write"));
        // Letters in another order, too few letters, and letters of two names.
        assert_eq!(nearest("readrand", names), None);
        assert_eq!(nearest("rread", names), None);
        assert_eq!(nearest("ranom-r", ["random-read", "random-rate"]), None);
        assert_eq!(nearest("random", names), None);
        assert_eq!(nearest("postgres", names), None);
        assert_eq!(nearest("", names), None);
    }
}
