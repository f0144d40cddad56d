//! `fit`: fits an emulated device to a real one, from new measurements, a stored run, or published figures.

use crate::args::{Cli, Fit};
use crate::console::{print, print_json, remark};
use crate::failure::{Failure, METHOD_FAILED};
use crate::live::{Live, LiveLine};
use crate::request::{MAX_ERRORS, process, stored};
use crate::{ranks, report, show, signals, style};
use iodyno_catalog::input::read_text;
use iodyno_catalog::{File, Kind, MAX_FILE_BYTES, Problem};
use iodyno_drive::EngineOptions;
use iodyno_emulate::describe::DescribedDevice;
use iodyno_emulate::spec::{Limit, LimitOf};
use iodyno_fit::answer::{self, About};
use iodyno_fit::{
    CONDITIONING, Chosen, Family, FitError, HELD_OUT, Measured, Observed, PrintedFigures, Probe,
    Start, device_file, fit_structures, limit_writes, precondition, probes, steady_probes,
};
use iodyno_measure::{Level, Role};
use iodyno_notebook::{Run, TargetKind, TargetRecord};
use iodyno_page::terminal::{Style, table};
use iodyno_page::{Cell, Column, Table};
use iodyno_run::{Files, ListedCell, RanksRequest, ResolvedRun, RunRequest, Work, described};
use iodyno_targets::output::Output;
use iodyno_targets::{ModelName, TargetName, inspect};
use iodyno_units::text::for_shell;
use iodyno_units::{Precondition, human};
use iodyno_workload::{Spec, Workload};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The whole capacity, in millionths.
const WHOLE_PPM: u32 = 1_000_000;
/// Name under which the measurements of a fit are stored as a run.
const NAME: &str = "fit";
/// Fraction of an SSD's capacity that a fit writes by default: 0.004 % of the rated endurance of a drive with 0.3 drive
/// writes per day for five years.
const WRITES_SHARE: f64 = 0.02;
/// Default duration of a cell's measurement, ns: for a hard disk, whose operations are slow, and for other devices.
const TIME_NS: (u64, u64) = (20_000_000_000, 1_000_000_000);

pub(crate) fn command(
    flags: &Fit,
    cli: &Cli,
    words: &[OsString],
    style: Style,
) -> Result<ExitCode, Failure> {
    if flags.output.is_some() && flags.output == flags.report {
        return Err(Failure::input(
            "-o and --report name the same file: give the page another name",
        ));
    }
    // Detect unwritable files before the work.
    let output = flags.output.as_deref().map(Output::at).transpose()?;
    let page = flags.report.as_deref().map(|file| report::Place::check(Some(file))).transpose()?;
    let Observations { run, target, cells, held_out, likes, starts } =
        match (&flags.figures, &flags.from, &flags.target) {
            (Some(path), ..) => printed(flags, path)?,
            (None, Some(from), _) => of_run(flags, &stored_run(from, cli)?)?,
            (None, None, Some(target)) => {
                let target = in_order(target);
                let probes = planned(flags, &target)?;
                if flags.plan {
                    return print(&plan(&probes, style));
                }
                of_run(flags, &measure(flags, cli, words, &target, probes)?)?
            }
            (None, None, None) => {
                return Err(Failure::input(
                    "give a target to measure, --from RUN, or --figures FILE",
                ));
            }
        };
    let mut live = LiveLine::new(flags.quiet || flags.json);
    live.draw(&format!("fitting {} cells", cells.len()));
    let fitted = fit_structures(&starts, &cells, &held_out);
    live.clear();
    let Chosen { index, fitted, others } = fitted.map_err(|e| match e {
        FitError::Start(why) => Failure::input(why),
        FitError::Interrupted if run.is_empty() => Failure::interrupted(e.to_string()),
        FitError::Interrupted => {
            Failure::interrupted(format!("{e}: fit again with `iodyno fit --from {run}`"))
        }
        FitError::Simulation { .. } => {
            Failure::input(format!("{e}. Start from another device with --like"))
        }
    })?;
    let named = |(other, ratio): (usize, f64)| (likes[other].device.name.clone(), ratio);
    let others = others.into_iter().map(named).collect();
    let (like, start) = (&likes[index], &starts[index]);
    let text = device_file(&fitted, like, start, &run, &target);
    let file = write(output, &text)?;
    let about = About { target, run, like: like.device.name.clone(), others, file };
    if let Some(page) = page {
        let words = words.iter().skip(1).map(|word| for_shell(&word.to_string_lossy()));
        let command = format!("iodyno {}", words.collect::<Vec<_>>().join(" "));
        let page_of = answer::document(&fitted, &cells, &about, &report::made_by(), &command);
        report::write(&page_of, page.output("fit.html")?)?;
    }
    let code = if flags.json {
        print_json(&answer::json(&fitted, &cells, &about))?
    } else {
        print(&answer::show(&fitted, &cells, &about, style))?
    };
    let is_usable = !fitted.is_misfit() && !fitted.is_worthless();
    Ok(if is_usable { code } else { ExitCode::from(METHOD_FAILED) })
}

/// Input of a fit: the cells, and the devices to start from.
struct Observations {
    /// Id of the run; empty for printed figures.
    run: String,
    /// Name of the measured target, or title of the printed figures.
    target: String,
    cells: Vec<Measured>,
    held_out: Vec<Measured>,
    /// Candidate devices. Each has a starting point in `starts`.
    likes: Vec<DescribedDevice>,
    starts: Vec<Start>,
}

/// Observations from the cells of a stored run.
fn of_run(flags: &Fit, run: &Run) -> Result<Observations, Failure> {
    let (target, cells, held_out) = cells(run, flags.doubtful)?;
    let likes = likes(flags, target)?;
    let starts = likes.iter().map(|like| start(flags, target, like)).collect();
    let (run, target) = (run.id.clone(), target.name.clone());
    Ok(Observations { run, target, cells, held_out, likes, starts })
}

/// Observations from a file of printed figures, such as those of a data sheet.
fn printed(flags: &Fit, path: &Path) -> Result<Observations, Failure> {
    let name = path.display().to_string();
    let text = read_text(path, MAX_FILE_BYTES).map_err(|e| {
        Failure::input(format!("{name}: {e}: give --figures the path of a TOML file"))
    })?;
    let find = |name: &str| match iodyno_run::find_work::workload(name) {
        Ok((_, Workload::Single(spec))) => Ok(*spec),
        Ok(_) => Err(format!("`{name}` has several jobs, but a figure takes one workload")),
        Err(problem) => Err(problem.message().to_owned()),
    };
    let figures = PrintedFigures::from_toml(&text, &find).map_err(|errors| {
        Problem::of(&File::at_path(Kind::Device, &name, text.as_str()), &errors)
    })?;
    let (held_out, cells): (Vec<Measured>, Vec<Measured>) =
        figures.cells.into_iter().partition(|cell| cell.name.starts_with(HELD_OUT));
    if cells.is_empty() {
        return Err(Failure::input(format!(
            "{name}: all figures are held out: add some whose name does not begin with {HELD_OUT}"
        )));
    }
    let like = flags.like.as_deref().unwrap_or_default();
    let start = Start {
        target: format!("model:{}", like.strip_prefix("model:").unwrap_or(like)),
        capacity_bytes: figures.capacity_bytes,
        seed: flags.seed.wrapping_add(1),
        stop: signals::stop_flag(),
    };
    Ok(Observations {
        run: String::new(),
        target: figures.title,
        cells,
        held_out,
        likes: vec![device(like)?],
        starts: vec![start],
    })
}

fn stored_run(selector: &str, cli: &Cli) -> Result<Run, Failure> {
    let notebook = show::open(cli.notebook.as_deref())?.ok_or_else(show::no_notebook)?;
    let mut runs = notebook.load_several(selector)?;
    runs.pop().ok_or_else(|| Failure::input(format!("no run `{selector}`")))
}

/// Sets `state=sequential` for an emulated target whose name has no state. All cells then find the same state, as on a
/// real target, which is written in order first.
fn in_order(target: &TargetName) -> TargetName {
    let mut target = target.clone();
    if let TargetName::Model(name) = &mut target
        && name.state == Precondition::Workload
    {
        name.state = Precondition::Sequential;
    }
    target
}

/// The cells to measure on a target.
fn planned(flags: &Fit, target: &TargetName) -> Result<Vec<Probe>, Failure> {
    let found = iodyno_run::emulated(std::slice::from_ref(target), &mut Files::default())?;
    if let Some(count) = found.map(|it| it.volumes.len()).filter(|count| *count != 1) {
        return Err(Failure::input(format!(
            "`{target}` is {count} volumes, but a fit takes one: leave `*{count}` out"
        )));
    }
    let family = match (&flags.like, target) {
        (Some(like), _) => Family::of(&device(like)?.device.kind),
        (None, TargetName::Model(name)) => {
            let first = described(name)?.into_iter().next();
            first.map_or(Family::Volume, |device| Family::of(&device.device.kind))
        }
        (None, target) => of_inspected(target)?,
    };
    let time_ns = if family == Family::Disk { TIME_NS.0 } else { TIME_NS.1 };
    let mut cells = probes(family, flags.time.unwrap_or(time_ns), flags.read_only);
    let wears = family == Family::Flash && matches!(target, TargetName::Path { .. });
    let of_capacity = || {
        let inspected =
            inspect(target).ok().filter(|it| wears && it.kind == iodyno_targets::Kind::Block)?;
        Some((inspected.whole_bytes? as f64 * WRITES_SHARE) as u64)
    };
    if flags.writes == Some(0) {
        return Err(Failure::input("--writes must be above 0: to write nothing, use --read-only"));
    }
    if let Some(bytes) = flags.writes.or_else(of_capacity) {
        limit_writes(&mut cells, bytes);
    }
    if flags.steady {
        cells.extend(steady_probes(overwritten_bytes(target)?, flags.time.unwrap_or(time_ns)));
    }
    Ok(cells)
}

/// Size of the target that --steady overwrites, bytes. Fails for an emulated target, and if the size is unknown.
fn overwritten_bytes(target: &TargetName) -> Result<u64, Failure> {
    if matches!(target, TargetName::Model(_)) {
        return Err(Failure::input(
            "--steady is only for real targets: an emulated target begins in its steady state with `?state=random`",
        ));
    }
    if let TargetName::Path { size_bytes: Some(bytes), .. } = target {
        return Ok(*bytes);
    }
    let size = inspect(target)?.whole_bytes.filter(|bytes| *bytes > 0);
    size.ok_or_else(|| {
        Failure::input(format!("{target}: --steady needs a target with a known size"))
    })
}

fn plan(probes: &[Probe], style: Style) -> String {
    let mut text = iodyno_page::terminal::Lines::new(style);
    let conditioning = probes.iter().find(|probe| probe.name == CONDITIONING);
    let conditioning = conditioning.and_then(|probe| probe.spec.limits().bytes);
    let probes = || probes.iter().filter(|probe| probe.name != CONDITIONING);
    let total_ns: u64 = probes()
        .map(|probe| {
            let limits = probe.spec.limits();
            limits.ramp_ns + limits.time_ns.unwrap_or(0)
        })
        .sum();
    let writing: Vec<&Probe> = probes().filter(|probe| probe.write_share() > 0.0).collect();
    let written = writing.iter().map(|probe| {
        let bytes = probe.spec.limits().bytes?;
        Some((bytes as f64 * probe.write_share()).ceil() as u64)
    });
    let at_most = match written.sum::<Option<u64>>() {
        _ if writing.is_empty() => String::new(),
        Some(bytes) => format!(", at most {} in total, not counting ramps", human::size(bytes)),
        None => ", as fast as the target can; --writes limits the amount".to_owned(),
    };
    text.heading(
        &format!("{} cells, {}", probes().count(), human::duration_ns(total_ns)),
        &format!("{} of them write{at_most}", writing.len()),
    );
    let mut cells =
        Table::new([Column::label("cell"), Column::words("time"), Column::words("writes")]);
    for probe in probes() {
        let limits = probe.spec.limits();
        let time_ns = limits.ramp_ns + limits.time_ns.unwrap_or(0);
        let writes = match (probe.write_share(), limits.bytes) {
            (0.0, _) => Cell::none(),
            (share, Some(bytes)) => Cell::words(format!(
                "at most {}",
                human::size((bytes as f64 * share).ceil() as u64)
            )),
            (share, None) => Cell::words(format!("{} of its operations", human::percent(share, 0))),
        };
        cells.push([Cell::words(&probe.name), Cell::words(human::duration_ns(time_ns)), writes]);
    }
    for line in table::lines(&cells, style) {
        text.line(&line);
    }
    text.blank();
    if let Some(bytes) = conditioning {
        text.line(&format!(
            "Before the cells named steady-*, random writes overwrite the target twice: {}, which takes as long as the target needs.",
            human::size(bytes)
        ));
    }
    text.line(&format!(
        "Cells named {HELD_OUT}* are held out: they score the twin, and are not used to fit it."
    ));
    text.end()
}

/// Measures the cells, and returns the stored run.
fn measure(
    flags: &Fit,
    cli: &Cli,
    words: &[OsString],
    target: &TargetName,
    probes: Vec<Probe>,
) -> Result<Run, Failure> {
    let cells = probes.into_iter().map(|probe| ListedCell::new(probe.name, probe.spec)).collect();
    let request = RunRequest {
        name: NAME.to_owned(),
        changed: None,
        work: Work::Cells(cells),
        repeats: 1,
        thresholds: Vec::new(),
        targets: vec![target.clone()],
        folder: std::env::current_dir().unwrap_or_default(),
        files: Files::default(),
        seed: flags.seed,
        engine: flags.engine,
        options: EngineOptions::default(),
        processors: None,
        system_clock: false,
        // Intervals show how much neighbouring operations have in common.
        interval_ns: flags.time.map(|time_ns| (time_ns / 20).max(1_000_000)),
        errors_max: MAX_ERRORS,
        read_only: flags.read_only,
        destroy: flags.destroy.clone(),
        shard: None,
        ranks: RanksRequest::default(),
        record_trace: None,
    };
    let notebook = ranks::notebook(cli.notebook.as_deref())?;
    let run = ResolvedRun::new(request, process(stored(words), Some(notebook)))?;
    let mut live = Live::new(flags.quiet || flags.json, style::for_stderr(cli.color), None);
    let outcome = iodyno_run::execute(&run, &mut live);
    live.clear();
    let outcome = outcome?;
    if outcome.interrupted {
        let again = match outcome.run.cells.as_slice() {
            [_, _, ..] if outcome.not_kept.is_none() => format!(
                "; `iodyno fit --from {}` fits to the cells that were measured",
                outcome.run.id
            ),
            _ => String::new(),
        };
        return Err(Failure::interrupted(format!(
            "the measurement was interrupted: nothing was fitted{again}"
        )));
    }
    if outcome.too_many_errors {
        return Err(Failure::target("too many operations failed: nothing was fitted"));
    }
    if let Some(lost) = &outcome.not_kept {
        remark("note", &Failure::not_kept(lost).words());
    }
    Ok(outcome.run)
}

/// The measured target of a run, the cells to fit to, and the cells held out for validation. A cell with a warning has
/// weight 0 unless `with_doubtful` is set. An invalid cell always has weight 0.
fn cells(
    run: &Run,
    with_doubtful: bool,
) -> Result<(&TargetRecord, Vec<Measured>, Vec<Measured>), Failure> {
    let [target] = run.head.targets.as_slice() else {
        return Err(Failure::input(format!(
            "run {} has {} targets, but a fit takes a run with one",
            run.id,
            run.head.targets.len()
        )));
    };
    let (mut all, mut doubtful, mut codes) = (Vec::new(), 0, BTreeSet::new());
    for cell in &run.cells {
        if cell.is_skipped()
            || cell.key.place.as_ref().is_some_and(|place| place.role != Role::Measure)
            || cell.key.name == CONDITIONING
        {
            continue;
        }
        let verdicts = cell.verdicts.iter().filter(|verdict| verdict.level >= Level::Warning);
        let bad: Vec<&str> = verdicts.map(|verdict| verdict.code.as_str()).collect();
        let is_invalid = cell.level().is_some_and(|level| level >= Level::Invalid);
        if is_invalid || !bad.is_empty() && !with_doubtful {
            doubtful += 1;
            codes.extend(bad);
            continue;
        }
        let record = run.head.workloads.iter().find(|workload| workload.name == cell.key.workload);
        let Some(record) = record else {
            remark("note", &format!("{} has no stored workload, and is not used", cell.key.name));
            continue;
        };
        let spec: Spec = serde_json::from_value(record.spec.clone())
            .map_err(|e| Failure::notebook(format!("the workload of run {}: {e}", run.id)))?;
        all.push(Measured {
            name: cell.key.name.clone(),
            spec,
            precondition: precondition(&cell.key.name),
            observed: Observed::of(cell),
        });
    }
    let all_count = all.len() + doubtful;
    let (held_out, fitted): (Vec<Measured>, Vec<Measured>) =
        all.into_iter().partition(|cell| cell.name.starts_with(HELD_OUT));
    let codes = codes.into_iter().collect::<Vec<_>>().join(", ");
    if all_count == 0 || doubtful == 0 && fitted.is_empty() {
        return Err(Failure::input(format!(
            "run {} has no cell to fit to: measure one whose name does not begin with {HELD_OUT}",
            run.id
        )));
    }
    if doubtful > all_count / 2 || fitted.is_empty() {
        let (what, remedy) = if with_doubtful {
            ("are invalid", String::new())
        } else {
            let remedy =
                format!(". --from {} --doubtful uses all cells that are not invalid", run.id);
            ("have warnings", remedy)
        };
        // An emulated target is always quiet.
        let again = if target.name.starts_with("model:") {
            "measure for longer (--time), and a volume with burst credits with credits=0"
        } else {
            "measure again when the machine and the target are quiet"
        };
        return Err(Failure::method(format!(
            "{doubtful} of {all_count} cells of run {} {what} ({codes}), so nothing was fitted: {again}{remedy}",
            run.id
        )));
    }
    if doubtful > 0 {
        let cells = human::counted(doubtful as u64, "cell");
        remark("note", &format!("{cells} not used because of {codes}"));
    }
    Ok((target, fitted, held_out))
}

/// Candidate devices: that of --like, or those of the target's family.
fn likes(flags: &Fit, target: &TargetRecord) -> Result<Vec<DescribedDevice>, Failure> {
    match &flags.like {
        Some(name) => Ok(vec![device(name)?]),
        None => of_record(target).devices().iter().map(|name| device(name)).collect(),
    }
}

fn device(name: &str) -> Result<DescribedDevice, Failure> {
    let name = name.strip_prefix("model:").unwrap_or(name);
    let parsed = TargetName::parse(&format!("model:{name}"));
    let Ok(TargetName::Model(ModelName { arrays, .. })) = &parsed else {
        return Err(Failure::input(format!(
            "`{name}` is not a device of the catalog or a device file"
        )));
    };
    if !arrays.is_empty() {
        return Err(Failure::input(format!("`{name}` is an array, but a fit takes one device")));
    }
    let Ok(TargetName::Model(model)) = parsed else { unreachable!("matched above") };
    let mut all = described(&model)?;
    let twice = |device: &DescribedDevice| {
        let limits = &device.device.limits;
        let same = |a: &Limit, b: &Limit| a.counts == b.counts;
        limits.iter().any(|limit| limit.of != LimitOf::All)
            || limits.iter().enumerate().any(|(i, a)| limits[..i].iter().any(|b| same(a, b)))
    };
    if all.iter().any(twice) {
        return Err(Failure::input(format!(
            "`{name}` has several limits of the same kind, but a fit needs one of each: use --like virtual-disk"
        )));
    }
    match all.len() {
        1 => Ok(all.remove(0)),
        0 => Err(Failure::input(format!(
            "`{name}` is a system without devices: name a device; `iodyno catalog` lists them"
        ))),
        n => Err(Failure::input(format!("`{name}` has {n} devices, but a fit takes one"))),
    }
}

/// Family of a target, from the properties stored with a run.
fn of_record(target: &TargetRecord) -> Family {
    let described = target.description();
    if let Some(family) = described.emulated.family.as_deref() {
        let of = |word: &str| Family::ALL.into_iter().find(|family| family.name() == word);
        return of(family).unwrap_or(Family::Volume);
    }
    let device = described.physical.first().unwrap_or(&described.device);
    of_facts(described.kind, device.kernel_name.as_deref(), device.rotational)
}

/// Family of a target that has not been measured yet, from an inspection.
fn of_inspected(target: &TargetName) -> Result<Family, Failure> {
    let facts = serde_json::to_value(inspect(target)?)
        .map_err(|e| Failure::input(format!("{target}: {e}")))?;
    Ok(of_record(&TargetRecord { name: target.to_string(), facts, ..TargetRecord::default() }))
}

fn of_facts(kind: TargetKind, kernel_name: Option<&str>, rotational: Option<bool>) -> Family {
    let name = kernel_name.unwrap_or_default();
    let is = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    match kind {
        TargetKind::Ram | TargetKind::Null => Family::Memory,
        _ if is(&["pmem", "ram", "zram"]) => Family::Memory,
        _ if is(&["vd", "xvd", "nbd", "loop", "rbd"]) => Family::Volume,
        _ if rotational == Some(true) => Family::Disk,
        _ if is(&["nvme", "sd", "mmcblk"]) => Family::Flash,
        _ => Family::Volume,
    }
}

/// Starting point of the fit: a device in the state in which the target was measured.
fn start(flags: &Fit, target: &TargetRecord, like: &DescribedDevice) -> Start {
    let described = target.description();
    let name = flags.like.as_deref().unwrap_or(&like.device.name);
    let name = name.strip_prefix("model:").unwrap_or(name);
    // Emulated targets were in the state that their name gives; real ones hold data that were written in order.
    let (state, fill) = match TargetName::parse(&target.name) {
        Ok(TargetName::Model(model)) => (model.state.word(), model.fill_ppm),
        _ => (Precondition::Sequential.word(), WHOLE_PPM),
    };
    Start {
        target: format!("model:{name}?state={state}&fill={}%", f64::from(fill) / 1e4),
        capacity_bytes: described.opened_bytes.or(described.size_bytes),
        seed: flags.seed.wrapping_add(1),
        stop: signals::stop_flag(),
    }
}

/// Writes the device file, and returns its path; `None` without --output.
fn write(output: Option<Output>, text: &str) -> Result<Option<String>, Failure> {
    let Some(output) = output else { return Ok(None) };
    iodyno_emulate::describe::device("twin", text).map_err(|errors| {
        let rules: Vec<String> = errors.iter().map(|error| error.message.clone()).collect();
        Failure::input(format!(
            "the twin would not be a valid device ({}), so no file was written: start from another device with --like",
            rules.join("; ")
        ))
    })?;
    // A bare name would be looked up in the catalog.
    let shown = output.path().display().to_string();
    let shown = if shown.contains('/') { shown } else { format!("./{shown}") };
    output.write(text.as_bytes())?;
    Ok(Some(shown))
}
