//! Verdicts on the validity of a cell's figures, derived from the circumstances recorded with the cell. Each verdict
//! states the reason and the remedy in plain words. Judging is a pure function of the cell, so an old run can be judged
//! again by newer rules.
//!
//! Each file judges one aspect of a cell, such as its end, the load generator, the storage layers, other programs, or
//! the number of samples. `docs/verdicts.md` lists the codes, which are part of the JSON output's contract.

mod accounting;
mod conditions;
mod emulated;
mod ending;
mod generator;
mod layers;
mod limit;
mod other_tool;
mod others;
mod processors;
mod ranks;
mod samples;
mod stationarity;
mod storage;
mod target;
mod transient;
mod verification;

use crate::cell::Cell;
pub(crate) use generator::late_share;
pub use limit::{LimitSeen, limit_seen};
pub use ranks::of_each_rank;

pub use crate::level::{Level, Verdict};

/// Judges a cell. The list begins with `VALID` unless it contains a warning or worse, so it is never empty.
pub fn judge(cell: &Cell) -> Vec<Verdict> {
    let total = cell.total();
    let mut found = Vec::new();
    let mut say = |code: &str, level: Level, text: String| {
        found.push(Verdict { code: code.to_owned(), level, text });
    };
    if let Some((code, text)) = ending::not_measured(cell) {
        say(code, Level::Note, text);
        return found;
    }
    other_tool::other_tool(cell, &mut say);
    emulated::emulated(cell, &mut say);
    transient::transient(cell, &mut say);
    ending::completeness(cell, &total, &mut say);
    accounting::accounting(cell, &total, &mut say);
    stationarity::stationarity(cell, &mut say);
    generator::generator(cell, &total, &mut say);
    processors::processors(cell, &mut say);
    limit::limit(cell, &mut say);
    storage::storage(cell, &total, &mut say);
    layers::layers(cell, &total, &mut say);
    target::target(cell, &total, &mut say);
    verification::verification(cell, &mut say);
    others::others(cell, &total, &mut say);
    ranks::ranks(cell, &mut say);
    conditions::conditions(cell, &total, &mut say);
    samples::samples(cell, &total, &mut say);
    if found.iter().all(|v| v.level < Level::Warning) {
        let text = "no check found a reason to doubt these numbers".to_owned();
        found.insert(0, Verdict { code: "VALID".to_owned(), level: Level::Valid, text });
    }
    found.sort_by_key(|v| match v.level {
        Level::Invalid => 0,
        Level::Warning => 1,
        Level::Valid => 2,
        Level::Note => 3,
    });
    found
}

type Say<'a> = dyn FnMut(&str, Level, String) + 'a;
