//! The CSV of MSR Cambridge, as SNIA's IOTTA repository has it: time, host, disk, type, offset, size, response; times in
//! ticks of 100 ns since the year 1601, the response time in such ticks too.

use super::{Lines, Sink, number};
use iodyno_units::OpKind;

const TICK_NS: u64 = 100;
/// A row may be this much earlier than the first, ns.
const BEFORE_NS: u64 = 3_600_000_000_000;

/// Whether a line is the first of such a file: its head, or a row.
pub(super) fn is_first(line: &str) -> bool {
    is_row(line) || line.to_ascii_lowercase().starts_with("timestamp,hostname,disknumber,")
}

/// Whether a line is a row.
pub(super) fn is_row(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let whole = |at: usize| fields[at].parse::<u64>().is_ok();
    (6..=7).contains(&fields.len()) && whole(0) && whole(2) && kind(fields[3]).is_some() && whole(4)
}

fn kind(text: &str) -> Option<OpKind> {
    if text.eq_ignore_ascii_case("read") || text.eq_ignore_ascii_case("r") {
        Some(OpKind::Read)
    } else if text.eq_ignore_ascii_case("write") || text.eq_ignore_ascii_case("w") {
        Some(OpKind::Write)
    } else {
        None
    }
}

#[derive(Default)]
pub(super) struct Msr {
    first: Option<u64>,
    name: String,
}

impl Lines for Msr {
    fn line(&mut self, text: &str, to: &mut Sink<'_>) -> Result<(), String> {
        let mut fields = text.split(',').map(str::trim);
        let mut field = |what: &str| fields.next().ok_or_else(|| format!("the {what} is missing"));
        let ticks = number(field("time")?, "time")?;
        let (host, disk) = (field("host")?, number(field("disk")?, "disk")?);
        let what = field("type")?;
        let offset = number(field("offset")?, "offset")?;
        let size = number(field("size")?, "size")?;
        let response = fields.next().filter(|text| !text.is_empty());
        if fields.next().is_some() {
            return Err("a row has seven fields".to_owned());
        }
        let Some(kind) = kind(what) else {
            to.leave_out(&format!("rows of the unknown type `{what}`"));
            return Ok(());
        };
        let response_ns = response
            .map(|text| number(text, "response time"))
            .transpose()?
            .map(|t| t.saturating_mul(TICK_NS));
        let first = *self.first.get_or_insert(ticks);
        to.start_ns = BEFORE_NS;
        let too_early = || "it is more than an hour earlier than the first row".to_owned();
        let at_ns = if ticks >= first {
            (ticks - first).checked_mul(TICK_NS).ok_or("the time is too large")? + BEFORE_NS
        } else {
            let before_ns = (first - ticks).checked_mul(TICK_NS).ok_or_else(too_early)?;
            BEFORE_NS.checked_sub(before_ns).ok_or_else(too_early)?
        };
        if size == 0 {
            to.leave_out(&format!("{} of no bytes", kind.name()));
            return Ok(());
        }
        self.name.clear();
        self.name.push_str(host);
        self.name.push('.');
        self.name.push_str(&disk.to_string());
        to.push(&self.name, at_ns, (kind, false), (offset, size), response_ns).map(drop)
    }
}
