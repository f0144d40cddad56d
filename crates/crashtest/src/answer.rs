//! Formats the result of an exploration as text for a terminal, and as a JSON document. Does no I/O.

use crate::change::{Change, NodeId};
use crate::check::Verdict;
use crate::explore::Explored;
use crate::history::{Event, History};
use crate::minimise::Finding;
use crate::rules::Rules;
use iodyno_page::terminal::{Lines, Style, table};
use iodyno_page::{Cell, Column, Quantity, Table};
use iodyno_units::human;
use iodyno_units::text::clean;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

/// Version of the JSON document's format.
pub const JSON_VERSION: u32 = 1;
/// Width of the label column in the text, in characters.
const LABEL: usize = 12;
/// Maximum number of lost effects that the text lists for a finding.
const LOST_MAX: usize = 6;
/// Maximum number of files that a note names.
const NAMED_MAX: usize = 4;
/// Maximum number of lines of a checker's output that the text shows for a finding.
const OUTPUT_LINES_MAX: usize = 5;

/// Setting of an exploration: the file system rules or emulated device that determine the possible states, and the
/// system on which the program ran.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Rules of the file system, which decide what may survive a power cut.
    pub rules: Rules,
    /// Name of the emulated device that executed the run's writes; `None`: the rules alone decide what survives.
    pub device: Option<String>,
    /// File system and kernel of the virtual machine in which the program ran; `None`: it ran in a recorded folder of
    /// this host.
    pub guest: Option<String>,
}

/// Result of an exploration, with a summary of the run, and the setting.
#[derive(Debug)]
pub struct Outcome {
    /// Counts of states and verdicts, and the findings.
    pub explored: Explored,
    /// Counts and duration of the program's run.
    pub recorded: Recorded,
    /// File system rules or emulated device that determined the states, and the system on which the program ran.
    pub setting: Setting,
    /// Whether any run of the checker read the file that contains the program's output up to the power cut.
    pub promises_read: bool,
}

impl Outcome {
    /// Whether the program printed lines that no run of the checker read.
    fn ignores_promises(&self) -> bool {
        self.recorded.lines > 0 && self.explored.checked > 0 && !self.promises_read
    }
}

impl Setting {
    /// Describes the rules or the device: a short text for the heading, and a line of explanation.
    fn in_words(&self) -> (String, String) {
        if let Some(guest) = &self.guest {
            let about = "the guest's disk has a volatile write cache: any write since the last flush can be lost, and \
                         one of them torn";
            return (format!("on {guest}"), about.to_owned());
        }
        match &self.device {
            Some(device) => (
                format!("on {device}"),
                format!(
                    "{device} executed the recorded operations one after another. The states of class `model` are its \
                     contents after a power cut, one for each instant at which data become durable"
                ),
            ),
            None => (format!("under the rules {}", self.rules.name), self.rules.about.to_owned()),
        }
    }
}

/// Summary of a recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Number of changes that the program made in the folder.
    pub changes: usize,
    /// Number of syncs by the program, such as fsync and syncfs, including failed ones.
    pub syncs: usize,
    /// Number of lines that the program printed to standard output.
    pub lines: usize,
    /// Whether the program printed several lines, all of them after its last change. Its output was then probably
    /// buffered, so no line acknowledged a change before the program ended.
    pub printed_at_end: bool,
    /// Files that the program wrote through a shared mapping, by their last path in quotation marks.
    pub mapped: Vec<String>,
    /// Number of the program's processes that still ran when it ended, and were killed. `None` if unknown: the run was
    /// read from a file, or was in a virtual machine.
    pub left_running: Option<usize>,
    /// Duration of the recorded run.
    pub took: Duration,
}

impl Recorded {
    /// Counts the changes, syncs and printed lines of a run.
    #[must_use]
    pub fn of_history(history: &History, left_running: Option<usize>, took: Duration) -> Self {
        let mapped = mapped_files(history);
        let mut summary = Self {
            changes: 0,
            syncs: 0,
            lines: 0,
            printed_at_end: false,
            mapped,
            left_running,
            took,
        };
        for event in &history.events {
            match event {
                Event::Change(_) => summary.changes += 1,
                Event::Sync { .. }
                | Event::SyncRange { .. }
                | Event::SyncFailed { .. }
                | Event::SyncAll => summary.syncs += 1,
                Event::Landed { .. } | Event::Allocated { .. } | Event::Mapped { .. } => {}
                Event::Output(bytes) => {
                    summary.lines += String::from_utf8_lossy(bytes).matches('\n').count();
                }
            }
        }
        let is_output = |event: &Event| matches!(event, Event::Output(_));
        let first = history.events.iter().position(is_output).unwrap_or(0);
        summary.printed_at_end = summary.lines > 1 && history.events[first..].iter().all(is_output);
        summary
    }
}

/// Files that were written through a shared mapping, in quotation marks. Omits SQLite's index of its WAL (`*-shm`),
/// because SQLite builds it anew after a cut.
fn mapped_files(history: &History) -> Vec<String> {
    let mapped = |event: &Event| match event {
        Event::Mapped { node } => Some(*node),
        _ => None,
    };
    let mapped: BTreeSet<NodeId> = history.events.iter().filter_map(mapped).collect();
    if mapped.is_empty() {
        return Vec::new();
    }
    let mut tree = history.start.clone();
    let mut paths: BTreeMap<NodeId, String> = BTreeMap::new();
    paths.extend(mapped.iter().filter_map(|node| Some((*node, tree.path_of(*node)?))));
    for event in &history.events {
        let Event::Change(change) = event else { continue };
        tree.apply(change);
        let (Change::Make { node, .. } | Change::Link { node, .. } | Change::Rename { node, .. }) =
            change
        else {
            continue;
        };
        if mapped.contains(node) {
            paths.extend(tree.path_of(*node).map(|path| (*node, path)));
        }
    }
    let mut paths: Vec<String> = paths.into_values().collect();
    paths.sort();
    paths.dedup();
    paths.retain(|path| !path.ends_with("-shm"));
    paths.iter().map(|path| format!("`{path}`")).collect()
}

/// Formats a number with its noun: `1 change`, `2 changes`.
fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn time(duration: Duration) -> String {
    human::duration_ns(duration.as_nanos() as u64)
}

/// Formats the result as text. `guest` is the result of the same program in a virtual machine; a finding is confirmed
/// if the virtual machine has one with the same verdict.
#[must_use]
pub fn show(outcome: &Outcome, guest: Option<&Outcome>, style: Style) -> String {
    let mut text = Lines::new(style);
    show_outcome(&mut text, outcome, guest, style);
    if let Some(guest) = guest {
        text.blank();
        show_outcome(&mut text, guest, None, style);
    }
    text.end()
}

/// First line of the result: the numbers of judged and of wrong states.
fn headline(outcome: &Outcome) -> String {
    let judged: u64 = outcome.explored.verdicts.values().sum();
    let wrong = outcome.explored.wrong();
    let all =
        outcome.explored.classes.iter().map(|count| count.states).fold(0, u64::saturating_add);
    let of_all = if outcome.explored.is_complete() {
        format!("judged all {} after a power cut", counted(all, "state"))
    } else {
        format!("judged {judged} of {} after a power cut", counted(all, "state"))
    };
    let result = match wrong {
        0 if outcome.ignores_promises() => {
            "none wrong, output before the cut not checked".to_owned()
        }
        0 => "none wrong".to_owned(),
        _ => format!("{wrong} wrong"),
    };
    format!("{of_all}, {result}")
}

fn show_outcome(text: &mut Lines, outcome: &Outcome, guest: Option<&Outcome>, style: Style) {
    let Outcome { explored, recorded, setting, .. } = outcome;
    let (under, about) = setting.in_words();
    text.heading(&headline(outcome), &under);
    text.labelled(
        "recorded",
        LABEL,
        &format!(
            "{}, {}, {} of output in {}",
            counted(recorded.changes as u64, "change"),
            counted(recorded.syncs as u64, "sync"),
            counted(recorded.lines as u64, "line"),
            time(recorded.took)
        ),
    );
    show_notes(text, outcome);
    let label = match setting {
        Setting { guest: Some(_), .. } => "disk",
        Setting { device: Some(_), .. } => "device",
        _ => "rules",
    };
    text.labelled(label, LABEL, &about);
    text.labelled("checks", LABEL, &checks_in_words(explored));
    if explored.spot_checks.1 > 0 {
        text.labelled(
            "warning",
            LABEL,
            &format!(
                "the checker is not deterministic: {} of {} states had another verdict when checked again. States \
                 that differ only in what the checker did not read are now checked too",
                explored.spot_checks.1, explored.spot_checks.0
            ),
        );
    }
    text.blank();
    for line in table::lines(&classes(explored), style) {
        text.line(&line);
    }
    text.blank();
    let verdicts: Vec<String> = explored
        .verdicts
        .iter()
        .map(|(verdict, count)| format!("{} {count}", verdict.word()))
        .collect();
    text.labelled("verdicts", LABEL, &verdicts.join(", "));
    let (judged_early, wrong_early) = explored.before_output;
    if wrong_early > 0 && recorded.lines > 0 {
        let are = if wrong_early == 1 { "is" } else { "are" };
        text.labelled(
            "no promise",
            LABEL,
            &format!(
                "{wrong_early} of {} before the program's first output {are} wrong: the program had promised nothing \
                 yet. Such findings are listed last. If the program creates its store first, do so in --setup",
                counted(judged_early, "state")
            ),
        );
    }
    for finding in &explored.findings {
        text.blank();
        show_finding(text, finding, setting);
        if let Some(guest) = guest {
            text.labelled("guest", LABEL, &confirmation(finding, guest));
        }
    }
}

/// Note on processes that still ran when their program ended.
#[must_use]
pub fn left_running_in_words(count: usize, program: &str) -> String {
    let (processes, were, they, them) = match count {
        1 => ("process", "was", "it", "it"),
        _ => ("processes", "were", "they", "them"),
    };
    format!(
        "{count} {processes} of {program} still ran when it ended, and {were} killed. What {they} would have done later was not \
         tested: let {program} wait for {them}"
    )
}

/// Limits of the result: what was not checked, or not explored.
fn show_notes(text: &mut Lines, outcome: &Outcome) {
    if let Some(count) = outcome.recorded.left_running.filter(|count| *count > 0) {
        text.labelled("note", LABEL, &left_running_in_words(count, "the program"));
    }
    if outcome.recorded.printed_at_end {
        text.labelled(
            "note",
            LABEL,
            "the program printed all lines after its last change, so promises were checked only at the end. If it prints \
             after each commit, its output is buffered: flush it, or run it under `stdbuf -oL`",
        );
    }
    if outcome.ignores_promises() {
        text.labelled(
            "note",
            LABEL,
            "the checker never read the file $IODYNO_ACKNOWLEDGED, so it can't tell whether what the program had printed \
             is still true after the cut",
        );
    }
    let mapped = &outcome.recorded.mapped;
    if !mapped.is_empty() {
        let (named, more) = mapped.split_at(mapped.len().min(NAMED_MAX));
        let mut names = named.join(", ");
        if !more.is_empty() {
            let _ = write!(names, " and {} more", more.len());
        }
        let were = if mapped.len() == 1 { "was" } else { "were" };
        text.labelled(
            "note",
            LABEL,
            &format!(
                "{} {were} written through a memory mapping. The kernel passes such writes on only at msync, fsync, munmap or \
                 exit, and they are recorded then. States that contain them earlier are not explored",
                clean(&names)
            ),
        );
    }
}

/// First finding in `guest`, the result of the virtual machine, with the verdict of `finding`; `None` if there is none.
fn confirming<'a>(finding: &Finding, guest: &'a Outcome) -> Option<&'a Finding> {
    guest.explored.findings.iter().find(|known| known.verdict == finding.verdict)
}

fn confirmation(finding: &Finding, guest: &Outcome) -> String {
    if let Some(known) = confirming(finding, guest) {
        return format!(
            "confirmed: state {} of the guest has the same verdict (see below)",
            known.name
        );
    }
    let judged: u64 = guest.explored.verdicts.values().sum();
    format!("not confirmed: none of {judged} states of the guest has this verdict (see below)")
}

fn checks_in_words(explored: &Explored) -> String {
    format!(
        "the checker ran {} in {}. It skipped {} equal to a checked state, and {} different only in data that it does not \
         read",
        counted(explored.checked, "time"),
        time(explored.elapsed),
        counted(explored.same_content, "state"),
        explored.same_reads
    )
}

fn classes(explored: &Explored) -> Table {
    let mut table = Table::new([
        Column::label("class"),
        Column::numbers("states", ""),
        Column::numbers("judged", ""),
        Column::numbers("explored", ""),
    ]);
    let caption = match (explored.is_complete(), explored.is_out_of_time) {
        (true, _) => "states by class, all of them judged",
        (false, true) => {
            "states by class; --time ended the exploration: more time judges more states"
        }
        (false, false) => "states by class, not all of them judged",
    };
    caption.clone_into(&mut table.caption);
    for count in &explored.classes {
        let share = (count.states > 0).then(|| count.judged as f64 / count.states as f64);
        table.push([
            Cell::words(count.class),
            Cell::number(count.states.to_string(), count.states as f64),
            Cell::number(count.judged.to_string(), count.judged as f64),
            Cell::of(Quantity::Share, share),
        ]);
    }
    table
}

fn show_finding(text: &mut Lines, finding: &Finding, setting: &Setting) {
    let described = finding.describe();
    let nothing_lost = described.lost.is_empty();
    text.line(&format!("{}  state {}", finding.verdict.word(), finding.name));
    for loss in described.lost.iter().take(LOST_MAX) {
        let verb = if finding.choice.torn.is_some() { "lost or torn" } else { "lost" };
        text.labelled(
            verb,
            LABEL,
            &format!("{} (would be kept by an {})", clean(&loss.effect), clean(&loss.kept_by)),
        );
    }
    if nothing_lost {
        let words = match &setting.guest {
            Some(_) => "nothing written to the guest's disk, only the contents of its memory",
            None => "nothing: a kill of the program suffices",
        };
        text.labelled("lost", LABEL, words);
    }
    if described.lost.len() > LOST_MAX {
        text.labelled("", LABEL, &format!("and {} more", described.lost.len() - LOST_MAX));
    }
    if described.later_survivors > 0 {
        let first = clean(&described.first_later_survivor).into_owned();
        let count = described.later_survivors;
        let words = match count {
            1 => format!("1 later effect: {first}"),
            _ => format!("{count} later effects, the first: {first}"),
        };
        text.labelled("survive", LABEL, &words);
    }
    let promised = match described.acknowledged_lines {
        0 => "nothing".to_owned(),
        1 => format!("1 line: {}", clean(&described.last_acknowledged)),
        count => format!("{count} lines, the last: {}", clean(&described.last_acknowledged)),
    };
    text.labelled("printed", LABEL, &promised);
    let output = String::from_utf8_lossy(&finding.output);
    for (number, line) in output.lines().take(OUTPUT_LINES_MAX).enumerate() {
        text.labelled(if number == 0 { "checker" } else { "" }, LABEL, &clean(line));
    }
}

/// Formats the result as a JSON document. `guest` is the result of the same program in a virtual machine.
#[must_use]
pub fn document(outcome: &Outcome, guest: Option<&Outcome>) -> Value {
    let Outcome { explored, recorded, setting, .. } = outcome;
    let finding = |finding: &Finding| {
        let mut object = json!({
            "verdict": finding.verdict,
            "state": finding.name.to_string(),
            "class": finding.class,
            "description": finding.describe(),
            "output": String::from_utf8_lossy(&finding.output),
        });
        if let Some(guest) = guest {
            object["confirmed"] = json!(confirming(finding, guest).is_some());
        }
        object
    };
    let verdicts: serde_json::Map<String, Value> = explored
        .verdicts
        .iter()
        .map(|(verdict, count): (&Verdict, &u64)| (verdict.word().to_owned(), json!(count)))
        .collect();
    let mut document = json!({
        "version": JSON_VERSION,
        "rules": setting.rules.name,
        "recorded": {
            "changes": recorded.changes,
            "syncs": recorded.syncs,
            "output_lines": recorded.lines,
            "printed_at_end": recorded.printed_at_end,
            "left_running": recorded.left_running,
            "seconds": recorded.took.as_secs_f64(),
        },
        "complete": explored.is_complete(),
        "classes": explored.classes,
        "verdicts": verdicts,
        "before_output": { "judged": explored.before_output.0, "wrong": explored.before_output.1 },
        "checker_runs": explored.checked,
        "promises_read": outcome.promises_read,
        "same_content": explored.same_content,
        "same_reads": explored.same_reads,
        "spot_checks": explored.spot_checks.0,
        "spot_checks_diverged": explored.spot_checks.1,
        "seconds": explored.elapsed.as_secs_f64(),
        "findings": explored.findings.iter().map(finding).collect::<Vec<_>>(),
    });
    if let Some(device) = &setting.device {
        document["device"] = json!(device);
    }
    if let Some(guest) = &setting.guest {
        document["guest"] = json!(guest);
    }
    if let Some(guest) = guest {
        document["in_guest"] = self::document(guest, None);
    }
    document
}
