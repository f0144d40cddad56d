//! `run --with`: simultaneous workloads on the same targets. Each is measured alone, then all of them together.

use crate::failure::Failure;
use iodyno_run::{ListedCell, find_work};
use iodyno_workload::{Block, OfferedRate, Percent, Spec};
use std::str::FromStr;

/// A workload of `--with`: its name or its file, and changes to it.
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

    /// Parses `seq-write`, or `seq-write,threads=2,depth=4,block=64KiB,read=30%,rate=100MB/s`.
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
                        "`{part}` can't be changed here, only threads, depth, block, read and rate: copy the workload's file to change anything else"
                    ));
                }
            })
        };
        let changes = parts.map(change).collect::<Result<_, String>>()?;
        Ok(Self { workload, changes })
    }
}

impl Neighbour {
    /// The neighbour's workload, with the ramp and time of `other`; and its name with the changes.
    fn beside(&self, other: &Spec) -> Result<(ListedCell, String), Failure> {
        let (name, mut members) = find_work::members(&self.workload)?;
        let (1, Some((_, mut spec))) = (members.len(), members.pop()) else {
            return Err(Failure::input(format!(
                "--with {name}: it is a group of workloads: name one of them"
            )));
        };
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
        let limits = other.limits();
        let timed = spec.with_ramp(limits.ramp_ns).and_then(|spec| match limits.time_ns {
            Some(time_ns) => spec.with_time(time_ns),
            None => Err("the other workload has no time limit: give --time".to_owned()),
        });
        let spec = timed.map_err(|why| Failure::input(format!("--with {name}: {why}")))?;
        Ok((ListedCell::new(name, spec), words.join(", ")))
    }
}

/// The cells of a list with neighbours: each member alone, each neighbour alone, and each member
/// with all neighbours; and a description of the neighbours.
pub(crate) fn with_neighbours(
    members: Vec<ListedCell>,
    neighbours: &[Neighbour],
) -> Result<(Vec<ListedCell>, Vec<String>), Failure> {
    let (mut all, mut words) = (members.clone(), Vec::new());
    for (number, member) in members.into_iter().enumerate() {
        let beside = neighbours.iter().map(|n| n.beside(&member.spec));
        let (mut beside, named): (Vec<ListedCell>, Vec<String>) =
            beside.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        words = named.into_iter().map(|neighbour| format!("with {neighbour}")).collect();
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
    Ok((all, words))
}
