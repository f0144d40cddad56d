//! Patterns of LIKE, split at each `%`. The segments are searched for from left to right, each at its earliest match. A
//! segment always matches the same number of characters, so no backtracking is needed.

use super::{Effort, TooCostly};
use core::fmt;

/// A parsed pattern of LIKE.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern {
    /// Segments of the pattern, separated by `%`. The first must match at the start of the text, and the last at
    /// its end.
    segments: Vec<Segment>,
}

/// Section of a pattern without `%`: literal texts separated by the wildcard `_`, which matches any one character.
#[derive(Clone, Debug, Default, PartialEq)]
struct Segment {
    texts: Vec<Box<str>>,
    characters: usize,
}

/// Error: the LIKE pattern ends in a backslash, which escapes nothing.
#[derive(Debug)]
pub(super) struct EndsInBackslash;

impl Pattern {
    /// Parses a LIKE pattern. `%` matches any text, and `_` matches one character; a backslash makes either
    /// literal.
    pub(super) fn parse(text: &str) -> Result<Self, EndsInBackslash> {
        let mut segments = vec![Segment::default()];
        let (mut part, mut rest) = (String::new(), text.chars());
        let end = |part: &mut String, segments: &mut Vec<Segment>| {
            let Some(segment) = segments.last_mut() else { return };
            segment.characters += part.chars().count();
            segment.texts.push(core::mem::take(part).into());
        };
        while let Some(c) = rest.next() {
            match c {
                '%' => {
                    end(&mut part, &mut segments);
                    // Consecutive `%` are equivalent to one.
                    if segments.len() == 1 || segments.last().is_some_and(|it| it.characters > 0) {
                        segments.push(Segment::default());
                    } else if let Some(last) = segments.last_mut() {
                        last.texts.clear();
                    }
                }
                '_' => {
                    end(&mut part, &mut segments);
                    if let Some(last) = segments.last_mut() {
                        last.characters += 1;
                    }
                }
                '\\' => part.push(rest.next().ok_or(EndsInBackslash)?),
                c => part.push(c),
            }
        }
        end(&mut part, &mut segments);
        Ok(Self { segments })
    }

    pub(super) fn matches(&self, text: &str, effort: &Effort) -> Result<bool, TooCostly> {
        let [first, middle @ .., last] = &*self.segments else {
            let Some(only) = self.segments.first() else { return Ok(text.is_empty()) };
            return Ok(only.rest_behind(text, effort)?.is_some_and(str::is_empty));
        };
        let Some(mut rest) = first.rest_behind(text, effort)? else { return Ok(false) };
        for segment in middle {
            let Some(behind) = segment.find(rest, effort)? else { return Ok(false) };
            rest = behind;
        }
        effort.spend(last.characters)?;
        let Some(start) = back(rest, last.characters) else { return Ok(false) };
        Ok(last.rest_behind(&rest[start..], effort)?.is_some_and(str::is_empty))
    }

    /// Estimated memory used by the pattern, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let of_text = |bytes: usize| size_of::<Box<str>>() + bytes + 16;
        let of_segment = |it: &Segment| {
            let texts = it.texts.iter().map(|text| of_text(text.len()));
            size_of::<Segment>() + texts.sum::<usize>() + 16
        };
        self.segments.iter().map(of_segment).sum()
    }
}

/// Byte offset at which the last `characters` characters of the text start. `None` if the text is shorter.
fn back(text: &str, characters: usize) -> Option<usize> {
    match characters {
        0 => Some(text.len()),
        n => text.char_indices().nth_back(n - 1).map(|(at, _)| at),
    }
}

/// Byte offset at which the first `characters` characters of the text end. `None` if the text is shorter.
fn ahead(text: &str, characters: usize) -> Option<usize> {
    let mut ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    if characters == 0 { Some(0) } else { ends.nth(characters - 1) }
}

impl Segment {
    /// Matches the segment at the start of a text, and returns the rest of the text. `None` if it does not match.
    fn rest_behind<'a>(
        &self,
        text: &'a str,
        effort: &Effort,
    ) -> Result<Option<&'a str>, TooCostly> {
        let mut rest = text;
        for (i, part) in self.texts.iter().enumerate() {
            effort.spend(1 + part.len() / 8)?;
            if i > 0 {
                let mut behind = rest.chars();
                if behind.next().is_none() {
                    return Ok(None);
                }
                rest = behind.as_str();
            }
            let Some(behind) = rest.strip_prefix(&**part) else { return Ok(None) };
            rest = behind;
        }
        Ok(Some(rest))
    }

    /// Finds the segment's first match in a text, and returns the rest after it. None if there is no match.
    fn find<'a>(&self, text: &'a str, effort: &Effort) -> Result<Option<&'a str>, TooCostly> {
        // Searches for the longest of its texts, then compares the surroundings.
        let longest = self.texts.iter().enumerate().max_by_key(|(_, text)| text.len());
        let (at, needle) = longest.map_or((0, ""), |(at, text)| (at, &**text));
        let before = at + self.texts[..at].iter().map(|it| it.chars().count()).sum::<usize>();
        effort.spend(before)?;
        let Some(mut from) = ahead(text, before) else { return Ok(None) };
        loop {
            let found = text[from..].find(needle);
            effort.spend((found.unwrap_or(text.len() - from) + needle.len()) / 4 + 1)?;
            let Some(found) = found else { return Ok(None) };
            let place = from + found;
            effort.spend(before)?;
            let start = back(&text[..place], before).unwrap_or(0);
            if let Some(behind) = self.rest_behind(&text[start..], effort)? {
                return Ok(Some(behind));
            }
            let Some(next) = text[place..].chars().next() else { return Ok(None) };
            from = place + next.len_utf8();
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.segments.iter().enumerate() {
            f.write_str(if i > 0 { "%" } else { "" })?;
            for (i, text) in segment.texts.iter().enumerate() {
                f.write_str(if i > 0 { "_" } else { "" })?;
                for c in text.chars() {
                    f.write_str(if matches!(c, '%' | '_' | '\\') { "\\" } else { "" })?;
                    write!(f, "{c}")?;
                }
            }
        }
        Ok(())
    }
}
