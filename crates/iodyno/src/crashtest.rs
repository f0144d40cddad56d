//! `crashtest`: records a program's writes, checks the states that a power cut can leave, and prints the verdicts.

mod guest;

pub(crate) use guest::run_in_guest;

use crate::args::{Crashtest, CrashtestOn as On};
use crate::console::{print, print_json, remark};
use crate::failure::{Failure, WRONG_STATES};
use crate::live::LiveLine;
use crate::private_folder::PrivateFolder;
use crate::signals;
use guest::Guest;
use iodyno_catalog::input::{InputError, read_bytes, read_text};
use iodyno_crashtest::answer::{self, Outcome, Recorded, Setting};
use iodyno_crashtest::{
    Checker, Ended, Event, Folders, History, PAGE_BYTES, PROMISE, Plan, Program, ROOT, Replayed,
    Rules, StateName, Tree, Verdict, carry_out, classes_named, explore, judge_sqlite, log_writes,
    promise, record, replay,
};
use iodyno_page::terminal::Style;
use iodyno_serving::Access;
use iodyno_targets::output::Output;
use iodyno_units::human::counted;
use iodyno_units::text::{clean, clean_lines, for_shell};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Name of the folder in which the program runs.
const FOLDER: &str = "program";
/// Hidden command that judges a SQLite database.
const CHECK_SQLITE: &str = "check-sqlite";
/// Name of the persistence rules for a block device with a volatile write cache.
const DEVICE_RULES: &str = "worst";
/// Atomic write unit of a guest's disk, bytes. Most drives have this unit, and file systems do not expect a smaller
/// one.
const DISK_ATOMIC_BYTES: u32 = 4096;
/// Environment variable with the path of a file that holds what the program had printed before the cut.
const ACKNOWLEDGED: &str = "IODYNO_ACKNOWLEDGED";
/// Timeout of the program and of its set-up command.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Environment in which the program and its checkers run.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// A folder of this host, in which changes are recorded.
    Folder,
    /// A guest whose disk is a file in the recorded folder.
    Guest(&'a Guest),
}

/// Inputs of all parts of the command.
struct Job<'a> {
    flags: &'a Crashtest,
    folders: &'a Folders,
    stop: &'a Arc<AtomicBool>,
    place: Place<'a>,
}

pub(crate) fn command(flags: &Crashtest, style: Style) -> Result<ExitCode, Failure> {
    // clap drops the requirement of --guest if a given flag conflicts with --guest.
    if matches!(flags.on, On::Guest) && flags.guest.is_none() {
        return Err(Failure::input("--on guest: name the folder of the guest, --guest FOLDER"));
    }
    let guest = match &flags.guest {
        Some(folder) => Some(Guest::prepare(folder, &flags.rules, flags.quiet)?),
        None => None,
    };
    // Before the program runs, which may take long.
    let commands = [
        ("--check", flags.check.as_deref(), None),
        ("--setup", flags.setup.as_deref(), Some(Tree::default())),
    ];
    for (flag, command, folder) in commands {
        if let Some(why) = command.and_then(|command| unusable(command, folder.as_ref())) {
            return Err(Failure::input(format!("{flag}: {why}")));
        }
    }
    let private = PrivateFolder::create().map_err(|e| folder_failed(&e))?;
    let mounted = private.mount().map_err(|e| folder_failed(&e))?;
    let folders = Folders::mount(&mounted).map_err(|e| folder_failed(&e))?;
    let stop = signals::stop_flag();
    let place = match (&flags.on, &guest) {
        (On::Guest, Some(guest)) => Place::Guest(guest),
        _ => Place::Folder,
    };
    let job = Job { flags, folders: &folders, stop: &stop, place };
    let started = Instant::now();
    let (history, left_running) = match &flags.from {
        Some(file) => (job.read_run(file)?, None),
        None => job.run_program()?,
    };
    if let Some(file) = &flags.record {
        Output::at(file)?.write(record::to_text(&history).as_bytes())?;
    }
    let took = started.elapsed();
    if let Some(state) = &flags.state {
        let state = state.parse().map_err(Failure::input)?;
        return job.one_state(history, &state);
    }
    let outcome = job.explore(history, left_running, took, &[])?;
    let wanted: Vec<Verdict> = outcome.explored.findings.iter().map(|f| f.verdict).collect();
    let confirming = match (&guest, place) {
        (Some(guest), Place::Folder) if !wanted.is_empty() => {
            let job = Job { place: Place::Guest(guest), ..job };
            let started = Instant::now();
            Some(job.run_program().and_then(|(history, left_running)| {
                let took = started.elapsed();
                job.explore(history, left_running, took, &wanted)
            }))
        }
        _ => None,
    };
    // The result in the folder stands, even if the guest fails.
    let (in_guest, failed) = match confirming.transpose() {
        Ok(outcome) => (outcome, None),
        Err(failure) => (None, Some(failure)),
    };
    let code = if flags.json {
        print_json(&answer::document(&outcome, in_guest.as_ref()))?
    } else {
        print(&answer::show(&outcome, in_guest.as_ref(), style))?
    };
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::interrupted(
            "the exploration was interrupted: the result is incomplete",
        ));
    }
    match failed {
        Some(failure) => Err(failure),
        None if outcome.explored.wrong() > 0 => Ok(ExitCode::from(WRONG_STATES)),
        None => Ok(code),
    }
}

impl Job<'_> {
    /// Explores the states of a run. Stops early once each verdict in `wanted` has occurred; explores all states if
    /// `wanted` is empty.
    fn explore(
        &self,
        history: History,
        left_running: Option<usize>,
        took: Duration,
        wanted: &[Verdict],
    ) -> Result<Outcome, Failure> {
        let flags = self.flags;
        if !history.events.iter().any(|event| matches!(event, Event::Change(_))) {
            return Err(Failure::input("the recorded run changed nothing: nothing was checked"));
        }
        let recorded = Recorded::of_history(&history, left_running, took);
        let history = self.carried_out(history)?;
        let check = self.checker()?;
        self.accept_complete(&history, &check)?;
        let plan = Plan { enough: wanted.to_vec(), ..self.plan()? };
        let live = Mutex::new(LiveLine::new(flags.quiet || flags.json));
        let place = if matches!(self.place, Place::Guest(_)) { " in the guest" } else { "" };
        let explored = explore(history, &plan, &check, self.stop, &|judged, wrong| {
            // Skip if another thread is drawing.
            if let Ok(mut live) = live.try_lock() {
                let judged = counted(judged, "state");
                live.draw(&format!("{judged} judged{place}, {wrong} wrong"));
            }
        });
        if let Ok(mut live) = live.lock() {
            live.clear();
        }
        let explored = explored.map_err(|e| Failure::target(e.to_string()))?;
        if explored.classes.iter().all(|class| class.states == 0) {
            let class = flags.class.join(",");
            return Err(Failure::input(format!(
                "--class {class}: this run has no such state, so nothing was checked: omit --class"
            )));
        }
        let setting = Setting {
            rules: plan.rules,
            device: flags.device.as_ref().map(ToString::to_string),
            guest: match self.place {
                Place::Guest(guest) => Some(guest.name.clone()),
                Place::Folder => None,
            },
        };
        Ok(Outcome { explored, recorded, setting, promises_read: check.has_read_promise() })
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let flags = self.flags;
        let is_disk = matches!(self.place, Place::Guest(_));
        let rules = if is_disk || flags.device.is_some() { DEVICE_RULES } else { &flags.rules };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Plan {
            rules: Rules::named(rules)
                .ok_or_else(|| Failure::input(format!("no rules `{rules}`")))?,
            classes: classes_named(&flags.class, flags.device.is_some()).map_err(Failure::input)?,
            bound: usize::from(flags.bound),
            atomic_bytes: match flags.atomic {
                None if is_disk => Some(DISK_ATOMIC_BYTES),
                None => self.device_atomic_bytes()?,
                given => given,
            },
            again: flags.again,
            time: Duration::from_nanos(flags.time),
            workers: flags.jobs.map_or(processors, usize::from),
            enough: Vec::new(),
        })
    }

    /// Atomic write unit of the device of --device, bytes; `None` if the device states none, and without --device.
    fn device_atomic_bytes(&self) -> Result<Option<u32>, Failure> {
        let Some(name) = &self.flags.device else { return Ok(None) };
        let system = iodyno_serving::system(name, Access::Any)?;
        Ok(system.devices().next().and_then(|placed| placed.device.atomic_bytes()))
    }
}

fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|e| Failure::target(format!("iodyno's own path is unknown: {e}")))
}

fn folder_failed(e: &std::io::Error) -> Failure {
    Failure::target(format!(
        "the folder for the program can't be mounted: {e}. Mounting needs /dev/fuse and, for users other than root, fusermount3"
    ))
}

fn unreadable(file: &Path, e: &InputError) -> Failure {
    Failure::input(format!("{}: {e}", file.display()))
}

impl Job<'_> {
    /// Reads a recorded run, or the log of a block device. The command of --setup makes the initial content of that
    /// device.
    fn read_run(&self, file: &Path) -> Result<History, Failure> {
        let flags = self.flags;
        let bytes = read_bytes(file, record::FILE_BYTES_MAX).map_err(|e| unreadable(file, &e))?;
        let wrong = |why: String| Failure::input(format!("{}: {why}", file.display()));
        if log_writes::is_log(&bytes) {
            let is_in_folder = matches!(self.place, Place::Folder);
            if flags.rules != DEVICE_RULES && flags.device.is_none() && is_in_folder {
                return Err(wrong(format!(
                    "this is the log of a block device, so rules of file systems do not apply: add --rules \
                     {DEVICE_RULES}, or --device with an emulated device"
                )));
            }
            let job = Job { place: Place::Folder, ..*self };
            return log_writes::of_bytes(&bytes, job.set_up()?).map_err(wrong);
        }
        if flags.device.is_some() {
            return Err(wrong(
                "--device needs the log of a block device, but this is a recorded run of a program"
                    .to_owned(),
            ));
        }
        if flags.setup.is_some() {
            return Err(wrong(
                "a recorded run contains its initial folder: omit --setup".to_owned(),
            ));
        }
        let not_text =
            |_| "neither a file of `crashtest --record` nor a log of dm-log-writes".to_owned();
        let text = String::from_utf8(bytes).map_err(not_text).map_err(wrong)?;
        let history = record::of_text(&text).map_err(wrong)?;
        let has_disk_alone = history.start.lookup(ROOT, log_writes::DISK.as_bytes()).is_some()
            && history.start.reachable().len() == 2;
        if matches!(self.place, Place::Folder) && has_disk_alone {
            remark(
                "note",
                "the run's folder holds one file, `disk`: for a run recorded in a guest add --guest FOLDER --on guest",
            );
        }
        Ok(history)
    }

    /// Replays a log on the emulated device of --device. Returns the log unchanged without that flag.
    fn carried_out(&self, log: History) -> Result<History, Failure> {
        const SEED: u64 = 1;
        let Some(device) = &self.flags.device else { return Ok(log) };
        let mut system = iodyno_serving::system(device, Access::Any)?;
        let bytes = log
            .start
            .lookup(ROOT, log_writes::DISK.as_bytes())
            .map_or(0, |disk| log.start.size_bytes(disk));
        iodyno_serving::enlarge(&mut system, &[bytes.next_multiple_of(PAGE_BYTES as u64)])
            .and_then(|()| carry_out(&log, &system, SEED))
            .map_err(|why| Failure::input(format!("--device {device}: {why}")))
    }

    /// Creates the initial folder of the program, and runs the command of --setup. With a guest, the folder holds a
    /// disk with a new file system, on which the command runs.
    fn set_up(&self) -> Result<Tree, Failure> {
        const SETUP: &str = "setup";
        let disk = match self.place {
            Place::Folder => None,
            Place::Guest(guest) => Some(guest.make_disk()),
        };
        let setup = self.flags.setup.as_deref().map(|setup| self.program_words(&shell(setup)));
        let steps =
            [("the command that makes the file system", disk), ("the command of --setup", setup)];
        let folder = self.folders.add(SETUP, Tree::default(), false, None);
        for (name, words) in steps {
            let Some(words) = words else { continue };
            let ran =
                program(words, PROGRAM_TIME_MAX, self.stop).record(self.folders, SETUP, &folder);
            let left_running = ran.as_ref().map_or(0, |ran| ran.left_running);
            require_success(name, ran.map(|ran| ran.ended))?;
            if left_running > 0 {
                remark("note", &answer::left_running_in_words(left_running, name));
            }
        }
        Ok(self.folders.remove(SETUP).unwrap_or_default())
    }

    /// Command line that runs the program or set-up command of the user, in the guest if there is one.
    fn program_words(&self, words: &[OsString]) -> Vec<OsString> {
        match self.place {
            Place::Folder => words.to_vec(),
            Place::Guest(guest) => guest.program(words),
        }
    }

    /// Runs the set-up and the program. Returns what the program did, and the number of processes that it left running.
    fn run_program(&self) -> Result<(History, Option<usize>), Failure> {
        let (flags, folders) = (self.flags, self.folders);
        let start = self.set_up()?;
        let folder = folders.add(FOLDER, start.clone(), true, None);
        let mut words = flags.command.clone();
        if let Some(path) = words.first().and_then(|word| absolute(word)) {
            words[0] = path.into();
        }
        let program = program(self.program_words(&words), PROGRAM_TIME_MAX, self.stop);
        if let Some(number) = flags.fail_sync {
            folders.fail_sync(FOLDER, number);
        }
        let ran = program.record(folders, FOLDER, &folder);
        // In a guest the program's processes are unknown.
        let is_in_folder = matches!(self.place, Place::Folder);
        let left_running = ran.as_ref().ok().map(|ran| ran.left_running).filter(|_| is_in_folder);
        let ended = ran.map(|ran| ran.ended);
        match (flags.fail_sync, &ended) {
            // After a failed sync, the program's exit status is ignored.
            (Some(_), Ok(Ended::Exited(_))) => {}
            _ => require_success("the program", ended)?,
        }
        let events = folders.take_events(FOLDER);
        folders.remove(FOLDER);
        if !events.iter().any(|event| matches!(event, Event::Change(_))) {
            return Err(Failure::input(
                "the program changed nothing in the folder that it ran in ($IODYNO_DIR): nothing was checked",
            ));
        }
        let syncs = Recorded::of_history(
            &History { start: start.clone(), events: events.clone() },
            None,
            Duration::ZERO,
        )
        .syncs;
        if let Some(number) = flags.fail_sync.filter(|number| *number > syncs as u64) {
            return Err(Failure::input(format!(
                "--fail-sync {number}: the program called fsync only {}",
                counted(syncs as u64, "time")
            )));
        }
        Ok((History { start, events }, left_running))
    }
}

fn program(words: Vec<OsString>, time_limit: Duration, stop: &Arc<AtomicBool>) -> Program {
    Program { words, environment: Vec::new(), time_limit, stop: Arc::clone(stop) }
}

/// Command line that runs a shell command in another folder. If the command begins with a relative path, makes the path
/// absolute.
fn shell(command: &str) -> Vec<OsString> {
    let end = command.find(char::is_whitespace).unwrap_or(command.len());
    let (program, arguments) = command.split_at(end);
    let mut line = OsString::new();
    match absolute(program.as_ref()) {
        Some(path) => line.push(for_shell(&path.to_string_lossy())),
        None => line.push(program),
    }
    line.push(arguments);
    ["sh".into(), "-c".into(), line].into()
}

/// Absolute path of a program that is given by a relative path, such as `./check`. `None` for an absolute path, for a
/// plain name, which the shell looks up, and for a path that does not exist.
fn absolute(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    let is_relative = path.is_relative() && path.components().nth(1).is_some() && path.exists();
    is_relative.then(|| std::path::absolute(path).ok()).flatten()
}

/// Whether a folder contains a file at a relative path.
fn has(tree: &Tree, path: &str) -> bool {
    let mut names = path.split('/').filter(|name| !name.is_empty() && *name != ".");
    names.try_fold(ROOT, |directory, name| tree.lookup(directory, name.as_bytes())).is_some()
}

/// Reason why a shell command can't run: the program at its beginning, given by a path, does not exist or is not
/// executable. `None` if the command can run, or if the shell looks up the program. `folder`: the folder in which the
/// command runs; `None` while that is unknown.
fn unusable(command: &str, folder: Option<&Tree>) -> Option<String> {
    let word = command.split_whitespace().next()?;
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
    if !word.contains('/') || !word.chars().all(is_plain) {
        return None;
    }
    let path = Path::new(word);
    let Ok(found) = path.metadata() else {
        let may_be_made = path.is_relative() && folder.is_none_or(|tree| has(tree, word));
        let folders =
            if path.is_relative() { ", neither here nor in the program's folder" } else { "" };
        return (!may_be_made).then(|| format!("there is no file `{word}`{folders}"));
    };
    if found.is_dir() {
        return Some(format!("`{word}` is a folder"));
    }
    (found.permissions().mode() & 0o111 == 0)
        .then(|| format!("`{word}` is not executable: `chmod +x {word}`, or name its interpreter, such as `sh {word}`"))
}

/// Requires that a program succeeded, because the recording of a failed one would be incomplete.
fn require_success(name: &str, ended: std::io::Result<Ended>) -> Result<(), Failure> {
    match ended {
        Ok(Ended::Exited(status)) if status.success() => Ok(()),
        Ok(Ended::Exited(status)) => Err(Failure::input(format!(
            "{name} failed ({status}): nothing was checked. It runs in a folder of its own, to which relative paths in its arguments refer"
        ))),
        Ok(Ended::TimedOut) => {
            Err(Failure::interrupted(format!("{name} was stopped: nothing was checked")))
        }
        Err(e) => Err(Failure::input(e.to_string())),
    }
}

impl Job<'_> {
    /// Requires that the checker accepts the program's complete result, in which nothing is lost. If the checker
    /// rejects even that, its other verdicts are meaningless.
    fn accept_complete(&self, history: &History, check: &Checker<'_>) -> Result<(), Failure> {
        let mut tree = history.start.clone();
        let mut printed = Vec::new();
        for event in &history.events {
            match event {
                Event::Change(change) => tree.apply(change),
                Event::Output(bytes) => printed.extend(bytes),
                Event::Sync { .. }
                | Event::SyncRange { .. }
                | Event::SyncFailed { .. }
                | Event::Landed { .. }
                | Event::Allocated { .. }
                | Event::Mapped { .. }
                | Event::SyncAll => {}
            }
        }
        let check_named =
            self.flags.check.as_deref().filter(|_| matches!(self.place, Place::Folder));
        if let Some(database) = check_named.and_then(|check| check.strip_prefix("sqlite:")) {
            let file = database.split(':').next().unwrap_or_default();
            if !has(&tree, file) {
                return Err(Failure::input(format!(
                    "the program made no file `{file}` in its folder"
                )));
            }
        }
        let (verdict, output) = iodyno_crashtest::judge_once(check, &tree, &printed)
            .map_err(|e| Failure::target(e.to_string()))?;
        if verdict == Verdict::Consistent {
            return Ok(());
        }
        self.require_checker(&tree)?;
        let output = String::from_utf8_lossy(&output);
        Err(Failure::input(format!(
            "the checker rejects the program's complete result, in which nothing is lost ({}): correct the checker first. It \
             ran in a folder of its own{}{}",
            verdict.word(),
            if output.trim().is_empty() { ", and printed nothing" } else { ", and printed: " },
            clean_lines(output.trim())
        )))
    }

    /// Requires that the program of `--check`, if given by a path, is an executable file on this machine, or a file of
    /// `tree`.
    fn require_checker(&self, tree: &Tree) -> Result<(), Failure> {
        match self.flags.check.as_deref().and_then(|check| unusable(check, Some(tree))) {
            Some(why) => Err(Failure::input(format!("--check: {why}"))),
            None => Ok(()),
        }
    }

    /// The checker that `--check` names.
    fn checker(&self) -> Result<Checker<'_>, Failure> {
        let check = self.flags.check.as_deref().unwrap_or("exit 1");
        let words = match check.strip_prefix("sqlite:") {
            Some(database) => {
                let words = [own_program()?.into_os_string(), CHECK_SQLITE.into()];
                words.into_iter().chain(database.splitn(2, ':').map(OsString::from)).collect()
            }
            None => shell(check),
        };
        let time = Duration::from_nanos(self.flags.check_time);
        let (words, time) = match self.place {
            Place::Folder => (words, time),
            Place::Guest(guest) => (guest.checker(&words, time), time + guest::START_TIME),
        };
        Ok(Checker::new(self.folders, program(words, time, &Arc::default())))
    }

    /// Checks a single state, or starts a shell in it.
    fn one_state(&self, history: History, state: &StateName) -> Result<ExitCode, Failure> {
        let folders = self.folders;
        let check = self.checker()?;
        let Replayed { tree, acknowledged } =
            replay(self.carried_out(history)?, &self.plan()?, state, &check)
                .map_err(|e| Failure::input(e.to_string()))?;
        if self.flags.shell {
            let folder = folders.add(FOLDER, tree, false, None);
            let shell = std::env::var_os("SHELL").unwrap_or_else(|| "sh".into());
            let promise = folders.add("promise", promise(&acknowledged), false, None);
            let status = Command::new(shell)
                .current_dir(&folder)
                .env("IODYNO_DIR", &folder)
                .env(ACKNOWLEDGED, promise.join(PROMISE))
                .status();
            let status = status.map_err(|e| Failure::target(format!("no shell: {e}")))?;
            return Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)));
        }
        let (verdict, output) = iodyno_crashtest::judge_once(&check, &tree, &acknowledged)
            .map_err(|e| Failure::target(e.to_string()))?;
        if verdict != Verdict::Consistent {
            self.require_checker(&tree)?;
        }
        let output = String::from_utf8_lossy(&output);
        let mut text = format!("{}  state {state}\n", verdict.word());
        for line in output.lines() {
            text.extend(["  ", &clean(line), "\n"]);
        }
        print(&text)?;
        Ok(match verdict {
            Verdict::Consistent => ExitCode::SUCCESS,
            _ => ExitCode::from(WRONG_STATES),
        })
    }
}

/// Checks a database, for `crashtest --check sqlite:FILE`, which runs this command on each state.
pub(crate) fn check_sqlite(file: &Path, query: Option<&str>) -> Result<ExitCode, Failure> {
    // Without a query nothing checks what was printed: a file that is not read counts as not checked.
    let acknowledged = match std::env::var_os(ACKNOWLEDGED).filter(|_| query.is_some()) {
        Some(promised) => read_text(Path::new(&promised), record::FILE_BYTES_MAX)
            .map_err(|e| unreadable(Path::new(&promised), &e))?,
        None => String::new(),
    };
    match judge_sqlite(file, query, &acknowledged) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err((verdict, why)) => {
            print(&format!("{} {}\n", verdict.word(), clean_lines(&why)))?;
            Ok(ExitCode::FAILURE)
        }
    }
}
