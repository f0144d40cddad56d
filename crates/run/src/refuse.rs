//! Refuses impossible combinations: engine and depth, engine and target, workload and target, workload and the
//! capabilities of an NBD server. All checks precede the first write to a target or the notebook, so that a run does
//! not fail after hours of laying out files.

use crate::open_targets::OpenTarget;
use crate::outcome::RunError;
use crate::plan::Plan;
use crate::resolved_run::ResolvedRun;
use crate::watch::Watch;
use iodyno_drive::{DriveError, EngineKind, INTERVAL_NS_MAX, INTERVAL_NS_MIN, INTERVALS_MAX};
use iodyno_notebook::CELLS_PLANNED_MAX;
use iodyno_targets::{SysRoot, memory_available_bytes};
use iodyno_units::{OpKind, human};
use iodyno_workload::{
    ArrivalKind, CellSpec, Content, Edge, Geometry, MAX_THREADS, Percent, Shared, Spec,
};

/// Refuses requests that are impossible whatever the targets are.
pub(crate) fn impossible(run: &ResolvedRun) -> Result<(), RunError> {
    interval(run)?;
    recording(run)?;
    if run.request.system_clock && run.emulated.as_ref().is_some_and(|of| !of.live) {
        return Err(RunError::Impossible(
            "--system-clock has no effect on emulated targets in virtual time, where no clock is read: leave it out".to_owned(),
        ));
    }
    run.cells.iter().try_for_each(beside)?;
    if !run.process.ranks.is_alone() && run.loads().any(|cell| cell.only_on.is_some()) {
        return Err(RunError::Impossible(
            "jobs that each have their own target must run in one process: run them without --ranks, or give each job its own run".to_owned(),
        ));
    }
    let ring_only =
        [("--poll", run.request.options.poll), ("--plain-ring", run.request.options.plain)];
    let ring_only = ring_only.into_iter().find(|(_, given)| *given);
    if let (Some((flag, _)), Some(engine)) = (ring_only, run.request.engine)
        && engine != EngineKind::Uring
    {
        return Err(RunError::Impossible(format!(
            "{flag} works only with the uring engine, but --engine is {}: leave one of them out",
            engine.name()
        )));
    }
    let engine_of = |cell: &CellSpec| -> Option<EngineKind> {
        run.request.engine.or_else(|| cell.engine.as_deref()?.parse().ok())
    };
    match run.loads().find_map(|cell| Some((cell, one_at_a_time(engine_of(cell)?, &cell.spec)?))) {
        None => Ok(()),
        Some((cell, why)) => Err(RunError::Impossible(format!("{}: {why}", cell.name))),
    }
}

/// Refuses simultaneous workloads that interfere with each other.
fn beside(cell: &CellSpec) -> Result<(), RunError> {
    let loads = || core::iter::once(cell).chain(&cell.beside);
    let impossible = |why: String| Err(RunError::Impossible(why));
    if let Some(fill) = loads().find(|load| load.fill_passes.is_some() && !cell.beside.is_empty()) {
        return impossible(format!(
            "`{}` is a fill, which can't run at the same time as other workloads: run it first",
            fill.workload
        ));
    }
    if let Some(several) = cell.beside.iter().find(|load| !load.beside.is_empty()) {
        return impossible(format!(
            "`{}` consists of several workloads, which can't run at the same time as others",
            several.workload
        ));
    }
    for load in &cell.beside {
        let meets = |other: &CellSpec| load.only_on.is_none_or(|target| other.is_on(target));
        if let Some(other) =
            loads().find(|other| meets(other) && meet_verified(&load.spec, &other.spec))
        {
            return impossible(format!(
                "`{}` and `{}` can't run at the same time: one of them would overwrite content that the other verifies",
                other.workload, load.workload
            ));
        }
    }
    Ok(())
}

/// Whether two workloads conflict: one verifies content, one writes, and their active ranges may overlap.
fn meet_verified(a: &Spec, b: &Spec) -> bool {
    if core::ptr::eq(a, b) || [a, b].iter().all(|spec| spec.content() != Content::Verifiable) {
        return false;
    }
    if [a, b].iter().all(|spec| !spec.changes_content()) {
        return false;
    }
    // Ranges that are all in bytes, or all in shares, compare the same on any target.
    let edges = [a, b].map(|spec| (spec.active().start, spec.active().end));
    let is_in_bytes = [a, b].iter().all(|spec| spec.active().is_in_bytes());
    let is_share = |edge: &Edge| matches!(edge, Edge::Share(_));
    let is_in_shares = edges.iter().all(|(start, end)| is_share(start) && is_share(end));
    let capacity_bytes = match (is_in_bytes, is_in_shares) {
        (true, _) => u64::MAX,
        (_, true) => 1 << 50,
        _ => return true,
    };
    let [a_at, b_at] = [a, b].map(|spec| iodyno_drive::active_range(spec, capacity_bytes));
    a_at.end > b_at.start && b_at.end > a_at.start
}

/// Explains that a synchronous engine can't keep a workload's depth; None if the engine can.
fn one_at_a_time(engine: EngineKind, spec: &Spec) -> Option<String> {
    let closed = matches!(spec.arrivals(), ArrivalKind::Closed { .. });
    if engine.queues() || spec.depth() <= 1 || !closed {
        return None;
    }
    let all = spec.depth().saturating_mul(spec.threads());
    let workers = if all <= MAX_THREADS {
        format!("for the same number of outstanding I/Os use `--depth 1 --threads {all}` or")
    } else {
        format!("use `--depth 1` with at most {MAX_THREADS} --threads, or")
    };
    Some(format!(
        "the {name} engine does one I/O at a time, so depth {depth} is not possible: {workers} `--engine libaio`",
        name = engine.name(),
        depth = spec.depth(),
    ))
}

/// Refuses a recording interval that is out of range, or that would give a cell too many intervals.
fn interval(run: &ResolvedRun) -> Result<(), RunError> {
    let Some(ns) = run.request.interval_ns else { return Ok(()) };
    let words = human::duration_ns;
    if !(INTERVAL_NS_MIN..=INTERVAL_NS_MAX).contains(&ns) {
        return Err(RunError::Impossible(format!(
            "--interval must be from {} to {}, not {}",
            words(INTERVAL_NS_MIN),
            words(INTERVAL_NS_MAX),
            exactly(ns)
        )));
    }
    let longest = run.cells.iter().filter_map(|cell| cell.spec.limits().time_ns).max();
    let longest_ns = longest.unwrap_or(0);
    if longest_ns / ns > INTERVALS_MAX {
        return Err(RunError::Impossible(format!(
            "{} in intervals of {} are more than {INTERVALS_MAX} intervals, all of which must be stored: use --interval {} or longer",
            words(longest_ns),
            words(ns),
            words(longest_ns.div_ceil(INTERVALS_MAX).next_multiple_of(INTERVAL_NS_MIN))
        )));
    }
    Ok(())
}

/// Refuses a run with more cells than could later be read into memory. For a method that repeats rounds until a steady
/// state, the minimum number of cells decides; if only the maximum is too large, the user gets advice.
pub(crate) fn too_many_cells(
    run: &ResolvedRun,
    plan: &Plan,
    targets: usize,
    watch: &mut dyn Watch,
) -> Result<(), RunError> {
    if run.process.notebook.is_none() {
        return Ok(());
    }
    // A step yields one cell per target, and a merged one if there are several targets.
    let of_a_step = if targets > 1 { targets as u64 + 1 } else { 1 };
    let (least, most) = match (&run.method, &plan.budget) {
        (Some(of), Some(budget)) => {
            let of_a_step = if of.each { targets as u64 } else { of_a_step };
            (budget.cells_min.saturating_mul(of_a_step), budget.cells_max.saturating_mul(of_a_step))
        }
        _ => (plan.cells as u64 * of_a_step, plan.cells as u64 * of_a_step),
    };
    let words = |cells: u64| {
        format!(
            "a run of {cells} cells ({of_a_step} per step), but only {CELLS_PLANNED_MAX} are certain to fit a notebook"
        )
    };
    if least > CELLS_PLANNED_MAX as u64 {
        return Err(RunError::Impossible(format!(
            "this is {}: make several runs with fewer targets, steps or repeats each, or use --no-notebook and get the results with --json",
            words(least)
        )));
    }
    if most > CELLS_PLANNED_MAX as u64 {
        watch.advise(&format!("this may become {}", words(most)));
    }
    Ok(())
}

/// Formats a duration without rounding: `500 µs`.
fn exactly(ns: u64) -> String {
    match ns {
        ns if ns.is_multiple_of(1_000_000_000) => human::duration_ns(ns),
        ns if ns.is_multiple_of(1_000_000) => format!("{} ms", ns / 1_000_000),
        ns if ns.is_multiple_of(1000) => format!("{} µs", ns / 1000),
        ns => format!("{ns} ns"),
    }
}

/// Refuses cells that are impossible on the inspected targets.
pub(crate) fn misfits(run: &ResolvedRun, open_targets: &[OpenTarget]) -> Result<(), RunError> {
    memory(run, open_targets)?;
    for (number, open_target) in open_targets.iter().enumerate() {
        engine(run, open_target)?;
        // A method skips cells that do not fit, and records that; it fails only if none fits.
        if run.method.is_some()
            && run
                .cells
                .iter()
                .any(|c| misfit(run, &c.spec, None, core::slice::from_ref(open_target)).is_none())
        {
            continue;
        }
        for cell in run.loads().filter(|cell| cell.is_on(number)) {
            crate::fill::check(cell)?;
            nbd(&cell.name, &cell.spec, open_target)?;
            replay(cell, open_target)?;
            let geometry = Geometry {
                capacity_bytes: open_target.medium.capacity_bytes(),
                align_bytes: open_target.align_bytes,
                workers: cell.spec.threads(),
            };
            Shared::new(&cell.spec, run.request.seed, &geometry).map_err(|e| {
                DriveError::DoesNotFit { target: open_target.name.clone(), why: e.to_string() }
            })?;
        }
    }
    Ok(())
}

/// Refuses a trace that is larger than the target, or whose operations are less aligned than the target
/// requires.
fn replay(cell: &CellSpec, open_target: &OpenTarget) -> Result<(), RunError> {
    let Some(replay) = &cell.replay else { return Ok(()) };
    let misfit = |why: String| DriveError::DoesNotFit { target: open_target.name.clone(), why };
    replay.placement(open_target.medium.capacity_bytes()).map_err(|e| misfit(e.to_string()))?;
    let (own, needed) = (cell.spec.align_bytes(), open_target.align_bytes);
    if !own.is_multiple_of(needed) {
        let (own, needed) = (human::size(own.into()), human::exact_size(needed.into()));
        return Err(misfit(format!(
            "the target requires multiples of {needed}, but the operations of the trace are multiples of {own}: enlarge them with `--align {needed}`, or go through the page cache (`PATH?direct=no`)"
        ))
        .into());
    }
    Ok(())
}

/// Refuses to record a trace unless the run has exactly one cell.
fn recording(run: &ResolvedRun) -> Result<(), RunError> {
    let cells = run.cells.iter().filter(|cell| cell.fill_passes.is_none()).count();
    let is_one = cells == 1 && run.method.is_none() && run.request.repeats == 1;
    if run.request.record_trace.is_none() || is_one {
        return Ok(());
    }
    Err(RunError::Impossible(
        "--record-trace records a single cell, but this run has several: run one workload or one group of simultaneous jobs, without repeats".to_owned(),
    ))
}

/// Reason why a method's cell is impossible on its targets; None if it is possible.
pub(crate) fn misfit(
    run: &ResolvedRun,
    spec: &Spec,
    engine: Option<EngineKind>,
    open_targets: &[OpenTarget],
) -> Option<String> {
    if let Some(why) = engine.and_then(|engine| one_at_a_time(engine, spec)) {
        return Some(why);
    }
    open_targets.iter().find_map(|open_target| {
        if let Some(engine) = engine.filter(|engine| !open_target.medium.takes(*engine)) {
            return Some(wrong_engine(engine, open_target));
        }
        if let Err(e) = nbd("", spec, open_target) {
            return Some(e.to_string());
        }
        let geometry = Geometry {
            capacity_bytes: open_target.medium.capacity_bytes(),
            align_bytes: open_target.align_bytes,
            workers: spec.threads(),
        };
        Shared::new(spec, run.request.seed, &geometry)
            .err()
            .map(|e| format!("{}: {e}", open_target.name))
    })
}

/// Refuses cells whose I/O buffers, summed over all workers and real targets, exceed the available memory.
fn memory(run: &ResolvedRun, open_targets: &[OpenTarget]) -> Result<(), RunError> {
    let Some(available_bytes) = memory_available_bytes(&SysRoot::real()) else { return Ok(()) };
    let targets = open_targets.iter().filter(|it| it.medium.moves_bytes()).count() as u64;
    for cell in &run.cells {
        let (mut buffers, mut bytes) = (0, 0_u64);
        for CellSpec { spec, .. } in core::iter::once(cell).chain(&cell.beside) {
            let own = targets * u64::from(spec.threads()) * u64::from(spec.depth());
            buffers += own;
            bytes = bytes.saturating_add(own.saturating_mul(u64::from(spec.max_data_bytes())));
        }
        if bytes > available_bytes / 10 * 9 {
            return Err(RunError::Impossible(format!(
                "{}: {buffers} operations in flight, of up to {} each, need {} of memory for buffers, but only {} are available: use a smaller --depth, --threads or --block",
                cell.name,
                human::size(u64::from(cell.spec.max_data_bytes())),
                human::size(bytes),
                human::size(available_bytes)
            )));
        }
    }
    Ok(())
}

/// Refuses a requested engine that does not work on this kind of target.
fn engine(run: &ResolvedRun, open_target: &OpenTarget) -> Result<(), RunError> {
    if open_target.medium.file().is_none()
        && (run.request.options.poll || run.request.options.plain)
    {
        let flag = if run.request.options.poll { "--poll" } else { "--plain-ring" };
        return Err(RunError::Impossible(format!(
            "{flag} works only with the uring engine, but `{}` has its own engine: leave {flag} out",
            open_target.name
        )));
    }
    match run.request.engine {
        Some(engine) if !open_target.medium.takes(engine) => {
            Err(RunError::Impossible(wrong_engine(engine, open_target)))
        }
        _ => Ok(()),
    }
}

/// Error message for an engine that does not work on a target.
pub(crate) fn wrong_engine(asked: EngineKind, open_target: &OpenTarget) -> String {
    format!(
        "the {} engine does not work on `{}`: leave --engine out, and a suitable engine is chosen",
        asked.name(),
        open_target.name
    )
}

/// Refuses workloads with operations that the NBD server does not advertise, because the protocol forbids
/// their use.
fn nbd(name: &str, spec: &Spec, open_target: &OpenTarget) -> Result<(), RunError> {
    let Some(export) = &open_target.inspection.nbd else { return Ok(()) };
    let refused =
        |why: String| Err(RunError::Impossible(format!("{name} on `{}`: {why}", open_target.name)));
    let unknown = [
        (spec.issues(OpKind::Flush) && !export.flush, "flushes"),
        (spec.issues(OpKind::Trim) && !export.trim, "trims"),
        (spec.issues(OpKind::WriteZeroes) && !export.write_zeroes, "write-zeroes"),
        (
            spec.issues(OpKind::Write) && spec.fua() > Percent::ZERO && !export.fua,
            "writes with FUA",
        ),
    ];
    if let Some((_, what)) = unknown.into_iter().find(|(missing, _)| *missing) {
        return refused(format!(
            "the server does not support {what}: choose a workload without them, or another server"
        ));
    }
    let (block_bytes, most_bytes) = (spec.max_data_bytes(), export.max_payload_bytes);
    if block_bytes > most_bytes {
        return refused(format!(
            "the server accepts at most {} per request, but a block has {}: use a smaller `--block`",
            human::size(most_bytes.into()),
            human::size(block_bytes.into())
        ));
    }
    let threads = spec.threads();
    if threads > 1 && !export.multi_conn && spec.changes_content() {
        return refused(format!(
            "each of its {threads} workers has its own connection, but the server does not guarantee that connections see each other's writes (multi-conn): use `--threads 1 --depth {}` for the same number of outstanding I/Os on one connection, or have the server allow several (`qemu-nbd --shared`)",
            spec.depth().saturating_mul(threads)
        ));
    }
    Ok(())
}
