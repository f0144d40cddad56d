//! Finds parameters that determine the capacity of the bottleneck and whose values are only assumed. They make the
//! result uncertain.

use crate::candidate::Candidate;
use iodyno_emulate::describe::{Parameter, Source};

/// Prefixes of resource names, each with the keys of device and system files that determine the resource's
/// capacity.
const KEYS: &[(&str, &[&str])] = &[
    (
        "controller",
        &[
            "controller.read_command",
            "controller.write_command",
            "controller.copy",
            "controller.turn",
            "interface.command",
        ],
    ),
    (
        "flash dies",
        &[
            "nand.read",
            "nand.program_fast",
            "nand.program_slow",
            "nand.channels",
            "nand.dies_per_channel",
            "nand.programs_max",
        ],
    ),
    ("flash channels", &["nand.channels", "nand.channel_rate"]),
    ("programs at once", &["nand.programs_max", "nand.program_fast", "nand.program_slow"]),
    ("read contexts", &["controller.read_contexts", "nand.read"]),
    ("link", &["link.read", "link.write", "interface.rate"]),
    (
        "heads",
        &[
            "seek.average",
            "seek.full_stroke",
            "satf.window",
            "cache.buffer",
            "platters.rpm",
            "shingled.band",
            "shingled.entries",
        ],
    ),
    (
        "adapter",
        &["adapters.read", "adapters.write", "adapters.device", "cache.write", "cache.mirror"],
    ),
    ("parity", &["adapters.xor", "adapters.gf"]),
    ("slot", &["gen1.read", "gen1.write", "gen2.read", "gen2.write", "gen3.read", "gen3.write"]),
    ("mirror", &["cache.mirror_rate", "adapters.aa_links"]),
    ("drawer", &["drawers.rate", "drawers.count"]),
    ("memory", &["host.memory", "host.memory_channel"]),
    (
        "driver thread",
        &[
            "memory_channel.devices_per_thread",
            "memory_channel.command",
            "memory_channel.read_copy",
            "memory_channel.write_copy",
            "host.driver_write",
        ],
    ),
];

/// Lists the parameters that determine the capacity of the resource `binds` and are assumptions without a source,
/// such as `controller.turn = 3.9us`.
pub(crate) fn assumed(of: &Candidate, binds: &str) -> Vec<String> {
    let keys = KEYS.iter().filter(|(name, _)| binds.contains(name)).flat_map(|(_, keys)| *keys);
    let keys: Vec<&str> = keys.copied().collect();
    let is_assumed = |p: &&Parameter| p.from == Source::Assumed && keys.contains(&p.key);
    let all = of.device.parameters.iter().chain(&of.host_parameters);
    all.filter(is_assumed).map(|p| format!("{} = {}", p.key, p.text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_catalog::{Kind, find, list};

    /// Every key in the list exists in some file of the catalog; a misspelt key would never match.
    #[test]
    fn every_key_is_one_of_the_catalog() {
        let files = [Kind::Device, Kind::System].into_iter().flat_map(|kind| {
            list(kind).map(move |(name, _)| find(kind, name).unwrap().text.to_string())
        });
        let files: Vec<String> = files.collect();
        let is_in = |text: &str, table: &str, key: &str| {
            let after = text.split_once(&format!("\n[{table}]\n")).map(|(_, after)| after);
            let table = after.map(|after| after.split("\n[").next().unwrap_or_default());
            table.is_some_and(|lines| lines.lines().any(|l| l.starts_with(&format!("{key} = "))))
        };
        for key in KEYS.iter().flat_map(|(_, keys)| *keys) {
            let (table, name) = key.split_once('.').unwrap();
            assert!(files.iter().any(|text| is_in(text, table, name)), "{key}");
        }
    }
}
