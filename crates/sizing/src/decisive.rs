//! Finds parameters that determine the capacity of the bottleneck and whose values are only assumed. They make the
//! result uncertain.

use crate::candidate::Candidate;
use iodyno_emulate::describe::{Parameter, Source};
use iodyno_units::human;

/// Prefixes of resource names, each with the keys of device and system files that determine the resource's
/// capacity. The first match counts.
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
    ("link to the other adapter", &["cache.mirror_rate", "adapters.aa_links"]),
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
        "adapter's processor",
        &["adapters.read", "adapters.write", "adapters.device", "cache.write", "cache.mirror"],
    ),
    ("adapter's parity engine", &["adapters.xor", "adapters.gf"]),
    ("slot", &["gen1.read", "gen1.write", "gen2.read", "gen2.write", "gen3.read", "gen3.write"]),
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

/// Name of the processor that computes the parity of a software array. Its parameters are defaults of the emulator, in no
/// file.
const ARRAY: &str = "array's processor";

/// Lists the parameters that determine the capacity of the resource `binds` and are assumptions without a source,
/// such as `controller.turn = 3.9us`.
pub(crate) fn assumed(of: &Candidate, binds: &str) -> Vec<String> {
    if let Some((stripe_ns, bytes_per_s)) = of.parity.filter(|_| binds == ARRAY) {
        let (stripe, parity) = (human::time_ns(stripe_ns as f64), human::throughput(bytes_per_s));
        return vec![format!("{stripe} per stripe"), format!("parity at {parity}")];
    }
    let keys = keys(binds);
    let is_assumed = |p: &&Parameter| p.from == Source::Assumed && keys.contains(&p.key);
    let all = of.device.parameters.iter().chain(&of.host_parameters);
    all.filter(is_assumed).map(|p| format!("{} = {}", p.key, p.text)).collect()
}

/// Keys of the parameters that determine the capacity of this resource.
fn keys(resource: &str) -> &'static [&'static str] {
    KEYS.iter().find(|(name, _)| resource.starts_with(name)).map_or(&[], |of| of.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::{Choice, candidates};
    use crate::demand::Demand;
    use crate::simulate::{Arrays, Condition, Effort, How, under};
    use iodyno_raid::Level;
    use iodyno_workload::Spec;
    use std::sync::Arc;

    /// Each resource of the storage has keys, which are those of its own parameters.
    #[test]
    fn every_resource_has_its_own_keys() {
        let spec = Spec::from_toml("schema = 1\nmix = { read = 60, write = 40 }\n").unwrap();
        let demand = Demand::new("x".to_owned(), spec, 50.0, 1_000_000);
        let how = How { effort: Effort::Search, condition: Condition::Whole };
        let mut seen = 0;
        let all = [
            (Some("57ce-gen3"), "ssd-gen3-emlc"),
            (None, "exflash-400g"),
            (Some("57ce-gen3"), "hdd-15k-sas-80g"),
        ];
        for (host, device) in all {
            let hosts = host.map(str::to_owned).into_iter().collect();
            let devices = vec![device.to_owned()];
            let choice = Choice { hosts, devices, levels: vec![Level::Raid5], width: None };
            let of = &candidates(&choice).unwrap()[0];
            let arrays = Arrays { of, arrays: 1, all_arrays: 1 };
            let measured = under(&demand, arrays, 50.0, how, &Arc::default()).unwrap();
            for share in measured.shares.iter().filter(|share| share.name != "generator cores") {
                let is_of_array = share.name == ARRAY;
                assert_eq!(keys(&share.name).is_empty(), is_of_array, "{}", share.name);
                assert!(!is_of_array || assumed(of, ARRAY).len() == 2);
                seen += 1;
            }
        }
        assert!(seen > 15, "{seen}");
        let of = |resource: &str| keys(resource).first().copied();
        assert_eq!(of("slot, adapter to host"), Some("gen1.read"));
        assert_eq!(of("link to the other adapter"), Some("cache.mirror_rate"));
        assert_eq!(of("adapter's parity engine"), Some("adapters.xor"));
    }

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
