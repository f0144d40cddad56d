//! Flags of `run` and `explain` that replace a workload's own values.

use crate::args::Run;
use crate::failure::Failure;
use iodyno_units::OpKind;
use iodyno_units::text::listed;
use iodyno_workload::{Block, Content, Percent, Process, Spec};

/// Applies to all members the flags that override settings of a workload. Returns a description of each distinct
/// change. Changes of threads, depth and block sizes are described only if `shape` is true.
pub(crate) fn override_all(
    members: &mut [(String, Spec)],
    flags: &Run,
    shape: bool,
) -> Result<Vec<String>, Failure> {
    let mut changes = Vec::<String>::new();
    for (name, spec) in members {
        let named = spec.clone();
        *spec = overridden(named.clone(), flags)
            .map_err(|why| Failure::input(format!("{name}: {why}")))?;
        for words in spec.changes_from(&named, flags.rate.as_ref(), shape) {
            if !changes.contains(&words) {
                changes.push(words);
            }
        }
    }
    Ok(changes)
}

/// Refuses `--content` if no workload writes, also not by `--read`, a sweep or `--fill`. Verifiable content has an
/// effect on reads, which are verified.
pub(crate) fn check_content(members: &[(String, Spec)], flags: &Run) -> Result<(), Failure> {
    let is_effective = flags.content.is_none_or(|content| content == Content::Verifiable)
        || flags.fill.is_some()
        || flags.vary.iter().any(|axis| axis.starts_with("read=") || axis.starts_with("fill="))
        || members.iter().any(|(_, spec)| spec.issues(OpKind::Write));
    if is_effective {
        return Ok(());
    }
    let names: Vec<String> = members.iter().map(|(name, _)| format!("`{name}`")).collect();
    Err(Failure::input(format!(
        "--content has no effect, because {} writes nothing: take it out, or add --fill",
        listed(&names, "and")
    )))
}

/// Applies the flags that override settings of a workload.
pub(crate) fn overridden(spec: Spec, flags: &Run) -> Result<Spec, String> {
    let mut spec = with_shape(spec, flags.threads, flags.depth, flags.block.as_deref())?;
    if let Some(share) = flags.read {
        spec = spec.with_read_share(share)?;
    }
    if let Some(pattern) = flags.pattern.as_ref().or(flags.zipf.as_ref()).or(flags.hot.as_ref()) {
        spec = spec.with_pattern(pattern.clone())?;
    }
    // After blocks and mix, on which it depends; before the settings of writes, which it may add.
    if let Some(rate) = &flags.rate {
        spec = spec.with_offered(rate, flags.constant.then_some(Process::Constant))?;
    }
    if let Some(writes) = flags.fsync {
        spec = spec.with_flush_every(writes)?;
    }
    if flags.dsync {
        spec = spec.with_fua(Percent::ALL)?;
    }
    if let Some(active) = flags.active {
        spec = spec.with_active(active)?;
    }
    if let Some(content) = flags.content {
        spec = spec.with_content(content)?;
    }
    if let Some(ns) = flags.ramp {
        spec = spec.with_ramp(ns)?;
    }
    if let Some(n) = flags.ops {
        spec = spec.with_ops(n)?;
    }
    if let Some(n) = flags.bytes {
        spec = spec.with_bytes(n)?;
    }
    match flags.time {
        Some(ns) => spec.with_time(ns),
        // A number of operations requests all of them, not only those within the file's time.
        None if flags.ops.is_some() || flags.bytes.is_some() => spec.without_time(),
        None => Ok(spec),
    }
}

/// Overrides threads, outstanding I/Os per thread and block sizes of a workload; None: unchanged.
pub(crate) fn with_shape(
    mut spec: Spec,
    threads: Option<u32>,
    depth: Option<u32>,
    block: Option<&[Block]>,
) -> Result<Spec, String> {
    if let Some(n) = threads {
        spec = spec.with_threads(n)?;
    }
    if let Some(n) = depth {
        spec = spec.with_depth(n)?;
    }
    if let Some(block) = block {
        spec = spec.with_block(block.to_vec())?;
    }
    Ok(spec)
}
