//! Assumed parameters that decide which resource binds first.

use crate::candidate::Candidate;
use iodyno_emulate::describe::{Parameter, Source};

/// Resources, by the beginning of their names, and the keys of device and system files that determine their capacity.
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
    ("heads", &["seek.average", "seek.full_stroke", "satf.window", "cache.buffer", "platters.rpm"]),
    (
        "adapter",
        &["adapters.read", "adapters.write", "adapters.device", "cache.write", "cache.mirror"],
    ),
    ("parity", &["adapters.xor", "adapters.gf"]),
    ("slot", &["gen1.read", "gen1.write", "gen2.read", "gen2.write", "gen3.read", "gen3.write"]),
    ("mirror", &["cache.mirror_rate", "adapters.aa_links"]),
    ("drawer", &["drawers.rate", "drawers.count"]),
    ("memory", &["host.memory", "host.memory_channel"]),
    ("driver thread", &["driver.read", "driver.write", "driver.copy", "driver.threads"]),
];

/// Assumed parameters of a resource, such as `controller.turn = 3.9us`.
pub(crate) fn assumed(of: &Candidate, binds: &str) -> Vec<String> {
    let keys = KEYS.iter().filter(|(name, _)| binds.contains(name)).flat_map(|(_, keys)| *keys);
    let keys: Vec<&str> = keys.copied().collect();
    let is_assumed = |p: &&Parameter| p.from == Source::Assumed && keys.contains(&p.key);
    let all = of.device.parameters.iter().chain(&of.host_parameters);
    all.filter(is_assumed).map(|p| format!("{} = {}", p.key, p.text)).collect()
}
