//! Judges the effects of storage layers between a target and its devices: delays, caches, copies, failed members.

use super::{Level, Say};
use crate::cell::Cell;
use crate::interval::{ClassStats, Interval};
use crate::storage::{Effect, LayerEffect};
use iodyno_units::OpKind;

/// Reports effects of storage layers on the figures, one verdict per kind of effect.
pub(super) fn layers(cell: &Cell, total: &Interval, say: &mut Say) {
    let e = &cell.evidence;
    let Some(storage) = e.storage.as_ref().filter(|_| !e.virtual_time) else { return };
    let writes = total.class(OpKind::Write).map_or(0, ClassStats::ops) > 0;
    // On memory (MEMORY), no other verdict is above a note.
    let at_most = |level: Level| if e.is_memory() { Level::Note } else { level };
    let (mut warned, mut noted) = (Vec::new(), Vec::new());
    for found in &storage.effects {
        match of(found, writes) {
            Some((Level::Warning, text)) => warned.push(text),
            Some((_, text)) => noted.push(text),
            None => {}
        }
    }
    if !warned.is_empty() {
        let all = warned.join("; ");
        say(
            "LAYER",
            at_most(Level::Warning),
            format!(
                "{all}: these figures are not the device's alone; measure the underlying device"
            ),
        );
    }
    if !noted.is_empty() {
        say("LAYER", Level::Note, format!("{}: the figures include this effect", noted.join("; ")));
    }
    for set in storage.effects.iter().filter(|of| of.effect == Effect::Degraded) {
        let missing = set.amount.as_deref().unwrap_or("members");
        say(
            "RAID_DEGRADED",
            at_most(Level::Warning),
            format!(
                "{} ({}) lacks {missing}: the remaining members serve all reads and writes; replace the failed members, wait for the rebuild, and measure again",
                set.layer, set.driver
            ),
        );
    }
    let buffers = storage.effects.iter().find(|of| of.effect == Effect::BuffersWrites);
    if let Some(file_system) = buffers.filter(|_| writes && e.direct == Some(true)) {
        say(
            "CHECKSUMMED",
            Level::Note,
            format!(
                "{} passes direct writes through the page cache because it keeps checksums, and waits for each write: writes are slower than on the device; a file created after chattr +C on its folder has no checksums",
                file_system.layer
            ),
        );
    }
}

/// Describes a layer's effect, with the level `Warning` if the figures are not those of the device, and `Note`
/// otherwise. `writes` tells whether the cell writes. None if another verdict covers the effect, or it does not affect
/// this cell.
fn of(found: &LayerEffect, writes: bool) -> Option<(Level, String)> {
    let amount = found.amount.as_deref();
    let where_writes = |level| if writes { level } else { Level::Note };
    let by = |text: &str| amount.map_or(String::new(), |amount| format!("{text}{amount}"));
    let (level, does) = match found.effect {
        Effect::Delays => (Level::Warning, format!("delays operations{}", by(" by "))),
        Effect::Fails => (Level::Warning, format!("fails operations on purpose{}", by(" "))),
        Effect::Caches => {
            (Level::Warning, "answers some reads from a second, faster device".to_owned())
        }
        Effect::CachesWrites => {
            (where_writes(Level::Warning), "holds writes on a second, faster device".to_owned())
        }
        Effect::CopiesOnWrite => (
            where_writes(Level::Warning),
            "copies blocks at their first write, so later writes are faster".to_owned(),
        ),
        Effect::RecordsWrites => {
            (where_writes(Level::Warning), "writes all data to a second device too".to_owned())
        }
        Effect::Resyncs => (Level::Warning, format!("was doing background work{}", by(": "))),
        Effect::Allocates => (
            Level::Note,
            "allocates blocks at their first write, and reads of unallocated blocks touch no medium".to_owned(),
        ),
        Effect::Reduces => (Level::Note, "compresses and deduplicates".to_owned()),
        Effect::Encrypts => (Level::Note, "encrypts on this machine's processors".to_owned()),
        Effect::Verifies => (Level::Note, "keeps and verifies checksums".to_owned()),
        Effect::Degraded | Effect::BuffersWrites | Effect::Unknown => return None,
    };
    Some((level, format!("{} ({}) {does}", found.layer, found.driver)))
}
