//! Targets of several ranks: which of them are one and the same, who of those that share one opens it first and lays it
//! out, and which part of it each rank has.

use super::vote;
use crate::open_targets::{self, OpenTarget};
use crate::outcome::RunError;
use crate::resolved_run::ResolvedRun;
use crate::watch::Watch;
use iodyno_ranks::Ranks;
use iodyno_target::{
    Confirm, Inspection, Kind, OpenedBy, SysRoot, TargetName, check_writable, confirm, inspect_from,
};
use iodyno_workload::TargetPart;
use serde::{Deserialize, Serialize};

/// The part that this rank has of each of its targets.
pub(crate) type Parts = TargetPart;

/// A target as a rank sees it before anything is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    name: String,
    /// Equal for one and the same target; None for one that belongs to its rank alone.
    identity: Option<String>,
}

/// Opens this rank's targets. Nothing is written before every rank's guard has agreed; a target that ranks share is opened,
/// and laid out, by the first of them before the others open it.
pub(crate) fn open(
    run: &ResolvedRun,
    watch: &mut dyn Watch,
) -> Result<(Vec<OpenTarget>, Parts), RunError> {
    let ranks = &run.process.ranks;
    if ranks.is_alone() || run.is_farmed() {
        return Ok((open_targets::set(run, OpenedBy::ThisProcess)?, TargetPart::WHOLE));
    }
    let own = vote(run, look(run, ranks))?;
    let all: Vec<Vec<Seen>> = ranks.all(&own)?;
    let parts = vote(run, parts_of(run, &all))?;
    let is_shared = parts.of > 1;
    let opened = (parts.index == 0).then(|| {
        let mut targets = open_targets::set(run, OpenedBy::ThisProcess)?;
        if is_shared {
            open_targets::lay_all_out(run, &mut targets, watch)?;
        }
        Ok(targets)
    });
    let (opened, first) = match opened {
        Some(Ok(targets)) => (Some(targets), Ok(())),
        Some(Err(e)) => (None, Err(e)),
        None => (None, Ok(())),
    };
    // The others wait for the first: its file is there then.
    vote(run, first)?;
    let opened = opened.map_or_else(|| open_targets::set(run, OpenedBy::AnotherRank), Ok);
    let mut targets = vote(run, opened)?;
    let host = &ranks.hosts()[ranks.rank() as usize].name;
    for target in &mut targets {
        target.name = format!("{host}#{}:{}", ranks.rank(), target.name);
    }
    Ok((targets, parts))
}

/// Inspects this rank's targets, and asks the guard, without opening any.
fn look(run: &ResolvedRun, ranks: &Ranks) -> Result<Vec<Seen>, RunError> {
    let kernel = &ranks.hosts()[ranks.rank() as usize].kernel;
    let writes = run.loads().any(|cell| cell.spec.changes_content());
    let confirmed = Confirm(run.request.destroy.clone());
    let mut all = Vec::new();
    for name in &run.request.targets {
        let inspection = inspect_from(name, run.folder())?;
        if writes && run.emulated.is_none() {
            confirm(&inspection, check_writable(&inspection, &SysRoot::real()), &confirmed)?;
        }
        all.push(Seen { name: name.to_string(), identity: identity(name, &inspection, kernel) });
    }
    Ok(all)
}

/// What distinguishes a target from every other that any rank may see.
fn identity(name: &TargetName, inspection: &Inspection, kernel: &str) -> Option<String> {
    match inspection.kind {
        Kind::Null | Kind::Ram | Kind::Model | Kind::Char | Kind::Other => None,
        Kind::Nbd => {
            let export = inspection.nbd.as_ref()?;
            // A socket of one machine is no other's; an address may be, and then it is taken for the same.
            let of = if name.to_string().contains("unix") { kernel } else { "" };
            Some(format!("nbd {of} {} {}", export.address, export.export))
        }
        Kind::Block => {
            let lasting = inspection.device.as_ref().and_then(|device| device.lasting_id.as_ref());
            let own = || format!("{kernel} {:?}", inspection.identity.map(|id| id.device));
            Some(format!("device {}", lasting.cloned().unwrap_or_else(own)))
        }
        Kind::File if inspection.is_scratch() => None,
        Kind::File => {
            let file_system = inspection.file_system.as_ref();
            // One of the network has no device; its source names it on every host that mounts it by the same name.
            let network = file_system.filter(|fs| fs.dev.is_none() && !fs.is_memory());
            let of = match network.and_then(|fs| fs.source.clone()) {
                Some(source) => source,
                None => format!("{kernel} {:?}", inspection.identity.map(|id| id.dev)),
            };
            if let Some(id) = inspection.identity.filter(|_| inspection.exists) {
                return Some(format!("file {of} {}", id.inode));
            }
            // Not made yet: its path, which is the same on hosts that share its folder.
            let path = inspection.canonical_path.as_ref().or(inspection.path.as_ref())?;
            let of = network.and_then(|fs| fs.source.clone());
            Some(format!("new {} {path}", of.as_deref().unwrap_or(kernel)))
        }
    }
}

/// This rank's part of its targets, from what all ranks see.
fn parts_of(run: &ResolvedRun, all: &[Vec<Seen>]) -> Result<Parts, RunError> {
    let refused = |why: String| Err(RunError::Impossible(why));
    let ranks = &run.process.ranks;
    let own = &all[ranks.rank() as usize];
    if run.method.is_some() && all.iter().any(|seen| seen.len() != own.len()) {
        return refused(
            "a method over ranks needs as many targets on each: name as many for each host"
                .to_owned(),
        );
    }
    let mut shares = own.iter().map(|seen| {
        let with = |other: &&Vec<Seen>| {
            seen.identity.is_some() && other.iter().any(|o| o.identity == seen.identity)
        };
        let sharing = all.iter().filter(with).count().max(1) as u32;
        let before = all[..ranks.rank() as usize].iter().filter(with).count() as u32;
        (before, sharing)
    });
    let (index, of) = shares.next().unwrap_or((0, 1));
    if let Some((_, seen)) = shares.zip(&own[1..]).find(|(share, _)| *share != (index, of)) {
        return refused(format!(
            "`{}` is shared by other ranks than `{}`: name targets that the same ranks share, or that none shares",
            seen.name, own[0].name
        ));
    }
    if run.request.ranks.shared && of != ranks.size() {
        return refused(format!(
            "--shared: `{}` is one target for {of} of {} ranks only; on the others the name stands for something else",
            own[0].name,
            ranks.size()
        ));
    }
    let parts = TargetPart { index, of, own_region: of > 1 && !run.request.ranks.overlap };
    if parts.own_region
        && let Some(cell) = run.loads().find(|c| !TargetPart::has_regions(c.spec.active()))
    {
        return refused(format!(
            "`{}` has an active range from bytes to a percentage, which can't be divided among ranks: give both ends alike, or use --overlap",
            cell.name
        ));
    }
    super::impossible_when_shared(run, parts)?;
    Ok(parts)
}
