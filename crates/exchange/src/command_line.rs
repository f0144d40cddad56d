//! Splits the command line of a benchmark program into words, as a shell does. Removes copied prompts, wrappers such
//! as `sudo`, variable assignments, redirections and pipes. Variables are not expanded, and command substitutions are
//! refused.

use iodyno_catalog::File;
use std::iter::Peekable;
use std::ops::Range;
use std::path::Path;
use std::str::CharIndices;

/// Maximum length of a command line, bytes.
const MAX_BYTES: usize = 64 << 10;

/// Program name of the message-log benchmark by 60East.
pub(crate) const AMPS: &str = "amps_bio_perf_test";

/// Benchmark programs whose command lines are supported.
const PROGRAMS: &[&str] = &["fio", "sysbench", "diskspd", "vdbench", AMPS];

/// Wrapper programs, such as sudo, that start another program without changing its I/O.
const PLAIN_STARTERS: &[&str] = &["sudo", "doas", "env", "time", "exec", "command", "nohup"];

/// Wrapper programs, such as taskset, that start another program under changed conditions; each with the
/// equivalent in iodyno.
const STARTERS: &[(&str, &str)] = &[
    ("taskset", "remove it, and give the run --cpus 0-3"),
    ("numactl", "remove it, and give the run --numa 0"),
    ("timeout", "remove it, and give the run --time 60s"),
    ("nice", "put it before iodyno itself: `nice iodyno run …`"),
    ("ionice", "put it before iodyno itself: `ionice iodyno run …`"),
    ("chrt", "put it before iodyno itself: `chrt … iodyno run …`"),
    ("cgexec", "put it before iodyno itself: `cgexec … iodyno run …`"),
    ("systemd-run", "put it before iodyno itself: `systemd-run … iodyno run …`"),
    ("strace", "put it before iodyno itself: `strace … iodyno run …`"),
    ("perf", "put it before iodyno itself: `perf … iodyno run …`"),
];

/// A word of a command line after unquoting, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
    /// Whether the word has no quotes.
    is_plain: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// Words after the program's name.
    pub(crate) words: Vec<Word>,
    /// Environment variables set before the program's name: name and value.
    pub(crate) variables: Vec<(String, String)>,
    /// Remarks on parts of the line that have no effect on results, with their positions.
    pub(crate) notes: Vec<(Range<usize>, String)>,
}

/// An error in a command line: position, message and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) span: Range<usize>,
    pub(crate) words: String,
    pub(crate) help: &'static str,
}

/// Finds the program of a command line, and returns its entry in [`PROGRAMS`]. None if no such program
/// occurs, or no word follows it.
pub(crate) fn program(line: &str) -> Option<&'static str> {
    let mut words = line.split_whitespace().peekable();
    words.next_if(|word| is_prompt(word));
    let first = *words.peek()?;
    let known = |word: &str| PROGRAMS.iter().copied().find(|name| *name == base(word));
    if known(first).is_none() && !is_assignment(first) && !is_starter(first) {
        return None;
    }
    let found = words.find_map(known);
    found.filter(|_| words.next().is_some())
}

/// Program name of a word, without folders and `.exe`.
fn base(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    name.strip_suffix(".exe").unwrap_or(name)
}

/// Whether a word is a shell prompt, such as `$`, that was copied together with the command.
fn is_prompt(word: &str) -> bool {
    matches!(word, "$" | "#" | "%")
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        let is_first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        is_first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

fn is_starter(word: &str) -> bool {
    PLAIN_STARTERS.contains(&base(word)) || STARTERS.iter().any(|(name, _)| *name == base(word))
}

/// Represents a command line as a file, so that errors can refer to positions in it.
pub(crate) fn file(line: &str) -> File {
    let program = program(line).unwrap_or("command").to_owned();
    File { origin: program.clone(), name: program, text: line.into(), is_named_by_file: false }
}

/// Parses a command line. `escapes`: whether a backslash escapes the next character, as in a Unix shell.
///
/// # Errors
/// An unclosed quote, a line that is too long, a command substitution, a second command, or a program of
/// [`STARTERS`].
pub(crate) fn read(line: &str, escapes: bool) -> Result<CommandLine, Fault> {
    if line.len() > MAX_BYTES {
        let words = format!("the command line is longer than {} KiB", MAX_BYTES >> 10);
        return Err(Fault { span: 0..0, words, help: "use a job file" });
    }
    let mut out = CommandLine::default();
    let all = words(line, escapes, &mut out.notes)?;
    let is_program = |word: &Word| PROGRAMS.contains(&base(&word.text));
    let at = all.iter().position(is_program).unwrap_or(0);
    let mut rest = all.into_iter();
    for word in rest.by_ref().take(at) {
        let Word { text, span, .. } = word;
        if let Some((name, help)) = STARTERS.iter().find(|(name, _)| *name == base(&text)) {
            let words = format!(
                "`{name}` changes how a program runs, but iodyno does not run that program"
            );
            return Err(Fault { span, words, help });
        }
        match text.split_once('=').filter(|_| is_assignment(&text)) {
            Some((name, value)) => {
                let words = format!("`{name}` is set only for this command");
                out.notes.push((span, words));
                out.variables.push((name.to_owned(), value.to_owned()));
            }
            None if is_prompt(&text) => {}
            None => out.notes.push((span, format!("`{text}` is left out"))),
        }
    }
    rest.next();
    out.words = rest.collect();
    Ok(out)
}

/// Splits a line into words, up to the first pipe or the end of the command. Redirections are removed.
fn words(
    line: &str,
    escapes: bool,
    notes: &mut Vec<(Range<usize>, String)>,
) -> Result<Vec<Word>, Fault> {
    let mut splitter = Splitter {
        line,
        chars: line.char_indices().peekable(),
        escapes,
        quote: None,
        word: None,
        redirected: None,
        words: Vec::new(),
        notes,
    };
    let cut = splitter.split()?;
    if let Some((_, at)) = splitter.quote {
        let words = "this quote does not end".to_owned();
        return Err(Fault { span: at..at + 1, words, help: "end it with the same quote" });
    }
    splitter.end_word();
    let words = splitter.words;
    if let Some(at) = cut {
        after_command(line, at, notes)?;
    }
    Ok(words)
}

/// Checks the text after the command, which ends at the operator at `at`. Notes a pipe, and refuses a second command.
fn after_command(
    line: &str,
    at: usize,
    notes: &mut Vec<(Range<usize>, String)>,
) -> Result<(), Fault> {
    let text = &line[at..];
    if text.starts_with('|') && !text.starts_with("||") {
        let words = "what follows `|` is not run; `--json` gives the results as data";
        notes.push((at..line.len(), words.to_owned()));
        return Ok(());
    }
    let rest = text.trim_start_matches(['|', ';', '&']).trim();
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(());
    }
    let words = "only one command can be read, but another follows".to_owned();
    Err(Fault { span: at..line.len(), words, help: "run each command separately" })
}

/// Splits a command line into words.
struct Splitter<'l, 'n> {
    line: &'l str,
    chars: Peekable<CharIndices<'l>>,
    /// Whether a backslash escapes the next character.
    escapes: bool,
    /// Quotation mark that is still open, and its position.
    quote: Option<(char, usize)>,
    /// Incomplete current word; None between words.
    word: Option<Word>,
    /// Position of a redirection operator, such as `>`, if the next word is its file name.
    redirected: Option<usize>,
    words: Vec<Word>,
    notes: &'n mut Vec<(Range<usize>, String)>,
}

impl Splitter<'_, '_> {
    /// Splits the command into words. Returns the position of the operator that ends the command; None: the line
    /// or a comment ended it.
    fn split(&mut self) -> Result<Option<usize>, Fault> {
        while let Some((at, c)) = self.chars.next() {
            let end = at + c.len_utf8();
            let is_escaping = self.escapes && self.quote.is_none_or(|(quote, _)| quote == '"');
            let next = self.chars.peek().map(|(_, next)| *next);
            if c == '\\' && is_escaping {
                self.escaped(at);
            } else if is_escaping && (c == '`' || c == '$' && next == Some('(')) {
                let words = "only a shell can run this command and insert its output".to_owned();
                return Err(Fault {
                    span: at..end,
                    words,
                    help: "replace the command with its output",
                });
            } else if let Some((quote, _)) = self.quote {
                let is_end = quote == c;
                self.quote.take_if(|_| is_end);
                self.push(at, end, Some(c).filter(|_| !is_end));
            } else {
                match c {
                    c if c.is_whitespace() => self.end_word(),
                    '\'' | '"' => {
                        self.quote = Some((c, at));
                        self.push(at, end, None).is_plain = false;
                    }
                    // After blanks alone it is a prompt.
                    '#' if self.begins_comment(at) => return Ok(None),
                    '>' | '<' => self.redirect(at),
                    '&' if next == Some('>') => {
                        self.end_word();
                        self.push(at, end, Some('&'));
                    }
                    '|' | '&' => return Ok(Some(at)),
                    ';' if self.escapes => return Ok(Some(at)),
                    _ => {
                        self.push(at, end, Some(c));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Extends the current word, or a new one from `start`, by the text up to `end`. Appends `c`, if any, to it.
    fn push(&mut self, start: usize, end: usize, c: Option<char>) -> &mut Word {
        let new = || Word { text: String::new(), span: start..end, is_plain: true };
        let word = self.word.get_or_insert_with(new);
        word.span.end = end;
        word.text.extend(c);
        word
    }

    /// Completes the current word. If it is the file name of a redirection, adds a note instead.
    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match self.redirected.take() {
            None => self.words.push(word),
            Some(from) => {
                let words =
                    "the output is not redirected: the run prints its own results".to_owned();
                self.notes.push((from..word.span.end, words));
            }
        }
    }

    /// Interprets the character after the backslash at `at`.
    fn escaped(&mut self, at: usize) {
        match self.chars.next() {
            // Line continuation.
            Some((_, '\n')) => {}
            Some((_, '\r')) if self.chars.next_if(|(_, c)| *c == '\n').is_some() => {}
            Some((next_at, next)) => {
                // Within double quotes, a backslash escapes only these characters.
                if self.quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`') {
                    self.push(at, at + 1, Some('\\'));
                }
                self.push(at, next_at + next.len_utf8(), Some(next));
            }
            None => {
                self.push(at, at + 1, Some('\\'));
            }
        }
    }

    fn begins_comment(&self, at: usize) -> bool {
        self.escapes && self.word.is_none() && !self.line[..at].trim().is_empty()
    }

    /// Begins a redirection. If the current word is a stream number, as in `2>`, it belongs to the redirection.
    fn redirect(&mut self, at: usize) {
        let is_number = |word: &mut Word| {
            word.is_plain && word.text.chars().all(|c| c.is_ascii_digit() || c == '&')
        };
        let from = self.word.take_if(is_number).map_or(at, |word| word.span.start);
        self.end_word();
        while self.chars.next_if(|(_, c)| matches!(c, '>' | '<' | '&' | '|')).is_some() {}
        self.redirected = Some(from);
    }
}

/// File name of a path without its extension; `job` if it has none.
pub(crate) fn stem(path: &str) -> String {
    Path::new(path).file_stem().and_then(|s| s.to_str()).unwrap_or("job").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str, escapes: bool) -> Result<Vec<String>, Range<usize>> {
        let read = read(line, escapes).map_err(|fault| fault.span)?;
        Ok(read.words.into_iter().map(|word| word.text).collect())
    }

    #[test]
    fn words_as_a_shell_has_them() {
        assert_eq!(of("fio  b=c\td", true).unwrap(), ["b=c", "d"]);
        assert_eq!(of("fio 'b c'd \"e \\\" f\" ''", true).unwrap(), ["b cd", "e \" f", ""]);
        assert_eq!(of("fio \\\n  b\\ c \\\r\n d", true).unwrap(), ["b c", "d"]);
        assert_eq!(
            of("fio --x=\"c:\\\\d\" \"e'f\" \"g\\h\"", true).unwrap(),
            ["--x=c:\\d", "e'f", "g\\h"]
        );
        assert_eq!(of("diskspd C:\\x.dat", false).unwrap(), ["C:\\x.dat"]);
        assert_eq!(of("fio é 'b", true), Err(7..8));
        let all = read("fio é --b='c d'", true).unwrap().words;
        assert_eq!((all[1].text.as_str(), all[1].span.clone()), ("--b=c d", 7..16));
        for (line, name) in [
            ("/usr/bin/sysbench run", Some("sysbench")),
            ("C:\\t\\diskspd.exe -b4K", Some("diskspd")),
            ("A=b sudo -E fio job.fio", Some("fio")),
            ("$ fio job.fio", Some("fio")),
            ("job.fio", None),
            ("my own fio job", None),
            ("sudo fio", None),
        ] {
            assert_eq!(program(line), name, "{line}");
        }
    }

    /// Prompts, wrapper programs, variables, redirections, pipes and comments around a command are removed.
    #[test]
    fn a_pasted_line_is_its_command() {
        for line in [
            "fio a b",
            "# fio a b",
            "$ sudo -E fio a b   # as root",
            "A=1 B='x y' env C=2 /usr/bin/fio a b",
            "time fio a b > out.txt 2>&1",
            "fio a >out.txt b 2> /dev/null",
            "fio a b &> out.txt",
            "fio a b >> out.txt &",
            "fio a b | tee out.txt; reboot",
            "fio a b 2>&1 | tee out.txt",
            "fio a b;",
            "fio a \\\n b \\\n",
        ] {
            assert_eq!(
                of(line, true).as_deref(),
                Ok(&["a".to_owned(), "b".to_owned()][..]),
                "{line}"
            );
        }
        let set = read("SIZE=1g B='x y' sudo fio a", true).unwrap();
        let variables = [("SIZE", "1g"), ("B", "x y")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(set.variables, variables);
        let notes = |line| read(line, true).unwrap().notes.len();
        assert_eq!(notes("SIZE=1g sudo -E fio a > x | tee y"), 5);
        assert_eq!(notes("$ fio a # b"), 0);
        for (line, span) in [
            ("fio a && fio b", 6..14),
            ("fio a; fio b", 5..12),
            ("fio a || true", 6..13),
            ("fio a & fio b", 6..13),
            ("fio --numjobs=$(nproc)", 14..15),
            ("fio --numjobs=\"`nproc`\"", 15..16),
            ("taskset -c 0-3 fio a", 0..7),
            ("sudo nice -n 5 fio a", 5..9),
        ] {
            assert_eq!(of(line, true), Err(span), "{line}");
        }
        assert_eq!(
            of("fio 'a|b' \"c;d\" e\\&f '$(g)' ${H}", true).unwrap(),
            ["a|b", "c;d", "e&f", "$(g)", "${H}"]
        );
    }
}
