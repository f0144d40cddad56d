//! The keys of a workload file, with the form of each value. `docs/formats/workload.md` defines their
//! meaning, `from_file.rs` builds a specification from them, and `rules.rs` has the limits, which apply to
//! flags, too.

use iodyno_catalog::{COUNT, Key, NUMBER, TIME, ValueType};

/// Keys of a workload file, or, without the header, of a table of a method.
pub const KEYS: &[Key] = &[
    Key::optional("schema", ValueType::Header),
    Key::optional("about", ValueType::Text),
    Key::optional("source", ValueType::Text),
    Key::optional("group", ValueType::List(&ValueType::Text)).such_as("[\"random-read\"]"),
    Key::optional("threads", COUNT),
    Key::optional("depth", COUNT),
    Key::optional("submit_batch", COUNT),
    block("block"),
    Key::optional("align", ValueType::Bytes),
    Key::optional("address_align", ValueType::Bytes),
    Key::optional("worker_step", ValueType::Bytes),
    Key::optional("active", ValueType::Text).such_as("\"0%..100%\""),
    Key::optional("file_set", ValueType::Table(FILE_SET)),
    Key::optional("log", ValueType::Table(LOG)),
    Key::optional("mix", ValueType::Table(MIX)),
    Key::optional("new_file", ValueType::Word(&["written", "allocated", "empty"])),
    Key::optional("mix_order", ValueType::Word(&["drawn", "ratio"])),
    Key::optional("flush", ValueType::Table(FLUSH)),
    Key::optional("all", ValueType::Table(&[addresses("all.addresses")])),
    Key::optional("read", ValueType::Table(&[block("read.block"), addresses("read.addresses")])),
    Key::optional("write", ValueType::Table(WRITE)),
    Key::optional("trim", ValueType::Table(&[block("trim.block"), addresses("trim.addresses")])),
    Key::optional("write_zeroes", ValueType::Table(WRITE_ZEROES)),
    Key::optional("arrivals", ValueType::Table(ARRIVALS)),
    Key::optional("content", ValueType::Table(CONTENT)),
    Key::optional("limits", ValueType::Table(LIMITS)),
];

const fn block(path: &'static str) -> Key {
    Key::optional(path, ValueType::TablesOrFirst(BLOCKS)).such_as("\"4KiB\"")
}

const fn addresses(path: &'static str) -> Key {
    Key::optional(path, ValueType::TablesOrFirst(ADDRESSES)).such_as("\"uniform\"")
}

const fn share(path: &'static str) -> Key {
    Key::optional(path, NUMBER).such_as("70")
}

const FILE_SET: &[Key] = &[
    Key::required("file_set.files", COUNT).such_as("64"),
    Key::required("file_set.size", ValueType::Text).such_as("\"50%\""),
    Key::optional("file_set.extent", ValueType::Bytes),
];

const LOG: &[Key] = &[
    Key::optional("log.message", ValueType::Bytes).such_as("\"512B\""),
    Key::optional("log.rate", ValueType::Rate).such_as("\"1M/s\""),
    Key::optional("log.publishers", COUNT),
    Key::optional("log.backlog", COUNT),
    Key::optional("log.when_full", ValueType::Word(&["block", "drop"])),
    Key::optional("log.durability", ValueType::Word(&["none", "batch", "each"])),
    Key::optional("log.fua", ValueType::Flag),
    Key::optional("log.batch", COUNT),
    Key::optional("log.commit", COUNT),
    Key::optional("log.readers", COUNT),
    Key::optional("log.replay", COUNT),
];

const MIX: &[Key] = &[
    share("mix.read"),
    share("mix.write"),
    share("mix.flush"),
    share("mix.trim"),
    share("mix.write_zeroes"),
];

const WRITE: &[Key] = &[
    block("write.block"),
    addresses("write.addresses"),
    Key::optional("write.fua", ValueType::Percent),
    Key::optional("write.flush_every", COUNT),
    Key::optional("write.flush_again", ValueType::Flag),
    Key::optional("write.flush_at_end", COUNT),
    Key::optional("write.read_back", COUNT),
];

const WRITE_ZEROES: &[Key] = &[block("write_zeroes.block"), addresses("write_zeroes.addresses")];

const FLUSH: &[Key] =
    &[Key::required("flush.every", COUNT).such_as("100"), Key::optional("flush.burst", COUNT)];

/// Keys of one size in a distribution.
const BLOCKS: &[Key] = &[
    Key::required("size", ValueType::Bytes).such_as("\"4KiB\""),
    Key::required("share", NUMBER).such_as("60"),
];

/// Keys of one address pattern.
const ADDRESSES: &[Key] = &[
    Key::required("pattern", ValueType::Kind(PATTERNS, "the pattern")),
    share("share"),
    Key::optional("once_per_pass", ValueType::Flag).only(&["uniform"]),
    Key::optional("shared", ValueType::Flag).only(&["sequential"]),
    Key::optional("run", COUNT).only(&["sequential"]),
    Key::optional("to_end", ValueType::Flag).only(&["sequential"]),
    Key::optional("skip", ValueType::Bytes).only(&["sequential"]),
    Key::optional("jump", ValueType::Percent).only(&["sequential"]),
    Key::optional("streams", COUNT).only(&["sequential"]),
    Key::required("theta", NUMBER).only(&["zipf"]).such_as("0.9"),
    Key::required("h", NUMBER).only(&["pareto"]).such_as("0.2"),
    Key::optional("deviation", ValueType::Percent).only(&["normal"]),
    Key::required("zone", ValueType::Bytes).only(&["zones"]).such_as("\"256MiB\""),
    Key::required("open", COUNT).only(&["zones"]).such_as("32"),
    Key::required("spots", ValueType::Tables(SPOTS))
        .only(&["hot-spots"])
        .such_as("[{ share = 80, range = \"20%\" }, { share = 20, range = \"80%\" }]"),
    Key::optional("scatter", ValueType::Flag).only(&["hot-spots"]),
    Key::optional("window", COUNT).only(&["recently-read", "recently-written"]),
    Key::required("stride", ValueType::Bytes).only(&["strided"]).such_as("\"64KiB\""),
    Key::optional("start", ValueType::Bytes).only(&["strided"]),
    Key::optional("backward", ValueType::Flag).only(&["strided"]),
];

const PATTERNS: &[&str] = &[
    "uniform",
    "sequential",
    "zipf",
    "pareto",
    "normal",
    "zones",
    "hot-spots",
    "recently-read",
    "recently-written",
    "strided",
];

const SPOTS: &[Key] = &[
    Key::required("share", NUMBER).such_as("80"),
    Key::required("range", ValueType::Percent).such_as("\"20%\""),
];

const ARRIVALS: &[Key] = &[
    Key::required("arrivals.kind", ValueType::Kind(&["closed", "open"], "a loop that is")),
    Key::optional("arrivals.think_time", TIME),
    Key::optional("arrivals.think_drains", ValueType::Flag).only(&["closed"]),
    Key::optional("arrivals.think_after", COUNT),
    Key::optional("arrivals.think_after_time", TIME),
    Key::optional("arrivals.think_shifts", ValueType::Flag).only(&["open"]),
    Key::optional("arrivals.refill_at", COUNT).only(&["closed"]),
    Key::optional("arrivals.flow", COUNT),
    Key::required("arrivals.rate", ValueType::Rate).only(&["open"]),
    Key::optional("arrivals.process", ValueType::Word(&["poisson", "constant"])).only(&["open"]),
];

const CONTENT: &[Key] = &[
    Key::required(
        "content.kind",
        ValueType::Kind(
            &["incompressible", "compressible", "verifiable", "zeroes"],
            "content of the kind",
        ),
    ),
    Key::optional("content.compressible", ValueType::Percent).only(&["compressible"]),
    Key::optional("content.dedupable", ValueType::Percent).only(&["compressible"]),
];

const LIMITS: &[Key] = &[
    Key::optional("limits.time", TIME).such_as("\"10s\""),
    Key::optional("limits.ops", COUNT),
    Key::optional("limits.bytes", ValueType::Bytes),
    Key::optional("limits.ramp", TIME).such_as("\"1s\""),
    Key::optional("limits.passes", NUMBER).such_as("1"),
    Key::optional("limits.start_after", TIME).such_as("\"5s\""),
    Key::optional("limits.ends_others", ValueType::Flag),
    Key::optional("limits.steady", ValueType::Table(STEADY)),
];

const STEADY: &[Key] = &[
    Key::required("limits.steady.of", ValueType::Word(&["iops", "bandwidth", "latency"])),
    Key::optional("limits.steady.by", ValueType::Word(&["deviation", "slope"])),
    Key::required("limits.steady.within", ValueType::Percent).such_as("\"5%\""),
    Key::required("limits.steady.window", TIME).such_as("\"30s\""),
    Key::optional("limits.steady.after", TIME),
];
