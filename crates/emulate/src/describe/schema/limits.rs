//! Schema of rate limits, and of the rules that compute the limits of a volume from its size and options.

use super::{GIB, PIB, S, US, bandwidth, count, flag, size, time};
use iodyno_catalog::{Key, ValueType};

/// The table `[iops_limit]`. `describe::limit` has the rules between its optional keys.
pub(super) const IOPS_LIMIT: &[Key] = &[
    Key::optional("iops_limit.of", ValueType::Word(&["reads", "writes"])),
    count("iops_limit.rate", 1..=OPERATIONS_MAX).ruled(IOPS_RULE),
    time("iops_limit.window", US..=60 * S),
    Key { required: false, ..count("iops_limit.burst", 1..=OPERATIONS_MAX) }.ruled(IOPS_RULE),
    Key { required: false, ..count("iops_limit.credits", 1..=CREDITS_MAX) }.ruled(CREDITS_RULE),
    Key { required: false, ..count("iops_limit.start", 0..=CREDITS_MAX) },
    Key { required: false, ..count("iops_limit.on_demand", 1..=OPERATIONS_MAX) },
    Key { required: false, ..size("iops_limit.account", 512..=GIB) },
    Key { required: false, ..flag("iops_limit.merge") },
];
/// The table `[throughput_limit]`: the counterpart of [`IOPS_LIMIT`] for bytes per second.
pub(super) const THROUGHPUT_LIMIT: &[Key] = &[
    Key::optional("throughput_limit.of", ValueType::Word(&["reads", "writes"])),
    bandwidth("throughput_limit.rate").ruled(THROUGHPUT_RULE),
    time("throughput_limit.window", US..=60 * S),
    Key { required: false, ..bandwidth("throughput_limit.burst") }.ruled(THROUGHPUT_RULE),
    Key { required: false, ..size("throughput_limit.credits", 512..=PIB) }
        .ruled(THROUGHPUT_CREDITS_RULE),
    Key { required: false, ..size("throughput_limit.start", 0..=PIB) },
    Key { required: false, ..bandwidth("throughput_limit.on_demand") },
    Key { required: false, ..size("throughput_limit.account", 512..=GIB) },
    Key { required: false, ..flag("throughput_limit.merge") },
];
/// Keys of a rule for the size of a volume.
pub(super) const SIZE_RULE: &[Key] = &[
    Key::optional("chosen", ValueType::Word(&["size"])),
    Key::optional("at_least", ValueType::Size(GIB, PIB)),
    Key::optional("at_most", ValueType::Size(GIB, PIB)),
];
/// Keys of a rule for a rate of operations.
const IOPS_RULE: &[Key] = &[
    Key::optional("chosen", ValueType::Word(&["iops"])),
    Key::optional("per_gib", ValueType::Number(0.0, 1e8)),
    Key::optional("by_size", ValueType::Map(&ValueType::Count(1, OPERATIONS_MAX))),
    Key::optional("at_least", ValueType::Count(1, OPERATIONS_MAX)),
    Key::optional("at_most", ValueType::Count(1, OPERATIONS_MAX)),
    Key::optional("at_most_per_gib", ValueType::Number(0.0, 1e8)),
];
/// Keys of a rule for a throughput.
const THROUGHPUT_RULE: &[Key] = &[
    Key::optional("chosen", ValueType::Word(&["MB/s", "MiB/s"])),
    Key::optional("per_gib", ValueType::Bandwidth(1.0, 1e11)),
    Key::optional("per_iops", ValueType::Size(1, GIB)),
    Key::optional("by_size", ValueType::Map(&ValueType::Bandwidth(1e6, 1e11))),
    Key::optional("at_least", ValueType::Bandwidth(1e6, 1e11)),
    Key::optional("at_most", ValueType::Bandwidth(1e6, 1e11)),
    Key::optional("at_most_per_iops", ValueType::Size(1, GIB)),
];
/// Keys of a rule for burst credits.
const CREDITS_RULE: &[Key] = &[Key::optional("lasts", ValueType::Time(1, 1000 * 3600 * S))];
/// Keys of a rule for burst credits in bytes.
const THROUGHPUT_CREDITS_RULE: &[Key] =
    &[CREDITS_RULE[0], Key::optional("per_gib", ValueType::Size(1, PIB))];
/// Maximum rate of a limit, in operations per second.
const OPERATIONS_MAX: u64 = 100_000_000;
/// Maximum number of credits, in operations.
const CREDITS_MAX: u64 = 1_000_000_000_000;
