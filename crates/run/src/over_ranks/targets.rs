//! Opens the targets of several ranks: finds targets that ranks share, chooses the rank that opens and initialises a
//! shared target first, and assigns each rank its part of the target.

use super::vote;
use crate::open_targets::{self, OpenTarget};
use crate::outcome::RunError;
use crate::resolved_run::ResolvedRun;
use crate::watch::Watch;
use iodyno_ranks::Ranks;
use iodyno_targets::{
    Confirm, FileAcrossHosts, Inspection, Kind, OpenedBy, SysRoot, TargetName, check_writable,
    confirm, inspect_from,
};
use iodyno_workload::TargetPart;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;

/// The part of each target that this rank uses.
pub(crate) type Parts = TargetPart;

/// Description of a rank's target, for comparison with the targets of other ranks before any target is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    name: String,
    /// Identity of the target, equal on all ranks that share it; None if no other rank can use it.
    identity: Option<String>,
    /// Identity of a file on a file system that other hosts can mount, too; None if no other host can see the target.
    across_hosts: Option<FileAcrossHosts>,
}

impl Seen {
    fn is_same_as(&self, other: &Self) -> bool {
        if self.identity.is_some() && self.identity == other.identity {
            return true;
        }
        let both = self.across_hosts.as_ref().zip(other.across_hosts.as_ref());
        both.is_some_and(|(a, b)| a.is_same_as(b))
    }
}

/// Opens this rank's targets. Nothing is written before all ranks have confirmed that their targets may be
/// written. The first of the ranks that share a target opens it and writes its initial content before the
/// others open it.
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
    // The others wait for the first rank, so that its file exists.
    vote(run, first)?;
    let opened = opened.map_or_else(|| open_targets::set(run, OpenedBy::AnotherRank), Ok);
    let mut targets = vote(run, opened)?;
    let host = &ranks.hosts()[ranks.rank() as usize].name;
    for target in &mut targets {
        target.name = format!("{host}#{}:{}", ranks.rank(), target.name);
    }
    Ok((targets, parts))
}

/// Inspects this rank's targets and checks that they may be overwritten, without opening any.
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
        all.push(Seen {
            name: name.to_string(),
            identity: identity(name, &inspection, kernel),
            across_hosts: FileAcrossHosts::of(&SysRoot::real(), &inspection),
        });
    }
    Ok(all)
}

/// Identity of a target, by which ranks recognise that they share it. None if no other rank can use the
/// target.
fn identity(name: &TargetName, inspection: &Inspection, kernel: &str) -> Option<String> {
    match inspection.kind {
        Kind::Null | Kind::Ram | Kind::Model | Kind::Char | Kind::Other => None,
        Kind::Nbd => {
            let export = inspection.nbd.as_ref()?;
            // A Unix socket belongs to one machine. Equal network addresses are taken for the same server.
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
            // Identity on this machine; `across_hosts` covers other hosts.
            if let Some(id) = inspection.identity.filter(|_| inspection.exists) {
                return Some(format!("file {kernel} {:?} {}", id.dev, id.inode));
            }
            // Identify a new file by its folder: in two containers of one machine, one path may stand for two files.
            let (folder, name) = inspection.place()?;
            let folder = std::fs::metadata(folder).ok()?;
            Some(format!("new {kernel} {} {} {}", folder.dev(), folder.ino(), name?))
        }
    }
}

/// Ranks that share a target with rank `of`, including `of`. Sharing is transitive (two ranks that share with
/// a third share with each other), so that all of them compute the same set.
fn sharing(target: &Seen, of: u32, all: &[Vec<Seen>]) -> BTreeSet<u32> {
    let mut ranks = BTreeSet::from([of]);
    let mut unvisited = vec![target];
    while let Some(target) = unvisited.pop() {
        for (rank, seen) in (0..).zip(all) {
            if let Some(same) = seen.iter().find(|seen| seen.is_same_as(target))
                && ranks.insert(rank)
            {
                unvisited.push(same);
            }
        }
    }
    ranks
}

/// Determines which part of the shared targets this rank uses, from the targets of all ranks.
fn parts_of(run: &ResolvedRun, all: &[Vec<Seen>]) -> Result<Parts, RunError> {
    let refused = |why: String| Err(RunError::Impossible(why));
    let ranks = &run.process.ranks;
    let own = &all[ranks.rank() as usize];
    if run.method.is_some() && all.iter().any(|seen| seen.len() != own.len()) {
        return refused(
            "a method over ranks needs the same number of targets on each rank: name the same number for each host"
                .to_owned(),
        );
    }
    let mut shares = own.iter().map(|seen| {
        let sharing = sharing(seen, ranks.rank(), all);
        (sharing.range(..ranks.rank()).count() as u32, sharing.len() as u32)
    });
    let (index, of) = shares.next().unwrap_or((0, 1));
    if let Some((_, seen)) = shares.zip(&own[1..]).find(|(share, _)| *share != (index, of)) {
        return refused(format!(
            "`{}` and `{}` are shared by different groups of ranks: the targets of a rank must all be shared with the same ranks, or all be its own",
            seen.name, own[0].name
        ));
    }
    if run.request.ranks.shared && of != ranks.size() {
        return refused(format!(
            "--shared: `{}` is the same target on only {of} of {} ranks; on the others, the name refers to a different one",
            own[0].name,
            ranks.size()
        ));
    }
    let parts = TargetPart { index, of, own_region: of > 1 && !run.request.ranks.overlap };
    if parts.own_region
        && let Some(cell) = run.loads().find(|c| !TargetPart::has_regions(c.spec.active()))
    {
        return refused(format!(
            "`{}` has an active range from bytes to a percentage, which can't be divided among ranks: give both ends in bytes or both in percent, or use --overlap",
            cell.name
        ));
    }
    super::impossible_when_shared(run, parts)?;
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(identity: Option<&str>) -> Seen {
        let identity = identity.map(str::to_owned);
        Seen { name: "f".to_owned(), identity, across_hosts: None }
    }

    /// All ranks that share a target compute the same set of ranks, so that their parts cover the target without
    /// overlap.
    #[test]
    fn ranks_that_share_find_the_same_ranks() {
        let all: Vec<Vec<Seen>> = [Some("a"), Some("b"), Some("a"), None, None]
            .map(|identity| vec![seen(identity)])
            .into();
        let of = |rank: u32| sharing(&all[rank as usize][0], rank, &all);
        assert_eq!((of(0), of(2)), (BTreeSet::from([0, 2]), BTreeSet::from([0, 2])));
        assert_eq!(of(1), BTreeSet::from([1]));
        // Targets of one rank alone are never shared, although both have no identity.
        assert_eq!((of(3), of(4)), (BTreeSet::from([3]), BTreeSet::from([4])));
    }
}
