//! Workloads of other tools (job files of fio, command lines of sysbench, diskspd and `amps_bio_perf_test`, parameter
//! files of vdbench): implements `convert`, and builds the request of `run` for such a workload.

use crate::args::{Convert, Run};
use crate::console::{print, remark};
use crate::failure::Failure;
use crate::job_surroundings::{OfConvert, target_of};
use crate::named_work::{Jobs, Workloads};
use crate::overrides::override_all;
use iodyno_exchange::fio::{Job, JobFile, Note};
use iodyno_run::{ListedCell, RunRequest, Work};
use iodyno_targets::output::{Folder, Output};
use iodyno_targets::{Direct, TargetName};
use iodyno_workload::{NewFile, Spec};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

/// For each job whose file is a target of --on: the job's name, and the index of that target. Empty if no job has such
/// a file. If only some jobs have one, returns an error, because the others would run on all targets.
fn own_targets(jobs: &Jobs, flags: &Run) -> Result<BTreeMap<String, usize>, Failure> {
    let mut all = BTreeMap::new();
    let (mut first, mut other) = (None, None);
    for job in jobs.file.jobs() {
        match job.file.as_deref().and_then(|file| target_of(&flags.on, file)) {
            Some(target) => {
                all.insert(job.name.clone(), target);
                first.get_or_insert(job);
            }
            None => other = other.or(Some(job)),
        }
    }
    let (Some(first), Some(other)) = (first, other) else { return Ok(all) };
    let remedy = match (&other.file, &other.filename) {
        (Some(path), _) => format!("give `--on {}` too", path.display()),
        (None, Some(names)) => format!("`{names}` are several files: give each file its own job"),
        (None, None) => "name its device by filename".to_owned(),
    };
    Err(Failure::input(format!(
        "`{}`: the file of job `{}` is a target of --on, but that of job `{}` is not: {remedy}; or use a single --on, which all jobs share",
        jobs.given, first.name, other.name
    )))
}

/// Joins all words from `fio` on into a single argument, as in `iodyno run fio --name=a --rw=read`.
pub(crate) fn joined(words: Vec<OsString>) -> Vec<OsString> {
    let command = words.iter().position(|word| word == "run" || word == "convert");
    let Some(command) = command else { return words };
    let fio =
        (command + 1..words.len()).find(|at| words[*at] == "fio" && words[at - 1] != "--name");
    let Some(fio) = fio.filter(|at| at + 1 < words.len()) else { return words };
    let quote = |word: &OsString| {
        let text = word.to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,%@+".contains(c);
        if !text.is_empty() && text.chars().all(is_plain) {
            return text.into_owned();
        }
        format!("'{}'", text.replace('\'', "'\\''"))
    };
    let line: Vec<String> = words[fio..].iter().map(quote).collect();
    let mut joined = words[..fio].to_vec();
    joined.push(line.join(" ").into());
    joined
}

/// Executes `iodyno convert`: prints the workloads of a job file, or writes them to files.
pub(crate) fn convert(flags: &Convert) -> Result<ExitCode, Failure> {
    let file = iodyno_exchange::read(&flags.job, flags.section.as_slice(), &OfConvert)?;
    let jobs: Vec<&Job> = file.jobs().collect();
    if flags.lint {
        let traps = each_once(&jobs, |job| &job.traps);
        let lines = traps.iter().map(|trap| format!("{}: {}\n", trap.at, trap.words));
        return print(&lines.collect::<String>());
    }
    for trap in each_once(&jobs, |job| &job.traps) {
        remark("note", &format!("{}: {}", trap.at, trap.words));
    }
    match (&flags.out, jobs.as_slice()) {
        (None, [job]) => print(&workload_file(job)),
        (None, _) => Err(Failure::input(format!(
            "`{}` has {} jobs: name one with --section, convert each to a file with -o FOLDER, or run them all with `iodyno run {}`",
            flags.job,
            jobs.len(),
            flags.job
        ))),
        (Some(path), [job]) => {
            Output::at(path)?.write(workload_file(job).as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        (Some(path), _) => {
            let folder = Folder::make(path)?;
            for job in jobs {
                let name = job.name.replace(['/', '\\'], "_");
                folder.output(&format!("{name}.toml"))?.write(workload_file(job).as_bytes())?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The target option that selects the page cache mode of the job; None for direct I/O, the
/// default.
fn page_cache(job: &Job) -> Option<&'static str> {
    let option = if job.uncached { "uncached=yes" } else { "direct=no" };
    (!job.direct).then_some(option)
}

/// Formats a job's workload as a workload file, with the required flags of `run` and all notes as comments.
fn workload_file(job: &Job) -> String {
    let mut text = String::new();
    let mut flags = String::new();
    if let Some(engine) = job.engine {
        let _ = write!(flags, " --engine {engine}");
    }
    if let Some(path) = &job.filename {
        let cached = page_cache(job).map_or(String::new(), |option| format!("?{option}"));
        let _ = write!(flags, " --on {path}{cached}");
    } else if let Some(option) = page_cache(job) {
        let _ = write!(flags, " --on 'scratch:?{option}'");
    }
    if !flags.is_empty() {
        let _ = writeln!(
            text,
            "# Engine and target are not part of a workload: iodyno run FILE{flags}"
        );
    }
    for note in &job.notes {
        let _ = writeln!(text, "# {}: {}", note.at, note.words);
    }
    // Option values may contain characters that are not allowed in a comment.
    let text: String =
        text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect();
    text + &job.toml
}

fn each_once<'a>(jobs: &[&'a Job], of: impl Fn(&'a Job) -> &'a Vec<Note>) -> Vec<&'a Note> {
    let mut seen = BTreeSet::new();
    jobs.iter().flat_map(|job| of(job)).filter(|note| seen.insert(*note)).collect()
}

/// Prints notes on settings of the jobs whose effect their author may not expect. Omits settings on which the
/// run gives a verdict.
fn show_traps(file: &JobFile) {
    let jobs: Vec<&Job> = file.jobs().collect();
    for trap in each_once(&jobs, |job| &job.traps).into_iter().filter(|trap| !trap.is_judged) {
        remark("note", &format!("{}: {}", trap.at, trap.words));
    }
}

/// Converts jobs to the workloads of a sweep. Jobs that run at the same time are an error.
pub(crate) fn one_by_one(jobs: &Jobs, flags: &Run) -> Result<Workloads, Failure> {
    let workloads = jobs.one_by_one(|first| {
        format!("give --section {first} to vary one job, or separate the jobs by stonewall")
    })?;
    let targets: BTreeSet<usize> = own_targets(jobs, flags)?.into_values().collect();
    if targets.len() > 1 {
        return Err(Failure::input(format!(
            "`{}` has jobs for several targets, but a sweep runs each job on all targets of --on: give --section NAME and only its target",
            jobs.given
        )));
    }
    show_traps(&jobs.file);
    Ok(workloads)
}

/// Cells to run, and descriptions of the changes that flags made to them.
#[derive(Debug)]
pub(crate) struct Cells {
    pub(crate) cells: Vec<ListedCell>,
    pub(crate) changes: Vec<String>,
}

/// Converts jobs to cells: one cell per group of simultaneous jobs, and one per job that verifies the writes
/// of another.
pub(crate) fn cells(jobs: &Jobs, flags: &Run) -> Result<Cells, Failure> {
    let own_targets = own_targets(jobs, flags)?;
    let Jobs { given, file } = jobs;
    show_traps(file);
    let is_alone = file.groups.iter().all(|group| group.len() == 1);
    let takes_others = is_alone && own_targets.is_empty();
    if !flags.with.is_empty() && !takes_others {
        let how = if is_alone { "have separate targets" } else { "run at the same time" };
        let words = format!("`{given}` has jobs that {how}: --with can't add another");
        return Err(Failure::input(words));
    }
    let at_once = |jobs| at_once(jobs, &own_targets);
    let mut changes = Vec::new();
    let mut cells = Vec::new();
    for group in &file.groups {
        let mut members: Vec<_> = group.iter().map(|j| (j.name.clone(), j.spec.clone())).collect();
        for words in override_all(&mut members, flags, false)? {
            if !changes.contains(&words) {
                changes.push(words);
            }
        }
        let specs: Vec<Spec> = members.into_iter().map(|(_, spec)| spec).collect();
        let checks = group
            .iter()
            .zip(&specs)
            .filter_map(|(job, spec)| Some((job, check_of(job, spec, flags)?)));
        let checks: Vec<(&Job, &Job)> = checks.collect();
        cells
            .extend(at_once(group.iter().zip(specs).map(|(job, spec)| (job, job, spec)).collect()));
        for (job, check) in checks {
            cells.extend(at_once(vec![(job, check, check.spec.clone())]));
        }
    }
    Ok(Cells { cells, changes })
}

/// Creates the cell of a group of simultaneous jobs. Each element: the job that names the target, the job to
/// run, and its workload with changes by flags.
fn at_once(
    jobs: Vec<(&Job, &Job, Spec)>,
    own_targets: &BTreeMap<String, usize>,
) -> Option<ListedCell> {
    let mut members = jobs.into_iter().map(|(of, job, spec)| ListedCell {
        only_on: own_targets.get(&of.name).copied(),
        engine: job.engine.map(str::to_owned),
        drop_cache: job.drop_cache,
        ..ListedCell::new(job.name.clone(), spec)
    });
    let first = members.next()?;
    Some(ListedCell { beside: members.collect(), ..first })
}

/// Returns the job that verifies what `job` wrote. None if there is no such job, if no target stores content,
/// or if flags changed the workload.
fn check_of<'a>(job: &'a Job, spec: &Spec, flags: &Run) -> Option<&'a Job> {
    let check = job.check.as_deref().filter(|_| flags.on.iter().any(keeps_content))?;
    if job.spec == *spec && flags.with.is_empty() {
        return Some(check);
    }
    // The job may not have written everything.
    let words = format!(
        "job `{}` is not verified, because flags change its workload; verify the target with `iodyno run --verify-only`",
        job.name
    );
    remark("note", &words);
    None
}

/// Whether the target stores content, so that reads return what was written.
const fn keeps_content(target: &TargetName) -> bool {
    !matches!(target, TargetName::Null { .. } | TargetName::Model(_))
}

/// Highest address at which a job ends, bytes. It becomes the size of a scratch file. 0 if no job states its end.
fn end_bytes(file: &JobFile) -> u64 {
    let end = |job: &Job| {
        let step = job.spec.worker_step_bytes().unwrap_or(0);
        let moved = step.saturating_mul(u64::from(job.spec.threads()) - 1);
        // On an unlimited target nothing is rounded away.
        job.spec
            .active()
            .is_in_bytes()
            .then(|| job.spec.active_on(u64::MAX).1.saturating_add(moved))
    };
    file.jobs().filter_map(end).max().unwrap_or(0)
}

/// Makes the run fill its new files before the jobs start, so that the jobs overwrite, as in fio. A job may extend or
/// allocate a new file only if it is the only job and the run creates all files.
fn keep_written(file: &JobFile, request: &mut RunRequest) -> Result<(), Failure> {
    let is_new = |target: &TargetName| match target {
        TargetName::Scratch { .. } => true,
        TargetName::Path { path, .. } => !request.folder.join(path).exists(),
        _ => false,
    };
    if request.targets.iter().all(is_new) && file.jobs().count() == 1 {
        return Ok(());
    }
    let Work::Cells(cells) = &mut request.work else { return Ok(()) };
    for cell in cells {
        for spec in
            core::iter::once(&mut cell.spec).chain(cell.beside.iter_mut().map(|b| &mut b.spec))
        {
            if spec.new_file() != NewFile::Written {
                *spec = spec.clone().with_new_file(NewFile::Written).map_err(Failure::input)?;
            }
        }
    }
    Ok(())
}

/// Applies the jobs' engine and page cache mode to files and devices, and sets the size of scratch files that
/// have none.
pub(crate) fn on_targets(
    jobs: &Jobs,
    flags: &Run,
    request: &mut RunRequest,
) -> Result<(), Failure> {
    let Jobs { given, file } = jobs;
    let is_real =
        |t: &TargetName| matches!(t, TargetName::Path { .. } | TargetName::Scratch { .. });
    if !request.targets.iter().any(is_real) {
        return Ok(());
    }
    let end_bytes = end_bytes(file);
    for target in &mut request.targets {
        if let TargetName::Scratch { size_bytes: size @ None, .. } = target
            && end_bytes > 0
        {
            *size = Some(end_bytes.checked_next_multiple_of(1 << 20).unwrap_or(end_bytes));
        }
    }
    keep_written(file, request)?;
    let differ = |what: &str, remedy: &str| {
        Failure::input(format!(
            "the jobs of `{given}` have different {what}, but a run has one: {remedy}, or `iodyno convert --section NAME` for one of them"
        ))
    };
    let engines: BTreeSet<_> = file.jobs().map(|job| job.engine).collect();
    let is_chosen =
        flags.given.has("engine") || flags.vary.iter().any(|v| v.starts_with("engine="));
    if matches!(request.work, Work::Method { .. }) && engines.len() > 1 && !is_chosen {
        return Err(differ("engines", "give --engine"));
    }
    if !flags.given.has("engine") && request.targets.iter().all(is_real) && engines.len() == 1 {
        let named = engines.first().copied().flatten();
        request.engine = named.and_then(|name| name.parse().ok());
    }
    if let (Some(engine), Work::Cells(cells)) = (request.engine, &mut request.work)
        && !engine.queues()
    {
        // A fill before the jobs uses their engine.
        for fill in cells.iter_mut().filter(|cell| cell.fill_passes.is_some()) {
            fill.spec = fill.spec.clone().with_depth(1).map_err(Failure::input)?;
        }
    }
    for target in &mut request.targets {
        let (TargetName::Path { direct, .. } | TargetName::Scratch { direct, .. }) = target else {
            continue;
        };
        if *direct != Direct::Auto {
            continue;
        }
        let ways: BTreeSet<_> = file.jobs().map(|job| (job.direct, job.uncached)).collect();
        match (ways.len(), ways.first()) {
            (1, Some((false, true))) => *direct = Direct::Uncached,
            (1, Some((false, false))) => *direct = Direct::Off,
            (1, _) => {}
            _ => {
                return Err(differ(
                    "values of direct",
                    "append `?direct=yes` or `?direct=no` to the target",
                ));
            }
        }
    }
    Ok(())
}
