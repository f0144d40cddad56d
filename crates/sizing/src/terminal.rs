//! Formats the result of a sizing as text for a terminal. Does no I/O.

use crate::candidate::Candidate;
use crate::detail::{CacheAdvice, Detail};
use crate::log_demand::LogDemand;
use crate::outcome::{confirmed_in_words, mend_in_words, nearest_in_words, what_if_in_words};
use crate::row::Row;
use crate::sizing::Sizing;
use crate::tables;
use crate::words::{
    arrays, assumed_in_words, life_in_words, limit_in_words, limits_in_words, rate, run_in_words,
    systems, tb, watts,
};
use iodyno_emulate::spec;
use iodyno_page::terminal::table::{self, PartRows};
use iodyno_page::terminal::text::{Role, pad, paint};
use iodyno_page::terminal::{Lines, Style};
use iodyno_units::human;
use iodyno_units::text::for_shell;

/// Width of the labels below the table, in characters.
pub(crate) const LABEL: usize = 9;
/// Note for headings that states how the results were obtained.
pub(crate) const EMULATED: &str = "emulated, virtual time";

/// Formats the complete result of a sizing as text.
pub fn show(sizing: &Sizing, style: Style) -> String {
    let mut text = Lines::new(style);
    text.heading(&demand_in_words(sizing), EMULATED);
    if let Some(log) = &sizing.demand.log {
        for (label, words) in log_in_words(sizing, log) {
            text.labelled(label, LABEL, &words);
        }
        text.blank();
    }
    if sizing.rows.is_empty() {
        nothing(&mut text, sizing);
        return text.end();
    }
    for line in table::in_parts(&tables::systems_in_words(sizing), PartRows::All, style) {
        text.line(&line);
    }
    text.blank();
    if let (Some(row), Some(detail)) = (sizing.rows.first(), &sizing.detail) {
        recommended(&mut text, sizing, row, detail);
    }
    rest(&mut text, sizing);
    text.end()
}

/// Describes the demand, such as `oltp1 at 500 k/s, p99 within 2.00 ms, 20.0 TB`.
pub(crate) fn demand_in_words(sizing: &Sizing) -> String {
    let demand = &sizing.demand;
    let like = demand.like.as_ref().map_or(String::new(), |run| format!(" like run {run}"));
    let mut words = format!(
        "{}{like} at {}, p99 within {}",
        demand.name,
        rate(demand.rate_iops),
        human::time_ns(demand.p99_ns as f64)
    );
    for limit in &demand.limits {
        words = format!("{words}, {}", limit_in_words(limit));
    }
    if demand.capacity_bytes > 0 {
        words = format!("{words}, {} or more", tb(demand.capacity_bytes));
    }
    if let Some(loss) = demand.survive {
        words = format!("{words}, with {}", loss.words());
    }
    words
}

/// Explains how a log's messages translate to writes and reads, and which storage stall its publishers can
/// bridge. Each line has a label and a text.
pub(crate) fn log_in_words(sizing: &Sizing, log: &LogDemand) -> Vec<(&'static str, String)> {
    let (message, chunk) = (human::size(log.message_bytes), human::size(log.chunk_bytes));
    let many = log.messages_a_chunk();
    let each = |messages_per_s: f64, per_s: f64, what: &str| {
        format!(
            "{} / {many} = {} {what} of {chunk}, {}",
            rate(messages_per_s),
            rate(per_s),
            human::throughput(per_s * log.chunk_bytes as f64)
        )
    };
    let mut all = vec![(
        "log",
        format!(
            "messages of {message}, {chunk} / {message} = {many} per chunk: {}, sequential and durable",
            each(log.messages_per_s, log.writes_per_s(), "writes")
        ),
    )];
    if log.replayed_per_s > 0.0 {
        let reads = each(log.replayed_per_s, log.reads_per_s(), "reads");
        all.push(("replays", format!("{reads}, starting at random chunks")));
    }
    let Some(survived_ns) = log.survived_ns() else { return all };
    let bytes_per_s = log.messages_per_s * log.message_bytes as f64;
    let mut words = format!(
        "publishers block after a stall of {}: their buffers hold {}, which fills at {}",
        human::time_ns(survived_ns),
        human::size(log.room_bytes),
        human::throughput(bytes_per_s)
    );
    let highest = sizing.rows.first().and_then(|row| row.highest.as_ref());
    if let Some(highest) = highest {
        let spare = match log.caught_up_ns(highest.iops) {
            Some(ns) => format!(
                "; at the highest rate, {} ({} are requested), the backlog is persisted {} after the stall",
                rate(highest.iops),
                rate(sizing.demand.rate_iops),
                human::time_ns(ns)
            ),
            None => "; no spare rate is left to work off the backlog".to_owned(),
        };
        words.push_str(&spare);
    }
    all.push(("room", words));
    for (what, pause_ns) in pauses(sizing) {
        let outcome =
            if pause_ns as f64 <= survived_ns { "is survived" } else { "blocks publishers" };
        let pause = human::time_ns(pause_ns as f64);
        all.push(("", format!("{what}, {pause}, {outcome}")));
    }
    all
}

/// Lists the longest pauses of the recommended system according to its catalog files: each with its cause and its
/// duration, ns.
fn pauses(sizing: &Sizing) -> Vec<(&'static str, u64)> {
    let Some(row) = sizing.rows.first() else { return Vec::new() };
    let of = &sizing.candidates[row.candidate];
    let mut all = Vec::new();
    if let spec::Kind::Flash(flash) = &of.device.device.kind
        && let Some(stall) = flash.translation.stall
    {
        all.push(("a pause of the device itself", stall.for_ns));
    }
    if let Some(adapters) = of.adapters.as_ref().filter(|adapters| adapters.count > 1) {
        all.push(("the takeover of a lost adapter's arrays", adapters.failover_ns));
    }
    all
}

/// Describes a configuration by its devices, arrays and systems.
pub(crate) fn name(candidate: &Candidate, row: &Row) -> String {
    let each = if row.count.units > 1 { ", each with its share of the load" } else { "" };
    format!(
        "{} × {} as {}, in {}{each}",
        row.count.units * row.count.arrays * candidate.members,
        candidate.device_name,
        arrays(candidate, row.count),
        systems(candidate, row.count)
    )
}

fn recommended(text: &mut Lines, sizing: &Sizing, row: &Row, detail: &Detail) {
    let style = text.style();
    let of = &sizing.candidates[row.candidate];
    text.line(&paint(&name(of, row), Role::Bold, style));
    let mut fact = |(label, words): &(&str, String)| text.labelled(label, LABEL, words);
    state(sizing, row).iter().for_each(&mut fact);
    for (n, words) in what_ifs(sizing, row, detail).into_iter().enumerate() {
        fact(&(if n == 0 { "what if" } else { "" }, words));
    }
    advice(sizing, row, detail).iter().for_each(fact);
    for (n, line) in table::lines(&tables::sequential(detail), style).iter().enumerate() {
        let label =
            paint(&pad(if n == 0 { "in order" } else { "" }, LABEL, false), Role::Dim, style);
        text.line(&format!("  {label}  {line}"));
    }
    text.blank();
}

/// Describes properties of the recommended system, each with its label.
pub(crate) fn state(sizing: &Sizing, row: &Row) -> Vec<(&'static str, String)> {
    let of = &sizing.candidates[row.candidate];
    let mut all = vec![
        ("system", of.host_summary.clone()),
        ("confirmed", confirmed_in_words(sizing, row)),
        ("life", life_in_words(sizing, row)),
    ];
    if !sizing.demand.limits.is_empty() {
        all.insert(2, ("limits", limits_in_words(&sizing.demand, &row.asked)));
    }
    all
}

/// Describes results under failures and with other settings.
pub(crate) fn what_ifs(sizing: &Sizing, row: &Row, detail: &Detail) -> Vec<String> {
    let share_iops = sizing.demand.rate_iops / f64::from(row.count.units);
    detail
        .what_ifs
        .iter()
        .map(|what_if| what_if_in_words(what_if, share_iops, &sizing.demand))
        .collect()
}

/// Advice on the recommended system, and the advice's limitations: label and text of each.
pub(crate) fn advice(sizing: &Sizing, row: &Row, detail: &Detail) -> Vec<(&'static str, String)> {
    let mut all: Vec<_> =
        detail.cache.iter().map(|cache| ("cache", cache_in_words(cache))).collect();
    all.push(("textbook", textbook_in_words(sizing, row)));
    all.push(("power", power_in_words(sizing, row)));
    if sizing.demand.like.is_none() && sizing.demand.log.is_none() {
        let target = sizing.candidates[row.candidate].target(row.count.arrays);
        let (target, work) = (for_shell(&target), for_shell(&sizing.demand.name));
        all.push(("look at", format!("iodyno explain {target} {work}")));
        all.push(("run it", run_in_words(sizing, row)));
    }
    all.push(("assumed", assumed_in_words(sizing, row)));
    all
}

/// Caveat of the advice on the cache: all published results are of adapters with the cache on (tested in
/// `study/tests/ibm.rs`).
pub(crate) const CACHE_OFF_UNTESTED: &str =
    "the model with the cache off is not tested against published figures";

/// Describes the advice on the write cache.
fn cache_in_words(cache: &CacheAdvice) -> String {
    let time = |ns: Option<f64>| ns.map_or("unknown".to_owned(), human::time_ns);
    let off = match cache.highest_iops.1 {
        Some(iops) => format!("{} (p99 {})", rate(iops), time(cache.p99_ns.1)),
        None => format!("less than requested (p99 {})", time(cache.p99_ns.1)),
    };
    let on = rate(cache.highest_iops.0);
    let p99 = time(cache.p99_ns.0);
    let advice = if cache.leave_on() { "leave it on" } else { "turn it off" };
    format!(
        "{advice}: with the cache on, the system sustains {on} (p99 at the requested rate: {p99}); with the cache off, {off}; {CACHE_OFF_UNTESTED}"
    )
}

/// Describes the result of the textbook formula, and why it errs.
fn textbook_in_words(sizing: &Sizing, row: &Row) -> String {
    let textbook = &row.textbook;
    let of = &sizing.candidates[row.candidate];
    let writes = sizing.demand.write_share();
    let ours = row.devices(&sizing.candidates);
    let highest = row.highest.as_ref();
    let binds = highest.map_or("", |highest| highest.binds.as_str());
    let of_devices = highest.is_some_and(|highest| highest.is_of_arrays);
    let all_arrays = u64::from(row.count.units * row.count.arrays);
    // Number of other data strips in a stripe.
    let rest = (of.members as usize).saturating_sub(of.level.parities() + 1);
    let why = if (all_arrays - 1) * of.array_bytes < sizing.demand.capacity_bytes {
        "the formula ignores capacity, which requires more here".to_owned()
    } else if textbook.devices == ours {
        "the same; the formula ignores queues, adapters and caches, which don't matter here"
            .to_owned()
    } else if textbook.devices > ours && of.has_cache() {
        "too many: a cache merges writes, and its hits need no device operation".to_owned()
    } else if textbook.devices > ours && rest < of.level.small_write(of.members as usize).reads {
        format!(
            "too many: the formula charges reads of old data and parity, but a write reads the rest of its stripe if that is less (here {})",
            human::counted(rest as u64, "read")
        )
    } else if textbook.devices > ours {
        "too many: the formula charges the reads that precede a write at the mean cost of the mix"
            .to_owned()
    } else if row.life.is_some_and(|life| all_arrays > u64::from(life.arrays_by_rate)) {
        "too few: the formula ignores the life of the flash, which requires more here".to_owned()
    } else if of_devices {
        "too few: the formula loads devices to 100 %, where queues grow without limit".to_owned()
    } else if !highest.is_some_and(|highest| highest.is_saturated) {
        "too few: the formula ignores latency, whose limit requires more here".to_owned()
    } else {
        let bind = if binds.ends_with('s') { "bind" } else { "binds" };
        format!("too few: the formula counts only devices, but the {binds} {bind} first")
    };
    format!(
        "{}: {} × ({:.2} reads + {:.0} × {:.2} writes) / {} for each device; {why}",
        human::counted(textbook.devices.into(), "device"),
        rate(sizing.demand.rate_iops),
        1.0 - writes,
        textbook.penalty,
        writes,
        rate(textbook.device_iops)
    )
}

fn power_in_words(sizing: &Sizing, row: &Row) -> String {
    let of = &sizing.candidates[row.candidate];
    let swap = if of.device.device.hot_swap {
        "devices are hot-swappable"
    } else {
        "devices are not hot-swappable"
    };
    match row.devices_w {
        Some(w) => format!(
            "{} for the devices under load, {} mW per IOPS; {swap}",
            watts(w),
            human::three_digits(w / sizing.demand.rate_iops * 1e3)
        ),
        None => format!("the device file of {} gives no power consumption; {swap}", of.device_name),
    }
}

/// Appends text about the candidates that the table omits.
fn rest(text: &mut Lines, sizing: &Sizing) {
    if sizing.not_worth > 0 {
        let by = if sizing.prices.is_some() {
            "cost more, or have no price"
        } else {
            "need more devices"
        };
        let words = format!(
            "{} other kinds of systems {by}: --adapter, --device and --raid select them",
            sizing.not_worth
        );
        text.labelled("more", LABEL, &words);
    }
    if let Some(nearest) = sizing.missed.first() {
        let of = &sizing.candidates[nearest.candidate];
        let words = format!(
            "{} can't meet the demand; the nearest is {} in {}: {}",
            human::counted(sizing.missed.len() as u64, "other"),
            of.array(),
            of.host,
            nearest_in_words(sizing)
        );
        text.labelled("rejected", LABEL, &words);
    }
    text.labelled("simulated", LABEL, &format!("{} cells", sizing.cells));
}

fn nothing(text: &mut Lines, sizing: &Sizing) {
    let style = text.style();
    let tried = sizing.candidates.len();
    let head = format!("No system meets the demand (kinds of systems tried: {tried})");
    text.line(&paint(&head, Role::Red, style));
    if let Some(missed) = sizing.missed.first() {
        let of = &sizing.candidates[missed.candidate];
        text.labelled("nearest", LABEL, &format!("{} in {}", of.array(), of.host));
        text.labelled("", LABEL, &nearest_in_words(sizing));
    }
    text.labelled("mend", LABEL, mend_in_words(sizing));
}
