//! The words of a command line, as a shell separates them, with their places. Substitutions are left as they are.

use iodyno_catalog::File;
use std::ops::Range;
use std::path::Path;

/// The most bytes of a command line.
const MAX_BYTES: usize = 64 << 10;

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
}

/// The program that a command line starts: the last part of the first word's path, without `.exe`. None for a text that is
/// no command line: one with a single word.
pub(crate) fn program(line: &str) -> Option<&str> {
    let (first, _) = line.trim_start().split_once(char::is_whitespace)?;
    let name = first.rsplit(['/', '\\']).next()?;
    Some(name.strip_suffix(".exe").unwrap_or(name))
}

/// A command line as a file for errors.
pub(crate) fn file(line: &str) -> File {
    let program = program(line).unwrap_or("command").to_owned();
    File { origin: program.clone(), name: program, text: line.into() }
}

/// The words. `escapes`: a backslash takes the meaning of the next character, as in a Unix shell.
///
/// # Errors
/// A quote without its end, or too long a line: the place, and what is wrong.
pub(crate) fn words(line: &str, escapes: bool) -> Result<Vec<Word>, (Range<usize>, String)> {
    if line.len() > MAX_BYTES {
        let words = format!("the command line is longer than {} KiB", MAX_BYTES >> 10);
        return Err((0..0, words));
    }
    let mut all = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote: Option<(char, usize)> = None;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        if quote.is_none() && c.is_whitespace() {
            all.extend(word.take());
            continue;
        }
        if c == '\\' && escapes && quote.is_none_or(|(q, _)| q == '"') {
            match chars.next() {
                // A line that goes on.
                Some((_, '\n')) if quote.is_none() => all.extend(word.take()),
                Some((next_at, next)) => {
                    push(&mut word, at, next_at + next.len_utf8(), Some(next));
                }
                None => push(&mut word, at, end, Some('\\')),
            }
            continue;
        }
        match (c, quote) {
            ('\'' | '"', None) => {
                quote = Some((c, at));
                push(&mut word, at, end, None);
            }
            (_, Some((q, _))) if q == c => {
                quote = None;
                push(&mut word, at, end, None);
            }
            _ => push(&mut word, at, end, Some(c)),
        }
    }
    if let Some((_, at)) = quote {
        return Err((at..at + 1, "this quote has no end".to_owned()));
    }
    all.extend(word);
    Ok(all)
}

fn push(word: &mut Option<Word>, start: usize, end: usize, c: Option<char>) {
    let word = word.get_or_insert_with(|| Word { text: String::new(), span: start..end });
    word.span.end = end;
    word.text.extend(c);
}

/// The first word's program, which the caller knows to be there.
pub(crate) fn stem(path: &str) -> String {
    Path::new(path).file_stem().and_then(|s| s.to_str()).unwrap_or("job").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_a_shell_has_them() {
        let of = |line: &str, escapes| {
            let words = words(line, escapes).map_err(|(span, _)| span);
            words.map(|all| all.into_iter().map(|word| word.text).collect::<Vec<_>>())
        };
        assert_eq!(of("a  b=c\td", true).unwrap(), ["a", "b=c", "d"]);
        assert_eq!(of("a 'b c'd \"e \\\" f\" ''", true).unwrap(), ["a", "b cd", "e \" f", ""]);
        assert_eq!(of("a \\\n  b\\ c", true).unwrap(), ["a", "b c"]);
        assert_eq!(of("diskspd C:\\x.dat", false).unwrap(), ["diskspd", "C:\\x.dat"]);
        assert_eq!(of("é 'b", true), Err(3..4));
        let all = words("é --b='c d'", true).unwrap();
        assert_eq!((all[1].text.as_str(), all[1].span.clone()), ("--b=c d", 3..12));
        assert_eq!(program("/usr/bin/sysbench run"), Some("sysbench"));
        assert_eq!(program("C:\\t\\diskspd.exe -b4K"), Some("diskspd"));
        assert_eq!(program("job.fio"), None);
    }
}
