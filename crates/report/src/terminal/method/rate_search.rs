//! Formats a search for the highest rate that meets a latency limit: the rate found, and the result at each tried
//! rate.

use crate::kinds;
use crate::rate_search::table;
use iodyno_method::findings::RateSearchFinding;
use iodyno_page::terminal::text::{Role, clean, paragraph};
use iodyno_page::terminal::{Style, table};

pub(super) fn lines(found: &RateSearchFinding, style: Style) -> Vec<String> {
    let role = if found.holds_iops.is_some() { Role::Green } else { Role::Yellow };
    let mut lines = paragraph(&clean(&found.sentence(), 500, style), role, style);
    if let Some(limited) = found.limited() {
        lines.extend(paragraph(&clean(&limited, 500, style), Role::Yellow, style));
    }
    lines.extend(table::fitted(&table(found), style));
    let name = found.limit.split(' ').next().unwrap_or_default();
    let apart = if found.covers.len() > 1 { found.covers.as_slice() } else { &[] };
    if !apart.is_empty() {
        let text = format!(
            "{name} is computed over {}, and the limit applies to this value",
            kinds::together(apart)
        );
        lines.extend(paragraph(&clean(&text, 200, style), Role::Dim, style));
    }
    lines
}
