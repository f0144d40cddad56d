//! Shell completion of values: catalog entries, targets, engines, runs of the notebook. The shell's script calls the
//! command with [`VARIABLE`] set.

use crate::args::{Cli, NOTEBOOK_VARIABLE};
use crate::show;
use clap::{Arg, Command, CommandFactory as _, ValueHint};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use clap_complete::env::{CompleteEnv, Shells};
use iodyno_catalog::{Kind, list};
use iodyno_drive::EngineKind;
use iodyno_notebook::RunSummary;
use std::collections::BTreeSet;
use std::ffi::OsStr;

/// Environment variable in which the completion script passes the shell's name.
const VARIABLE: &str = "IODYNO_COMPLETE";
/// Shells that quote the completions that they insert. The others insert them as they are.
const QUOTING_SHELLS: [&str; 3] = ["elvish", "fish", "zsh"];
/// Characters, besides letters and digits, that have no meaning to any shell within a word.
const PLAIN: &str = "-_.:/=@%+,~";
/// Maximum number of runs to suggest; the latest runs are preferred.
const RUNS_MAX: usize = 50;
/// Target prefixes such as `ram:`, for targets that are not paths.
const SCHEMES: [&str; 9] = [
    "scratch:",
    "ram:",
    "null:",
    "model:",
    "live:",
    "nbd://",
    "nbds://",
    "nbd+unix://",
    "nbds+unix://",
];

/// Bash function that completes words split only at blanks. Bash itself also splits at `:` and `=`, which
/// occur in targets and flags. The function therefore removes the part before the last such character from
/// each suggestion. If there are no suggestions, Bash completes file names, and quotes them (`-o default`).
const BASH_WORDS: &str = r#"
_iodyno() {
    local line="${COMP_LINE:0:COMP_POINT}" COMP_WORDS COMP_CWORD before i
    read -ra COMP_WORDS <<< "$line"
    [[ "$line" == *[[:space:]] ]] && COMP_WORDS+=("")
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    _clap_complete_iodyno "$1" "${COMP_WORDS[COMP_CWORD]}" "$3"
    before="${COMP_WORDS[COMP_CWORD]}"
    [[ -n "$2" && "$2" != [:=] ]] && before="${before%"$2"}"
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]="${COMPREPLY[i]#"$before"}"
    done
}
if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -o nospace -o bashdefault -o default -o nosort -F _iodyno iodyno
else
    complete -o nospace -o bashdefault -o default -F _iodyno iodyno
fi
"#;

/// If a shell's completion script started this process, prints the completions and exits. Otherwise returns.
pub(crate) fn answer_shell() {
    let shell = std::env::var(VARIABLE).unwrap_or_default();
    let quotes = QUOTING_SHELLS.contains(&&*shell);
    CompleteEnv::with_factory(|| command(quotes)).var(VARIABLE).complete();
}

pub(crate) fn script(shell: clap_complete::Shell) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell.to_string()) {
        // Writing into memory can't fail.
        let _ = completer.write_registration(VARIABLE, "iodyno", "iodyno", "iodyno", &mut text);
    }
    if shell == clap_complete::Shell::Bash {
        text.extend_from_slice(BASH_WORDS.as_bytes());
    }
    text
}

/// The definition of the command line, with a completer for each argument that can be completed. `quotes`: whether the
/// shell quotes completions.
fn command(quotes: bool) -> Command {
    let mut command = Cli::command();
    // Only then an argument tells whether it takes a path.
    command.build();
    with_completers(command, quotes)
}

fn with_completers(command: Command, quotes: bool) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|arg| match completer(&name, &arg) {
        Some(complete) => arg.add(ArgValueCompleter::new(move |current: &OsStr| {
            let mut all = complete(current);
            let typed = current.to_string_lossy();
            all.retain(|it| quotes || is_plain(&it.get_value().to_string_lossy(), &typed));
            all
        })),
        None => arg,
    });
    command.mut_subcommands(|command| with_completers(command, quotes))
}

/// Function that returns the completions of the text typed so far.
type Complete = Box<dyn Fn(&OsStr) -> Vec<CompletionCandidate> + Send + Sync>;

/// Returns the completer for an argument of a command; None if its values can't be completed.
fn completer(command: &str, arg: &Arg) -> Option<Complete> {
    let of = |complete: fn(&OsStr) -> Vec<CompletionCandidate>| -> Complete { Box::new(complete) };
    Some(match (command, arg.get_id().as_str()) {
        (_, "engine") => of(|current| beginning(current, engines())),
        ("run", "workload") => of(work),
        ("size" | "explain", "workload") | ("run", "with") => {
            of(|current| entry_or_path(current, &[Kind::Workload]))
        }
        ("explain" | "serve", "device") => of(device),
        ("size", "device") | ("fit", "like") => {
            of(|current| entry_or_path(current, &[Kind::Device]))
        }
        ("size", "adapter" | "saturate") => of(|current| entry_or_path(current, &[Kind::System])),
        ("study", "study") => of(|current| entry_or_path(current, &[Kind::Study])),
        ("catalog", "name") => of(|current| entry_or_path(current, &KINDS)),
        ("history", "on") => of(stored_target),
        (_, "on" | "target") => of(target),
        ("history", "workload") | ("ls", "text") => of(stored_work),
        ("show" | "export" | "resume" | "annotate", "run")
        | ("fit", "from")
        | ("report", "runs")
        | ("compare", "a" | "b")
        | ("size", "like")
        | ("study", "with") => of(run),
        _ => return path_completer(arg.get_value_hint()),
    })
}

/// Returns the completer for the path of a file or folder; None if the argument takes no path.
fn path_completer(hint: ValueHint) -> Option<Complete> {
    let completer = match hint {
        ValueHint::AnyPath => PathCompleter::any,
        ValueHint::FilePath => PathCompleter::file,
        ValueHint::DirPath => PathCompleter::dir,
        _ => return None,
    };
    Some(Box::new(move |current| completer().complete(current)))
}

/// Whether a shell takes the word as it is: it needs no quotes, is no flag and runs no command. Names of runs come from
/// reports and notebooks of others, and names of files from any folder.
fn is_plain(word: &str, current: &str) -> bool {
    // A first character that the user has typed is intended.
    let begins_plain = !current.is_empty() || !word.starts_with(['-', '~', '@', '%', '=']);
    begins_plain && word.chars().all(|c| c.is_alphanumeric() || PLAIN.contains(c))
}

const KINDS: [Kind; 5] = [Kind::Workload, Kind::Method, Kind::Device, Kind::System, Kind::Study];

fn engines() -> impl Iterator<Item = &'static str> {
    EngineKind::ALL.into_iter().filter(|engine| !engine.comes_with_target()).map(EngineKind::name)
}

/// Returns the plain words that begin with the text typed so far.
fn beginning(
    current: &OsStr,
    words: impl IntoIterator<Item = impl Into<String>>,
) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let words = words.into_iter().map(Into::into);
    let words = words.filter(|word| word.starts_with(&*current) && is_plain(word, &current));
    words.map(CompletionCandidate::new).collect()
}

/// Returns the catalog names that begin with the text typed so far; if there are none, paths.
fn entry_or_path(current: &OsStr, kinds: &[Kind]) -> Vec<CompletionCandidate> {
    let names = kinds.iter().flat_map(|kind| list(*kind).map(|(name, _)| name));
    let names = beginning(current, names);
    if names.is_empty() { PathCompleter::any().complete(current) } else { names }
}

fn work(current: &OsStr) -> Vec<CompletionCandidate> {
    entry_or_path(current, &[Kind::Workload, Kind::Method])
}

/// Completes the name of an emulated device, with or without `model:`.
fn device(current: &OsStr) -> Vec<CompletionCandidate> {
    let emulated = emulated(current);
    if emulated.is_empty() { entry_or_path(current, &[Kind::Device]) } else { emulated }
}

/// Completes the name of an emulated device after `model:` or `live:`; other text has no completions.
fn emulated(current: &OsStr) -> Vec<CompletionCandidate> {
    let current_words = current.to_string_lossy();
    let Some(scheme) = ["model:", "live:"].into_iter().find(|s| current_words.starts_with(s))
    else {
        return Vec::new();
    };
    beginning(current, list(Kind::Device).map(|(name, _)| format!("{scheme}{name}")))
}

fn target(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = emulated(current);
    if all.is_empty() {
        all = beginning(current, SCHEMES);
        all.extend(PathCompleter::any().complete(current));
    }
    all
}

/// The latest runs in the notebook, the last one first.
fn latest_runs() -> Vec<RunSummary> {
    let named = std::env::var_os(NOTEBOOK_VARIABLE).filter(|name| !name.is_empty());
    let notebook = show::open(named.as_deref().map(std::path::Path::new)).ok().flatten();
    let runs = notebook.and_then(|notebook| notebook.list().ok()).unwrap_or_default();
    runs.into_iter().rev().take(RUNS_MAX).collect()
}

/// Completes names and workloads of the latest runs.
fn stored_work(current: &OsStr) -> Vec<CompletionCandidate> {
    let runs = latest_runs().into_iter();
    let all: BTreeSet<String> =
        runs.flat_map(|run| run.workloads.into_iter().chain([run.name])).collect();
    beginning(current, all)
}

/// Completes targets of the latest runs.
fn stored_target(current: &OsStr) -> Vec<CompletionCandidate> {
    let all: BTreeSet<String> = latest_runs().into_iter().flat_map(|run| run.targets).collect();
    beginning(current, all)
}

/// Completes names and ids of runs, and `last`, from the latest runs in the notebook. In a comma-separated
/// list, completes the last item.
fn run(current: &OsStr) -> Vec<CompletionCandidate> {
    let runs = latest_runs();
    let latest = || runs.iter();
    let names: BTreeSet<&str> = latest().map(|run| run.name.as_str()).collect();
    let mut words = vec!["last".to_owned()];
    words.extend(names.into_iter().map(str::to_owned));
    words.extend(latest().map(|run| run.id.clone()));
    let current = current.to_string_lossy();
    let before = current.rfind(',').map_or("", |comma| &current[..=comma]);
    beginning(OsStr::new(&*current), words.into_iter().map(|word| format!("{before}{word}")))
}
