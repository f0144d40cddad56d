//! A command line of fio, as a shell takes it: words with quotes, options of the program, and jobs that begin at
//! `--name`. What an option means is the same as in a job file.

use super::Refusal;
use super::lines::{Lines, Place, Section};
use super::options::{canonical, stands_alone};

/// The file name in errors.
pub(super) const ORIGIN: &str = "command line of fio";

/// The jobs of a command line.
pub(super) enum Jobs {
    /// Those of a job file, or the sections of it that are named.
    File(String, Vec<String>),
    /// Those of `--name`.
    Named(Vec<Section>),
}

/// Options of the program that concern its output, with or without a value.
const OF_OUTPUT: &[&str] = &[
    "output",
    "output-format",
    "eta",
    "eta-newline",
    "eta-interval",
    "status-interval",
    "minimal",
    "terse-version",
    "append-terse",
    "bandwidth-log",
    "parse-only",
    "showcmd",
    "warnings-fatal",
    "max-jobs",
    "alloc-size",
    "idle-prof",
    "debug",
    "aux-path",
    "inflate-log",
];

/// Those of them that have no value.
const WITHOUT_VALUE: &[&str] = &[
    "minimal",
    "append-terse",
    "bandwidth-log",
    "parse-only",
    "showcmd",
    "warnings-fatal",
    "readonly",
];

/// A word and where it is in the text.
struct Word {
    text: String,
    at: std::ops::Range<usize>,
}

/// Whether a text is a command line of fio: `fio`, or a path that ends so, perhaps after `sudo`, and more.
pub(super) fn is_one(text: &str) -> bool {
    let mut words = text.split_whitespace().skip_while(|word| *word == "sudo");
    words.next().is_some_and(|word| word == "fio" || word.ends_with("/fio"))
        && words.next().is_some()
}

/// The words of a shell's line: quotes are taken off, a backslash keeps the next character, at a line's end it joins
/// lines. Nothing else of a shell is known. None at a quote that does not end, with its place.
fn words(text: &str) -> Result<Vec<Word>, usize> {
    let mut all = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote: Option<(char, usize)> = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        let is_between = quote.is_none() && c.is_whitespace();
        if is_between {
            all.extend(word.take());
            continue;
        }
        let open = word.get_or_insert_with(|| Word { text: String::new(), at: at..at });
        open.at.end = end;
        match (c, quote) {
            (c, Some((q, _))) if c == q => quote = None,
            ('\\', None | Some(('"', _))) => match chars.next() {
                Some((_, '\n')) => {
                    if quote.is_none() && open.text.is_empty() {
                        word = None;
                    }
                }
                Some((at, next)) => {
                    if quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`') {
                        open.text.push('\\');
                    }
                    open.text.push(next);
                    open.at.end = at + next.len_utf8();
                }
                None => open.text.push('\\'),
            },
            ('\'' | '"', None) => quote = Some((c, at)),
            (c, _) => open.text.push(c),
        }
    }
    all.extend(word);
    match quote {
        Some((_, at)) => Err(at),
        None => Ok(all),
    }
}

/// Reads a command line into `lines`.
pub(super) fn read(lines: &mut Lines<'_>, text: &str) -> Jobs {
    let file = lines.add_file(ORIGIN, text);
    let place = |at: std::ops::Range<usize>| Place { file, span: at };
    let words = match words(text) {
        Ok(words) => words,
        Err(at) => {
            let help = "end it with the same quote";
            let refusal = Refusal::new(place(at..at + 1), "this quote does not end", help);
            lines.refused.push(refusal);
            return Jobs::Named(Vec::new());
        }
    };
    let is_program = |word: &Word| word.text == "fio" || word.text.ends_with("/fio");
    let first = words.iter().position(is_program).map_or(words.len(), |at| at + 1);
    let mut rest = words[first..].iter().peekable();
    let (mut job_files, mut sections): (Vec<&Word>, Vec<String>) = (Vec::new(), Vec::new());
    let (mut options, mut jobs) = (0, 0);
    lines.begin("global", place(0..0));
    while let Some(word) = rest.next() {
        let Some(option) = word.text.strip_prefix("--") else {
            job_files.push(word);
            continue;
        };
        let (name, mut value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let alone = stands_alone(canonical(name)) || WITHOUT_VALUE.contains(&name);
        let mut at = word.at.clone();
        if value.is_none()
            && !alone
            && let Some(next) = rest.next_if(|next| !next.text.starts_with("--"))
        {
            value = Some(&next.text);
            at.end = next.at.end;
        }
        if OF_OUTPUT.contains(&name) {
            continue;
        }
        match name {
            "section" => sections.extend(value.map(str::to_owned)),
            "readonly" => {
                let help = "give --read-only to the run";
                let words = "`--readonly` is a flag of the run";
                lines.refused.push(Refusal::new(place(at), words, help));
            }
            "client" | "server" | "remote-config" | "daemonize" => {
                let words = format!("`--{name}`: iodyno does not drive other hosts");
                lines.refused.push(Refusal::new(place(at), words, "run it on the host itself"));
            }
            "name" => {
                jobs += 1;
                lines.begin(value.filter(|v| !v.is_empty()).unwrap_or("job"), place(at));
            }
            name => {
                options += 1;
                lines.add(name, value, place(at));
            }
        }
    }
    match job_files.as_slice() {
        [] => {}
        [path] if jobs == 0 && options == 0 && lines.refused.is_empty() => {
            return Jobs::File(path.text.clone(), sections);
        }
        [word, ..] => {
            let words = "a job file goes with nothing but --section here";
            let help = "give one job file alone, or the jobs' options, each with `--`";
            lines.refused.push(Refusal::new(place(word.at.clone()), words, help));
        }
    }
    let mut jobs = lines.take_jobs();
    jobs.retain(|job| sections.is_empty() || sections.iter().any(|name| job.job_name() == name));
    if jobs.is_empty() && lines.refused.is_empty() {
        let help = "a job begins at `--name=NAME`";
        lines.refused.push(Refusal::new(place(0..text.len()), "the line has no job", help));
    }
    Jobs::Named(jobs)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_those_of_a_shell() {
        let of = |text: &str| {
            words(text).map(|all| all.into_iter().map(|word| word.text).collect::<Vec<_>>())
        };
        let expected = ["fio", "--name=a b", "--rw", "randread", "--x=c:\\d", "e'f"];
        let line = "fio '--name=a b' --rw \\\n  randread --x=\"c:\\\\d\" \"e'f\"";
        assert_eq!(of(line).unwrap(), expected);
        assert_eq!(of("fio \"x"), Err(4));
        assert_eq!(of("").unwrap(), Vec::<String>::new());
    }
}
