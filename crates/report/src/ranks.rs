//! Results by host for runs measured by several processes (ranks), for the terminal and for pages.

use iodyno_measure::verdict::of_each_rank;
use iodyno_measure::{Cell, RankFigures, Verdict};
use iodyno_notebook::Run;
use iodyno_page::{Cell as Field, Column, Quantity, Table, Tone};
use iodyno_units::human;

/// Results of the ranks on one host in a merged cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostFigures<'a> {
    pub(crate) name: &'a str,
    pub(crate) ranks: Vec<&'a RankFigures>,
    /// Verdicts on the host's ranks, without duplicate codes.
    pub(crate) verdicts: Vec<Verdict>,
    /// Whether the host has the lowest rate per rank. False if all hosts have the same rate.
    pub(crate) is_slowest: bool,
}

impl HostFigures<'_> {
    /// Operations per second of all ranks on the host.
    pub(crate) fn iops(&self) -> f64 {
        self.ranks.iter().map(|rank| rank.iops()).sum()
    }

    /// Mean operations per second per rank. Unlike the total, it is comparable between hosts with different
    /// numbers of ranks.
    pub(crate) fn iops_of_rank(&self) -> f64 {
        self.iops() / self.ranks.len().max(1) as f64
    }

    /// Bytes per second of all ranks on the host.
    pub(crate) fn bytes_per_s(&self) -> f64 {
        let of = |rank: &&RankFigures| rank.bytes as f64 * 1e9 / rank.window_ns.max(1) as f64;
        self.ranks.iter().map(of).sum()
    }

    /// Remark on the host in a table: whether it is the slowest, and its verdicts.
    pub(crate) fn mark(&self) -> String {
        let slowest = self.is_slowest.then_some("slowest");
        let codes = self.verdicts.iter().map(|verdict| verdict.code.as_str());
        slowest.into_iter().chain(codes).collect::<Vec<_>>().join(", ")
    }

    /// The maximum of a value over the host's ranks.
    pub(crate) fn max<T: Ord>(&self, of: impl Fn(&RankFigures) -> T) -> Option<T> {
        self.ranks.iter().map(|rank| of(rank)).max()
    }

    /// Largest fraction of the available processors that any rank on the host used.
    pub(crate) fn cpu_share(&self) -> f64 {
        self.ranks.iter().map(|rank| rank.cpu_share).fold(0.0, f64::max)
    }
}

/// The hosts of a merged cell, in the order of their first ranks.
pub(crate) fn hosts(cell: &Cell) -> Vec<HostFigures<'_>> {
    let mut hosts: Vec<HostFigures<'_>> = Vec::new();
    for (rank, verdicts) in cell.evidence.ranks.iter().zip(of_each_rank(cell)) {
        let at = hosts.iter().position(|host| host.name == rank.host).unwrap_or_else(|| {
            let (ranks, verdicts) = (Vec::new(), Vec::new());
            hosts.push(HostFigures { name: &rank.host, ranks, verdicts, is_slowest: false });
            hosts.len() - 1
        });
        let host = &mut hosts[at];
        host.ranks.push(rank);
        for verdict in verdicts {
            if host.verdicts.iter().all(|known| known.code != verdict.code) {
                host.verdicts.push(verdict);
            }
        }
    }
    let lowest = hosts.iter().map(HostFigures::iops_of_rank).fold(f64::INFINITY, f64::min);
    let differ = hosts.iter().any(|host| host.iops_of_rank() > lowest);
    for host in &mut hosts {
        host.is_slowest = differ && host.iops_of_rank() <= lowest;
    }
    hosts
}

/// Builds a table with one row per host and measurement (cell). `rows` has the name of the cell, and the host's results
/// in this cell.
pub(crate) fn table<'a>(rows: impl Iterator<Item = (String, HostFigures<'a>)>) -> Table {
    let mut table = Table::new([
        Column::label("cell"),
        Column::words("host"),
        Column::numbers("ranks", "").ranked(3),
        Column::numbers("IOPS", "1/s"),
        Column::numbers("throughput", "bytes/s").ranked(2),
        Column::numbers("largest p99", "ns").short("p99 max").ranked(1),
        Column::numbers("CPU", "").ranked(1),
        Column::numbers("other programs' I/O", "").short("others' I/O").ranked(5),
        Column::numbers("started late", "ns").short("start late").ranked(4),
        Column::words("verdict"),
    ]);
    table.caption = "Hosts".into();
    for (cell, host) in rows {
        let share = |value: f64| Field::number(format!("{:.0} %", value * 100.0), value);
        let ns = |ns: Option<u64>| Field::of(Quantity::LatencyNs, ns.map(|ns| ns as f64));
        let foreign = host.ranks.iter().filter_map(|rank| rank.foreign_share).reduce(f64::max);
        let tone = if host.verdicts.is_empty() { Tone::Dim } else { Tone::Warning };
        let why: Vec<&str> = host.verdicts.iter().map(|verdict| verdict.text.as_str()).collect();
        table.push([
            Field::words(cell),
            Field::words(host.name).toned(Tone::Strong),
            Field::number(host.ranks.len().to_string(), host.ranks.len() as f64),
            Field::of(Quantity::Iops, host.iops()).toned(Tone::Strong),
            Field::of(Quantity::Throughput, host.bytes_per_s()),
            ns(host.max(|rank| rank.p99_ns).flatten()),
            share(host.cpu_share()),
            foreign.map_or_else(Field::none, share),
            ns(host.max(|rank| rank.start_late_ns)),
            Field { note: why.join("; "), ..Field::words(host.mark()).toned(tone) },
        ]);
    }
    table
}

/// The merged cells that several ranks measured.
pub(crate) fn cells(run: &Run) -> impl Iterator<Item = &Cell> {
    run.cells.iter().filter(|cell| cell.evidence.ranks.len() > 1)
}

/// States the numbers of ranks and hosts, how late ranks started, and the accuracy of their clocks. None for
/// a run of one process.
pub(crate) fn sentence(run: &Run) -> Option<String> {
    let first = cells(run).next()?;
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let ranks = || cells(run).flat_map(|cell| &cell.evidence.ranks);
    let late_ns = ranks().map(|rank| rank.start_late_ns).max().unwrap_or(0);
    let bound_ns = ranks().map(|rank| rank.clock_bound_ns).max().unwrap_or(0);
    Some(format!(
        "{} on {}: started at most {} after the agreed instant; clock offsets between ranks are known to within {}",
        plural(first.evidence.ranks.len(), "rank"),
        plural(hosts(first).len(), "host"),
        human::time_ns(late_ns as f64),
        human::time_ns(bound_ns as f64)
    ))
}
