//! Table of results by host, for runs measured by several processes.

use super::short_label_of;
use crate::ranks::{self, HostFigures, cells, hosts, sentence};
use iodyno_measure::Cell;
use iodyno_notebook::Run;
use iodyno_page::terminal::text::{Role, clean, paragraph};
use iodyno_page::terminal::{Style, table};

/// Maximum number of hosts shown per cell. With more hosts, only the slowest are shown.
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
    let rows = rows.into_iter().map(|(cell, host)| {
        let of = if has_several { short_label_of(run, &cell.key, style) } else { String::new() };
        (of, host)
    });
    let table = ranks::table(rows);
    table::fitted(&table.selected(|i, _| i > 0 || has_several).without_blank_columns(), style)
}
