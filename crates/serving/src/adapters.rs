//! Fault commands for RAID adapters: checks that the adapters, links and volumes in a command exist, lists the commands
//! that clear all faults, and describes the faults in effect.

use iodyno_emulate::{AdapterFault, AdaptersState, System};
use iodyno_live::frontend::Served;
use iodyno_units::human;
use iodyno_units::text::numbered;

/// How many adapters, links and volumes a system has, to check the numbers in fault commands.
#[derive(Clone, Copy, Default)]
pub(crate) struct Named {
    adapters: u32,
    links: u32,
    has_cache: bool,
    /// Number of volumes behind the adapters.
    volumes: u32,
}

impl Named {
    /// Counts the adapters, links and volumes of a system; all are 0 if it has no adapters.
    pub(crate) fn of(system: &System) -> Self {
        let Some(adapters) = &system.adapters else { return Self::default() };
        let links = if adapters.count > 1 { adapters.aa_links } else { 0 };
        Self {
            adapters: adapters.count,
            links,
            has_cache: adapters.cache.is_some(),
            volumes: system.paths().count() as u32,
        }
    }

    /// Checks that a fault names an existing adapter, link or cache.
    pub(crate) fn check(self, fault: AdapterFault) -> Result<(), String> {
        let Self { adapters, links, has_cache, volumes } = self;
        if adapters == 0 {
            return Err("this system has no RAID adapters".to_owned());
        }
        match fault {
            AdapterFault::BatteryFails { .. } if !has_cache => {
                Err("the adapters have no cache, or it is turned off".to_owned())
            }
            AdapterFault::LinkDown { .. } | AdapterFault::LinkUp { .. } if links == 0 => {
                Err("this system has a single adapter, and so no link between adapters".to_owned())
            }
            AdapterFault::LinkDown { link } | AdapterFault::LinkUp { link } if link >= links => {
                Err(no_such("link aa", link, links as usize))
            }
            AdapterFault::Lose { adapter }
            | AdapterFault::Replace { adapter }
            | AdapterFault::Clear { adapter }
            | AdapterFault::BatteryFails { adapter }
            | AdapterFault::Access { on: Some(adapter), .. }
            | AdapterFault::Access { from: adapter, .. }
                if adapter >= adapters =>
            {
                Err(no_such("adapter", adapter, adapters as usize))
            }
            AdapterFault::Access { volume, .. } if volume >= volumes => {
                Err(no_such("volume", volume, volumes as usize))
            }
            _ => Ok(()),
        }
    }
}

/// Error message for a nonexistent adapter, link or volume. `what` names its kind, and `count` is the number
/// of existing ones.
pub(crate) fn no_such(what: &str, number: u32, count: usize) -> String {
    match count {
        0 => format!("there is no {what}"),
        1 => format!("there is no {what} {number}: the only number is 0"),
        _ => format!("there is no {what} {number}: the numbers are 0 to {}", count - 1),
    }
}

/// Returns the commands that clear all faults of adapters and links.
pub(crate) fn clear_adapters(live: &Served) -> Vec<AdapterFault> {
    let Some(state) = live.look(|machine, _, _| machine.adapters()) else { return Vec::new() };
    let adapters = (0..state.adapters.len() as u32).map(|adapter| AdapterFault::Clear { adapter });
    let links = (0..state.links_down.len() as u32).map(|link| AdapterFault::LinkUp { link });
    adapters.chain(links).collect()
}

/// Describes the state of the adapters as text, one line per adapter.
pub(crate) fn adapters_in_words(state: &AdaptersState) -> String {
    let mut lines = Vec::new();
    for (number, adapter) in state.adapters.iter().enumerate() {
        let what = if adapter.lost {
            "gone until `clear` or `replace`".to_owned()
        } else {
            format!("serves {}", numbered("volume", &adapter.volumes))
        };
        let battery =
            if adapter.battery_failed { "; the battery of its cache has failed" } else { "" };
        lines.push(format!("adapter {number}: {what}{battery}"));
    }
    if !state.cleared.is_empty() && state.adapters.len() > 1 {
        let volumes = numbered("volume", &state.cleared);
        lines.push(format!("{volumes}: access state cleared (optimized on the primary)"));
    }
    for (number, _) in state.links_down.iter().enumerate().filter(|link| *link.1) {
        lines.push(format!("link aa {number}: down until `clear`"));
    }
    if !state.volumes_down.is_empty() {
        let volumes = numbered("volume", &state.volumes_down);
        let them = if state.volumes_down.len() == 1 { "it" } else { "them" };
        lines.push(format!("{volumes}: no adapter can serve {them}, so all operations fail"));
    }
    if state.has_cache {
        let dirty = human::size(state.dirty_bytes);
        let how = match (state.is_caching, state.is_mirrored) {
            (true, true) => "in both adapters",
            (true, false) => "in one adapter",
            (false, _) => "off, so writes are acknowledged once they are on the devices",
        };
        lines.push(format!("cache: {how}; {dirty} dirty"));
    }
    lines.join("\n")
}
