//! `run --with`: simultaneous workloads on the same targets. Measures each workload alone, then all together.

use crate::failure::Failure;
use crate::named_work::NamedWork;
use iodyno_exchange::fio::Process;
use iodyno_run::ListedCell;
use iodyno_workload::{Block, OfferedRate, Percent, Spec};
use std::str::FromStr;

/// A background workload (`--with`): a workload's name or file, and changes to it.
#[derive(Clone, Debug)]
pub struct Neighbour {
    workload: String,
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Threads(u32),
    Depth(u32),
    Block(Vec<Block>),
    Read(Percent),
    Rate(OfferedRate),
}

impl FromStr for Neighbour {
    type Err = String;

    /// Parses a workload's name and optional changes, such as
    /// `seq-write,threads=2,depth=4,block=64KiB,read=30%,rate=100MB/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let workload = parts.next().unwrap_or_default().trim().to_owned();
        if workload.is_empty() || workload.contains('=') {
            return Err("name a workload first, such as `seq-write,depth=4`".to_owned());
        }
        let change = |part: &str| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let count = || value.parse().map_err(|_| format!("`{part}`: not a whole number"));
            Ok(match key.trim() {
                "threads" => Change::Threads(count()?),
                "depth" => Change::Depth(count()?),
                "block" => Change::Block(Block::parse_list(value)?),
                "read" => {
                    let share = iodyno_units::parse_percent(value).map_err(|e| e.to_string())?;
                    Change::Read(Percent::from_fraction(share))
                }
                "rate" => Change::Rate(value.parse()?),
                _ => {
                    return Err(format!(
                        "only threads, depth, block, read and rate can be changed here, not `{part}`: copy the workload's file to change anything else"
                    ));
                }
            })
        };
        let changes = parts.map(change).collect::<Result<_, String>>()?;
        Ok(Self { workload, changes })
    }
}

/// A background workload with its changes applied.
#[derive(Debug)]
pub(crate) struct Changed {
    name: String,
    spec: Spec,
    /// Label of the workload in output: its name and a description of the changes.
    words: String,
}

impl Neighbour {
    /// Reads the background workload and applies the changes.
    pub(crate) fn changed(&self) -> Result<Changed, Failure> {
        let named = NamedWork::read(&self.workload, &[], &Process)?;
        let (name, mut spec) = named.into_workload()?;
        let (named, mut rate) = (spec.clone(), None);
        for change in &self.changes {
            spec = match change {
                Change::Threads(n) => spec.with_threads(*n),
                Change::Depth(n) => spec.with_depth(*n),
                Change::Block(block) => spec.with_block(block.clone()),
                Change::Read(share) => spec.with_read_share(*share),
                Change::Rate(offered) => {
                    rate = Some(offered);
                    spec.with_offered(offered, None)
                }
            }
            .map_err(|why| Failure::input(format!("--with {name}: {why}")))?;
        }
        let words = [vec![name.clone()], spec.changes_from(&named, rate, true)].concat();
        Ok(Changed { name, spec, words: words.join(", ") })
    }
}

impl Changed {
    /// Creates a cell of this workload that runs at the same time as `other`, and takes over the ramp and the time
    /// limit of `other`.
    fn beside(&self, other: &Spec) -> Result<ListedCell, Failure> {
        let limits = other.limits();
        let ramped = self.spec.clone().with_ramp(limits.ramp_ns);
        let timed = ramped.and_then(|spec| match limits.time_ns {
            Some(time_ns) => spec.with_time(time_ns),
            None => Err("the other workload has no time limit: give --time".to_owned()),
        });
        let spec = timed.map_err(|why| Failure::input(format!("--with {}: {why}", self.name)))?;
        Ok(ListedCell::new(self.name.clone(), spec))
    }
}

/// Returns the cells of a run with background workloads: first each of `members` alone, then each background workload
/// alone, then each of `members` with all background workloads. Also returns a description of each background workload.
pub(crate) fn with_neighbours(
    members: Vec<ListedCell>,
    neighbours: &[Changed],
) -> Result<(Vec<ListedCell>, Vec<String>), Failure> {
    let mut all = members.clone();
    for (number, member) in members.into_iter().enumerate() {
        let beside = neighbours.iter().map(|neighbour| neighbour.beside(&member.spec));
        let mut beside: Vec<ListedCell> = beside.collect::<Result<_, _>>()?;
        // Number duplicate names.
        for at in 0..beside.len() {
            let name = beside[at].name.clone();
            let before = beside[..at].iter().filter(|other| other.name == name).count();
            if before > 0 || name == member.name {
                beside[at].name = format!("{name} ({})", before + 2);
            }
        }
        if number == 0 {
            all.extend(beside.iter().cloned());
        }
        let names: Vec<String> =
            core::iter::once(&member).chain(&beside).map(|cell| cell.name.clone()).collect();
        let with_others = |own: usize| {
            let others = names.iter().enumerate().filter(|(at, _)| *at != own);
            let others: Vec<&str> = others.map(|(_, name)| name.as_str()).collect();
            format!("{} with {}", names[own], others.join(" and "))
        };
        for (at, cell) in beside.iter_mut().enumerate() {
            cell.workload = Some(cell.name.clone());
            cell.name = with_others(at + 1);
        }
        let workload = Some(member.name.clone());
        all.push(ListedCell { name: with_others(0), workload, beside, ..member });
    }
    let words = neighbours.iter().map(|neighbour| format!("with {}", neighbour.words));
    Ok((all, words.collect()))
}
