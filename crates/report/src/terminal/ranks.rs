//! The table of hosts, for runs that several processes measured.

use super::{NAME_COLUMNS_MAX, short_label_of};
use crate::ranks::{HostFigures, cells, hosts, sentence};
use iodyno_measure::Cell;
use iodyno_notebook::Run;
use iodyno_page::terminal::Style;
use iodyno_page::terminal::table::{self, Column, Field};
use iodyno_page::terminal::text::{Role, clean, paragraph};
use iodyno_units::human;

/// Maximum number of hosts per cell: of more, only the slowest are shown.
const HOSTS_MAX: usize = 12;

pub(super) fn lines(run: &Run, style: Style) -> Vec<String> {
    let Some(words) = sentence(run) else { return Vec::new() };
    let mut lines = paragraph(&clean(&words, 400, style), Role::Plain, style);
    if cells(run).next().is_some_and(|cell| hosts(cell).len() > 1) {
        lines.extend(table(run, style));
    }
    lines
}

fn table(run: &Run, style: Style) -> Vec<String> {
    let mut rows: Vec<(&Cell, HostFigures<'_>)> = Vec::new();
    let has_several = cells(run).nth(1).is_some();
    for cell in cells(run) {
        let mut of_cell = hosts(cell);
        if of_cell.len() > HOSTS_MAX {
            of_cell.sort_by(|a, b| a.iops_of_rank().total_cmp(&b.iops_of_rank()));
            of_cell.truncate(HOSTS_MAX);
        }
        rows.extend(of_cell.into_iter().map(|host| (cell, host)));
    }
    let figure = |text: String, role| Field::figure(&clean(&text, 14, style), role);
    let plain = |text: String| figure(text, Role::Plain);
    let mut names = Column::unnamed(Vec::new());
    let mut ranks = Column::new("ranks", 3);
    let mut iops = Column::new("IOPS", 0);
    let mut throughput = Column::new("throughput", 2);
    let mut p99 = Column::new("p99 max", 1);
    let mut cpu = Column::new("CPU", 1);
    let mut late = Column::new("start late", 4);
    let mut marks = Column::unnamed(Vec::new());
    for (cell, host) in &rows {
        let name = if has_several {
            format!("{} on {}", short_label_of(run, &cell.key, style), host.name)
        } else {
            host.name.to_owned()
        };
        names.fields.push(Field::Text(clean(&name, NAME_COLUMNS_MAX, style), Role::Bold));
        ranks.fields.push(plain(host.ranks.len().to_string()));
        iops.fields.push(figure(human::count(host.iops()), Role::Bold));
        throughput.fields.push(plain(human::throughput(host.bytes_per_s())));
        let p99_ns = host.max(|rank| rank.p99_ns).flatten();
        p99.fields.push(p99_ns.map_or(Field::Missing, |ns| plain(human::time_ns(ns as f64))));
        cpu.fields.push(plain(format!("{:.0} %", host.cpu_share() * 100.0)));
        let late_ns = host.max(|rank| rank.start_late_ns).unwrap_or(0);
        late.fields.push(plain(human::time_ns(late_ns as f64)));
        let role = if host.verdicts.is_empty() { Role::Dim } else { Role::Yellow };
        marks.fields.push(Field::Text(host.mark(), role));
    }
    let mut columns = vec![names, ranks, iops, throughput, p99, cpu, late, marks];
    table::fit(&mut columns, style.columns());
    table::lines(&columns, style)
}
